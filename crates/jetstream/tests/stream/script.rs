//! Scripts: files of commands, each followed by all that came of it. With `UPDATE=1` they are written anew.
//!
//! Commands: `stream <config>`, `pub <subject> <payload> [| header]..`, `fast <subject> <pattern> <payload> [| header]..`, `request <kind> <json>`,
//! `consumer <config>`, `pull <consumer> <body>`, `ack <subject> <body>`, `pass <duration ms>`, `hold`, `release`, `checkpoint`, `restart`, `state`,
//! `dump`, `limit <bytes of the account>`, `known <options>`.

use std::fmt::Write as _;
use std::path::PathBuf;

use api::jetstream::consumer::ConsumerAction;
use api::jetstream::feature::Features;
use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use jetstream::Request;
use jetstream::effect::{Effect, Send};
use jetstream::limits::{AccountLimits, TierLimits};
use jetstream::request::Response;
use jetstream::stream::Incoming;

use crate::harness::{Bench, START, block};

const COMMANDS: [&str; 17] = [
    "stream",
    "pub",
    "fast",
    "purge",
    "delete",
    "get",
    "direct",
    "update",
    "consumer",
    "pull",
    "ack",
    "pass",
    "hold",
    "release",
    "checkpoint",
    "restart",
    "state",
];

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "|");
    text.strip_prefix("NATS/1.0|").map_or_else(|| text.clone(), |rest| rest.trim_end_matches('|').to_owned())
}

fn sent(out: &mut String, send: &Send) {
    let Send { subject, headers, payload, .. } = send;
    let _ = write!(out, "-> {}", text(subject));
    if !headers.is_empty() {
        let _ = write!(out, " [{}]", text(headers));
    }
    let _ = writeln!(out, " {}", text(payload));
}

fn show(out: &mut String, effect: &Effect) {
    match effect {
        Effect::Send(send) => sent(out, send),
        Effect::Deliver(deliver) => {
            let _ = write!(
                out,
                "=> {} {} ack {}",
                text(&deliver.to),
                text(&deliver.subject),
                text(&deliver.reply)
            );
            if !deliver.headers.is_empty() {
                let _ = write!(out, " [{}]", text(&deliver.headers));
            }
            let _ = writeln!(out, " {}", text(&deliver.payload));
        }
        Effect::Reply(_, Ok(response)) => reply(out, response),
        Effect::Reply(_, Err(error)) => {
            let _ = writeln!(out, "error {} {} {}", error.code, error.err_code, error.description);
        }
        Effect::ConsumerAdded(name, ..) => {
            let _ = writeln!(out, "added {name}");
        }
        other => {
            let _ = writeln!(out, "{other:?}");
        }
    }
}

fn reply(out: &mut String, response: &Response) {
    let json = |value: Vec<u8>| String::from_utf8(value).unwrap();
    let _ = match response {
        Response::Message(message) => {
            let (hdrs, data) = (text(&message.hdrs), text(&message.data));
            writeln!(out, "message {} {} [{hdrs}] {data}", message.seq, message.subject)
        }
        Response::Stream(info) => writeln!(out, "stream {}", json(api::json::to_vec(&info.state).unwrap())),
        Response::StreamPage { info, subjects } => {
            let state = json(api::json::to_vec(&info.state).unwrap());
            writeln!(out, "page {subjects} {state}")
        }
        Response::Consumer(info) => {
            let (pending, waiting) = (info.num_pending, info.num_ack_pending);
            writeln!(out, "consumer {} pending {pending} unacked {waiting}", info.name)
        }
        other => writeln!(out, "{other:?}"),
    };
}

/// The rest of a line: words up to `|`, then headers.
fn parts(rest: &str) -> (Vec<&str>, Bytes) {
    let mut pieces = rest.split(" | ");
    let words = pieces.next().unwrap_or_default().split_whitespace().collect();
    (words, block(&pieces.collect::<Vec<_>>()))
}

/// The request that a line of this verb makes.
fn request(verb: &str, rest: &str) -> Request {
    match verb {
        "purge" => Request::Purge(serde_json::from_str(rest).expect(rest)),
        "delete" => Request::DeleteMessage { sequence: rest.parse().expect("sequence"), erase: true },
        "get" => Request::GetMessage(serde_json::from_str(rest).expect(rest)),
        "direct" => {
            let request = serde_json::from_str(rest).expect(rest);
            Request::DirectGet { reply: Bytes::from_static(b"r"), request }
        }
        "update" => {
            let mut config: StreamConfig = serde_json::from_str(rest).expect(rest);
            config.num_replicas = 1;
            Request::UpdateStream(Box::new(config))
        }
        _ => Request::CreateConsumer {
            config: serde_json::from_str(rest).expect(rest),
            action: ConsumerAction::default(),
            pedantic: false,
        },
    }
}

struct Run {
    bench: Option<Bench>,
}

impl Run {
    fn command(&mut self, line: &str) -> String {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        if verb == "stream" {
            let mut config: StreamConfig = serde_json::from_str(rest).expect(rest);
            config.num_replicas = config.num_replicas.max(1);
            self.bench = Some(Bench::new(config));
            return String::new();
        }
        let bench = self.bench.as_mut().expect("stream first");
        let mut out = String::new();
        let mut effects = Vec::new();
        match verb {
            "pub" => {
                let (words, headers) = parts(rest);
                let payload = Bytes::copy_from_slice(words.get(1).unwrap_or(&"").as_bytes());
                bench.publish(words[0], headers, payload, Some("r"));
            }
            "fast" => {
                let (words, headers) = parts(rest);
                let reply = format!("r.{}.$FI", words[1]);
                let payload = Bytes::copy_from_slice(words.get(2).unwrap_or(&"").as_bytes());
                bench.publish(words[0], headers, payload, Some(&reply));
            }
            "purge" | "delete" | "get" | "direct" | "update" | "consumer" => {
                bench.request(request(verb, rest))
            }
            "pull" => {
                let (consumer, body) = rest.split_once(' ').unwrap_or((rest, ""));
                let reply = Bytes::from_static(b"p");
                let pull =
                    Incoming { subject: b"", reply: Some(&reply), headers: b"", payload: body.as_bytes() };
                bench.stream.handle_pull(&mut bench.world, &mut bench.effects, consumer, pull);
            }
            "ack" => {
                let (subject, body) = rest.split_once(' ').unwrap_or((rest, ""));
                let reply = Bytes::from_static(b"a");
                bench.ack(subject.as_bytes(), Some(&reply), body.as_bytes());
            }
            "pass" => effects = bench.pass(rest.parse::<i64>().expect("ms") * 1_000_000),
            "hold" => bench.holding = true,
            "release" => bench.holding = false,
            "checkpoint" => bench.checkpoint(),
            "restart" => bench.restart(),
            "limit" => {
                let max = rest.parse().expect("bytes");
                let tier = TierLimits { storage_bytes_max: max, ..TierLimits::default() };
                bench.world.limits.account = AccountLimits::Flat(tier);
            }
            // What all servers know that may hold the stream.
            "known" => {
                bench.world.limits.server.features = Features::of_names(rest.split_whitespace());
            }
            "state" => out = state(bench),
            "dump" => out = dump(bench),
            other => panic!("unknown command {other:?}, known are {COMMANDS:?}"),
        }
        effects.extend(bench.settle());
        effects.iter().for_each(|effect| show(&mut out, effect));
        out
    }
}

fn state(bench: &Bench) -> String {
    let state = bench.stream.state();
    let seconds = (bench.world.now - START) / 1_000_000_000;
    format!(
        "{} messages {} bytes {}..{} deleted {} at {seconds}s\n",
        state.messages, state.bytes, state.first_sequence, state.last_sequence, state.deleted
    )
}

/// All messages.
pub(crate) fn dump(bench: &Bench) -> String {
    let store = bench.stream.store();
    let mut out = String::new();
    let mut next = 0;
    while let Some(message) = store.next(&store::stream::Filter::All, next).expect("read") {
        next = message.sequence + 1;
        let _ = write!(out, "{} {}", message.sequence, text(&message.subject));
        if !message.headers.is_empty() {
            let _ = write!(out, " [{}]", text(&message.headers));
        }
        let _ = writeln!(out, " {}", text(&message.payload));
    }
    out
}

fn run(text: &str) -> String {
    let mut run = Run { bench: None };
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with('#') || (line.is_empty() && !out.ends_with("\n\n")) {
            out.push_str(line);
            out.push('\n');
        } else if let Some(command) = line.strip_prefix("> ") {
            out.push_str(line);
            out.push('\n');
            out.push_str(&run.command(command));
        }
    }
    out
}

#[test]
fn scripts_give_the_expected_traces() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/stream");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let before = std::fs::read_to_string(&file).unwrap();
        let after = run(&before);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &after).unwrap();
        } else {
            assert_eq!(after, before, "{}", file.display());
        }
    }
}
