//! Blocks of streams that were cut, emptied, or put back from an earlier time: nothing that is told is wrong, sequences are not given twice, and what
//! is lost is named.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream, delivery, header, is_status};
use testkit::{Builder, Server};

use super::files;
use crate::target;

/// Messages in a stream of several blocks, and their bytes.
const MESSAGES: u64 = 60;
const BODY: usize = 160_000;
/// The same where each is sealed and compressed, which takes its time in a test.
const BODY_SEALED: usize = 60_000;

/// Files of streams whose names end like this.
fn with_ending(server: &Server, ending: &str) -> Vec<PathBuf> {
    let mut found = files(&server.dir().join("js"));
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found
}

/// Blocks of messages; the log of ours is none.
fn blocks(server: &Server) -> Vec<PathBuf> {
    let mut blocks = with_ending(server, ".blk");
    blocks.retain(|path| !path.to_string_lossy().contains("/obs/"));
    blocks
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

async fn state(js: &mut JetStream, stream: &str) -> Value {
    js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await["state"].clone()
}

async fn restart(server: &mut Server) -> JetStream {
    server.restart().await;
    JetStream::connect(server).await
}

/// O07: an empty queue whose blocks are empty, or gone, goes on where it was.
#[tokio::test]
async fn a_queue_goes_on_without_its_blocks() {
    if !target().is_myelin() {
        // The reference finds its place in one of the two.
        return;
    }
    for gone in [true, false] {
        let mut server = Builder::new(&target()).config(CONFIG).start().await;
        let mut js = JetStream::connect(&server).await;
        js.stream(json!({"name": "Q", "subjects": ["q"], "retention": "workqueue"})).await;
        js.consumer("Q", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        let mut last = 0;
        for kills in [true, false, true] {
            for _ in 0..MESSAGES {
                last = js.publish("q", &"x".repeat(200)).await;
            }
            for message in js.fetch_wait("Q", "c", MESSAGES as usize).await {
                js.ack(&message).await;
            }
            if kills {
                server.kill().await;
            } else {
                server.stop().await;
            }
            for path in blocks(&server) {
                if gone { fs::remove_file(path).unwrap() } else { cut(&path, 0) }
            }
            js = restart(&mut server).await;
            let state = state(&mut js, "Q").await;
            assert_eq!((&state["messages"], &state["last_seq"]), (&json!(0), &json!(last)), "{state}");
        }
        assert_eq!(js.publish("q", "x").await, last + 1);
        let message = js.fetch_wait("Q", "c", 1).await.remove(0);
        assert_eq!(delivery(&message).stream_sequence, last + 1);
        js.ack(&message).await;
    }
}

/// O12: the only block is cut in the middle of its first message.
#[tokio::test]
async fn a_stream_whose_only_block_was_cut_goes_on_and_tells() {
    if !target().is_myelin() {
        return;
    }
    for length in [5, 0] {
        let mut server = Builder::new(&target()).config(CONFIG).monitoring().start().await;
        let mut js = JetStream::connect(&server).await;
        js.stream(json!({"name": "S", "subjects": ["s"]})).await;
        js.publish("s", "1").await;
        server.stop().await;
        let blocks = blocks(&server);
        assert_eq!(blocks.len(), 1, "{blocks:?}");
        cut(&blocks[0], length);
        js = restart(&mut server).await;
        assert_eq!(js.publish("s", "2").await, 2);
        let health = server.get_json("/healthz?details=1").await;
        let lost = format!("1.blk: {length} of 64 bytes are there, lost sequence 1");
        let told = format!("JetStream stream '$G > S' is damaged: {lost}");
        assert_eq!(health["errors"][0]["error"], told.as_str(), "{health}");
        assert_eq!(state(&mut js, "S").await["messages"], 1);
        let missing = js.api("STREAM.MSG.GET.S", &json!({"seq": 1})).await;
        assert_eq!(missing["error"]["err_code"], 10037, "{missing}");
    }
}

/// Messages of a stream by sequence, as clients get them one by one; what is not there has to be said to be not there.
async fn read(js: &mut JetStream, stream: &str, last: u64) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for sequence in 1..=last {
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        let message = js.request(&subject, "", &json!({"seq": sequence}).to_string()).await;
        if is_status(&message) {
            assert!(message.headers.starts_with("NATS/1.0 404"), "{sequence}: {message:?}");
        } else {
            assert_eq!(header(&message.headers, "Nats-Sequence"), Some(&*sequence.to_string()));
            found.push((sequence, message.payload));
        }
    }
    found
}

/// What a stream says of itself is what can be read of it.
async fn agrees(js: &mut JetStream, stream: &str) -> Vec<(u64, String)> {
    let state = state(js, stream).await;
    let found = read(js, stream, state["last_seq"].as_u64().unwrap()).await;
    assert_eq!(state["messages"], found.len(), "{state}");
    if let (Some((first, _)), Some((last, _))) = (found.first(), found.last()) {
        assert_eq!(state["first_seq"], *first, "{state}");
        let between = last + 1 - first - found.len() as u64;
        let behind = state["last_seq"].as_u64().unwrap() - last;
        assert_eq!(state["num_deleted"].as_u64().unwrap_or(0), between + behind, "{state}");
    }
    let reader = json!({"durable_name": "reader", "ack_policy": "none"});
    js.consumer(stream, reader).await;
    let delivered = js.fetch(stream, "reader", found.len() + 1).await;
    let delivered: Vec<u64> = delivered.iter().map(|message| delivery(message).stream_sequence).collect();
    assert_eq!(delivered, found.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>());
    js.ok(&format!("CONSUMER.DELETE.{stream}.reader"), Value::Null).await;
    found
}

/// A stream of several blocks.
async fn several_blocks(js: &mut JetStream, compression: &str, bytes: usize) {
    js.stream(json!({"name": "S", "subjects": ["s.*"], "compression": compression, "allow_direct": true}))
        .await;
    fill(js, 1, bytes).await;
}

async fn fill(js: &mut JetStream, from: u64, bytes: usize) {
    for number in from..from + MESSAGES {
        assert_eq!(js.publish(&format!("s.{}", number % 3), &body(number, bytes)).await, number);
    }
}

/// Half of it can be compressed.
fn body(number: u64, bytes: usize) -> String {
    let mut random = number;
    let noise = (0..bytes / 2).map(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(33 + (random >> 58) as u8)
    });
    noise.chain((0..bytes / 2).map(|_| 'x')).collect()
}

/// O11: the checkpoint, or what can be made anew, is of an earlier time than the blocks.
#[tokio::test]
async fn a_stream_with_files_of_an_earlier_time_shows_what_can_be_read() {
    if !target().is_myelin() {
        return;
    }
    for ending in ["checkpoint", ".idx", ".blk"] {
        let mut server = Builder::new(&target()).config(CONFIG).monitoring().start().await;
        let mut js = JetStream::connect(&server).await;
        several_blocks(&mut js, "none", BODY).await;
        server.stop().await;
        let earlier: Vec<(PathBuf, Vec<u8>)> = with_ending(&server, ending)
            .into_iter()
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .collect();
        assert!(!earlier.is_empty(), "no file ends with {ending}");
        js = restart(&mut server).await;
        js.ok("STREAM.PURGE.S", json!({"filter": "s.1"})).await;
        for sequence in [3, MESSAGES / 2, MESSAGES] {
            js.ok("STREAM.MSG.DELETE.S", json!({"seq": sequence})).await;
        }
        fill(&mut js, MESSAGES + 1, BODY).await;
        let before = agrees(&mut js, "S").await;
        server.stop().await;
        for (path, bytes) in &earlier {
            fs::write(path, bytes).unwrap();
        }
        js = restart(&mut server).await;
        let after = agrees(&mut js, "S").await;
        let known: std::collections::BTreeMap<_, _> = before.iter().cloned().collect();
        for (sequence, data) in &after {
            if let Some(was) = known.get(sequence) {
                assert!(was == data, "{ending}: {sequence} is another message");
            }
        }
        let told = server.get("/healthz?details=1").await.body;
        let lost = before.iter().filter(|message| !after.contains(message)).count();
        assert!(lost == 0 || told.contains("is damaged"), "{ending}: {lost} are lost, and {told}");
        let last = state(&mut js, "S").await["last_seq"].as_u64().unwrap();
        assert_eq!(js.publish("s.0", "more").await, last + 1);
        assert!(last >= 2 * MESSAGES || told.contains("is damaged"), "{ending}: back to {last}, and {told}");
        agrees(&mut js, "S").await;
    }
}

/// O09: without the files that can be made anew, deleted messages stay deleted.
#[tokio::test]
async fn deletions_do_not_need_the_files_that_can_be_made_anew() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    several_blocks(&mut js, "none", BODY).await;
    for sequence in (1..=MESSAGES).filter(|sequence| sequence % 5 != 2) {
        js.ok("STREAM.MSG.DELETE.S", json!({"seq": sequence, "no_erase": sequence % 2 == 0})).await;
    }
    let before = agrees(&mut js, "S").await;
    assert_eq!(before.len() as u64, MESSAGES / 5);
    for kills in [true, false, true] {
        if kills {
            server.kill().await;
        } else {
            server.stop().await;
        }
        for path in with_ending(&server, ".idx").into_iter().chain(with_ending(&server, "index.db")) {
            fs::remove_file(path).unwrap();
        }
        js = restart(&mut server).await;
        assert!(agrees(&mut js, "S").await == before);
    }
    assert_eq!(js.publish("s.0", "more").await, MESSAGES + 1);
}

/// O62: most messages of compressed and of sealed blocks go, one by one and by purges, and the rest can be read after restarts.
#[tokio::test]
async fn few_messages_of_compressed_and_sealed_blocks_can_be_read() {
    let sealed = "server_name: js\njetstream { store_dir: \"%DIR%/js\", cipher: aes, key: \"k\" }\n";
    for (config, compression) in [(CONFIG, "s2"), (sealed, "s2")] {
        let mut server = Builder::new(&target()).config(config).start().await;
        let mut js = JetStream::connect(&server).await;
        several_blocks(&mut js, compression, BODY_SEALED).await;
        let mut before = agrees(&mut js, "S").await;
        let mut from = 1;
        for kills in [true, false] {
            let half = from + MESSAGES / 2;
            js.ok("STREAM.PURGE.S", json!({"filter": "s.0", "seq": half})).await;
            before.retain(|(sequence, _)| sequence % 3 != 0 || *sequence >= half);
            for (sequence, _) in
                before.extract_if(.., |(sequence, _)| *sequence >= from && *sequence % 10 != 7)
            {
                js.ok("STREAM.MSG.DELETE.S", json!({"seq": sequence})).await;
            }
            assert!(agrees(&mut js, "S").await == before, "{config} {compression}");
            if kills {
                server.kill().await;
            } else {
                server.stop().await;
            }
            js = restart(&mut server).await;
            assert!(agrees(&mut js, "S").await == before, "{config} {compression}");
            from += MESSAGES;
            fill(&mut js, from, BODY_SEALED).await;
            before.extend(
                read(&mut js, "S", from + MESSAGES - 1).await.into_iter().filter(|(at, _)| *at >= from),
            );
        }
        js.ok("STREAM.PURGE.S", json!({"keep": 2})).await;
        server.kill().await;
        js = restart(&mut server).await;
        assert!(agrees(&mut js, "S").await[..] == before[before.len() - 2..], "{config} {compression}");
    }
}
