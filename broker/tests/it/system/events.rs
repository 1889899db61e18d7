//! Events about clients, accounts and the server.

use serde_json::{Value, json};
use testkit::{Client, Signal};

use super::{CONFIG, await_event, server_id, system_client};
use crate::server;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test]
async fn a_client_that_comes_and_goes_is_told_of() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    system.subscribe("$SYS.ACCOUNT.A.CONNECT", "1").await;
    system.subscribe("$SYS.ACCOUNT.A.DISCONNECT", "2").await;
    let mut client = Client::ready_with(&server, json!({"user": "a", "pass": "a", "name": "worker"})).await;
    client.send("SUB foo 1\r\nPUB foo 3\r\nabc\r\nPUB bar 2\r\nab\r\n").await;
    client.expect("MSG foo 1 3\r\nabc\r\n").await;
    client.flush().await;
    let id = client.infos[0]["client_id"].clone();
    drop(client);

    let connect = await_event(&mut system, "$SYS.ACCOUNT.A.CONNECT").await;
    assert_eq!(connect["type"], "io.nats.server.advisory.v1.client_connect");
    assert!(connect["id"].as_str().is_some_and(|id| id.len() == 22), "{connect}");
    assert_eq!(connect["server"]["id"], server_id(&system).as_str());
    assert_eq!(connect["server"]["name"], "alpha");
    assert_eq!(connect["client"]["id"], id);
    assert_eq!(connect["client"]["acc"], "A");
    assert_eq!(connect["client"]["user"], "a");
    assert_eq!(connect["client"]["name"], "worker");
    assert_eq!(connect["client"]["lang"], "testkit");
    assert_eq!(connect["client"]["host"], "127.0.0.1");
    assert_eq!(connect["client"]["kind"], "Client");
    assert!(connect["client"].get("stop").is_none(), "{connect}");

    let disconnect = await_event(&mut system, "$SYS.ACCOUNT.A.DISCONNECT").await;
    assert_eq!(disconnect["type"], "io.nats.server.advisory.v1.client_disconnect");
    assert_eq!(disconnect["client"]["id"], id);
    assert_eq!(disconnect["reason"], "Client Closed");
    assert_eq!(disconnect["sent"], json!({"msgs": 2, "bytes": 5}));
    assert_eq!(disconnect["received"], json!({"msgs": 1, "bytes": 3}));
    assert!(disconnect["client"]["stop"].is_string(), "{disconnect}");
    assert!(number(&disconnect["server"]["seq"]) > number(&connect["server"]["seq"]));
}

#[tokio::test]
async fn the_connections_of_an_account_are_counted_at_every_change() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    for subject in ["$SYS.SERVER.ACCOUNT.A.CONNS", "$SYS.ACCOUNT.A.SERVER.CONNS"] {
        system.subscribe(subject, "1").await;
        let client = Client::user(&server, "a", "a").await;
        let one = await_event(&mut system, subject).await;
        assert_eq!(one["type"], "io.nats.server.advisory.v1.account_connections");
        assert_eq!((&one["acc"], &one["conns"], &one["total_conns"]), (&json!("A"), &json!(1), &json!(1)));
        drop(client);
        let none = await_event(&mut system, subject).await;
        assert_eq!(none["conns"], 0, "{none}");
        system.op("UNSUB 1").await;
    }
}

#[tokio::test]
async fn a_refused_client_is_told_of() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let subject = format!("$SYS.SERVER.{}.CLIENT.AUTH.ERR", server_id(&system));
    system.subscribe(&subject, "1").await;
    let mut client = Client::dial(server.client_addr()).await;
    client.greet().await;
    client.send("CONNECT {\"user\":\"a\",\"pass\":\"guess\",\"name\":\"burglar\"}\r\n").await;
    client.expect_fatal("Authorization Violation").await;
    let event = await_event(&mut system, &subject).await;
    assert_eq!(event["type"], "io.nats.server.advisory.v1.client_disconnect");
    assert_eq!(event["reason"], "Authentication Failure");
    assert_eq!(event["client"]["user"], "a");
    assert_eq!(event["client"]["name"], "burglar");
    assert!(!event.to_string().contains("guess"), "{event}");
}

#[tokio::test]
async fn figures_of_the_server_come_by_themselves() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let subject = format!("$SYS.SERVER.{}.STATSZ", server_id(&system));
    system.subscribe(&subject, "1").await;
    let statsz = await_event(&mut system, &subject).await;
    assert_eq!(statsz["server"]["name"], "alpha");
    assert_eq!(statsz["statsz"]["connections"], 1);
    // A request without a reply subject brings the figures at once.
    system.publish("$SYS.REQ.SERVER.PING", "").await;
    let again = await_event(&mut system, &subject).await;
    assert!(number(&again["server"]["seq"]) > number(&statsz["server"]["seq"]));
}

#[tokio::test]
async fn a_server_says_that_it_ends() {
    let mut server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let id = server_id(&system);
    let subject = format!("$SYS.SERVER.{id}.SHUTDOWN");
    system.subscribe(&subject, "1").await;
    server.signal(Signal::TERM);
    assert_eq!(await_event(&mut system, &subject).await["id"], id.as_str());
    server.await_exit().await;
}

#[tokio::test]
async fn a_server_says_that_it_sends_its_clients_away() {
    let server =
        server(&format!("{CONFIG}\nlame_duck_duration: \"30s\"\nlame_duck_grace_period: \"20s\"")).await;
    let mut system = system_client(&server).await;
    let id = server_id(&system);
    let subject = format!("$SYS.SERVER.{id}.LAMEDUCK");
    system.subscribe(&subject, "1").await;
    server.signal(Signal::USR2);
    assert_eq!(await_event(&mut system, &subject).await["id"], id.as_str());
}

#[tokio::test]
async fn events_stay_in_the_system_account() {
    let server = server(CONFIG).await;
    let mut client = Client::user(&server, "a", "a").await;
    client.subscribe("$SYS.ACCOUNT.>", "1").await;
    client.subscribe("$SYS.SERVER.>", "2").await;
    drop(Client::user(&server, "a", "a").await);
    client.expect_silence().await;
}
