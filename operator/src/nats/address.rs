//! Addresses of servers as people write them.

use std::fmt;

/// Port of servers when none is written.
const PORT_DEFAULT: u16 = 4222;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// It must encrypt.
    pub tls: bool,
    /// Name that its certificate must be for, when that is not the host.
    pub certificate_name: Option<String>,
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address of a server: write nats://host:4222 or tls://host:4222, credentials not included"
)]
pub struct AddressError {
    text: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Reads `nats://host:port`, `tls://host:port`, or the same without scheme or port.
    ///
    /// # Errors
    /// When it is none of these. A user in an address is refused: it would be shown to everybody who may read the object.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let shown = || {
            let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
            AddressError { text: text.chars().filter(|c| !c.is_control()).take(100).collect() }
        };
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
        let tls = match scheme {
            "nats" => false,
            "tls" => true,
            _ => return Err(shown()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_port(rest).ok_or_else(shown)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(allowed) {
            return Err(shown());
        }
        Ok(Self { host: host.to_owned(), port, tls, certificate_name: None })
    }
}

fn split_port(text: &str) -> Option<(&str, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok()?)),
            None if port.is_empty() => Some((host, PORT_DEFAULT)),
            None => None,
        };
    }
    match text.split_once(':') {
        None => Some((text, PORT_DEFAULT)),
        Some((host, port)) if !port.contains(':') => Some((host, port.parse().ok()?)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_clients_read_them() {
        for (text, host, port, tls) in [
            ("nats://nats:4222", "nats", 4222, false),
            ("tls://acme.org:5222/", "acme.org", 5222, true),
            ("10.0.0.1", "10.0.0.1", 4222, false),
            ("host:1", "host", 1, false),
            ("nats://[::1]:4333", "::1", 4333, false),
            (" nats://a ", "a", 4222, false),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.host.as_str(), address.port, address.tls), (host, port, tls), "{text}");
        }
        assert_eq!(Address::parse("[::1]:1").unwrap().to_string(), "[::1]:1");
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for text in
            ["", "http://a", "nats://", "a:b", "a:99999", "::1", "a b", "a\r\nb", "nats://[x]:1", "ws://a"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("nats://user:secret@host:4222").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
