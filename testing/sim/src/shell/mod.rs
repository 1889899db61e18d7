//! The server without threads: the cores, driven as the broker drives them, but every step happens when the run says so.
//!
//! What other threads do in the broker waits in a queue here: batches for the log, jobs of checkpoints, inputs of the shard. The run takes from
//! them in any order that threads could.

mod hosted;
mod keeper;
mod log;
mod turn;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use api::ApiError;
use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use jetstream::consumer::{AckSubject, Acknowledgement};
use jetstream::effect::Deliver;
use jetstream::stream::Incoming;
use jetstream::{Publish, Request, Response, Stream, Token};
use multiraft::{GroupId, Node, NodeConfig, Ticket};
use store::crypt::Keyring;
use store::disk::Disk;
use store::stream::{Cache, CheckpointDone, CheckpointJob, Error as StoreError};
use store::wal::{self, Wal};
use store::{Timestamp, state_file};

pub(crate) use hosted::Hosted;
pub(crate) use keeper::Wanted;

use crate::plant::{Memory, Plant};
use crate::witness::Witness;
use crate::world::World;
use keeper::Keeper;
use log::{Batch, GroupLog, THIS_SERVER};

/// Account of all streams.
pub(crate) const ACCOUNT: &str = "A";
/// Where the server keeps its files.
pub(crate) const DIRECTORY: &str = "/js";
/// Segments that the log may have before checkpoints are asked for.
const SEGMENTS_MAX: usize = 2;

/// What stays the same over all lives of a server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where the server's own choices follow from.
    pub(crate) seed: u64,
    /// Keys, if what is on disk is sealed.
    pub(crate) keyring: Option<Arc<Keyring>>,
    /// Acknowledgements wait for stable storage.
    pub(crate) sync: bool,
    /// Log bytes of one stream after which it takes a checkpoint.
    pub(crate) checkpoint_bytes: u64,
    /// What is broken on purpose.
    pub(crate) plant: Option<Plant>,
    /// What the planted fault remembers over lives.
    pub(crate) memory: Rc<RefCell<Memory>>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootError {
    #[error(transparent)]
    Disk(#[from] store::disk::Error),
    #[error(transparent)]
    Log(#[from] wal::Error),
    #[error(transparent)]
    State(#[from] state_file::Error),
    #[error("catalogue: {0}")]
    Catalogue(String),
}

/// Something that leaves the server.
#[derive(Debug)]
pub(crate) enum Out {
    /// A message: acknowledgements, confirmations, statuses.
    Sent { group: u64, subject: Bytes, reply: Option<Bytes>, payload: Bytes },
    /// A stored message for a client.
    Delivered { group: u64, deliver: Box<Deliver> },
    /// An answer.
    Reply { token: Token, result: Result<Response, ApiError> },
    /// Part of a stream is lost, or of the log for all streams if the group is zero.
    Damaged { group: u64, text: String },
    /// A stream takes no more changes.
    Failed { group: u64, reason: String },
}

/// Something that waits for the shard.
#[derive(Debug)]
pub(super) enum Input {
    Persisted(Vec<(GroupId, Ticket)>),
    LogFailed(String),
    CheckpointDone(u64, Result<CheckpointDone, StoreError>),
    Checkpoint(u64),
    Open { group: u64, name: String, log: Option<GroupLog>, token: Option<Token> },
    Destroy(u64, Token),
    Request(u64, Box<Request>, Token),
}

/// One life of the server.
pub(crate) struct Server {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: Settings,
    pub(super) witness: Rc<RefCell<Witness>>,
    pub(super) wal: Wal,
    pub(super) node: Node,
    pub(super) hosted: BTreeMap<u64, Hosted>,
    pub(super) keeper: Keeper,
    /// Logs of groups whose streams are not open yet.
    pub(super) logs: BTreeMap<u64, GroupLog>,
    pub(super) world: World,
    pub(super) cache: Arc<Cache>,
    pub(super) inbox: VecDeque<Input>,
    pub(super) touched: BTreeSet<u64>,
    pub(super) batch: Batch,
    pub(super) queue: VecDeque<Batch>,
    pub(super) jobs: Vec<(u64, CheckpointJob)>,
    pub(super) log_failed: Option<String>,
    /// The log lost something.
    pub(super) is_damaged: bool,
    pub(super) out: VecDeque<Out>,
}

impl Server {
    /// Starts on what the disk holds. Streams are there after some turns.
    pub(crate) fn boot(
        disk: Arc<dyn Disk>,
        settings: Settings,
        witness: Rc<RefCell<Witness>>,
        now: i64,
        life: u64,
    ) -> Result<Self, BootError> {
        let dir = Path::new(DIRECTORY);
        disk.create_dir_all(&dir.join("streams"))?;
        // The log syncs the directory it is in; that one's own name has to last as well.
        disk.sync_dir(Path::new("/"))?;
        let seed = settings.seed.wrapping_mul(31).wrapping_add(life);
        let (wal, mut logs, mut damage) = log::open(&disk, dir, &settings, seed)?;
        let has_streams = !disk.list(&dir.join("streams"))?.is_empty();
        if logs.is_empty() && has_streams {
            damage.push("there are streams and no log".to_owned());
        }
        let keeper = Keeper::recover(&*disk, &settings, &mut logs)?;
        let mut server = Self {
            disk,
            witness,
            wal,
            node: Node::new(NodeConfig::new(THIS_SERVER, seed)),
            hosted: BTreeMap::new(),
            keeper,
            logs,
            world: World::new(now, seed),
            cache: Arc::new(Cache::new(1 << 16)),
            inbox: VecDeque::new(),
            touched: BTreeSet::new(),
            batch: Batch::default(),
            queue: VecDeque::new(),
            jobs: Vec::new(),
            log_failed: None,
            is_damaged: !damage.is_empty(),
            out: VecDeque::new(),
            settings,
        };
        for text in damage {
            server.tell_damage(0, text);
        }
        server.start_keeper();
        server.settle();
        Ok(server)
    }

    pub(super) fn tell_damage(&mut self, group: u64, text: String) {
        if self.settings.plant != Some(Plant::DamageUntold) {
            self.out.push_back(Out::Damaged { group, text });
        }
        if self.settings.plant == Some(Plant::DamageStopsAll) {
            self.fail_all("another stream is damaged");
        }
    }

    /// Takes what left the server.
    pub(crate) fn take_out(&mut self) -> VecDeque<Out> {
        std::mem::take(&mut self.out)
    }

    /// The stream of a group, if it is open and leads.
    pub(crate) fn stream(&self, group: u64) -> Option<&Stream> {
        self.hosted.get(&group).filter(|hosted| hosted.leads).map(|hosted| &hosted.stream)
    }

    /// Does the stream of the group take changes?
    pub(crate) fn is_healthy(&self, group: u64) -> bool {
        self.hosted.get(&group).is_some_and(|hosted| {
            hosted.leads && hosted.failed.is_none() && hosted.stream.failure().is_none()
        })
    }

    /// Group and configuration of a stream in the catalogue, as far as it is known yet.
    pub(crate) fn known(&self, name: &str) -> Option<(u64, &StreamConfig)> {
        self.keeper.get(name)
    }

    /// Has everything that was committed before been read back?
    pub(crate) fn is_ready(&self) -> bool {
        self.keeper.is_ready()
    }

    /// Segments of the log.
    pub(crate) fn log_segments(&self) -> usize {
        self.wal.segments()
    }

    /// Groups that hold back the oldest segment of the log.
    pub(crate) fn log_holders(&self) -> Vec<u64> {
        self.wal.oldest_segment_groups().iter().map(|group| group.0).collect()
    }

    /// Has the log ended?
    pub(crate) fn has_failed(&self) -> bool {
        self.log_failed.is_some() || self.hosted.values().any(|hosted| hosted.failed.is_some())
    }

    /// A message for a stream.
    pub(crate) fn publish(&mut self, group: u64, publish: Publish) {
        let Some(hosted) = self.hosted.get_mut(&group).filter(|hosted| hosted.leads) else { return };
        hosted.stream.handle_publish(&mut self.world, &mut hosted.effects, publish);
        self.touched.insert(group);
    }

    /// A pull request.
    pub(crate) fn pull(&mut self, group: u64, consumer: &str, reply: &Bytes, body: &[u8]) {
        let Some(hosted) = self.hosted.get_mut(&group).filter(|hosted| hosted.leads) else { return };
        let pull = Incoming { subject: b"", reply: Some(reply), headers: b"", payload: body };
        hosted.stream.handle_pull(&mut self.world, &mut hosted.effects, consumer, pull);
        self.touched.insert(group);
    }

    /// An acknowledgement.
    pub(crate) fn ack(&mut self, group: u64, subject: &[u8], reply: Option<&Bytes>, body: &[u8]) {
        let Some(hosted) = self.hosted.get_mut(&group).filter(|hosted| hosted.leads) else { return };
        if let (Some(Plant::ConfirmEarly), Some(reply)) = (self.settings.plant, reply) {
            self.out.push_back(Out::Sent {
                group,
                subject: reply.clone(),
                reply: None,
                payload: Bytes::new(),
            });
        }
        let Some(AckSubject { consumer, tokens: Some(tokens), .. }) = AckSubject::parse(subject) else {
            return;
        };
        let Some(consumer) = hosted.stream.consumer_number(consumer) else { return };
        let ack = Acknowledgement { consumer, tokens, reply, body };
        hosted.stream.handle_ack(&mut self.world, &mut hosted.effects, &ack);
        self.touched.insert(group);
    }

    /// A request to a stream.
    pub(crate) fn request(&mut self, group: u64, token: Token, request: Request) {
        self.inbox.push_back(Input::Request(group, Box::new(request), token));
    }

    /// Takes a checkpoint of a stream.
    pub(crate) fn checkpoint(&mut self, group: u64) {
        self.inbox.push_back(Input::Checkpoint(group));
    }

    /// The stream gets a turn.
    pub(crate) fn touch(&mut self, group: u64) {
        self.touched.insert(group);
    }

    /// One turn of the shard.
    pub(crate) fn turn(&mut self) {
        while let Some(input) = self.inbox.pop_front() {
            self.handle(input);
        }
        self.settle();
    }

    /// The log's turn: writes what is queued, syncs once, tells the shard.
    pub(crate) fn write_log(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let batches = std::mem::take(&mut self.queue);
        match self.write_batches(&batches) {
            Ok(()) => {
                let persisted = batches.into_iter().flat_map(|batch| batch.persisted).collect();
                self.inbox.push_back(Input::Persisted(persisted));
                self.reclaim();
            }
            Err(error) => self.inbox.push_back(Input::LogFailed(error.to_string())),
        }
    }

    fn write_batches(&mut self, batches: &VecDeque<Batch>) -> Result<(), wal::Error> {
        for batch in batches {
            for record in &batch.records {
                self.wal.append(record.view())?;
            }
        }
        if self.settings.sync { self.wal.sync() } else { self.wal.flush() }
    }

    fn reclaim(&mut self) {
        if let Err(error) = self.wal.recycle() {
            self.inbox.push_back(Input::LogFailed(error.to_string()));
            return;
        }
        if self.wal.segments() > SEGMENTS_MAX {
            let groups = self.wal.oldest_segment_groups();
            self.inbox.extend(groups.into_iter().map(|group| Input::Checkpoint(group.0)));
        }
    }

    /// The log's thread has nothing to do: it leaves a mark.
    pub(crate) fn mark_log(&mut self) {
        let marked = if self.settings.sync { Ok(()) } else { self.wal.sync() };
        if let Err(error) = marked.and_then(|()| self.wal.mark()) {
            self.inbox.push_back(Input::LogFailed(error.to_string()));
        }
    }

    /// Jobs of checkpoints that wait for a thread.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// A thread does a job.
    pub(crate) fn run_job(&mut self, number: usize) {
        let (group, job) = self.jobs.swap_remove(number);
        let done = match (self.settings.plant, self.hosted.get(&group)) {
            (Some(Plant::JobSkipped), Some(hosted)) => Ok(CheckpointDone { applied: hosted.covered.index }),
            _ => job(),
        };
        self.inbox.push_back(Input::CheckpointDone(group, done));
    }

    /// Is there nothing left to do until something arrives or time passes?
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.queue.is_empty() && self.jobs.is_empty() && self.touched.is_empty()
    }

    /// Lets time pass, with the timeouts in it.
    pub(crate) fn pass(&mut self, nanos: i64) {
        let end = self.world.now + nanos;
        // Bounded: a machine whose timeout does not move would hold the time.
        for _ in 0..1000 {
            let due = self.hosted.iter().filter(|(_, hosted)| hosted.leads && hosted.failed.is_none());
            let due = due.filter_map(|(group, hosted)| Some((hosted.stream.poll_timeout()?, *group)));
            let Some((at, group)) = due.min().filter(|(at, _)| at.0 <= end) else { break };
            self.world.now = self.world.now.max(at.0);
            if let Some(hosted) = self.hosted.get_mut(&group) {
                hosted.stream.handle_timeout(&mut self.world, &mut hosted.effects);
                self.touched.insert(group);
            }
            self.settle();
        }
        self.world.now = end;
    }

    /// Now.
    pub(crate) fn now(&self) -> i64 {
        self.world.now
    }

    /// Ends the server in good order.
    pub(crate) fn stop(&mut self) -> Result<(), wal::Error> {
        while !self.jobs.is_empty() {
            self.run_job(0);
        }
        self.turn();
        let groups: Vec<u64> = self.hosted.keys().copied().collect();
        for group in groups {
            self.begin_checkpoint(group);
        }
        while !self.jobs.is_empty() || !self.inbox.is_empty() {
            while !self.jobs.is_empty() {
                self.run_job(0);
            }
            // Whatever else waits is too late.
            for input in std::mem::take(&mut self.inbox) {
                if matches!(input, Input::CheckpointDone(..) | Input::LogFailed(_)) {
                    self.handle(input);
                }
            }
        }
        self.save_catalogue();
        self.send_records();
        let batches = std::mem::take(&mut self.queue);
        self.write_batches(&batches)?;
        self.wal.close()
    }

    pub(super) fn stream_dir(group: u64) -> PathBuf {
        Path::new(DIRECTORY).join("streams").join(stream_dir_name(group))
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp(self.world.now)
    }
}

/// Name of the directory of a stream's files.
pub(crate) fn stream_dir_name(group: u64) -> String {
    format!("{group:016x}")
}
