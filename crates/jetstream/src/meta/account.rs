//! The streams of one account, with what a new one is checked against kept ready: sums and subjects.

use std::collections::BTreeMap;
use std::collections::btree_map;

use api::jetstream::limits::Totals;
use api::jetstream::stream::{Storage, StreamConfig};

use super::Asset;
use super::subjects::Subjects;

/// How many streams there are, and the bytes that they may grow to, by replicas and storage.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sums(BTreeMap<(i64, bool), (i64, i128)>);

impl Sums {
    fn change(&mut self, config: &StreamConfig, streams: i64) {
        let key = (config.num_replicas, config.storage == Storage::Memory);
        let sum = self.0.entry(key).or_default();
        sum.0 += streams;
        sum.1 += i128::from(streams) * i128::from(config.max_bytes.max(0));
        if sum.0 == 0 {
            self.0.remove(&key);
        }
    }

    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Totals> {
        self.0.iter().map(|(&(replicas, memory), &(streams, bytes))| {
            let storage = if memory { Storage::Memory } else { Storage::File };
            Totals { replicas, storage, streams, bytes }
        })
    }
}

/// The streams of one account.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Account {
    streams: BTreeMap<Box<str>, Asset>,
    /// Of all of them.
    pub(super) sums: Sums,
    subjects: Subjects,
}

impl Account {
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Asset> {
        self.streams.get(name)
    }

    /// By name.
    pub(super) fn streams(&self) -> btree_map::Values<'_, Box<str>, Asset> {
        self.streams.values()
    }

    /// Adds a stream, or changes the one of its name. `all` are the sums of the server.
    pub(super) fn put(&mut self, asset: Asset, all: &mut Sums) {
        let name: Box<str> = asset.config.name.as_str().into();
        self.remove(&name, all);
        self.count(&asset.config, 1, all);
        for subject in &asset.config.subjects {
            self.subjects.insert(subject, asset.group);
        }
        self.streams.insert(name, asset);
    }

    /// Takes a stream out.
    pub(super) fn remove(&mut self, name: &str, all: &mut Sums) -> Option<Asset> {
        let asset = self.streams.remove(name)?;
        self.count(&asset.config, -1, all);
        for subject in &asset.config.subjects {
            self.subjects.remove(subject, asset.group);
        }
        Some(asset)
    }

    fn count(&mut self, config: &StreamConfig, streams: i64, all: &mut Sums) {
        self.sums.change(config, streams);
        all.change(config, streams);
    }

    /// Does a stream of another name store what one of these subjects matches?
    pub(super) fn overlaps(&self, name: &str, subjects: &[String]) -> bool {
        let own = self.get(name).map(|asset| asset.group);
        subjects.iter().any(|subject| self.subjects.overlaps(subject, own))
    }
}
