//! `/jsz` and what other pages show of JetStream, compared with the reference by running these tests against it too.

use serde_json::{Value, json};
use testkit::jetstream::JetStream;
use testkit::{Builder, Client, Server};

use crate::{monitored, target};

/// Two accounts with JetStream, one of them limited, one without, and the system account.
pub(super) const ACCOUNTS: &str = "server_name: js
jetstream { store_dir: \"%DIR%/js\", max_mem: 100M, max_file: 200M, domain: hub, sync_interval: always
    limits { max_ack_pending: 5000, duplicate_window: \"5m\" } }
accounts {
    A { jetstream { max_mem: 10M, max_file: 20M, max_streams: 10 }, users: [{user: a, password: a}] }
    B { jetstream: true, users: [{user: b, password: b}] }
    C { users: [{user: c, password: c}] }
    $SYS { users: [{user: s, password: s}] }
}";

/// Four streams, one of them with messages and a consumer.
async fn with_streams() -> Server {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client
        .stream(json!({"name": "S1", "subjects": ["s1.>"], "storage": "file", "max_bytes": 1_000_000}))
        .await;
    client.stream(json!({"name": "M1", "subjects": ["m1"], "storage": "memory"})).await;
    for number in 0..3 {
        client.publish(&format!("s1.{number}"), "hello").await;
    }
    client.consumer("S1", json!({"durable_name": "C1", "ack_policy": "explicit"})).await;
    let bad = json!({"stream_name": "NO", "config": {"durable_name": "X", "ack_policy": "explicit"}});
    client.api("CONSUMER.DURABLE.CREATE.S1.X", &bad).await;
    let mut client = JetStream::user(&server, "b", "b").await;
    client.stream(json!({"name": "SB", "subjects": ["sb"], "storage": "file"})).await;
    server
}

/// Members of an object, in order.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn account<'a>(page: &'a Value, name: &str) -> &'a Value {
    let accounts = page["account_details"].as_array().unwrap_or_else(|| panic!("no accounts in {page:#}"));
    accounts.iter().find(|account| account["name"] == name).unwrap_or_else(|| panic!("no {name} in {page:#}"))
}

fn stream<'a>(account: &'a Value, name: &str) -> &'a Value {
    let streams = account["stream_detail"].as_array().unwrap_or_else(|| panic!("no streams in {account:#}"));
    streams.iter().find(|stream| stream["name"] == name).unwrap_or_else(|| panic!("no {name} in {account:#}"))
}

#[tokio::test]
async fn totals_are_those_of_all_accounts() {
    let server = with_streams().await;
    let page = server.get_json("/jsz").await;
    assert_eq!((&page["streams"], &page["consumers"]), (&json!(3), &json!(1)), "{page:#}");
    assert_eq!((&page["messages"], &page["accounts"], &page["total"]), (&json!(3), &json!(2), &json!(2)));
    assert_eq!(page["bytes"], page["storage"]);
    assert_eq!((&page["memory"], &page["reserved_memory"]), (&json!(0), &json!(0)));
    assert_eq!(page["reserved_storage"], 1_000_000);
    assert_eq!(page["api"], json!({"level": 5, "total": 5, "errors": 1}));
    let config = &page["config"];
    assert_eq!((&config["max_memory"], &config["max_storage"]), (&json!(100_000_000), &json!(200_000_000)));
    assert_eq!((&config["domain"], &config["strict"]), (&json!("hub"), &json!(true)));
    assert_eq!(config["sync_always"], true);
    assert!(config["store_dir"].as_str().unwrap().ends_with("/js/jetstream"), "{config:#}");
    let limits = &page["limits"];
    assert_eq!((&limits["max_ack_pending"], &limits["default_max_consumers"]), (&json!(5000), &json!(1000)));
    assert_eq!(limits["max_duplicate_window"], 300_000_000_000_u64);
    assert!(page.get("account_details").is_none() && page.get("meta_cluster").is_none(), "{page:#}");
    assert!(page.get("streams_leader").is_none() && page.get("disabled").is_none(), "{page:#}");
    let groups = server.get_json("/jsz?raft=1").await;
    assert_eq!((&groups["streams_leader"], &groups["consumers_leader"]), (&json!(3), &json!(1)));
}

#[tokio::test]
async fn accounts_show_what_they_use_and_may_use() {
    let server = with_streams().await;
    let page = server.get_json("/jsz?accounts=1").await;
    let a = account(&page, "A");
    let expected = [
        "name",
        "id",
        "memory",
        "storage",
        "reserved_memory",
        "reserved_storage",
        "accounts",
        "ha_assets",
        "api",
    ];
    let mut found = members(a);
    found.sort_unstable();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!((&a["reserved_memory"], &a["reserved_storage"]), (&json!(10_000_000), &json!(20_000_000)));
    assert_eq!((&a["storage"], &a["api"]), (&page["storage"], &json!({"level": 0, "total": 4, "errors": 1})));
    let b = account(&page, "B");
    assert_eq!((&b["reserved_memory"], &b["reserved_storage"]), (&json!(u64::MAX), &json!(u64::MAX)));
}

#[tokio::test]
async fn an_account_can_be_asked_for_by_name() {
    let server = with_streams().await;
    let names = async |query: &str| {
        let page = server.get_json(&format!("/jsz?{query}")).await;
        let accounts = page["account_details"].as_array().cloned().unwrap_or_default();
        accounts.iter().map(|account| account["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("acc=A", &["A"][..]),
        ("acc=NO", &[]),
        ("acc=NO&streams=1", &[]),
        ("acc=C", &[]),
        ("acc=C&accounts=1", &["A", "B"]),
        ("accounts=1&limit=1", &["A"]),
        ("accounts=1&offset=1", &["B"]),
        ("accounts=1&offset=5", &[]),
        ("accounts=1&offset=-1", &["A", "B"]),
        ("leader-only=1", &[]),
        ("direct-consumers=1", &[]),
    ] {
        assert_eq!(names(query).await, expected, "{query}");
    }
    for (query, text) in [
        (
            "accounts=x",
            "Error decoding boolean for 'accounts': strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        ("limit=y", "Error decoding int for 'limit': strconv.Atoi: parsing \"y\": invalid syntax"),
    ] {
        let response = server.get(&format!("/jsz?{query}")).await;
        assert_eq!((response.status, response.body.trim()), (400, text));
    }
}

#[tokio::test]
async fn streams_and_consumers_are_shown_with_their_state() {
    let server = with_streams().await;
    let page = server.get_json("/jsz?acc=A&consumers=1&config=1").await;
    let a = account(&page, "A");
    let s1 = stream(a, "S1");
    assert_eq!(s1["cluster"], json!({"leader": "js"}));
    assert_eq!((&s1["state"]["messages"], &s1["state"]["num_subjects"]), (&json!(3), &json!(3)));
    assert_eq!((&s1["state"]["first_seq"], &s1["state"]["last_seq"]), (&json!(1), &json!(3)));
    assert_eq!(s1["state"]["consumer_count"], 1);
    assert_eq!(s1["config"]["metadata"], json!({"_nats.req.level": "0"}), "as it is stored");
    assert_eq!(
        (&s1["config"]["subjects"], &s1["config"]["max_bytes"]),
        (&json!(["s1.>"]), &json!(1_000_000))
    );
    let consumers = s1["consumer_detail"].as_array().unwrap();
    assert_eq!((consumers.len(), &consumers[0]["name"]), (1, &json!("C1")));
    assert_eq!((&consumers[0]["num_pending"], &consumers[0]["stream_name"]), (&json!(3), &json!("S1")));
    assert_eq!(consumers[0]["config"]["ack_policy"], "explicit");
    assert!(consumers[0].get("cluster").is_none(), "{consumers:#?}");
    let m1 = stream(a, "M1");
    assert_eq!((&m1["state"]["first_seq"], &m1["config"]["storage"]), (&json!(0), &json!("memory")));
    assert!(m1.get("consumer_detail").is_none());
    assert_eq!(a["stream_detail"].as_array().map(Vec::len), Some(2));
    let bare = server.get_json("/jsz?streams=1").await;
    let s1 = stream(account(&bare, "A"), "S1");
    assert!(s1.get("config").is_none() && s1.get("consumer_detail").is_none(), "{s1:#}");
    assert!(stream(account(&bare, "B"), "SB").get("state").is_some());
    let bare = server.get_json("/jsz?consumers=1").await;
    let consumer = &stream(account(&bare, "A"), "S1")["consumer_detail"][0];
    assert!(consumer.get("config").is_none() && consumer.get("delivered").is_some(), "{consumer:#}");
}

#[tokio::test]
async fn a_server_without_jetstream_says_so() {
    let server = monitored("").await;
    let page = server.get_json("/jsz?streams=1").await;
    assert_eq!((&page["disabled"], &page["streams"], &page["total"]), (&json!(true), &json!(0), &json!(0)));
    assert_eq!(page["config"], json!({"max_memory": 0, "max_storage": 0}));
    assert_eq!(server.get_json("/varz").await["jetstream"], json!({}));
    let client = Client::open(server.client_addr()).await;
    assert!(client.info().get("jetstream").is_none() && client.info().get("domain").is_none());
}

#[tokio::test]
async fn other_pages_and_info_tell_of_jetstream() {
    let server = with_streams().await;
    let page = server.get_json("/jsz").await;
    let varz = server.get_json("/varz").await;
    let shown = &varz["jetstream"];
    assert_eq!(shown["config"], page["config"]);
    assert_eq!(shown["limits"], page["limits"]);
    assert_eq!((&shown["stats"]["storage"], &shown["stats"]["api"]), (&page["storage"], &page["api"]));
    assert_eq!((&shown["stats"]["accounts"], &shown["stats"]["ha_assets"]), (&json!(2), &json!(0)));
    assert!(shown.get("meta").is_none());
    for (name, enabled) in [("A", true), ("C", false)] {
        let detail = server.get_json(&format!("/accountz?acc={name}")).await;
        assert_eq!(detail["account_detail"]["jetstream_enabled"], enabled, "{name}");
    }
    let client = Client::open(server.client_addr()).await;
    assert_eq!((&client.info()["jetstream"], &client.info()["domain"]), (&json!(true), &json!("hub")));
    assert_eq!(client.info()["api_lvl"], 5);
}

/// Sends a request into the system account and reads its answer.
async fn ask(client: &mut Client, subject: &str, body: &str) -> Value {
    client.subscribe("_INBOX.ask", "ask").await;
    client.request(subject, "_INBOX.ask", body).await;
    let message = client.message().await;
    client.op("UNSUB ask").await;
    serde_json::from_str(&message.payload).unwrap()
}

#[tokio::test]
async fn the_page_can_be_asked_for_over_the_system_account() {
    let server = with_streams().await;
    let mut system = Client::user(&server, "s", "s").await;
    let id = system.infos[0]["server_id"].as_str().unwrap().to_owned();
    for subject in ["$SYS.REQ.SERVER.PING.JSZ".to_owned(), format!("$SYS.REQ.SERVER.{id}.JSZ")] {
        let answer = ask(&mut system, &subject, "{\"streams\":true,\"account\":\"A\"}").await;
        assert_eq!(
            (&answer["server"]["jetstream"], &answer["server"]["domain"]),
            (&json!(true), &json!("hub"))
        );
        assert_eq!(answer["server"]["flags"].as_u64().unwrap() & 1, 1);
        assert_eq!((&answer["data"]["streams"], &answer["data"]["server_id"]), (&json!(3), &json!(id)));
        assert_eq!(stream(account(&answer["data"], "A"), "S1")["state"]["messages"], 3);
    }
    let statsz = ask(&mut system, "$SYS.REQ.SERVER.PING.STATSZ", "").await;
    let shown = &statsz["statsz"]["jetstream"];
    assert_eq!((&shown["stats"]["accounts"], &shown["limits"]["max_ack_pending"]), (&json!(2), &json!(5000)));
    assert_eq!(shown["config"]["max_storage"], 200_000_000);
    assert!(shown["config"].get("store_dir").is_none(), "{shown:#}");
}

#[tokio::test]
async fn jetstream_of_one_account_can_be_asked_for() {
    let server = with_streams().await;
    let mut system = Client::user(&server, "s", "s").await;
    let answer = ask(&mut system, "$SYS.REQ.ACCOUNT.A.JSZ", "").await;
    let data = &answer["data"];
    assert_eq!((&data["name"], &data["reserved_storage"]), (&json!("A"), &json!(20_000_000)));
    assert!(data.get("stream_detail").is_none(), "{data:#}");
    // The subject names the account, whatever the body says.
    let alone = ask(&mut system, "$SYS.REQ.ACCOUNT.A.JSZ", "{\"consumer\":true}").await;
    assert!(alone["data"].get("stream_detail").is_none(), "{alone:#}");
    let body = "{\"account\":\"B\",\"streams\":true,\"consumer\":true}";
    let answer = ask(&mut system, "$SYS.REQ.ACCOUNT.A.JSZ", body).await;
    assert_eq!(stream(&answer["data"], "S1")["consumer_detail"][0]["num_pending"], 3, "{answer:#}");
    for (name, text) in [("C", "account \"C\" not jetstream enabled"), ("NO", "account \"NO\" not found")] {
        let answer = ask(&mut system, &format!("$SYS.REQ.ACCOUNT.{name}.JSZ"), "").await;
        assert_eq!((&answer["error"]["code"], &answer["error"]["description"]), (&json!(500), &json!(text)));
    }
}

#[tokio::test]
async fn the_weaker_sync_mode_is_shown_and_warned_of() {
    let config = "jetstream { store_dir: \"%DIR%/js\", sync_interval: \"30s\" }";
    let server = Builder::new(&target()).config(config).monitoring().start().await;
    let varz = server.get_json("/varz").await;
    let shown = &varz["jetstream"]["config"];
    assert_eq!(shown["sync_interval"], 30_000_000_000_u64);
    assert!(shown.get("sync_always").is_none(), "{shown:#}");
    if target().is_myelin() {
        assert!(
            server.log().contains("a crash of the machine may lose what was acknowledged"),
            "{}",
            server.log()
        );
    }
}

#[tokio::test]
async fn an_account_without_jetstream_is_told_so() {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "c", "c").await;
    for (subject, body) in [
        ("INFO", Value::Null),
        ("STREAM.CREATE.X", json!({"name": "X"})),
        ("STREAM.NAMES", Value::Null),
        ("STREAM.INFO.X", Value::Null),
        ("CONSUMER.INFO.X.Y", Value::Null),
    ] {
        let answer = client.api(subject, &body).await;
        assert_eq!(answer["error"]["err_code"], 10039, "{subject}: {answer}");
        assert_eq!(answer["error"]["description"], "JetStream not enabled for account");
    }
    let names = client.api("STREAM.NAMES", &Value::Null).await;
    assert_eq!(
        (&names["type"], &names["streams"]),
        (&json!("io.nats.jetstream.api.v1.stream_names_response"), &Value::Null)
    );
    let by_domain = client.request("$JS.hub.API.INFO", "", "").await;
    assert!(by_domain.payload.contains("10039"), "{by_domain:?}");
    for subject in ["$JS.API.CONSUMER.MSG.NEXT.X.Y", "$JS.API.DIRECT.GET.X"] {
        let answer = client.request(subject, "", "").await;
        assert!(answer.headers.starts_with("NATS/1.0 503"), "{subject}: {answer:?}");
    }
}
