//! Scripts in `testdata/consumer/*.txt`: lines that begin with `> ` are done, the lines below show what came of it. `UPDATE=1` writes
//! those anew.
//!
//! `stream <retention>`, `at <milliseconds>`, `publish <subject> <payload>..` before or after `create <configuration>`, `pull <reply> <body>`,
//! `ack <acknowledgement subject> <body> [<reply>]`, `interest <subject>`, `gone <subject>`, `advance <milliseconds>`, `delete <sequence>`,
//! `purge <sequence>`, `update <configuration>`, `reset <sequence>`, `unpin`, `flow <subject> <headers>`, `info`, `delete-consumer`.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use api::jetstream::consumer::ConsumerConfig;
use api::jetstream::stream::Retention;
use bytes::Bytes;
use jetstream::consumer::RemoveReason;
use jetstream::effect::Effect;

use crate::harness::{Entry, Harness, START};

fn show(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=80 => bytes.escape_ascii().to_string(),
        length => {
            let always = bytes.iter().all(|byte| *byte == bytes[0]);
            if always {
                format!("{}*{length}", bytes[..1].escape_ascii())
            } else {
                bytes.escape_ascii().to_string()
            }
        }
    }
}

fn trace(effect: Effect) -> String {
    match effect {
        Effect::Send(send) => {
            let mut text = format!("send {} {}", show(&send.subject), show(&send.headers));
            if let Some(reply) = &send.reply {
                write!(text, " reply={}", show(reply)).unwrap();
            }
            if !send.payload.is_empty() {
                write!(text, " payload={}", show(&send.payload)).unwrap();
            }
            text
        }
        Effect::Deliver(deliver) => {
            let (to, subject, reply) = (show(&deliver.to), show(&deliver.subject), show(&deliver.reply));
            let headers = show(&deliver.headers);
            format!("deliver to={to} {subject} {reply} {headers} {}", show(&deliver.payload))
        }
        Effect::Watch(subject) => format!("watch {}", show(&subject)),
        Effect::Unwatch(subject) => format!("unwatch {}", show(&subject)),
        other => format!("{other:?}"),
    }
}

#[derive(Default)]
struct Script {
    retention: Retention,
    /// Subject, payload and time of messages from before the consumer.
    before: Vec<(String, String, i64)>,
    at: i64,
    harness: Option<Harness>,
}

impl Script {
    fn harness(&mut self) -> &mut Harness {
        self.harness.as_mut().unwrap()
    }

    fn create(&mut self, config: &str) {
        let config: ConsumerConfig = api::json::decode_options(config.as_bytes()).unwrap();
        let append = |(subject, payload, at): &(String, String, i64)| Entry::Append {
            subject: subject.as_bytes().into(),
            headers: Bytes::new(),
            payload: payload.as_bytes().into(),
            at: store::Timestamp(START + at * 1_000_000),
        };
        let log = self.before.iter().map(append).collect();
        self.harness = Some(Harness::new(1, self.retention, &config, log));
    }

    fn publish(&mut self, words: &[&str]) {
        let (subject, payloads) = words.split_first().unwrap();
        for payload in payloads {
            let payload = match payload.split_once('*') {
                Some((text, count)) => text.repeat(count.parse().unwrap()),
                None => (*payload).to_owned(),
            };
            match &mut self.harness {
                Some(harness) => {
                    let entry = harness.append_entry(subject, payload.as_bytes());
                    harness.log.push(entry);
                }
                None => self.before.push(((*subject).to_owned(), payload, self.at)),
            }
        }
    }

    fn run(&mut self, line: &str) -> String {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').filter(|word| !word.is_empty()).collect();
        match (verb, words.as_slice()) {
            ("stream", ["workqueue"]) => self.retention = Retention::WorkQueue,
            ("stream", ["interest"]) => self.retention = Retention::Interest,
            ("at", [millis]) => self.at = millis.parse().unwrap(),
            ("create", _) => self.create(rest),
            ("publish", words) => self.publish(words),
            ("pull", [reply, ..]) => {
                let body = rest.split_once(' ').map_or("", |(_, body)| body);
                self.harness().pull(reply, body);
            }
            ("ack", [subject, ..]) => self.ack(subject, rest),
            ("advance", [millis]) => {
                let time = Duration::from_millis(millis.parse().unwrap());
                let end = self.harness().world.now.saturating_add(time);
                let mut out = String::new();
                while self.harness().step_to(end) {
                    out += &self.settle();
                }
                return out;
            }
            ("update", _) => {
                let config: ConsumerConfig = api::json::decode_options(rest.as_bytes()).unwrap();
                self.harness().log.push(Entry::Update(config.into()));
            }
            ("info", []) => return self.info(),
            (verb, words) => return self.run_rare(verb, words),
        }
        self.settle()
    }

    fn run_rare(&mut self, verb: &str, words: &[&str]) -> String {
        let harness = self.harness();
        match (verb, words) {
            ("interest", [subject]) => {
                harness.world.interest.insert(subject.as_bytes().into());
                harness.with(|consumer, ctx| consumer.handle_interest(ctx));
            }
            ("gone", [subject]) => {
                harness.world.interest.remove(subject.as_bytes());
                harness.with(|consumer, ctx| consumer.handle_interest(ctx));
            }
            ("delete", [sequence]) => {
                let reason = RemoveReason::Deleted;
                harness.log.push(Entry::Remove { sequence: sequence.parse().unwrap(), reason });
            }
            ("purge", [sequence]) => harness.log.push(Entry::PurgeUpTo(sequence.parse().unwrap())),
            ("reset", [sequence]) => {
                let sequence = sequence.parse().unwrap();
                match harness.with(|consumer, ctx| consumer.check_reset(ctx, sequence)) {
                    Ok(start) => harness.log.push(Entry::Reset(start)),
                    Err(error) => return format!("{error}\n"),
                }
            }
            ("unpin", []) => harness.with(|consumer, ctx| consumer.unpin(ctx)),
            ("flow", [subject, headers @ ..]) => {
                let headers = format!("NATS/1.0\r\n{}\r\n\r\n", headers.join(" "));
                harness.with(|consumer, ctx| {
                    consumer.handle_flow_control(ctx, subject.as_bytes(), headers.as_bytes());
                });
            }
            ("delete-consumer", []) => harness.with(|consumer, ctx| consumer.shut(ctx)),
            ("step-down", []) => harness.with(|consumer, ctx| consumer.step_down(ctx)),
            ("lead", []) => harness.with(|consumer, ctx| consumer.lead(ctx)),
            _ => panic!("no such line: {verb} {words:?}"),
        }
        self.settle()
    }

    /// `ack <subject> <body> [=> <reply>]`
    fn ack(&mut self, subject: &str, rest: &str) {
        let body = rest.split_once(' ').map_or("", |(_, body)| body);
        let (body, reply) = match body.split_once("=> ") {
            Some((body, reply)) => (body, Some(reply)),
            None => (body, None),
        };
        self.harness().ack(subject.as_bytes(), body.trim_end().as_bytes(), reply);
    }

    fn settle(&mut self) -> String {
        let Some(harness) = &mut self.harness else { return String::new() };
        harness.settle();
        let now = harness.world.now.0 - START;
        let mut out = String::new();
        for effect in harness.effects() {
            writeln!(out, "{:>6} {}", now / 1_000_000, trace(effect)).unwrap();
        }
        if harness.replica.consumer.wants_deletion() {
            out.push_str("wants deletion\n");
        }
        out
    }

    fn info(&mut self) -> String {
        let info = self.harness().with(|consumer, ctx| consumer.info(ctx));
        let (delivered, floor) = (info.delivered, info.ack_floor);
        let mut text = format!(
            "delivered {}/{} floor {}/{} ack_pending {} redelivered {} waiting {} pending {}",
            delivered.consumer_seq,
            delivered.stream_seq,
            floor.consumer_seq,
            floor.stream_seq,
            info.num_ack_pending,
            info.num_redelivered,
            info.num_waiting,
            info.num_pending,
        );
        if let Some(letters) = info.dead_letters {
            write!(text, " letters {}/{} {:?}", letters.stored, letters.pending, letters.last_error).unwrap();
        }
        if let Some(subjects) = info.subjects_ack_pending {
            write!(text, " subjects {} held back {}", subjects.subjects, subjects.held_back).unwrap();
        }
        if info.push_bound {
            text.push_str(" bound");
        }
        if info.paused {
            text.push_str(" paused");
        }
        for group in info.priority_groups {
            write!(text, " group {} pinned {:?}", group.group, group.pinned_client_id).unwrap();
        }
        text + "\n"
    }
}

fn play(text: &str) -> String {
    let mut script = Script::default();
    let mut out = String::new();
    for line in text.lines().filter(|line| line.is_empty() || line.starts_with(['>', '#'])) {
        writeln!(out, "{line}").unwrap();
        if line == "> new" {
            script = Script::default();
        } else if let Some(line) = line.strip_prefix("> ") {
            out.push_str(&script.run(line));
        }
    }
    out
}

#[test]
fn scripts_play_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/consumer");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let played = play(&text);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &played).unwrap();
        } else {
            assert_eq!(played, text, "{}", file.display());
        }
    }
}
