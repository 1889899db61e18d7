//! `tls` blocks.

use std::collections::BTreeSet;
use std::time::Duration;

/// Time of a TLS handshake unless configured.
pub(crate) const TLS_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
/// Time `handshake_first: auto` waits for the first byte of a client.
pub(crate) const HANDSHAKE_FIRST_FALLBACK_DEFAULT: Duration = Duration::from_millis(50);

/// A certificate chain and its key, as file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// `cert_file`.
    pub cert_file: String,
    /// `key_file`.
    pub key_file: String,
}

/// When the handshake happens relative to INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandshakeFirst {
    /// INFO first.
    #[default]
    Off,
    /// Handshake first, always.
    On,
    /// Handshake first if the client speaks within this time, else INFO first.
    Auto(Duration),
}

/// Lowest accepted protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// A cipher suite that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the TLS registry")]
pub enum CipherSuite {
    Tls13Aes128GcmSha256,
    Tls13Aes256GcmSha384,
    Tls13Chacha20Poly1305Sha256,
    EcdheEcdsaAes128GcmSha256,
    EcdheEcdsaAes256GcmSha384,
    EcdheEcdsaChacha20Poly1305Sha256,
    EcdheRsaAes128GcmSha256,
    EcdheRsaAes256GcmSha384,
    EcdheRsaChacha20Poly1305Sha256,
}

/// An elliptic curve that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// X25519.
    X25519,
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
}

/// One `tls` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// `certs`, or `cert_file` with `key_file`.
    pub certificates: Vec<Certificate>,
    /// `ca_file`.
    pub ca_file: Option<String>,
    /// `verify`; implied by `verify_and_map` and `verify_cert_and_check_known_urls`.
    pub verify: bool,
    /// `verify_and_map`.
    pub map: bool,
    /// `verify_cert_and_check_known_urls` (cluster only).
    pub check_known_urls: bool,
    /// `insecure`: outgoing links do not verify the other side.
    pub insecure: bool,
    /// `timeout`.
    pub timeout: Duration,
    /// `handshake_first`.
    pub handshake_first: HandshakeFirst,
    /// `pinned_certs`: lower-case hex SHA-256 of the DER public key; empty accepts all.
    pub pinned_certs: BTreeSet<String>,
    /// `min_version`.
    pub min_version: TlsVersion,
    /// `cipher_suites` in order of preference; empty is the library's choice.
    pub cipher_suites: Vec<CipherSuite>,
    /// `curve_preferences` in order; empty is the library's choice.
    pub curve_preferences: Vec<Curve>,
    /// `connection_rate_limit`, handshakes a second; `None` is unlimited.
    pub connection_rate_limit: Option<u32>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            ca_file: None,
            verify: false,
            map: false,
            check_known_urls: false,
            insecure: false,
            timeout: TLS_TIMEOUT_DEFAULT,
            handshake_first: HandshakeFirst::Off,
            pinned_certs: BTreeSet::new(),
            min_version: TlsVersion::V1_2,
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            connection_rate_limit: None,
        }
    }
}
