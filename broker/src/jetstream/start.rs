//! The start: the log is read, then the catalogue, then every stream that it names; and at last interest in the API.
//!
//! Nothing is served before everything is there, because a stream that is not there yet would look like one that never was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::options::{Cipher, Options, SyncMode};
use hashbrown::HashMap;
use jetstream::meta::{Asset, Catalogue, META_GROUP};
use parking_lot::Mutex;
use store::crypt::{self, Keyring, MasterKey};
use store::disk::Disk;
use store::disk::os::OsDisk;
use store::stream::Cache;
use store::wal::Wal;
use tokio::sync::{mpsc, oneshot};

use super::api::ApiRequest;
use super::catalogue::Keeper;
use super::directory::Directory;
use super::entropy::SystemEntropy;
use super::health::{Health, Progress};
use super::inbox::{Bounds, Inbox};
use super::limits::{self, Capacity};
use super::log_thread::{self, Batch, Log, Record, SyncPolicy};
use super::memory::WorkingMemory;
use super::recover::{self, GroupLog, StartError};
use super::shard::{Call, Input, Shard, StreamSpec};
use super::workers::Workers;
use super::{JetStream, SHARDS_MAX, Shared, accounts, api, calls, draft};
use crate::server::Server;

/// Directory inside of `store_dir`.
const DIRECTORY: &str = "jetstream";
/// Name of the catalogue's file.
const CATALOGUE: &str = "catalogue";
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
    let health = Arc::new(Health::default());
    server.monitoring.watch_recovery(Arc::clone(&health));
    let dir = options.store_dir.as_ref().map_or_else(default_dir, PathBuf::from).join(DIRECTORY);
    let disk = make_directories(&dir)?;
    let keyring = keyring(&options).map(Arc::new);
    let Found { wal, mut groups, damage, catalogue, log, on_disk } =
        find(&disk, &dir, keyring.as_ref(), &health).await?;
    let (requests, queue) = mpsc::channel(options.jetstream.request_queue_limit.max(1) as usize);
    let parts = Parts { disk, dir, keyring, health, requests };
    let shared = Arc::new(share(server, &options, parts)?);
    announce(&shared, &options);
    for damage in &damage {
        tracing::error!("JetStream log is damaged: {damage}");
        shared.health.damaged("", "", damage);
    }
    let sync = sync_policy(&options);
    let mut threads = vec![log_thread::start(Arc::clone(&shared.log), wal, shared.inboxes.clone(), sync)?];
    accounts::apply(&shared, &options);
    let (sender, receiver) = oneshot::channel();
    let path = shared.dir.join(CATALOGUE);
    let start = recover::catalogue_start(&catalogue, log, &path)?;
    let ready = Call::new(move |catalogue: &mut Catalogue| {
        let all = catalogue.all().map(|(account, asset)| (account.to_owned(), asset.clone()));
        // The start waits for it, unless it was given up.
        let _ = sender.send((all.collect::<Vec<_>>(), catalogue.lost().collect::<Vec<_>>()));
    });
    start_shards(&shared, Keeper::new((catalogue, on_disk), start, path, ready), &mut threads)?;
    let recovered = receiver.await.ok();
    if let Some((assets, _)) = &recovered {
        draft::clear_away(&shared, assets)?;
    }
    let is_known = recovered.is_some() && damage.is_empty();
    let (assets, lost) = recovered.unwrap_or_default();
    open_streams(&shared, assets, &mut groups);
    for group in lost {
        let lost = recover::catalogue_lacks(&shared.stream_dir(group));
        tracing::error!("JetStream log is damaged: {lost}");
        shared.health.damaged("", "", &lost);
        groups.remove(&group);
    }
    if is_known {
        forget_groups(&shared, groups);
    }
    wait_for_streams(&shared).await;
    tokio::spawn(api::serve(Arc::clone(&shared), queue));
    accounts::serve(&shared, &options);
    shared.health.started();
    tracing::info!("  JetStream recovered {} streams in {:?}", shared.health.streams(), began.elapsed());
    Ok(Some(JetStream { shared, threads: Mutex::new(threads) }))
}

/// What there was on disk.
struct Found {
    wal: Wal,
    /// What the log holds for each stream.
    groups: HashMap<u64, GroupLog>,
    /// What the log has lost, in words.
    damage: Vec<String>,
    catalogue: Catalogue,
    /// What the log holds for the catalogue.
    log: GroupLog,
    /// Streams that have files, but for those whose creation was never finished.
    on_disk: Vec<u64>,
}

async fn find(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    keyring: Option<&Arc<Keyring>>,
    health: &Health,
) -> Result<Found, StartError> {
    let (log_disk, log_dir, log_keyring) = (Arc::clone(disk), dir.to_owned(), keyring.cloned());
    // Reading a log takes its time, and monitoring answers meanwhile.
    let opened =
        tokio::task::spawn_blocking(move || recover::open_log(&log_disk, &log_dir, log_keyring)).await;
    let (wal, mut groups, mut damage) = opened.map_err(std::io::Error::from)??;
    health.log_is_read();
    let mut catalogue =
        recover::read_catalogue(&**disk, &dir.join(CATALOGUE), keyring.map(|keyring| &**keyring))?;
    let on_disk = disk.list(&dir.join("streams"))?;
    if groups.is_empty() && !on_disk.is_empty() {
        damage.push("there are streams and no log".to_owned());
    }
    // If the catalogue has lost a stream, its group must not be given to another one.
    let mut on_disk: Vec<u64> =
        on_disk.iter().filter_map(|name| u64::from_str_radix(name, 16).ok()).collect();
    if let Some(newest) = groups.keys().chain(&on_disk).copied().max() {
        catalogue.avoid(newest);
    }
    let unfinished = draft::unfinished(&**disk, dir)?;
    on_disk.retain(|group| !unfinished.contains(group));
    let log = groups.remove(&META_GROUP).unwrap_or_default();
    if !damage.is_empty() {
        let next = log.last().max(catalogue.applied()) + 1;
        damage.insert(0, recover::catalogue_may_lack(next));
    }
    Ok(Found { wal, groups, damage, catalogue, log, on_disk })
}

fn sync_policy(options: &Options) -> SyncPolicy {
    match options.jetstream.sync {
        SyncMode::Always => SyncPolicy::BeforeAck,
        SyncMode::Interval(interval) => SyncPolicy::Every(interval),
    }
}

/// The disk, with the directories that everything else is in.
fn make_directories(dir: &Path) -> Result<Arc<dyn Disk>, StartError> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::with_calls(calls::calls()));
    disk.create_dir_all(&dir.join("streams"))?;
    // The log syncs the directory it is in; the names above that one have to last as well.
    for above in dir.ancestors().skip(1).take(2).filter(|above| !above.as_os_str().is_empty()) {
        disk.sync_dir(above)?;
    }
    Ok(disk)
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

/// What the start has made before the rest.
struct Parts {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keyring: Option<Arc<Keyring>>,
    health: Arc<Health>,
    requests: mpsc::Sender<ApiRequest>,
}

fn share(server: &Arc<Server>, options: &Options, parts: Parts) -> Result<Shared, StartError> {
    let Parts { disk, dir, keyring, health, requests } = parts;
    let shards = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(SHARDS_MAX);
    let bounds = Bounds {
        messages: options.jetstream.max_buffered_messages as usize,
        bytes: usize::try_from(options.jetstream.max_buffered_bytes).unwrap_or(usize::MAX),
    };
    let memory = WorkingMemory::new(options.jetstream.max_working_memory);
    Ok(Shared {
        server: Arc::clone(server),
        directory: Directory::default(),
        log: Log::new(),
        health,
        usage: Arc::default(),
        domain: options.jetstream.domain.clone(),
        capacity: Mutex::new(Capacity::find(options, &*disk, &dir)),
        overflow: Arc::default(),
        transfers: Arc::default(),
        requests,
        inboxes: (0..shards).map(|_| Arc::new(Inbox::new(bounds))).collect(),
        workers: Workers::start()?,
        disk,
        dir,
        keyring,
        cache: Arc::new(Cache::new(memory.cache_max(0))),
        memory,
    })
}

/// Says at the start what was found and how safe it is.
fn announce(shared: &Shared, options: &Options) {
    tracing::info!("Starting JetStream");
    let capacity = *shared.capacity.lock();
    tracing::info!("  Max Memory:      {} bytes", capacity.memory);
    tracing::info!("  Max Storage:     {} bytes", capacity.storage);
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
    for name in limits::without_effect(options) {
        tracing::warn!("option {name:?} of jetstream has no effect on a server without replicas");
    }
}

/// Hands every stream of the catalogue to its shard. Those of accounts without JetStream are opened too, because the log holds what they have
/// not taken in yet, and then rest.
fn open_streams(shared: &Shared, assets: Vec<(String, Asset)>, groups: &mut HashMap<u64, GroupLog>) {
    let mut resting: BTreeMap<String, usize> = BTreeMap::new();
    for (name, asset) in assets {
        let log = groups.remove(&asset.group);
        // An account that is not configured any more may come back with a reload.
        let account = shared.directory.entry(&name).or_else(|| {
            let account = shared.server.accounts.for_peer(&name)?;
            Some(accounts::entry(shared, &account))
        });
        let Some(account) = account else {
            tracing::error!(
                "JetStream stream '{name} > {}' stays closed: too many accounts",
                asset.config.name
            );
            continue;
        };
        if !account.is_enabled() {
            *resting.entry(name).or_default() += 1;
        }
        shared.health.expect(1);
        let entry = shared.add_stream(&account, &asset);
        let inbox = Arc::clone(&entry.inbox);
        let spec = StreamSpec { entry, created: asset.created, log, draft: None, respond: None };
        inbox.push(Input::Open(Box::new(spec)));
    }
    for (account, streams) in resting {
        tracing::warn!("account {account:?} has no JetStream: its {streams} streams stay on disk, unused");
    }
    shared.health.catalogue_is_read();
}

/// What deleted streams left behind when the power went: their part of the log would hold it for ever, and their files the disk.
fn forget_groups(shared: &Shared, groups: HashMap<u64, GroupLog>) {
    let mut records = Vec::new();
    for group in groups.into_keys() {
        records.push(Record::Removed { group });
        if let Err(error) = shared.disk.remove_dir_all(&shared.stream_dir(group)) {
            tracing::error!("JetStream: {error}");
        }
    }
    if !records.is_empty() {
        shared.log.write(Batch { shard: 0, records, persisted: Vec::new(), bytes: 0 });
    }
}

async fn wait_for_streams(shared: &Shared) {
    let mut told = crate::clock::now();
    loop {
        let progress = shared.health.progress();
        if matches!(progress, Progress::Streams(recovered, all) if recovered >= all) {
            return;
        }
        if told.elapsed() >= PROGRESS_TOLD {
            told = crate::clock::now();
            tracing::info!("{progress}");
        }
        tokio::time::sleep(PROGRESS_POLL).await;
    }
}
