//! What is measured: time, processor time and memory of a server process, and statistics over samples.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// One measured figure of one case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Nanoseconds,
    Bytes,
}

impl Unit {
    /// A figure with its unit, short enough for a table.
    pub(crate) fn format(self, value: f64) -> String {
        let scaled = |steps: &[(f64, &str)]| {
            let (factor, unit) =
                steps.iter().find(|(factor, _)| value.abs() >= *factor).unwrap_or(&steps[steps.len() - 1]);
            let scaled = value / factor;
            let digits = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
            format!("{scaled:.digits$} {unit}")
        };
        match self {
            Self::PerSecond => scaled(&[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
            Self::Nanoseconds => scaled(&[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
            Self::Bytes => scaled(&[(1_048_576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")]),
        }
    }

    /// The unit in machine-readable output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "per_second",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
        }
    }
}

/// The server under load, and its process when it is on this machine and known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) process: Option<u32>,
}

/// Memory of a process in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) rss: u64,
    pub(crate) pss: u64,
}

/// User and system time of a whole process, ended threads included, in steps of the system's tick (10 ms).
pub(crate) fn cpu_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = parse_ticks(&text).with_context(|| format!("{path}: {text}"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Fields 14 and 15; the command in field 2 may hold blanks and brackets, so counting starts after its last one.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// Bytes that a process caused to be written to storage, including those the kernel has yet to write.
pub(crate) fn written_bytes(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/io");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let number = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    number.with_context(|| format!("{path} has no write_bytes"))?.parse().with_context(|| path.clone())
}

/// Resident and proportional memory of a process.
pub(crate) fn memory(process: u32) -> Result<Memory> {
    Ok(Memory {
        rss: kilobytes(&format!("/proc/{process}/status"), "VmRSS:")?,
        pss: kilobytes(&format!("/proc/{process}/smaps_rollup"), "Pss:")?,
    })
}

fn kilobytes(path: &str, key: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
    parse_kilobytes(&text, key).with_context(|| format!("{path} has no {key}"))
}

fn parse_kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(number * 1024)
}

/// Measures the processor time of a span of work, of the server and of the generator itself.
pub(crate) struct Meter {
    target: Target,
    started: Instant,
    server: Option<Duration>,
    generator: Duration,
}

impl Meter {
    /// Starts the clock.
    pub(crate) fn start(target: Target) -> Result<Self> {
        let server = target.process.map(cpu_time).transpose()?;
        Ok(Self { target, server, generator: cpu_time(std::process::id())?, started: Instant::now() })
    }

    /// Ends after `count` operations, with now as the end.
    pub(crate) fn finish(self, count: u64) -> Result<Vec<Measure>> {
        let elapsed = self.started.elapsed();
        self.finish_after(count, elapsed)
    }

    /// Ends after `count` operations that took `elapsed`.
    pub(crate) fn finish_after(self, count: u64, elapsed: Duration) -> Result<Vec<Measure>> {
        anyhow::ensure!(count > 0, "nothing was done within {elapsed:?}");
        let count = count as f64;
        let each = |spent: Duration| spent.as_nanos() as f64 / count;
        let mut measures =
            vec![Measure { name: "rate", unit: Unit::PerSecond, value: count / elapsed.as_secs_f64() }];
        if let (Some(process), Some(before)) = (self.target.process, self.server) {
            let spent = cpu_time(process)?.saturating_sub(before);
            measures.push(Measure { name: "CPU each", unit: Unit::Nanoseconds, value: each(spent) });
        }
        let own = cpu_time(std::process::id())?.saturating_sub(self.generator);
        measures.push(Measure { name: "generator CPU each", unit: Unit::Nanoseconds, value: each(own) });
        Ok(measures)
    }
}

/// The memory of the server at the end of a case; nothing when its process is not known.
pub(crate) fn memory_at_end(target: Target) -> Result<Vec<Measure>> {
    let Some(process) = target.process else { return Ok(Vec::new()) };
    let memory = memory(process)?;
    let measure = |name, value| Measure { name, unit: Unit::Bytes, value: value as f64 };
    Ok(vec![measure("RSS", memory.rss), measure("PSS", memory.pss)])
}

/// The growth of the server's memory per item since `before`; nothing when its process is not known.
pub(crate) fn memory_growth(
    target: Target,
    before: Option<Memory>,
    items: usize,
    name: &'static str,
) -> Result<Vec<Measure>> {
    let (Some(process), Some(before)) = (target.process, before) else { return Ok(Vec::new()) };
    let growth = memory(process)?.rss.saturating_sub(before.rss);
    Ok(vec![Measure { name, unit: Unit::Bytes, value: growth as f64 / items as f64 }])
}

/// The smallest sample that at least `share` of the sorted samples do not exceed (nearest rank).
pub(crate) fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().checked_sub(1)?)).copied()
}

/// The middle sample, or the mean of the two middle ones.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(upper, sorted[sorted.len() / 2 - 1]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_takes_the_nearest_rank() {
        let samples: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&samples, 0.50), Some(50));
        assert_eq!(percentile(&samples, 0.99), Some(99));
        assert_eq!(percentile(&samples, 1.0), Some(100));
        assert_eq!(percentile(&samples, 0.0), Some(1));
        assert_eq!(percentile(&[7], 0.99), Some(7));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn proc_files_are_read_even_with_an_odd_command_name() {
        let stat = "42 (a) b) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(parse_ticks(stat), Some(200));
        assert_eq!(parse_ticks("42 (short) R 1"), None);
        assert_eq!(parse_kilobytes("Rss:  9 kB\nPss:     12 kB\n", "Pss:"), Some(12 * 1024));
        assert_eq!(parse_kilobytes("Rss: 9 kB\n", "Pss:"), None);
        let own = memory(std::process::id()).unwrap();
        assert!(own.rss > 0 && own.pss > 0 && own.pss <= own.rss * 2, "{own:?}");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(Unit::PerSecond.format(3_456_789.0), "3.46 M/s");
        assert_eq!(Unit::PerSecond.format(12.0), "12.0 /s");
        assert_eq!(Unit::Nanoseconds.format(212.4), "212 ns");
        assert_eq!(Unit::Nanoseconds.format(0.0), "0.00 ns");
        assert_eq!(Unit::Nanoseconds.format(43_100.0), "43.1 us");
        assert_eq!(Unit::Bytes.format(2048.0), "2.00 KiB");
    }
}
