//! What happens next: clients, threads, time, faults.

use api::jetstream::consumer::{ConsumerAction, DeliverPolicy};
use api::jetstream::request::Purge;
use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use jetstream::{Publish, Request, Token};

use super::{Run, configs};
use crate::history::{Asked, ConsumerHistory, Published, PurgeAsked, StreamHistory};
use crate::shell::Wanted;
use crate::world::SECOND;

/// Deliveries that clients keep to answer later.
const DELIVERIES_MAX: usize = 400;

impl Run {
    /// One step.
    pub(super) fn step(&mut self) {
        if self.disk.is_down() {
            return self.crash();
        }
        if self.server.as_ref().is_none_or(|server| server.has_failed()) && self.random.one_in(4) {
            return self.kill();
        }
        match self.random.below(100) {
            0..=33 => self.publish(),
            34..=41 => self.pull(),
            42..=53 => self.answer_delivery(),
            54..=57 => self.remove(),
            58..=60 => self.change_consumers(),
            61..=63 => self.change_streams(),
            64..=66 => self.checkpoint(),
            67..=71 => self.run_job(),
            72..=87 => self.write_log(),
            88..=89 => self.with_server(|server| server.mark_log()),
            90..=92 => self.pass_time(),
            93..=95 => self.quiesce(),
            _ => self.make_trouble(),
        }
        self.take_out();
    }

    fn with_server(&mut self, work: impl FnOnce(&mut crate::shell::Server)) {
        if let Some(server) = &mut self.server {
            work(server);
            server.turn();
        }
    }

    fn write_log(&mut self) {
        self.with_server(crate::shell::Server::write_log);
    }

    fn run_job(&mut self) {
        let Some(server) = &mut self.server else { return };
        if server.jobs() > 0 {
            let number = self.random.below(server.jobs() as u64) as usize;
            server.run_job(number);
            server.turn();
        }
    }

    fn pass_time(&mut self) {
        let nanos = self.random.below(3_000) as i64 * (SECOND / 1000);
        self.with_server(|server| server.pass(nanos));
        self.now = self.server.as_ref().map_or(self.now + nanos, |server| server.now());
    }

    fn checkpoint(&mut self) {
        let Some(group) = self.some_group() else { return };
        self.with_server(|server| server.checkpoint(group));
    }

    /// A stream that takes requests.
    pub(super) fn some_group(&mut self) -> Option<u64> {
        let server = self.server.as_ref()?;
        let groups: Vec<u64> =
            self.history.streams.keys().copied().filter(|group| server.is_healthy(*group)).collect();
        self.random.pick(&groups).copied()
    }

    fn publish(&mut self) {
        let Some(group) = self.some_group() else { return self.change_streams() };
        let name = self.history.streams[&group].name.clone();
        for _ in 0..=self.random.below(4) {
            let subject = format!("{name}.k{}", self.random.below(configs::SUBJECTS));
            self.publish_one(group, subject);
        }
        self.with_server(|_| ());
    }

    /// One message with headers drawn at random.
    pub(super) fn publish_one(&mut self, group: u64, subject: String) {
        let operation = self.history.ask(Asked::Publish { group });
        let filler = match self.random.below(20) {
            0 => 3000,
            _ => self.random.below(200) as usize,
        };
        let payload = Bytes::from(format!("{operation}:{}", "x".repeat(filler)));
        let id = self.random.one_in(3).then(|| format!("id{}", self.random.below(12)));
        let ttl = self.random.one_in(12).then(|| 1 + self.random.below(5) as i64);
        let rolls_up = self.random.one_in(25);
        let mut headers = String::from("NATS/1.0\r\n");
        if let Some(id) = &id {
            headers.push_str(&format!("Nats-Msg-Id: {id}\r\n"));
        }
        if let Some(ttl) = ttl {
            headers.push_str(&format!("Nats-TTL: {ttl}s\r\n"));
        }
        if rolls_up {
            headers.push_str("Nats-Rollup: sub\r\n");
        }
        let headers = if headers.len() > 10 { Bytes::from(headers + "\r\n") } else { Bytes::new() };
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        let published = Published {
            wanted: history.is_wanted(&subject),
            subject: subject.clone(),
            payload: payload.clone(),
            id,
            at: self.now,
            ends: ttl.map(|ttl| self.now + ttl * SECOND),
            rolls_up,
            sequence: None,
        };
        history.published.insert(operation, published);
        let reply = Some(Bytes::from(format!("r.{operation}")));
        if let Some(server) = &mut self.server {
            server.publish(group, Publish { subject: subject.into(), reply, headers, payload });
        }
    }

    fn pull(&mut self) {
        let Some(group) = self.some_group() else { return };
        let Some(consumer) = self.random.pick(&configs::CONSUMERS).copied() else { return };
        let body = format!("{{\"batch\":{},\"expires\":{}}}", 1 + self.random.below(10), 2 * SECOND);
        self.with_server(|server| server.pull(group, consumer, &Bytes::from_static(b"p"), body.as_bytes()));
    }

    fn answer_delivery(&mut self) {
        if self.deliveries.is_empty() {
            return self.pull();
        }
        for _ in 0..=self.random.below(3) {
            if self.deliveries.is_empty() {
                break;
            }
            let number = self.random.below(self.deliveries.len() as u64) as usize;
            let delivery = self.deliveries.swap_remove(number);
            let body: &[u8] = match self.random.below(12) {
                0 | 1 => b"-NAK",
                2 => b"+WPI",
                3 => b"+TERM",
                4 => b"-NAK {\"delay\": 1000000000}",
                _ => b"+ACK",
            };
            self.acknowledge(delivery, body);
        }
        self.with_server(|_| ());
    }

    /// Answers a delivery; acknowledgements are mostly confirmed.
    pub(super) fn acknowledge(&mut self, delivery: super::Delivery, body: &[u8]) {
        let super::Delivery { group, consumer, epoch, sequence, subject } = delivery;
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        if matches!(body, b"+ACK" | b"+TERM") {
            history.done.insert(sequence);
            if let Some(known) = history.consumers.get(&consumer).filter(|_| configs::acks_all(&consumer)) {
                history.done.extend(known.delivered.range(..=sequence));
            }
        }
        if body == b"+ACK" {
            history.letters.acked.insert(sequence);
        }
        // To another consumer of the same name it may mean nothing.
        let is_same = history.consumers.get(&consumer).is_some_and(|known| known.epoch == epoch);
        let reply = (body == b"+ACK" && is_same && !self.random.one_in(4)).then(|| {
            let consumer = consumer.clone();
            let operation = self.history.ask(Asked::Ack { group, consumer, epoch, sequence });
            Bytes::from(format!("a.{operation}"))
        });
        let gives_up = body == b"+TERM" && is_same && consumer == configs::CONSUMERS[1];
        let reply = match gives_up {
            true => {
                let operation = self.history.ask(Asked::Term { group, consumer, epoch, sequence });
                Some(Bytes::from(format!("t.{operation}")))
            }
            false => reply,
        };
        if let Some(server) = &mut self.server {
            server.ack(group, &subject, reply.as_ref(), body);
        }
    }

    fn remove(&mut self) {
        let Some(group) = self.some_group() else { return };
        if self.random.one_in(3) {
            self.purge(group)
        } else {
            self.delete(group)
        }
        self.with_server(|_| ());
    }

    fn delete(&mut self, group: u64) {
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        let newest = history.bound.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let sequence = newest.saturating_sub(self.random.below(20)).max(1);
        history.deletes.insert(sequence);
        let operation = self.history.ask(Asked::Delete { group, sequence });
        let erase = self.random.one_in(2);
        if let Some(server) = &mut self.server {
            server.request(group, Token(operation), Request::DeleteMessage { sequence, erase });
        }
    }

    fn purge(&mut self, group: u64) {
        let Some(history) = self.history.streams.get(&group) else { return };
        let newest = history.bound.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let filter = match self.random.below(3) {
            0 => String::new(),
            1 => format!("{}.k{}", history.name, self.random.below(configs::SUBJECTS)),
            _ => format!("{}.*", history.name),
        };
        // Not beyond the end: that would use up sequences.
        let seq = if self.random.one_in(2) { newest.saturating_sub(self.random.below(10)).max(1) } else { 0 };
        let keep = if seq == 0 && self.random.one_in(3) { 1 + self.random.below(4) } else { 0 };
        let covers = |(sequence, operation): (&u64, &u64)| {
            let message = history.published.get(operation)?;
            let matches =
                filter.is_empty() || subject::matches(message.subject.as_bytes(), filter.as_bytes());
            (keep == 0 && matches && (seq == 0 || *sequence < seq)).then_some(*sequence)
        };
        let covers = history.bound.iter().filter_map(covers).collect();
        let operation = self.history.ask(Asked::Purge { group, covers });
        if let Some(history) = self.history.streams.get_mut(&group) {
            history.purges.push(PurgeAsked { operation, filter: filter.clone(), below: seq });
        }
        if let Some(server) = &mut self.server {
            server.request(group, Token(operation), Request::Purge(Purge { seq, filter, keep }));
        }
    }

    fn change_consumers(&mut self) {
        let Some(group) = self.some_group() else { return };
        let Some(name) = self.random.pick(&configs::CONSUMERS).copied() else { return };
        let next = self.history.operations() + 1;
        if self.history.is_changing(group, name) {
            return;
        }
        let Some(history) = self.history.streams.get_mut(&group) else { return };
        let consumer = history.consumers.entry(name.to_owned()).or_insert_with(ConsumerHistory::never);
        let name = name.to_owned();
        let (asked, request) = if consumer.is_sure && self.random.one_in(3) {
            consumer.deleting();
            history.consumer_gone = next;
            let request = Request::DeleteConsumer { consumer: name.as_str().into() };
            (Asked::DeleteConsumer { group, name }, request)
        } else {
            let filter = configs::filter(&history.name, &name, &mut self.random);
            let stream = self.server.as_ref().and_then(|server| server.stream(group));
            let before = stream.and_then(|stream| stream.consumer(&name)).map(|consumer| consumer.config());
            let before = before.map(|config| &**config);
            let config = Box::new(configs::consumer(&name, &filter, before, &mut self.random));
            let begins_late = config.deliver_policy == DeliverPolicy::ByStartSequence;
            if consumer.configuring(&filter, begins_late) {
                history.consumer_gone = next;
            }
            let action = ConsumerAction::default();
            let request = Request::CreateConsumer { config, action, pedantic: false };
            (Asked::ConfigureConsumer { group, name, filter }, request)
        };
        let operation = self.history.ask(asked);
        self.with_server(|server| server.request(group, Token(operation), request));
    }

    fn change_streams(&mut self) {
        let Some(name) = self.random.pick(&configs::STREAMS).copied() else { return };
        let Some(server) = self.server.as_ref().filter(|server| server.is_ready()) else { return };
        let current = server.known(name).map(|(group, config)| (group, config.clone()));
        let known = self.history.names.entry(name.to_owned()).or_default();
        if known.is_unsure {
            return;
        }
        known.is_unsure = true;
        let (asked, wanted) = match current {
            None => {
                let config = Box::new(configs::stream(name, &mut self.random));
                (Asked::CreateStream(config.clone()), Wanted::Create(config))
            }
            Some((group, config)) if self.random.one_in(2) => self.update(group, &config),
            Some(_) => (Asked::DeleteStream(name.to_owned()), Wanted::Delete(name.to_owned())),
        };
        let operation = self.history.ask(asked);
        self.with_server(|server| server.change(Token(operation), wanted));
    }

    fn update(&mut self, group: u64, config: &StreamConfig) -> (Asked, Wanted) {
        let config = Box::new(configs::update(config, &mut self.random));
        if let Some(history) = self.history.streams.get_mut(&group) {
            history.tightest.tighten(&config);
        }
        (Asked::UpdateStream(config.clone()), Wanted::Update(config))
    }

    /// Streams that the catalogue has and clients learn of.
    pub(super) fn learn_streams(&mut self) {
        let Some(server) = &self.server else { return };
        for name in configs::STREAMS {
            let Some((group, config)) = server.known(name) else { continue };
            if server.stream(group).is_some() && !self.history.streams.contains_key(&group) {
                self.history.streams.retain(|_, stream| stream.name != name);
                self.history.streams.insert(group, StreamHistory::new(config));
            }
        }
    }

    /// Keeps a delivery for later.
    pub(super) fn keep_delivery(&mut self, delivery: super::Delivery) {
        if self.deliveries.len() < DELIVERIES_MAX {
            self.deliveries.push(delivery);
        }
    }
}
