//! What must hold when nothing is in flight.

use api::jetstream::consumer::{ConsumerInfo, DeliverPolicy};
use jetstream::{Request, Token};
use store::stream::Filter;

use super::{Run, configs};
use crate::history::{Asked, History, Rule, lets_through};
use crate::shell::Server;

/// Rounds after which work that does not end is stuck.
const ROUNDS_MAX: usize = 10_000;
/// Segments that the log may have when everything is released.
const SEGMENTS_MAX: usize = 4;

impl Run {
    /// Lets everything come to rest and looks at all of it.
    pub(super) fn quiesce(&mut self) {
        self.rest();
        let Some(server) = &self.server else { return };
        if self.disk.is_down() || server.has_failed() && self.has_faults {
            return;
        }
        self.check_names();
        self.check_answers();
        self.read_all();
        self.observe_all();
        self.ask_pending();
    }

    /// Works until nothing is left.
    pub(super) fn rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let Some(server) = &mut self.server else { return };
            server.turn();
            server.write_log();
            while server.jobs() > 0 {
                server.run_job(0);
            }
            if server.is_idle() {
                self.take_out();
                // What answers letters makes work again.
                if self.server.as_ref().is_none_or(Server::is_idle) {
                    return;
                }
            }
        }
        self.history.violate(Rule::Stuck, format!("not at rest after {ROUNDS_MAX} rounds"));
    }

    /// Everything that is released leaves the log, and every stream still takes messages.
    pub(super) fn check_end(&mut self) {
        let Some(server) = &mut self.server else { return };
        if server.has_failed() {
            return;
        }
        let groups: Vec<u64> = self.history.streams.keys().copied().collect();
        groups.iter().for_each(|group| server.checkpoint(*group));
        server.checkpoint(jetstream::meta::META_GROUP);
        self.rest();
        for group in groups {
            let name = self.history.streams[&group].name.clone();
            if self.server.as_ref().is_some_and(|server| server.is_healthy(group)) {
                self.publish_one(group, format!("{name}.k0"));
            }
        }
        self.quiesce();
        let segments = self.server.as_ref().map_or(0, Server::log_segments);
        let held = self.server.as_ref().map(Server::log_holders).unwrap_or_default();
        if segments > SEGMENTS_MAX && !self.log_is_damaged && !self.has_faults && !self.disk.is_down() {
            self.history.violate(
                Rule::LogGrows,
                format!("{segments} segments when all is released, held by {held:?}"),
            );
        }
    }

    fn check_names(&mut self) {
        let Some(server) = &self.server else { return };
        for name in configs::STREAMS {
            let now = server.known(name).map(|(group, config)| (group, config.clone()));
            let changing = self.history.waiting_for(name);
            let known_now = self.history.names.entry(name.to_owned()).or_default();
            let config = now.as_ref().map(|(_, config)| config.clone());
            if known_now.is_unsure && !changing || self.log_is_damaged {
                known_now.is_unsure = false;
                known_now.config = config;
            } else if !known_now.is_unsure && known_now.config != config {
                let text = format!("{name} is {config:?}, clients were told {:?}", known_now.config);
                self.history.violate(Rule::Catalogue, text);
                continue;
            }
            match now {
                None => self.history.streams.retain(|_, stream| stream.name != name),
                // What could not be opened is told, and tried again at the next start.
                Some((group, _)) if self.has_faults && !server.is_healthy(group) => {}
                Some((group, config)) => check_stream(&mut self.history, server, group, &config),
            }
        }
    }

    /// Who asked is answered.
    fn check_answers(&mut self) {
        let Some(server) = &self.server else { return };
        let unanswered = self.history.waiting().find(|(_, asked)| match asked {
            Asked::Publish { group } | Asked::Purge { group, .. } | Asked::Delete { group, .. } => {
                server.is_healthy(*group)
            }
            Asked::ConfigureConsumer { group, .. } | Asked::DeleteConsumer { group, .. } => {
                server.is_healthy(*group)
            }
            _ => false,
        });
        if let Some((operation, asked)) = unanswered {
            let text = format!("operation {operation} is not answered: {asked:?}");
            self.history.violate(Rule::Stuck, text);
        }
    }

    /// Reads every message, so that damage that only reading finds is told before anything is held against it.
    fn read_all(&mut self) {
        let Some(server) = &mut self.server else { return };
        for (group, history) in &self.history.streams {
            let Some(stream) = server.stream(*group).filter(|_| history.is_injected) else { continue };
            let mut next = 0;
            while let Ok(Some(message)) = stream.store().next(&Filter::All, next) {
                next = message.sequence + 1;
            }
            server.touch(*group);
        }
        server.turn();
        self.take_out();
    }

    fn observe_all(&mut self) {
        let Some(server) = &self.server else { return };
        let groups: Vec<u64> = self.history.streams.keys().copied().collect();
        for group in groups {
            // What a stream shows whose disk failed is not believed, and that was told.
            let stream = server.stream(group).filter(|stream| stream.failure().is_none());
            let Some(stream) = stream else { continue };
            let Some(history) = self.history.streams.get_mut(&group) else { continue };
            if history.must_adopt {
                history.taint(stream.state().last_sequence);
            }
            if !history.is_injected && server.is_healthy(group) {
                self.witness.borrow_mut().compare(group, stream);
            }
            self.history.observe(group, stream, self.now);
        }
    }

    fn ask_pending(&mut self) {
        let groups: Vec<u64> = self.history.streams.keys().copied().collect();
        for group in groups {
            let Some(server) = self.server.as_mut().filter(|server| server.is_healthy(group)) else {
                continue;
            };
            let names: Vec<String> = server
                .stream(group)
                .into_iter()
                .flat_map(jetstream::Stream::consumers)
                .map(|consumer| consumer.name().to_owned())
                .collect();
            for name in names {
                let consumer = name.as_str().into();
                let operation = self.history.ask(Asked::ConsumerInfo { group, name });
                server.request(group, Token(operation), Request::ConsumerInfo { consumer });
            }
            server.turn();
        }
        self.take_out();
    }

    /// `num_pending` against a count of the messages.
    pub(super) fn check_pending(&mut self, group: u64, name: &str, info: &ConsumerInfo) {
        let Some(stream) = self.server.as_ref().and_then(|server| server.stream(group)) else { return };
        let config = info.config.clone().unwrap_or_default();
        let filter = config.filters().join(",");
        let mut count = 0;
        let mut next = info.delivered.stream_seq + 1;
        while let Ok(Some(message)) = stream.store().next(&Filter::All, next) {
            next = message.sequence + 1;
            count += u64::from(lets_through(&filter, &message.subject));
        }
        // Messages that were passed over for others of their subject are still to come.
        count += info.subjects_ack_pending.as_ref().map_or(0, |subjects| subjects.held_back);
        let is_injected = self.history.streams.get(&group).is_none_or(|history| history.is_injected);
        // Of what was there at its beginning such a consumer wants only the last of each subject.
        let is_wrong = match config.deliver_policy {
            DeliverPolicy::LastPerSubject => info.num_pending > count,
            _ => info.num_pending != count,
        };
        if is_wrong && !is_injected {
            let text =
                format!("group {group}: {name} has {} pending, {count} can be counted", info.num_pending);
            self.history.violate(Rule::Pending, text);
        }
    }
}

/// A stream of the catalogue is there, with the configuration of the catalogue.
fn check_stream(
    history: &mut History,
    server: &Server,
    group: u64,
    config: &api::jetstream::stream::StreamConfig,
) {
    let known = history.streams.get(&group);
    let is_excused = known.is_some_and(|known| known.is_injected && known.is_reported);
    let injected_elsewhere = history.streams.values().any(|stream| stream.is_injected);
    let rule = if injected_elsewhere { Rule::OthersStopped } else { Rule::Stuck };
    if !server.is_healthy(group) && !is_excused {
        return history.violate(rule, format!("{} does not lead", config.name));
    }
    if let Some(stream) = server.stream(group)
        && **stream.config() != *config
        && !is_excused
    {
        let text = format!("{}: the stream has {:?}, the catalogue {config:?}", config.name, stream.config());
        history.violate(Rule::Catalogue, text);
    }
}
