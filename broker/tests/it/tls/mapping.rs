//! Certificates as users (`verify_and_map`).

use serde_json::json;
use testkit::certs::{self, Authority, Identity, Names};
use testkit::{Client, Server};

use super::server;

/// Connects with this certificate and returns the user that it became, or nothing if refused.
async fn user_of(server: &Server, authority: &Authority, identity: &Identity) -> Option<String> {
    let mut client: Client = certs::client(server.client_addr(), authority, Some(identity)).await.unwrap();
    client.send("CONNECT {\"verbose\":false,\"protocol\":0}\r\nPING\r\n").await;
    let answer = client.next().await.line();
    if answer != "PONG" {
        assert_eq!(answer, "-ERR 'Authorization Violation'");
        return None;
    }
    let id = client.infos[0]["client_id"].as_u64().unwrap();
    let connz = server.get_json(&format!("/connz?auth=1&cid={id}")).await;
    Some(connz["connections"][0]["authorized_user"].as_str().unwrap().to_owned())
}

async fn with_users(authority: &Authority, names: &[&str]) -> Server {
    let users: Vec<String> = names.iter().map(|name| format!("{{user: \"{name}\"}}")).collect();
    let top = format!("authorization {{ users: [ {} ] }}", users.join(", "));
    server(authority, "verify_and_map: true", &top).await
}

#[tokio::test]
async fn an_email_address_names_the_user() {
    let authority = Authority::new("ca");
    let server = with_users(&authority, &["ann@example.net", "other.example.net"]).await;
    let identity = authority.issue(&Names {
        common: "x",
        email: &["ann@example.net"],
        dns: &["other.example.net"],
        ..Names::default()
    });
    assert_eq!(user_of(&server, &authority, &identity).await.as_deref(), Some("ann@example.net"));
}

#[tokio::test]
async fn a_dns_name_names_the_user() {
    let authority = Authority::new("ca");
    let server = with_users(&authority, &["app.example.net"]).await;
    let identity = authority.issue(&Names {
        common: "x",
        dns: &["no.example.net", "app.example.net"],
        ..Names::default()
    });
    assert_eq!(user_of(&server, &authority, &identity).await.as_deref(), Some("app.example.net"));
}

#[tokio::test]
async fn the_subject_names_the_user() {
    let authority = Authority::new("ca");
    let server = with_users(&authority, &["CN=ann,OU=ops"]).await;
    let identity = authority.issue(&Names { common: "ann", unit: "ops", ..Names::default() });
    assert!(user_of(&server, &authority, &identity).await.is_some());
}

#[tokio::test]
async fn a_subject_is_compared_as_a_whole() {
    // CVE-2026-33248: some names were not compared fully.
    let authority = Authority::new("ca");
    let server = with_users(&authority, &["CN=ann,OU=ops"]).await;
    for (common, unit) in
        [("ann", "dev"), ("ann", ""), ("bob", "ops"), ("ann,OU=ops", ""), ("ANN", "ops"), ("ann ", "ops2")]
    {
        let identity = authority.issue(&Names { common, unit, ..Names::default() });
        assert_eq!(user_of(&server, &authority, &identity).await, None, "CN={common},OU={unit}");
    }
}

#[tokio::test]
async fn a_certificate_of_nobody_is_refused() {
    let authority = Authority::new("ca");
    let server = with_users(&authority, &["ann@example.net"]).await;
    let identity = authority.issue(&Names { common: "bob", email: &["bob@example.net"], ..Names::default() });
    assert_eq!(user_of(&server, &authority, &identity).await, None);
}

#[tokio::test]
async fn the_mapped_user_brings_its_permissions() {
    let authority = Authority::new("ca");
    let top = "authorization { users: [ {user: \"ann@example.net\", permissions: {publish: \"only\"}} ] }";
    let server = server(&authority, "verify_and_map: true", top).await;
    let identity = authority.issue(&Names { common: "x", email: &["ann@example.net"], ..Names::default() });
    let mut client = certs::client(server.client_addr(), &authority, Some(&identity)).await.unwrap();
    client.connect(json!({})).await;
    client.publish("other", "x").await;
    client.expect_error("Permissions Violation for Publish to \"other\"").await;
}
