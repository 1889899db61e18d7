//! Second half of a turn: commands go to their groups, committed ones are applied, effects are carried out, until nothing is left to do.

use std::sync::atomic::Ordering::Relaxed;

use jetstream::consumer::Budget;
use jetstream::effect::Effect;
use multiraft::{Entry, GroupId, HardState, Output, Position as Place, Role, Ticket};

use super::{Outbound, Shard};
use crate::jetstream::advise;
use crate::jetstream::directory::ConsumerEntry;
use crate::jetstream::log_thread::Record;
use crate::jetstream::watch;
use jetstream::meta::META_GROUP;

/// What the consumers of one stream may deliver in one turn, so that other streams of the shard get theirs.
const BUDGET: Budget = Budget { messages: 2048, bytes: 4 << 20 };
/// Log bytes of one stream after which it takes a checkpoint.
const CHECKPOINT_BYTES: u64 = 32 << 20;

impl Shard {
    /// Works until no group has anything left, then pays for log and sockets once.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(group) = self.touched.pop() {
                self.finish_group(group);
            }
            let mut worked = false;
            while let Some(output) = self.node.poll() {
                worked = true;
                self.take_output(output);
            }
            if worked || !self.touched.is_empty() {
                continue;
            }
            self.outgoing.flush();
            if !self.send_records() {
                break;
            }
        }
        self.shared.balance_memory();
    }

    /// What a machine left behind: messages it may deliver, commands, effects, a deadline.
    fn finish_group(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        hosted.touched = false;
        if hosted.failed.is_none()
            && let Some(reason) = hosted.stream.failure().map(ToOwned::to_owned)
        {
            self.fail(group, &reason);
        }
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if hosted.leads {
            let mut budget = BUDGET;
            let more = hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                stream.turn(outside, effects, &mut budget)
            });
            if more {
                self.unfinished.push(group);
            }
            self.awaited |= std::mem::take(&mut hosted.effects.awaited);
        }
        if hosted.failed.is_some() {
            // What would have to be written is not, so whoever waits for it is not answered.
            hosted.effects.proposal.clear();
        } else if let Some(proposal) = hosted.take_proposal()
            && let Err(error) = self.node.propose(GroupId(group), proposal)
        {
            self.fail(group, &error.to_string());
        }
        self.carry_out(group);
        self.schedule(group);
    }

    fn schedule(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        let next = hosted.leads.then(|| hosted.stream.poll_timeout()).flatten();
        if next == hosted.deadline {
            return;
        }
        if let Some(old) = hosted.deadline {
            self.deadlines.remove(&(old, group));
        }
        hosted.deadline = next;
        if let Some(next) = next {
            self.deadlines.insert((next, group));
        }
    }

    pub(super) fn carry_out(&mut self, group: u64) {
        while let Some(hosted) = self.hosted.get_mut(&group)
            && let Some(effect) = hosted.effects.queue.pop_front()
        {
            let account = &hosted.entry.account.account;
            match effect {
                Effect::Send(send) => {
                    let message = Outbound {
                        to: &send.subject,
                        subject: &send.subject,
                        reply: send.reply.as_deref(),
                        headers: &send.headers,
                        payload: &send.payload,
                    };
                    self.outgoing.send(account, &message);
                }
                Effect::Deliver(deliver) => {
                    let message = Outbound {
                        to: &deliver.to,
                        subject: &deliver.subject,
                        reply: Some(&deliver.reply).filter(|reply| !reply.is_empty()).map(|reply| &**reply),
                        headers: &deliver.headers,
                        payload: &deliver.payload,
                    };
                    self.outgoing.send(account, &message);
                }
                Effect::Reply(token, result) => {
                    if let Some(respond) = hosted.responders.remove(&token.0) {
                        respond.call(&mut self.outgoing, result);
                    }
                }
                Effect::Advise(advisory) => {
                    advise::publish(&self.shared, &mut self.outgoing, account, *advisory)
                }
                Effect::Watch(subject) => watch::add(&hosted.entry, subject),
                Effect::Unwatch(subject) => watch::remove(&hosted.entry, &subject),
                Effect::Subscribe { inbox, subject } => {
                    hosted.sources.open(&self.shared, &hosted.entry, inbox, &subject);
                }
                Effect::Unsubscribe(inbox) => hosted.sources.close(&self.shared, &hosted.entry, inbox),
                Effect::AnswerForOrigin(answers) => {
                    hosted.entry.answers_for_origin.store(answers, Relaxed);
                }
                Effect::CheckpointSoon => self.begin_checkpoint(group),
                Effect::Damaged(text) => self.report_damage(group, &text),
                Effect::ConsumerAdded(name, number, config) => {
                    hosted.entry.put_consumer(name, ConsumerEntry { number, config });
                }
                Effect::ConsumerRemoved(name) => {
                    hosted.entry.drop_consumer(&name);
                }
            }
        }
    }

    fn report_damage(&mut self, group: u64, text: &str) {
        let Some(hosted) = self.hosted.get(&group) else { return };
        let (account, name) = (hosted.entry.account.account.name(), &hosted.entry.name);
        tracing::error!("JetStream stream '{account} > {name}' is damaged: {text}");
        self.shared.health.damaged(account, name, text);
    }

    fn take_output(&mut self, output: Output) {
        match output {
            Output::Persist { group, ticket, entries, hard_state } => {
                self.persist(group, ticket, entries, hard_state);
            }
            Output::Committed { group, entries, through, term } if group.0 == META_GROUP => {
                self.apply_catalogue(&entries, Place { index: through, term });
            }
            Output::Committed { group, entries, through, term } => {
                self.apply(group.0, &entries, Place { index: through, term });
            }
            Output::Role { group, role: Role::Leader, .. } => self.lead(group.0),
            Output::Role { .. } => {}
            // Groups have one member: there is nobody to send to, and nobody who lags.
            Output::Send { .. } | Output::NeedEntries { .. } | Output::NeedSnapshot { .. } => {
                unreachable!("a group of one has no peers")
            }
        }
    }

    fn persist(
        &mut self,
        group: GroupId,
        ticket: Ticket,
        entries: Vec<Entry>,
        hard_state: Option<HardState>,
    ) {
        let hosted = self.hosted.get_mut(&group.0);
        if hosted.as_ref().is_some_and(|hosted| !hosted.durable) {
            self.node.persisted(group, ticket);
            return;
        }
        if self.log_failed.is_some() {
            return;
        }
        // The catalogue, and what makes a stream begin.
        self.awaited |= hosted.as_ref().is_none_or(|hosted| !hosted.leads);
        let mut bytes = 0;
        if let Some(HardState { term, vote, commit }) = hard_state {
            let state = store::wal::HardState { term, vote: vote.map_or(0, |peer| peer.0), commit };
            self.records.push(Record::HardState { group: group.0, state });
        }
        for Entry { index, term, payload } in entries {
            bytes += payload.len() as u64;
            self.records.push(Record::Entry { group: group.0, index, term, payload });
        }
        self.record_bytes += bytes;
        self.persisted.push((group, ticket));
        if let Some(hosted) = hosted {
            hosted.log_bytes += bytes;
            if hosted.log_bytes > CHECKPOINT_BYTES {
                self.begin_checkpoint(group.0);
            }
        }
    }

    fn apply(&mut self, group: u64, entries: &[Entry], through: Place) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        for entry in entries {
            hosted.with(&mut self.outgoing, self.now, |stream, outside, effects| {
                stream.apply(outside, effects, entry.index, &entry.payload);
            });
        }
        hosted.stream.cover(through.index);
        hosted.applied = through;
        self.touch(group);
    }

    fn lead(&mut self, group: u64) {
        if group == META_GROUP {
            self.catalogue_ready();
            return;
        }
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        hosted.elected = true;
        self.serve(group);
    }
}
