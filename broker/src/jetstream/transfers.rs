//! Snapshots that are being sent and archives that are being received, by the token in the subject that clients speak to them with.
//!
//! Clients acknowledge chunks of a snapshot on `$JS.SNAPSHOT.ACK.<stream>.<token>.<bytes>.<number>`, and send chunks of an archive to
//! `$JS.SNAPSHOT.RESTORE.<stream>.<token>`. What is not under way has nobody who listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use tokio::sync::{Notify, mpsc};

use super::directory::AccountEntry;
use super::inbox::Inbound;
use crate::net::dispatch::Message;

/// In front of the subjects of both.
pub const PREFIX: &[u8] = b"$JS.SNAPSHOT.";
/// What accounts with JetStream listen to.
pub const SUBJECTS: [&str; 2] = ["$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>"];

/// Snapshots that one server sends at a time.
const SNAPSHOTS_MAX: usize = 64;
/// Archives that one server receives at a time.
const RESTORES_MAX: usize = 32;
/// Bytes of chunks of one archive that may wait: the largest window that a snapshot is sent with.
const CHUNK_BYTES_MAX: usize = 32 << 20;
/// Chunks of one archive that may wait: that window in the smallest chunks.
const CHUNKS_MAX: usize = 32 << 10;

/// All that is under way.
#[derive(Debug, Default)]
pub struct Transfers {
    snapshots: RwLock<HashMap<Box<[u8]>, Arc<Window>>>,
    restores: RwLock<HashMap<Box<[u8]>, Arc<Intake>>>,
}

/// How much of a snapshot has been acknowledged.
#[derive(Debug)]
pub struct Window {
    account: Arc<AccountEntry>,
    acknowledged: AtomicU64,
    changed: Notify,
}

/// Where chunks of an archive go.
#[derive(Debug)]
pub struct Intake {
    account: Arc<AccountEntry>,
    chunks: mpsc::Sender<Inbound>,
    waiting_bytes: AtomicUsize,
    /// A chunk found no room, so what comes after it is of no use.
    overflowed: AtomicBool,
    /// What came was the last that is taken.
    closed: AtomicBool,
}

/// A snapshot's place among those under way; gives it back when dropped.
#[derive(Debug)]
pub struct SnapshotPlace {
    transfers: Arc<Transfers>,
    token: Box<[u8]>,
    /// Its window.
    pub window: Arc<Window>,
}

/// An archive's place among those under way; gives it back when dropped.
#[derive(Debug)]
pub struct RestorePlace {
    transfers: Arc<Transfers>,
    token: Box<[u8]>,
    intake: Arc<Intake>,
    chunks: mpsc::Receiver<Inbound>,
}

impl Transfers {
    /// A place for a snapshot, if there is room.
    pub fn begin_snapshot(
        self: &Arc<Self>,
        account: &Arc<AccountEntry>,
        token: &str,
    ) -> Option<SnapshotPlace> {
        let window = Arc::new(Window {
            account: Arc::clone(account),
            acknowledged: AtomicU64::new(0),
            changed: Notify::new(),
        });
        let token: Box<[u8]> = token.as_bytes().into();
        let mut snapshots = self.snapshots.write();
        if snapshots.len() >= SNAPSHOTS_MAX {
            return None;
        }
        snapshots.insert(token.clone(), Arc::clone(&window));
        Some(SnapshotPlace { transfers: Arc::clone(self), token, window })
    }

    /// A place for an archive, if there is room.
    pub fn begin_restore(self: &Arc<Self>, account: &Arc<AccountEntry>, token: &str) -> Option<RestorePlace> {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let intake = Arc::new(Intake {
            account: Arc::clone(account),
            chunks: sender,
            waiting_bytes: AtomicUsize::new(0),
            overflowed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let token: Box<[u8]> = token.as_bytes().into();
        let mut restores = self.restores.write();
        if restores.len() >= RESTORES_MAX {
            return None;
        }
        restores.insert(token.clone(), Arc::clone(&intake));
        Some(RestorePlace { transfers: Arc::clone(self), token, intake, chunks })
    }

    /// Takes a message whose subject begins with `PREFIX`, without it. False if nobody waits for it.
    pub fn take(&self, account: &Arc<AccountEntry>, rest: &[u8], message: &Message<'_>) -> bool {
        let mut tokens = subject::tokens(rest);
        let (kind, _, token) = (tokens.next(), tokens.next(), tokens.next());
        let Some(token) = token else { return false };
        match kind {
            Some(b"ACK") => {
                let Some(window) = self.snapshots.read().get(token).cloned() else { return false };
                let own = Arc::ptr_eq(&window.account, account);
                if own {
                    window.acknowledged.fetch_add(1, Ordering::Relaxed);
                    window.changed.notify_one();
                }
                own
            }
            Some(b"RESTORE") => {
                let Some(intake) = self.restores.read().get(token).cloned() else { return false };
                Arc::ptr_eq(&intake.account, account) && intake.put(message)
            }
            _ => false,
        }
    }
}

impl Window {
    /// Chunks that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits for another acknowledgement; one that came since the last wait counts.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Intake {
    /// A client that does not wait for answers and sends more than may wait has its archive refused.
    fn put(&self, message: &Message<'_>) -> bool {
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        // Both end the archive, one well and one not; see `api::restore`.
        if message.reply.is_none() || message.payload.is_empty() {
            self.closed.store(true, Ordering::Relaxed);
        }
        let size = message.payload.len();
        let waiting = self.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        let fits = waiting + size <= CHUNK_BYTES_MAX;
        if fits && self.chunks.try_send(Inbound::copy(message, None)).is_ok() {
            return true;
        }
        self.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        self.overflowed.store(true, Ordering::Relaxed);
        self.closed.store(true, Ordering::Relaxed);
        false
    }
}

impl RestorePlace {
    /// The next chunk. `None` if one before it was dropped because too many waited.
    pub async fn next(&mut self) -> Option<Inbound> {
        let chunk = self.chunks.recv().await?;
        let size = chunk.headers.len() + chunk.payload.len();
        self.intake.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        Some(chunk).filter(|_| !self.intake.overflowed.load(Ordering::Relaxed))
    }
}

impl Drop for SnapshotPlace {
    fn drop(&mut self) {
        self.transfers.snapshots.write().remove(&self.token);
    }
}

impl Drop for RestorePlace {
    fn drop(&mut self) {
        self.transfers.restores.write().remove(&self.token);
    }
}
