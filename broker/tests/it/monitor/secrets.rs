//! Nothing that monitoring or the log shows holds a secret.

use testkit::{Builder, Client};

use crate::{server, target};

const PATHS: [&str; 10] = [
    "/",
    "/varz",
    "/connz?auth=1&subs=detail&state=any",
    "/routez?subs=detail",
    "/subsz?subs=1",
    "/healthz?details=1",
    "/debug/vars",
    "/accountz",
    "/stacksz",
    "/metrics",
];

#[tokio::test]
async fn secrets_of_the_command_line_are_shown_nowhere() {
    // CVE-2026-33247: the arguments were part of the debug variables.
    let other = server(
        "cluster { name: c1, listen: \"127.0.0.1:-1\", authorization { user: r, password: route-secret } }",
    )
    .await;
    let routes = format!("nats-route://r:route-secret@{}", other.cluster_addr());
    let server = Builder::new(&target())
        .args(["--user", "ann", "--pass", "pass-secret", "--routes", &routes])
        .args(["--cluster", "nats://r:route-secret@127.0.0.1:-1", "--cluster_name", "c1"])
        .monitoring()
        .start()
        .await;
    server.await_json("/varz", "a route", |varz| varz["routes"].as_u64() > Some(0)).await;
    let _client = Client::user(&server, "ann", "pass-secret").await;
    for path in PATHS {
        let body = server.get(path).await.body;
        assert!(!body.contains("secret"), "{path} shows a secret: {body}");
    }
    assert!(!server.log().contains("secret"), "the log shows a secret: {}", server.log());
}

#[tokio::test]
async fn secrets_of_the_configuration_are_shown_nowhere() {
    let server = Builder::new(&target())
        .config(
            "authorization { users: [ {user: ann, password: pass-secret} ] }
             cluster { name: c1, listen: \"127.0.0.1:-1\", authorization { user: r, password: route-secret }
                       routes: [\"nats-route://r:route-secret@127.0.0.1:1\"] }",
        )
        .args(["-D"])
        .monitoring()
        .start()
        .await;
    let _client = Client::user(&server, "ann", "pass-secret").await;
    server.await_log("Error trying to connect to route").await;
    for path in PATHS {
        let body = server.get(path).await.body;
        assert!(!body.contains("secret"), "{path} shows a secret: {body}");
    }
    assert!(!server.log().contains("secret"), "the log shows a secret: {}", server.log());
}

#[tokio::test]
async fn a_traced_connect_hides_the_password() {
    let server = Builder::new(&target())
        .config("authorization { user: ann, password: pass-secret }")
        .args(["-DV"])
        .start()
        .await;
    let _client = Client::user(&server, "ann", "pass-secret").await;
    server.await_log("CONNECT {").await;
    assert!(!server.log().contains("pass-secret"), "the log shows a password: {}", server.log());
}

#[tokio::test]
async fn a_traced_token_is_hidden() {
    let server =
        Builder::new(&target()).config("authorization { token: token-secret }").args(["-DV"]).start().await;
    let _client = Client::ready_with(&server, serde_json::json!({"auth_token": "token-secret"})).await;
    server.await_log("CONNECT {").await;
    assert!(!server.log().contains("token-secret"), "the log shows a token: {}", server.log());
}
