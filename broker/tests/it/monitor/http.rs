//! The endpoints as HTTP: types, bad queries, base path, TLS.

use testkit::{Builder, Client};

use crate::{monitored, target};

#[tokio::test]
async fn documents_are_pretty_printed_json() {
    let server = monitored("").await;
    for path in ["/varz", "/connz", "/routez", "/subsz", "/subscriptionsz"] {
        let response = server.get(path).await;
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{path}");
        assert!(response.body.starts_with("{\n  \"server_id\": \""), "{path}: {}", response.body);
        response.json();
    }
}

#[tokio::test]
async fn health_is_one_short_line() {
    let server = monitored("").await;
    for path in
        ["/healthz", "/healthz?js-enabled-only=true", "/healthz?js-server-only=1", "/healthz?details=1"]
    {
        let response = server.get(path).await;
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(response.body, "{\"status\":\"ok\"}", "{path}");
    }
}

#[tokio::test]
async fn the_root_is_an_index_page() {
    let server = monitored("").await;
    let response = server.get("/").await;
    assert_eq!(response.status, 200);
    assert!(response.header("content-type").unwrap().starts_with("text/html"), "{response:?}");
    for path in ["varz", "connz", "routez", "subsz", "healthz"] {
        assert!(response.body.contains(path), "no link to {path}");
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let server = monitored("").await;
    for path in ["/nope", "/varz/x", "/debug"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn bad_query_values_are_refused_with_a_text() {
    let server = monitored("").await;
    let bool_error = |name: &str, value: &str| {
        format!("Error decoding boolean for '{name}': strconv.ParseBool: parsing \"{value}\": invalid syntax")
    };
    let int_error = |name: &str, value: &str| {
        format!("Error decoding int for '{name}': strconv.Atoi: parsing \"{value}\": invalid syntax")
    };
    let cases = [
        ("/connz?sort=nope", "invalid sorting option: nope".to_owned()),
        ("/connz?sort=stop", "sort by stop only valid on closed connections".to_owned()),
        ("/connz?sort=reason", "sort by reason only valid on closed connections".to_owned()),
        ("/connz?subs=maybe", bool_error("subs", "maybe")),
        ("/connz?auth=x", bool_error("auth", "x")),
        ("/connz?offset=x", int_error("offset", "x")),
        ("/connz?limit=1.5", int_error("limit", "1.5")),
        (
            "/connz?cid=x",
            "Error decoding uint64 for 'cid': strconv.ParseUint: parsing \"x\": invalid syntax".to_owned(),
        ),
        ("/connz?state=x", "Error decoding state for x".to_owned()),
        ("/routez?subs=q", bool_error("subs", "q")),
        ("/subsz?subs=x", bool_error("subs", "x")),
        ("/subsz?offset=x", int_error("offset", "x")),
        ("/subsz?limit=x", int_error("limit", "x")),
        ("/subsz?test=a..b", "invalid test subject, must be valid publish subject: a..b".to_owned()),
        ("/subsz?test=a.*", "invalid test subject, must be valid publish subject: a.*".to_owned()),
        ("/healthz?js-enabled-only=x", bool_error("js-enabled-only", "x")),
    ];
    for (path, text) in cases {
        let response = server.get(path).await;
        assert_eq!(response.status, 400, "{path}: {}", response.body);
        assert_eq!(response.body.trim_end(), text, "{path}");
    }
}

#[tokio::test]
async fn booleans_are_understood_in_every_usual_spelling() {
    let server = monitored("").await;
    for value in ["1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False", ""] {
        assert_eq!(server.get(&format!("/connz?subs={value}")).await.status, 200, "{value}");
    }
}

#[tokio::test]
async fn asking_for_the_health_of_a_stream_needs_its_account() {
    let server = monitored("").await;
    let response = server.get("/healthz?stream=x").await;
    assert_eq!(response.status, 400);
    assert_eq!(
        response.body,
        "{\"status\":\"error\",\"error\":\"\\\"account\\\" must not be empty when checking stream health\"}"
    );
}

#[tokio::test]
async fn every_hit_is_counted() {
    let server = monitored("").await;
    for _ in 0..3 {
        server.get("/connz").await;
    }
    server.get("/").await;
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["http_req_stats"]["/connz"], 3, "{varz}");
    assert_eq!(varz["http_req_stats"]["/"], 1);
    assert_eq!(varz["http_req_stats"]["/varz"], 1);
}

#[tokio::test]
async fn a_base_path_stands_before_every_endpoint() {
    let server = monitored("http_base_path: \"/nats\"").await;
    assert_eq!(server.get("/nats/varz").await.status, 200);
    assert_eq!(server.get("/nats/healthz").await.status, 200);
    assert_eq!(server.get("/varz").await.status, 404);
    assert_eq!(server.get_json("/nats/varz").await["http_base_path"], "/nats");
}

#[tokio::test]
async fn the_callback_parameter_of_old_is_ignored() {
    let server = monitored("").await;
    let response = server.get("/varz?callback=evil").await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert!(response.body.starts_with('{'), "{}", response.body);
}

#[tokio::test]
async fn monitoring_may_be_set_in_the_configuration() {
    let server = Builder::new(&target()).config("http: \"127.0.0.1:-1\"").start().await;
    assert_eq!(server.get_json("/varz").await["http_host"], "127.0.0.1");
    Client::ready(&server).await.expect_silence().await;
}
