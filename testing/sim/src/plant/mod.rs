//! Faults that are planted on purpose, one for each rule: what the checker does not find here it would not find elsewhere.

mod disk;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ::store::stream::{Items, Recovered};

pub(crate) use disk::{BrokenDisk, CHECKPOINT, Lie};
pub(crate) use store::BrokenStore;

/// A server that is broken in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The disk says that it synced and did not.
    SyncIgnored,
    /// A sync that failed is tried again, and believed.
    SyncRetried,
    /// A start takes the files of a stream for synced, whatever the log knows of them.
    FilesBelieved,
    /// What is on its way to the log counts as written.
    AckBeforePersisted,
    /// The log is released when a checkpoint begins, not when it is on disk.
    ReleasedEarly,
    /// A checkpoint counts as written that never was.
    JobSkipped,
    /// The last entry of the log is not replayed.
    TailForgotten,
    /// Deletions and purges are not replayed.
    RemovalsForgotten,
    /// Messages that nobody needs any more stay.
    DoneKept,
    /// A stream that was deleted comes back with the next start.
    StreamDeleteForgotten,
    /// Message ids are forgotten by a restart.
    IdsForgotten,
    /// Acknowledgements are confirmed when they arrive.
    ConfirmEarly,
    /// Consumers come back as their first checkpoint knew them.
    ConsumersForgotten,
    /// Damage is found and nobody is told.
    DamageUntold,
    /// Damage of one stream stops the others.
    DamageStopsAll,
    /// `num_pending` is one too high.
    PendingWrong,
}

/// What a planted fault remembers over the lives of a server.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    items: BTreeMap<u64, Items>,
    replaying: BTreeMap<u64, Arc<AtomicBool>>,
    /// The files of a stream are being opened that was there before.
    pub(crate) opening: Arc<AtomicBool>,
}

impl Memory {
    /// Consumers as they were when the group was opened for the first time with any.
    pub(crate) fn age_items(&mut self, plant: Plant, group: u64, recovered: &mut Recovered) {
        if plant != Plant::ConsumersForgotten {
            return;
        }
        let first = self.items.entry(group).or_default();
        for (name, item) in &mut recovered.items {
            if name.starts_with("consumer/") {
                item.clone_from(first.entry(name.clone()).or_insert_with(|| item.clone()));
            }
        }
    }

    /// The group is opened: a flag that is up while its log is replayed.
    pub(crate) fn opens(&mut self, group: u64) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(true));
        self.replaying.insert(group, Arc::clone(&flag));
        flag
    }

    /// The log of the group is replayed.
    pub(crate) fn led(&mut self, group: u64) {
        if let Some(flag) = self.replaying.get(&group) {
            flag.store(false, Relaxed);
        }
    }
}
