//! Backups with the official command line tool, from each server into each server.

use std::path::Path;

use serde_json::{Value, json};
use testkit::jetstream::{self, JetStream};
use testkit::{Server, Target, tools};

use super::snapshot::noise;
use crate::reference;

async fn run(tool: &Path, server: &Server, args: &[&str]) -> String {
    let mut command = tools::nats_command(tool, server.dir());
    command.arg("-s").arg(format!("nats://{}", server.client_addr())).args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {text}");
    text
}

/// Everything of a stream: its messages, and where its consumers are.
async fn content(js: &mut JetStream) -> (Vec<Value>, Value, Vec<Value>) {
    let info = js.ok("STREAM.INFO.S", Value::Null).await;
    let mut messages = Vec::new();
    for sequence in 1..=info["state"]["last_seq"].as_u64().unwrap() {
        messages.push(js.api("STREAM.MSG.GET.S", &json!({"seq": sequence})).await);
    }
    let mut consumers = Vec::new();
    for name in ["C", "D"] {
        let info = js.ok(&format!("CONSUMER.INFO.S.{name}"), Value::Null).await;
        let place = |member: &str| json!([info[member]["consumer_seq"], info[member]["stream_seq"]]);
        consumers.push(json!([
            name,
            place("delivered"),
            info["ack_floor"]["consumer_seq"],
            info["num_ack_pending"],
            info["num_pending"]
        ]));
    }
    (messages, info["state"].clone(), consumers)
}

#[tokio::test]
async fn the_tool_carries_streams_between_servers() {
    let (Some(reference), Some(tool)) = (reference(), tools::nats()) else { return };
    let ours = Target::myelin(env!("CARGO_BIN_EXE_myelin"));
    for (from, to) in [(&reference, &ours), (&ours, &reference), (&ours, &ours), (&reference, &reference)] {
        let (from, to) = (jetstream::server(from).await, jetstream::server(to).await);
        let mut js = JetStream::connect(&from).await;
        js.stream(json!({"name": "S", "subjects": ["s.>"], "max_msgs_per_subject": 200})).await;
        for number in 0..600_u32 {
            let id = format!("id-{number}");
            let body = format!(
                "{} {}",
                "some text ".repeat(number as usize % 50),
                noise(700, u64::from(number) + 1)
            );
            js.publish_with(&format!("s.{}", number % 4), &[("Nats-Msg-Id", &id)], &body).await;
        }
        js.ok("STREAM.MSG.DELETE.S", json!({"seq": 300})).await;
        let wait = 300_000_000_000_u64;
        js.consumer("S", json!({"durable_name": "C", "ack_policy": "explicit", "ack_wait": wait})).await;
        js.consumer("S", json!({"durable_name": "D", "ack_policy": "all", "ack_wait": wait})).await;
        let fetched = js.fetch("S", "C", 50).await;
        js.ack(&fetched[0]).await;
        js.ack(&fetched[7]).await;
        let fetched = js.fetch("S", "D", 20).await;
        js.ack(&fetched[9]).await;
        let before = content(&mut js).await;
        let dir = to.dir().join("backup");
        let path = dir.to_str().unwrap();
        run(&tool, &from, &["stream", "backup", "S", path, "--no-progress"]).await;
        run(&tool, &to, &["stream", "restore", path, "--no-progress"]).await;
        let mut js = JetStream::connect(&to).await;
        assert_eq!(content(&mut js).await, before, "{:?} -> {:?}", from.target().kind, to.target().kind);
        if to.target().is_myelin() {
            let again = js.publish_with("s.1", &[("Nats-Msg-Id", "id-599")], "").await;
            assert_eq!(again["duplicate"], true);
        }
    }
}
