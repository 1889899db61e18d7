//! Names of servers and clusters, and what happens when they clash.

use serde_json::Value;
use testkit::{Builder, Client, Server};

use crate::target;

async fn server(name: &str, cluster: &str, route_to: Option<&Server>) -> Server {
    let routes =
        route_to.map(|server| format!("\"nats-route://{}\"", server.cluster_addr())).unwrap_or_default();
    let name_line = if cluster.is_empty() { String::new() } else { format!("name: \"{cluster}\"\n") };
    Builder::new(&target())
        .config(format!(
            "server_name: {name}\ncluster {{ {name_line} listen: \"127.0.0.1:-1\", routes: [{routes}] }}"
        ))
        .monitoring()
        .start()
        .await
}

async fn cluster_name(server: &Server) -> Value {
    Client::open(server.client_addr()).await.info()["cluster"].clone()
}

#[tokio::test]
async fn clusters_of_different_names_do_not_connect() {
    let first = server("a", "one", None).await;
    let second = server("b", "two", Some(&first)).await;
    second.await_log("cluster name").await;
    assert_eq!(first.get_json("/routez").await["num_routes"], 0);
    assert_eq!(second.get_json("/routez").await["num_routes"], 0);
    assert_eq!(cluster_name(&first).await, "one");
    assert_eq!(cluster_name(&second).await, "two");
}

#[tokio::test]
async fn a_server_without_a_cluster_name_takes_the_configured_one_of_its_peer() {
    let first = server("a", "one", None).await;
    let second = server("b", "", Some(&first)).await;
    second.await_json("/routez", "routes", |routez| routez["num_routes"].as_u64() > Some(0)).await;
    assert_eq!(cluster_name(&second).await, "one");
    assert_eq!(second.get_json("/varz").await["cluster"]["name"], "one");
}

#[tokio::test]
async fn servers_without_a_cluster_name_agree_on_one() {
    let first = server("a", "", None).await;
    let second = server("b", "", Some(&first)).await;
    let third = server("c", "", Some(&first)).await;
    for server in [&first, &second, &third] {
        server
            .await_json("/routez", "both peers", |routez| {
                let routes = routez["routes"].as_array().unwrap();
                let ids: std::collections::BTreeSet<&str> =
                    routes.iter().map(|route| route["remote_id"].as_str().unwrap()).collect();
                ids.len() == 2
            })
            .await;
    }
    let name = cluster_name(&first).await;
    assert!(name.as_str().is_some_and(|name| !name.is_empty()), "{name}");
    assert_eq!(cluster_name(&second).await, name);
    assert_eq!(cluster_name(&third).await, name);
    // Peers are told that the name is only a made-up one; clients are not.
    assert_eq!(Client::open(first.cluster_addr()).await.info()["cluster_dynamic"], true);
}

#[tokio::test]
async fn a_second_server_of_the_same_name_is_kept_out() {
    let first = server("same", "one", None).await;
    let second = server("same", "one", Some(&first)).await;
    testkit::eventually("the clash is reported", async || {
        let logs = first.log() + &second.log();
        logs.to_lowercase().contains("duplicate server name").then_some(())
    })
    .await;
    // It tries again and again, and a connection counts until it is refused.
    testkit::eventually("nobody is connected", async || {
        (second.get_json("/routez").await["num_routes"] == 0).then_some(())
    })
    .await;
}
