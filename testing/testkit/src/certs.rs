//! Certificates made for one test, and TLS connections that use them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{Client, Io};
use crate::wait::{PATIENCE, within};

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A certificate with its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
    pem: String,
}

/// A TLS client that offers the sessions it has to whatever listener it comes to.
pub struct Returning(Arc<ClientConfig>);

/// What a certificate is issued for.
#[derive(Default)]
pub struct Names<'a> {
    /// Common name of the subject.
    pub common: &'a str,
    /// Organizational unit of the subject, if any.
    pub unit: &'a str,
    /// DNS names.
    pub dns: &'a [&'a str],
    /// E-mail addresses.
    pub email: &'a [&'a str],
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name, "");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = new_key();
        let certificate = made(params.self_signed(&key));
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these names.
    pub fn issue(&self, names: &Names<'_>) -> Identity {
        let emails = names.email.iter().map(|email| SanType::Rfc822Name(made((*email).try_into())));
        let dns = names.dns.iter().map(|dns| SanType::DnsName(made((*dns).try_into())));
        self.sign(distinguished_name(names.common, names.unit), emails.chain(dns).collect())
    }

    /// A certificate for a server on the loopback address.
    pub fn server(&self, name: &str) -> Identity {
        let names =
            vec![SanType::DnsName(made("localhost".try_into())), SanType::IpAddress([127, 0, 0, 1].into())];
        self.sign(distinguished_name(name, ""), names)
    }

    /// Every certificate serves both ends, because routes use the same one to dial and to accept.
    fn sign(&self, subject: DistinguishedName, alternatives: Vec<SanType>) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        params.subject_alt_names = alternatives;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = new_key();
        let certificate = made(params.signed_by(&key, &self.issuer));
        Identity { certificate: certificate.der().clone(), pem: certificate.pem(), key }
    }
}

impl Identity {
    /// The certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The private key.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The certificate as DER.
    pub fn der(&self) -> &[u8] {
        &self.certificate
    }

    /// The public key as DER (subject public key info), which pinning hashes.
    pub fn public_key_der(&self) -> Vec<u8> {
        use rcgen::PublicKeyData;
        self.key.subject_public_key_info()
    }

    /// What `pinned_certs` lists: SHA-256 of the public key, in hex.
    pub fn pin(&self) -> String {
        Sha256::digest(self.public_key_der()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes `<name>-cert.pem` and `<name>-key.pem` into a directory.
    pub fn write(&self, dir: &Path, name: &str) {
        for (suffix, text) in [("cert", self.pem.clone()), ("key", self.key_pem())] {
            let path = dir.join(format!("{name}-{suffix}.pem"));
            if let Err(error) = std::fs::write(&path, text) {
                panic!("write {}: {error}", path.display());
            }
        }
    }
}

/// A client over TLS that has read the greeting in clear, as most servers send it.
///
/// An error says that the handshake failed. With TLS 1.3 a refused client certificate shows only at the next read.
pub async fn client(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
) -> std::io::Result<Client> {
    let mut stream = within(PATIENCE, "TCP connect", TcpStream::connect(address)).await?;
    let greeting = within(PATIENCE, "the greeting", read_line(&mut stream)).await?;
    let mut client = Client::over(Box::new(upgrade(stream, authority, identity).await?));
    client.infos.push(greeting);
    Ok(client)
}

/// Reads INFO byte by byte, so that nothing of the handshake is taken.
async fn read_line(stream: &mut TcpStream) -> std::io::Result<serde_json::Value> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(stream.read_u8().await?);
    }
    let text = line.strip_prefix(b"INFO ").unwrap_or(&line);
    Ok(serde_json::from_slice(text)?)
}

/// A TLS connection to a server on the loopback address, made over a fresh TCP connection.
pub async fn connect(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
) -> std::io::Result<Box<dyn Io>> {
    let stream = within(PATIENCE, "TCP connect", TcpStream::connect(address)).await?;
    Ok(Box::new(upgrade(stream, authority, identity).await?))
}

/// TLS over a stream that is already there; the concrete stream shows what was negotiated.
pub async fn upgrade(
    stream: TcpStream,
    authority: &Authority,
    identity: Option<&Identity>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(client_config(authority, identity)));
    let name = made(ServerName::try_from("localhost"));
    within(PATIENCE, "the TLS handshake ends", connector.connect(name, stream)).await
}

impl Returning {
    /// A client without sessions yet.
    pub fn new(authority: &Authority, identity: Option<&Identity>) -> Self {
        Self(Arc::new(client_config(authority, identity)))
    }

    /// A TLS connection over a fresh TCP connection, and whether it resumes a session.
    pub async fn connect(&self, address: SocketAddr) -> std::io::Result<(Box<dyn Io>, bool)> {
        let stream = within(PATIENCE, "TCP connect", TcpStream::connect(address)).await?;
        self.upgrade(stream).await
    }

    /// A client that has read the greeting, and whether its connection resumes a session.
    pub async fn client(&self, address: SocketAddr) -> std::io::Result<(Client, bool)> {
        let mut stream = within(PATIENCE, "TCP connect", TcpStream::connect(address)).await?;
        let greeting = within(PATIENCE, "the greeting", read_line(&mut stream)).await?;
        let (stream, resumed) = self.upgrade(stream).await?;
        let mut client = Client::over(stream);
        client.infos.push(greeting);
        Ok((client, resumed))
    }

    async fn upgrade(&self, stream: TcpStream) -> std::io::Result<(Box<dyn Io>, bool)> {
        let connector = TlsConnector::from(Arc::clone(&self.0));
        let name = made(ServerName::try_from("localhost"));
        let stream = within(PATIENCE, "the TLS handshake ends", connector.connect(name, stream)).await?;
        let resumed = stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        Ok((Box::new(stream), resumed))
    }
}

fn client_config(authority: &Authority, identity: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    made(roots.add(authority.certificate.clone()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = made(ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions());
    let builder = builder.with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
            made(builder.with_client_auth_cert(vec![identity.certificate.clone()], key))
        }
    }
}

fn distinguished_name(common: &str, unit: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if !unit.is_empty() {
        name.push(DnType::OrganizationalUnitName, unit);
    }
    name
}

fn new_key() -> KeyPair {
    made(KeyPair::generate())
}

fn made<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("certificate: {error}"),
    }
}
