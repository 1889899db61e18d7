//! Values in `/varz` and `/routez`.

use testkit::{Client, Cluster, Member};

use crate::{monitored, server, target};

#[tokio::test]
async fn varz_counts_connections_messages_and_bytes() {
    let server = monitored("").await;
    let mut subscriber = Client::ready(&server).await;
    let mut publisher = Client::ready(&server).await;
    drop(Client::ready(&server).await);
    subscriber.send("SUB foo 1\r\nSUB foo 2\r\n").await;
    subscriber.flush().await;
    for _ in 0..10 {
        publisher.publish("foo", "12345").await;
    }
    subscriber.take(20).await;
    publisher.flush().await;
    let varz = server.await_json("/varz", "two connections", |varz| varz["connections"] == 2).await;
    assert_eq!(varz["total_connections"], 3);
    assert_eq!(varz["in_msgs"], 10);
    assert_eq!(varz["in_bytes"], 50);
    assert_eq!(varz["out_msgs"], 20);
    assert_eq!(varz["out_bytes"], 100);
    assert_eq!(varz["in_client_msgs"], 10);
    assert_eq!(varz["out_client_bytes"], 100);
    assert_eq!(varz["slow_consumers"], 0);
    assert!(varz["mem"].as_u64().unwrap() > 100_000, "{varz}");
    assert!(varz["cores"].as_u64().unwrap() >= 1);
    assert!(varz["subscriptions"].as_u64().unwrap() >= 2);
}

#[tokio::test]
async fn varz_shows_the_options_in_effect() {
    let server = monitored(
        "server_name: alpha\nmax_payload: 2000\nmax_pending: 4000\nmax_connections: 7\nmax_subscriptions: 8
         max_control_line: 5000\nping_interval: \"33s\"\nping_max: 4\nwrite_deadline: \"5s\"
         server_tags: [\"az:a\", \"gpu:no\"]\nserver_metadata: {rack: r1}
         authorization { user: a, password: b, timeout: 3 }
         cluster { name: c1, listen: \"127.0.0.1:-1\", pool_size: 4 }",
    )
    .await;
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["server_name"], "alpha");
    assert_eq!(varz["max_payload"], 2000);
    assert_eq!(varz["max_pending"], 4000);
    assert_eq!(varz["max_connections"], 7);
    assert_eq!(varz["max_subscriptions"], 8);
    assert_eq!(varz["max_control_line"], 5000);
    assert_eq!(varz["ping_interval"], 33_000_000_000_u64);
    assert_eq!(varz["ping_max"], 4);
    assert_eq!(varz["write_deadline"], 5_000_000_000_u64);
    assert_eq!(varz["auth_required"], true);
    assert_eq!(varz["auth_timeout"], 3);
    assert_eq!(varz["tags"], serde_json::json!(["az:a", "gpu:no"]));
    assert_eq!(varz["metadata"]["rack"], "r1");
    assert_eq!(varz["cluster"]["name"], "c1");
    assert_eq!(varz["cluster"]["addr"], "127.0.0.1");
    assert_eq!(varz["cluster"]["pool_size"], 4);
    assert_eq!(varz["port"], server.client_addr().port());
    assert!(varz["config_digest"].as_str().unwrap().starts_with("sha256:"), "{varz}");
}

#[tokio::test]
async fn routez_shows_each_route() {
    let cluster = Cluster::start(vec![Member::new(&target()), Member::new(&target())]).await;
    let mut client = Client::ready(&cluster[0]).await;
    client.subscribe("foo", "1").await;
    let other = Client::open(cluster[0].client_addr()).await;
    let routez = cluster[1].await_json("/routez", "four routes", |routez| routez["num_routes"] == 4).await;
    assert_eq!(routez["server_name"], "n1");
    for route in routez["routes"].as_array().unwrap() {
        assert_eq!(route["remote_id"], other.info()["server_id"]);
        assert_eq!(route["remote_name"], "n0");
        assert_eq!(route["did_solicit"], true);
        assert_eq!(route["is_configured"], true);
        assert_eq!(route["ip"], "127.0.0.1");
        assert_eq!(route["port"], cluster[0].cluster_addr().port());
        assert!(route["rid"].as_u64().unwrap() > 0);
    }
    let with_subs = cluster[1]
        .await_json("/routez?subs=1", "the subscription shows", |routez| {
            routez.to_string().contains("\"foo\"")
        })
        .await;
    let listed = with_subs["routes"].as_array().unwrap().iter().any(|route| {
        route["subscriptions_list"].as_array().is_some_and(|list| list.iter().any(|subject| subject == "foo"))
    });
    assert!(listed, "{with_subs:#}");
    let detailed = cluster[1].get_json("/routez?subs=detail").await;
    assert!(detailed.to_string().contains("subscriptions_list_detail"), "{detailed:#}");
}

#[tokio::test]
async fn a_server_without_a_monitoring_port_has_none() {
    let server = server("").await;
    assert!(!server.log().contains("http monitor"), "{}", server.log());
}
