//! What a client asked for in CONNECT, as far as it changes how its messages are handled.

use protocol::info::ConnectOptions;

/// How the connection wants to be treated. The default holds until CONNECT (core-protocol, section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the protocol's CONNECT")]
pub struct Settings {
    /// `+OK` for every operation.
    pub verbose: bool,
    /// Check publish subjects.
    pub pedantic: bool,
    /// Deliver its own messages to it.
    pub echo: bool,
    /// It understands headers.
    pub headers: bool,
    /// Tell it when nobody listens.
    pub no_responders: bool,
    /// It understands INFO at any time.
    pub async_info: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            echo: true,
            headers: false,
            no_responders: false,
            async_info: false,
        }
    }
}

/// Why a CONNECT is refused; each closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// `protocol` is neither 0 nor 1.
    #[error("invalid client protocol")]
    InvalidProtocol,
    /// `no_responders` without `headers`.
    #[error("no responders requires headers support")]
    NoRespondersNeedsHeaders,
    /// A client tried to name its account itself (CVE-2022-24450).
    #[error("Authorization Violation")]
    AccountNamed,
}

impl Settings {
    /// Reads the settings out of a CONNECT; `server_headers` tells if this server supports headers at all.
    pub fn from_connect(connect: &ConnectOptions, server_headers: bool) -> Result<Self, ConnectError> {
        if !matches!(connect.protocol, 0 | 1) {
            return Err(ConnectError::InvalidProtocol);
        }
        if connect.account.as_deref().is_some_and(|name| !name.is_empty())
            || connect.new_account == Some(true)
        {
            return Err(ConnectError::AccountNamed);
        }
        let headers = connect.headers && server_headers;
        if connect.no_responders && !headers {
            return Err(ConnectError::NoRespondersNeedsHeaders);
        }
        Ok(Self {
            verbose: connect.verbose,
            pedantic: connect.pedantic,
            echo: connect.echo,
            headers,
            no_responders: connect.no_responders,
            async_info: connect.protocol >= 1,
        })
    }
}
