//! The process is killed under load, again and again: what clients were told holds afterwards.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream};
use testkit::load::{self, Load};
use testkit::{Builder, Server, eventually};

use crate::target;

/// Rounds of the ordinary run.
const ROUNDS: u32 = 6;
/// Rounds of the long one.
const ROUNDS_LONG: u32 = 200;
/// Publishes that are acknowledged in a round before the kill, at least and at most.
const LOAD: (u64, u64) = (20, 1500);
/// Rounds after which progress is told.
const PROGRESS: u32 = 10;

/// Kills the server under load so many times.
async fn rounds(rounds: u32) {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    let load = Load::create(&mut js).await;
    let mut random = rand::random::<u64>();
    eprintln!("seed {random}");
    let (started, mut confirmed) = (Instant::now(), 0);
    for round in 0..rounds {
        let clients = load.start(&server, round).await;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = LOAD.0 + (random >> 33) % (LOAD.1 - LOAD.0);
        let goal = load.log.acknowledged() + more as usize;
        eventually("there is load", async || (load.log.acknowledged() >= goal).then_some(())).await;
        server.kill().await;
        load::ended(clients, round).await;
        server.restart().await;
        js = JetStream::connect(&server).await;
        load.check(&mut js).await;
        load.publish_and_delete(&mut js).await;
        let done = round + 1;
        if done.is_multiple_of(PROGRESS) || done == rounds {
            eprintln!("{done} of {rounds} kills after {:.1?}: {}", started.elapsed(), load.figures());
            let before = std::mem::replace(&mut confirmed, load.work.confirmed());
            assert!(confirmed > before, "the worker stands still");
        }
    }
    let acknowledged = load.log.acknowledged();
    assert!(acknowledged > rounds as usize, "there was no load: {acknowledged}");
}

#[tokio::test]
async fn what_was_told_holds_after_kills_under_load() {
    rounds(ROUNDS).await;
}

#[tokio::test]
#[ignore = "minutes"]
async fn what_was_told_holds_after_200_kills_under_load() {
    rounds(ROUNDS_LONG).await;
}

async fn kill(server: &mut Server) -> JetStream {
    server.kill().await;
    server.restart().await;
    JetStream::connect(server).await
}

async fn state(js: &mut JetStream, stream: &str) -> Value {
    js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await["state"].clone()
}

/// An empty work queue keeps its place.
#[tokio::test]
async fn sequences_go_on_when_everything_was_acknowledged_before_a_kill() {
    // A killed reference forgets what a consumer had acknowledged lately.
    if !target().is_myelin() {
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "Q", "subjects": ["q"], "retention": "workqueue"})).await;
    js.consumer("Q", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
    let mut last = 0;
    for _ in 0..4 {
        for _ in 0..25 {
            last = js.publish("q", "x").await;
        }
        for message in js.fetch_wait("Q", "c", 25).await {
            js.ack(&message).await;
        }
        js = kill(&mut server).await;
        let state = state(&mut js, "Q").await;
        assert_eq!(
            (state["messages"].as_u64(), state["last_seq"].as_u64()),
            (Some(0), Some(last)),
            "{state}"
        );
        let floor = js.ok("CONSUMER.INFO.Q.c", Value::Null).await["ack_floor"]["stream_seq"].as_u64();
        assert_eq!(floor, Some(last));
    }
}

/// Messages that were deleted and erased stay so.
#[tokio::test]
async fn deleted_messages_stay_deleted_after_a_kill() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "D", "subjects": ["d"]})).await;
    let body = "x".repeat(3000);
    for _ in 0..100 {
        js.publish("d", &body).await;
    }
    for sequence in (1..=100).filter(|sequence| sequence % 3 != 0) {
        js.ok("STREAM.MSG.DELETE.D", json!({"seq": sequence, "no_erase": sequence % 2 == 0})).await;
    }
    let before = state(&mut js, "D").await;
    for _ in 0..2 {
        js = kill(&mut server).await;
        let after = state(&mut js, "D").await;
        for field in ["messages", "bytes", "first_seq", "last_seq", "num_deleted"] {
            assert_eq!(before[field], after[field], "{field}: {before} {after}");
        }
        let answer = js.api("STREAM.MSG.GET.D", &json!({"seq": 4})).await;
        assert_eq!(answer["error"]["err_code"], 10037, "{answer}");
        let message = js.ok("STREAM.MSG.GET.D", json!({"seq": 6})).await;
        assert_eq!(message["message"]["seq"], 6);
    }
}

/// A purge beyond the end keeps its place.
#[tokio::test]
async fn a_purge_up_to_a_sequence_is_remembered_after_a_kill() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "P", "subjects": ["p"]})).await;
    js.publish("p", "one").await;
    js.ok("STREAM.PURGE.P", json!({"seq": 2})).await;
    js = kill(&mut server).await;
    let state = state(&mut js, "P").await;
    assert_eq!((state["messages"].as_u64(), state["first_seq"].as_u64()), (Some(0), Some(2)), "{state}");
    assert_eq!(js.publish("p", "two").await, 2);
}

/// What a narrower configuration removed does not come back when the log is replayed under a wider one.
#[tokio::test]
async fn what_limits_removed_stays_gone_when_they_were_widened_before_a_kill() {
    // A killed reference has them again.
    if !target().is_myelin() {
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "W", "subjects": ["w"], "max_msgs": 3})).await;
    for _ in 0..10 {
        js.publish("w", "x").await;
    }
    js.ok("STREAM.UPDATE.W", json!({"name": "W", "subjects": ["w"], "max_msgs": 100})).await;
    js = kill(&mut server).await;
    let state = state(&mut js, "W").await;
    assert_eq!((state["messages"].as_u64(), state["first_seq"].as_u64()), (Some(3), Some(8)), "{state}");
}

/// Without its log the server has what the checkpoints and the catalogue's file hold, and goes on from there: the new log would refuse what follows
/// entries that it never had.
#[tokio::test]
async fn a_server_whose_log_is_gone_takes_changes_again() {
    if !target().is_myelin() {
        // The reference has no log of the kind.
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "S", "subjects": ["s"]})).await;
    js.publish("s", "1").await;
    assert!(server.stop().await.success());
    std::fs::remove_dir_all(server.dir().join("js/jetstream/log")).unwrap();
    server.restart().await;
    assert!(server.log().contains("there are streams and no log"), "{}", server.log());
    let mut js = JetStream::connect(&server).await;
    assert_eq!(js.publish("s", "2").await, 2);
    js.stream(json!({"name": "T", "subjects": ["t"]})).await;
    assert_eq!(js.publish("t", "1").await, 1);
}
