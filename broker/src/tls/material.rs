//! What a `tls` block names, read from files: certificates, keys, trusted authorities; and what it allows.

use std::sync::Arc;

use config::options::{Certificate, CipherSuite, Curve, Tls, TlsVersion};
use rustls::client::{ResolvesClientCert, verify_server_name};
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    InconsistentKeys, RootCertStore, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::TlsError;

const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";
const AUTHORITIES: &str = "certificate authorities";

/// Cipher suites of TLS 1.3, which are offered whatever a list for older versions says.
const SUITES_1_3: [SupportedCipherSuite; 3] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
];

static FROM_1_2: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
static FROM_1_3: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// Algorithms that the options allow.
pub(super) fn provider(options: &Tls) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if !options.cipher_suites.is_empty() {
        provider.cipher_suites = options.cipher_suites.iter().map(|suite| cipher(*suite)).collect();
        if !provider.cipher_suites.iter().any(|suite| SUITES_1_3.contains(suite)) {
            provider.cipher_suites.splice(0..0, SUITES_1_3);
        }
    }
    if !options.curve_preferences.is_empty() {
        provider.kx_groups = options.curve_preferences.iter().map(|curve| group(*curve)).collect();
    }
    Arc::new(provider)
}

fn cipher(suite: CipherSuite) -> SupportedCipherSuite {
    match suite {
        CipherSuite::Tls13Aes128GcmSha256 => cipher_suite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Tls13Aes256GcmSha384 => cipher_suite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Tls13Chacha20Poly1305Sha256 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheEcdsaAes128GcmSha256 => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaAes256GcmSha384 => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaChacha20Poly1305Sha256 => {
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        CipherSuite::EcdheRsaAes128GcmSha256 => cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaAes256GcmSha384 => cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaChacha20Poly1305Sha256 => {
            cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
    }
}

fn group(curve: Curve) -> &'static dyn SupportedKxGroup {
    match curve {
        Curve::X25519 => kx_group::X25519,
        Curve::P256 => kx_group::SECP256R1,
        Curve::P384 => kx_group::SECP384R1,
    }
}

/// Protocol versions that the options allow.
pub(super) fn versions(options: &Tls) -> &'static [&'static SupportedProtocolVersion] {
    match options.min_version {
        TlsVersion::V1_2 => &FROM_1_2,
        TlsVersion::V1_3 => &FROM_1_3,
    }
}

/// The authorities of `ca_file`, else those that the system trusts.
pub(super) fn roots(ca_file: Option<&str>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let Some(file) = ca_file else {
        let system = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(system.certs);
        if store.is_empty() {
            let problem =
                system.errors.first().map_or_else(|| "the system has none".to_owned(), ToString::to_string);
            return Err(TlsError::NoAuthorities(format!(
                "no ca_file is set, and of the system's: {problem}"
            )));
        }
        return Ok(store);
    };
    let certificates = read_chain(AUTHORITIES, file)?;
    let (_, ignored) = store.add_parsable_certificates(certificates);
    if store.is_empty() {
        return Err(TlsError::Parse {
            what: AUTHORITIES,
            file: file.to_owned(),
            problem: "none of its certificates can be trusted".to_owned(),
        });
    }
    if ignored > 0 {
        tracing::warn!("{ignored} certificates of {file:?} cannot be used as authorities");
    }
    Ok(store)
}

/// All certificates of the block with their keys.
pub(super) fn certificates(options: &Tls, provider: &CryptoProvider) -> Result<Certificates, TlsError> {
    let load = |certificate| load(certificate, provider).map(Arc::new);
    Ok(Certificates(options.certificates.iter().map(load).collect::<Result<_, _>>()?))
}

fn load(files: &Certificate, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let Certificate { cert_file, key_file } = files;
    let chain = read_chain(CERTIFICATE, cert_file)?;
    let key = PrivateKeyDer::from_pem_slice(&read(KEY, key_file)?).map_err(|e| bad_pem(KEY, key_file, &e))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| match e {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::KeyMismatch { cert_file: cert_file.clone(), key_file: key_file.clone() }
        }
        rustls::Error::InvalidCertificate(problem) => {
            TlsError::Parse { what: CERTIFICATE, file: cert_file.clone(), problem: problem.to_string() }
        }
        other => TlsError::Parse { what: KEY, file: key_file.clone(), problem: other.to_string() },
    })
}

fn read(what: &'static str, file: &str) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Read { what, file: file.to_owned(), source })
}

fn read_chain(what: &'static str, file: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(what, file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|e| bad_pem(what, file, &e))?;
    if chain.is_empty() { Err(bad_pem(what, file, &pem::Error::NoItemsFound)) } else { Ok(chain) }
}

fn bad_pem(what: &'static str, file: &str, error: &pem::Error) -> TlsError {
    let problem = match error {
        pem::Error::NoItemsFound => format!("no PEM block of a {what} in it"),
        other => other.to_string(),
    };
    TlsError::Parse { what, file: file.to_owned(), problem }
}

/// Certificates with their keys, of which each handshake takes the one that fits.
#[derive(Debug)]
pub(super) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first certificate expires, in seconds since 1970.
    pub(super) fn not_after(&self) -> Option<i64> {
        let leaf = self.0.first()?.end_entity_cert().ok()?;
        let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
        Some(leaf.validity().not_after.timestamp())
    }

    fn usable<'a>(&'a self, schemes: &'a [SignatureScheme]) -> impl Iterator<Item = &'a Arc<CertifiedKey>> {
        self.0.iter().filter(|certified| certified.key.choose_scheme(schemes).is_some())
    }
}

impl ResolvesServerCert for Certificates {
    /// The first certificate for the name that the client asks for, else the first whose key the client understands.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wanted = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let mut usable = self.usable(hello.signature_schemes()).peekable();
        let first = usable.peek().copied();
        let named =
            wanted.filter(|_| self.0.len() > 1).and_then(|name| usable.find(|key| is_for(key, &name)));
        named.or(first).cloned()
    }
}

fn is_for(certified: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let leaf = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
    leaf.is_ok_and(|leaf| verify_server_name(&leaf, name).is_ok())
}

impl ResolvesClientCert for Certificates {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.usable(schemes).next().cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}
