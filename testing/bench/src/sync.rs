//! What the disk can do at best: the cost of one `fdatasync`, and bytes per second that are synced.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::measure::{Measure, Unit, percentile};

/// A file of this size is written beforehand, so that a sync has no new blocks to note, as in a log that is reused.
const FILE_BYTES: usize = 64 * 1024 * 1024;
/// The least that a disk writes, and a batch of a busy log.
const SIZES: [(usize, [&str; 3]); 2] = [
    (4096, ["4 KiB: rate", "4 KiB: sync p50", "4 KiB: sync p99"]),
    (1024 * 1024, ["1 MiB: bytes per second", "1 MiB: sync p50", "1 MiB: sync p99"]),
];

/// Writes and syncs in a directory, each size for the given time.
pub(crate) fn run(directory: &Path, duration: Duration) -> Result<Vec<Measure>> {
    let mut file = tempfile::tempfile_in(directory).with_context(|| directory.display().to_string())?;
    file.write_all(&vec![0; FILE_BYTES])?;
    file.sync_all()?;
    let mut measures = Vec::new();
    for (size, [rate, middle, late]) in SIZES {
        let mut samples = Vec::new();
        let started = Instant::now();
        while started.elapsed() < duration {
            samples.push(once(&mut file, size, samples.len())?);
        }
        let per_second = samples.len() as f64 / started.elapsed().as_secs_f64();
        let (unit, value) =
            if size > 4096 { (Unit::Bytes, per_second * size as f64) } else { (Unit::PerSecond, per_second) };
        measures.push(Measure { name: rate, unit, value });
        samples.sort_unstable();
        for (name, share) in [(middle, 0.50), (late, 0.99)] {
            let value = percentile(&samples, share).context("nothing was synced")? as f64;
            measures.push(Measure { name, unit: Unit::Nanoseconds, value });
        }
    }
    Ok(measures)
}

/// Writes at the next place, round and round, and syncs; nanoseconds of both.
fn once(file: &mut File, size: usize, number: usize) -> Result<u64> {
    let bytes = vec![number as u8; size];
    file.seek(SeekFrom::Start((number * size % FILE_BYTES) as u64))?;
    let started = Instant::now();
    file.write_all(&bytes)?;
    file.sync_data()?;
    Ok(u64::try_from(started.elapsed().as_nanos())?)
}
