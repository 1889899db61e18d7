//! Encryption at rest, as a user meets it: what is on disk tells nothing, survives kills, and names the key that it lacks.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::jetstream::JetStream;
use testkit::{Builder, Server};

use super::files;
use crate::target;

/// What may be in no file.
const SECRETS: [&str; 4] = ["sesame-body", "sesame-subject", "sesame-header", "sesame-filter"];
/// Rounds of a purge that is cut short.
const ROUNDS: u64 = 8;

/// A configuration with this cipher and these keys, a newer one first.
fn config(cipher: &str, keys: &[&str]) -> String {
    let names = ["key", "prev_key"];
    let keys: String = names.iter().zip(keys).map(|(name, key)| format!(", {name}: \"{key}\"")).collect();
    format!("server_name: js\njetstream {{ store_dir: \"%DIR%/js\", cipher: {cipher}{keys} }}\n")
}

async fn fill(js: &mut JetStream, from: u64, to: u64) {
    for number in from..=to {
        let stored = js.publish_with("sesame-subject.a", &[("Sesame", "sesame-header")], &body(number)).await;
        assert_eq!(stored["seq"], number, "{stored}");
    }
}

fn body(number: u64) -> String {
    format!("sesame-body {number} {}", "x".repeat(500))
}

/// The messages from `first` to `last` are there, whole.
async fn check(js: &mut JetStream, first: u64, last: u64) {
    let info = js.ok("STREAM.INFO.S", Value::Null).await;
    let state = &info["state"];
    assert_eq!(
        (&state["messages"], &state["first_seq"], &state["last_seq"]),
        (&json!(last + 1 - first), &json!(first), &json!(last)),
        "{info}"
    );
    for number in first..=last {
        let message = js.request("$JS.API.DIRECT.GET.S", "", &json!({"seq": number}).to_string()).await;
        assert!(message.payload == body(number), "{number}: {message:?}");
    }
}

/// Every file of the server's storage with what it holds.
fn contents(server: &Server) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(&server.dir().join("js")).into_iter();
    files.map(|path| fs::read(&path).map(|bytes| (path, bytes)).unwrap()).collect()
}

fn nothing_is_in_clear(server: &Server) {
    let files = contents(server);
    assert!(!files.is_empty());
    for (path, bytes) in files {
        let text = String::from_utf8_lossy(&bytes);
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
}

/// A server with its first key, and a stream and a consumer on it.
async fn with_a_stream(cipher: &str) -> (Server, JetStream) {
    let server = Builder::new(&target()).config(config(cipher, &["one"])).start().await;
    let mut js = JetStream::connect(&server).await;
    let config = json!({"name": "S", "subjects": ["sesame-subject.*"], "allow_direct": true});
    js.stream(config).await;
    js.consumer(
        "S",
        json!({"durable_name": "c", "ack_policy": "explicit",
        "filter_subject": "sesame-subject.a", "description": "sesame-filter"}),
    )
    .await;
    (server, js)
}

/// O13, O15: what is written after a start, before anything was read, is sealed like the rest; and all of it can be read after kills and stops, without the
/// files that can be made anew.
#[tokio::test]
async fn nothing_is_on_disk_in_clear_and_everything_comes_back() {
    for cipher in ["aes", "chacha"] {
        let (mut server, mut js) = with_a_stream(cipher).await;
        let mut last = 0;
        for kills in [true, false, true, true, false] {
            fill(&mut js, last + 1, last + 20).await;
            last += 20;
            if kills {
                server.kill().await;
            } else {
                server.stop().await;
            }
            nothing_is_in_clear(&server);
            for path in files(&server.dir().join("js")) {
                let index = path.extension().is_some_and(|ends| ends == "idx");
                if index || path.file_name().is_some_and(|name| name == "index.db") {
                    fs::remove_file(path).unwrap();
                }
            }
            server.restart().await;
            js = JetStream::connect(&server).await;
        }
        check(&mut js, 1, last).await;
        let messages = js.fetch_wait("S", "c", 5).await;
        js.ack(&messages[4]).await;
    }
}

/// O14: a kill in the middle of a purge leaves a stream that can be read.
#[tokio::test]
async fn a_purge_that_is_cut_short_leaves_what_can_be_read() {
    let (mut server, mut js) = with_a_stream("aes").await;
    let (mut first, mut last) = (1, 0);
    for round in 0..ROUNDS {
        fill(&mut js, last + 1, last + 30).await;
        last += 30;
        let inbox = js.new_inbox();
        let keep = last - round;
        js.send("$JS.API.STREAM.PURGE.S", &inbox, "", &json!({"seq": keep}).to_string()).await;
        if round % 2 == 0 {
            js.client.message().await;
            first = keep;
        }
        server.kill().await;
        server.restart().await;
        js = JetStream::connect(&server).await;
        let state = js.ok("STREAM.INFO.S", Value::Null).await["state"].clone();
        let found = state["first_seq"].as_u64().unwrap();
        assert!(found == first || found == keep, "neither {first} nor {keep}: {state}");
        first = found;
        check(&mut js, first, last).await;
    }
}

fn key_files(server: &Server) -> Vec<PathBuf> {
    let files = files(&server.dir().join("js")).into_iter();
    files.filter(|path| path.file_name().is_some_and(|name| name == "key")).collect()
}

/// O14: a key file that was cut is made whole from its copy.
#[tokio::test]
async fn a_stream_whose_key_file_is_cut_is_read_by_the_copy() {
    if !target().is_myelin() {
        // The reference refuses the stream.
        return;
    }
    let (mut server, mut js) = with_a_stream("aes").await;
    fill(&mut js, 1, 10).await;
    for length in [0, 5, 40] {
        server.stop().await;
        let files = key_files(&server);
        assert_eq!(files.len(), 1, "{files:?}");
        fs::File::options().write(true).open(&files[0]).unwrap().set_len(length).unwrap();
        server.restart().await;
        check(&mut JetStream::connect(&server).await, 1, 10).await;
    }
}

/// Keys are replaced with the one before beside them; with a wrong one the server refuses, says which it lacks and changes nothing.
#[tokio::test]
async fn keys_are_replaced_and_a_wrong_one_changes_nothing() {
    if !target().is_myelin() {
        // The reference starts without the streams that it cannot read.
        return;
    }
    let (mut server, mut js) = with_a_stream("aes").await;
    fill(&mut js, 1, 10).await;
    let mut last = 10;
    for (cipher, keys) in [("aes", ["two", "one"]), ("chacha", ["three", "two"])] {
        server.kill().await;
        for wrong in [&["wrong"][..], &["wrong", "wronger"][..], &[][..]] {
            let before = contents(&server);
            server.write_config(&config(cipher, wrong));
            let refused = server.restart_in_vain().await;
            let told = refused.stdout + &refused.stderr;
            assert!(refused.code.is_some_and(|code| code != 0), "{told}");
            assert!(told.contains("key"), "{told}");
            for word in ["wrong", "\"one\"", "\"two\""] {
                assert!(!told.contains(word), "{word} in {told}");
            }
            let after = contents(&server);
            assert!(before == after, "files were changed");
        }
        server.write_config(&config(cipher, &keys));
        server.restart().await;
        js = JetStream::connect(&server).await;
        check(&mut js, 1, last).await;
        fill(&mut js, last + 1, last + 10).await;
        last += 10;
    }
    server.stop().await;
    server.write_config(&config("chacha", &["three"]));
    server.restart().await;
    check(&mut JetStream::connect(&server).await, 1, last).await;
    nothing_is_in_clear(&server);
}
