//! Publishes with an acknowledgement each, one or many on their way.

use anyhow::{Context, Result};

use super::{SCRIPT_LENGTH, SUBJECT, Storage, create_stream, expect_messages, script, stored};
use crate::cases::{STREAM_MESSAGES_MAX, Settings};
use crate::measure::{Measure, Meter, Target, Unit, memory_at_end, percentile, written_bytes};
use crate::script::Goal;
use crate::session::Session;

pub(super) fn run(
    target: Target,
    settings: &Settings,
    storage: Storage,
    window: usize,
) -> Result<Vec<Measure>> {
    let mut session = Session::connect(target.address)?;
    create_stream(&mut session, storage, "limits")?;
    let script = script(&session, (0..SCRIPT_LENGTH).map(|_| SUBJECT.to_owned()));
    let goal = Goal::Time(settings.warm_up(), STREAM_MESSAGES_MAX);
    let warmed = script.run(&mut session, window, goal, stored)?.count;

    let before = target.process.map(written_bytes).transpose()?;
    let meter = Meter::start(target)?;
    let goal = Goal::Time(settings.duration, STREAM_MESSAGES_MAX);
    let ran = script.run(&mut session, window, goal, stored)?;
    let mut measures = meter.finish(ran.count)?;
    if let (Some(process), Some(before)) = (target.process, before) {
        let value = written_bytes(process)?.saturating_sub(before) as f64 / ran.count as f64;
        measures.push(Measure { name: "written each", unit: Unit::Bytes, value });
    }
    measures.extend(latencies(ran.latencies)?);
    expect_messages(&mut session, super::STREAM, warmed + ran.count)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// Median and 99th percentile, where one request at a time was measured.
pub(super) fn latencies(mut samples: Vec<u64>) -> Result<Vec<Measure>> {
    samples.sort_unstable();
    let shares = [("latency p50", 0.50), ("latency p99", 0.99)];
    let measure = |(name, share)| {
        let value = percentile(&samples, share).context("no latency")? as f64;
        Ok(Measure { name, unit: Unit::Nanoseconds, value })
    };
    if samples.is_empty() { Ok(Vec::new()) } else { shares.into_iter().map(measure).collect() }
}
