//! Addresses and URLs.

use super::Report;
use super::field::Field;
use crate::Secret;
use crate::lang::Kind;
use crate::options::{Address, Port, RouteUrl};

/// Host and port as far as they were given, from `listen` or from `host` and `port`.
#[derive(Debug, Default)]
pub(super) struct AddressParts {
    pub(super) host: Option<String>,
    /// `Some(None)` is port 0: none.
    pub(super) port: Option<Option<Port>>,
}

impl AddressParts {
    /// Takes a `host:port` text or a port number.
    pub(super) fn read(&mut self, field: &Field<'_>, report: &mut Report) {
        match &field.value.kind {
            Kind::Integer(_) => self.port = field.port(report).or(self.port),
            Kind::String(text) => match parse_host_port(text) {
                Ok((host, port)) => {
                    self.host = (!host.is_empty()).then_some(host);
                    self.port = Some(port);
                }
                Err(message) => report.error(&field.value.position, message),
            },
            kind => report
                .error(&field.value.position, format!("expected port or host:port, got {}", kind.name())),
        }
    }

    /// The address if there is a port other than 0.
    pub(super) fn address(self, host_default: &str) -> Option<Address> {
        let port = self.port.flatten()?;
        Some(Address { host: self.host.unwrap_or_else(|| host_default.into()), port })
    }
}

/// -1 is random, 0 none; `None` if it is no port.
pub(super) fn port_of(number: i64) -> Option<Option<Port>> {
    match number {
        -1 => Some(Some(Port::Random)),
        0 => Some(None),
        _ => u16::try_from(number).ok().map(|port| Some(Port::Fixed(port))),
    }
}

/// Splits `host:port` or `[host]:port`.
pub(crate) fn parse_host_port(text: &str) -> Result<(String, Option<Port>), String> {
    let Some((host, port)) = split_port(text) else {
        return Err(format!("could not parse address string \"{text}\""));
    };
    let parsed = port.parse().ok().and_then(port_of);
    parsed.map(|parsed| (host.into(), parsed)).ok_or_else(|| format!("could not parse port \"{port}\""))
}

fn split_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    Some((host, port))
}

/// What is wrong with an advertised `host` or `host:port`.
pub(crate) fn check_advertise(name: &str, text: &str) -> Result<(), String> {
    // A host alone, or an IPv6 address without brackets.
    if text.is_empty() || !text.contains(':') || (!text.starts_with('[') && text.matches(':').count() > 1) {
        return Ok(());
    }
    match split_port(text) {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(format!("invalid {name} \"{text}\": expected host or host:port")),
    }
}

/// Reads a route URL; `None` if it is none.
pub(crate) fn parse_route_url(text: &str) -> Option<RouteUrl> {
    if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return None;
    }
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user_info, host_port) = match authority.rsplit_once('@') {
        Some((user_info, host_port)) => (Some(user_info), host_port),
        None => (None, authority),
    };
    let (host, port) = split_port(host_port)?;
    let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
    if !is_scheme || host.is_empty() {
        return None;
    }
    let (username, password) =
        match user_info.map(|info| info.split_once(':').map_or((info, None), |(u, p)| (u, Some(p)))) {
            None => (None, None),
            Some((user, password)) => {
                let password = match password {
                    Some(password) => Some(Secret::new(percent_decode(password)?)),
                    None => None,
                };
                (Some(percent_decode(user)?), password)
            }
        };
    Some(RouteUrl { scheme: scheme.into(), username, password, host: host.into(), port })
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_urls_are_taken_apart() {
        let url = parse_route_url("nats-route://u:p%40ss@[::1]:6222/x?y").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.username.as_deref(), url.host.as_str(), url.port),
            ("nats-route", Some("u"), "::1", 6222)
        );
        assert!(url.password.as_ref().is_some_and(|password| password.matches(b"p@ss")));
        assert_eq!(url.to_string(), "nats-route://u:xxxxx@[::1]:6222");
        let plain = parse_route_url("nats://host.example:1").unwrap();
        assert_eq!((plain.username, plain.password, plain.port), (None, None, 1));
    }

    #[test]
    fn what_is_no_route_url_is_refused() {
        for text in [
            "",
            "a",
            "a:1",
            "nats://a",
            "nats://a:b",
            "nats://:1",
            "nats://a b:1",
            "nats://a:0",
            "nats://a:65536",
            "nats://u:%4@a:1",
            "://a:1",
            "1x://a:1",
            "nats://::1:5",
        ] {
            assert_eq!(parse_route_url(text), None, "{text}");
        }
    }

    #[test]
    fn advertised_addresses_are_checked() {
        for text in ["", "a", "a:1", "[::1]:5", "::1", "10.0.0.1:4222", "a:0"] {
            assert_eq!(check_advertise("advertise", text), Ok(()), "{text}");
        }
        for text in ["a:b", "a:65536", ":1", "[::1", "[::1]:x"] {
            assert!(check_advertise("advertise", text).is_err(), "{text}");
        }
    }
}
