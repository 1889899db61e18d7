//! Storage that cannot be read for a while, that lost a part, and that changes under a name: nothing is forgotten, and what is lost is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream, delivery};
use testkit::{Builder, Server};

use crate::target;

/// Messages of a stream.
const MESSAGES: u64 = 5;

/// Nobody may read or write this, not even list it.
fn lock(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

fn unlock(path: &Path) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Two streams with messages, and a consumer that is half done.
async fn fill(js: &mut JetStream) {
    for name in ["A", "B"] {
        js.stream(json!({"name": name, "subjects": [name]})).await;
        js.consumer(name, json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        for _ in 0..MESSAGES {
            js.publish(name, "x").await;
        }
        for message in js.fetch_wait(name, "c", 2).await {
            js.ack(&message).await;
        }
    }
}

/// Everything that `fill` made is there.
async fn check(js: &mut JetStream, more: u64) {
    for name in ["A", "B"] {
        let info = js.ok(&format!("STREAM.INFO.{name}"), Value::Null).await;
        assert_eq!(info["state"]["messages"], MESSAGES + more, "{info}");
        let info = js.ok(&format!("CONSUMER.INFO.{name}.c"), Value::Null).await;
        assert_eq!(info["ack_floor"]["stream_seq"], 2, "{info}");
    }
}

fn store(server: &Server) -> PathBuf {
    server.dir().join("js/jetstream")
}

fn stream_dirs(server: &Server) -> Vec<PathBuf> {
    let mut dirs: Vec<_> =
        fs::read_dir(store(server).join("streams")).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.sort();
    dirs
}

/// O18: a start while something may not be read refuses or says so, and deletes nothing.
#[tokio::test]
async fn what_may_not_be_read_at_the_start_is_there_afterwards() {
    if !target().is_myelin() {
        // The files of the reference are others.
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).monitoring().obeys_modes().start().await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js).await;
    server.stop().await;
    let (root, first) = (store(&server), stream_dirs(&server).remove(0));
    for path in [root.clone(), root.join("log"), root.join("streams"), root.join("catalogue")] {
        lock(&path);
        let refused = server.restart_in_vain().await;
        unlock(&path);
        let told = refused.stdout + &refused.stderr;
        assert!(refused.code.is_some_and(|code| code != 0), "{}: {told}", path.display());
        assert!(told.contains("Permission denied"), "{}: {told}", path.display());
    }
    lock(&first);
    server.restart().await;
    let mut js = JetStream::connect(&server).await;
    let health = server.get("/healthz").await;
    assert_eq!(health.status, 503, "{health:?}");
    assert!(server.log().contains("Permission denied"), "{}", server.log());
    // The other stream works, and the name of the first is not free.
    assert_eq!(js.publish("B", "x").await, MESSAGES + 1);
    let created = js.api("STREAM.CREATE.A", &json!({"name": "A", "subjects": ["A"]})).await;
    assert!(created.get("error").is_some(), "{created}");
    server.kill().await;
    unlock(&first);
    server.restart().await;
    let mut js = JetStream::connect(&server).await;
    assert_eq!(js.publish("A", "x").await, MESSAGES + 1);
    check(&mut js, 1).await;
}

/// O18: files may not be reached for a while in a running server; what it said holds afterwards.
#[tokio::test]
async fn what_may_not_be_read_for_a_while_is_not_forgotten() {
    if !target().is_myelin() {
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).obeys_modes().start().await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js).await;
    let root = store(&server);
    lock(&root);
    // What needs no other file goes on, what does is refused.
    let refused = js.api("STREAM.CREATE.C", &json!({"name": "C", "subjects": ["C"]})).await;
    assert!(refused.get("error").is_some(), "{refused}");
    let published = js.publish("A", "x").await;
    assert_eq!((published, js.publish("B", "x").await), (MESSAGES + 1, MESSAGES + 1));
    server.kill().await;
    unlock(&root);
    server.restart().await;
    check(&mut JetStream::connect(&server).await, 1).await;
}

/// O33: the storage of a stream is what its last creation said, whatever one of its name had before.
#[tokio::test]
async fn storage_is_that_of_the_last_creation_after_kills() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    for (before, after) in [("file", "memory"), ("memory", "file")] {
        js.stream(json!({"name": "S", "subjects": ["s"], "storage": before})).await;
        js.consumer("S", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        for _ in 0..MESSAGES {
            js.publish("s", "before").await;
        }
        server.kill().await;
        server.restart().await;
        js = JetStream::connect(&server).await;
        if !target().is_myelin() && before == "memory" {
            // A killed reference has no stream any more whose storage was memory.
            js.stream(json!({"name": "S", "subjects": ["s"], "storage": before})).await;
        }
        js.ok("STREAM.DELETE.S", Value::Null).await;
        js.stream(json!({"name": "S", "subjects": ["s"], "storage": after})).await;
        server.kill().await;
        server.restart().await;
        js = JetStream::connect(&server).await;
        if !target().is_myelin() && after == "memory" {
            js.stream(json!({"name": "S", "subjects": ["s"], "storage": after})).await;
        }
        let info = js.ok("STREAM.INFO.S", Value::Null).await;
        assert_eq!(info["config"]["storage"], after, "{info}");
        assert_eq!((&info["state"]["messages"], &info["state"]["consumer_count"]), (&json!(0), &json!(0)));
        js.consumer("S", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        assert_eq!(js.publish("s", "after").await, 1);
        let message = js.fetch_wait("S", "c", 1).await.remove(0);
        assert_eq!(message.payload, "after");
        js.ack(&message).await;
        js.ok("STREAM.DELETE.S", Value::Null).await;
    }
}

/// O67: who begins at a time gets the first message of a filtered mirror that is not older where it came from.
#[tokio::test]
async fn start_times_on_filtered_mirrors_are_original_times() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "O", "subjects": ["o.*"]})).await;
    for subject in ["o.a", "o.b", "o.a", "o.b", "o.b", "o.b", "o.a", "o.b"] {
        js.publish(subject, "x").await;
    }
    let mut times = Vec::new();
    for sequence in 1..=8 {
        let message = js.ok("STREAM.MSG.GET.O", json!({"seq": sequence})).await;
        times.push(message["message"]["time"].as_str().unwrap().to_owned());
    }
    js.stream(json!({"name": "M", "mirror": {"name": "O", "filter_subject": "o.a"}})).await;
    js.until("STREAM.INFO.M", "the copy", |info| info["state"]["messages"] == 3).await;
    for round in 0..2 {
        // From a skipped message, from the very message, and from the skipped one behind everything.
        for (start, first) in [(5, Some(7)), (7, Some(7)), (8, None)] {
            let durable = format!("c{round}-{start}");
            let config = json!({"durable_name": durable, "ack_policy": "explicit",
                "deliver_policy": "by_start_time", "opt_start_time": times[start - 1]});
            js.consumer("M", config).await;
            let fetched = js.fetch("M", &durable, 1).await;
            let got = fetched.first().map(|message| delivery(message).stream_sequence);
            assert_eq!(got, first, "from {start} in round {round}");
        }
        let copy = js.ok("STREAM.MSG.GET.M", json!({"seq": 7})).await;
        assert_eq!(copy["message"]["time"], times[6].as_str());
        server.kill().await;
        server.restart().await;
        js = JetStream::connect(&server).await;
    }
}

/// Segments of the log, oldest first.
fn segments(server: &Server) -> Vec<PathBuf> {
    let log = fs::read_dir(store(server).join("log")).unwrap();
    let names = log.map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".wal") && !name.starts_with("spare-")
    };
    let mut segments: Vec<_> = names.filter(is_segment).collect();
    segments.sort();
    segments
}

async fn restart(server: &mut Server) -> JetStream {
    server.kill().await;
    server.restart().await;
    JetStream::connect(server).await
}

async fn names(js: &mut JetStream) -> Value {
    js.ok("STREAM.NAMES", Value::Null).await["streams"].clone()
}

/// A stream whose creation went with the end of the log is told by its files, which stay until somebody takes them away.
#[tokio::test]
async fn files_of_a_stream_that_the_catalogue_lost_are_told_and_kept() {
    if !target().is_myelin() {
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).monitoring().start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "A", "subjects": ["a"]})).await;
    js.publish("a", "1").await;
    js = restart(&mut server).await;
    js.stream(json!({"name": "B", "subjects": ["b"]})).await;
    js.publish("b", "1").await;
    server.kill().await;
    let lost = stream_dirs(&server).pop().unwrap();
    fs::remove_file(segments(&server).pop().unwrap()).unwrap();
    server.restart().await;
    let told = format!("lacks the entry that created the stream in {}", lost.display());
    let is_told = async |server: &Server| {
        let health = server.get("/healthz?details=1").await.body;
        (server.log().contains(&told), health.contains("the catalogue, lacks the entry"))
    };
    assert_eq!(is_told(&server).await, (true, true), "{}", server.log());
    js = JetStream::connect(&server).await;
    assert_eq!(names(&mut js).await, json!(["A"]));
    assert_eq!(js.publish("a", "2").await, 2);
    // Another one of the name is another one, and the first is still told: after a kill, and after a stop in good order.
    js.stream(json!({"name": "B", "subjects": ["b"]})).await;
    assert_eq!(js.publish("b", "1").await, 1);
    for kills in [true, false] {
        if kills {
            server.kill().await
        } else {
            server.stop().await;
        }
        server.restart().await;
        assert_eq!(is_told(&server).await, (true, true), "{}", server.log());
        assert!(lost.exists() && stream_dirs(&server).len() == 3);
    }
    server.stop().await;
    fs::remove_dir_all(&lost).unwrap();
    server.restart().await;
    assert_eq!(is_told(&server).await, (false, false), "{}", server.log());
    assert_eq!(names(&mut JetStream::connect(&server).await).await, json!(["A", "B"]));
}

/// With a hole among the entries of the catalogue the server does not start; with the segment back, everything is there.
#[tokio::test]
async fn a_hole_in_the_catalogue_stops_the_start_and_is_named() {
    if !target().is_myelin() {
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "A", "subjects": ["a"]})).await;
    js = restart(&mut server).await;
    js.stream(json!({"name": "B", "subjects": ["b"]})).await;
    js.publish("b", "1").await;
    js = restart(&mut server).await;
    js.publish("a", "1").await;
    server.kill().await;
    let all = segments(&server);
    let middle = &all[all.len() - 2];
    let aside = server.dir().join("aside");
    fs::rename(middle, &aside).unwrap();
    let refused = server.restart_in_vain().await;
    let told = refused.stdout + &refused.stderr;
    assert!(refused.code.is_some_and(|code| code != 0), "{told}");
    assert!(told.contains("group 0000000000000001, the catalogue, may lack entries from "), "{told}");
    assert!(told.contains("group 0000000000000001 lacks entries "), "{told}");
    fs::rename(&aside, middle).unwrap();
    server.restart().await;
    js = JetStream::connect(&server).await;
    assert_eq!(names(&mut js).await, json!(["A", "B"]));
    assert_eq!((js.publish("a", "2").await, js.publish("b", "2").await), (2, 2));
}
