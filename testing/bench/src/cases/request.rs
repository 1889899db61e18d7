//! Request and reply in sequence: how long one question takes, there and back.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Settings;
use crate::client::Client;
use crate::frames::{payload, publish};
use crate::measure::{Measure, Meter, Target, Unit, memory_at_end, percentile};

const SERVICE: &str = "bench.service.echo";
/// Clients keep one wildcard subscription and give each request a token below it.
const INBOX: &str = "_INBOX.Qh7vT2kLx0aWcRn4Yp8mZd";
const SIZE: usize = 16;
/// More requests than fit in a minute at 20 us each.
const REQUESTS_MAX: usize = 3_000_000;

pub(super) fn run(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let mut responder = Client::connect(target.address)?;
    responder.send(format!("SUB {SERVICE} 1\r\n").as_bytes())?;
    responder.round_trip()?;
    let mut requester = Client::connect(target.address)?;
    requester.send(format!("SUB {INBOX}.* 1\r\n").as_bytes())?;
    requester.round_trip()?;

    let ending = AtomicBool::new(false);
    let handle = responder.handle()?;
    let mut measures = thread::scope(|scope| {
        let service = scope.spawn(|| respond(&mut responder, &ending));
        let asked = ask_and_measure(&mut requester, target, settings);
        ending.store(true, Ordering::Release);
        // The responder may have lost its connection already; then its own error is the one to report.
        let _ = handle.shutdown(Shutdown::Both);
        let Ok(answered) = service.join() else { anyhow::bail!("the responder thread panicked") };
        answered.context("responder")?;
        asked.context("requester")
    })?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

fn ask_and_measure(client: &mut Client, target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    ask(client, settings.warm_up())?;
    let meter = Meter::start(target)?;
    let mut latencies = ask(client, settings.duration)?;
    let mut measures = meter.finish(latencies.len() as u64)?;
    latencies.sort_unstable();
    for (name, share) in [("latency p50", 0.50), ("latency p99", 0.99)] {
        let value = percentile(&latencies, share).context("no latency")? as f64;
        measures.push(Measure { name, unit: Unit::Nanoseconds, value });
    }
    Ok(measures)
}

/// Sends one request after the other for a time; returns the nanoseconds each took.
fn ask(client: &mut Client, duration: Duration) -> Result<Vec<u64>> {
    let expected = payload(SIZE);
    let mut latencies = Vec::new();
    let started = Instant::now();
    while latencies.len() < REQUESTS_MAX {
        let frame = publish(SERVICE, Some(&format!("{INBOX}.{:08}", latencies.len())), &expected);
        let sent = Instant::now();
        client.send(&frame)?;
        let (_, answer) = client.message()?;
        latencies.push(u64::try_from(sent.elapsed().as_nanos())?);
        ensure!(answer == expected, "answer differs: {}", String::from_utf8_lossy(&answer));
        if started.elapsed() >= duration {
            break;
        }
    }
    Ok(latencies)
}

/// Answers every request with its own payload until the connection is shut down.
fn respond(client: &mut Client, ending: &AtomicBool) -> Result<()> {
    loop {
        match client.message() {
            Ok((reply, payload)) => {
                let reply = reply.context("request without a reply subject")?;
                client.send(&publish(&reply, None, &payload))?;
            }
            Err(_) if ending.load(Ordering::Acquire) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
