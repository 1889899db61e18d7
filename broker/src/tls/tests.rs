//! Handshakes over loopback, and material that does not load.

use std::path::Path;
use std::time::Duration;

use config::options::{Certificate, CipherSuite, Tls, TlsVersion};
use tempfile::TempDir;
use testkit::certs::{Authority, Identity, Names};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::net::stream::Socket;

struct Files {
    dir: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: TempDir::new().unwrap(), authority: Authority::new("test") };
        std::fs::write(files.path("ca.pem"), files.authority.pem()).unwrap();
        files.write("server", &files.authority.server("server"));
        files
    }

    fn write(&self, name: &str, identity: &Identity) {
        identity.write(self.dir.path(), name);
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(Path::new(name)).to_str().unwrap().to_owned()
    }

    fn certificate(&self, name: &str) -> Certificate {
        Certificate {
            cert_file: self.path(&format!("{name}-cert.pem")),
            key_file: self.path(&format!("{name}-key.pem")),
        }
    }

    fn options(&self) -> Tls {
        Tls {
            certificates: vec![self.certificate("server")],
            ca_file: Some(self.path("ca.pem")),
            ..Tls::default()
        }
    }
}

/// Both ends of one TCP connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// What both ends say of one handshake.
async fn shake(server: &Tls, client: &Tls) -> (Result<Session, TlsError>, Result<Session, TlsError>) {
    let (acceptor, connector) = (Acceptor::new(server).unwrap(), Connector::new(client).unwrap());
    let (near, far) = pair().await;
    let server = async {
        let (mut stream, session) = acceptor.accept(Socket::new(far)).await?;
        stream.write_all(b"+").await?;
        Ok(session)
    };
    let client = async {
        let (mut stream, session) = connector.connect("127.0.0.1", Socket::new(near)).await?;
        // In TLS 1.3 a client hears of its refusal only when it reads.
        stream.read_u8().await?;
        Ok(session)
    };
    tokio::join!(server, client)
}

#[tokio::test]
async fn both_ends_see_each_others_certificates() {
    let files = Files::new();
    files.write("client", &files.authority.issue(&Names { common: "bob", ..Names::default() }));
    let client = Tls { certificates: vec![files.certificate("client")], ..files.options() };
    let (server, client) = shake(&Tls { verify: true, ..files.options() }, &client).await;
    let (server, client) = (server.unwrap(), client.unwrap());
    assert_eq!((server.version(), client.version()), ("1.3", "1.3"));
    assert_eq!(server.names(), ["CN=bob"]);
    assert_eq!(client.peer_certificates()[0].subject, "CN=server");
    assert!(server.cipher_suite().starts_with("TLS_AES_"), "{}", server.cipher_suite());
}

#[tokio::test]
async fn a_client_without_certificate_is_refused_where_one_is_asked_for() {
    let files = Files::new();
    let client = Tls { certificates: Vec::new(), ..files.options() };
    let (server, refused) = shake(&Tls { verify: true, ..files.options() }, &client).await;
    assert!(matches!(server, Err(TlsError::NoPeerCertificate)), "{server:?}");
    assert!(refused.is_err());
    let (server, accepted) = shake(&files.options(), &client).await;
    assert!(server.unwrap().peer_certificates().is_empty() && accepted.is_ok());
}

#[tokio::test]
async fn strangers_certificates_are_refused_on_both_sides() {
    let (files, others) = (Files::new(), Files::new());
    let client = Tls { certificates: others.options().certificates, ..files.options() };
    let (server, _) = shake(&Tls { verify: true, ..files.options() }, &client).await;
    assert!(matches!(server, Err(TlsError::Handshake(_))), "{server:?}");
    let (_, client) = shake(&others.options(), &files.options()).await;
    assert!(matches!(client, Err(TlsError::Handshake(_))), "{client:?}");
    let insecure = Tls { insecure: true, ..files.options() };
    let (_, client) = shake(&others.options(), &insecure).await;
    assert!(client.is_ok(), "{client:?}");
}

#[tokio::test]
async fn only_pinned_keys_are_taken() {
    let files = Files::new();
    let (_, session) = shake(&files.options(), &files.options()).await;
    let pin = session.unwrap().peer_certificates()[0].spki_sha256.clone();
    let pinned = |pin: &str| Tls { pinned_certs: [pin.to_owned()].into(), verify: true, ..files.options() };
    let (server, client) = shake(&pinned(&pin), &pinned(&pin)).await;
    assert!(server.is_ok() && client.is_ok(), "{server:?} {client:?}");
    let (server, _) = shake(&pinned(&"0".repeat(64)), &files.options()).await;
    assert!(matches!(server, Err(TlsError::NotPinned(found)) if found == pin));
    let (_, client) = shake(&files.options(), &pinned(&"0".repeat(64))).await;
    assert!(matches!(client, Err(TlsError::NotPinned(found)) if found == pin));
}

#[tokio::test]
async fn versions_and_cipher_suites_are_those_allowed() {
    let files = Files::new();
    let suites = vec![CipherSuite::EcdheEcdsaChacha20Poly1305Sha256];
    let (server, _) = shake(&Tls { cipher_suites: suites, ..files.options() }, &files.options()).await;
    assert_eq!(server.unwrap().version(), "1.3");
    let suites = vec![CipherSuite::Tls13Chacha20Poly1305Sha256];
    let strict = Tls { cipher_suites: suites, min_version: TlsVersion::V1_3, ..files.options() };
    let (server, client) = shake(&strict, &files.options()).await;
    assert_eq!(server.unwrap().cipher_suite(), "TLS_CHACHA20_POLY1305_SHA256");
    assert_eq!(client.unwrap().version(), "1.3");
}

#[tokio::test]
async fn the_certificate_for_the_asked_name_is_shown() {
    let files = Files::new();
    files.write(
        "other",
        &files.authority.issue(&Names { common: "other", dns: &["other.local"], ..Names::default() }),
    );
    let certificates = vec![files.certificate("other"), files.certificate("server")];
    let acceptor = Acceptor::new(&Tls { certificates, ..files.options() }).unwrap();
    let connector = Connector::new(&files.options()).unwrap();
    for (name, subject) in [("localhost", "CN=server"), ("other.local", "CN=other")] {
        let (near, far) = pair().await;
        let (server, client) =
            tokio::join!(acceptor.accept(Socket::new(far)), connector.connect(name, Socket::new(near)));
        server.unwrap();
        assert_eq!(client.unwrap().1.peer_certificates()[0].subject, subject);
    }
}

#[tokio::test]
async fn other_protocols_and_silence_are_no_handshake() {
    let files = Files::new();
    let acceptor = Acceptor::new(&Tls { timeout: Duration::from_millis(50), ..files.options() }).unwrap();
    let (mut near, far) = pair().await;
    near.write_all(b"CONNECT {}\r\n").await.unwrap();
    assert!(matches!(acceptor.accept(Socket::new(far)).await, Err(TlsError::NotTls)));
    let (near, far) = pair().await;
    assert!(matches!(acceptor.accept(Socket::new(far)).await, Err(TlsError::Timeout)));
    drop(near);
    let (near, far) = pair().await;
    drop(near);
    assert!(matches!(acceptor.accept(Socket::new(far)).await, Err(TlsError::Eof)));
}

#[tokio::test]
async fn handshakes_beyond_the_rate_are_turned_away() {
    let files = Files::new();
    let acceptor = Acceptor::new(&Tls { connection_rate_limit: Some(2), ..files.options() }).unwrap();
    assert_eq!([acceptor.admit(), acceptor.admit(), acceptor.admit()], [true, true, false]);
    assert!(Acceptor::new(&files.options()).unwrap().admit());
}

#[test]
fn errors_name_the_file_and_the_problem() {
    let files = Files::new();
    let text = |options: &Tls| Acceptor::new(options).unwrap_err().to_string();
    let with = |cert: &str, key: &str| Tls {
        certificates: vec![Certificate { cert_file: files.path(cert), key_file: files.path(key) }],
        ..files.options()
    };
    let missing = text(&with("none.pem", "server-key.pem"));
    assert!(missing.contains("none.pem") && missing.contains("No such file"), "{missing}");
    let not_a_key = text(&with("server-cert.pem", "ca.pem"));
    assert!(
        not_a_key.contains("ca.pem") && not_a_key.contains("no PEM block of a private key"),
        "{not_a_key}"
    );
    files.write("other", &files.authority.server("other"));
    let mismatch = text(&with("server-cert.pem", "other-key.pem"));
    assert!(mismatch.contains("other-key.pem") && mismatch.contains("does not match"), "{mismatch}");
    std::fs::write(files.path("bad.pem"), "hello").unwrap();
    let authorities = text(&Tls { verify: true, ca_file: Some(files.path("bad.pem")), ..files.options() });
    assert!(authorities.contains("bad.pem"), "{authorities}");
    assert!(matches!(Acceptor::new(&Tls::default()), Err(TlsError::NoCertificate)));
}
