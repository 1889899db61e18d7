//! Certificates change without a restart.

use testkit::certs::{Authority, Names};
use testkit::{Client, Member};

use super::{FILES, refuses, served, server};
use crate::target;

#[tokio::test]
async fn a_renewed_certificate_is_used_for_new_connections_and_old_ones_stay() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = server(&old, "", "").await;
    let mut staying = served(&server, &old, None).await;
    let renewed = new.server("renewed");
    renewed.write(server.dir(), "server");
    // Until the reload, the old one serves.
    served(&server, &old, None).await;
    server.reload_as_is().await.unwrap();
    served(&server, &new, None).await;
    assert!(
        testkit::certs::client(server.client_addr(), &old, None).await.is_err(),
        "the old certificate still serves"
    );
    staying.send("SUB foo 1\r\nPUB foo 1\r\nx\r\n").await;
    staying.expect("MSG foo 1 1\r\nx\r\n").await;
}

#[tokio::test]
async fn a_broken_certificate_fails_the_reload_and_the_old_one_serves_on() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "").await;
    server.write_file("server-cert.pem", "not a certificate");
    let error = server.reload_as_is().await.unwrap_err();
    assert!(!error.is_empty());
    served(&server, &authority, None).await;
}

#[tokio::test]
async fn verification_can_be_switched_on() {
    let authority = Authority::new("ca");
    let mut server = server(&authority, "", "").await;
    served(&server, &authority, None).await;
    server.reload(&format!("tls {{ {FILES}, verify: true }}")).await.unwrap();
    assert!(refuses(&server, &authority, None).await, "no certificate was accepted");
    let identity = authority.issue(&Names { common: "client", ..Names::default() });
    served(&server, &authority, Some(&identity)).await;
}

#[tokio::test]
async fn a_new_set_of_pins_holds_for_new_connections() {
    let authority = Authority::new("ca");
    let first = authority.issue(&Names { common: "first", ..Names::default() });
    let second = authority.issue(&Names { common: "second", ..Names::default() });
    let options = |pin: &str| format!("verify: true, pinned_certs: [\"{pin}\"]");
    let mut server = server(&authority, &options(&first.pin()), "").await;
    served(&server, &authority, Some(&first)).await;
    server.reload(&format!("tls {{ {FILES}, {} }}", options(&second.pin()))).await.unwrap();
    served(&server, &authority, Some(&second)).await;
    assert!(refuses(&server, &authority, Some(&first)).await, "the old pin is still accepted");
}

#[tokio::test]
async fn routes_stay_when_their_certificates_are_renewed() {
    let authority = Authority::new("ca");
    let member = || {
        let identity = authority.server("node");
        Member::new(&target())
            .cluster(&format!("tls {{ {FILES} }}"))
            .file("ca.pem", authority.pem())
            .file("server-cert.pem", identity.pem())
            .file("server-key.pem", &identity.key_pem())
    };
    let cluster = testkit::Cluster::start(vec![member(), member()]).await;
    for server in cluster.servers() {
        authority.server("renewed").write(server.dir(), "server");
        server.reload_as_is().await.unwrap();
    }
    cluster.await_mesh().await;
    let mut client = Client::ready(&cluster[0]).await;
    client.expect_silence().await;
}
