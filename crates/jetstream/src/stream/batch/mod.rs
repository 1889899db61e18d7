//! Batches of messages: atomic ones, of which all or none is stored, and fast ones, which are acknowledged a group at a time
//! (jetstream-api, section 7).

mod atomic;
mod fast;

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use hashbrown::HashMap;
use store::Timestamp;

use super::Stream;
use crate::effect::Effects;
use crate::outside::Outside;
use atomic::Atomic;
pub(crate) use atomic::View;
use fast::Fast;
pub(crate) use fast::FastAck;

/// End of the reply subject of a message of a fast batch.
pub(crate) const FAST_SUFFIX: &[u8] = b".$FI";

/// Longest identity of a batch.
const ID_MAX: usize = 64;

/// Open batches of one stream.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    atomic: HashMap<Bytes, Atomic>,
    fast: HashMap<Bytes, Fast>,
    /// No batch times out before it.
    not_before: Option<Timestamp>,
}

impl Batches {
    /// When a batch may have timed out.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// A batch lives until this time.
    fn arm(&mut self, deadline: Timestamp) {
        self.not_before = Some(self.not_before.map_or(deadline, |known| known.min(deadline)));
    }

    /// Forgets all of them.
    pub(crate) fn close(&mut self, outside: &dyn Outside) {
        let usage = &outside.limits().server_usage;
        usage.atomic_batches.fetch_sub(self.atomic.len() as i64, Relaxed);
        usage.fast_batches.fetch_sub(self.fast.len() as i64, Relaxed);
        *self = Self::default();
    }
}

/// Counts one more batch of the server. False, and not counted, if there are that many already.
fn take_place(counter: &AtomicI64, max: i64) -> bool {
    if counter.fetch_add(1, Relaxed) < max {
        return true;
    }
    counter.fetch_sub(1, Relaxed);
    false
}

impl Stream {
    /// Gives up batches for which nothing came for too long.
    pub(crate) fn expire_batches(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let now = outside.now();
        if self.batches.not_before.is_none_or(|due| due > now) {
            return;
        }
        self.expire_atomic(outside, effects, now);
        self.expire_fast(outside, now);
        let atomic = self.batches.atomic.values().map(|batch| batch.deadline);
        let fast = self.batches.fast.values().map(|batch| batch.deadline);
        self.batches.not_before = atomic.chain(fast).min();
    }
}
