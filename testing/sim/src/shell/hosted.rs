//! Streams come and go: their store is opened, their log replayed, their group started, their checkpoints taken; and at last they are destroyed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use api::jetstream::stream::{Compression, Storage};
use jetstream::effect::Effects;
use jetstream::stream::facts::Identity;
use jetstream::{Request, Stream, Token};
use multiraft::{GroupId, Position};
use store::disk::Open;
use store::stream::{
    self as files, CheckpointDone, FileOptions, FileStore, MemoryStore, Recovered, StreamStore,
};

use super::log::{GroupLog, Record};
use super::{ACCOUNT, Out, Server};
use crate::plant::{BrokenStore, CHECKPOINT, Plant};

/// Where a stream is with its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    Idle,
    Running,
    Again,
}

/// A stream and what the shell keeps around it.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) stream: Stream,
    pub(super) effects: Effects,
    pub(super) durable: bool,
    pub(super) leads: bool,
    pub(super) failed: Option<String>,
    pub(super) log_bytes: u64,
    pub(super) checkpoint: Checkpoint,
    pub(super) applied: Position,
    pub(super) covered: Position,
    /// Is answered when it leads for the first time.
    pub(super) token: Option<Token>,
}

impl Hosted {
    /// Releases the log up to what is applied, all of which the newest checkpoint covers. `None` if the log knows.
    fn release(&mut self, group: u64) -> Option<Record> {
        if !self.durable || self.applied.index <= self.covered.index {
            return None;
        }
        self.covered = self.applied;
        Some(Record::Released { group, at: self.applied, checkpoint: self.stream.newest_checkpoint() })
    }
}

impl Server {
    pub(super) fn open(&mut self, group: u64, name: &str, log: Option<GroupLog>, token: Option<Token>) {
        let Some((_, config)) = self.keeper.get(name) else { return };
        let config = config.clone();
        let Some(created) = self.keeper.created(name) else { return };
        let durable = config.storage == Storage::File;
        let confirmed = log.as_ref().map_or(0, |log| log.checkpoint);
        let opened = self.open_store(group, config.compression, durable.then_some(confirmed));
        let (store, recovered) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.open_failed(group, error.to_string()),
        };
        for damage in &recovered.damage {
            self.tell_damage(group, format!("{damage:?}"));
        }
        let identity = Identity { account: ACCOUNT.into(), name: name.into(), group, domain: None, created };
        self.witness.borrow_mut().open(&identity, &config, durable);
        let mut stream = match Stream::new(identity, config, store, recovered) {
            Ok(stream) => stream,
            Err(error) => return self.open_failed(group, error.to_string()),
        };
        let mut log = log.unwrap_or_default();
        if self.settings.plant == Some(Plant::TailForgotten) {
            log.entries.pop();
        }
        let covered = log.released;
        let (start, lost) = log.start(stream.applied(), stream.newest_checkpoint());
        stream.cover(start.applied);
        if let Some(lost) = lost {
            self.tell_damage(group, lost);
            // What is left is where the stream goes on from, also after the next crash.
            let renewed = stream.checkpoint().and_then(|job| stream.checkpoint_done(job()));
            if let Err(error) = renewed {
                return self.open_failed(group, error.to_string());
            }
        }
        let mut hosted = Hosted {
            stream,
            effects: Effects::default(),
            durable,
            leads: false,
            failed: None,
            log_bytes: 0,
            checkpoint: Checkpoint::Idle,
            applied: start.snapshot,
            covered,
            token,
        };
        // The log may have lost the end of what the checkpoint covers: it has to know where the group goes on.
        self.batch.records.extend(hosted.release(group));
        self.hosted.insert(group, hosted);
        if let Err(error) = self.node.add_group(GroupId(group), start) {
            self.fail(group, &error.to_string());
        }
    }

    fn open_store(
        &self,
        group: u64,
        compression: Compression,
        confirmed: Option<u64>,
    ) -> Result<(Box<dyn StreamStore>, Recovered), files::Error> {
        let Some(confirmed) = confirmed else {
            return Ok((Box::new(MemoryStore::new()), Recovered::default()));
        };
        let options = FileOptions {
            compression: match compression {
                Compression::None => files::Compression::None,
                Compression::S2 => files::Compression::S2,
            },
            keyring: self.settings.keyring.clone(),
            block_bytes: files::BLOCK_BYTES_MIN,
            confirmed,
            ..FileOptions::new(group, Arc::clone(&self.cache))
        };
        let dir = Self::stream_dir(group);
        let is_believed = self.settings.plant == Some(Plant::FilesBelieved)
            && self.disk.open(&dir.join(CHECKPOINT), Open::Read).is_ok();
        let opening = Arc::clone(&self.settings.memory.borrow().opening);
        opening.store(is_believed, Relaxed);
        let opened = FileStore::open(Arc::clone(&self.disk), &dir, options);
        opening.store(false, Relaxed);
        let (store, mut recovered) = opened?;
        let store: Box<dyn StreamStore> = Box::new(store);
        let Some(plant) = self.settings.plant else { return Ok((store, recovered)) };
        let mut memory = self.settings.memory.borrow_mut();
        memory.age_items(plant, group, &mut recovered);
        Ok((BrokenStore::wrap(plant, store, memory.opens(group)), recovered))
    }

    fn open_failed(&mut self, group: u64, reason: String) {
        self.out.push_back(Out::Failed { group, reason });
    }

    /// Everything committed is applied: the stream leads.
    pub(super) fn lead(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if !hosted.leads {
            self.witness.borrow_mut().recovered(group, &hosted.stream);
        }
        hosted.leads = true;
        self.settings.memory.borrow_mut().led(group);
        hosted.stream.lead(&mut self.world, &mut hosted.effects);
        self.reconcile(group);
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if let Some(token) = hosted.token.take() {
            self.out.push_back(Out::Reply { token, result: Ok(jetstream::Response::Done) });
        }
        self.touched.insert(group);
    }

    /// An update that the catalogue took and the stream did not hear of any more is brought to it again.
    fn reconcile(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get(&group) else { return };
        let Some((_, config)) = self.keeper.get(&hosted.stream.config().name) else { return };
        if **hosted.stream.config() != *config {
            let request = Request::UpdateStream(Box::new(config.clone()));
            self.handle_request(group, Token(0), request);
        }
    }

    /// A request that was waiting for its turn.
    pub(super) fn handle_request(&mut self, group: u64, token: Token, request: Request) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        hosted.stream.handle_request(&mut self.world, &mut hosted.effects, token, request);
        self.touched.insert(group);
    }

    pub(super) fn begin_checkpoint(&mut self, group: u64) {
        if group == jetstream::meta::META_GROUP {
            return self.save_catalogue();
        }
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if !hosted.durable || hosted.failed.is_some() {
            return;
        }
        if hosted.checkpoint != Checkpoint::Idle {
            hosted.checkpoint = Checkpoint::Again;
            return;
        }
        if !hosted.stream.lacks_checkpoint() {
            self.batch.records.extend(hosted.release(group));
            self.node.compact(GroupId(group), hosted.covered.index);
            return;
        }
        match hosted.stream.checkpoint() {
            Ok(job) => {
                hosted.covered = hosted.applied;
                hosted.checkpoint = Checkpoint::Running;
                hosted.log_bytes = 0;
                if self.settings.plant == Some(Plant::ReleasedEarly) {
                    let checkpoint = hosted.stream.newest_checkpoint();
                    self.batch.records.push(Record::Released { group, at: hosted.covered, checkpoint });
                }
                self.jobs.push((group, job));
            }
            Err(error) => self.fail(group, &error.to_string()),
        }
    }

    pub(super) fn checkpoint_done(&mut self, group: u64, done: Result<CheckpointDone, files::Error>) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let again = std::mem::replace(&mut hosted.checkpoint, Checkpoint::Idle) == Checkpoint::Again;
        let at = hosted.covered;
        match hosted.stream.checkpoint_done(done) {
            Ok(()) => {
                self.node.compact(GroupId(group), at.index);
                let checkpoint = hosted.stream.newest_checkpoint();
                self.batch.records.push(Record::Released { group, at, checkpoint });
                if again {
                    self.begin_checkpoint(group);
                }
            }
            Err(error) => self.fail(group, &error.to_string()),
        }
    }

    pub(super) fn destroy(&mut self, group: u64, token: Token) {
        if let Some(hosted) = self.hosted.remove(&group) {
            self.touched.remove(&group);
            self.node.remove_group(GroupId(group));
            if hosted.durable {
                self.batch.records.push(Record::Removed { group });
                drop(hosted);
                // What is left of the directory belongs to a group that never comes again.
                let _ = self.disk.remove_dir_all(&Self::stream_dir(group));
            }
        }
        self.witness.borrow_mut().destroy(group);
        self.out.push_back(Out::Reply { token, result: Ok(jetstream::Response::Done) });
    }

    pub(super) fn fail(&mut self, group: u64, reason: &str) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if hosted.failed.is_none() {
            hosted.failed = Some(reason.to_owned());
            self.out.push_back(Out::Failed { group, reason: reason.to_owned() });
        }
    }

    pub(super) fn fail_all(&mut self, reason: &str) {
        let durable = self.hosted.iter().filter(|(_, hosted)| hosted.durable);
        let groups: Vec<u64> = durable.map(|(group, _)| *group).collect();
        for group in groups {
            self.fail(group, reason);
        }
    }
}
