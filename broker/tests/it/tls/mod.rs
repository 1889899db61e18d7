//! TLS on client, route and monitoring listeners.

mod client;
mod known_urls;
mod mapping;
mod reload;
mod resumption;
mod routes;
mod suites;

use std::io;

use testkit::certs::{self, Authority, Identity};
use testkit::{Builder, Client, Server};

use crate::target;

/// Options of a `tls` block that uses the files of [`with_files`].
const FILES: &str =
    "cert_file: \"%DIR%/server-cert.pem\", key_file: \"%DIR%/server-key.pem\", ca_file: \"%DIR%/ca.pem\"";

/// A server in whose directory an authority and a certificate of it lie.
fn with_files(authority: &Authority) -> Builder {
    Builder::new(&target()).file("ca.pem", authority.pem()).identity("server", &authority.server("server"))
}

/// A server whose clients use TLS with these further options.
async fn server(authority: &Authority, options: &str, top: &str) -> Server {
    with_files(authority).config(format!("tls {{ {FILES}\n{options} }}\n{top}")).monitoring().start().await
}

/// Connects, handshakes and requires that the server serves this client.
async fn served(server: &Server, authority: &Authority, identity: Option<&Identity>) -> Client {
    let mut client = certs::client(server.client_addr(), authority, identity).await.unwrap();
    client.connect(serde_json::json!({})).await;
    client
}

/// Whether the server refuses this client, in the handshake or right after it.
async fn refuses(server: &Server, authority: &Authority, identity: Option<&Identity>) -> bool {
    let Ok(mut client) = certs::client(server.client_addr(), authority, identity).await else { return true };
    ends_before_pong(&mut client).await.unwrap_or(true)
}

/// With TLS 1.3 the client believes the handshake done before the server has looked at its certificate.
async fn ends_before_pong(client: &mut Client) -> io::Result<bool> {
    client.try_send(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await?;
    let answer = client.read_until_pong().await;
    Ok(!answer)
}
