//! The start: the log is read, then the catalogue, then every stream that it names; and at last interest in the API.
//!
//! Nothing is served before everything is there, because a stream that is not there yet would look like one that never was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use config::options::{Cipher, GLOBAL_ACCOUNT, Options, SyncMode};
use hashbrown::HashMap;
use jetstream::meta::{Asset, Catalogue, META_GROUP};
use parking_lot::{Mutex, RwLock};
use store::crypt::{self, Keyring, MasterKey};
use store::disk::Disk;
use store::disk::os::OsDisk;
use store::stream::Cache;
use tokio::sync::{mpsc, oneshot};

use super::catalogue::Keeper;
use super::directory::{AccountEntry, ApiCounters, Directory};
use super::entropy::SystemEntropy;
use super::health::Health;
use super::inbox::{Bounds, Inbox};
use super::limits::{self, Capacity};
use super::log_thread::{self, Log, SyncPolicy};
use super::recover::{self, GroupLog, StartError};
use super::shard::{Call, Input, Shard, StreamSpec};
use super::sinks::ApiSink;
use super::watch::Watchers;
use super::workers::Workers;
use super::{JetStream, SHARDS_MAX, Shared, api, calls};
use crate::net::sink::{Sink, Subscription};
use crate::server::Server;

/// Directory inside of `store_dir`.
const DIRECTORY: &str = "jetstream";
/// Name of the catalogue's file.
const CATALOGUE: &str = "catalogue";
/// Memory for blocks of all streams that were read or written lately.
const CACHE_BYTES: usize = 256 << 20;
/// How often progress is looked at, and how often it is told.
const PROGRESS_POLL: Duration = Duration::from_millis(5);
const PROGRESS_TOLD: Duration = Duration::from_secs(2);

/// Starts JetStream, if the options ask for it. Returns when everything is recovered.
pub async fn start(server: &Arc<Server>) -> Result<Option<JetStream>, StartError> {
    let options = server.options();
    if !options.jetstream.enabled {
        return Ok(None);
    }
    let began = crate::clock::now();
    let dir = options.store_dir.as_ref().map_or_else(default_dir, PathBuf::from).join(DIRECTORY);
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::with_calls(calls::calls()));
    disk.create_dir_all(&dir.join("streams"))?;
    let keyring = keyring(&options).map(Arc::new);
    let (wal, mut groups, damage) = recover::open_log(&disk, &dir, keyring.clone())?;
    let catalogue = recover::read_catalogue(&*disk, &dir.join(CATALOGUE), keyring.as_deref())?;
    let shared = Arc::new(share(server, &options, disk, dir, keyring)?);
    announce(&shared, &options);
    for damage in &damage {
        tracing::error!("JetStream log is damaged: {damage}");
        shared.health.damaged("", "", damage);
    }
    let sync = match options.jetstream.sync {
        SyncMode::Always => SyncPolicy::BeforeAck,
        SyncMode::Interval(interval) => SyncPolicy::Every(interval),
    };
    let mut threads = vec![log_thread::start(Arc::clone(&shared.log), wal, shared.inboxes.clone(), sync)?];
    add_accounts(&shared, &options);
    let (sender, receiver) = oneshot::channel();
    let log = groups.remove(&META_GROUP).unwrap_or_default();
    let path = shared.dir.join(CATALOGUE);
    let start = recover::catalogue_start(&catalogue, log, &path)?;
    let ready = Call::new(move |catalogue: &mut Catalogue| {
        let all = catalogue.all().map(|(account, asset)| (account.to_owned(), asset.clone()));
        // The start waits for it, unless it was given up.
        let _ = sender.send(all.collect::<Vec<_>>());
    });
    start_shards(&shared, Keeper::new(catalogue, start, path, ready), &mut threads)?;
    let assets = receiver.await.unwrap_or_default();
    open_streams(&shared, assets, &mut groups);
    wait_for_streams(&shared).await;
    serve_api(&shared, &options);
    let (streams, _) = shared.health.progress();
    tracing::info!("  JetStream recovered {streams} streams in {:?}", began.elapsed());
    Ok(Some(JetStream { shared, threads: Mutex::new(threads) }))
}

fn start_shards(
    shared: &Arc<Shared>,
    keeper: Keeper,
    threads: &mut Vec<std::thread::JoinHandle<()>>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Handle::current();
    let mut keeper = Some(keeper);
    for number in 0..shared.inboxes.len() {
        let (shared, runtime, keeper) = (Arc::clone(shared), runtime.clone(), keeper.take());
        let thread = std::thread::Builder::new().name(format!("shard-{number}"));
        threads.push(thread.spawn(move || {
            // Sockets that would block are written to by tasks.
            let _runtime = runtime.enter();
            Shard::new(number, shared, keeper).run();
        })?);
    }
    Ok(())
}

fn default_dir() -> PathBuf {
    std::env::temp_dir().join("myelin")
}

fn keyring(options: &Options) -> Option<Keyring> {
    let configured = &options.jetstream;
    let key = configured.encryption_key.as_ref()?;
    let cipher = match configured.cipher {
        Cipher::ChaCha => crypt::Cipher::ChaCha20Poly1305,
        Cipher::Aes => crypt::Cipher::Aes256Gcm,
    };
    let previous = configured.previous_encryption_key.as_ref();
    let previous = previous.map(|key| MasterKey::new(key.expose().as_bytes()));
    Some(Keyring::new(cipher, MasterKey::new(key.expose().as_bytes()), previous, Arc::new(SystemEntropy)))
}

fn share(
    server: &Arc<Server>,
    options: &Options,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keyring: Option<Arc<Keyring>>,
) -> Result<Shared, StartError> {
    let shards = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(SHARDS_MAX);
    let bounds = Bounds {
        messages: options.jetstream.max_buffered_messages as usize,
        bytes: usize::try_from(options.jetstream.max_buffered_bytes).unwrap_or(usize::MAX),
    };
    Ok(Shared {
        server: Arc::clone(server),
        directory: Directory::default(),
        log: Log::new(),
        health: Health::default(),
        usage: Arc::default(),
        domain: options.jetstream.domain.clone(),
        capacity: Capacity::find(options, &*disk, &dir),
        overflow: Arc::default(),
        inboxes: (0..shards).map(|_| Arc::new(Inbox::new(bounds))).collect(),
        workers: Workers::start()?,
        disk,
        dir,
        keyring,
        cache: Arc::new(Cache::new(CACHE_BYTES)),
    })
}

/// Says at the start what was found and how safe it is.
fn announce(shared: &Shared, options: &Options) {
    tracing::info!("Starting JetStream");
    tracing::info!("  Max Memory:      {} bytes", shared.capacity.memory);
    tracing::info!("  Max Storage:     {} bytes", shared.capacity.storage);
    tracing::info!("  Store Directory: {:?}", shared.dir.display().to_string());
    if let Some(domain) = &shared.domain {
        tracing::info!("  Domain:          {domain}");
    }
    if shared.keyring.is_some() {
        tracing::info!("  Encryption:      {:?}", options.jetstream.cipher);
    }
    match options.jetstream.sync {
        SyncMode::Always => tracing::info!("  Acknowledged:    on stable storage"),
        SyncMode::Interval(interval) => tracing::warn!(
            "  Acknowledged:    before stable storage, which follows within {interval:?}: a crash of the machine may lose what was acknowledged"
        ),
    }
}

/// Accounts that have JetStream: those that say so, or the global one if it is the only one.
fn add_accounts(shared: &Shared, options: &Options) {
    let configured: Vec<&str> = options
        .accounts
        .iter()
        .filter(|account| account.jetstream.is_some())
        .map(|account| account.name.as_str())
        .collect();
    let only_global =
        options.accounts.iter().all(|account| Some(account.name.as_str()) == options.system_account_name());
    let names = if configured.is_empty() && only_global { vec![GLOBAL_ACCOUNT] } else { configured };
    for name in names {
        let Some(account) = shared.server.accounts.get(name) else { continue };
        let usage = Arc::default();
        let limits = limits::of_account(options, name, shared.capacity, &shared.usage, &usage);
        shared.directory.insert(Arc::new(AccountEntry {
            watchers: Watchers::attach(shared.server.next_id(), &account),
            account,
            streams: RwLock::default(),
            usage,
            limits: ArcSwap::from_pointee(limits),
            api: ApiCounters::default(),
        }));
    }
}

/// Hands every stream of the catalogue to its shard.
fn open_streams(shared: &Shared, assets: Vec<(String, Asset)>, groups: &mut HashMap<u64, GroupLog>) {
    for (account, asset) in assets {
        let Some(account) = shared.directory.account(&account) else {
            tracing::warn!(
                "JetStream stream '{account} > {}' stays on disk: its account has no JetStream",
                asset.config.name
            );
            continue;
        };
        shared.health.expect(1);
        let entry = shared.add_stream(&account, &asset);
        let log = groups.remove(&asset.group);
        let inbox = Arc::clone(&entry.inbox);
        inbox.push(Input::Open(Box::new(StreamSpec { entry, created: asset.created, log, respond: None })));
    }
}

async fn wait_for_streams(shared: &Shared) {
    let mut told = crate::clock::now();
    loop {
        let (recovered, all) = shared.health.progress();
        if recovered >= all {
            return;
        }
        if told.elapsed() >= PROGRESS_TOLD {
            told = crate::clock::now();
            tracing::info!("JetStream recovered {recovered} of {all} streams");
        }
        tokio::time::sleep(PROGRESS_POLL).await;
    }
}

/// Starts to answer requests in every account that has JetStream.
fn serve_api(shared: &Arc<Shared>, options: &Options) {
    let (requests, queue) = mpsc::channel(options.jetstream.request_queue_limit.max(1) as usize);
    tokio::spawn(api::serve(Arc::clone(shared), queue));
    let domain = shared.domain.as_ref().map(|domain| format!("$JS.{domain}.API."));
    for entry in shared.directory.accounts() {
        let account = Arc::clone(&entry.account);
        let sink = Arc::new(ApiSink {
            id: shared.server.next_id(),
            account: entry,
            domain_prefix: domain.as_ref().map(|domain| domain.as_bytes().into()),
            requests: requests.clone(),
            overflow: Arc::clone(&shared.overflow),
        });
        let by_domain = domain.as_ref().map(|domain| format!("{domain}>"));
        let subjects = ["$JS.API.>", "$JS.ACK.>", "$JS.FC.>"].into_iter().chain(by_domain.as_deref());
        for (number, subject) in subjects.enumerate() {
            let sink = Sink::Api(Arc::clone(&sink));
            let sid = number.to_string();
            let subscription = Arc::new(Subscription::local(sink, subject.as_bytes(), None, sid.as_bytes()));
            let inserted = account.interest.insert(account.name(), &subscription);
            assert!(inserted.is_ok(), "JetStream subscribes to {subject:?}, which is no subject");
        }
    }
    crate::system::flush_interest(&shared.server);
}
