//! The log thread: takes what all shards want written, writes it in one go, syncs once, and tells the shards.
//!
//! A shard that waits for its log is not blocked: it works on, and what it asks for meanwhile is the next batch. So the slower the disk, the
//! larger the batches, and the cost of a sync is shared by all streams of the server.
//!
//! A shard that has nothing else to do would only wait: it claims the idle log and writes for itself, which saves two changes of threads.

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
/// Time after which streams that still hold back the oldest segment are asked again. They may be very many, and a checkpoint takes its time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
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
        /// The checkpoint that covers them; zero if it has no name.
        checkpoint: u64,
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
            Self::Released { group, index, term, checkpoint } => {
                let (index, term, checkpoint) = (*index, *term, *checkpoint);
                wal::Record::Released { group: GroupId(*group), index, term, checkpoint }
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

/// Handle to the log and its thread.
#[derive(Debug)]
pub struct Log {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// None until the thread is started. Whoever made the queue busy locks it.
    writer: Mutex<Option<Writer>>,
    /// Counters.
    pub stats: LogStats,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The thread sleeps.
    waiting: bool,
    /// Somebody writes.
    busy: bool,
    /// When the thread has to work although nothing arrives.
    rest_at: Option<Instant>,
}

/// The idle log, claimed by a shard that writes for itself. Others queue up until it is dropped.
#[derive(Debug)]
pub struct Claim<'a> {
    log: &'a Log,
}

impl Claim<'_> {
    /// Writes and syncs. False if the log has failed, which the inboxes are told.
    pub fn write(&self, batch: &Batch) -> bool {
        let mut writer = self.log.writer.lock();
        writer
            .as_mut()
            .is_some_and(|writer| writer.complete(&self.log.stats, std::slice::from_ref(batch), false))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.log.release();
    }
}

impl Log {
    /// A log whose thread is not running yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            writer: Mutex::new(None),
            stats: LogStats::default(),
        })
    }

    /// Has a batch written. The shard hears of it by `Input::Persisted` or `Input::LogFailed`.
    pub fn write(&self, batch: Batch) {
        self.push(Job::Write(batch));
    }

    /// Ends the thread once everything before it is written.
    pub fn stop(&self) {
        self.push(Job::Stop);
    }

    /// Claims the log if nobody writes or waits to, so that nothing is overtaken.
    pub fn claim(&self) -> Option<Claim<'_>> {
        let mut queue = self.queue.lock();
        if queue.busy || !queue.jobs.is_empty() {
            return None;
        }
        queue.busy = true;
        Some(Claim { log: self })
    }

    fn push(&self, job: Job) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(job);
        let wake = queue.waiting && !queue.busy;
        drop(queue);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Makes the queue busy and takes all that waits; nothing if it is time to rest.
    fn take(&self, jobs: &mut VecDeque<Job>) {
        let mut queue = self.queue.lock();
        loop {
            let due = queue.rest_at.is_some_and(|at| at <= clock::now());
            if !queue.busy && (due || !queue.jobs.is_empty()) {
                break;
            }
            queue.waiting = true;
            match queue.rest_at.filter(|_| !due) {
                None => self.arrived.wait(&mut queue),
                Some(at) => drop(self.arrived.wait_until(&mut queue, at)),
            }
        }
        queue.waiting = false;
        queue.busy = true;
        std::mem::swap(&mut queue.jobs, jobs);
    }

    fn release(&self) {
        let rest_at = self.writer.lock().as_ref().and_then(Writer::rest_at);
        let mut queue = self.queue.lock();
        queue.busy = false;
        let earlier = rest_at.is_some() && queue.rest_at.is_none();
        // It found the time had come, but somebody wrote: it waits for the end of that.
        let due = rest_at.is_some_and(|at| at <= clock::now());
        queue.rest_at = rest_at;
        let wake = queue.waiting && (earlier || due || !queue.jobs.is_empty());
        drop(queue);
        if wake {
            self.arrived.notify_one();
        }
    }

    fn run(&self) {
        let mut jobs = VecDeque::new();
        loop {
            self.take(&mut jobs);
            let stop = matches!(jobs.back(), Some(Job::Stop));
            let batches: Vec<Batch> = jobs
                .drain(..)
                .filter_map(|job| match job {
                    Job::Write(batch) => Some(batch),
                    Job::Stop => None,
                })
                .collect();
            self.work(batches, stop);
            self.release();
            if stop {
                return;
            }
        }
    }

    fn work(&self, batches: Vec<Batch>, stop: bool) {
        let mut writer = self.writer.lock();
        let Some(writer) = writer.as_mut() else { return };
        if batches.is_empty() && !stop {
            writer.rest(&self.stats);
        } else if writer.complete(&self.stats, &batches, stop) {
            writer.tell(batches);
        }
    }
}

/// The log itself, and what is known of it.
#[derive(Debug)]
struct Writer {
    wal: Wal,
    inboxes: Vec<Arc<Inbox>>,
    policy: SyncPolicy,
    /// When what was written without sync has to be synced.
    sync_due: Option<Instant>,
    /// When a mark is to prove the last sync, if none does yet.
    mark_due: Option<Instant>,
    /// The segment for whose sake checkpoints were asked for last, and when.
    asked: Option<(u64, Instant)>,
}

/// Starts the thread.
pub fn start(
    log: Arc<Log>,
    wal: Wal,
    inboxes: Vec<Arc<Inbox>>,
    policy: SyncPolicy,
) -> std::io::Result<JoinHandle<()>> {
    *log.writer.lock() = Some(Writer { wal, inboxes, policy, sync_due: None, mark_due: None, asked: None });
    std::thread::Builder::new().name("log".to_owned()).spawn(move || log.run())
}

impl Writer {
    /// When something has to be done although nothing arrives.
    fn rest_at(&self) -> Option<Instant> {
        self.sync_due.or(self.mark_due)
    }

    /// Writes batches, and syncs as the policy says. False if the log has failed.
    fn complete(&mut self, stats: &LogStats, batches: &[Batch], stop: bool) -> bool {
        let written = self.write(stats, batches, stop);
        if let Err(error) = written.and_then(|()| if stop { self.wal.close() } else { Ok(()) }) {
            self.fail(stats, &error);
            return false;
        }
        if !stop {
            self.reclaim(stats);
        }
        true
    }

    fn write(&mut self, stats: &LogStats, batches: &[Batch], stop: bool) -> Result<(), wal::Error> {
        for batch in batches {
            for record in &batch.records {
                self.wal.append(record.view())?;
            }
            stats.bytes.fetch_add(batch.bytes, Relaxed);
        }
        match self.policy {
            SyncPolicy::Every(interval) if !stop => {
                self.wal.flush()?;
                self.sync_due.get_or_insert_with(|| clock::now() + interval);
            }
            SyncPolicy::BeforeAck | SyncPolicy::Every(_) => self.sync(stats)?,
        }
        Ok(())
    }

    fn sync(&mut self, stats: &LogStats) -> Result<(), wal::Error> {
        self.sync_due = None;
        if !self.wal.is_dirty() {
            return Ok(());
        }
        let began = clock::now();
        self.wal.sync()?;
        let ended = clock::now();
        stats.synced(ended - began);
        self.mark_due = Some(ended + MARK_AFTER);
        Ok(())
    }

    /// Nothing has come for a while: what has to be synced by now is, and a mark proves the last sync.
    fn rest(&mut self, stats: &LogStats) {
        let due = self.sync_due.is_some_and(|due| due <= clock::now());
        let done = if due {
            self.sync(stats)
        } else if self.mark_due.take().is_some() {
            self.wal.mark()
        } else {
            Ok(())
        };
        if let Err(error) = done {
            self.fail(stats, &error);
        }
    }

    fn tell(&self, batches: Vec<Batch>) {
        for Batch { shard, persisted, bytes, .. } in batches {
            self.inboxes[shard].push(Input::Persisted { persisted, bytes });
        }
    }

    /// Asks for checkpoints of those who hold back the oldest segment once the log is large.
    fn reclaim(&mut self, stats: &LogStats) {
        if let Err(error) = self.wal.recycle() {
            return self.fail(stats, &error);
        }
        stats.held.store(self.wal.bytes(), Relaxed);
        if self.wal.segments() <= SEGMENTS_MAX {
            return;
        }
        let (oldest, now) = (self.wal.oldest_segment(), clock::now());
        if self.asked.is_some_and(|(segment, at)| segment == oldest && now < at + ASK_AGAIN) {
            return;
        }
        self.asked = Some((oldest, now));
        for group in self.wal.oldest_segment_groups() {
            self.inboxes[group.0 as usize % self.inboxes.len()].push(Input::Checkpoint { group: group.0 });
        }
    }

    /// The log is at its end: nothing that was not written can be trusted to be, and nothing more is taken.
    fn fail(&mut self, stats: &LogStats, error: &wal::Error) {
        self.sync_due = None;
        self.mark_due = None;
        if stats.failure.set(error.to_string()).is_err() {
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

#[cfg(test)]
mod tests {
    use store::disk::fault::FaultDisk;

    use super::*;
    use crate::jetstream::entropy::SystemEntropy;
    use crate::jetstream::inbox::Bounds;

    const INTERVAL: Duration = Duration::from_millis(5);

    fn batch(index: u64) -> Batch {
        let records = vec![Record::Entry { group: 1, index, term: 1, payload: Bytes::from_static(b"x") }];
        Batch { shard: 0, records, persisted: Vec::new(), bytes: 1 }
    }

    #[test]
    fn a_sync_that_comes_due_while_a_shard_writes_is_done_after_it() {
        let log = Log::new();
        let options = wal::Options::new(Arc::new(SystemEntropy));
        let disk = Arc::new(FaultDisk::new(1));
        let (wal, _) = Wal::open(disk, std::path::Path::new("/log"), options, &mut |_| {}).unwrap();
        let inbox = Arc::new(Inbox::new(Bounds { messages: 1, bytes: 1 }));
        let thread = start(Arc::clone(&log), wal, vec![inbox], SyncPolicy::Every(INTERVAL)).unwrap();
        let synced = log.stats.syncs.load(Relaxed);
        let claim = log.claim().unwrap();
        assert!(claim.write(&batch(1)));
        drop(claim);
        if let Some(claim) = log.claim() {
            let until = clock::now() + 4 * INTERVAL;
            while clock::now() < until {
                std::thread::yield_now();
            }
            drop(claim);
        }
        let until = clock::now() + Duration::from_secs(30);
        while log.stats.syncs.load(Relaxed) == synced {
            assert!(clock::now() < until, "nothing was synced");
            std::thread::yield_now();
        }
        log.stop();
        thread.join().unwrap();
    }
}
