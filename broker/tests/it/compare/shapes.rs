//! Monitoring documents and answers of the system account have the same fields of the same types.

use serde_json::Value;
use testkit::{Client, Cluster, Member, Server};

use super::{both, shape, start_both};

/// Parts that legitimately differ: what names the build, maps whose keys are features or paths, and the write deadline of
/// routes, which the reference also shows for gateways and leafnodes that are not configured.
const IGNORED: [&str; 7] = [
    "git_commit",
    "feature_flags",
    "http_req_stats",
    "gomemlimit",
    "name_tag",
    "gateway.write_deadline",
    "leaf.write_deadline",
];

fn comparable(document: &Value) -> Vec<String> {
    let mut fields = shape(document);
    fields.retain(|field| !IGNORED.iter().any(|ignored| field.contains(&format!(".{ignored}"))));
    fields
}

async fn assert_same(servers: &[Server; 2], paths: &[&str]) {
    for path in paths {
        let ours = servers[0].get(path).await;
        let theirs = servers[1].get(path).await;
        assert_eq!(ours.status, theirs.status, "{path}: {} / {}", ours.body, theirs.body);
        assert_eq!(comparable(&ours.json()), comparable(&theirs.json()), "{path}");
    }
}

const CONFIG: &str = "server_name: same
accounts { A { users: [{user: a, password: a}] }, $SYS { users: [{user: s, password: s}] } }
server_tags: [\"a:b\"]
max_subscriptions: 1000";

/// Connections and subscriptions that fill the documents.
async fn populate(server: &Server) -> Vec<Client> {
    let mut busy = Client::user(server, "a", "a").await;
    busy.send("SUB foo 1\r\nUNSUB 1 100\r\nSUB bar q 2\r\nPUB foo 3\r\nabc\r\n").await;
    busy.expect("MSG foo 1 3\r\nabc\r\n").await;
    let mut faulty = Client::user(server, "a", "a").await;
    faulty.op("NONSENSE").await;
    faulty.read_to_end().await;
    server.await_json("/connz?state=closed", "one closed", |connz| connz["num_connections"] == 1).await;
    server
        .await_json("/connz", "the round trip is known", |connz| connz["connections"][0].get("rtt").is_some())
        .await;
    vec![busy]
}

#[tokio::test]
async fn documents_of_a_single_server_have_the_same_fields() {
    let Some(servers) = start_both(CONFIG).await else { return };
    let _ours = populate(&servers[0]).await;
    let _theirs = populate(&servers[1]).await;
    assert_same(
        &servers,
        &[
            "/varz",
            "/connz",
            "/connz?auth=1",
            "/connz?subs=1",
            "/connz?subs=detail",
            "/connz?state=closed",
            "/connz?state=any&auth=true&subs=detail",
            "/connz?offset=50",
            "/routez",
            "/routez?subs=1",
            "/subsz",
            "/subsz?acc=A&subs=1",
            "/subsz?acc=A&subs=1&test=foo",
            "/healthz",
            "/healthz?details=1",
            "/healthz?js-enabled-only=1",
        ],
    )
    .await;
}

#[tokio::test]
async fn varz_has_the_same_fields_in_every_configuration() {
    for config in [
        "",
        "authorization { user: a, password: b }",
        "cluster { name: c1, listen: \"127.0.0.1:-1\", authorization { user: a, password: b }, routes: [\"nats-route://a:b@127.0.0.1:1\"] }",
        "cluster { listen: \"127.0.0.1:-1\", pool_size: -1, write_deadline: \"3s\" }",
        "write_deadline: \"4s\"\nserver_metadata: {a: b}",
        "no_system_account: true",
    ] {
        let Some(servers) = start_both(config).await else { return };
        assert_same(&servers, &["/varz"]).await;
    }
}

#[tokio::test]
async fn documents_of_a_cluster_have_the_same_fields() {
    let Some(targets) = both() else { return };
    let mut seen = Vec::new();
    for target in &targets {
        let cluster = Cluster::start(vec![Member::new(target), Member::new(target)]).await;
        let mut client = Client::ready(&cluster[0]).await;
        client.send("SUB foo 1\r\nSUB bar q 2\r\n").await;
        client.flush().await;
        let listed = |routez: &Value| {
            let text = routez.to_string();
            text.contains("\"foo\"")
                && routez["routes"].as_array().unwrap().iter().all(|route| route.get("rtt").is_some())
        };
        let lists = cluster[1].await_json("/routez?subs=1", "the subscription shows", listed).await;
        let details = cluster[1].await_json("/routez?subs=detail", "the subscription shows", listed).await;
        seen.push([
            comparable(&lists),
            comparable(&details),
            comparable(&cluster[0].get_json("/routez").await),
            comparable(&cluster[1].get_json("/varz").await),
        ]);
    }
    for (index, path) in ["/routez?subs=1", "/routez?subs=detail", "/routez", "/varz"].iter().enumerate() {
        assert_eq!(seen[0][index], seen[1][index], "{path}");
    }
}

#[tokio::test]
async fn answers_of_the_system_account_have_the_same_fields() {
    let Some(servers) = start_both(CONFIG).await else { return };
    for (name, body) in [
        ("VARZ", ""),
        ("CONNZ", ""),
        ("CONNZ", "{\"auth\":true,\"subscriptions\":true}"),
        ("ROUTEZ", ""),
        ("SUBSZ", "{\"account\":\"A\"}"),
        ("HEALTHZ", ""),
        ("STATSZ", ""),
        ("IDZ", ""),
        ("CONNZ", "{bad"),
        ("CONNZ", "{\"sort\":\"nope\"}"),
    ] {
        let mut seen = Vec::new();
        for server in &servers {
            let mut client = Client::user(server, "s", "s").await;
            client.subscribe("_INBOX.>", "1").await;
            client.request(&format!("$SYS.REQ.SERVER.PING.{name}"), "_INBOX.x", body).await;
            let message = client.message().await;
            seen.push((message.headers, comparable(&serde_json::from_str(&message.payload).unwrap())));
        }
        assert_eq!(seen[0], seen[1], "{name} {body}");
    }
}
