//! JetStream: streams and consumers on this server.
//!
//! `crates/jetstream` decides, `crates/multiraft` agrees, `crates/store` keeps. This is the shell around them: threads, sinks, the API and the way
//! from one to the other.

pub mod advise;
pub mod api;
pub mod calls;
pub mod catalogue;
pub mod directory;
pub mod entropy;
pub mod health;
pub mod inbox;
pub mod limits;
pub mod log_thread;
pub mod recover;
pub mod shard;
pub mod sinks;
pub mod start;
pub mod validate;
pub mod watch;
pub mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use bytes::Bytes;
use jetstream::limits::ServerUsage;
use jetstream::meta::Asset;
use parking_lot::{Mutex, RwLock};
use store::crypt::Keyring;
use store::disk::Disk;
use store::stream::Cache;

pub use directory::{AccountEntry, Directory, StreamEntry};
pub use health::{Health, Trouble};
pub use log_thread::{Log, SYNC_BUCKETS};
pub use recover::StartError;
pub use shard::Shard;
pub use sinks::{ApiSink, StreamSink};
pub use start::start;

use inbox::Inbox;
use shard::{Call, Input};
use workers::Workers;

use crate::net::sink::{Sink, Subscription};
use crate::server::Server;

/// Shards at most; more threads than cores win nothing.
const SHARDS_MAX: usize = 16;

/// What all threads of JetStream share.
#[derive(Debug)]
pub struct Shared {
    /// The server it is in.
    pub server: Arc<Server>,
    /// Streams and consumers by name.
    pub directory: Directory,
    /// The shared log.
    pub log: Arc<Log>,
    /// What is wrong.
    pub health: Health,
    /// What all streams use.
    pub usage: Arc<ServerUsage>,
    /// Domain of this server, if it has one.
    pub domain: Option<String>,
    /// Size limits in force, found out at the start where the configuration does not say.
    pub capacity: limits::Capacity,
    /// Refused requests.
    pub overflow: Arc<api::Overflow>,
    inboxes: Vec<Arc<Inbox>>,
    workers: Workers,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keyring: Option<Arc<Keyring>>,
    /// Memory for blocks that were read or written lately, shared by all streams.
    cache: Arc<Cache>,
}

/// JetStream as the server holds it.
#[derive(Debug)]
pub struct JetStream {
    /// What its threads share.
    pub shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    /// The directory of a stream's messages. The group names it, so a stream that is made anew never meets what another one left.
    fn stream_dir(&self, group: u64) -> PathBuf {
        self.dir.join("streams").join(format!("{group:016x}"))
    }

    fn write_catalogue(&self, path: &Path, bytes: &Bytes) -> Result<(), store::state_file::Error> {
        store::state_file::write(&*self.disk, path, &recover::CATALOGUE_FILE, bytes, self.keyring.as_deref())
    }

    /// Inbox of the shard that owns a group.
    fn inbox(&self, group: u64) -> &Arc<Inbox> {
        &self.inboxes[group as usize % self.inboxes.len()]
    }

    /// Puts a stream into the directory. It gets no messages yet.
    fn add_stream(&self, account: &Arc<AccountEntry>, asset: &Asset) -> Arc<StreamEntry> {
        let entry = Arc::new(StreamEntry {
            name: asset.config.name.as_str().into(),
            group: asset.group,
            inbox: Arc::clone(self.inbox(asset.group)),
            account: Arc::clone(account),
            consumers: RwLock::default(),
            config: ArcSwap::from_pointee(asset.config.clone()),
            subscriptions: Mutex::default(),
            sink: self.server.next_id(),
        });
        account.streams.write().insert(entry.name.clone(), Arc::clone(&entry));
        entry
    }

    /// Takes a stream out of the directory, and its interest away.
    fn remove_stream(&self, account: &AccountEntry, name: &str) -> Option<Arc<StreamEntry>> {
        let entry = account.streams.write().remove(name)?;
        entry.unsubscribe(self);
        Some(entry)
    }

    /// Runs `look` on each shard, one after the other, and waits for it. For monitoring.
    pub async fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&Shard) -> T + Send + Clone + 'static,
    ) -> Vec<T> {
        let mut answers = Vec::with_capacity(self.inboxes.len());
        for inbox in &self.inboxes {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let look = look.clone();
            // Who asked may have gone meanwhile; then nobody needs the answer.
            let call = move |shard: &mut Shard| drop(sender.send(look(shard)));
            inbox.push(Input::Inspect(Call::new(call)));
            if let Ok(answer) = receiver.await {
                answers.push(answer);
            }
        }
        answers
    }
}

impl StreamEntry {
    /// Lets messages come: interest in each of the stream's subjects.
    fn subscribe(self: &Arc<Self>, shared: &Shared) {
        let account = &self.account.account;
        let sink = Arc::new(StreamSink { id: self.sink, stream: Arc::clone(self) });
        let mut subscriptions = self.subscriptions.lock();
        for subject in &self.config.load().subjects {
            if subscriptions.iter().any(|known| *known.subject == *subject.as_bytes()) {
                continue;
            }
            let sink = Sink::Stream(Arc::clone(&sink));
            let subscription = Arc::new(Subscription::local(sink, subject.as_bytes(), None, b"js"));
            match account.interest.insert(account.name(), &subscription) {
                Ok(()) => subscriptions.push(subscription),
                Err(error) => {
                    tracing::error!("JetStream stream '{} > {}': {error}", account.name(), self.name)
                }
            }
        }
        drop(subscriptions);
        crate::system::flush_interest(&shared.server);
    }

    /// Brings interest in line with the configuration.
    fn resubscribe(self: &Arc<Self>, shared: &Shared) {
        let config = self.config.load_full();
        let account = &self.account.account;
        self.subscriptions.lock().retain(|subscription| {
            let kept = config.subjects.iter().any(|subject| *subscription.subject == *subject.as_bytes());
            if !kept {
                account.interest.remove(account.name(), subscription);
            }
            kept
        });
        self.subscribe(shared);
    }

    fn unsubscribe(&self, shared: &Shared) {
        let account = &self.account.account;
        for subscription in self.subscriptions.lock().drain(..) {
            account.interest.remove(account.name(), &subscription);
        }
        crate::system::flush_interest(&shared.server);
    }
}

impl JetStream {
    /// Puts everything on stable storage and ends all threads. Takes as long as the disk does.
    pub fn stop(&self) {
        for inbox in &self.shared.inboxes {
            inbox.push(Input::Stop);
        }
        let mut threads = self.threads.lock();
        let log = threads.remove(0);
        for shard in threads.drain(..) {
            join(shard);
        }
        // The last checkpoints; what they release is for the next start to find out.
        self.shared.workers.stop();
        self.shared.log.stop();
        join(log);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a JetStream thread ended in a panic");
    }
}
