//! The way out: segments whose entries are all released become spare files or go.

use super::format::Body;
use super::segment::{Segment, Spare, segment_name, spare_name};
use super::{Error, GroupId, Record, SPARES_MAX, Wal};

impl Wal {
    /// Recycles the oldest segments that are not needed any more, and returns how many those were. Without any it costs nothing; otherwise it syncs the log
    /// and the directory, so it is best called when nobody waits.
    pub fn recycle(&mut self) -> Result<usize, Error> {
        self.check()?;
        let older = self.table.segments.len() - 1;
        let free = self.table.segments.iter().take(older).take_while(|segment| segment.live == 0).count();
        if free == 0 {
            return Ok(0);
        }
        let result = self.free_oldest(free);
        self.keep_failure(result)?;
        Ok(free)
    }

    pub(super) fn free_oldest(&mut self, count: usize) -> Result<(), Error> {
        let floor = self.table.segments[count].sequence;
        self.carry(count, floor)?;
        self.make_room(Body::Floor(floor).length())?;
        self.put(&Body::Floor(floor))?;
        self.write_and_sync()?;
        self.floor = floor;
        for _ in 0..count {
            if let Some(segment) = self.table.segments.pop_front() {
                self.free(segment)?;
            }
        }
        Ok(())
    }

    /// Writes again what only the `count` oldest segments, all below `floor`, hold of groups that live.
    fn carry(&mut self, count: usize, floor: u64) -> Result<(), Error> {
        let mut ids: Vec<GroupId> = self
            .table
            .segments
            .iter()
            .take(count)
            .flat_map(|segment| segment.groups.iter().copied())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let Some(group) = self.table.get(id) else { continue };
            let hard_state = group.hard_state.filter(|_| group.hard_segment < floor);
            let (index, term, checkpoint) = (group.released, group.released_term, group.checkpoint);
            let released = Record::Released { group: id, index, term, checkpoint };
            let released = (index > 0 && group.released_segment < floor).then_some(released);
            if let Some(state) = hard_state {
                self.append_unchecked(Record::HardState { group: id, state })?;
            }
            if let Some(record) = released {
                self.append_unchecked(record)?;
            }
        }
        Ok(())
    }

    /// The name goes for good before that of the next segment does. What is kept in clear does not stay when the log is sealed.
    fn free(&mut self, segment: Segment) -> Result<(), Error> {
        let path = self.path(&segment_name(segment.sequence));
        let is_fit = segment.len <= self.options.segment_bytes
            && segment.key.is_some() == self.options.crypt.is_some()
            && self.spares.len() < SPARES_MAX;
        if is_fit {
            let spare = Spare { number: segment.sequence, len: segment.len };
            self.disk.rename(&path, &self.path(&spare_name(spare.number)))?;
            self.spares.push_back(spare);
        } else {
            self.disk.remove_file(&path)?;
        }
        self.disk.sync_dir(&self.directory)?;
        Ok(())
    }
}
