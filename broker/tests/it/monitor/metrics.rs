//! `/metrics`, which only our server has: the numbers of the other documents for Prometheus.

use std::collections::BTreeMap;

use testkit::{Client, Server};

use crate::{monitored, target};

/// Every sample by its name, labels left out.
async fn samples(server: &Server) -> BTreeMap<String, f64> {
    let response = server.get("/metrics").await;
    assert_eq!(response.status, 200);
    let content_type = response.header("content-type").unwrap().to_owned();
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    let mut samples = BTreeMap::new();
    for line in response.body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        samples.insert(name.to_owned(), value.parse().unwrap());
    }
    samples
}

#[tokio::test]
async fn numbers_of_the_server_have_the_names_of_the_usual_exporter() {
    let server = monitored("").await;
    if !target().is_myelin() {
        assert_eq!(server.get("/metrics").await.status, 404);
        return;
    }
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nPUB foo 3\r\nabc\r\n").await;
    client.expect("MSG foo 1 3\r\nabc\r\n").await;
    client.flush().await;
    let samples = samples(&server).await;
    for (name, value) in [
        ("gnatsd_varz_connections", 1.0),
        ("gnatsd_varz_total_connections", 1.0),
        ("gnatsd_varz_in_msgs", 1.0),
        ("gnatsd_varz_in_bytes", 3.0),
        ("gnatsd_varz_out_msgs", 1.0),
        ("gnatsd_varz_out_bytes", 3.0),
        ("gnatsd_varz_slow_consumers", 0.0),
        ("gnatsd_varz_routes", 0.0),
        ("gnatsd_varz_max_payload", 1_048_576.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name} in {samples:?}");
    }
    for name in ["gnatsd_varz_subscriptions", "gnatsd_varz_mem", "gnatsd_varz_cpu"] {
        assert!(samples.contains_key(name), "{name} in {samples:?}");
    }
}

#[tokio::test]
async fn every_series_has_a_help_and_a_type_line_and_names_the_server() {
    let server = monitored("").await;
    if !target().is_myelin() {
        return;
    }
    let id = Client::open(server.client_addr()).await.info()["server_id"].as_str().unwrap().to_owned();
    let body = server.get("/metrics").await.body;
    for line in body.lines().filter(|line| line.starts_with("gnatsd_varz_")) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(body.contains(&format!("# TYPE {name} ")), "no type for {name}");
        assert!(body.contains(&format!("# HELP {name} ")), "no help for {name}");
        assert!(line.contains(&format!("server_id=\"{id}\"")), "{line}");
    }
}
