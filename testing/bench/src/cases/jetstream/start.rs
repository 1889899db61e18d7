//! A restart on what is stored: how long until the answer of a stream is right again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{STREAM, Storage, WINDOW_FILL, create_stream, fill, script, stored};
use crate::cases::Settings;
use crate::measure::{Measure, Target, Unit, cpu_time, memory_at_end};
use crate::script::{Goal, Script};
use crate::server::{STORE_PATIENCE, Server, Stop};
use crate::session::Session;

/// Between two questions to a server that may not be ready.
const PAUSE: Duration = Duration::from_millis(1);
/// Messages for each subject.
const MESSAGES_PER_SUBJECT: u64 = 10;
/// Streams of the case with many.
const STREAMS_MAX: u64 = 1000;
/// Messages in each of them.
const MESSAGES_PER_STREAM: u64 = 100;

pub(super) fn messages(server: &mut Server, settings: &Settings, stop: Stop) -> Result<Vec<Measure>> {
    let mut session = Session::connect(server.target().address)?;
    create_stream(&mut session, Storage::File, "limits")?;
    let subjects = settings.messages.div_ceil(MESSAGES_PER_SUBJECT);
    fill(&mut session, settings.messages, |number| {
        let number = number % subjects;
        format!("bench.{:04}.{:03}", number / 1000, number % 1000)
    })?;
    restarted(server, stop, |session| {
        let state = session.request(&format!("$JS.API.STREAM.INFO.{STREAM}"), "")?["state"].take();
        let right = |key, count: u64| state[key] == count;
        ensure!(right("messages", settings.messages) && right("num_subjects", subjects), "{state}");
        ensure!(right("last_seq", settings.messages), "{state}");
        Ok(())
    })
}

pub(super) fn streams(server: &mut Server, settings: &Settings, stop: Stop) -> Result<Vec<Measure>> {
    let mut session = Session::connect(server.target().address)?;
    let count = STREAMS_MAX.min(settings.streams);
    create_streams(&mut session, 0..count)?;
    let subjects = (0..count).map(|number| format!("bench.{number}.x"));
    let total = count * MESSAGES_PER_STREAM;
    script(&session, subjects).run(
        &mut session,
        WINDOW_FILL.min(count as usize),
        Goal::Count(total),
        stored,
    )?;
    let wanted = format!("\"messages\":{MESSAGES_PER_STREAM},");
    restarted(server, stop, |session| {
        let mut questions = Script::default();
        for number in 0..count {
            questions.push(session.inbox(), &format!("$JS.API.STREAM.INFO.{STREAM}-{number}"), b"");
        }
        questions
            .run(session, count as usize, Goal::Count(count), |frame| contains(frame.payload, &wanted))?;
        Ok(())
    })
}

/// Streams named by a number, with subjects of their own.
pub(super) fn create_streams(session: &mut Session, numbers: std::ops::Range<u64>) -> Result<()> {
    /// Requests on their way: fewer than any server refuses.
    const WINDOW: usize = 64;
    let mut script = Script::default();
    let count = numbers.end - numbers.start;
    for number in numbers {
        let name = format!("{STREAM}-{number}");
        let config = json!({
            "name": name, "subjects": [format!("bench.{number}.*")], "storage": "file", "num_replicas": 1,
        });
        script.push(session.inbox(), &format!("$JS.API.STREAM.CREATE.{name}"), config.to_string().as_bytes());
    }
    script
        .run(session, WINDOW, Goal::Count(count), |frame| contains(frame.payload, "\"did_create\":true"))?;
    Ok(())
}

/// Whether the text occurs in the bytes.
pub(super) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Restarts the server and waits until it answers as it did before, according to `check`.
fn restarted(
    server: &mut Server,
    stop: Stop,
    check: impl Fn(&mut Session) -> Result<()>,
) -> Result<Vec<Measure>> {
    check(&mut Session::connect(server.target().address)?).context("before the restart")?;
    let started = server.restart(stop)?;
    server.await_answer(STORE_PATIENCE)?;
    let target = server.target();
    loop {
        let Err(error) = Session::connect(target.address).and_then(|mut session| check(&mut session)) else {
            return figures(target, started);
        };
        ensure!(started.elapsed() < STORE_PATIENCE, "not ready after {STORE_PATIENCE:?}: {error:#}");
        thread::sleep(PAUSE);
    }
}

fn figures(target: Target, started: Instant) -> Result<Vec<Measure>> {
    let elapsed = started.elapsed();
    let nanoseconds =
        |name, time: Duration| Measure { name, unit: Unit::Nanoseconds, value: time.as_nanos() as f64 };
    let mut measures = vec![nanoseconds("start", elapsed)];
    if let Some(process) = target.process {
        measures.push(nanoseconds("start CPU", cpu_time(process)?));
    }
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}
