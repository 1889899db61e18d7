//! Requests about clients and accounts, and those that make the server do something.

use serde_json::{Value, json};
use testkit::{Client, Cluster, Member, Server};

use super::{CONFIG, ask, server_id, system_client};
use crate::{monitored, server, target};

/// Everything that one request brings from this many servers.
async fn ask_all(client: &mut Client, subject: &str, body: &str, servers: usize) -> Vec<Value> {
    client.subscribe("_INBOX.all", "all").await;
    client.request(subject, "_INBOX.all", body).await;
    let mut answers = Vec::new();
    for _ in 0..servers {
        answers.push(serde_json::from_str(&client.message().await.payload).unwrap());
    }
    client.expect_silence().await;
    client.op("UNSUB all").await;
    answers
}

#[tokio::test]
async fn a_client_can_be_closed_by_its_number() {
    let server = monitored(CONFIG).await;
    let mut system = system_client(&server).await;
    let mut client = Client::user(&server, "a", "a").await;
    let id = client.infos[0]["client_id"].clone();
    let kick = format!("$SYS.REQ.SERVER.{}.KICK", server_id(&system));
    let answer = ask(&mut system, &kick, &json!({"cid": id}).to_string()).await;
    assert!(answer.get("error").is_none(), "{answer}");
    client.read_to_end().await;
    let closed = server
        .await_json("/connz?state=closed", "the client shows", |connz| connz["num_connections"] == 1)
        .await;
    assert_eq!(
        (&closed["connections"][0]["cid"], &closed["connections"][0]["reason"]),
        (&id, &json!("Kicked"))
    );
    let answer = ask(&mut system, &kick, &json!({"cid": id}).to_string()).await;
    assert_eq!(answer["error"]["code"], 500, "{answer}");
    assert_eq!(answer["error"]["description"], "no such client or leafnode id");
}

#[tokio::test]
async fn a_client_can_be_told_to_go_elsewhere() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let mut client = Client::user(&server, "a", "a").await;
    client.flush().await;
    let id = client.infos[0]["client_id"].clone();
    let subject = format!("$SYS.REQ.SERVER.{}.LDM", server_id(&system));
    let answer = ask(&mut system, &subject, &json!({"cid": id}).to_string()).await;
    assert!(answer.get("error").is_none(), "{answer}");
    client.flush().await;
    assert_eq!(client.info()["ldm"], true, "{}", client.info());
    let answer = ask(&mut system, &subject, "{\"cid\":9999}").await;
    assert_eq!(answer["error"]["description"], "no such client id");
}

#[tokio::test]
async fn a_system_user_can_ask_who_it_is() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let answer = ask(&mut system, "$SYS.REQ.USER.INFO", "").await;
    assert_eq!(answer["data"], json!({"user": "s", "account": "$SYS", "account_name": "$SYS"}));
    let mut restricted = Client::user(&server, "r", "r").await;
    let answer = ask(&mut restricted, "$SYS.REQ.USER.INFO", "").await;
    assert_eq!(answer["data"]["user"], "r");
    let rights = &answer["data"]["permissions"];
    assert_eq!(rights["publish"], json!({"allow": ["$SYS.>"]}));
    assert_eq!(rights["subscribe"], json!({"allow": ["_INBOX.>"], "deny": ["_INBOX.no"]}));
}

#[tokio::test]
async fn each_page_of_an_account_can_be_asked_for() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    let mut client = Client::user(&server, "a", "a").await;
    client.send("SUB foo 1\r\nPUB foo 3\r\nabc\r\n").await;
    client.expect("MSG foo 1 3\r\nabc\r\n").await;
    client.flush().await;
    let connz = ask(&mut system, "$SYS.REQ.ACCOUNT.A.CONNZ", "{\"auth\":true,\"acc\":\"$SYS\"}").await;
    assert_eq!(connz["data"]["num_connections"], 1, "{connz}");
    assert_eq!(connz["data"]["connections"][0]["account"], "A");
    let subsz = ask(&mut system, "$SYS.REQ.ACCOUNT.A.SUBSZ", "").await;
    assert!(subsz["data"]["subscriptions_list"].to_string().contains("\"foo\""), "{subsz}");
    let info = ask(&mut system, "$SYS.REQ.ACCOUNT.A.INFO", "").await;
    assert_eq!(
        (&info["data"]["account_name"], &info["data"]["client_connections"]),
        (&json!("A"), &json!(1))
    );
    let statz = ask(&mut system, "$SYS.REQ.ACCOUNT.A.STATZ", "").await;
    let stat = &statz["data"]["account_statz"][0];
    assert_eq!((&stat["acc"], &stat["conns"]), (&json!("A"), &json!(1)));
    assert_eq!((&stat["received"]["msgs"], &stat["received"]["bytes"]), (&json!(1), &json!(3)));
    assert_eq!((&stat["sent"]["msgs"], &stat["sent"]["bytes"]), (&json!(1), &json!(3)));
    let conns = ask(&mut system, "$SYS.REQ.ACCOUNT.A.CONNS", "").await;
    assert_eq!((&conns["acc"], &conns["conns"]), (&json!("A"), &json!(1)));
    let every = ask(&mut system, "$SYS.REQ.ACCOUNT.PING.STATZ", "{\"accounts\":[\"A\",\"nope\"]}").await;
    assert_eq!(every["data"]["account_statz"].as_array().map(Vec::len), Some(1), "{every}");
}

#[tokio::test]
async fn an_account_that_is_not_there_is_an_error() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    for (subject, body) in
        [("$SYS.REQ.ACCOUNT.nope.INFO", ""), ("$SYS.REQ.SERVER.PING.ACCOUNTZ", "{\"account\":\"nope\"}")]
    {
        let answer = ask(&mut system, subject, body).await;
        assert_eq!(answer["error"]["description"], "Account nope does not exist", "{subject}: {answer}");
        assert!(answer["data"].is_null(), "{answer}");
    }
}

#[tokio::test]
async fn what_the_server_does_not_know_has_no_responder() {
    let server = server(CONFIG).await;
    let mut system = system_client(&server).await;
    system.subscribe("_INBOX.x", "1").await;
    let id = server_id(&system);
    for subject in [
        "$SYS.REQ.SERVER.PING.NOPE".to_owned(),
        format!("$SYS.REQ.SERVER.{id}.NOPE"),
        "$SYS.REQ.ACCOUNT.A.NOPE".to_owned(),
    ] {
        system.request(&subject, "_INBOX.x", "").await;
        assert!(system.message().await.headers.starts_with("NATS/1.0 503\r\n"), "{subject}");
    }
}

async fn cluster() -> Cluster {
    let member = || {
        Member::new(&target()).top(
            "accounts { A { users: [{user: a, password: a}] }, $SYS { users: [{user: s, password: s}] } }",
        )
    };
    Cluster::start(vec![member(), member(), member()]).await
}

fn names(answers: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = answers.iter().map(|answer| answer["server"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

async fn system_clients(servers: &[Server]) -> Vec<Client> {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(system_client(server).await);
    }
    clients
}

#[tokio::test]
async fn every_server_of_a_cluster_answers_a_ping() {
    let cluster = cluster().await;
    let mut clients = system_clients(cluster.servers()).await;
    let first = &mut clients[0];
    for subject in ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.HEALTHZ", "$SYS.REQ.ACCOUNT.A.INFO"] {
        let answers = ask_all(first, subject, "", 3).await;
        assert_eq!(names(&answers), ["n0", "n1", "n2"], "{subject}");
    }
    let picked = ask_all(first, "$SYS.REQ.SERVER.PING.VARZ", "{\"server_name\":\"n2\"}", 1).await;
    assert_eq!(names(&picked), ["n2"]);
}

#[tokio::test]
async fn a_server_can_be_asked_from_another() {
    let cluster = cluster().await;
    let mut clients = system_clients(cluster.servers()).await;
    let id = server_id(&clients[2]);
    let answer = ask(&mut clients[0], &format!("$SYS.REQ.SERVER.{id}.VARZ"), "").await;
    assert_eq!(answer["data"]["server_name"], "n2");
    let who = ask_all(&mut clients[0], "$SYS.REQ.USER.INFO", "", 1).await;
    assert_eq!(names(&who), ["n0"]);
}

#[tokio::test]
async fn subscribers_are_counted_over_all_servers() {
    let cluster = cluster().await;
    let mut clients = system_clients(cluster.servers()).await;
    for client in &mut clients {
        client.subscribe("orders.new", "1").await;
        client.subscribe("orders.*", "2").await;
        client.queue_subscribe("orders.new", "workers", "3").await;
    }
    for (body, count) in
        [("orders.new", "9"), ("orders.new workers", "3"), ("orders.old", "3"), ("stock", "0"), ("", "0")]
    {
        let first = &mut clients[0];
        first.subscribe("_INBOX.n", "n").await;
        first.request("$SYS.DEBUG.SUBSCRIBERS", "_INBOX.n", body).await;
        assert_eq!(first.message().await.payload, count, "{body:?}");
        first.op("UNSUB n").await;
    }
}
