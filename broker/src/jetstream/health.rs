//! What is wrong with JetStream: streams that failed, data that is damaged, a log that takes nothing more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Reports of each kind kept for one stream. More say nothing new.
const REPORTS_MAX: usize = 8;
/// Streams with reports.
const STREAMS_MAX: usize = 4096;

/// Values of the phase; see [`Progress`].
const LOG: u8 = 0;
const CATALOGUE: u8 = 1;
const STREAMS: u8 = 2;
const DONE: u8 = 3;

/// Reports by account and stream.
type Troubles = BTreeMap<(Box<str>, Box<str>), Vec<Trouble>>;

/// Troubles by account and stream.
#[derive(Debug, Default)]
pub struct Health {
    troubles: Mutex<Troubles>,
    phase: AtomicU8,
    to_recover: AtomicU64,
    recovered: AtomicU64,
}

/// How far the start is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The log is being read.
    Log,
    /// The catalogue is being read.
    Catalogue,
    /// So many streams of so many are recovered.
    Streams(u64, u64),
    /// Everything is there.
    Done,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("JetStream is still recovering: reading the log"),
            Self::Catalogue => f.write_str("JetStream is still recovering: reading the catalogue"),
            Self::Streams(recovered, all) => {
                write!(f, "JetStream is still recovering: {recovered} of {all} streams")
            }
            Self::Done => f.write_str("JetStream is recovered"),
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The stream is on disk and could not be opened.
    Lost(String),
    /// The stream takes no more changes.
    Failed(String),
    /// Part of it is lost.
    Damaged(String),
}

impl Health {
    /// A stream could not be opened.
    pub fn lost(&self, account: &str, stream: &str, reason: &str) {
        self.add(account, stream, Trouble::Lost(reason.to_owned()));
    }

    /// A stream takes no more changes.
    pub fn failed(&self, account: &str, stream: &str, reason: &str) {
        self.add(account, stream, Trouble::Failed(reason.to_owned()));
    }

    /// Part of a stream is lost.
    pub fn damaged(&self, account: &str, stream: &str, reason: &str) {
        self.add(account, stream, Trouble::Damaged(reason.to_owned()));
    }

    fn add(&self, account: &str, stream: &str, trouble: Trouble) {
        let mut troubles = self.troubles.lock();
        let key = (account.into(), stream.into());
        if troubles.len() >= STREAMS_MAX && !troubles.contains_key(&key) {
            return;
        }
        let reports = troubles.entry(key).or_default();
        let kind = std::mem::discriminant(&trouble);
        let known = reports.iter().filter(|report| std::mem::discriminant(*report) == kind).count();
        if known < REPORTS_MAX && !reports.contains(&trouble) {
            reports.push(trouble);
        }
    }

    /// A stream is gone, and its troubles with it.
    pub fn forget(&self, account: &str, stream: &str) {
        self.troubles.lock().remove(&(account.into(), stream.into()));
    }

    /// All troubles, by account and stream.
    pub fn troubles(&self) -> Vec<(Box<str>, Box<str>, Trouble)> {
        let troubles = self.troubles.lock();
        let each = troubles.iter().flat_map(|((account, stream), reports)| {
            reports.iter().map(|report| (account.clone(), stream.clone(), report.clone()))
        });
        each.collect()
    }

    /// Streams that take no changes, and streams of which a part is lost.
    pub fn counts(&self) -> (u64, u64) {
        let troubles = self.troubles.lock();
        let having = |of: fn(&Trouble) -> bool| {
            troubles.values().filter(|reports| reports.iter().any(of)).count() as u64
        };
        (
            having(|trouble| matches!(trouble, Trouble::Lost(_) | Trouble::Failed(_))),
            having(|trouble| matches!(trouble, Trouble::Damaged(_))),
        )
    }

    /// The start goes on: the log is read.
    pub fn log_is_read(&self) {
        self.phase.store(CATALOGUE, Relaxed);
    }

    /// The start goes on: it is known which streams there are.
    pub fn catalogue_is_read(&self) {
        self.phase.store(STREAMS, Relaxed);
    }

    /// The start is over.
    pub fn started(&self) {
        self.phase.store(DONE, Relaxed);
    }

    /// So many streams have to be recovered.
    pub fn expect(&self, streams: u64) {
        self.to_recover.fetch_add(streams, Relaxed);
    }

    /// One is recovered.
    pub fn recovered(&self) {
        self.recovered.fetch_add(1, Relaxed);
    }

    /// How far the start is.
    pub fn progress(&self) -> Progress {
        match self.phase.load(Relaxed) {
            LOG => Progress::Log,
            CATALOGUE => Progress::Catalogue,
            STREAMS => Progress::Streams(self.recovered.load(Relaxed), self.to_recover.load(Relaxed)),
            _ => Progress::Done,
        }
    }

    /// Streams that there were at the start.
    pub fn streams(&self) -> u64 {
        self.to_recover.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_kept_once_and_bounded() {
        let health = Health::default();
        for n in 0..2 * REPORTS_MAX {
            health.damaged("A", "S", &format!("block {n}"));
            health.damaged("A", "S", &format!("block {n}"));
        }
        assert_eq!(health.troubles().len(), REPORTS_MAX);
        health.failed("A", "S", "no space");
        health.lost("B", "T", "no key");
        assert_eq!(health.counts(), (2, 1));
        health.forget("A", "S");
        assert_eq!(health.counts(), (1, 0));
        health.forget("B", "T");
        assert!(health.troubles().is_empty());
    }

    #[test]
    fn the_start_tells_how_far_it_is() {
        let health = Health::default();
        assert_eq!(health.progress(), Progress::Log);
        health.log_is_read();
        assert_eq!(health.progress(), Progress::Catalogue);
        health.expect(3);
        health.catalogue_is_read();
        health.recovered();
        let text = health.progress().to_string();
        assert_eq!(text, "JetStream is still recovering: 1 of 3 streams");
        health.started();
        assert_eq!(health.progress(), Progress::Done);
    }
}
