//! The log thread: takes what all shards want written, writes it in one go, syncs once, and tells the shards.
//!
//! A shard that waits for its log is not blocked: it works on, and what it asks for meanwhile is the next batch. So the slower the disk, the
//! larger the batches, and the cost of a sync is shared by all streams of the server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use store::wal::{self, GroupId, Wal};

use super::inbox::Inbox;
use super::shard::{Input, Persisted};
use super::slow::Watch;
use crate::clock;

/// Upper bounds of the buckets of the sync latency histogram, in microseconds; the last bucket has none.
pub const SYNC_BUCKETS: [u64; 10] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000];

/// Segments that the log may have before checkpoints are asked for so that it gets shorter.
const SEGMENTS_MAX: usize = 4;
/// Quiet time after which the last sync gets its mark.
const MARK_AFTER: Duration = Duration::from_millis(200);

/// When what was written goes to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before anything is acknowledged.
    BeforeAck,
    /// At this interval; a crash of the machine may lose what was acknowledged since.
    Every(Duration),
}

/// A record on its way to the log thread.
#[derive(Debug)]
pub enum Record {
    /// An entry of a group.
    Entry {
        /// Whose.
        group: u64,
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
        /// Its payload.
        payload: Bytes,
    },
    /// Term, vote and commit of a group.
    HardState {
        /// Whose.
        group: u64,
        /// They.
        state: wal::HardState,
    },
    /// Entries of the group up to `index` are covered by a checkpoint.
    Released {
        /// Whose.
        group: u64,
        /// The last of them.
        index: u64,
        /// Term of that entry.
        term: u64,
    },
    /// The group is gone.
    Removed {
        /// Which.
        group: u64,
    },
}

impl Record {
    fn view(&self) -> wal::Record<'_> {
        match self {
            Self::Entry { group, index, term, payload } => {
                wal::Record::Entry { group: GroupId(*group), index: *index, term: *term, payload }
            }
            Self::HardState { group, state } => {
                wal::Record::HardState { group: GroupId(*group), state: *state }
            }
            Self::Released { group, index, term } => {
                wal::Record::Released { group: GroupId(*group), index: *index, term: *term }
            }
            Self::Removed { group } => wal::Record::Removed { group: GroupId(*group) },
        }
    }
}

/// What one shard wants written in one turn.
#[derive(Debug)]
pub struct Batch {
    /// Which shard.
    pub shard: usize,
    /// In order.
    pub records: Vec<Record>,
    /// What may be told when it is written.
    pub persisted: Vec<Persisted>,
    /// Bytes of payloads in it.
    pub bytes: u64,
}

/// Something the log thread does.
#[derive(Debug)]
enum Job {
    Write(Batch),
    Stop,
}

/// Counters of the log, for monitoring.
#[derive(Debug)]
pub struct LogStats {
    /// Syncs.
    pub syncs: AtomicU64,
    /// Their time, in microseconds.
    pub sync_micros: AtomicU64,
    /// Syncs by latency.
    pub histogram: [AtomicU64; SYNC_BUCKETS.len() + 1],
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Bytes that the log holds now.
    pub held: AtomicU64,
    /// Syncs that took long.
    pub slow: Watch,
    /// Why it takes nothing more, if it has failed.
    pub failure: OnceLock<String>,
}

impl Default for LogStats {
    fn default() -> Self {
        Self {
            syncs: AtomicU64::default(),
            sync_micros: AtomicU64::default(),
            histogram: Default::default(),
            bytes: AtomicU64::default(),
            held: AtomicU64::default(),
            slow: Watch::new("a sync of the log"),
            failure: OnceLock::new(),
        }
    }
}

impl LogStats {
    fn synced(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Relaxed);
        self.sync_micros.fetch_add(micros, Relaxed);
        let bucket = SYNC_BUCKETS.iter().position(|bound| micros <= *bound).unwrap_or(SYNC_BUCKETS.len());
        self.histogram[bucket].fetch_add(1, Relaxed);
        self.slow.took(took, clock::now());
    }
}

/// Handle to the log thread.
#[derive(Debug)]
pub struct Log {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Counters.
    pub stats: LogStats,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    waiting: bool,
}

impl Log {
    /// A log whose thread is not running yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), arrived: Condvar::new(), stats: LogStats::default() })
    }

    /// Has a batch written. The shard hears of it by `Input::Persisted` or `Input::LogFailed`.
    pub fn write(&self, batch: Batch) {
        self.push(Job::Write(batch));
    }

    /// Ends the thread once everything before it is written.
    pub fn stop(&self) {
        self.push(Job::Stop);
    }

    fn push(&self, job: Job) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(job);
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        if waiting {
            self.arrived.notify_one();
        }
    }

    fn take(&self, jobs: &mut VecDeque<Job>, deadline: Option<Instant>) {
        let mut queue = self.queue.lock();
        while queue.jobs.is_empty() {
            queue.waiting = true;
            match deadline {
                None => self.arrived.wait(&mut queue),
                Some(deadline) if self.arrived.wait_until(&mut queue, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        queue.waiting = false;
        std::mem::swap(&mut queue.jobs, jobs);
    }
}

/// The thread's own state.
struct Writer {
    log: Arc<Log>,
    wal: Wal,
    inboxes: Vec<Arc<Inbox>>,
    policy: SyncPolicy,
    /// When what was written without sync has to be synced.
    sync_due: Option<Instant>,
    /// Something is written that no mark proves yet.
    unmarked: bool,
}

/// Starts the thread.
pub fn start(
    log: Arc<Log>,
    wal: Wal,
    inboxes: Vec<Arc<Inbox>>,
    policy: SyncPolicy,
) -> std::io::Result<JoinHandle<()>> {
    let writer = Writer { log, wal, inboxes, policy, sync_due: None, unmarked: false };
    std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run())
}

impl Writer {
    fn run(mut self) {
        let mut jobs = VecDeque::new();
        loop {
            let idle = self.unmarked.then(|| clock::now() + MARK_AFTER);
            self.log.take(&mut jobs, self.sync_due.or(idle));
            if jobs.is_empty() {
                self.rest();
                continue;
            }
            let stop = matches!(jobs.back(), Some(Job::Stop));
            let batches: Vec<Batch> = jobs
                .drain(..)
                .filter_map(|job| match job {
                    Job::Write(batch) => Some(batch),
                    Job::Stop => None,
                })
                .collect();
            if let Err(error) = self.write(&batches, stop) {
                self.fail(&error);
            } else {
                self.tell(batches);
                self.reclaim();
            }
            if stop {
                return;
            }
        }
    }

    fn write(&mut self, batches: &[Batch], stop: bool) -> Result<(), wal::Error> {
        for batch in batches {
            for record in &batch.records {
                self.wal.append(record.view())?;
            }
            self.log.stats.bytes.fetch_add(batch.bytes, Relaxed);
        }
        match self.policy {
            SyncPolicy::Every(interval) if !stop => {
                self.wal.flush()?;
                self.sync_due.get_or_insert_with(|| clock::now() + interval);
            }
            SyncPolicy::BeforeAck | SyncPolicy::Every(_) => self.sync()?,
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), wal::Error> {
        self.sync_due = None;
        if !self.wal.is_dirty() {
            return Ok(());
        }
        let began = clock::now();
        self.wal.sync()?;
        self.log.stats.synced(began.elapsed());
        self.unmarked = true;
        Ok(())
    }

    /// Nothing has come for a while: what has to be synced by now is, and a mark proves the last sync.
    fn rest(&mut self) {
        let due = self.sync_due.is_some_and(|due| due <= clock::now());
        let done = if due {
            self.sync()
        } else if self.unmarked {
            self.unmarked = false;
            self.wal.mark()
        } else {
            Ok(())
        };
        if let Err(error) = done {
            self.fail(&error);
        }
    }

    fn tell(&self, batches: Vec<Batch>) {
        for Batch { shard, persisted, bytes, .. } in batches {
            self.inboxes[shard].push(Input::Persisted { persisted, bytes });
        }
    }

    /// Asks for checkpoints of those who hold back the oldest segment once the log is large.
    fn reclaim(&mut self) {
        if let Err(error) = self.wal.recycle() {
            return self.fail(&error);
        }
        self.log.stats.held.store(self.wal.bytes(), Relaxed);
        if self.wal.segments() <= SEGMENTS_MAX {
            return;
        }
        for group in self.wal.oldest_segment_groups() {
            self.inboxes[group.0 as usize % self.inboxes.len()].push(Input::Checkpoint { group: group.0 });
        }
    }

    /// The log is at its end: nothing that was not written can be trusted to be, and nothing more is taken.
    fn fail(&mut self, error: &wal::Error) {
        self.sync_due = None;
        self.unmarked = false;
        if self.log.stats.failure.set(error.to_string()).is_err() {
            return;
        }
        tracing::error!(
            "JetStream log failed, nothing more is acknowledged until the server is started again: {error}"
        );
        let reason: Arc<str> = error.to_string().into();
        for inbox in &self.inboxes {
            inbox.push(Input::LogFailed(Arc::clone(&reason)));
        }
    }
}
