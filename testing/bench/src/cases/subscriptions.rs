//! Very many subscriptions with distinct subjects on one connection, and messages to random ones of them.

use anyhow::{Result, ensure};

use super::Settings;
use super::deliver::Traffic;
use crate::client::{Client, Counter};
use crate::frames::{Expected, Load, WRITE_BYTES};
use crate::measure::{Measure, Meter, Target, memory, memory_at_end, memory_growth};

const SIZE: usize = 128;
/// Numbers of six digits only, so that all frames have one length.
const FIRST: usize = 100_000;
const SUBSCRIPTIONS_MAX: usize = 900_000;
const DIGITS: usize = 6;

pub(super) fn run(target: Target, settings: &Settings) -> Result<Vec<Measure>> {
    let count = settings.subscriptions;
    ensure!(
        (1..=SUBSCRIPTIONS_MAX).contains(&count),
        "{count} subscriptions: 1 to {SUBSCRIPTIONS_MAX} are possible"
    );
    let mut subscriber = Client::connect(target.address)?;
    let publisher = Client::connect(target.address)?;
    let before = target.process.map(memory).transpose()?;

    let lines: String =
        (FIRST..FIRST + count).map(|number| format!("SUB bench.unit.{number} {number}\r\n")).collect();
    let meter = Meter::start(target)?;
    for bytes in lines.as_bytes().chunks(WRITE_BYTES) {
        subscriber.send(bytes)?;
    }
    subscriber.round_trip()?;
    let mut measures: Vec<Measure> = meter.finish(count as u64)?.into_iter().filter_map(registered).collect();
    measures.extend(memory_growth(target, before, count, "RSS per subscription")?);

    // Between prefix and size stand the number in the subject, a blank, and the number as subscription id.
    let expected = Expected::varying("MSG bench.unit.", DIGITS + 1 + DIGITS, SIZE);
    let load = Load::each(shuffled(count).into_iter().map(|number| format!("bench.unit.{number}")), SIZE)?;
    let mut traffic = Traffic { publisher, subscribers: vec![Counter::new(subscriber, expected)?], load };
    measures.extend(traffic.measure(target, settings)?);
    measures.extend(memory_at_end(target)?);
    Ok(measures)
}

/// The figures of registering under names of their own.
fn registered(measure: Measure) -> Option<Measure> {
    let name = match measure.name {
        "rate" => "subscribe rate",
        "CPU each" => "subscribe CPU each",
        _ => return None,
    };
    Some(Measure { name, ..measure })
}

/// All numbers in an order that looks random and is the same in every run, so that both servers get the same load.
fn shuffled(count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (FIRST..FIRST + count).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for end in (1..count).rev() {
        // Xorshift: plenty for a shuffle.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(end, (state % (end as u64 + 1)) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_keeps_every_number_and_moves_most() {
        let numbers = shuffled(1000);
        let moved = numbers.iter().enumerate().filter(|(at, number)| FIRST + at != **number).count();
        assert!(moved > 900, "{moved} moved");
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(FIRST..FIRST + 1000));
        assert_eq!(numbers, shuffled(1000));
    }
}
