//! Script tests: input bytes and the full trace of what the parsers make of them, in `testdata/*.txt`.
//!
//! A line `> ` is an input (escapes `\r \n \t \\ \xNN`, `{a*4096}` repeats); the lines below it are the expected
//! trace. `set key=value` changes the limits for what follows. `UPDATE=1` rewrites the traces. Every input is also
//! read cut in two at every byte, which must give the same trace.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use std::fmt::Write;

use protocol::Step;
use protocol::client::{self, Limits, Op, Publish};
use protocol::error::ParseError;
use protocol::peer::{self, Link, PeerLimits, PeerOp};

/// Longest input that is cut at every byte; longer ones are cut near both ends.
const CUT_EVERYWHERE_MAX: usize = 256;

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'\\', [b'r', after @ ..]) => (out.push(b'\r'), rest = after).0,
            (b'\\', [b'n', after @ ..]) => (out.push(b'\n'), rest = after).0,
            (b'\\', [b't', after @ ..]) => (out.push(b'\t'), rest = after).0,
            (b'\\', [b'\\', after @ ..]) => (out.push(b'\\'), rest = after).0,
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                rest = after;
            }
            (b'{', [what, b'*', after @ ..]) => {
                let end = after.iter().position(|byte| *byte == b'}').unwrap();
                let count: usize = std::str::from_utf8(&after[..end]).unwrap().parse().unwrap();
                out.extend(std::iter::repeat_n(*what, count));
                rest = &after[end + 1..];
            }
            _ => out.push(*first),
        }
    }
    out
}

/// Bytes in a trace; long runs of one byte are shortened as in an input.
fn show(bytes: &[u8]) -> String {
    match bytes {
        [first, ..] if bytes.len() > 40 && bytes.iter().all(|byte| byte == first) => {
            format!("{{{}*{}}}", first.escape_ascii(), bytes.len())
        }
        _ => bytes.escape_ascii().to_string(),
    }
}

fn fields(name: &str, fields: &[(&str, Option<&[u8]>)]) -> String {
    let mut text = name.to_owned();
    for (key, value) in fields {
        if let Some(value) = value {
            write!(text, " {key}={}", show(value)).unwrap();
        }
    }
    text
}

fn client_op(op: &Op<'_>) -> String {
    match op {
        Op::Connect(json) => fields("connect", &[("json", Some(json))]),
        Op::Info(json) => fields("info", &[("json", Some(json))]),
        Op::Err(text) => fields("err", &[("text", Some(text))]),
        Op::Ping => "ping".to_owned(),
        Op::Pong => "pong".to_owned(),
        Op::Ok => "ok".to_owned(),
        Op::Subscribe { subject, queue, sid } => {
            fields("subscribe", &[("subject", Some(subject)), ("queue", *queue), ("sid", Some(sid))])
        }
        Op::Unsubscribe { sid, max } => {
            let max = max.map(|max| max.to_string());
            fields("unsubscribe", &[("sid", Some(sid)), ("max", max.as_deref().map(str::as_bytes))])
        }
        Op::Publish(Publish { subject, reply, header_len, payload }) => {
            let (header, body) = payload.split_at(*header_len);
            let header = (!header.is_empty()).then_some(header);
            fields(
                "publish",
                &[("subject", Some(subject)), ("reply", *reply), ("header", header), ("body", Some(body))],
            )
        }
    }
}

fn peer_op(op: &PeerOp<'_>) -> String {
    match op {
        PeerOp::Connect(json) => fields("connect", &[("json", Some(json))]),
        PeerOp::Info(json) => fields("info", &[("json", Some(json))]),
        PeerOp::Err(text) => fields("err", &[("text", Some(text))]),
        PeerOp::Ping => "ping".to_owned(),
        PeerOp::Pong => "pong".to_owned(),
        PeerOp::Ok => "ok".to_owned(),
        PeerOp::Subscribe { origin, account, subject, queue } => {
            let weight = queue.map(|(_, weight)| weight.to_string());
            fields(
                "subscribe",
                &[
                    ("origin", *origin),
                    ("account", *account),
                    ("subject", Some(subject)),
                    ("queue", queue.map(|(queue, _)| queue)),
                    ("weight", weight.as_deref().map(str::as_bytes)),
                ],
            )
        }
        PeerOp::Unsubscribe { origin, account, subject, queue } => fields(
            "unsubscribe",
            &[("origin", *origin), ("account", *account), ("subject", Some(subject)), ("queue", *queue)],
        ),
        PeerOp::Account { account, interest } => fields(
            if *interest { "account interest" } else { "account no-interest" },
            &[("account", Some(account))],
        ),
        PeerOp::Message(message) => {
            let (header, body) = message.payload.split_at(message.header_len);
            let queues = message.queues.collect::<Vec<_>>().join(&b","[..]);
            fields(
                "message",
                &[
                    ("origin", message.origin),
                    ("account", message.account),
                    ("subject", Some(message.subject)),
                    ("reply", message.reply),
                    ("queues", (!queues.is_empty()).then_some(&queues)),
                    ("header", (!header.is_empty()).then_some(header)),
                    ("body", Some(body)),
                ],
            )
        }
    }
}

/// What was set by the script.
struct Setting {
    client: Limits,
    peer: Option<PeerLimits>,
}

impl Setting {
    fn step(&self, buf: &[u8]) -> Result<Step<String>, ParseError> {
        fn text<O>(step: Step<O>, show: impl Fn(&O) -> String) -> Step<String> {
            match step {
                Step::Op { op, consumed } => Step::Op { op: show(&op), consumed },
                Step::NeedMore { hint } => Step::NeedMore { hint },
            }
        }
        match &self.peer {
            Some(limits) => Ok(text(peer::parse(buf, limits)?, peer_op)),
            None => Ok(text(client::parse(buf, &self.client)?, client_op)),
        }
    }

    fn set(&mut self, line: &str) {
        for word in line.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            let on = value == "on";
            match key {
                "headers" => self.client.headers = on,
                "payload" => {
                    self.client.payload_max = value.parse().ok();
                    self.peer.iter_mut().for_each(|peer| peer.payload_max = value.parse().ok());
                }
                "link" => {
                    let link = match value {
                        "route" => Link::Route,
                        "gateway" => Link::Gateway,
                        "leaf" => Link::Leaf,
                        _ => panic!("unknown link {value}"),
                    };
                    let limits = PeerLimits {
                        link,
                        control_line_max: 65_536,
                        payload_max: None,
                        account: link != Link::Leaf,
                        origin_unsub: true,
                    };
                    self.peer = Some(limits);
                }
                "account" => self.peer.as_mut().unwrap().account = on,
                "origin_unsub" => self.peer.as_mut().unwrap().origin_unsub = on,
                _ => panic!("unknown setting {key}"),
            }
        }
    }

    /// Reads `pieces` as they arrive. The hint of an incomplete end is shown only if everything is there.
    fn trace(&self, pieces: &[&[u8]]) -> String {
        let mut out = String::new();
        let mut buf = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            buf.extend_from_slice(piece);
            while !buf.is_empty() {
                match self.step(&buf) {
                    Ok(Step::Op { op, consumed }) => {
                        writeln!(out, "{op}").unwrap();
                        buf.drain(..consumed);
                    }
                    Ok(Step::NeedMore { hint }) => {
                        if index + 1 == pieces.len() {
                            writeln!(
                                out,
                                "need more{}",
                                if hint > 0 { format!(": {hint}") } else { String::new() }
                            )
                            .unwrap();
                        }
                        break;
                    }
                    Err(error) => {
                        let wire =
                            error.wire_error().map_or_else(String::new, |text| format!(" -ERR '{text}'"));
                        writeln!(out, "close: {}:{wire} ({error})", error.close_reason()).unwrap();
                        return out;
                    }
                }
            }
        }
        out
    }
}

fn check_cuts(setting: &Setting, input: &[u8], trace: &str) {
    for cut in 0..input.len() {
        if input.len() <= CUT_EVERYWHERE_MAX || cut < 16 || input.len() - cut < 16 {
            let (left, right) = input.split_at(cut);
            assert_eq!(setting.trace(&[left, right]), trace, "cut at {cut}: {}", show(input));
        }
    }
    if input.len() <= CUT_EVERYWHERE_MAX {
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(setting.trace(&bytes), trace, "byte by byte: {}", show(input));
    }
}

fn run(name: &str) {
    let path = format!("{}/tests/testdata/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(&path).unwrap();
    let mut setting = Setting {
        client: Limits { control_line_max: 4096, payload_max: Some(1_048_576), headers: true },
        peer: None,
    };
    let mut actual = String::new();
    let mut inputs = 0;
    for line in script.lines() {
        if let Some(input) = line.strip_prefix("> ") {
            let input = unescape(input);
            let trace = setting.trace(&[&input]);
            check_cuts(&setting, &input, &trace);
            writeln!(actual, "{line}\n{}", trace.trim_end()).unwrap();
            inputs += 1;
        } else if let Some(words) = line.strip_prefix("set ") {
            setting.set(words);
            writeln!(actual, "{line}").unwrap();
        } else if line.is_empty() || line.starts_with('#') {
            writeln!(actual, "{line}").unwrap();
        }
    }
    assert!(inputs > 20, "{name} has {inputs} inputs");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, actual).unwrap();
    } else {
        assert_eq!(actual, script, "{name}: run with UPDATE=1 and review the difference");
    }
}

#[test]
fn client_script_gives_its_trace_however_the_bytes_arrive() {
    run("client");
}

#[test]
fn peer_script_gives_its_trace_however_the_bytes_arrive() {
    run("peer");
}
