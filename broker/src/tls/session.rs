//! What a finished handshake tells about the connection and its peer.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, ProtocolVersion};
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::TlsError;
use super::name::DistinguishedName;

/// A certificate that the peer showed, as monitoring names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Subject in RFC 2253 form.
    pub subject: String,
    /// Hex SHA-256 of the DER public key: what pins are written as.
    pub spki_sha256: String,
    /// Hex SHA-256 of the whole certificate.
    pub cert_sha256: String,
}

/// A TLS session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    version: &'static str,
    cipher_suite: &'static str,
    certificates: Vec<PeerCertificate>,
    leaf: Leaf,
}

/// Names in the peer's own certificate.
#[derive(Debug, Default)]
struct Leaf {
    names: Vec<String>,
    subject: Option<DistinguishedName>,
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Session {
    /// The session of a connection whose handshake is done.
    pub(super) fn new(state: &CommonState) -> Result<Self, TlsError> {
        let version = match state.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "unknown",
        };
        let suite = state.negotiated_cipher_suite().map(|suite| suite.suite());
        Self::from_certificates(
            version,
            suite.map_or("unknown", suite_name),
            state.peer_certificates().unwrap_or(&[]),
        )
    }

    fn from_certificates(
        version: &'static str,
        cipher_suite: &'static str,
        chain: &[CertificateDer<'_>],
    ) -> Result<Self, TlsError> {
        let leaf = match chain.first() {
            None => Leaf::default(),
            Some(der) => {
                let (_, leaf) =
                    X509Certificate::from_der(der).map_err(|e| TlsError::PeerCertificate(e.to_string()))?;
                Leaf::new(&leaf)
            }
        };
        // A peer may send anything behind its own certificate; what does not parse is not shown.
        let certificates = chain.iter().filter_map(|der| describe(der)).collect();
        Ok(Self(Arc::new(Inner { version, cipher_suite, certificates, leaf })))
    }

    /// `1.2` or `1.3`.
    pub fn version(&self) -> &'static str {
        self.0.version
    }

    /// Name of the cipher suite in the TLS registry.
    pub fn cipher_suite(&self) -> &'static str {
        self.0.cipher_suite
    }

    /// The chain that the peer showed, its own certificate first; empty if it showed none.
    pub fn peer_certificates(&self) -> &[PeerCertificate] {
        &self.0.certificates
    }

    /// Names of the peer's certificate in the order in which they are tried as user names: e-mail addresses, DNS names, URIs,
    /// then the subject.
    pub fn names(&self) -> &[String] {
        &self.0.leaf.names
    }

    /// The user that the peer's certificate stands for: the first of its names that is one, else the user whose name is the
    /// certificate's subject written in another way, in the same order if possible.
    pub fn user<'a>(
        &'a self,
        is_user: impl Fn(&str) -> bool,
        users: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let leaf = &self.0.leaf;
        if let Some(name) = leaf.names.iter().find(|name| is_user(name)) {
            return Some(name);
        }
        let subject = leaf.subject.as_ref()?;
        let mut loose = None;
        for user in users {
            let Some(name) = DistinguishedName::parse(user) else { continue };
            if name == *subject {
                return Some(user);
            }
            // Users come in no order; the smallest name makes the choice the same every time.
            if name.has_same_parts(subject) && loose.is_none_or(|other| user < other) {
                loose = Some(user);
            }
        }
        loose
    }

    /// `verify_cert_and_check_known_urls`: is the peer's certificate for one of these hosts?
    pub fn matches_known_hosts(&self, hosts: &[String]) -> bool {
        let leaf = &self.0.leaf;
        hosts.iter().any(|host| match host.parse::<IpAddr>() {
            Ok(address) => leaf.addresses.contains(&address),
            Err(_) => leaf.dns.iter().any(|name| name_covers(name, host)),
        })
    }
}

/// Does a certificate's DNS name, whose first label may be `*`, stand for this host?
fn name_covers(name: &str, host: &str) -> bool {
    if let Some(parent) = name.strip_prefix("*.") {
        return host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent));
    }
    name.eq_ignore_ascii_case(host)
}

/// The registry's name; the library writes those of TLS 1.3 in its own way.
fn suite_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or("unknown"),
    }
}

fn describe(der: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(PeerCertificate {
        subject: DistinguishedName::from_certificate(certificate.subject()).to_string(),
        spki_sha256: sha256(certificate.public_key().raw),
        cert_sha256: sha256(der),
    })
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

impl Leaf {
    fn new(certificate: &X509Certificate<'_>) -> Self {
        let mut leaf = Self::default();
        let (mut emails, mut uris) = (Vec::new(), Vec::new());
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::RFC822Name(email) => emails.push((*email).to_owned()),
                GeneralName::DNSName(dns) => leaf.dns.push((*dns).to_owned()),
                GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                GeneralName::IPAddress(bytes) => leaf.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        leaf.names.append(&mut emails);
        leaf.names.extend_from_slice(&leaf.dns);
        leaf.names.append(&mut uris);
        let subject = DistinguishedName::from_certificate(certificate.subject());
        if !subject.is_empty() {
            leaf.names.push(subject.to_string());
            leaf.subject = Some(subject);
        }
        leaf.names.retain(|name| !name.is_empty());
        leaf
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

#[cfg(test)]
mod tests;
