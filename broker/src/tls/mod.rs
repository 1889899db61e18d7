//! TLS of listeners and of links to peers.
//!
//! An [`Acceptor`] or [`Connector`] is made from one `tls` block and never changes: a reload makes new ones. Each owns its
//! certificates, its trust and its session cache, so a session resumed on one listener was verified by that listener's own trust,
//! and none survives a reload.

mod acceptor;
mod connector;
mod material;
mod name;
mod rate;
mod session;

use std::collections::BTreeSet;
use std::io;

pub use acceptor::Acceptor;
pub use connector::Connector;
pub use session::{PeerCertificate, Session};

/// First byte of a TLS handshake record.
pub const HANDSHAKE_RECORD: u8 = 0x16;

/// TLS material does not load, or a handshake fails.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("error reading {what} {file:?}: {source}")]
    Read {
        /// What it should hold.
        what: &'static str,
        /// Its path as configured.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("error parsing {what} {file:?}: {problem}")]
    Parse {
        /// What it should hold.
        what: &'static str,
        /// Its path as configured.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// Certificate and key are both good but do not belong together.
    #[error(
        "error parsing certificate {cert_file:?} with key {key_file:?}: private key does not match public key"
    )]
    KeyMismatch {
        /// Path of the certificate.
        cert_file: String,
        /// Path of the key.
        key_file: String,
    },
    /// A listener without a certificate.
    #[error("tls block without a certificate")]
    NoCertificate,
    /// Peers have to be verified, but by nobody's word.
    #[error("no trusted certificate authorities: {0}")]
    NoAuthorities(String),
    /// Versions, cipher suites and curves that do not go together.
    #[error("tls settings do not work together: {0}")]
    Settings(rustls::Error),
    /// The name of the peer is no name.
    #[error("invalid server name {0:?}")]
    ServerName(String),
    /// The handshake took too long.
    #[error("TLS handshake timeout")]
    Timeout,
    /// The peer speaks something else.
    #[error("tls: first record does not look like a TLS handshake")]
    NotTls,
    /// The peer ended the connection.
    #[error("EOF")]
    Eof,
    /// The peer showed no certificate although it has to.
    #[error("tls: client didn't provide a certificate")]
    NoPeerCertificate,
    /// The peer's certificate does not parse.
    #[error("tls: bad peer certificate: {0}")]
    PeerCertificate(String),
    /// The peer's key is none of the pinned ones.
    #[error("certificate not pinned: public key has sha256 {0}")]
    NotPinned(String),
    /// More handshakes than `connection_rate_limit` were begun within a second.
    #[error("connection throttling is active")]
    Throttled,
    /// The handshake failed.
    #[error("tls: {0}")]
    Handshake(rustls::Error),
    /// The connection failed.
    #[error(transparent)]
    Io(io::Error),
}

impl TlsError {
    /// Is it what any stray connection causes, and so not worth an operator's attention?
    pub fn is_noise(&self) -> bool {
        matches!(self, Self::NotTls | Self::Timeout | Self::Throttled)
    }
}

impl From<io::Error> for TlsError {
    /// Unwraps what the TLS library packs into an error of the connection.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Eof;
        }
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::NoCertificatesPresented) => Self::NoPeerCertificate,
            Some(error) => Self::Handshake(error.clone()),
            None => Self::Io(error),
        }
    }
}

/// Holds a finished session to the pinned keys, if there are any.
fn check_pins(pins: &BTreeSet<String>, session: &Session) -> Result<(), TlsError> {
    if pins.is_empty() {
        return Ok(());
    }
    let Some(leaf) = session.peer_certificates().first() else { return Err(TlsError::NoPeerCertificate) };
    if pins.contains(&leaf.spki_sha256) { Ok(()) } else { Err(TlsError::NotPinned(leaf.spki_sha256.clone())) }
}

#[cfg(test)]
mod tests;
