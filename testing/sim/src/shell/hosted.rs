//! Streams come and go: their store is opened, their log replayed, their group started, their checkpoints taken; and at last they are destroyed.

use std::sync::Arc;

use api::jetstream::stream::{Compression, Storage};
use jetstream::effect::Effects;
use jetstream::stream::facts::Identity;
use jetstream::{Request, Stream, Token};
use multiraft::{GroupId, Position};
use store::stream::{
    self as files, CheckpointDone, FileOptions, FileStore, MemoryStore, Recovered, StreamStore,
};

use super::log::{GroupLog, Record};
use super::{ACCOUNT, Out, Server};
use crate::plant::{BrokenStore, Plant};

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

impl Server {
    pub(super) fn open(&mut self, group: u64, name: &str, log: Option<GroupLog>, token: Option<Token>) {
        let Some((_, config)) = self.keeper.get(name) else { return };
        let config = config.clone();
        let Some(created) = self.keeper.created(name) else { return };
        let durable = config.storage == Storage::File;
        let opened = self.open_store(group, config.compression, durable);
        let (store, recovered) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.open_failed(group, error.to_string()),
        };
        for damage in &recovered.damage {
            self.tell_damage(group, format!("{damage:?}"));
        }
        let identity = Identity { account: ACCOUNT.into(), name: name.into(), group, domain: None, created };
        self.witness.borrow_mut().open(&identity, &config, durable);
        let applied = recovered.applied;
        let mut stream = match Stream::new(identity, config, store, recovered) {
            Ok(stream) => stream,
            Err(error) => return self.open_failed(group, error.to_string()),
        };
        let mut log = log.unwrap_or_default();
        if self.settings.plant == Some(Plant::TailForgotten) {
            log.entries.pop();
        }
        let logged = log.last();
        let (start, lost) = log.start(applied);
        if durable && logged < start.applied {
            // The log lost the end of what the checkpoint covers, as it may without syncs: it has to know where the group goes on.
            self.batch.records.push(Record::Released { group, at: start.snapshot });
        }
        if let Some(lost) = lost {
            self.tell_damage(group, lost);
            // What is left is where the stream goes on from, also after the next crash.
            stream.cover(start.applied);
            let renewed = stream.checkpoint().and_then(|job| stream.checkpoint_done(job()));
            if let Err(error) = renewed {
                return self.open_failed(group, error.to_string());
            }
        }
        let hosted = Hosted {
            stream,
            effects: Effects::default(),
            durable,
            leads: false,
            failed: None,
            log_bytes: 0,
            checkpoint: Checkpoint::Idle,
            applied: Position::default(),
            covered: Position::default(),
            token,
        };
        self.hosted.insert(group, hosted);
        if let Err(error) = self.node.add_group(GroupId(group), start) {
            self.fail(group, &error.to_string());
        }
    }

    fn open_store(
        &self,
        group: u64,
        compression: Compression,
        durable: bool,
    ) -> Result<(Box<dyn StreamStore>, Recovered), files::Error> {
        if !durable {
            return Ok((Box::new(MemoryStore::new()), Recovered::default()));
        }
        let options = FileOptions {
            compression: match compression {
                Compression::None => files::Compression::None,
                Compression::S2 => files::Compression::S2,
            },
            keyring: self.settings.keyring.clone(),
            block_bytes: files::BLOCK_BYTES_MIN,
            ..FileOptions::new(group, Arc::clone(&self.cache))
        };
        let (store, mut recovered) =
            FileStore::open(Arc::clone(&self.disk), &Self::stream_dir(group), options)?;
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
        match hosted.stream.checkpoint() {
            Ok(job) => {
                hosted.covered = hosted.applied;
                hosted.checkpoint = Checkpoint::Running;
                hosted.log_bytes = 0;
                if self.settings.plant == Some(Plant::ReleasedEarly) {
                    self.batch.records.push(Record::Released { group, at: hosted.covered });
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
                self.batch.records.push(Record::Released { group, at });
                if again {
                    self.begin_checkpoint(group);
                }
            }
            Err(error) => self.fail(group, &error.to_string()),
        }
    }

    /// A last checkpoint, if it would hold something new.
    pub(super) fn finish_stream(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let is_clean = hosted.applied == hosted.covered;
        if !hosted.durable || hosted.failed.is_some() || hosted.checkpoint != Checkpoint::Idle || is_clean {
            return;
        }
        hosted.covered = hosted.applied;
        // If it fails the log has everything.
        if let Ok(job) = hosted.stream.checkpoint() {
            self.jobs.push((group, job));
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
