//! Cipher suites: the same ones whether TLS is set up by the file or by flags (CVE-2021-32026).

use std::net::SocketAddr;
use std::process::Stdio;

use testkit::certs::Authority;
use testkit::{PATIENCE, Server, within};
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::{FILES, with_files};
use crate::target;

const MODERN: [&str; 3] =
    ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"];
/// Block chaining or without forward secrecy.
const WEAK: [&str; 6] = [
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-ECDSA-AES128-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "AES128-GCM-SHA256",
];

/// An address that leads to the server for one connection, without the greeting that comes before TLS.
async fn without_greeting(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await?;
        let mut far = TcpStream::connect(server).await?;
        while far.read_u8().await? != b'\n' {}
        copy_bidirectional(&mut near, &mut far).await
    });
    address
}

/// Whether a client that knows only this suite of TLS 1.2 gets through the handshake.
async fn takes(server: &Server, suite: &str) -> bool {
    let address = without_greeting(server.client_addr()).await;
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-tls1_2", "-cipher", suite, "-connect", &address.to_string()])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = within(PATIENCE, "openssl ends", command.output()).await;
    let output = output.expect("this test needs the program openssl");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Cipher is "), "{suite}: {output:?}");
    said.contains(&format!("Cipher is {suite}\n"))
}

#[tokio::test]
async fn flags_offer_only_modern_suites_as_the_file_does() {
    let authority = Authority::new("ca");
    let by_flags = with_files(&authority)
        .args(["--tls", "--tlscert", "%DIR%/server-cert.pem", "--tlskey", "%DIR%/server-key.pem"])
        .start()
        .await;
    let by_file = with_files(&authority).config(format!("tls {{ {FILES} }}")).start().await;
    let mut taken = Vec::new();
    for suite in MODERN.into_iter().chain(WEAK) {
        let by_flags = takes(&by_flags, suite).await;
        assert_eq!(by_flags, takes(&by_file, suite).await, "{suite} by flags and by file");
        taken.extend(by_flags.then_some(suite));
    }
    if target().is_myelin() {
        assert_eq!(taken, MODERN);
    } else {
        assert!(MODERN.iter().all(|suite| taken.contains(suite)), "{taken:?}");
        assert!(!taken.iter().any(|suite| suite.starts_with("AES")), "{taken:?}");
    }
}
