//! Threats: what a person who may write objects in one namespace can not do with the operator's rights.

use std::sync::Arc;

use ::crd::jetstream::{Account, Stream};
use operator::context::Context;
use operator::metrics::Metrics;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{account, apply, message, stream, until_ready, until_says};
use crate::support::broker::Broker;
use crate::support::world::{World, settings};
use crate::support::{apiserver, until};

/// Two namespaces with one operator: blue has an Account for a broker.
async fn two(blue_grants: Value) -> (World, World, Broker) {
    let broker = Broker::start().await;
    let blue = World::empty().await;
    let mut red = World::empty().await;
    account(&blue, "main", &broker).await;
    let user = json!({ "secret": { "name": "login" }, "user": "user", "password": "password" });
    let mut spec = json!({ "name": "main", "servers": [broker.url()], "user": user });
    if !blue_grants.is_null() {
        spec["allowedNamespaces"] = blue_grants;
    }
    apply::<Account>(&blue, "main", spec).await.unwrap();
    let both = format!("{},{}", blue.namespace, red.namespace);
    let client = apiserver::operator().await;
    let context = Context::new(client, settings(&both), Metrics::new().unwrap(), None);
    red.run_operator(Arc::new(context));
    (blue, red, broker)
}

fn of_blue(blue: &World, name: &str) -> Value {
    let mut spec = stream(name, json!({ "accountRef": { "name": "main", "namespace": blue.namespace } }));
    spec.as_object_mut().unwrap().remove("account");
    spec
}

#[tokio::test]
async fn the_login_of_another_namespace_is_used_only_where_it_is_granted() {
    let (blue, red, broker) = two(Value::Null).await;
    apply::<Stream>(&red, "s", of_blue(&blue, "s")).await.unwrap();
    let object: Stream = until_says(&red, "s", ("Stalled", "True", "GrantMissing")).await;
    let told = serde_json::to_string(&object.status).unwrap();
    assert!(!told.contains("login") && !told.contains("secret") && !told.contains("127.0.0.1"), "{told}");
    // An Account that does not exist looks the same.
    let mut absent = of_blue(&blue, "t");
    absent["accountRef"]["name"] = json!("absent");
    apply::<Stream>(&red, "t", absent).await.unwrap();
    until_says::<Stream>(&red, "t", ("Stalled", "True", "GrantMissing")).await;
    // A Secret of another namespace cannot be named at all: the same name means the own one.
    let user = json!({ "secret": { "name": "login" }, "user": "user", "password": "password" });
    apply::<Account>(&red, "thief", json!({ "name": "x", "servers": [broker.url()], "user": user }))
        .await
        .unwrap();
    apply::<Stream>(&red, "u", json!({ "name": "u", "account": "thief" })).await.unwrap();
    until_says::<Stream>(&red, "u", ("Stalled", "True", "SecretMissing")).await;
    assert_eq!(broker.person("a").js().account().await.unwrap().streams, 0);

    // The owner grants it, and takes the grant back.
    let grant = |names: Value| json!({ "metadata": {}, "spec": { "allowedNamespaces": { "names": names } } });
    let patch = async |names: Value| {
        let parameters = kube::api::PatchParams::default();
        blue.api::<Account>()
            .patch("main", &parameters, &kube::api::Patch::Merge(&grant(names)))
            .await
            .unwrap();
    };
    patch(json!([red.namespace])).await;
    until_ready::<Stream>(&red, "s").await;
    patch(json!([])).await;
    until_says::<Stream>(&red, "s", ("Stalled", "True", "GrantMissing")).await;
    // Its end does not wait for a right that it has no more, and uses none.
    super::delete::<Stream>(&red, "s").await;
    assert!(broker.person("a").js().stream("s").await.unwrap().is_some());
}

#[tokio::test]
async fn a_grant_may_go_by_labels() {
    let (blue, red, _broker) = two(json!({
        "from": "Selector", "selector": { "matchLabels": { "kubernetes.io/metadata.name": "nobody" } }
    }))
    .await;
    apply::<Stream>(&red, "s", of_blue(&blue, "s")).await.unwrap();
    until_says::<Stream>(&red, "s", ("Stalled", "True", "GrantMissing")).await;
    let labels = json!({ "kubernetes.io/metadata.name": red.namespace });
    let patch = json!({ "spec": { "allowedNamespaces": { "selector": { "matchLabels": labels } } } });
    let parameters = kube::api::PatchParams::default();
    blue.api::<Account>().patch("main", &parameters, &kube::api::Patch::Merge(&patch)).await.unwrap();
    until_ready::<Stream>(&red, "s").await;
}

/// Listens as a server of the tenant's own and records what clients say.
async fn listener(
    answers: &'static [(&'static str, &'static str)],
) -> (String, mpsc::UnboundedReceiver<String>) {
    listener_that_names("127.0.0.1:1", answers).await
}

/// The same, and sends clients elsewhere.
async fn listener_that_names(
    other: &str,
    answers: &'static [(&'static str, &'static str)],
) -> (String, mpsc::UnboundedReceiver<String>) {
    let info = format!("INFO {{\"server_id\":\"X\",\"nonce\":\"n\",\"connect_urls\":[\"{other}\"]}}\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (tell, info) = (tell.clone(), info.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(socket);
                let _ = stream.get_mut().write_all(info.as_bytes()).await;
                let (mut inbox, mut line) = (String::new(), String::new());
                while matches!(stream.read_line(&mut line).await, Ok(1..)) {
                    if line.starts_with("PUB ") {
                        inbox = line.split(' ').nth(2).unwrap_or_default().to_owned();
                    }
                    let _ = tell.send(line.trim_end().to_owned());
                    let answer =
                        answers.iter().find(|(part, _)| line.contains(part)).map_or("", |(_, text)| text);
                    let answer = answer.replace("REPLY", &inbox);
                    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
                    line.clear();
                }
            });
        }
    });
    (url, told)
}

#[tokio::test]
async fn a_login_never_meets_servers_that_somebody_else_named() {
    let (blue, red, _broker) = two(Value::Null).await;
    let (url, mut said) = listener(&[("PING", "PONG\r\n")]).await;
    // Granted, but with servers of the tenant's own; and the own Account of a namespace in the same way.
    let patch = json!({ "spec": { "allowedNamespaces": { "from": "All" } } });
    let parameters = kube::api::PatchParams::default();
    blue.api::<Account>().patch("main", &parameters, &kube::api::Patch::Merge(&patch)).await.unwrap();
    let mut spec = of_blue(&blue, "s");
    spec["servers"] = json!([url]);
    spec["requestTimeout"] = json!("1s");
    apply::<Stream>(&red, "s", spec).await.unwrap();
    apply::<Stream>(&blue, "t", stream("t", json!({ "servers": [url], "requestTimeout": "1s" })))
        .await
        .unwrap();
    until_says::<Stream>(&red, "s", ("Reconciled", "False", "Timeout")).await;
    until_says::<Stream>(&blue, "t", ("Reconciled", "False", "Timeout")).await;
    let mut connects = 0;
    while let Ok(line) = said.try_recv() {
        assert!(!line.contains("secret-a"), "{line}");
        if let Some(connect) = line.strip_prefix("CONNECT ") {
            connects += 1;
            let connect: Value = serde_json::from_str(connect).unwrap();
            for member in ["user", "pass", "auth_token", "jwt", "nkey", "sig"] {
                assert!(connect.get(member).is_none(), "{connect}");
            }
        }
    }
    assert!(connects >= 2, "{connects}");
}

#[tokio::test]
async fn paths_lead_nowhere_but_below_the_folder_of_the_namespace() {
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    let roots = tempfile::TempDir::new().unwrap();
    for namespace in [world.namespace.as_str(), "other"] {
        std::fs::create_dir(roots.path().join(namespace)).unwrap();
        std::fs::write(roots.path().join(namespace).join("user.creds"), "secret-file-content").unwrap();
    }
    let settings = operator::settings::Settings {
        credential_roots: vec![roots.path().to_owned()],
        ..settings(&world.namespace)
    };
    let client = apiserver::operator().await;
    world.run_operator(Arc::new(Context::new(client, settings, Metrics::new().unwrap(), None)));
    let root = roots.path().display();
    for (number, path) in [
        "/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        format!("{root}/other/user.creds"),
        format!("{root}/{}/../other/user.creds", world.namespace),
        "/var/run/secrets/kubernetes.io/serviceaccount/token".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        for field in ["creds", "nkey"] {
            let name = format!("s{number}-{field}");
            let spec = json!({ "name": name, "servers": [broker.url()], field: path });
            apply::<Stream>(&world, &name, spec).await.unwrap();
            let object: Stream = until_says(&world, &name, ("Stalled", "True", "FilePathNotAllowed")).await;
            let told = serde_json::to_string(&object.status).unwrap();
            assert!(!told.contains("root:") && !told.contains("secret-file-content"), "{told}");
        }
    }
    // The own file is read, and what is wrong with it is told without its content.
    let path = format!("{root}/{}/user.creds", world.namespace);
    apply::<Stream>(&world, "own", json!({ "name": "own", "servers": [broker.url()], "creds": path }))
        .await
        .unwrap();
    let object: Stream = until_says(&world, "own", ("Reconciled", "False", "")).await;
    let text = message(&object, "Ready");
    assert!(text.contains("no user JWT") && !text.contains("secret-file-content"), "{text}");
}

#[tokio::test]
async fn answers_of_a_hostile_server_cost_a_pass_and_nothing_else() {
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    world.start_operator().await;
    let answers: [&'static [(&'static str, &'static str)]; 5] = [
        &[("PING", "PONG\r\n"), ("PUB", "MSG REPLY 1 999999999\r\n")],
        &[("PING", "PONG\r\n"), ("PUB", "MSG REPLY 1 9\r\nsecret-xx\r\n")],
        &[("PING", "PONG\r\n"), ("PUB", "MSG REPLY 1 21\r\n{\"error\":{\"code\":200}}\r\n")],
        &[("PING", "HTTP/1.1 400 secret-banner\r\n\r\n")],
        &[
            ("PING", "PONG\r\n"),
            (
                "API.INFO",
                "MSG REPLY 1 94\r\n{\"memory\":0,\"storage\":0,\"streams\":0,\"consumers\":0,\"api\":{\"level\":1},\"limits\":{}}              \r\n",
            ),
            ("STREAM.INFO", "MSG REPLY 1 33\r\n{\"config\":{\"name\":\"another-stream\"}}\r\n"),
        ],
    ];
    for (number, answers) in answers.into_iter().enumerate() {
        let (url, _said) = listener(answers).await;
        let name = format!("h{number}");
        apply::<Stream>(&world, &name, json!({ "name": name, "servers": [url], "requestTimeout": "2s" }))
            .await
            .unwrap();
        let object: Stream = until_says(&world, &name, ("Ready", "False", "Errored")).await;
        let told = serde_json::to_string(&object.status).unwrap();
        assert!(!told.contains("secret-"), "{told}");
        assert!(object.status.unwrap().created.is_none());
    }
    // Others do not notice.
    apply::<Stream>(&world, "fine", stream("fine", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "fine").await;
}

/// Answers of a server of somebody's own, with one of so many bytes and levels to the first question.
fn answering(bytes: usize, levels: usize) -> &'static [(&'static str, &'static str)] {
    const FACTS: &str = r#"{"memory":0,"storage":0,"streams":0,"consumers":0,"api":{"level":4},"limits":{}"#;
    let nested = format!("{}{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    let start = format!(r#"{FACTS},"nested":{nested},"text":""#);
    let body = format!(r#"{start}{}"}}"#, "x".repeat(bytes - start.len() - 2));
    assert_eq!(body.len(), bytes);
    let answer = |body: &str| -> &'static str {
        Box::leak(format!("MSG REPLY 1 {}\r\n{body}\r\n", body.len()).into_boxed_str())
    };
    let refused = r#"{"error":{"code":400,"err_code":10052,"description":"reached the second question"}}"#;
    let answers = [("PING", "PONG\r\n"), ("API.INFO", answer(&body)), ("PUB", answer(refused))];
    Box::leak(Box::new(answers))
}

#[tokio::test]
async fn answers_are_taken_up_to_their_bounds_and_not_one_beyond() {
    const BYTES_MAX: usize = 8 * 1024 * 1024;
    const LEVELS_MAX: usize = 64;
    let mut world = World::empty().await;
    world.start_operator().await;
    for (number, (bytes, levels, taken)) in [
        (BYTES_MAX, LEVELS_MAX, true),
        (BYTES_MAX + 1, 1, false),
        (1_000, LEVELS_MAX, true),
        (1_000, LEVELS_MAX + 1, false),
        (400_000, 100_000, false),
    ]
    .into_iter()
    .enumerate()
    {
        let (url, _said) = listener(answering(bytes, levels)).await;
        let name = format!("h{number}");
        let spec = json!({ "name": name, "servers": [url], "requestTimeout": "20s" });
        apply::<Stream>(&world, &name, spec).await.unwrap();
        let object: Stream = until_says(&world, &name, ("Ready", "False", "Errored")).await;
        let text = message(&object, "Ready");
        assert_eq!(text.contains("reached the second question"), taken, "{bytes} {levels}: {text}");
    }
}

#[tokio::test]
async fn names_that_would_be_commands_never_reach_a_server() {
    let (world, broker) = super::world().await;
    for (number, name) in ["x\r\nPUB evil 0\r\n", "x y", "x/y", "x\\y"].into_iter().enumerate() {
        let object = format!("n{number}");
        apply::<Stream>(&world, &object, json!({ "name": name, "account": "main" })).await.unwrap();
        let found: Stream = until_says(&world, &object, ("Stalled", "True", "InvalidSpec")).await;
        assert!(message(&found, "Stalled").contains("is no name"));
        super::delete::<Stream>(&world, &object).await;
    }
    let domain = json!({ "name": "d", "account": "main", "jsDomain": "x.API.STREAM.DELETE.y\r\n" });
    apply::<Stream>(&world, "d", domain).await.unwrap();
    until_says::<Stream>(&world, "d", ("Stalled", "True", "InvalidSpec")).await;
    assert_eq!(broker.person("a").js().account().await.unwrap().streams, 0);
}

#[tokio::test]
async fn an_account_of_the_same_name_is_another_one() {
    let (blue, red, broker) = two(Value::Null).await;
    red.secret("login", &[("user", "b"), ("password", "secret-b")]).await;
    let user = json!({ "secret": { "name": "login" }, "user": "user", "password": "password" });
    apply::<Account>(&red, "main", json!({ "name": "main", "servers": [broker.url()], "user": user }))
        .await
        .unwrap();
    // The same name, the same server, the same stream with the same subjects: each of them has its own.
    for world in [&blue, &red] {
        apply::<Stream>(world, "s", stream("s", json!({}))).await.unwrap();
        until_ready::<Stream>(world, "s").await;
    }
    let (a, b) = (broker.person("a"), broker.person("b"));
    b.publish("s.x").await;
    assert_eq!(b.js().stream("s").await.unwrap().unwrap().state.messages, 1);
    assert_eq!(a.js().stream("s").await.unwrap().unwrap().state.messages, 0);
    super::delete::<Stream>(&red, "s").await;
    assert!(b.js().stream("s").await.unwrap().is_none());
    assert!(a.js().stream("s").await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_cannot_send_the_operator_elsewhere() {
    let mut world = World::empty().await;
    let decoy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    decoy.set_nonblocking(true).unwrap();
    // It says where else to go, and never finishes the login.
    let elsewhere = decoy.local_addr().unwrap().to_string();
    let (url, mut said) = listener_that_names(&elsewhere, &[]).await;
    world.start_operator().await;
    let spec = json!({ "name": "s", "servers": [url], "connectTimeout": "1s" });
    apply::<Stream>(&world, "s", spec).await.unwrap();
    until_says::<Stream>(&world, "s", ("Ready", "False", "Errored")).await;
    let mut connects = 0;
    until("three attempts at the server that was named", async || {
        while let Ok(line) = said.try_recv() {
            connects += usize::from(line.starts_with("CONNECT "));
        }
        (connects >= 3).then_some(())
    })
    .await;
    let visit = decoy.accept().map(|_| ()).unwrap_err();
    assert_eq!(visit.kind(), std::io::ErrorKind::WouldBlock);
}
