//! Names of a certificate and what they are taken for.

use rustls::pki_types::CertificateDer;
use testkit::certs::{Authority, Names};

use super::*;

fn session(names: &Names<'_>) -> Session {
    let identity = Authority::new("test").issue(names);
    Session::from_certificates("1.3", "TLS_AES_128_GCM_SHA256", &[CertificateDer::from(identity.der())])
        .unwrap()
}

fn user<'a>(session: &'a Session, users: &[&'a str]) -> Option<&'a str> {
    session.user(|name| users.contains(&name), users.iter().copied())
}

const BOB: Names<'_> = Names {
    common: "bob",
    unit: "ops",
    dns: &["bob.local", "*.b.local"],
    email: &["bob@nats.io", "b@nats.io"],
};

#[test]
fn names_are_emails_then_dns_names_then_the_subject() {
    assert_eq!(
        session(&BOB).names(),
        ["bob@nats.io", "b@nats.io", "bob.local", "*.b.local", "CN=bob,OU=ops"]
    );
}

#[test]
fn the_first_name_that_is_a_user_wins() {
    let session = session(&BOB);
    assert_eq!(user(&session, &["CN=bob,OU=ops", "bob.local", "b@nats.io"]), Some("b@nats.io"));
    assert_eq!(user(&session, &["CN=bob,OU=ops", "bob.local"]), Some("bob.local"));
    for stranger in ["bob", "CN=bob", "ops", "x.b.local", ""] {
        assert_eq!(user(&session, &[stranger]), None, "{stranger:?}");
    }
}

#[test]
fn a_subject_written_in_another_way_is_the_same_user() {
    let session = session(&BOB);
    // The certificate holds CN before OU, so written most specific first OU is the first.
    assert_eq!(user(&session, &["cn=bob, ou=ops", "ou=ops, cn=bob"]), Some("ou=ops, cn=bob"));
    assert_eq!(user(&session, &["cn=bob, ou=ops"]), Some("cn=bob, ou=ops"));
    assert_eq!(user(&session, &["cn=bob, ou=dev"]), None);
}

#[test]
fn without_a_certificate_there_is_no_user() {
    let session = Session::from_certificates("1.2", "x", &[]).unwrap();
    assert!(session.names().is_empty() && session.peer_certificates().is_empty());
    assert_eq!(user(&session, &["", "bob"]), None);
}

#[test]
fn certificates_are_described_by_subject_and_hashes() {
    let identity = Authority::new("test").issue(&BOB);
    let session = Session::from_certificates("1.3", "x", &[CertificateDer::from(identity.der())]).unwrap();
    let shown = &session.peer_certificates()[0];
    assert_eq!(shown.subject, "CN=bob,OU=ops");
    assert_eq!(shown.cert_sha256, sha256(identity.der()));
    assert_eq!(shown.spki_sha256, sha256(&identity.public_key_der()));
    assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn known_hosts_are_names_of_the_certificate() {
    let session = session(&BOB);
    let matches = |host: &str| session.matches_known_hosts(&["other.local".to_owned(), host.to_owned()]);
    assert!(matches("BOB.local") && matches("x.b.local"));
    for other in ["b.local", "y.x.b.local", ".b.local", "bob", "127.0.0.1"] {
        assert!(!matches(other), "{other:?}");
    }
    let server = Authority::new("test").server("s");
    let session = Session::from_certificates("1.3", "x", &[CertificateDer::from(server.der())]).unwrap();
    assert!(session.matches_known_hosts(&["127.0.0.1".to_owned()]));
    assert!(!session.matches_known_hosts(&["127.0.0.2".to_owned()]));
}

#[test]
fn a_certificate_that_is_none_is_an_error() {
    let garbage = [CertificateDer::from(&b"garbage"[..])];
    assert!(matches!(Session::from_certificates("1.3", "x", &garbage), Err(TlsError::PeerCertificate(_))));
}
