//! Reload of a server in a cluster.

use testkit::{Builder, Client, Server};

use crate::cluster::settle;
use crate::target;

fn config(name: &str, routes: &[&Server], lines: &str) -> String {
    let routes: Vec<String> =
        routes.iter().map(|server| format!("\"nats-route://{}\"", server.cluster_addr())).collect();
    format!(
        "server_name: {name}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [{}]\n{lines} }}",
        routes.join(", ")
    )
}

async fn start(name: &str, lines: &str) -> Server {
    Builder::new(&target()).config(config(name, &[], lines)).monitoring().start().await
}

async fn await_routes(server: &Server, what: &str, holds: impl Fn(usize) -> bool) {
    server.await_json("/routez", what, |routez| holds(routez["num_routes"].as_u64().unwrap() as usize)).await;
}

#[tokio::test]
async fn routes_can_be_added_and_removed() {
    let first = start("first", "").await;
    let mut second = start("second", "").await;
    let with = config("second", &[&first], "");
    let without = config("second", &[], "");
    second.reload(&with).await.unwrap();
    await_routes(&second, "a route", |routes| routes == 4).await;
    let mut subscriber = Client::ready(&first).await;
    let mut publisher = Client::ready(&second).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    second.reload(&without).await.unwrap();
    await_routes(&second, "no route", |routes| routes == 0).await;
    await_routes(&first, "no route", |routes| routes == 0).await;
}

#[tokio::test]
async fn a_pinned_account_can_be_added_on_both_sides() {
    // #6875: adding a dedicated account route by reload panicked.
    let accounts = "accounts { A { users: [{user: a, password: a}] } }";
    let mut first = Builder::new(&target())
        .config(format!("{accounts}\n{}", config("first", &[], "")))
        .monitoring()
        .start()
        .await;
    let mut second = Builder::new(&target())
        .config(format!("{accounts}\n{}", config("second", &[&first], "")))
        .monitoring()
        .start()
        .await;
    await_routes(&second, "the pool", |routes| routes == 4).await;
    let pinned = "accounts: [\"A\"]";
    let of_first = format!("{accounts}\n{}", config("first", &[], pinned));
    let of_second = format!("{accounts}\n{}", config("second", &[&first], pinned));
    first.reload(&of_first).await.unwrap();
    second.reload(&of_second).await.unwrap();
    for server in [&first, &second] {
        server
            .await_json("/routez", "a route of account A", |routez| {
                routez["routes"].as_array().unwrap().iter().any(|route| route["account"] == "A")
            })
            .await;
    }
    let mut subscriber = Client::user(&first, "a", "a").await;
    let mut publisher = Client::user(&second, "a", "a").await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    publisher.publish("foo", "x").await;
    subscriber.expect("MSG foo 1 1\r\nx\r\n").await;
    subscriber.expect_silence().await;
}

#[tokio::test]
async fn the_size_of_the_pool_can_change() {
    let first = start("first", "").await;
    let mut second =
        Builder::new(&target()).config(config("second", &[&first], "")).monitoring().start().await;
    await_routes(&second, "the pool", |routes| routes == 4).await;
    let larger = config("second", &[&first], "pool_size: 5");
    second.reload(&larger).await.unwrap();
    await_routes(&second, "a larger pool", |routes| routes == 6).await;
    let mut subscriber = Client::ready(&first).await;
    let mut publisher = Client::ready(&second).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
}

#[tokio::test]
async fn the_password_of_routes_can_change() {
    let mut first = start("first", "authorization { user: r, password: old }").await;
    let changed = config("first", &[], "authorization { user: r, password: new }");
    first.reload(&changed).await.unwrap();
    let dial = |password: &str| {
        Builder::new(&target())
            .config(format!(
                "server_name: {password}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://r:{password}@{}\"] }}",
                first.cluster_addr()
            ))
            .monitoring()
    };
    let welcome = dial("new").start().await;
    await_routes(&welcome, "routes", |routes| routes > 0).await;
    let _refused = dial("old").start().await;
    testkit::eventually("the refusal is logged", async || {
        let log = first.log();
        (log.contains("authentication error") || log.contains("Authorization Violation")).then_some(())
    })
    .await;
    let routez = first.get_json("/routez").await;
    assert!(
        routez["routes"].as_array().unwrap().iter().all(|route| route["remote_name"] == "new"),
        "{routez:#}"
    );
}
