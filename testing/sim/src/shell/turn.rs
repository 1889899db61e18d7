//! A turn: inputs go to machines, commands to groups, committed ones are applied, effects are carried out, until nothing is left.

use jetstream::Response;
use jetstream::consumer::Budget;
use jetstream::effect::Effect;
use jetstream::meta::META_GROUP;
use multiraft::{Entry, GroupId, HardState, Output, Position, Role, Ticket};

use super::log::Record;
use super::{Input, Out, Server};
use crate::plant::Plant;

/// What the consumers of one stream deliver in one go.
const BUDGET: Budget = Budget { messages: 8, bytes: 1 << 20 };

impl Server {
    pub(super) fn handle(&mut self, input: Input) {
        match input {
            Input::Persisted(persisted) => {
                for (group, ticket) in persisted {
                    self.node.persisted(group, ticket);
                }
            }
            Input::LogFailed(reason) => {
                self.log_failed.get_or_insert_with(|| reason.clone());
                self.fail_all(&reason);
            }
            Input::CheckpointDone(group, done) => self.checkpoint_done(group, done),
            Input::Checkpoint(group) => self.begin_checkpoint(group),
            Input::Open { group, name, log, token } => self.open(group, &name, log, token),
            Input::Destroy(group, token) => self.destroy(group, token),
            Input::Request(group, request, token) => self.handle_request(group, token, *request),
        }
    }

    pub(super) fn settle(&mut self) {
        loop {
            while let Some(group) = self.touched.pop_first() {
                self.finish_group(group);
            }
            let mut worked = false;
            while let Some(output) = self.node.poll() {
                worked = true;
                self.take_output(output);
            }
            if !worked && self.touched.is_empty() {
                break;
            }
        }
        self.send_records();
    }

    pub(super) fn send_records(&mut self) {
        if !self.batch.records.is_empty() {
            self.queue.push_back(std::mem::take(&mut self.batch));
        }
    }

    fn finish_group(&mut self, group: u64) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if hosted.leads {
            let mut budget = BUDGET;
            if hosted.stream.turn(&mut self.world, &mut hosted.effects, &mut budget) {
                self.touched.insert(group);
            }
        }
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        if hosted.failed.is_some() {
            hosted.effects.proposal.clear();
        } else if !hosted.effects.proposal.is_empty() {
            let proposal = hosted.effects.proposal.split().freeze();
            if let Err(error) = self.node.propose(GroupId(group), proposal) {
                self.fail(group, &error.to_string());
            }
        }
        self.carry_out(group);
    }

    fn carry_out(&mut self, group: u64) {
        while let Some(hosted) = self.hosted.get_mut(&group)
            && let Some(effect) = hosted.effects.queue.pop_front()
        {
            match effect {
                Effect::Send(send) => {
                    let jetstream::effect::Send { subject, reply, payload, .. } = send;
                    self.out.push_back(Out::Sent { group, subject, reply, payload });
                }
                Effect::Deliver(deliver) => {
                    self.out.push_back(Out::Delivered { group, deliver: Box::new(deliver) });
                }
                Effect::Reply(token, mut result) => {
                    if let (Some(Plant::PendingWrong), Ok(Response::Consumer(info))) =
                        (self.settings.plant, &mut result)
                    {
                        info.num_pending += 1;
                    }
                    self.out.push_back(Out::Reply { token, result });
                }
                Effect::CheckpointSoon => self.begin_checkpoint(group),
                Effect::Damaged(text) => self.tell_damage(group, text),
                // Advisories, interest and the directory of consumers: nothing here depends on them.
                _ => {}
            }
        }
    }

    fn take_output(&mut self, output: Output) {
        match output {
            Output::Persist { group, ticket, entries, hard_state } => {
                self.persist(group, ticket, entries, hard_state);
            }
            Output::Committed { group, entries, through, term } => {
                let through = Position { index: through, term };
                if group.0 == META_GROUP {
                    self.apply_catalogue(&entries, through);
                } else {
                    self.apply(group.0, &entries, through);
                }
            }
            Output::Role { group, role: Role::Leader, .. } if group.0 == META_GROUP => self.catalogue_ready(),
            Output::Role { group, role: Role::Leader, .. } => self.lead(group.0),
            Output::Role { .. } => {}
            Output::Send { .. } | Output::NeedEntries { .. } | Output::NeedSnapshot { .. } => {
                unreachable!("a group of one has no peers")
            }
        }
    }

    fn persist(&mut self, group: GroupId, ticket: Ticket, entries: Vec<Entry>, state: Option<HardState>) {
        let hosted = self.hosted.get_mut(&group.0);
        if hosted.as_ref().is_some_and(|hosted| !hosted.durable) {
            self.node.persisted(group, ticket);
            return;
        }
        if self.log_failed.is_some() {
            return;
        }
        if let Some(HardState { term, vote, commit }) = state {
            let state = store::wal::HardState { term, vote: vote.map_or(0, |peer| peer.0), commit };
            self.batch.records.push(Record::HardState { group: group.0, state });
        }
        let mut bytes = 0;
        for Entry { index, term, payload } in entries {
            bytes += payload.len() as u64;
            self.batch.records.push(Record::Entry { group: group.0, index, term, payload });
        }
        self.batch.persisted.push((group, ticket));
        if self.settings.plant == Some(Plant::AckBeforePersisted) {
            self.node.persisted(group, ticket);
        }
        if let Some(hosted) = self.hosted.get_mut(&group.0) {
            hosted.log_bytes += bytes;
            if hosted.log_bytes > self.settings.checkpoint_bytes {
                self.begin_checkpoint(group.0);
            }
        }
    }

    fn apply(&mut self, group: u64, entries: &[Entry], through: Position) {
        let Some(hosted) = self.hosted.get_mut(&group) else { return };
        for entry in entries {
            self.witness.borrow_mut().applied(group, entry.index, &entry.payload);
            hosted.stream.apply(&mut self.world, &mut hosted.effects, entry.index, &entry.payload);
        }
        hosted.stream.cover(through.index);
        hosted.applied = through;
        self.touched.insert(group);
    }
}
