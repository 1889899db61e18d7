//! JetStream: streams and consumers on this server.
//!
//! `crates/jetstream` decides, `crates/multiraft` agrees, `crates/store` keeps. This is the shell around them: threads, sinks, the API and the way
//! from one to the other.

pub mod accounts;
pub mod advise;
pub mod api;
pub mod calls;
pub mod catalogue;
pub mod directory;
pub mod draft;
pub mod entropy;
pub mod health;
pub mod inbox;
pub mod letters;
pub mod limits;
pub mod log_thread;
pub mod memory;
pub mod recover;
pub mod shard;
pub mod sinks;
pub mod slow;
pub mod sources;
pub mod start;
pub mod transfers;
pub mod validate;
pub mod watch;
pub mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use ::api::jetstream::stream::{self, StreamConfig};
use arc_swap::ArcSwap;
use bytes::Bytes;
use config::options::Options;
use jetstream::limits::ServerUsage;
use jetstream::meta::Asset;
use parking_lot::{Mutex, RwLock};
use store::crypt::Keyring;
use store::disk::Disk;
use store::stream::{Cache, Compression, Error as StoreError, FileOptions, FileStore, Recovered};
use tokio::sync::mpsc;

pub use directory::{AccountEntry, Directory, StreamEntry};
pub use health::{Health, Progress, Trouble};
pub use log_thread::{Log, SYNC_BUCKETS};
pub use recover::StartError;
pub use shard::Shard;
pub use sinks::{ApiSink, StreamSink};
pub use sources::SourceSink;
pub use start::start;

use api::ApiRequest;
use inbox::Inbox;
use shard::{Call, Input};
use workers::Workers;

use crate::clock;
use crate::net::sink::{Sink, Subscription};
use crate::server::Server;

/// Shards at most; more threads than cores win nothing.
const SHARDS_MAX: usize = 16;

/// Time to tell clients that the server ends. Whoever is not told by then notices by itself.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Time for a shard to answer monitoring. A turn takes milliseconds; a shard that takes longer has other worries.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);

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
    pub health: Arc<Health>,
    /// What all streams use.
    pub usage: Arc<ServerUsage>,
    /// Domain of this server, if it has one.
    pub domain: Option<String>,
    /// Size limits in force, found out at the start where the configuration does not say.
    pub capacity: Mutex<limits::Capacity>,
    /// Refused requests.
    pub overflow: Arc<api::Overflow>,
    /// Snapshots and restores that are under way.
    pub transfers: Arc<transfers::Transfers>,
    /// Requests that no shard answers alone.
    requests: mpsc::Sender<ApiRequest>,
    inboxes: Vec<Arc<Inbox>>,
    workers: Workers,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keyring: Option<Arc<Keyring>>,
    /// Memory for blocks that were read or written lately, shared by all streams.
    cache: Arc<Cache>,
    /// What bounds it, together with what waits for clients.
    pub memory: memory::WorkingMemory,
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

    /// Opens a stream's messages on disk, or makes an empty place for them. `confirmed` is the checkpoint that the log knows to be on disk.
    fn open_files(
        &self,
        group: u64,
        config: &StreamConfig,
        confirmed: u64,
    ) -> Result<(FileStore, Recovered), StoreError> {
        let options = FileOptions {
            compression: match config.compression {
                stream::Compression::None => Compression::None,
                stream::Compression::S2 => Compression::S2,
            },
            keyring: self.keyring.clone(),
            confirmed,
            ..FileOptions::new(group, Arc::clone(&self.cache))
        };
        FileStore::open(Arc::clone(&self.disk), &self.stream_dir(group), options)
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
            config: ArcSwap::new(Arc::clone(&asset.config)),
            subscriptions: Mutex::default(),
            sink: self.server.next_id(),
            identity: jetstream::source::identity(asset.created).into(),
            answers_for_origin: AtomicBool::new(false),
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

    /// Runs `look` on all shards and waits for their answers, for monitoring. Blocks the calling thread; `None` if a shard takes too long.
    pub fn inspect<T: Send + 'static>(
        &self,
        look: impl Fn(&Shard) -> T + Send + Clone + 'static,
    ) -> Option<Vec<T>> {
        let (sender, receiver) = std::sync::mpsc::channel();
        for inbox in &self.inboxes {
            let (look, sender) = (look.clone(), sender.clone());
            // Who asked may have gone meanwhile; then nobody needs the answer.
            let call = move |shard: &mut Shard| drop(sender.send(look(shard)));
            inbox.push(Input::Inspect(Call::new(call)));
        }
        drop(sender);
        self.inboxes.iter().map(|_| receiver.recv_timeout(ANSWER_WITHIN).ok()).collect()
    }

    /// Messages of clients that wait at each shard, and their bytes.
    pub fn waiting(&self) -> Vec<(usize, usize)> {
        self.inboxes.iter().map(|inbox| inbox.waiting()).collect()
    }

    /// Memory that blocks which were read or written lately take.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Counters of checkpoints.
    pub fn checkpoints(&self) -> &workers::Stats {
        self.workers.stats()
    }

    /// Where everything is stored.
    pub fn dir(&self) -> &Path {
        &self.dir
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
    /// Puts reloaded options in force: limits, and which accounts have JetStream.
    pub fn reload(&self, options: &Options) {
        let shared = &self.shared;
        {
            let mut capacity = shared.capacity.lock();
            *capacity = capacity.reloaded(options);
        }
        shared.memory.resize(options.jetstream.max_working_memory);
        accounts::apply(shared, options);
        accounts::serve(shared, options);
    }

    /// Tells clients that wait for messages that the server ends, while they are still connected.
    pub fn take_leave(&self) {
        let (told, heard) = sync_channel(self.shared.inboxes.len());
        for inbox in &self.shared.inboxes {
            inbox.push(Input::TakeLeave(told.clone()));
        }
        let until = clock::now() + LEAVE_MAX;
        for _ in &self.shared.inboxes {
            if heard.recv_timeout(until.saturating_duration_since(clock::now())).is_err() {
                return;
            }
        }
    }

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
