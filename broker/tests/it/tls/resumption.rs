//! A session counts only where it was made.
//!
//! CVE-2025-68121: a resumed session skips the look at the peer's certificate, so one that was made under another
//! trust must not be resumed.

use testkit::Builder;
use testkit::certs::{Authority, Identity, Names, Returning};
use tokio::io::AsyncReadExt;

use super::{FILES, ends_before_pong, with_files};
use crate::target;

/// A `tls` block that shows the certificate of [`with_files`] and trusts another authority.
const FOREIGN: &str = "cert_file: \"%DIR%/server-cert.pem\", key_file: \"%DIR%/server-key.pem\", ca_file: \"%DIR%/foreign.pem\", verify: true";

fn issue(authority: &Authority) -> Identity {
    authority.issue(&Names { common: "client", ..Names::default() })
}

/// A server whose clients are of one authority and whose peers are of another.
fn two_trusts(authority: &Authority, foreign: &Authority) -> Builder {
    with_files(authority).file("foreign.pem", foreign.pem()).config(format!(
        "tls {{ {FILES}, verify: true }}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", tls {{ {FOREIGN} }} }}"
    ))
}

/// Makes a session on the client port, and shows that it is resumed there.
async fn with_session(server: &testkit::Server, returning: &Returning) {
    for expected in [false, true] {
        let (mut client, resumed) = returning.client(server.client_addr()).await.unwrap();
        client.connect(serde_json::json!({})).await;
        assert_eq!(resumed, expected);
    }
}

#[tokio::test]
async fn a_session_of_the_client_port_is_worth_nothing_on_the_route_port() {
    let (authority, foreign) = (Authority::new("ca"), Authority::new("foreign"));
    let server = two_trusts(&authority, &foreign).start().await;
    let returning = Returning::new(&authority, Some(&issue(&authority)));
    with_session(&server, &returning).await;
    // With TLS 1.3 the client may believe the handshake done; then the server has nothing to say to it.
    if let Ok((mut stream, resumed)) = returning.connect(server.cluster_addr()).await {
        assert!(!resumed, "the route port resumed a session of the client port");
        let mut said = Vec::new();
        let end =
            testkit::within(testkit::PATIENCE, "the server closes", stream.read_to_end(&mut said)).await;
        assert!(said.is_empty(), "the route port said {:?} ({end:?})", String::from_utf8_lossy(&said));
    }
}

#[tokio::test]
async fn a_session_of_one_server_is_worth_nothing_on_another() {
    let (authority, foreign) = (Authority::new("ca"), Authority::new("foreign"));
    let first = two_trusts(&authority, &foreign).start().await;
    let second = with_files(&authority)
        .file("foreign.pem", foreign.pem())
        .config(format!("tls {{ {FOREIGN} }}"))
        .start()
        .await;
    let returning = Returning::new(&authority, Some(&issue(&authority)));
    with_session(&first, &returning).await;
    if let Ok((mut client, resumed)) = returning.client(second.client_addr()).await {
        assert!(!resumed, "one server resumed a session of another");
        assert!(ends_before_pong(&mut client).await.unwrap_or(true), "a foreign certificate was accepted");
    }
}

#[tokio::test]
async fn a_session_of_the_monitoring_port_is_worth_nothing_on_the_client_port() {
    // Monitoring asks nobody for a certificate.
    let authority = Authority::new("ca");
    let server = Builder::new(&target())
        .file("ca.pem", authority.pem())
        .identity("server", &authority.server("server"))
        .config(format!("https: \"127.0.0.1:-1\"\ntls {{ {FILES}, verify: true }}"))
        .start()
        .await;
    let returning = Returning::new(&authority, None);
    for expected in [false, true] {
        let (stream, resumed) = returning.connect(server.monitoring_addr()).await.unwrap();
        assert_eq!(testkit::http::get_over(stream, "/healthz").await.status, 200);
        assert_eq!(resumed, expected);
    }
    if let Ok((mut client, resumed)) = returning.client(server.client_addr()).await {
        assert!(!resumed, "the client port resumed a session of the monitoring port");
        assert!(ends_before_pong(&mut client).await.unwrap_or(true), "no certificate was accepted");
    }
}
