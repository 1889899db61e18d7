//! Who may connect, what they may do, and which accounts keep them apart.

mod accounts;
mod credentials;
mod imports_cluster;
mod imports_config;
mod imports_mappings;
mod imports_services;
mod imports_streams;
mod permissions;
mod queue_permissions;
mod system_account;

use serde_json::Value;
use testkit::{Client, Server};

/// Opens a connection and sends this CONNECT, which the server may refuse.
async fn attempt(server: &Server, fields: Value) -> Client {
    let mut client = Client::open(server.client_addr()).await;
    let mut all = serde_json::json!({"verbose": false, "pedantic": false});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    // PONG shows that the client was let in.
    client.send(format!("CONNECT {all}\r\nPING\r\n")).await;
    client
}

/// Requires that this CONNECT is let in.
async fn let_in(server: &Server, fields: Value) -> Client {
    let mut client = attempt(server, fields).await;
    client.expect("PONG\r\n").await;
    client
}

/// Requires that this CONNECT is refused.
async fn refused(server: &Server, fields: Value) {
    attempt(server, fields).await.expect_fatal("Authorization Violation").await;
}
