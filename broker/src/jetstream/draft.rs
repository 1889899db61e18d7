//! A stream that is being restored: it has its group and its place on disk, but stands in no catalogue.
//!
//! A marker beside the directories of streams says which groups are such drafts, from before their directory is made until the catalogue has
//! them. So what a crash leaves behind is known by its marker, and nothing else is ever removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::jetstream::stream::Storage;
use hashbrown::HashSet;
use jetstream::limits::Limits;
use jetstream::meta::Asset;
use jetstream::stream::facts::Identity;
use jetstream::stream::restore::{Restore, RestoreError};
use jetstream::{Outside, Stream};
use store::Timestamp;
use store::disk::{Disk, Open};
use store::stream::{Error as StoreError, MemoryStore, Recovered, StreamStore};

use super::Shared;
use super::directory::AccountEntry;
use crate::clock;

/// Bytes of an archive after which what is stored is put on stable storage, so that memory and open files stay few.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Directory of the markers, inside of JetStream's.
const MARKERS: &str = "restores";

/// What is needed of the world while a stream is restored: nobody knows it yet.
struct View {
    limits: Arc<Limits>,
}

impl Outside for View {
    fn now(&self) -> Timestamp {
        Timestamp(clock::unix_nanos())
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, _subject: &[u8]) -> bool {
        false
    }

    fn random(&mut self) -> u64 {
        rand::random()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// The draft. One that is dropped leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    shared: Arc<Shared>,
    account: Arc<AccountEntry>,
    asset: Asset,
    restore: Option<Restore>,
    /// It goes to disk.
    durable: bool,
    /// Bytes of the archive that the last checkpoint covers.
    checkpointed: u64,
    payload_max: usize,
}

/// Why a draft is not made or does not become a stream.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The archive, or a limit.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] store::disk::Error),
    /// The stream.
    #[error(transparent)]
    Open(#[from] jetstream::stream::OpenError),
}

impl DraftError {
    /// As the client gets it.
    pub fn answer(&self) -> api::ApiError {
        match self {
            Self::Restore(error) => error.answer(),
            other => api::error::jetstream::ErrorCode::STREAM_RESTORE.because(other),
        }
    }
}

impl From<StoreError> for DraftError {
    fn from(error: StoreError) -> Self {
        Self::Restore(error.into())
    }
}

impl Draft {
    /// Begins with an empty stream. Waits for the disk.
    pub fn open(shared: &Arc<Shared>, account: &Arc<AccountEntry>, asset: Asset) -> Result<Self, DraftError> {
        let payload_max = shared.server.options().limits.max_payload as usize;
        let mut draft = Self {
            shared: Arc::clone(shared),
            account: Arc::clone(account),
            durable: asset.config.storage == Storage::File,
            asset,
            restore: None,
            checkpointed: 0,
            payload_max,
        };
        draft.begin()?;
        Ok(draft)
    }

    fn begin(&mut self) -> Result<(), DraftError> {
        let Asset { group, created, config } = &self.asset;
        let (store, recovered): (Box<dyn StreamStore>, Recovered) = if self.durable {
            mark(&self.shared, *group)?;
            let (store, recovered) = self.shared.open_files(*group, config, 0)?;
            (Box::new(store), recovered)
        } else {
            (Box::new(MemoryStore::new()), Recovered::default())
        };
        let identity = Identity {
            account: self.account.account.name().into(),
            name: config.name.as_str().into(),
            group: *group,
            domain: self.shared.domain.as_deref().map(Arc::from),
            created: *created,
        };
        let stream = Stream::new(identity, config.clone(), store, recovered)?;
        self.restore = Some(Restore::new(stream, self.payload_max));
        Ok(())
    }

    /// The stream as the catalogue will have it.
    pub fn asset(&self) -> &Asset {
        &self.asset
    }

    /// Takes a piece of the archive. Waits for the disk.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), DraftError> {
        let mut view = self.view();
        let Some(restore) = &mut self.restore else { return Ok(()) };
        restore.push(piece);
        while restore.advance(&mut view)? {
            if self.durable && restore.unpacked() - self.checkpointed >= CHECKPOINT_BYTES {
                self.checkpointed = restore.unpacked();
                checkpoint(restore)?;
            }
        }
        Ok(())
    }

    /// The archive has come to its end: everything is put on stable storage.
    pub fn finish(&mut self) -> Result<(), DraftError> {
        let mut view = self.view();
        let Some(restore) = &mut self.restore else { return Ok(()) };
        restore.finish(&mut view)?;
        if self.durable { checkpoint(restore) } else { Ok(()) }
    }

    /// The stream; the catalogue has it now.
    pub fn adopt(mut self) -> Option<Stream> {
        let stream = self.restore.take().map(Restore::into_stream);
        self.unmark();
        stream
    }

    fn view(&self) -> View {
        View { limits: self.account.limits.load_full() }
    }

    fn unmark(&self) {
        if !self.durable {
            return;
        }
        let removed = self.shared.disk.remove_file(&marker(&self.shared, self.asset.group));
        if let Err(error) = removed.and_then(|()| self.shared.disk.sync_dir(&self.shared.dir.join(MARKERS))) {
            // The next start removes it.
            tracing::warn!("JetStream: {error}");
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let Some(mut restore) = self.restore.take() else { return };
        restore.cancel(&mut self.view());
        drop(restore);
        if !self.durable {
            return;
        }
        match self.shared.disk.remove_dir_all(&self.shared.stream_dir(self.asset.group)) {
            Ok(()) => self.unmark(),
            Err(error) => tracing::error!("JetStream: {error}"),
        }
    }
}

fn checkpoint(restore: &mut Restore) -> Result<(), DraftError> {
    let job = restore.stream().checkpoint()?;
    Ok(restore.stream().checkpoint_done(job())?)
}

fn marker(shared: &Shared, group: u64) -> PathBuf {
    shared.dir.join(MARKERS).join(format!("{group:016x}"))
}

fn mark(shared: &Shared, group: u64) -> Result<(), store::disk::Error> {
    let dir = shared.dir.join(MARKERS);
    shared.disk.create_dir_all(&dir)?;
    shared.disk.sync_dir(&shared.dir)?;
    shared.disk.open(&marker(shared, group), Open::Create)?;
    shared.disk.sync_dir(&dir)
}

/// Groups of restores that are not done.
pub fn unfinished(disk: &dyn Disk, dir: &Path) -> Result<HashSet<u64>, store::disk::Error> {
    match disk.list(&dir.join(MARKERS)) {
        Ok(names) => Ok(names.iter().filter_map(|name| u64::from_str_radix(name, 16).ok()).collect()),
        Err(error) if error.is_not_found() => Ok(HashSet::new()),
        Err(error) => Err(error),
    }
}

/// At the start: removes what restores left behind that a crash cut short. `known` are all streams of the catalogue.
pub fn clear_away(shared: &Shared, known: &[(String, Asset)]) -> Result<(), store::disk::Error> {
    let (disk, dir) = (&shared.disk, shared.dir.join(MARKERS));
    let known: HashSet<u64> = known.iter().map(|(_, asset)| asset.group).collect();
    let unfinished = unfinished(&**disk, &shared.dir)?;
    for group in &unfinished {
        if !known.contains(group) {
            tracing::info!("JetStream removes what is left of a restore that was cut short: {group:016x}");
            disk.remove_dir_all(&shared.stream_dir(*group))?;
        }
        disk.remove_file(&marker(shared, *group))?;
    }
    if unfinished.is_empty() { Ok(()) } else { disk.sync_dir(&dir) }
}
