//! Very many of one thing: what each costs in memory, and whether the cost of an operation stays what it was with one.

use std::ops::Range;
use std::thread;

use anyhow::Result;
use serde_json::json;

use super::consume::Puller;
use super::start::{contains, create_streams};
use super::{
    SCRIPT_LENGTH, STREAM, Storage, create, create_consumer, create_stream, expect_messages, fill, filled,
    named, rest, script, stored,
};
use crate::cases::{STREAM_MESSAGES_MAX, Settings};
use crate::measure::{Measure, Meter, Target, memory, memory_at_end, memory_growth};
use crate::script::{Goal, Script};
use crate::session::Session;

/// Publishes on their way.
const WINDOW: usize = 256;
/// Requests to the API on their way: fewer than any server refuses.
const WINDOW_API: usize = 64;
/// The first and the last of many that are made.
const EDGE: u64 = 1000;

pub(super) fn streams(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut session = Session::connect(target.address)?;
    create_streams(&mut session, 0..1)?;
    let mut measures = named(publish(target, settings, &mut session)?, "rate with 1", "CPU each with 1");
    let before = target.process.map(memory).transpose()?;
    let count = settings.streams.saturating_sub(1).max(1);
    measures.extend(create_many(target, count, |numbers| create_streams(&mut session, numbers))?);
    thread::sleep(rest(settings));
    measures.extend(memory_growth(target, before, count as usize, "RSS per stream")?);
    measures.extend(named(publish(target, settings, &mut session)?, "rate with many", "CPU each with many"));
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

pub(super) fn consumers(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut session = Session::connect(target.address)?;
    // A stream that does not say takes a thousand.
    create(
        &mut session,
        &json!({
            "name": STREAM, "subjects": ["bench.>"], "storage": "file", "num_replicas": 1,
            "max_consumers": settings.consumers + 1,
        }),
    )?;
    let config = |number: u64| {
        let name = format!("C{number}");
        json!({
            "durable_name": name, "name": name, "ack_policy": "explicit", "filter_subject": format!("bench.{number}.*"),
        })
    };
    create_consumer(&mut session, STREAM, &config(0))?;
    let mut measures = named(publish(target, settings, &mut session)?, "rate with 1", "CPU each with 1");
    measures.extend(named(
        pull_one(target, settings, &mut session)?,
        "fetch rate with 1",
        "fetch CPU each with 1",
    ));

    let before = target.process.map(memory).transpose()?;
    let count = settings.consumers.saturating_sub(1).max(1);
    measures.extend(create_many(target, count, |numbers| {
        let mut script = Script::default();
        let goal = Goal::Count(numbers.end - numbers.start);
        for number in numbers {
            let request = json!({"stream_name": STREAM, "config": config(number)}).to_string();
            let subject = format!("$JS.API.CONSUMER.CREATE.{STREAM}.C{number}.bench.{number}.*");
            script.push(session.inbox(), &subject, request.as_bytes());
        }
        let created = |frame: &crate::session::Frame<'_>| contains(frame.payload, "\"ack_floor\":");
        script.run(&mut session, WINDOW_API, goal, created).map(drop)
    })?);
    thread::sleep(rest(settings));
    measures.extend(memory_growth(target, before, count as usize, "RSS per consumer")?);
    measures.extend(named(publish(target, settings, &mut session)?, "rate with many", "CPU each with many"));
    let pulled = pull_one(target, settings, &mut session)?;
    measures.extend(named(pulled, "fetch rate with many", "fetch CPU each with many"));
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// Makes things numbered from 1 on, and measures the first and the last of them on their own too: each should cost what the others do.
fn create_many(
    target: Target,
    count: u64,
    mut create: impl FnMut(Range<u64>) -> Result<()>,
) -> Result<Vec<Measure>> {
    let edge = EDGE.min(count / 2);
    let whole = Meter::start(target)?;
    let mut measures = Vec::new();
    for (numbers, names) in [
        (1..1 + edge, Some(("first create rate", "first create CPU each"))),
        (1 + edge..1 + count - edge, None),
        (1 + count - edge..1 + count, Some(("last create rate", "last create CPU each"))),
    ] {
        let many = numbers.end - numbers.start;
        if many == 0 {
            continue;
        }
        let meter = Meter::start(target)?;
        create(numbers)?;
        if let Some((rate, each)) = names {
            measures.extend(named(meter.finish(many)?, rate, each));
        }
    }
    measures.extend(named(whole.finish(count)?, "create rate", "create CPU each"));
    Ok(measures)
}

/// Publishes for half of the time to the subject of the first stream and the first consumer.
fn publish(target: Target, settings: &Settings, session: &mut Session) -> Result<Vec<Measure>> {
    let script = script(session, (0..SCRIPT_LENGTH).map(|_| "bench.0.x".to_owned()));
    script.run(session, WINDOW, Goal::Time(settings.warm_up(), STREAM_MESSAGES_MAX), stored)?;
    let meter = Meter::start(target)?;
    let ran = script.run(session, WINDOW, Goal::Time(settings.duration / 2, STREAM_MESSAGES_MAX), stored)?;
    meter.finish(ran.count)
}

/// Pulls and acknowledges with the first consumer what waits for it, a part of it if that is more than other cases read.
fn pull_one(target: Target, settings: &Settings, session: &mut Session) -> Result<Vec<Measure>> {
    let info = session.request(&format!("$JS.API.CONSUMER.INFO.{STREAM}.C0"), "")?;
    let count = info["num_pending"].as_u64().unwrap_or(0).min(settings.messages);
    let meter = Meter::start(target)?;
    Puller { session, consumer: "C0", low: 0, acknowledge: true }.pull(count)?;
    meter.finish(count)
}

pub(super) fn subjects(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut session = Session::connect(target.address)?;
    create_stream(&mut session, Storage::File, "limits")?;
    let before = target.process.map(memory).transpose()?;
    let meter = Meter::start(target)?;
    fill(&mut session, settings.subjects, |number| {
        format!("bench.{:04}.{:03}", number / 1000, number % 1000)
    })?;
    let mut measures = meter.finish(settings.subjects)?;
    expect_messages(&mut session, STREAM, settings.subjects)?;
    thread::sleep(rest(settings));
    measures.extend(memory_growth(target, before, settings.subjects as usize, "RSS per subject")?);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

pub(super) fn interior(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = filled(target, settings)?;
    let count = settings.messages / 2;
    let meter = Meter::start(target)?;
    let mut done = 0;
    while done < count {
        let end = count.min(done + SCRIPT_LENGTH as u64);
        let mut script = Script::default();
        for number in done..end {
            let request = format!("{{\"seq\":{},\"no_erase\":true}}", 2 * (number + 1));
            script.push(data.inbox(), &format!("$JS.API.STREAM.MSG.DELETE.{STREAM}"), request.as_bytes());
        }
        let goal = Goal::Count(end - done);
        script.run(&mut data, WINDOW_API, goal, |frame| contains(frame.payload, "\"success\":true"))?;
        done = end;
    }
    let mut measures = named(meter.finish(count)?, "delete rate", "delete CPU each");
    let left = settings.messages - count;
    expect_messages(&mut control, STREAM, left)?;
    create_consumer(
        &mut control,
        STREAM,
        &json!({"durable_name": "C0", "name": "C0", "ack_policy": "explicit"}),
    )?;
    let meter = Meter::start(target)?;
    Puller { session: &mut data, consumer: "C0", low: 0, acknowledge: true }.pull(left)?;
    measures.extend(meter.finish(left)?);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}
