//! What the process costs: memory, processor time, cores.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;

/// Processor use is measured over at least this long; asked for sooner, the last figure stands.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Figures of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Figures {
    /// Resident memory in bytes.
    pub(super) memory: u64,
    /// Processor use in percent of one core, since the figure was taken before.
    pub(super) cpu: f64,
}

/// Measures the process. Processor use is the difference between two measurements, so it remembers the last.
#[derive(Debug, Default)]
pub(super) struct Usage(Mutex<Option<Sample>>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    ticks: u64,
    cpu: f64,
}

impl Usage {
    /// Takes the figures now. Zero where the system does not tell.
    pub(super) fn figures(&self) -> Figures {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = resident_pages(&statm).unwrap_or(0);
        let page_size = u64::try_from(rustix::param::page_size()).unwrap_or(0);
        Figures { memory: pages.saturating_mul(page_size), cpu: self.cpu() }
    }

    fn cpu(&self) -> f64 {
        let mut last = self.0.lock();
        let now = clock::now();
        if let Some(sample) = *last
            && now.saturating_duration_since(sample.at) < INTERVAL_MIN
        {
            return sample.cpu;
        }
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = processor_ticks(&stat).unwrap_or(0);
        let cpu = last.map_or(0.0, |sample| {
            let used =
                ticks.saturating_sub(sample.ticks) as f64 / rustix::param::clock_ticks_per_second() as f64;
            percent(used, now.saturating_duration_since(sample.at))
        });
        *last = Some(Sample { at: now, ticks, cpu });
        cpu
    }
}

/// Cores that the process may run on.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Share of `seconds` in `interval`, in percent with one digit behind the point.
fn percent(seconds: f64, interval: Duration) -> f64 {
    (seconds / interval.as_secs_f64() * 1000.0).round() / 10.0
}

/// Second field of `statm`.
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// User and system time in `stat`, in clock ticks. The name of the program stands in parentheses and may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_the_files_of_the_kernel() {
        assert_eq!(resident_pages("54321 1234 800 10 0 900 0\n"), Some(1234));
        let stat = "77 (a (b) c) S 1 77 77 0 -1 4194560 900 0 3 0 250 50 7 8 20 0 5 0 12345 1 2";
        assert_eq!(processor_ticks(stat), Some(300));
        for broken in ["", "77 (x", "77 (x) S 1 2", "77 (x) S 1 77 77 0 -1 4194560 900 0 3 0 a b"] {
            assert_eq!(processor_ticks(broken), None, "{broken}");
        }
        assert_eq!(resident_pages("12"), None);
    }

    #[test]
    fn percent_is_of_one_core() {
        assert_eq!(percent(1.5, Duration::from_secs(1)), 150.0);
        assert_eq!(percent(0.01234, Duration::from_secs(10)), 0.1);
    }

    #[test]
    fn this_process_uses_memory_and_the_figure_stands_within_an_interval() {
        let usage = Usage::default();
        assert!(usage.figures().memory > 100_000);
        assert_eq!(usage.figures().cpu, 0.0);
    }
}
