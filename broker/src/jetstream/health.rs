//! What is wrong with JetStream: streams that failed, data that is damaged, a log that takes nothing more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Reports kept for one stream. More say nothing new.
const REPORTS_MAX: usize = 8;
/// Streams with reports.
const STREAMS_MAX: usize = 4096;

/// Troubles by account and stream.
#[derive(Debug, Default)]
pub struct Health {
    troubles: Mutex<BTreeMap<(Box<str>, Box<str>), Vec<Trouble>>>,
    to_recover: AtomicU64,
    recovered: AtomicU64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The stream takes no more changes.
    Failed(String),
    /// Part of it is lost.
    Damaged(String),
}

impl Health {
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
        if reports.len() < REPORTS_MAX && !reports.contains(&trouble) {
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

    /// So many streams have to be recovered.
    pub fn expect(&self, streams: u64) {
        self.to_recover.fetch_add(streams, Relaxed);
    }

    /// One is recovered.
    pub fn recovered(&self) {
        self.recovered.fetch_add(1, Relaxed);
    }

    /// Streams recovered, and streams to recover.
    pub fn progress(&self) -> (u64, u64) {
        (self.recovered.load(Relaxed), self.to_recover.load(Relaxed))
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
        health.forget("A", "S");
        assert!(health.troubles().is_empty());
    }
}
