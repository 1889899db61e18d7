//! Idle connections: what a connection costs that has said CONNECT and PING and then nothing.

use std::thread;

use anyhow::{Context, Result};

use super::Settings;
use crate::client::Client;
use crate::measure::{Measure, Meter, Target, memory, memory_at_end, memory_growth};

pub(super) fn run(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let before = target.process.map(memory).transpose()?;
    let meter = Meter::start(target)?;
    let mut held = Vec::with_capacity(settings.connections);
    for number in 0..settings.connections {
        let client = Client::connect(target.address).with_context(|| format!("connection {number}"))?;
        held.push(client.into_stream());
    }
    let mut measures = meter.finish(settings.connections as u64)?;
    // Let the server come to rest (first keep-alive, freed handshake buffers) before its memory is read.
    thread::sleep(settings.duration);
    measures.extend(memory_growth(target, before, settings.connections, "RSS per connection")?);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}
