//! One publisher and its subscribers, each on a connection of its own.
//!
//! The publisher keeps a bounded lead over the slowest subscriber. Without the bound the figures would show how
//! a server treats slow consumers, which is another question.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{SUBJECT, Settings};
use crate::client::{Client, Counter, PATIENCE};
use crate::frames::{Expected, Load};
use crate::measure::{Measure, Meter, Target, memory_at_end};

/// Bytes on their way to the slowest subscriber.
const LEAD_BYTES: u64 = 8 * 1024 * 1024;
/// A pause of the publisher at the end of its lead: far shorter than the lead lasts.
const PAUSE: Duration = Duration::from_micros(100);

pub(super) fn run(
    target: Target,
    settings: &Settings,
    size: usize,
    subscribers: usize,
) -> Result<Vec<Measure>> {
    let counters = (0..subscribers).map(|_| {
        let mut client = Client::connect(target.address)?;
        client.send(format!("SUB {SUBJECT} 1\r\n").as_bytes())?;
        client.round_trip()?;
        Counter::new(client, Expected::one(SUBJECT, "1", size))
    });
    let mut traffic = Traffic {
        publisher: Client::connect(target.address)?,
        subscribers: counters.collect::<Result<_>>()?,
        load: Load::repeated(SUBJECT, size),
    };
    let mut measures = traffic.measure(target, settings)?;
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// A publisher, its load, and the connections that each receive all of it.
pub(super) struct Traffic {
    pub(super) publisher: Client,
    pub(super) subscribers: Vec<Counter>,
    pub(super) load: Load,
}

/// What publisher and subscribers tell each other.
struct Progress {
    received: Vec<AtomicU64>,
    /// Messages each subscriber shall receive; unknown until the publisher has ended.
    total: AtomicU64,
    failed: AtomicBool,
}

impl Traffic {
    /// Warms up, then measures; the rate counts deliveries.
    pub(super) fn measure(&mut self, target: Target, settings: &Settings) -> Result<Vec<Measure>> {
        self.flow(settings.warm_up())?;
        let meter = Meter::start(target)?;
        let (deliveries, elapsed) = self.flow(settings.duration)?;
        meter.finish_after(deliveries, elapsed)
    }

    /// Publishes for a time; returns the deliveries and the time from the first write to the last of them.
    fn flow(&mut self, duration: Duration) -> Result<(u64, Duration)> {
        let Self { publisher, subscribers, load } = self;
        let lead =
            LEAD_BYTES / subscribers.iter().map(Counter::frame_length).max().context("no subscriber")? as u64;
        let progress = Progress {
            received: subscribers.iter().map(|_| AtomicU64::new(0)).collect(),
            total: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
        };
        let started = Instant::now();
        thread::scope(|scope| {
            let progress = &progress;
            let readers: Vec<_> = subscribers
                .iter_mut()
                .zip(&progress.received)
                .map(|(counter, received)| scope.spawn(move || receive(counter, received, progress)))
                .collect();
            let published = publish(publisher, load, lead, duration, progress);
            progress.failed.fetch_or(published.is_err(), Ordering::AcqRel);
            progress.total.store(*published.as_ref().unwrap_or(&0), Ordering::Release);
            let mut end = started;
            for reader in readers {
                let Ok(last) = reader.join() else { anyhow::bail!("a subscriber thread panicked") };
                end = end.max(last?);
            }
            Ok((published? * progress.received.len() as u64, end - started))
        })
    }
}

fn publish(
    client: &mut Client,
    load: &Load,
    lead: u64,
    duration: Duration,
    progress: &Progress,
) -> Result<u64> {
    let started = Instant::now();
    let mut sent = 0;
    for (bytes, count) in load.writes() {
        client.send(bytes)?;
        sent += count;
        let mut waiting = Instant::now();
        let mut slowest = 0;
        loop {
            let now = progress.received.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap_or(0);
            if sent.saturating_sub(now) <= lead || progress.failed.load(Ordering::Acquire) {
                break;
            }
            if now > slowest {
                (slowest, waiting) = (now, Instant::now());
            }
            ensure!(waiting.elapsed() < PATIENCE, "slowest subscriber stands at {now} of {sent} messages");
            thread::sleep(PAUSE);
        }
        if started.elapsed() >= duration || progress.failed.load(Ordering::Acquire) {
            break;
        }
    }
    client.round_trip()?;
    Ok(sent)
}

/// Reads until all messages are there; returns when the last one came.
fn receive(counter: &mut Counter, received: &AtomicU64, progress: &Progress) -> Result<Instant> {
    let result = receive_all(counter, received, progress);
    progress.failed.fetch_or(result.is_err(), Ordering::AcqRel);
    result
}

fn receive_all(counter: &mut Counter, received: &AtomicU64, progress: &Progress) -> Result<Instant> {
    let mut count = 0;
    let mut last = Instant::now();
    loop {
        let total = progress.total.load(Ordering::Acquire);
        ensure!(count <= total, "{count} messages received, {total} published");
        if count == total || progress.failed.load(Ordering::Acquire) {
            return Ok(last);
        }
        match counter.read()? {
            Some(messages) => {
                count += messages;
                received.store(count, Ordering::Release);
                last = Instant::now();
            }
            None => {
                ensure!(last.elapsed() < PATIENCE, "nothing came for {PATIENCE:?} after {count} messages")
            }
        }
    }
}
