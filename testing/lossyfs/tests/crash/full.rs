//! A disk without space: the server refuses and says so, and has everything when there is space again.

use std::fs;
use std::io::Write;
use std::time::Duration;

use lossyfs::Mounted;
use serde_json::{Value, json};
use testkit::Builder;
use testkit::jetstream::JetStream;
use tokio::time::timeout;

use crate::files::sync_directory;
use crate::server::target;

/// Bytes that the file system holds, and those of a file that makes space when it goes.
const CAPACITY: u64 = 112 << 20;
const BALLAST: usize = 72 << 20;
/// Bytes of a message, and how many there may be.
const BODY: usize = 200_000;
const MESSAGES: u64 = 400;
/// Whoever gets no answer meanwhile published when the log failed.
const ANSWER: Duration = Duration::from_secs(5);

fn body(number: u64) -> String {
    format!("{number},").repeat(BODY / 8)
}

async fn get(js: &mut JetStream, sequence: u64) -> String {
    js.request("$JS.API.DIRECT.GET.S", "", &json!({"seq": sequence}).to_string()).await.payload
}

/// Changes are refused with the reason, but for those of streams in memory.
async fn changes_are_refused(js: &mut JetStream) {
    for subject in ["S", "OTHER"] {
        let refused = js.publish_with(subject, &[], "x").await["error"].clone();
        assert_eq!(refused["err_code"], 10077, "{refused}");
        assert!(refused["description"].as_str().unwrap().contains("No space left"), "{refused}");
    }
    assert_eq!(js.publish("M", "x").await, 1);
    for (request, config) in [
        ("STREAM.CREATE.N", json!({"name": "N"})),
        ("STREAM.UPDATE.S", json!({"name": "S", "subjects": ["S"], "max_msgs": 5})),
        ("STREAM.PURGE.S", Value::Null),
        ("STREAM.MSG.DELETE.S", json!({"seq": 1})),
        ("CONSUMER.DURABLE.CREATE.S.c", json!({"stream_name": "S", "config": {"durable_name": "c"}})),
    ] {
        let refused = js.api(request, &config).await;
        assert!(refused["error"]["code"].as_u64().unwrap() >= 500, "{request}: {refused}");
    }
}

async fn fill_and_end(kills: bool) {
    let disk = Mounted::new(CAPACITY).unwrap();
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; BALLAST]).unwrap();
    let config = format!(
        "server_name: js\njetstream {{ store_dir: \"{}/js\", max_file_store: 1GB }}\n",
        disk.path().display()
    );
    let mut server = Builder::new(&target()).config(config).monitoring().start().await;
    let mut js = JetStream::connect(&server).await;
    for (name, storage) in [("S", "file"), ("OTHER", "file"), ("M", "memory")] {
        let config = json!({"name": name, "subjects": [name], "storage": storage, "allow_direct": true});
        js.stream(config).await;
    }
    js.publish("OTHER", "x").await;
    let mut stored = 0;
    while let Ok(answer) = timeout(ANSWER, js.publish_with("S", &[], &body(stored + 1))).await
        && answer.get("error").is_none()
    {
        stored += 1;
        assert!(stored < MESSAGES, "the disk takes everything");
    }
    let mut js = JetStream::connect(&server).await;
    changes_are_refused(&mut js).await;
    assert_eq!(get(&mut js, stored).await, body(stored));
    let read = js.ok("STREAM.MSG.GET.S", json!({"last_by_subj": "S"})).await;
    assert_eq!(read["message"]["seq"], stored, "{read}");
    let health = server.get("/healthz?details=1").await;
    assert!(health.status == 503 && health.body.contains("$G \\u003e S' write error"), "{health:?}");
    assert!(health.body.contains("No space left"), "{health:?}");
    if kills {
        server.kill().await;
        disk.crash(1);
    } else {
        server.stop().await;
    }
    // It does not begin on a full disk, and loses nothing by trying.
    let rest = disk.path().join("rest");
    let mut file = fs::File::create(&rest).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file);
    let refused = server.restart_in_vain().await;
    let told = refused.stdout + &refused.stderr;
    assert!(refused.code.is_some_and(|code| code != 0) && told.contains("No space left"), "{told}");
    fs::remove_file(&ballast).unwrap();
    fs::remove_file(&rest).unwrap();
    // What a crash could bring back still takes space.
    sync_directory(disk.path());
    server.restart().await;
    let mut js = JetStream::connect(&server).await;
    assert_eq!(server.get("/healthz").await.status, 200, "{}", server.log());
    for sequence in 1..=stored {
        assert!(get(&mut js, sequence).await == body(sequence), "{sequence} is gone");
    }
    assert!(js.publish("S", "x").await > stored);
    assert_eq!(js.publish("OTHER", "x").await, 2);
    assert_eq!(server.get("/healthz").await.status, 200);
}

/// O17: in the middle of a load, then killed with the power lost, or stopped.
pub(crate) fn a_full_disk_refuses_and_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for kills in [true, false] {
        runtime.block_on(fill_and_end(kills));
    }
}
