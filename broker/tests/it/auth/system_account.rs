//! Requests to the server through the system account.

use serde_json::{Value, json};
use testkit::{Client, Server};

use crate::{monitored, server};

const CONFIG: &str = "server_name: alpha\naccounts { A { users: [{user: a, password: a}] }, $SYS { users: [{user: s, password: s}] } }";

/// A system user whose inbox is subscribed to.
async fn system_client(server: &Server) -> Client {
    let mut client = Client::user(server, "s", "s").await;
    client.subscribe("_INBOX.>", "1").await;
    client
}

/// Sends a request and reads one answer.
async fn ask(client: &mut Client, subject: &str, body: &str) -> Value {
    client.request(subject, "_INBOX.x", body).await;
    let message = client.message().await;
    assert_eq!(message.subject, "_INBOX.x");
    serde_json::from_str(&message.payload).unwrap()
}

fn server_id(client: &Client) -> String {
    client.infos[0]["server_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_monitoring_document_can_be_asked_for_by_server_id() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let id = server_id(&client);
    for (name, key) in [
        ("VARZ", "max_payload"),
        ("CONNZ", "connections"),
        ("ROUTEZ", "routes"),
        ("SUBSZ", "num_subscriptions"),
        ("HEALTHZ", "status"),
    ] {
        let answer = ask(&mut client, &format!("$SYS.REQ.SERVER.{id}.{name}"), "").await;
        assert_eq!(answer["server"]["id"], id.as_str(), "{name}: {answer}");
        assert_eq!(answer["server"]["name"], "alpha");
        assert!(answer["data"].get(key).is_some(), "{name} without {key}: {answer}");
        let ping = ask(&mut client, &format!("$SYS.REQ.SERVER.PING.{name}"), "").await;
        assert!(ping["data"].get(key).is_some(), "PING.{name} without {key}: {ping}");
    }
}

#[tokio::test]
async fn the_envelope_describes_the_server() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let first = ask(&mut client, "$SYS.REQ.SERVER.PING.VARZ", "").await["server"].clone();
    let second = ask(&mut client, "$SYS.REQ.SERVER.PING.VARZ", "").await["server"].clone();
    assert_eq!(first["name"], "alpha");
    assert_eq!(first["host"], "127.0.0.1");
    assert_eq!(first["ver"], client.infos[0]["version"]);
    assert_eq!(first["jetstream"], false);
    assert!(first["flags"].is_u64() || first["flags"].is_null(), "{first}");
    assert!(first["time"].is_string(), "{first}");
    assert!(second["seq"].as_u64() > first["seq"].as_u64(), "{first} {second}");
}

#[tokio::test]
async fn statistics_and_identity_have_their_own_shape() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let id = server_id(&client);
    for subject in [
        format!("$SYS.REQ.SERVER.{id}.STATSZ"),
        "$SYS.REQ.SERVER.PING".into(),
        "$SYS.REQ.SERVER.PING.STATSZ".into(),
    ] {
        let answer = ask(&mut client, &subject, "").await;
        assert_eq!(answer["server"]["id"], id.as_str(), "{subject}: {answer}");
        assert_eq!(answer["statsz"]["connections"], 1, "{subject}: {answer}");
    }
    let identity = ask(&mut client, "$SYS.REQ.SERVER.PING.IDZ", "").await;
    assert_eq!(identity["id"], id.as_str());
    assert_eq!(identity["name"], "alpha");
}

#[tokio::test]
async fn options_of_the_body_select_as_query_values_do() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let _other = Client::user(&server, "a", "a").await;
    let all = ask(&mut client, "$SYS.REQ.SERVER.PING.CONNZ", "{\"auth\":true}").await;
    assert_eq!(all["data"]["num_connections"], 2, "{all}");
    let one = ask(&mut client, "$SYS.REQ.SERVER.PING.CONNZ", "{\"auth\":true,\"acc\":\"A\"}").await;
    assert_eq!(one["data"]["num_connections"], 1, "{one}");
    assert_eq!(one["data"]["connections"][0]["authorized_user"], "a");
    let paged = ask(&mut client, "$SYS.REQ.SERVER.PING.CONNZ", "{\"limit\":1,\"offset\":1}").await;
    assert_eq!(paged["data"]["connections"].as_array().unwrap().len(), 1, "{paged}");
    let listed = ask(&mut client, "$SYS.REQ.SERVER.PING.SUBSZ", "{\"subscriptions\":true}").await;
    assert!(listed["data"]["subscriptions_list"].is_array(), "{listed}");
}

#[tokio::test]
async fn a_server_that_a_filter_does_not_name_is_silent() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    for filter in [
        json!({"server_name": "beta"}),
        json!({"cluster": "c"}),
        json!({"host": "10.0.0.1"}),
        json!({"tags": ["x"]}),
        json!({"domain": "d"}),
        json!({"server_name": "alph", "exact_match": true}),
    ] {
        client.request("$SYS.REQ.SERVER.PING.VARZ", "_INBOX.x", &filter.to_string()).await;
    }
    // The answer to this last request is the first that comes.
    let answer =
        ask(&mut client, "$SYS.REQ.SERVER.PING.VARZ", "{\"server_name\":\"alpha\",\"exact_match\":true}")
            .await;
    assert_eq!(answer["data"]["server_name"], "alpha");
    let partial = ask(&mut client, "$SYS.REQ.SERVER.PING.VARZ", "{\"server_name\":\"lph\"}").await;
    assert_eq!(partial["data"]["server_name"], "alpha");
    client.expect_silence().await;
}

#[tokio::test]
async fn a_body_that_is_not_json_is_answered_with_an_error() {
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let answer = ask(&mut client, "$SYS.REQ.SERVER.PING.CONNZ", "{nonsense").await;
    assert_eq!(answer["error"]["code"], 400, "{answer}");
    assert!(answer["error"]["description"].is_string(), "{answer}");
    assert!(answer.get("data").is_none(), "{answer}");
}

#[tokio::test]
async fn paging_to_the_end_of_numbers_gives_an_empty_page() {
    // GHSA-q59r-vq66-pxc2, through the system account.
    let server = server(CONFIG).await;
    let mut client = system_client(&server).await;
    let body = format!("{{\"offset\":{0},\"limit\":{0},\"subscriptions\":true}}", i64::MAX);
    let connz = ask(&mut client, "$SYS.REQ.SERVER.PING.CONNZ", &body).await;
    assert_eq!(connz["data"]["num_connections"], 0, "{connz}");
    let subsz = ask(&mut client, "$SYS.REQ.SERVER.PING.SUBSZ", &body).await;
    assert_eq!(subsz["data"]["total"].as_u64().map(|_| ()), Some(()), "{subsz}");
    client.expect_silence().await;
}

#[tokio::test]
async fn requests_from_other_accounts_are_not_heard() {
    let server = server(CONFIG).await;
    let mut client = Client::user(&server, "a", "a").await;
    let id = server_id(&client);
    client.subscribe("_INBOX.>", "1").await;
    for subject in [
        format!("$SYS.REQ.SERVER.{id}.VARZ"),
        "$SYS.REQ.SERVER.PING.VARZ".into(),
        format!("$SYS.REQ.SERVER.{id}.RELOAD"),
    ] {
        client.request(&subject, "_INBOX.x", "").await;
        let message = client.message().await;
        assert_eq!(message.headers, format!("NATS/1.0 503\r\nNats-Subject: {subject}\r\n\r\n"));
    }
}

#[tokio::test]
async fn a_reload_can_be_asked_for() {
    let mut server = monitored(CONFIG).await;
    let mut client = system_client(&server).await;
    let id = server_id(&client);
    server.write_config(&format!("{CONFIG}\nmax_payload: 4096"));
    let answer = ask(&mut client, &format!("$SYS.REQ.SERVER.{id}.RELOAD"), "").await;
    assert_eq!(answer["server"]["id"], id.as_str());
    assert!(answer.get("error").is_none(), "{answer}");
    assert_eq!(server.get_json("/varz").await["max_payload"], 4096);

    server.write_config(&format!("{CONFIG}\nmax_payload: [broken"));
    let answer = ask(&mut client, &format!("$SYS.REQ.SERVER.{id}.RELOAD"), "").await;
    assert_eq!(answer["error"]["code"], 500, "{answer}");
    assert_eq!(server.get_json("/varz").await["max_payload"], 4096);
}
