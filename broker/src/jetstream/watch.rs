//! Interest that consumers wait for: push consumers deliver only while somebody subscribes to their subject.
//!
//! The interest of an account tells its peers of every change of what is subscribed to here; this is one more peer, which tells the shards.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use routing::interest::Announce;

use super::directory::StreamEntry;
use super::inbox::Inbox;
use super::shard::Input;
use crate::net::sink::Account;

/// Who waits for a subject.
#[derive(Debug, Clone)]
struct Watcher {
    group: u64,
    inbox: Arc<Inbox>,
}

/// The watched subjects of one account.
#[derive(Debug, Default)]
pub struct Watchers {
    id: u64,
    subjects: Mutex<HashMap<Bytes, Vec<Watcher>>>,
}

impl Watchers {
    /// Nothing watched yet; told of interest from now on.
    pub fn attach(id: u64, account: &Account) -> Arc<Self> {
        let watchers = Arc::new(Self { id, subjects: Mutex::default() });
        account.interest.attach(account.name(), Arc::<Self>::clone(&watchers));
        watchers
    }

    fn tell(watchers: &[Watcher], subject: &Bytes) {
        for watcher in watchers {
            watcher.inbox.push(Input::Interest { group: watcher.group, subject: subject.clone() });
        }
    }
}

impl Announce for Watchers {
    fn interest(&self, _account: &str, subject: &[u8], _queue: Option<&[u8]>, _count: u32) {
        let subjects = self.subjects.lock();
        if subjects.is_empty() {
            return;
        }
        if !subject::has_wildcard(subject) {
            if let Some((subject, watchers)) = subjects.get_key_value(subject) {
                Self::tell(watchers, subject);
            }
            return;
        }
        for (watched, watchers) in subjects.iter().filter(|(watched, _)| subject::matches(watched, subject)) {
            Self::tell(watchers, watched);
        }
    }

    fn id(&self) -> u64 {
        self.id
    }
}

/// A consumer of the stream waits for interest in the subject.
pub fn add(stream: &StreamEntry, subject: Bytes) {
    let watcher = Watcher { group: stream.group, inbox: Arc::clone(&stream.inbox) };
    let mut subjects = stream.account.watchers.subjects.lock();
    subjects.entry(subject).or_default().push(watcher);
}

/// It does not any more.
pub fn remove(stream: &StreamEntry, subject: &[u8]) {
    let mut subjects = stream.account.watchers.subjects.lock();
    let Some(watchers) = subjects.get_mut(subject) else { return };
    // Another consumer of the same stream may wait for it too.
    if let Some(at) = watchers.iter().position(|watcher| watcher.group == stream.group) {
        watchers.swap_remove(at);
    }
    if watchers.is_empty() {
        subjects.remove(subject);
    }
}
