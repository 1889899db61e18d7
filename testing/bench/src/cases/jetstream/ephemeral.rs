//! Consumers that come and go: what stays of them in memory, and what it costs to make some while very many others go.

use std::ops::Range;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::start::contains;
use super::{STREAM, create, create_consumer, fill, named, rest};
use crate::cases::Settings;
use crate::client::PATIENCE;
use crate::measure::{Measure, Meter, Target, Unit, memory, memory_at_end, memory_growth, percentile};
use crate::script::{Goal, Script};
use crate::session::{Frame, Session};

/// Requests to the API on their way.
const WINDOW: usize = 64;
/// Consumers that are there at a time.
const PRESENT: u64 = 500;
/// Nobody listens for so long until a consumer goes; nanoseconds.
const INACTIVE: u64 = 2_000_000_000;
/// The share of creations whose time is told.
const SHARE: f64 = 0.99;

pub(super) fn run(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut session = Session::connect(target.address)?;
    create_unlimited(&mut session)?;
    fill(&mut session, 1, |_| "bench.0".to_owned())?;

    // Whatever is kept for reuse is there before what stays is looked for.
    come_and_go(&mut session, 0..settings.consumers.div_ceil(10))?;
    thread::sleep(rest(settings));
    let before = target.process.map(memory).transpose()?;
    let meter = Meter::start(target)?;
    come_and_go(&mut session, 0..settings.consumers)?;
    let mut measures = named(meter.finish(settings.consumers)?, "rate", "CPU each");
    thread::sleep(rest(settings));
    measures.extend(memory_growth(target, before, settings.consumers as usize, "RSS that stays of each")?);

    let first = listening(target, &mut session, settings.consumers)?;
    // The clients of the first go while those of the second come.
    let second = listening(target, &mut session, settings.consumers)?;
    let meter = Meter::start(target)?;
    let reaped = |info: &Value| info["state"]["consumer_count"] == 0;
    session.await_answer(&format!("$JS.API.STREAM.INFO.{STREAM}"), PATIENCE, reaped)?;
    measures.extend(named(meter.finish(2 * settings.consumers)?, "reap rate", "reap CPU each"));
    measures.extend([latency("create p99", first)?, latency("create p99 again", second)?]);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

fn create_unlimited(session: &mut Session) -> Result<()> {
    create(
        session,
        &json!({
            "name": STREAM, "subjects": ["bench.>"], "storage": "file", "num_replicas": 1,
            "max_consumers": 10_000_000,
        }),
    )
}

/// Makes consumers, lets each have a message, and deletes them.
fn come_and_go(session: &mut Session, numbers: Range<u64>) -> Result<()> {
    let mut next = numbers.start;
    while next < numbers.end {
        let present = next..numbers.end.min(next + PRESENT);
        let mut ask = |subject: &str, body: &dyn Fn(u64) -> String, intact: &dyn Fn(&Frame<'_>) -> bool| {
            let mut script = Script::default();
            for number in present.clone() {
                script.push(
                    session.inbox(),
                    &format!("{subject}.{STREAM}.E{number}"),
                    body(number).as_bytes(),
                );
            }
            script.run(session, WINDOW, Goal::Count(present.end - present.start), intact).map(drop)
        };
        let config = |number| {
            let config = json!({"name": format!("E{number}"), "ack_policy": "explicit"});
            json!({"stream_name": STREAM, "config": config}).to_string()
        };
        ask("$JS.API.CONSUMER.CREATE", &config, &|frame| contains(frame.payload, "\"ack_floor\":"))?;
        let pull = |_| "{\"batch\":1,\"no_wait\":true}".to_owned();
        ask("$JS.API.CONSUMER.MSG.NEXT", &pull, &|frame| frame.reply.is_some())?;
        let nothing = |_| String::new();
        ask("$JS.API.CONSUMER.DELETE", &nothing, &|frame| contains(frame.payload, "\"success\":true"))?;
        next = present.end;
    }
    Ok(())
}

/// Makes consumers that push to a client, which goes away then. Nanoseconds of each creation.
fn listening(target: Target, control: &mut Session, count: u64) -> Result<Vec<u64>> {
    let mut client = Session::connect(target.address)?;
    let mut latencies = Vec::new();
    for number in 0..count {
        let deliver = client.subscribe(&number.to_string())?;
        let name = format!("{}-{number}", client.inbox().trim_start_matches("_INBOX."));
        let config = json!({
            "name": name, "ack_policy": "explicit", "deliver_subject": deliver, "inactive_threshold": INACTIVE,
        });
        let began = Instant::now();
        create_consumer(control, STREAM, &config)?;
        latencies.push(u64::try_from(began.elapsed().as_nanos())?);
    }
    Ok(latencies)
}

fn latency(name: &'static str, mut samples: Vec<u64>) -> Result<Measure> {
    samples.sort_unstable();
    let value = percentile(&samples, SHARE).context("no consumer was made")? as f64;
    ensure!(value > 0.0, "{name} took no time");
    Ok(Measure { name, unit: Unit::Nanoseconds, value })
}
