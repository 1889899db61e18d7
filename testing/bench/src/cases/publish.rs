//! Publish only: what it costs a server to read and parse messages that nobody wants.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{SUBJECT, Settings};
use crate::client::Client;
use crate::frames::Load;
use crate::measure::{Measure, Meter, Target, memory_at_end};

/// More than any server reads within a minute; ends a case whose clock stands still.
const MESSAGES_MAX: u64 = 1_000_000_000;

pub(super) fn run(target: Target, settings: &Settings, size: usize) -> Result<Vec<Measure>> {
    let mut client = Client::connect(target.address)?;
    let load = Load::repeated(SUBJECT, size);
    flood(&mut client, &load, settings.warm_up())?;
    let meter = Meter::start(target)?;
    let messages = flood(&mut client, &load, settings.duration)?;
    let mut measures = meter.finish(messages)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// Publishes for a time and returns the number of messages once the server has read them all.
fn flood(client: &mut Client, load: &Load, duration: Duration) -> Result<u64> {
    let started = Instant::now();
    let mut messages = 0;
    for (bytes, count) in load.writes() {
        client.send(bytes)?;
        messages += count;
        if started.elapsed() >= duration || messages >= MESSAGES_MAX {
            break;
        }
    }
    client.round_trip()?;
    Ok(messages)
}
