//! Buckets of keys and values as clients keep them in a stream, and last messages of many subjects.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::consume::replay;
use super::publish::latencies;
use super::{SIZE, STREAM as PLAIN, Storage, create, create_stream, expect_messages, fill, script, stored};
use crate::cases::{STREAM_MESSAGES_MAX, Settings};
use crate::frames::{payload, publish};
use crate::measure::{Measure, Meter, Target, memory_at_end};
use crate::script::{Goal, printable};
use crate::session::Session;

/// The stream of the bucket.
pub(super) const STREAM: &str = "KV_BENCH";
/// Keys are asked for in steps of this prime, so that neighbours in time are none in the store.
const STRIDE: u64 = 7919;
/// Subjects of one request for many.
const GROUP: u64 = 1000;

fn key(number: u64) -> String {
    format!("$KV.BENCH.customer.{number:06}")
}

/// A bucket with one value for each key.
fn bucket(target: Target, settings: &Settings) -> Result<Session> {
    let mut session = Session::connect(target.address)?;
    create(
        &mut session,
        &json!({
            "name": STREAM, "subjects": ["$KV.BENCH.>"], "storage": "file", "num_replicas": 1, "discard": "new",
            "max_msgs_per_subject": 1, "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
            "duplicate_window": 120_000_000_000_u64,
        }),
    )?;
    fill(&mut session, settings.keys, key)?;
    expect_messages(&mut session, STREAM, settings.keys)?;
    Ok(session)
}

pub(super) fn put(target: Target, settings: &Settings, window: usize) -> Result<Vec<Measure>> {
    let mut session = bucket(target, settings)?;
    let script = script(&session, (0..settings.keys).map(|number| key(number * STRIDE % settings.keys)));
    script.run(&mut session, window, Goal::Time(settings.warm_up(), STREAM_MESSAGES_MAX), stored)?;
    let meter = Meter::start(target)?;
    let goal = Goal::Time(settings.duration, STREAM_MESSAGES_MAX);
    let ran = script.run(&mut session, window, goal, stored)?;
    let mut measures = meter.finish(ran.count)?;
    measures.extend(latencies(ran.latencies)?);
    expect_messages(&mut session, STREAM, settings.keys)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

pub(super) fn get(target: Target, settings: &Settings, window: usize) -> Result<Vec<Measure>> {
    let mut session = bucket(target, settings)?;
    let mut script = crate::script::Script::default();
    for number in 0..settings.keys {
        let key = key(number * STRIDE % settings.keys);
        script.push(session.inbox(), &format!("$JS.API.DIRECT.GET.{STREAM}.{key}"), b"");
    }
    let expected = payload(SIZE);
    let intact = |frame: &crate::session::Frame<'_>| frame.payload == expected && frame.status().is_none();
    script.run(&mut session, window, Goal::Time(settings.warm_up(), STREAM_MESSAGES_MAX), intact)?;
    let meter = Meter::start(target)?;
    let goal = Goal::Time(settings.duration, STREAM_MESSAGES_MAX);
    let ran = script.run(&mut session, window, goal, intact)?;
    let mut measures = meter.finish(ran.count)?;
    measures.extend(latencies(ran.latencies)?);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

pub(super) fn watch(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut control = bucket(target, settings)?;
    let mut data = Session::connect(target.address)?;
    let started = Instant::now();
    let meter = Meter::start(target)?;
    let mut watches = 0;
    while watches == 0 || started.elapsed() < settings.duration {
        watches += 1;
        let more = json!({"deliver_policy": "last_per_subject", "filter_subject": "$KV.BENCH.>"});
        replay(&mut control, &mut data, (STREAM, &format!("W{watches}")), more, settings.keys)?;
    }
    let mut measures = meter.finish(watches * settings.keys)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

fn subject(number: u64) -> String {
    format!("bench.{:04}.{:03}", number / GROUP, number % GROUP)
}

/// A stream with two messages for each of many subjects.
fn twice(target: Target, settings: &Settings) -> Result<(Session, Session)> {
    let mut control = Session::connect(target.address)?;
    let mut data = Session::connect(target.address)?;
    create_stream(&mut control, Storage::File, "limits")?;
    let config = json!({"name": PLAIN, "subjects": ["bench.>"], "storage": "file", "allow_direct": true});
    control.request(&format!("$JS.API.STREAM.UPDATE.{PLAIN}"), &config.to_string())?;
    fill(&mut data, 2 * settings.subjects, |number| subject(number % settings.subjects))?;
    expect_messages(&mut control, PLAIN, 2 * settings.subjects)?;
    Ok((control, data))
}

pub(super) fn last_per_subject(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (mut control, mut data) = twice(target, settings)?;
    let meter = Meter::start(target)?;
    let more = json!({"deliver_policy": "last_per_subject", "filter_subject": "bench.>"});
    replay(&mut control, &mut data, (PLAIN, "LAST"), more, settings.subjects)?;
    let mut measures = meter.finish(settings.subjects)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

pub(super) fn multi_last(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let (_, mut data) = twice(target, settings)?;
    let expected = payload(SIZE);
    let groups = settings.subjects.div_ceil(GROUP);
    let started = Instant::now();
    let meter = Meter::start(target)?;
    let (mut requests, mut count) = (0, 0);
    while requests == 0 || started.elapsed() < settings.duration {
        let group = requests * STRIDE % groups;
        requests += 1;
        let request = format!("{{\"multi_last\":[\"bench.{group:04}.*\"],\"batch\":{GROUP}}}");
        let reply = format!("{}.many", data.inbox());
        data.send(&publish(&format!("$JS.API.DIRECT.GET.{PLAIN}"), Some(&reply), request.as_bytes()))?;
        let (mut ended, before) = (false, count);
        while !ended {
            data.read(|frame| {
                if let Some(status) = frame.status() {
                    ensure!(status.starts_with(b"204"), "answer {}", printable(&frame));
                    ended = true;
                    return Ok(());
                }
                ensure!(frame.payload == expected, "message {}", printable(&frame));
                count += 1;
                Ok(())
            })?;
        }
        let wanted = GROUP.min(settings.subjects - group * GROUP);
        ensure!(count - before == wanted, "{} messages of {wanted} subjects", count - before);
    }
    let mut measures = meter.finish(count)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}
