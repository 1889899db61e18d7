//! What a peer is told when something goes wrong (`-ERR`), and why a connection ended.

/// Parse error.
pub const UNKNOWN_OPERATION: &str = "Unknown Protocol Operation";
/// A line is longer than `max_control_line`.
pub const CONTROL_LINE_EXCEEDED: &str = "maximum control line exceeded";
/// Credentials refused, or an operation before CONNECT.
pub const AUTHORIZATION_VIOLATION: &str = "Authorization Violation";
/// No CONNECT in time.
pub const AUTHENTICATION_TIMEOUT: &str = "Authentication Timeout";
/// The user's right has run out.
pub const USER_AUTHENTICATION_EXPIRED: &str = "User Authentication Expired";
/// The account's right has run out.
pub const ACCOUNT_AUTHENTICATION_EXPIRED: &str = "Account Authentication Expired";
/// The user was revoked.
pub const USER_AUTHENTICATION_REVOKED: &str = "User Authentication Revoked";
/// The account could not be set up.
pub const FAILED_ACCOUNT_REGISTRATION: &str = "Failed Account Registration";
/// A payload is larger than `max_payload`.
pub const PAYLOAD_VIOLATION: &str = "Maximum Payload Violation";
/// The server has all the connections it may have.
pub const CONNECTIONS_EXCEEDED: &str = "maximum connections exceeded";
/// The account has all the connections it may have.
pub const ACCOUNT_CONNECTIONS_EXCEEDED: &str = "maximum account active connections exceeded";
/// The connection or account has all the subscriptions it may have. Does not close by itself.
pub const SUBSCRIPTIONS_EXCEEDED: &str = "maximum subscriptions exceeded";
/// Too many PINGs without an answer.
pub const STALE_CONNECTION: &str = "Stale Connection";
/// Plain text where TLS is required.
pub const TLS_REQUIRED: &str = "Secure Connection - TLS Required";
/// CONNECT names a protocol level that does not exist.
pub const INVALID_CLIENT_PROTOCOL: &str = "invalid client protocol";
/// CONNECT asks for `no_responders` without `headers`.
pub const NO_RESPONDERS_NEEDS_HEADERS: &str = "no responders requires headers support";
/// A client on the port for routes.
pub const CONNECTED_TO_ROUTE_PORT: &str = "attempted to connect to route port";
/// A client on the port for leafnodes.
pub const CONNECTED_TO_LEAFNODE_PORT: &str = "attempted to connect to leaf node port";
/// A client on the port for gateways.
pub const CONNECTED_TO_GATEWAY_PORT: &str = "attempted to connect to gateway port";
/// A server on a port that is not for its kind of connection.
pub const CONNECTED_TO_WRONG_PORT: &str = "attempted to connect to wrong port";
/// Too many TLS handshakes at a time.
pub const THROTTLED: &str = "Connection throttling is active. Please try again later.";
/// SUB with an invalid subject. Does not close.
pub const INVALID_SUBJECT: &str = "Invalid Subject";
/// PUB with an invalid subject in pedantic mode. Does not close.
pub const INVALID_PUBLISH_SUBJECT: &str = "Invalid Publish Subject";

/// How the texts about missing rights begin. None of them closes.
const PERMISSIONS_VIOLATION: &str = "Permissions Violation";

/// Whether the connection is closed after this text.
pub fn closes(text: &str) -> bool {
    !(matches!(text, INVALID_SUBJECT | INVALID_PUBLISH_SUBJECT | SUBSCRIPTIONS_EXCEEDED)
        || text.starts_with(PERMISSIONS_VIOLATION))
}

/// The publisher may not publish to `subject`.
pub fn publish_violation(subject: &[u8]) -> String {
    format!("{PERMISSIONS_VIOLATION} for Publish to {}", quote(subject))
}

/// The publisher may not use `reply`.
pub fn reply_violation(reply: &[u8]) -> String {
    format!("{PERMISSIONS_VIOLATION} for Publish with Reply of {}", quote(reply))
}

/// The subscriber may not subscribe to `subject`, as a member of `queue` if one is named.
pub fn subscription_violation(subject: &[u8], queue: Option<&[u8]>) -> String {
    let mut text = format!("{PERMISSIONS_VIOLATION} for Subscription to {}", quote(subject));
    if let Some(queue) = queue {
        text.push_str(" using queue ");
        text.push_str(&quote(queue));
    }
    text
}

/// A subscription was taken back by a reload.
pub fn subscription_revoked(subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) -> String {
    format!("{} (sid {})", subscription_violation(subject, queue), quote(sid))
}

/// `subject` has more tokens than a subscription may have.
pub fn too_many_tokens(subject: &[u8]) -> String {
    format!("{}, too many tokens", subscription_violation(subject, None))
}

/// A peer belongs to a cluster of another name.
pub fn cluster_name_conflict(theirs: &str, ours: &str) -> String {
    format!(
        "Rejecting connection, cluster name {} does not match {}",
        quote(theirs.as_bytes()),
        quote(ours.as_bytes())
    )
}

/// A gateway on the port for routes.
pub fn gateway_on_route_port(gateway: &str) -> String {
    format!("Rejecting connection from gateway {} on the Route port", quote(gateway.as_bytes()))
}

/// A route dedicated to an account that this server does not dedicate a route to.
pub fn no_route_for_account(account: &str) -> String {
    format!("No route for account {}", quote(account.as_bytes()))
}

/// A compression mode that this server does not know.
pub fn unsupported_route_compression(mode: &str) -> String {
    format!("unsupported route compression mode {}", quote(mode.as_bytes()))
}

/// `text` in double quotes. What could end the text or the line is escaped, so that a subject that a peer chose
/// can never add a line of its own.
fn quote(text: &[u8]) -> String {
    use std::fmt::Write;

    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for chunk in text.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => out.extend(['\\', char]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x07' => out.push_str("\\a"),
                '\x08' => out.push_str("\\b"),
                '\x0b' => out.push_str("\\v"),
                '\x0c' => out.push_str("\\f"),
                // Writing to a string cannot fail.
                _ if char.is_ascii_control() => _ = write!(out, "\\x{:02x}", u32::from(char)),
                _ if char.is_control() => _ = write!(out, "\\u{:04x}", u32::from(char)),
                _ => out.push(char),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// Why bytes are not an operation. Each closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No operation starts like this.
    #[error("unknown protocol operation")]
    UnknownOperation,
    /// The line is too long, whether or not its end is here.
    #[error("maximum control line exceeded")]
    ControlLineExceeded,
    /// The announced payload is larger than allowed.
    #[error("payload of {size} bytes exceeds the maximum")]
    PayloadViolation {
        /// The announced size.
        size: usize,
    },
    /// A message with headers on a connection without.
    #[error("message headers not supported")]
    HeadersNotSupported,
    /// Wrong number or form of arguments.
    #[error("{0}")]
    BadArguments(&'static str),
    /// No CR LF after the announced size.
    #[error("payload is not followed by a line end")]
    BadPayloadEnd,
}

impl ParseError {
    /// The `-ERR` text that is sent before the connection is closed; `None` closes without a word.
    pub const fn wire_error(&self) -> Option<&'static str> {
        match self {
            Self::UnknownOperation | Self::BadPayloadEnd => Some(UNKNOWN_OPERATION),
            Self::ControlLineExceeded => Some(CONTROL_LINE_EXCEEDED),
            Self::PayloadViolation { .. } => Some(PAYLOAD_VIOLATION),
            Self::HeadersNotSupported | Self::BadArguments(_) => None,
        }
    }

    /// The reason the connection is closed with.
    pub const fn close_reason(&self) -> CloseReason {
        match self {
            Self::ControlLineExceeded => CloseReason::MaximumControlLineExceeded,
            Self::PayloadViolation { .. } => CloseReason::MaximumMessagePayloadExceeded,
            Self::UnknownOperation
            | Self::HeadersNotSupported
            | Self::BadArguments(_)
            | Self::BadPayloadEnd => CloseReason::ProtocolViolation,
        }
    }
}

macro_rules! close_reasons {
    ($($name:ident => $text:literal,)*) => {
        /// Why a connection ended, as monitoring and events show it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are the texts")]
        pub enum CloseReason {
            $($name,)*
        }

        impl CloseReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The text in monitoring.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

close_reasons! {
    ClientClosed => "Client Closed",
    AuthenticationTimeout => "Authentication Timeout",
    AuthenticationFailure => "Authentication Failure",
    TlsHandshakeFailure => "TLS Handshake Failure",
    SlowConsumerPendingBytes => "Slow Consumer (Pending Bytes)",
    SlowConsumerWriteDeadline => "Slow Consumer (Write Deadline)",
    WriteError => "Write Error",
    ReadError => "Read Error",
    ParseError => "Parse Error",
    StaleConnection => "Stale Connection",
    ProtocolViolation => "Protocol Violation",
    BadClientProtocolVersion => "Bad Client Protocol Version",
    IncorrectPort => "Incorrect Port",
    MaximumConnectionsExceeded => "Maximum Connections Exceeded",
    MaximumAccountConnectionsExceeded => "Maximum Account Connections Exceeded",
    MaximumMessagePayloadExceeded => "Maximum Message Payload Exceeded",
    MaximumControlLineExceeded => "Maximum Control Line Exceeded",
    MaximumSubscriptionsExceeded => "Maximum Subscriptions Exceeded",
    DuplicateRoute => "Duplicate Route",
    RouteRemoved => "Route Removed",
    ServerShutdown => "Server Shutdown",
    AuthenticationExpired => "Authentication Expired",
    WrongGateway => "Wrong Gateway",
    MissingAccount => "Missing Account",
    CredentialsRevoked => "Credentials Revoked",
    InternalClient => "Internal Client",
    MessageHeaderViolation => "Message Header Violation",
    NoRespondersRequiresHeaders => "No Responders Requires Headers",
    ClusterNameConflict => "Cluster Name Conflict",
    DuplicateRemoteLeafnodeConnection => "Duplicate Remote LeafNode Connection",
    DuplicateClientId => "Duplicate Client ID",
    DuplicateServerName => "Duplicate Server Name",
    MinimumVersionRequired => "Minimum Version Required",
    ClusterNamesIdentical => "Cluster Names Identical",
    Kicked => "Kicked",
    ProxyNotTrusted => "Proxy Not Trusted",
    ProxyRequired => "Proxy Required",
}

impl CloseReason {
    /// Whether the connection took its messages too slowly.
    #[must_use]
    pub const fn is_slow_consumer(self) -> bool {
        matches!(self, Self::SlowConsumerPendingBytes | Self::SlowConsumerWriteDeadline)
    }
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refused_operations_leave_the_connection_open() {
        for text in [
            INVALID_SUBJECT,
            INVALID_PUBLISH_SUBJECT,
            SUBSCRIPTIONS_EXCEEDED,
            &publish_violation(b"a"),
            &reply_violation(b"a"),
            &subscription_violation(b"a", Some(b"q")),
            &too_many_tokens(b"a"),
        ] {
            assert!(!closes(text), "{text}");
        }
        for text in
            [UNKNOWN_OPERATION, AUTHORIZATION_VIOLATION, PAYLOAD_VIOLATION, STALE_CONNECTION, THROTTLED]
        {
            assert!(closes(text), "{text}");
        }
    }

    #[test]
    fn every_parse_error_text_closes() {
        for error in [
            ParseError::UnknownOperation,
            ParseError::ControlLineExceeded,
            ParseError::PayloadViolation { size: 1 },
            ParseError::BadPayloadEnd,
        ] {
            assert!(error.wire_error().is_some_and(closes), "{error}");
        }
        assert_eq!(ParseError::HeadersNotSupported.wire_error(), None);
        assert_eq!(ParseError::BadArguments("x").wire_error(), None);
    }

    #[test]
    fn violations_have_the_exact_texts() {
        assert_eq!(publish_violation(b"a.b"), r#"Permissions Violation for Publish to "a.b""#);
        assert_eq!(reply_violation(b"r"), r#"Permissions Violation for Publish with Reply of "r""#);
        assert_eq!(
            subscription_violation(b"a", Some(b"q")),
            r#"Permissions Violation for Subscription to "a" using queue "q""#
        );
        assert_eq!(
            subscription_revoked(b"a", None, b"7"),
            r#"Permissions Violation for Subscription to "a" (sid "7")"#
        );
        assert_eq!(
            too_many_tokens(b"a.b"),
            r#"Permissions Violation for Subscription to "a.b", too many tokens"#
        );
        assert_eq!(
            cluster_name_conflict("a", "b"),
            r#"Rejecting connection, cluster name "a" does not match "b""#
        );
    }

    #[test]
    fn subject_cannot_break_out_of_an_error_line() {
        let text = publish_violation(b"a\"b\\c\r\n\x01\x7f\xff\xc2\x85\xc3\xa9");
        assert_eq!(
            text,
            "Permissions Violation for Publish to \"a\\\"b\\\\c\\r\\n\\x01\\x7f\\xff\\u0085\u{e9}\""
        );
    }

    #[test]
    fn close_reasons_have_distinct_texts() {
        let mut texts: Vec<_> = CloseReason::ALL.iter().map(|reason| reason.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), CloseReason::ALL.len());
        assert_eq!(CloseReason::SlowConsumerPendingBytes.to_string(), "Slow Consumer (Pending Bytes)");
    }
}
