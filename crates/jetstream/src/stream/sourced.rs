//! The stream's side of mirrors and sources: what they bring is checked, proposed and committed like everything else.

use std::collections::VecDeque;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::stream::{StreamSource, StreamSourceInfo};
use bytes::Bytes;
use store::Timestamp;
use store::stream::{Error as StoreError, Filter};

use super::Stream;
use super::counter::{self, Count};
use super::flight::{Ack, Flight, Message};
use super::headers::{self, Known};
use super::ingest::{HEADERS_MAX, Plan, Publish, Verdict};
use super::ttl::Ttl;
use crate::command::{Command, Rollup, Store, Traits, encode_store};
use crate::effect::Effects;
use crate::outside::Outside;
use crate::source::mark::{self, Mark, Position};
use crate::source::{Context, Kind, Outcome, Source, Sourced, Taken, index_name};

/// Bytes that wait for a removal in flight. More have to come once more.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Sources of a stream while it is led here.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// In the order of the configuration, which is not that of their numbers.
    list: Vec<Source>,
    next_id: u32,
    /// What came and has to wait.
    held: VecDeque<Taken>,
    held_bytes: usize,
}

impl Sources {
    /// When one of them has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.list.iter().map(Source::poll_timeout).min()
    }

    fn find(&mut self, id: u32) -> Option<&mut Source> {
        self.list.iter_mut().find(|source| source.id() == id)
    }

    fn clear_held(&mut self, concerned: impl Fn(&Taken) -> bool) {
        self.held.retain(|taken| !concerned(taken));
        self.held_bytes = self.held.iter().map(size).sum();
    }
}

fn size(taken: &Taken) -> usize {
    taken.subject.len() + taken.headers.len() + taken.payload.len()
}

/// Counts what a counter of another stream adds, and writes it into the header block.
fn follow(
    block: &mut Bytes,
    known: &Known<'_>,
    mut count: Count,
    payload: &[u8],
) -> Result<Count, ErrorCode> {
    if known.increment.is_none() {
        return Err(ErrorCode::MESSAGE_INCR_MISSING);
    }
    let mark = known.source.and_then(Mark::parse).ok_or(ErrorCode::MESSAGE_COUNTER_BROKEN)?;
    let increment = count.follow(&mark, payload)?;
    *block =
        headers::Builder::with(block, counter::INCREMENT, increment.to_string().as_bytes()).finish().into();
    Ok(count)
}

impl Stream {
    /// A message came over a subscription of a source.
    pub fn handle_sourced(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        inbox: u64,
        message: Sourced,
    ) {
        if !self.leading || self.failed.is_some() {
            return;
        }
        let id = (inbox >> 32) as u32;
        let (sources, mut ctx) = self.split_sources(outside, effects);
        let Some(source) = sources.find(id) else { return };
        let mut outcome = Some(source.handle(&mut ctx, inbox, message));
        while let Some(happened) = outcome {
            match happened {
                Outcome::Store(taken) => self.take_in(outside, effects, taken),
                Outcome::Skip(sequence) => self.propose_skip(effects, sequence),
                Outcome::Nothing => self.answer_owed(effects, Some(id)),
            }
            let (sources, mut ctx) = self.split_sources(outside, effects);
            outcome = sources.find(id).and_then(|source| source.handle_early(&mut ctx));
        }
    }

    /// The sources, and the rest of the stream as they may see it.
    fn split_sources<'a>(
        &'a mut self,
        outside: &'a mut dyn Outside,
        effects: &'a mut Effects,
    ) -> (&'a mut Sources, Context<'a>) {
        let (state, last_sequence) = (self.store.state(), self.flights.last_sequence());
        let ctx = Context { outside, effects, facts: &self.facts, state, last_sequence };
        (&mut self.sources, ctx)
    }

    /// Begins with all sources that are configured.
    pub(super) fn start_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let config = self.facts.config.clone();
        if config.mirror.is_none() && config.sources.is_empty() && self.sources.list.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.sources.list);
        let wanted = config.mirror.iter().map(|mirror| (Kind::Mirror, mirror));
        let wanted = wanted.chain(config.sources.iter().map(|source| (Kind::Source, source)));
        for (kind, source) in wanted {
            let same = |known: &Source| known.kind() == kind && known.config() == source;
            if let Some(at) = before.iter().position(same) {
                let known = before.swap_remove(at);
                self.sources.list.push(known);
                continue;
            }
            self.sources.next_id += 1;
            let id = self.sources.next_id;
            let position = self.positions.get(&index_name(source)).cloned();
            let (sources, mut ctx) = self.split_sources(outside, effects);
            let position = position.as_ref().filter(|_| kind == Kind::Source);
            sources.list.push(Source::new(&mut ctx, id, kind, source.clone(), position));
        }
        self.drop_sources(outside, effects, before);
    }

    /// Ends with these, and with what they brought and is not proposed yet.
    fn drop_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects, gone: Vec<Source>) {
        for source in gone {
            let id = source.id();
            self.sources.clear_held(|taken| taken.source == id);
            let (_, mut ctx) = self.split_sources(outside, effects);
            source.remove(&mut ctx);
        }
    }

    /// Ends with all of them for now: another replica leads.
    pub(super) fn stop_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let (sources, mut ctx) = self.split_sources(outside, effects);
        for source in &mut sources.list {
            source.stop(&mut ctx);
        }
        let next_id = sources.next_id;
        *sources = Sources { next_id, ..Sources::default() };
    }

    /// Ends with all of them for ever.
    pub(super) fn remove_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        if self.leading {
            let gone = std::mem::take(&mut self.sources.list);
            self.drop_sources(outside, effects, gone);
        }
    }

    /// A new configuration is in force.
    pub(super) fn update_sources(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        self.find_positions()?;
        if self.leading {
            self.start_sources(outside, effects);
        }
        Ok(())
    }

    /// Time has come for some of them.
    pub(super) fn time_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let (sources, mut ctx) = self.split_sources(outside, effects);
        for source in &mut sources.list {
            source.handle_timeout(&mut ctx);
        }
    }

    /// Something was stored: what waited for it goes on.
    pub(super) fn settle_sources(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        if self.sources.list.is_empty() {
            return;
        }
        let waited = !self.sources.held.is_empty();
        while let Some(taken) = self.sources.held.pop_front() {
            self.sources.held_bytes -= size(&taken);
            if let Err(taken) = self.ingest_sourced(outside, effects, taken) {
                self.sources.held_bytes += size(&taken);
                self.sources.held.push_front(taken);
                return;
            }
        }
        if waited {
            let last = self.flights.last_sequence();
            self.sources.list.iter_mut().for_each(|source| source.postpone(last));
        }
        self.answer_owed(effects, None);
    }

    /// Answers flow control as far as everything before the question is stored. One source, or all.
    fn answer_owed(&mut self, effects: &mut Effects, id: Option<u32>) {
        if !self.sources.held.is_empty() {
            return;
        }
        let stored = self.store.state().last_sequence;
        for source in self.sources.list.iter_mut().filter(|source| id.is_none_or(|id| id == source.id())) {
            source.stored(effects, stored);
        }
    }

    fn take_in(&mut self, outside: &mut dyn Outside, effects: &mut Effects, taken: Taken) {
        let taken = match self.sources.held.is_empty() {
            true => self.ingest_sourced(outside, effects, taken),
            false => Err(taken),
        };
        let Err(taken) = taken else { return };
        let bytes = size(&taken);
        if self.sources.held_bytes + bytes > HELD_BYTES_MAX {
            return self.refuse_sourced(outside, effects, (taken.source, taken.sequence));
        }
        self.sources.held_bytes += bytes;
        self.sources.held.push_back(taken);
    }

    /// It has to come once more, and with it everything of its source that came after it.
    fn refuse_sourced(&mut self, outside: &mut dyn Outside, effects: &mut Effects, what: (u32, u64)) {
        let (id, sequence) = what;
        self.sources.clear_held(|taken| taken.source == id && taken.sequence >= sequence);
        let (sources, mut ctx) = self.split_sources(outside, effects);
        if let Some(source) = sources.find(id) {
            source.refused(&mut ctx, sequence);
        }
    }

    /// Proposes to store it. Gives it back if it must wait.
    fn ingest_sourced(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        taken: Taken,
    ) -> Result<(), Taken> {
        let mirrored = taken.kind == Kind::Mirror;
        if mirrored && taken.sequence <= self.flights.last_sequence() {
            return Ok(());
        }
        let subject = self.transformed(&taken.subject).unwrap_or_else(|| taken.subject.clone());
        let (headers, payload) = (taken.headers.clone(), taken.payload.clone());
        let mut publish = Publish { subject, reply: None, headers, payload };
        match self.judge_sourced(outside, &mut publish, &taken) {
            Ok(Verdict::Wait) => return Err(taken),
            Ok(Verdict::Duplicate(_)) => {}
            Ok(Verdict::Store(plan)) if mirrored => {
                self.propose_mirrored(effects, publish, (taken.sequence, taken.timestamp), &plan);
            }
            Ok(Verdict::Store(plan)) => {
                self.propose(effects, outside.now(), (publish, None), (plan, Ack::None));
            }
            Err(_) => self.refuse_sourced(outside, effects, (taken.source, taken.sequence)),
        }
        Ok(())
    }

    /// The checks that are left: its origin has made the others.
    fn judge_sourced(
        &mut self,
        outside: &mut dyn Outside,
        publish: &mut Publish,
        taken: &Taken,
    ) -> Result<Verdict, ApiError> {
        let config = self.facts.config.clone();
        self.check_size(publish)?;
        if publish.headers.len() > HEADERS_MAX {
            return Err(ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM.into());
        }
        let mut block = publish.headers.clone();
        let original = block.clone();
        let known = Known::parse(&original);
        let mirrored = taken.kind == Kind::Mirror;
        if !mirrored && let Some(sequence) = self.seen_before(outside.now(), &known, None) {
            return Ok(Verdict::Duplicate(sequence));
        }
        let ttl = known.ttl.filter(|_| config.allow_msg_ttl).map(Ttl::parse).transpose()?;
        let rollup = match known.rollup {
            Some(value) if config.allow_rollup_hdrs && !config.deny_purge => {
                if value.eq_ignore_ascii_case(b"all") { Rollup::All } else { Rollup::Subject }
            }
            _ => Rollup::None,
        };
        let size = self.rules.stored_size(&publish.subject, &publish.headers, &publish.payload);
        self.check_resources(outside, size)?;
        if !self.check_room((&publish.subject, size), rollup, None)? {
            return Ok(Verdict::Wait);
        }
        let value = match config.allow_msg_counter {
            true => match self.counter_value(&publish.subject, None)? {
                Some(count) => Some(follow(&mut block, &known, count, &publish.payload)?),
                None => return Ok(Verdict::Wait),
            },
            false => None,
        };
        let traits = Traits { id: known.message_id.is_some(), rollup, ..Traits::default() };
        publish.headers = block;
        let stored_at = if mirrored { taken.timestamp } else { outside.now() };
        Ok(Verdict::Store(self.plan(stored_at, publish, (&known, ttl, traits, value))))
    }

    /// Proposes to store a message under the sequence and time that its origin gave it.
    fn propose_mirrored(
        &mut self,
        effects: &mut Effects,
        publish: Publish,
        place: (u64, Timestamp),
        plan: &Plan,
    ) {
        let (sequence, timestamp) = place;
        let headers: &Bytes = plan.headers.as_ref().unwrap_or(&publish.headers);
        let store = Store {
            sequence,
            timestamp,
            expiry: plan.expiry,
            traits: plan.traits,
            subject: &publish.subject,
            headers,
            payload: &publish.payload,
        };
        encode_store(&store, &mut effects.proposal);
        let size = self.rules.stored_size(&publish.subject, headers, &publish.payload);
        let removes = plan.traits.rollup != Rollup::None;
        let subject = publish.subject;
        self.flights.push(Flight::Message(Message { sequence, subject, size, removes, ack: Ack::None }));
    }

    /// The mirror's origin has nothing up to this sequence.
    fn propose_skip(&mut self, effects: &mut Effects, sequence: u64) {
        let state = self.store.state();
        if state.messages == 0 && self.flights.messages() == 0 {
            // A stream that holds nothing begins behind it.
            Command::Purge { filter: b"", below: sequence + 1, keep: 0 }.encode(&mut effects.proposal);
            self.flights.raise(sequence);
            self.flights.push(Flight::Removal(None));
            return;
        }
        // When they were stored is not known, but it was not later than what follows, and not "now".
        let timestamp = state.last_timestamp.unwrap_or_default();
        Command::Skip { sequence, timestamp }.encode(&mut effects.proposal);
        self.flights.push(Flight::Skip(sequence));
    }

    /// A message with this header block was stored in a stream with sources.
    pub(super) fn note_source(&mut self, block: &[u8]) {
        if let Some(value) = headers::find(block, mark::SOURCE) {
            self.positions.note(value);
        }
    }

    /// Brings the positions in line with the configuration. What is stored of sources that are new to it tells how far they are.
    pub(super) fn find_positions(&mut self) -> Result<(), StoreError> {
        let sources = &self.facts.config.sources;
        if sources.is_empty() && self.positions.is_empty() {
            return Ok(());
        }
        let indexes: Vec<Box<str>> = sources.iter().map(|source| index_name(source).into()).collect();
        for index in self.positions.configure(&indexes) {
            let at = indexes.iter().position(|known| *known == index);
            let filter = at.map_or(Filter::All, |at| self.stored_filter(&self.facts.config.sources[at]));
            if let Some(position) = self.find_position(&index, &filter)? {
                self.positions.set(&index, position);
            }
        }
        Ok(())
    }

    /// Subjects that messages of a source can have here.
    fn stored_filter(&self, source: &StreamSource) -> Filter {
        let changed = !source.subject_transforms.is_empty() || self.facts.config.subject_transform.is_some();
        if changed || source.filter_subject.is_empty() {
            Filter::All
        } else {
            Filter::Any(vec![source.filter_subject.as_bytes().into()])
        }
    }

    /// Looks for the newest message of a source.
    fn find_position(&self, index: &str, filter: &Filter) -> Result<Option<Position>, StoreError> {
        let mut up_to = self.store.state().last_sequence;
        while let Some(sequence) = self.store.last(filter, up_to)? {
            let message = self.store.load(sequence)?;
            let value = message.as_ref().and_then(|message| headers::find(&message.headers, mark::SOURCE));
            if let Some(mark) = value.and_then(Mark::parse).filter(|mark| mark.is_of(index)) {
                return Ok(Some(mark.into()));
            }
            let Some(before) = sequence.checked_sub(1) else { break };
            up_to = before;
        }
        Ok(None)
    }

    pub(super) fn mirror_info(&self, now: Timestamp) -> Option<StreamSourceInfo> {
        self.sources
            .list
            .iter()
            .find(|source| source.kind() == Kind::Mirror)
            .map(|mirror| mirror.info(now, None))
    }

    pub(super) fn sources_info(&self, now: Timestamp) -> Vec<StreamSourceInfo> {
        let sources = self.sources.list.iter().filter(|source| source.kind() == Kind::Source);
        sources.map(|source| source.info(now, self.positions.get(source.index()))).collect()
    }
}
