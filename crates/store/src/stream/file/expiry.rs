//! Which messages are due.
//!
//! Times of their own are in a set. The maximum age is looked up in blocks whose oldest message may have reached it: each remembers a time before
//! which nothing in it is due, found anew when it was looked through.

use super::FileStore;
use super::index::Index;
use crate::Timestamp;
use crate::stream::{Error, Expiry};

impl FileStore {
    pub(super) fn due(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64> {
        let own = self.expiries.iter().take_while(|(time, _)| *time <= now);
        let mut due: Vec<u64> = own.take(max).map(|(_, sequence)| *sequence).collect();
        if let Some(before) = max_age_before {
            let mut aged = Vec::new();
            for at in 0..self.blocks.list.len() {
                // A block that cannot be read keeps its messages until it can.
                if aged.len() == max || self.aged_in(at, before, max, &mut aged).is_err() {
                    break;
                }
            }
            due.append(&mut aged);
        }
        due.sort_unstable();
        due.dedup();
        due.truncate(max);
        due
    }

    fn aged_in(&self, at: usize, before: Timestamp, max: usize, aged: &mut Vec<u64>) -> Result<(), Error> {
        let block = &self.blocks.list[at];
        if block.live == 0 || block.aging_from.get() > before {
            return Ok(());
        }
        let index = self.blocks.index(at)?;
        let mut youngest = Timestamp(i64::MAX);
        for (number, chunk) in index.chunks.iter().enumerate() {
            if chunk.oldest > before {
                youngest = youngest.min(chunk.oldest);
                continue;
            }
            let end = index.chunk_slots(number as u32).end;
            let mut slot = chunk.slot;
            while let Some(live) = block.live_from(slot).filter(|live| *live < end) {
                slot = live + 1;
                let Some(time) = self.aging_time(at, &index, live)? else { continue };
                if time > before {
                    youngest = youngest.min(time);
                    continue;
                }
                if aged.len() == max {
                    return Ok(());
                }
                aged.push(index.sequence(live));
                youngest = youngest.min(time);
            }
        }
        block.aging_from.set(youngest);
        Ok(())
    }

    /// Time of a message from which its age counts; `None` if it never does, or is damaged.
    fn aging_time(&self, at: usize, index: &Index, slot: u32) -> Result<Option<Timestamp>, Error> {
        if index.expiry(slot) == Expiry::Never {
            return Ok(None);
        }
        Ok(self.blocks.record(at, index, slot)?.map(|(_, parts)| parts.timestamp))
    }
}
