//! The load under which tests end a server: publishes, purges, deletions and a worker, on a stream, a work queue and a bucket.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::history::History;
use crate::jetstream::JetStream;
use crate::server::Server;
use crate::wire::Wire;

/// Subjects of a stream, and keys of a bucket.
const KEYS: u64 = 7;

/// The streams that are under load, and what clients were told of them.
#[derive(Debug, Clone)]
pub struct Load {
    /// `LOG`: everything stays until it is deleted or purged.
    pub log: History,
    /// `WORK`: a work queue with one worker.
    pub work: History,
    /// `KV_B`: of each key the newest.
    bucket: History,
}

impl Load {
    /// Makes the streams.
    pub async fn create(js: &mut JetStream) -> Self {
        js.stream(json!({"name": "LOG", "subjects": ["log.*"]})).await;
        js.stream(json!({"name": "WORK", "subjects": ["work.*"], "retention": "workqueue"})).await;
        js.stream(
            json!({"name": "KV_B", "subjects": ["$KV.B.>"], "max_msgs_per_subject": 1, "discard": "new",
            "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true}),
        )
        .await;
        let worker = json!({"durable_name": "w", "ack_policy": "explicit", "ack_wait": 2_000_000_000u64});
        js.consumer("WORK", worker).await;
        Self { log: History::new("LOG"), work: History::of_queue("WORK"), bucket: History::of_bucket("B") }
    }

    /// Starts all clients of a round. They end with the server.
    pub async fn start(&self, server: &Server, round: u32) -> JoinSet<io::Result<()>> {
        let mut clients = JoinSet::new();
        let publishers =
            [(&self.log, "log"), (&self.work, "work"), (&self.bucket, "$KV.B"), (&self.log, "log")];
        for (number, (history, subject)) in publishers.into_iter().enumerate() {
            let name = format!("r{round}p{number}");
            let wire = connect(server, &name).await;
            clients.spawn(history.clone().publish(wire, name, subject.to_owned(), KEYS));
        }
        let wire = connect(server, &format!("r{round}purge")).await;
        clients.spawn(self.log.clone().remove(wire, Duration::from_millis(7)));
        let (wire, work) = (connect(server, &format!("r{round}work")).await, self.work.clone());
        clients.spawn(async move { work.work(wire, "w").await });
        clients
    }

    /// What clients were told must hold.
    pub async fn check(&self, js: &mut JetStream) {
        for history in [&self.log, &self.work, &self.bucket] {
            history.check(js).await;
        }
    }

    /// What clients have been told so far, for people to read.
    pub fn figures(&self) -> String {
        let [log, work, bucket] = [&self.log, &self.work, &self.bucket].map(History::acknowledged);
        let confirmed = self.work.confirmed();
        format!(
            "acknowledged were {log} publishes to LOG, {work} to WORK and {bucket} to KV_B; \
             {confirmed} acknowledgements in WORK were confirmed"
        )
    }

    /// Publishes a message that nobody notes, and deletes it: the stream still takes both.
    pub async fn publish_and_delete(&self, js: &mut JetStream) {
        let sequence = js.publish("log.0", "not checked").await;
        js.ok("STREAM.MSG.DELETE.LOG", json!({"seq": sequence})).await;
    }
}

/// A connection whose inbox has this name.
pub async fn connect(server: &Server, name: &str) -> Wire {
    match Wire::connect(server.client_addr(), &format!("_INBOX.{name}")).await {
        Ok(wire) => wire,
        Err(error) => panic!("connect {name}: {error}"),
    }
}

/// Waits for the clients of a round whose server has ended.
pub async fn ended(mut clients: JoinSet<io::Result<()>>, round: u32) {
    while let Some(ended) = clients.join_next().await {
        // Each ends with its connection; a panic is a broken rule.
        match ended {
            Ok(result) => assert!(result.is_err(), "a load ended before the server in round {round}"),
            Err(error) => panic!("round {round}: {error}"),
        }
    }
}
