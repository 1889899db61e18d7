//! What the server says, and what clients know from then on.

use jetstream::consumer::AckSubject;
use jetstream::effect::Deliver;
use jetstream::{Response, Token};
use serde_json::Value;

use super::{Delivery, Run, configs};
use crate::history::{Asked, ConsumerHistory, Rule, operation_of};
use crate::shell::Out;

impl Run {
    /// Takes everything that the server has said.
    pub(super) fn take_out(&mut self) {
        let Some(server) = &mut self.server else { return };
        let out = server.take_out();
        let is_down = self.disk.is_down();
        for out in out {
            if matches!(out, Out::Damaged { .. } | Out::Failed { .. }) {
                self.trace(|| format!("{out:?}"));
            }
            match out {
                Out::Sent { group, reply: Some(reply), subject, payload }
                    if *subject == *configs::DEAD_LETTERS.as_bytes() =>
                {
                    self.letter(group, &reply, &payload);
                }
                Out::Sent { group, subject, payload, .. } => self.sent(group, &subject, &payload),
                Out::Delivered { group, deliver } => self.delivered(group, &deliver),
                Out::Reply { token, result } => self.replied(token, result),
                // A disk without power is no disk: what is said of it does not count.
                Out::Damaged { .. } | Out::Failed { .. } if is_down => {}
                Out::Damaged { group, text } => self.damage_told(group, &text),
                Out::Failed { group, reason } => self.failure_told(group, &reason),
            }
        }
        self.learn_streams();
    }

    fn sent(&mut self, group: u64, subject: &[u8], payload: &[u8]) {
        let Some((kind, number)) = std::str::from_utf8(subject).ok().and_then(|text| text.split_once('.'))
        else {
            return;
        };
        let Ok(operation) = number.parse() else { return };
        match (kind, self.history.answered(operation)) {
            ("r", Some(Asked::Publish { .. })) => self.publish_answered(group, operation, payload),
            ("a", Some(Asked::Ack { group, consumer, epoch, sequence })) => {
                let history = self.history.streams.get_mut(&group);
                let known = history.and_then(|history| history.consumers.get_mut(&consumer));
                if let Some(known) = known.filter(|known| known.epoch == epoch) {
                    known.confirmed.insert(sequence);
                    if configs::acks_all(&consumer) {
                        known.confirmed.extend(known.delivered.range(..=sequence));
                    }
                }
            }
            ("t", Some(Asked::Term { group, consumer, epoch, sequence })) => {
                let stream = self.server.as_ref().and_then(|server| server.stream(group));
                if let (Some(stream), Some(history)) = (stream, self.history.streams.get_mut(&group)) {
                    history.condemned(stream, sequence, (consumer, epoch));
                }
            }
            _ => {}
        }
    }

    /// A dead letter: the other stream stores it, refuses it, or is not there; and its answer may be lost.
    fn letter(&mut self, group: u64, reply: &[u8], payload: &[u8]) {
        let body: &[u8] = match self.random.below(8) {
            0 => return,
            1 => {
                br#"{"error":{"code":503,"err_code":10077,"description":"no room"},"stream":"DEAD","seq":0}"#
            }
            _ => br#"{"stream":"DEAD","seq":1}"#,
        };
        let is_stored = body.starts_with(b"{\"stream");
        let operation = operation_of(payload);
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        match operation.filter(|operation| history.published.contains_key(operation)) {
            Some(operation) if is_stored => drop(history.letters.stored.insert(operation)),
            Some(_) => {}
            None if history.is_tainted => {}
            None => {
                let text = format!("{}: the dead letter {payload:?} is no message", history.name);
                self.history.violate(Rule::Content, text);
            }
        }
        let is_answered = !is_stored || !self.random.one_in(5);
        if let Some(server) = self.server.as_mut().filter(|_| is_answered) {
            server.ack(group, reply, None, body);
        }
    }

    fn publish_answered(&mut self, group: u64, operation: u64, payload: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(payload) else {
            return self.history.violate(Rule::Content, format!("{payload:?} is no answer to a publish"));
        };
        let sequence = answer["seq"].as_u64().filter(|_| answer.get("error").is_none());
        let Some(sequence) = sequence else { return };
        self.outcome.acknowledged += 1;
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        if answer["duplicate"].as_bool() == Some(true) {
            return self.check_duplicate(group, operation, sequence);
        }
        let wrong = history.bind(operation, sequence);
        history.held.insert(operation);
        if let Some(wrong) = wrong {
            self.history.violate(Rule::SequenceReused, wrong);
        }
        self.check_first(group, operation);
    }

    /// A publish was taken for one that came before: there must be one.
    fn check_duplicate(&mut self, group: u64, operation: u64, sequence: u64) {
        let Some(history) = self.history.streams.get(&group) else { return };
        let id = history.published.get(&operation).and_then(|message| message.id.clone());
        let mut others = history.published.range(..operation);
        let is_known =
            others.any(|(_, other)| other.id == id && other.sequence.is_none_or(|at| at == sequence));
        if id.is_none() || !is_known {
            let text = format!("{}: message {operation} is no duplicate of {sequence}", history.name);
            self.history.violate(Rule::Dedupe, text);
        }
    }

    /// A publish was taken as new: nothing that is still there may have had its id within the window.
    fn check_first(&mut self, group: u64, operation: u64) {
        let Some(history) = self.history.streams.get(&group) else { return };
        let Some(message) = history.published.get(&operation) else { return };
        let Some(id) = &message.id else { return };
        if history.is_tainted {
            return;
        }
        let Some(stream) = self.server.as_ref().and_then(|server| server.stream(group)) else { return };
        let clash = history.published.range(..operation).find(|(other, earlier)| {
            let is_there = |sequence| matches!(stream.store().load(sequence), Ok(Some(_)));
            earlier.id.as_ref() == Some(id)
                && history.held.contains(other)
                && message.at < earlier.at + history.window
                && self.now < earlier.at + history.window
                && earlier.sequence.is_some_and(is_there)
        });
        if let Some((other, _)) = clash {
            let text =
                format!("{}: messages {other} and {operation} have id {id} and are stored", history.name);
            self.history.violate(Rule::Dedupe, text);
        }
    }

    fn delivered(&mut self, group: u64, deliver: &Deliver) {
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        let Some(ack) = AckSubject::parse(&deliver.reply) else { return };
        let Some(sequence) = ack.tokens.map(|tokens| tokens.stream_sequence) else { return };
        let wrong = history.check_message(sequence, &deliver.subject, &deliver.payload);
        let is_tainted = history.is_tainted;
        let known = history.consumers.entry(ack.consumer.to_owned()).or_insert_with(ConsumerHistory::never);
        known.delivered.insert(sequence);
        if configs::acks_nothing(ack.consumer) {
            history.done.insert(sequence);
        }
        let epoch = known.epoch;
        let is_again = known.confirmed.contains(&sequence) && !is_tainted;
        let name = history.name.clone();
        if let Some(wrong) = wrong {
            self.history.violate(wrong.rule, wrong.text);
        }
        if is_again {
            let text = format!("{name}: {sequence} is delivered to {} after its confirmation", ack.consumer);
            self.history.violate(Rule::AckForgotten, text);
        }
        let subject = deliver.reply.clone();
        self.keep_delivery(Delivery { group, consumer: ack.consumer.to_owned(), epoch, sequence, subject });
    }

    fn replied(&mut self, token: Token, result: Result<Response, api::ApiError>) {
        let Some(asked) = self.history.answered(token.0) else { return };
        let is_done = result.is_ok();
        match asked {
            Asked::Purge { group, covers } if is_done => {
                if let Some(history) = self.history.streams.get_mut(&group) {
                    history.removed.extend(covers);
                }
            }
            Asked::Delete { group, sequence } if is_done => {
                if let Some(history) = self.history.streams.get_mut(&group) {
                    history.removed.insert(sequence);
                }
            }
            Asked::ConfigureConsumer { group, name, filter } => {
                self.consumer_answered(group, &name, is_done, Some(filter));
            }
            Asked::DeleteConsumer { group, name } => self.consumer_answered(group, &name, is_done, None),
            Asked::ConsumerInfo { group, name } => {
                if let Ok(Response::Consumer(info)) = result {
                    self.check_pending(group, &name, &info);
                }
            }
            Asked::CreateStream(config) => {
                let known = self.history.names.entry(config.name.clone()).or_default();
                known.is_unsure = false;
                if is_done {
                    known.config = Some(*config);
                }
            }
            Asked::UpdateStream(config) => {
                let known = self.history.names.entry(config.name.clone()).or_default();
                if is_done {
                    known.is_unsure = false;
                    known.config = Some(*config);
                }
            }
            Asked::DeleteStream(name) => {
                let known = self.history.names.entry(name.clone()).or_default();
                known.is_unsure = false;
                if is_done {
                    known.config = None;
                    self.history.streams.retain(|_, stream| stream.name != name);
                }
            }
            _ => {}
        }
    }

    /// A consumer was configured with a filter, or deleted.
    fn consumer_answered(&mut self, group: u64, name: &str, is_done: bool, filter: Option<String>) {
        let history = self.history.streams.get_mut(&group);
        let Some(known) = history.and_then(|history| history.consumers.get_mut(name)) else { return };
        match (is_done, filter) {
            (true, None) => known.deleted(),
            (true, Some(filter)) => known.configured(filter),
            (false, None) => {}
            (false, Some(filter)) => known.refused(&filter),
        }
    }

    fn damage_told(&mut self, group: u64, text: &str) {
        if group == 0 {
            if !self.log_is_damaged {
                let text = format!("the log is said to be damaged, and is not: {text}");
                self.history.violate(Rule::UncausedDamage, text);
            }
            self.history.streams.values_mut().for_each(crate::history::StreamHistory::reported);
            return;
        }
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        history.reported();
        if !history.is_injected && !self.has_faults {
            let text = format!("{} is said to be damaged, and is not: {text}", history.name);
            self.history.violate(Rule::UncausedDamage, text);
        }
    }

    fn failure_told(&mut self, group: u64, reason: &str) {
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        history.reported();
        if history.is_injected || self.has_faults {
            return;
        }
        let rule = if self.log_is_damaged || self.history.streams.values().any(|history| history.is_injected)
        {
            Rule::OthersStopped
        } else {
            Rule::UncausedDamage
        };
        self.history.violate(rule, format!("group {group} failed without a fault of its own: {reason}"));
    }
}
