//! What KEDA's `nats-jetstream` scaler asks of the monitoring port, and what it reads in the answers (as of August 2026).
//!
//! It knows no login. It asks for `/jsz` of one account with consumers and configuration, finds the account by id or by
//! name, adds up what a consumer has pending and what waits for an acknowledgement, and takes
//! `meta_cluster.cluster_size` for the number of servers.

use serde_json::{Value, json};
use testkit::Server;
use testkit::jetstream::JetStream;

use crate::monitored;

const ACCOUNTS: &str = "server_name: store-0
jetstream { store_dir: \"%DIR%/js\" }
accounts {
    APP { jetstream: true, users: [{user: app, password: app}] }
    OTHER { jetstream: true, users: [{user: other, password: other}] }
    PLAIN { users: [{user: plain, password: plain}] }
}";

/// The scaler's request; it sorts parameters by name.
fn page(account: &str) -> String {
    format!("/jsz?acc={account}&config=true&consumers=true")
}

/// A number that the scaler keeps as an integer. Another type would be an error there, nothing at all would be 0.
fn integer(document: &Value, member: &str) -> i64 {
    match document.get(member) {
        None => 0,
        Some(value) => value.as_i64().unwrap_or_else(|| panic!("{member} is no integer in {document:#}")),
    }
}

/// A text that the scaler keeps.
fn text<'a>(document: &'a Value, member: &str) -> &'a str {
    match document.get(member) {
        None => "",
        Some(value) => value.as_str().unwrap_or_else(|| panic!("{member} is no text in {document:#}")),
    }
}

/// The members of a list, or none of them when it is not there.
fn list<'a>(document: &'a Value, member: &str) -> &'a [Value] {
    match document.get(member) {
        None | Some(Value::Null) => &[],
        Some(value) => value.as_array().unwrap_or_else(|| panic!("{member} is no list in {document:#}")),
    }
}

/// How many servers the scaler takes the cluster for.
fn cluster_size(page: &Value) -> i64 {
    page.get("meta_cluster").map_or(0, |meta| integer(meta, "cluster_size"))
}

/// The consumer as the scaler finds it. What it decodes besides has to have the types that it expects.
fn consumer<'a>(page: &'a Value, account: &str, stream: &str, consumer: &str) -> Option<&'a Value> {
    let fits = |detail: &&Value| text(detail, "id") == account || text(detail, "name") == account;
    let account = list(page, "account_details").iter().find(fits)?;
    let stream = list(account, "stream_detail").iter().find(|detail| text(detail, "name") == stream)?;
    for member in ["messages", "last_seq"] {
        integer(&stream["state"], member);
    }
    assert!(list(&stream["config"], "subjects").iter().all(Value::is_string), "{stream:#}");
    let found = list(stream, "consumer_detail").iter().find(|detail| text(detail, "name") == consumer)?;
    for member in ["num_pending", "num_ack_pending", "num_redelivered", "num_waiting"] {
        integer(found, member);
    }
    assert_eq!(text(found, "stream_name"), text(stream, "name"));
    assert_eq!(text(&found["config"], "durable_name"), consumer);
    Some(found)
}

/// What the scaler gives to Kubernetes.
fn lag(consumer: &Value) -> i64 {
    integer(consumer, "num_pending") + integer(consumer, "num_ack_pending")
}

/// Name of the leader as far as the answer has it.
fn leader(consumer: &Value) -> &str {
    consumer.get("cluster").map_or("", |cluster| text(cluster, "leader"))
}

/// A stream `work` with messages and a consumer `worker`.
async fn work(client: &mut JetStream, messages: usize, replicas: usize) {
    client.stream(json!({"name": "work", "subjects": ["work.>"], "num_replicas": replicas})).await;
    client.consumer("work", json!({"durable_name": "worker", "ack_policy": "explicit"})).await;
    for number in 0..messages {
        client.publish(&format!("work.{number}"), "to do").await;
    }
}

/// The lag that one server shows.
async fn lag_of(server: &Server, account: &str) -> Option<i64> {
    let answer = server.get_json(&page(account)).await;
    assert!(cluster_size(&answer) <= 1, "{answer:#}");
    consumer(&answer, account.trim_start_matches("%24"), "work", "worker").map(lag)
}

#[tokio::test]
async fn the_lag_is_what_is_pending_and_what_waits_for_an_acknowledgement() {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "app", "app").await;
    work(&mut client, 25, 1).await;
    assert_eq!(lag_of(&server, "APP").await, Some(25));
    let delivered = client.fetch("work", "worker", 10).await;
    assert_eq!(delivered.len(), 10);
    let answer = server.get_json(&page("APP")).await;
    let found = consumer(&answer, "APP", "work", "worker").unwrap();
    assert_eq!((&found["num_pending"], &found["num_ack_pending"]), (&json!(15), &json!(10)));
    assert_eq!(lag(found), 25);
    for message in &delivered[..4] {
        client.ack(message).await;
    }
    server
        .await_json(&page("APP"), "four of them are done", |answer| {
            consumer(answer, "APP", "work", "worker").map(lag) == Some(21)
        })
        .await;
}

#[tokio::test]
async fn an_account_is_found_by_its_name_and_what_is_not_there_is_not_found() {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "app", "app").await;
    work(&mut client, 3, 1).await;
    let mut other = JetStream::user(&server, "other", "other").await;
    work(&mut other, 5, 1).await;
    assert_eq!((lag_of(&server, "APP").await, lag_of(&server, "OTHER").await), (Some(3), Some(5)));
    for account in ["PLAIN", "NOBODY"] {
        assert_eq!(lag_of(&server, account).await, None, "{account}");
    }
    let answer = server.get_json(&page("APP")).await;
    assert_eq!(list(&answer, "account_details").len(), 1, "only the one that was asked for: {answer:#}");
    assert!(consumer(&answer, "APP", "work", "nobody").is_none());
    assert!(consumer(&answer, "APP", "nothing", "worker").is_none());
}

#[tokio::test]
async fn the_account_of_a_server_without_accounts_is_found_by_its_escaped_name() {
    let server = monitored("server_name: store-0\njetstream { store_dir: \"%DIR%/js\" }").await;
    let mut client = JetStream::connect(&server).await;
    work(&mut client, 7, 1).await;
    let answer = server.get_json(&page("%24G")).await;
    assert_eq!(consumer(&answer, "$G", "work", "worker").map(lag), Some(7), "{answer:#}");
}

#[tokio::test]
async fn a_server_alone_is_asked_once() {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "app", "app").await;
    work(&mut client, 1, 1).await;
    let answer = server.get_json(&page("APP")).await;
    assert_eq!(cluster_size(&answer), 0, "{answer:#}");
    assert_eq!(leader(consumer(&answer, "APP", "work", "worker").unwrap()), "");
}
