//! Conversations with a server, kept as text: what is sent, and exactly what has to come back.
//!
//! A file holds sections, each of which is a test with a server of its own:
//!
//! ```text
//! === acks
//! config jetstream { store_dir: "%DIR%/js", domain: D }
//! api STREAM.CREATE.S {"name":"S","subjects":["s.*"]}
//! < {"type":"io.nats.jetstream.api.v1.stream_create_response", ...
//! pub s.a [Nats-Msg-Id: 1] hello
//! < {"stream":"S","domain":"D","seq":1}
//! ```
//!
//! A line with `<` is one message, in order. One that is the plain answer to the latest request is its payload; any other
//! shows `[subscription] subject (reply) "header block" payload`. What differs from run to run stands as `<time>`,
//! `<ns>`, `<nuid>` and so on ([`normal`]); everything else is compared byte for byte. Text after `#` at the beginning of
//! a line is a remark.
//!
//! | Step | Meaning |
//! |---|---|
//! | `config LINE` | a line of the configuration, instead of the usual one |
//! | `api NAME BODY` | a request to `$JS.API.NAME` |
//! | `pub SUBJECT [HEADERS] BODY` | a publish with a reply subject; headers as `A: b; C: d` |
//! | `send SUBJECT [HEADERS] BODY` | a publish without a reply subject |
//! | `post SUBJECT REPLY [HEADERS] BODY` | a publish with this reply subject |
//! | `next STREAM CONSUMER BODY` | a pull |
//! | `ack N PAYLOAD` / `ack! N PAYLOAD` | answers the N-th frame of the section that had a reply subject; with `!` without a confirmation |
//! | `sub ID SUBJECT` / `unsub ID` | subscribes, unsubscribes |
//! | `connect NAME USER` | another connection, password as the user; steps use it as `@NAME step` |
//! | `close` | closes the connection |
//! | `read` | only reads |
//! | `until POINTER=JSON STEP` | repeats a request until this part of the answer has the value, and shows that answer |
//! | `repeat N STEP` | `{i}` counts from 1; each must bring one message, the last is shown |
//! | `let NAME POINTER` | after a step: names a part of its last answer, or a header with `#HEADER`; later text has it as `${NAME}` |
//! | `restart` / `kill` | ends the server, politely or not, and starts it again |
//! | `stop` / `start` | one after the other; what the connection gets before it closes is shown |
//!
//! `<x*100>` is a hundred times `x`. `~` before a step: its messages come in any order. `+900ms` before a step: for
//! recording only, how long messages may take to come. With `MYELIN_TRANSCRIPTS=write` a run writes what it saw into the
//! file instead of comparing; do that against the reference only, and read the result.

mod normal;
mod output;
mod script;
mod session;
mod walkthrough;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use script::{Script, Step};
use session::Session;
pub use walkthrough::walk;

use crate::target::Target;

/// Asks for recording.
const WRITE_VARIABLE: &str = "MYELIN_TRANSCRIPTS";
/// Mismatches that one run shows.
const MISMATCHES_MAX: usize = 12;
/// Sections of a file are recorded one after the other.
static RECORDING: Mutex<()> = Mutex::new(());

/// Plays a section of a file against a server of this kind, and panics with the steps whose answers differ.
pub async fn play(target: &Target, file: &Path, section: &str) {
    let script = Script::read(file, section);
    let mut session = Session::start(target, &script.config).await;
    if is_recording() {
        record(&mut session, script, file).await;
    } else {
        compare(&mut session, &script, section).await;
    }
}

/// Whether this run writes what it sees instead of comparing.
fn is_recording() -> bool {
    std::env::var_os(WRITE_VARIABLE).is_some_and(|value| value == "write")
}

fn save(script: &Script, file: &Path) {
    let _one_by_one = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
    script.write(file);
}

/// The names of all sections of a file.
pub fn sections(file: &Path) -> Vec<String> {
    script::section_names(file)
}

async fn record(session: &mut Session, mut script: Script, file: &Path) {
    for step in &mut script.steps {
        step.expected = session.observe(step).await;
    }
    session.end().await;
    save(&script, file);
}

async fn compare(session: &mut Session, script: &Script, section: &str) {
    let mut mismatches = Vec::new();
    for step in &script.steps {
        let (seen, complete) = session.play(step).await;
        if seen != step.expected {
            mismatches.push(difference(step, &seen));
        }
        if !complete || mismatches.len() == MISMATCHES_MAX {
            break;
        }
    }
    if mismatches.is_empty() {
        mismatches.extend(session.end().await.map(|rest| format!("unread at the end:\n{rest}")));
    }
    assert!(
        mismatches.is_empty(),
        "{section}: {} steps differ\n{}\nlog: {}",
        mismatches.len(),
        mismatches.join("\n"),
        session.log_tail()
    );
}

fn difference(step: &Step, seen: &[String]) -> String {
    let mut text = format!("line {}: {}\n", step.line_number, step.text);
    for at in 0..step.expected.len().max(seen.len()) {
        match (step.expected.get(at), seen.get(at)) {
            (Some(expected), Some(seen)) if expected == seen => {}
            (expected, seen) => {
                let none = "nothing".to_owned();
                text += &format!("  wanted < {}\n", expected.unwrap_or(&none));
                text += &format!("  came   < {}\n", seen.unwrap_or(&none));
            }
        }
    }
    text
}
