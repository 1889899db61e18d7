//! `/connz`: who is connected, who was, and how to pick and order them.

use serde_json::{Value, json};
use testkit::{Client, Server};

use crate::monitored;

const ACCOUNTS: &str =
    "accounts { A { users: [{user: ann, password: a}] }, B { users: [{user: bob, password: b}] } }";

fn connections(connz: &Value) -> &Vec<Value> {
    connz["connections"].as_array().unwrap()
}

async fn names(server: &Server, path: &str) -> Vec<String> {
    let connz = server.get_json(path).await;
    connections(&connz).iter().map(|connection| connection["name"].as_str().unwrap().to_owned()).collect()
}

async fn named(server: &Server, name: &str) -> Client {
    Client::ready_with(server, json!({"name": name})).await
}

#[tokio::test]
async fn a_connection_shows_what_its_client_said_and_did() {
    let server = monitored("").await;
    let mut client = named(&server, "worker").await;
    client.send("SUB foo 1\r\nSUB bar q 2\r\nPUB foo 3\r\nabc\r\n").await;
    client.expect("MSG foo 1 3\r\nabc\r\n").await;
    client.flush().await;
    let connz = server.get_json("/connz?subs=1").await;
    let connection = &connections(&connz)[0];
    assert_eq!(connection["cid"], client.infos[0]["client_id"]);
    assert_eq!(connection["name"], "worker");
    assert_eq!(connection["lang"], "testkit");
    assert_eq!(connection["version"], "1.0");
    assert_eq!(connection["kind"], "Client");
    assert_eq!(connection["type"], "nats");
    assert_eq!(connection["ip"], "127.0.0.1");
    assert_eq!(connection["in_msgs"], 1);
    assert_eq!(connection["in_bytes"], 3);
    assert_eq!(connection["out_msgs"], 1);
    assert_eq!(connection["out_bytes"], 3);
    assert_eq!(connection["pending_bytes"], 0);
    assert_eq!(connection["subscriptions"], 2);
    let mut list: Vec<&str> = connection["subscriptions_list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subject| subject.as_str().unwrap())
        .collect();
    list.sort_unstable();
    assert_eq!(list, ["bar", "foo"]);
}

#[tokio::test]
async fn subscriptions_can_be_shown_in_detail() {
    let server = monitored("").await;
    let mut client = named(&server, "worker").await;
    client.send("SUB foo 1\r\nSUB bar q 2\r\nUNSUB 1 10\r\nPUB foo 3\r\nabc\r\n").await;
    client.expect("MSG foo 1 3\r\nabc\r\n").await;
    let connz = server.get_json("/connz?subs=detail").await;
    let mut details = connections(&connz)[0]["subscriptions_list_detail"].as_array().unwrap().clone();
    details.sort_by_key(|detail| detail["sid"].as_str().unwrap().to_owned());
    assert_eq!(details[0]["subject"], "foo");
    assert_eq!(details[0]["msgs"], 1);
    assert_eq!(details[0]["max"], 10);
    assert_eq!(details[1]["subject"], "bar");
    assert_eq!(details[1]["qgroup"], "q");
    assert_eq!(details[1]["cid"], client.infos[0]["client_id"]);
}

#[tokio::test]
async fn user_and_account_are_shown_only_on_request() {
    let server = monitored(ACCOUNTS).await;
    let _ann = Client::user(&server, "ann", "a").await;
    let plain = server.get_json("/connz").await;
    assert!(connections(&plain)[0].get("authorized_user").is_none(), "{plain}");
    assert!(connections(&plain)[0].get("account").is_none(), "{plain}");
    let with_auth = server.get_json("/connz?auth=1").await;
    assert_eq!(connections(&with_auth)[0]["authorized_user"], "ann");
    assert_eq!(connections(&with_auth)[0]["account"], "A");
}

#[tokio::test]
async fn connections_can_be_picked_by_id_user_account_and_subject() {
    let server = monitored(ACCOUNTS).await;
    let mut ann = Client::user(&server, "ann", "a").await;
    let mut bob = Client::user(&server, "bob", "b").await;
    ann.subscribe("orders.*", "1").await;
    bob.subscribe("stock", "1").await;
    let ann_id = ann.infos[0]["client_id"].as_u64().unwrap();
    for path in [
        format!("/connz?cid={ann_id}"),
        "/connz?user=ann&auth=1".to_owned(),
        "/connz?acc=A&auth=1".to_owned(),
        "/connz?filter_subject=orders.new&acc=A&auth=1".to_owned(),
    ] {
        let connz = server.get_json(&path).await;
        assert_eq!(connz["num_connections"], 1, "{path}: {connz}");
        assert_eq!(connections(&connz)[0]["cid"], ann_id, "{path}");
    }
    for path in ["/connz?cid=99999", "/connz?user=carl&auth=1", "/connz?acc=C&auth=1"] {
        let connz = server.get_json(path).await;
        assert_eq!(connz["num_connections"], 0, "{path}: {connz}");
        assert_eq!(connz["connections"].as_array().map_or(0, Vec::len), 0, "{path}");
    }
}

#[tokio::test]
async fn pages_follow_offset_and_limit() {
    let server = monitored("").await;
    let mut clients = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        clients.push(named(&server, name).await);
    }
    assert_eq!(names(&server, "/connz?limit=2").await, ["a", "b"]);
    assert_eq!(names(&server, "/connz?limit=2&offset=2").await, ["c", "d"]);
    assert_eq!(names(&server, "/connz?limit=2&offset=4").await, ["e"]);
    assert_eq!(names(&server, "/connz?offset=10").await, [""; 0]);
    let page = server.get_json("/connz?limit=2&offset=2").await;
    assert_eq!((&page["num_connections"], &page["total"]), (&json!(2), &json!(5)));
    assert_eq!((&page["offset"], &page["limit"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn paging_to_the_end_of_numbers_gives_an_empty_page() {
    // GHSA-q59r-vq66-pxc2: the sum of offset and limit overflowed.
    let server = monitored("").await;
    let _client = named(&server, "a").await;
    for path in ["/connz", "/subsz?subs=1", "/connz?state=any"] {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}offset={0}&limit={0}", i64::MAX);
        let document = server.get_json(&path).await;
        let list = document.get("connections").or_else(|| document.get("subscriptions_list"));
        let shown = list.and_then(Value::as_array).map_or(0, Vec::len);
        assert_eq!(shown, 0, "{path}: {document}");
    }
    let huge_limit = server.get_json(&format!("/connz?offset=0&limit={}", i64::MAX)).await;
    assert_eq!(connections(&huge_limit).len(), 1);
    let beyond = server.get("/connz?offset=99999999999999999999").await;
    assert_eq!(beyond.status, 400);
}

#[tokio::test]
async fn connections_are_ordered_as_asked() {
    let server = monitored("").await;
    let mut quiet = named(&server, "quiet").await;
    let mut loud = named(&server, "loud").await;
    let mut ears = named(&server, "ears").await;
    ears.send("SUB noise 1\r\nSUB x 2\r\nSUB y 3\r\n").await;
    ears.flush().await;
    quiet.publish("noise", "a much longer payload than all of the others taken together").await;
    quiet.flush().await;
    for _ in 0..5 {
        loud.publish("noise", "x").await;
    }
    loud.flush().await;
    ears.take(6).await;
    assert_eq!(names(&server, "/connz?sort=cid").await, ["quiet", "loud", "ears"]);
    assert_eq!(names(&server, "/connz?sort=start").await, ["quiet", "loud", "ears"]);
    assert_eq!(names(&server, "/connz?sort=subs&limit=1").await, ["ears"]);
    assert_eq!(names(&server, "/connz?sort=msgs_to&limit=1").await, ["ears"]);
    assert_eq!(names(&server, "/connz?sort=bytes_to&limit=1").await, ["ears"]);
    assert_eq!(names(&server, "/connz?sort=msgs_from&limit=2").await, ["loud", "quiet"]);
    assert_eq!(names(&server, "/connz?sort=bytes_from&limit=2").await, ["quiet", "loud"]);
    for sort in ["pending", "last", "idle", "uptime", "rtt"] {
        assert_eq!(names(&server, &format!("/connz?sort={sort}")).await.len(), 3, "{sort}");
    }
}

#[tokio::test]
async fn closed_connections_are_kept_with_their_reason() {
    let server = monitored("").await;
    let open = named(&server, "open").await;
    let leaving = named(&server, "leaving").await;
    let leaving_id = leaving.infos[0]["client_id"].clone();
    drop(leaving);
    let mut faulty = named(&server, "faulty").await;
    faulty.op("NONSENSE").await;
    faulty.read_to_end().await;
    let closed = server
        .await_json("/connz?state=closed&sort=stop", "both show", |connz| connz["num_connections"] == 2)
        .await;
    let by_name =
        |name: &str| connections(&closed).iter().find(|connection| connection["name"] == name).unwrap();
    assert_eq!(by_name("leaving")["reason"], "Client Closed");
    assert_eq!(by_name("leaving")["cid"], leaving_id);
    assert!(by_name("leaving")["stop"].is_string(), "{closed}");
    assert!(by_name("faulty")["reason"].is_string(), "{closed}");
    assert_eq!(names(&server, "/connz").await, ["open"]);
    for state in ["any", "all", "ALL", "Any"] {
        assert_eq!(names(&server, &format!("/connz?state={state}")).await.len(), 3, "{state}");
    }
    // #6248: an id together with every state once gave nothing.
    let by_id = server.get_json(&format!("/connz?state=all&cid={leaving_id}")).await;
    assert_eq!(by_id["num_connections"], 1, "{by_id}");
    assert_eq!(connections(&by_id)[0]["reason"], "Client Closed");
    drop(open);
}

#[tokio::test]
async fn as_many_closed_connections_are_kept_as_configured() {
    let server = monitored("max_closed_clients: 3").await;
    for number in 0..6 {
        drop(named(&server, &format!("c{number}")).await);
        server.await_json("/varz", "the connection is closed", |varz| varz["connections"] == 0).await;
    }
    let closed = server
        .await_json("/connz?state=closed", "the last three", |connz| connz["num_connections"] == 3)
        .await;
    assert_eq!(closed["total"].as_u64().map(|total| total >= 3), Some(true), "{closed}");
    let mut kept = names(&server, "/connz?state=closed").await;
    kept.sort();
    assert_eq!(kept, ["c3", "c4", "c5"]);
}
