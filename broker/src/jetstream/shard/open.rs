//! Streams come to a shard and go: their store is opened, their log replayed, their group started; and at last destroyed.

use std::sync::Arc;

use api::error::jetstream::ErrorCode;
use api::jetstream::request::StreamInfoDetails;
use api::jetstream::stream::Storage;
use jetstream::stream::facts::Identity;
use jetstream::{Request, Stream, Token};
use multiraft::GroupId;
use store::Timestamp;
use store::stream::{MemoryStore, Recovered, StreamStore};

use super::{Hosted, Respond, Shard};
use crate::jetstream::directory::{ConsumerEntry, StreamEntry};
use crate::jetstream::draft::Draft;
use crate::jetstream::log_thread::Record;
use crate::jetstream::recover::{self, GroupLog};

/// A stream that a shard has to host.
#[derive(Debug)]
pub struct StreamSpec {
    /// Its place in the directory.
    pub entry: Arc<StreamEntry>,
    /// When it was created.
    pub created: Timestamp,
    /// What the log holds of it.
    pub log: Option<GroupLog>,
    /// It was restored, and is here already.
    pub draft: Option<Box<Draft>>,
    /// Gets its info once it leads, or why it cannot be opened.
    pub respond: Option<Respond>,
}

impl Shard {
    pub(super) fn open(&mut self, mut spec: StreamSpec) {
        let config = spec.entry.config.load_full();
        let durable = config.storage == Storage::File;
        if let Some(stream) = spec.draft.take().and_then(|draft| draft.adopt()) {
            return self.host(stream, durable, spec);
        }
        let confirmed = spec.log.as_ref().map_or(0, |log| log.checkpoint);
        let (store, recovered) = match self.open_store(&spec.entry, durable, confirmed) {
            Ok(opened) => opened,
            Err(error) => return self.open_failed(&spec.entry, spec.respond, &error.to_string()),
        };
        for damage in &recovered.damage {
            let text = damage.to_string();
            tracing::error!(
                "JetStream stream '{} > {}' is damaged: {text}",
                spec.entry.account.account.name(),
                spec.entry.name
            );
            self.shared.health.damaged(spec.entry.account.account.name(), &spec.entry.name, &text);
        }
        let identity = Identity {
            account: spec.entry.account.account.name().into(),
            name: Arc::from(&*spec.entry.name),
            group: spec.entry.group,
            domain: self.shared.domain.as_deref().map(Arc::from),
            created: spec.created,
        };
        let stream = match Stream::new(identity, config, store, recovered) {
            Ok(stream) => stream,
            Err(error) => return self.open_failed(&spec.entry, spec.respond, &error.to_string()),
        };
        self.host(stream, durable, spec);
    }

    /// Starts the group of a stream.
    fn host(&mut self, mut stream: Stream, durable: bool, spec: StreamSpec) {
        let group = spec.entry.group;
        let log = spec.log.unwrap_or_default();
        let released = log.released;
        let (start, lost) = recover::start(log, stream.applied(), stream.newest_checkpoint());
        stream.cover(start.applied);
        if let Some(lost) = lost {
            self.shared.health.damaged(spec.entry.account.account.name(), &spec.entry.name, &lost);
            tracing::error!(
                "JetStream stream '{} > {}' is damaged: {lost}",
                spec.entry.account.account.name(),
                spec.entry.name
            );
            // What is left is where the stream goes on from, also after the next crash: nothing is acknowledged before that is on disk.
            let renewed = stream.checkpoint().and_then(|job| stream.checkpoint_done(job()));
            if let Err(error) = renewed {
                return self.open_failed(&spec.entry, spec.respond, &error.to_string());
            }
        }
        let mut hosted = Hosted::new(stream, spec.entry, durable, spec.respond);
        hosted.applied = start.snapshot;
        hosted.covered = released;
        // The log may have lost the end of what the checkpoint covers: it has to know where the group goes on.
        self.records.extend(hosted.release());
        self.hosted.insert(group, Box::new(hosted));
        let started = self.node.add_group(GroupId(group), start);
        if let Err(error) = started {
            self.fail(group, &error.to_string());
            self.recovered(group);
        }
    }

    fn open_store(
        &self,
        entry: &StreamEntry,
        durable: bool,
        confirmed: u64,
    ) -> Result<(Box<dyn StreamStore>, Recovered), store::stream::Error> {
        if !durable {
            return Ok((Box::new(MemoryStore::new()), Recovered::default()));
        }
        let (store, recovered) = self.shared.open_files(entry.group, &entry.config.load(), confirmed)?;
        Ok((Box::new(store), recovered))
    }

    /// The stream is there, but nothing can be done with it.
    fn open_failed(&mut self, entry: &StreamEntry, respond: Option<Respond>, reason: &str) {
        let account = entry.account.account.name();
        tracing::error!("JetStream stream '{account} > {}' does not open: {reason}", entry.name);
        self.shared.health.lost(account, &entry.name, reason);
        let Some(respond) = respond else { return self.shared.health.recovered() };
        let error = ErrorCode::STREAM_OFFLINE_REASON.because(reason);
        respond.call(&mut self.outgoing, Err(error));
    }

    /// The stream leads: from now on messages may come.
    pub(super) fn opened(&mut self, group: u64) {
        self.recovered(group);
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let stream = &hosted.stream;
        for consumer in stream.consumers() {
            let (name, config) = (consumer.name(), Arc::clone(consumer.config()));
            if let Some(number) = stream.consumer_number(name) {
                hosted.entry.put_consumer(name.into(), ConsumerEntry { number, config });
            }
        }
        hosted.entry.subscribe(&self.shared);
        let config = hosted.entry.config.load_full();
        if *config != **hosted.stream.config() {
            // The catalogue took an update that the stream did not hear of any more.
            hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                stream.handle_request(
                    outside,
                    effects,
                    Token(0),
                    Request::UpdateStream(Box::new((*config).clone())),
                );
            });
        }
        let Some(respond) = hosted.respond.take() else { return };
        let token = hosted.token(respond);
        hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
            stream.handle_request(outside, effects, token, Request::StreamInfo(StreamInfoDetails::default()));
        });
    }

    pub(super) fn destroy(&mut self, group: u64) {
        if let Some(hosted) = self.hosted.get_mut(&group) {
            hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                stream.delete(outside, effects)
            });
            hosted.effects.proposal.clear();
        }
        self.carry_out(group);
        let Some(mut hosted) = self.hosted.remove(&group) else { return };
        hosted.sources.close_all(&self.shared, &hosted.entry);
        if let Some(deadline) = hosted.deadline {
            self.deadlines.remove(&(deadline, group));
        }
        let early = hosted.take_early();
        for respond in hosted.responders.into_values().chain(early) {
            respond.call(&mut self.outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into()));
        }
        self.node.remove_group(GroupId(group));
        self.shared.health.forget(hosted.entry.account.account.name(), &hosted.entry.name);
        if hosted.durable {
            self.records.push(Record::Removed { group });
            // A job that is out works on open files; what it writes goes with the directory.
            drop(hosted.stream);
            if let Err(error) = self.shared.disk.remove_dir_all(&self.shared.stream_dir(group)) {
                tracing::error!("JetStream: {error}");
            }
        }
    }
}
