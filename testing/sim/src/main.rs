//! Runs seeds and prints what went wrong: `cargo run -p sim -- --seeds 0..10000`.

#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use std::ops::Range;
use std::process::ExitCode;

/// Seeds unless told otherwise.
const SEEDS: Range<u64> = 0..1000;
/// Seeds after which progress is told.
const PROGRESS: u64 = 1000;

fn seeds() -> Result<Range<u64>, String> {
    let mut seeds = SEEDS;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        match argument.as_str() {
            "--seed" => {
                let seed = number(&value)?;
                seeds = seed..seed + 1;
            }
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or_else(|| format!("{value:?} is no range"))?;
                seeds = number(from)?..number(to)?;
            }
            _ => return Err(format!("{argument:?} is unknown; --seeds FROM..TO or --seed SEED")),
        }
    }
    Ok(seeds)
}

fn main() -> ExitCode {
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    // What a core asserts is a violation like others, and told with its seed.
    std::panic::set_hook(Box::new(|_| ()));
    let total = seeds.end - seeds.start;
    let (mut failed, mut acknowledged, mut lives, mut damages) = (0u64, 0, 0, 0);
    for (number, seed) in seeds.enumerate() {
        let outcome = sim::run(seed);
        acknowledged += outcome.acknowledged;
        lives += outcome.lives;
        damages += outcome.damages;
        if !outcome.violations.is_empty() {
            failed += 1;
            println!("seed {seed}");
            if total == 1 {
                outcome.trace.iter().for_each(|line| println!("  {line}"));
            }
            if let Some(violation) = outcome.violations.first() {
                println!("  {violation}");
            }
        }
        if (number as u64 + 1).is_multiple_of(PROGRESS) {
            println!("{} of {total} seeds, {failed} failed", number + 1);
        }
    }
    println!(
        "{total} seeds: {failed} failed; {acknowledged} publishes acknowledged, {lives} lives, {damages} files damaged"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
