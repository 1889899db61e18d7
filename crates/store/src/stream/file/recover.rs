//! Opening a store: back to the last checkpoint, whatever else is in the directory.
//!
//! The records of the checkpoint file are put together; all that they do not know is cut or removed; each block gets its index and its deletions; the
//! subject index is made from those. What is missing or damaged is told, counted as deleted, and written off by the next checkpoint.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;

use super::FileStore;
use super::block::{Block, Facts, Place};
use super::blocks::Blocks;
use super::checkpoint::{Checkpoints, Garbage};
use super::counters;
use super::index::{Index, UNKNOWN};
use super::job::{PLAIN, SEALED_WITH_KEY, body_place, overwrite, write_record};
use super::journal::{self, Frame, Frames, Journal, Record};
use super::options::FileOptions;
use super::scan::{self, Lost};
use super::shared::{CHECKPOINT, KEY, Name, Shared, block_name, index_name, parse_name};
use super::write::Growing;
use super::{index_file, key};
use crate::Timestamp;
use crate::crypt::ENVELOPE_BYTES;
use crate::disk::{self, Disk, Open};
use crate::stream::subjects::SubjectIndex;
use crate::stream::{Damage, Error, Expiry, Items, Recovered, SubjectState};

pub(super) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: FileOptions,
) -> Result<(FileStore, Recovered), Error> {
    let mut shared = Shared::new(disk, dir, options);
    let parents = create_dir(&shared, dir)?;
    let names: Vec<Name> = shared.disk.list(dir)?.iter().map(|name| parse_name(name)).collect();
    let has_blocks = names.iter().any(|name| matches!(name, Name::Block(_)));
    let mut history = History::read(&mut shared, has_blocks)?;
    let mut adopted = Vec::new();
    if history.is_new {
        // From here on a missing checkpoint file is damage: blocks come later.
        let record = Record { base: true, ..history.last.clone() };
        history.journal = write_record(&shared, history.journal, &record)?;
        for parent in parents {
            shared.disk.sync_dir(&parent)?;
        }
    } else if !history.is_confirmed {
        // Names may be there that no sync of a directory ever confirmed, because the last one failed.
        shared.disk.sync_dir(&shared.dir)?;
        for parent in parents {
            shared.disk.sync_dir(&parent)?;
        }
        if !history.has_base {
            adopted = history.adopt(&names);
        }
    }
    history.clear_away(&shared, &names)?;
    let mut builder = Builder::new(Arc::new(shared), history);
    builder.take_blocks(&adopted)?;
    Ok(builder.finish())
}

/// Creates the directory and those above it. Returns the ones that hold a new name, and the one right above in any case.
fn create_dir(shared: &Shared, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut parents = Vec::new();
    let mut missing = true;
    for path in dir.ancestors() {
        // The working directory of a relative path was there before.
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { break };
        parents.push(parent.to_owned());
        if is_there(&*shared.disk, path)? {
            missing = path != dir;
            break;
        }
    }
    if missing {
        shared.disk.create_dir_all(dir)?;
    }
    Ok(parents)
}

/// Is there such a directory? The one with all streams is not listed for this: it may be long.
fn is_there(disk: &dyn Disk, path: &Path) -> disk::Result<bool> {
    match disk.open(path, Open::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) if error.source.kind() == ErrorKind::IsADirectory => Ok(true),
        Err(error) => Err(error),
    }
}

/// What the checkpoint file says, put together.
struct History {
    /// The last record, with what the ones before it said.
    last: Record,
    blocks: BTreeMap<u64, Facts>,
    dead: HashMap<u64, Vec<RangeInclusive<u64>>>,
    items: Items,
    journal: Journal,
    renew: bool,
    has_base: bool,
    is_new: bool,
    /// What the file shows is known to be on stable storage, with all names that it counts on.
    is_confirmed: bool,
    damage: Vec<Damage>,
}

impl History {
    fn read(shared: &mut Shared, has_blocks: bool) -> Result<Self, Error> {
        let path = shared.path(CHECKPOINT);
        let (bytes, missing) = match shared.read_all(&path) {
            Ok(bytes) => (bytes, false),
            Err(error) if error.is_not_found() => (Vec::new(), true),
            Err(error) => return Err(error.into()),
        };
        let found = journal::frames(shared.identity, &bytes);
        let spare = found.frames.iter().find(|frame| frame.body.first() == Some(&SEALED_WITH_KEY));
        let spare = spare.and_then(|frame| frame.body.get(1..=ENVELOPE_BYTES));
        let renewed = key::open(shared, spare, has_blocks || !bytes.is_empty())?;
        let is_confirmed = is_confirmed(shared, &found, bytes.len(), spare);
        if !missing && !is_confirmed {
            // A process may have died between writing a record and syncing it: what is believed now must stay. It is written again, because
            // after a sync that failed what is read may be nowhere on disk, and a sync alone would not put it there.
            let file = shared.disk.open(&path, Open::Write)?;
            if found.len < bytes.len() as u64 {
                file.set_len(found.len)?;
            }
            if let Some(last) = bytes.get(found.last as usize..found.len as usize) {
                file.write_at(last, found.last)?;
            }
            file.sync()?;
        }
        let mut history = Self {
            last: Record { next_block: 1, ..Record::default() },
            blocks: BTreeMap::new(),
            dead: HashMap::new(),
            items: Items::new(),
            journal: Journal::default(),
            renew: renewed || found.worn,
            has_base: false,
            is_new: missing && !has_blocks,
            is_confirmed,
            damage: Vec::new(),
        };
        if found.damaged {
            history.report("a record and its copy are damaged");
        }
        for frame in &found.frames {
            history.replay(shared, frame)?;
        }
        if history.has_base {
            let Journal { next, sum, .. } = history.journal;
            history.journal = Journal { len: found.len, base: found.first, next, sum };
        } else if !history.is_new {
            history.report(if missing { "file is missing" } else { "no base can be read" });
        }
        Ok(history)
    }

    fn report(&mut self, reason: &str) {
        self.renew = true;
        self.damage.push(Damage { file: CHECKPOINT.to_owned(), sequences: None, reason: reason.to_owned() });
    }

    fn replay(&mut self, shared: &Shared, frame: &Frame) -> Result<(), Error> {
        let Some(record) = unseal(shared, frame)? else {
            self.report(&format!("record {} cannot be understood", frame.number));
            return Ok(());
        };
        if record.base {
            self.has_base = true;
            self.blocks.clear();
            self.dead.clear();
            self.items.clear();
        }
        for facts in &record.blocks {
            self.blocks.insert(facts.number, *facts);
        }
        for (number, runs) in &record.dead {
            self.dead.entry(*number).or_default().extend(runs.iter().cloned());
        }
        for Garbage { number, .. } in &record.dropped {
            self.blocks.remove(number);
            self.dead.remove(number);
        }
        for (name, value) in &record.items {
            match value {
                Some(value) => self.items.insert(name.clone(), value.clone()),
                None => self.items.remove(name),
            };
        }
        self.journal.next = frame.number + 1;
        self.journal.sum = frame.sum;
        self.last = record;
        Ok(())
    }

    /// Without a base the blocks themselves have to say what there is. Returns those that are taken in although no record tells of them.
    fn adopt(&mut self, names: &[Name]) -> Vec<u64> {
        let mut adopted = Vec::new();
        for name in names {
            let Name::Block(number) = *name else { continue };
            self.last.next_block = self.last.next_block.max(number + 1);
            if self.blocks.contains_key(&number) {
                continue;
            }
            let (oldest, newest) = (Timestamp(i64::MAX), Timestamp(i64::MIN));
            let (base, last) = (0, u64::MAX);
            let facts = Facts { number, base, last, slots: 0, len: u32::MAX, oldest, newest, index: None };
            self.blocks.insert(number, facts);
            adopted.push(number);
        }
        adopted
    }

    /// Removes files that no record knows.
    fn clear_away(&self, shared: &Shared, names: &[Name]) -> Result<(), Error> {
        let indexed = |number| self.blocks.get(number).is_some_and(|facts: &Facts| facts.index.is_some());
        for name in names {
            match name {
                Name::Block(number) if !self.blocks.contains_key(number) => {
                    let path = shared.block_path(*number);
                    if self.last.dropped.contains(&Garbage { number: *number, wipe: true }) {
                        overwrite(shared, &path)?;
                    }
                    shared.remove(&path)?;
                }
                Name::Index(number) if !indexed(number) => shared.remove(&shared.index_path(*number))?,
                Name::Leftover(file) => shared.remove(&shared.path(file))?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Is what a file of this length shows exactly the checkpoint that is known to be on stable storage? That was written after all that it names was
/// synced, with one exception: the key's file may have been replaced since, and its copy in the base tells.
fn is_confirmed(shared: &Shared, found: &Frames, length: usize, spare: Option<&[u8]>) -> bool {
    let last = found.frames.last().map_or(0, |frame| frame.sum);
    let is_whole = found.len == length as u64 && !found.damaged && !found.worn;
    let envelope = shared.envelope.as_ref().map(<[u8; ENVELOPE_BYTES]>::as_slice);
    is_whole && last != 0 && last == shared.options.confirmed && spare == envelope
}

fn unseal(shared: &Shared, frame: &Frame) -> Result<Option<Record>, Error> {
    let Some((form, body)) = frame.body.split_first() else { return Ok(None) };
    if *form == PLAIN {
        return Ok(Record::decode(body).ok());
    }
    if shared.key.is_none() {
        let reason = "the stream is encrypted and its key is lost or not configured".to_owned();
        return Err(Error::Damaged(Damage { file: KEY.to_owned(), sequences: None, reason }));
    }
    let skip = if *form == SEALED_WITH_KEY { ENVELOPE_BYTES } else { 0 };
    let Some(sealed) = body.get(skip..) else { return Ok(None) };
    let plain = shared.unseal(&body_place(frame.number), sealed.to_vec());
    Ok(plain.and_then(|plain| Record::decode(&plain).ok()))
}

/// Puts the store together, block by block.
struct Builder {
    blocks: Blocks,
    history: History,
    subjects: SubjectIndex,
    expiries: BTreeSet<(Timestamp, u64)>,
    dropped: Vec<Garbage>,
    /// Sequence of the last slot so far.
    last: u64,
}

/// A block's index and what is known to be lost of it.
struct Found {
    index: Index,
    place: FoundIn,
    lost: Vec<Lost>,
}

#[derive(PartialEq, Eq)]
enum FoundIn {
    File,
    /// It was made anew from a block that was closed, or is in no state to grow on.
    Scan,
    /// It was made anew, as it always is for the block that grows.
    ScanOfGrowing,
}

impl Builder {
    fn new(shared: Arc<Shared>, history: History) -> Self {
        Self {
            blocks: Blocks::new(shared),
            history,
            subjects: SubjectIndex::new(),
            expiries: BTreeSet::new(),
            dropped: Vec::new(),
            last: 0,
        }
    }

    fn take_blocks(&mut self, adopted: &[u64]) -> Result<(), Error> {
        let mut all: Vec<Facts> = self.history.blocks.values().copied().collect();
        let last = all.iter().map(|facts| facts.base).max();
        let mut found = Vec::with_capacity(all.len());
        all.sort_unstable_by_key(|facts| facts.base);
        for facts in all {
            let grows = Some(facts.base) == last && !adopted.contains(&facts.number);
            let (facts, one) = self.find(facts, grows)?;
            found.push((facts, one));
            // Adopted blocks know their place only now; the others are taken as they come, so that their indexes need not all be held.
            if adopted.is_empty() {
                self.take_found(&mut found);
            }
        }
        found.sort_by_key(|(facts, _)| (facts.base, facts.number));
        self.take_found(&mut found);
        Ok(())
    }

    fn take_found(&mut self, found: &mut Vec<(Facts, Found)>) {
        for (facts, one) in found.drain(..) {
            let overlaps = !self.blocks.list.is_empty() && facts.base <= self.last;
            if overlaps || one.index.slots() == 0 {
                self.dropped.push(Garbage { number: facts.number, wipe: false });
                let (sequences, reason) =
                    (Some(facts.base..=facts.last), "nothing in it belongs to the stream".to_owned());
                self.history.damage.push(Damage { file: block_name(facts.number), sequences, reason });
                continue;
            }
            self.last = facts.last;
            self.take(facts, one);
        }
    }

    /// Cuts a block to what the checkpoint knows and finds its index.
    fn find(&mut self, mut facts: Facts, grows: bool) -> Result<(Facts, Found), Error> {
        let shared = self.blocks.shared.clone();
        let len = match shared.disk.open(&shared.block_path(facts.number), Open::Write) {
            Ok(file) => {
                let len = file.len()?;
                if len > u64::from(facts.len) {
                    file.set_len(u64::from(facts.len))?;
                }
                len.min(u64::from(facts.len)) as u32
            }
            Err(error) if error.is_not_found() => 0,
            Err(error) => return Err(error.into()),
        };
        if facts.index.is_some()
            && let Some(index) = self.read_index(&shared, &facts)?
        {
            let lost = cut_off(&index, len, facts.len);
            return Ok((facts, Found { index, place: FoundIn::File, lost }));
        }
        let scanned = scan::block(&shared, &facts)?;
        let whole = scanned.lost.is_empty() && scanned.len == facts.len;
        let place =
            if grows && whole && facts.index.is_none() { FoundIn::ScanOfGrowing } else { FoundIn::Scan };
        let index = scanned.index;
        if facts.last == u64::MAX {
            complete(&mut facts, &index, len);
        }
        facts.slots = index.slots();
        Ok((facts, Found { index, place, lost: scanned.lost }))
    }

    fn read_index(&mut self, shared: &Shared, facts: &Facts) -> Result<Option<Index>, Error> {
        let reason = match shared.read_all(&shared.index_path(facts.number)) {
            Ok(bytes) => match index_file::open(shared, facts, bytes) {
                Ok(index) => return Ok(Some(index)),
                Err(reason) => reason,
            },
            Err(error) if error.is_not_found() => "file is missing",
            Err(error) => return Err(error.into()),
        };
        let (file, reason) = (index_name(facts.number), reason.to_owned());
        self.history.damage.push(Damage { file, sequences: None, reason });
        Ok(None)
    }

    fn take(&mut self, mut facts: Facts, found: Found) {
        let Found { index, place, lost } = found;
        if place != FoundIn::File {
            facts.index = None;
        }
        let mut block = Block::with_facts(facts, Place::File);
        block.changed = place == FoundIn::Scan;
        let mut dead = self.history.dead.remove(&facts.number).unwrap_or_default();
        dead.sort_unstable_by_key(|run| *run.start());
        for run in &dead {
            for slot in index.slot_from(*run.start())..index.slots_to(*run.end()) {
                block.dead.insert(slot);
            }
        }
        let erase = self.history.last.erase.iter().filter(|(number, _)| *number == facts.number);
        for sequence in erase.flat_map(|(_, runs)| runs.iter().cloned().flatten()) {
            block.erase.extend(index.find(sequence).filter(|slot| block.dead.contains(*slot)));
        }
        self.write_off(&mut block, &index, lost, &dead);
        count(&mut block, &index, &mut self.subjects, &mut self.expiries);
        if block.live == 0 && place != FoundIn::ScanOfGrowing {
            self.dropped.push(Garbage { number: facts.number, wipe: !block.erase.is_empty() });
            return;
        }
        match place {
            FoundIn::File => {}
            FoundIn::Scan => block.place = Place::Memory(Arc::new(index)),
            FoundIn::ScanOfGrowing => {
                block.place = Place::Growing;
                let packer = self.blocks.shared.packer(facts.number);
                self.blocks.growing = Some(Growing::new(index, packer));
            }
        }
        self.blocks.list.push_back(block);
    }

    /// Counts as deleted what is lost, and tells of it as far as it was not deleted anyway: `dead` is what was, in ascending order.
    fn write_off(&mut self, block: &mut Block, index: &Index, lost: Vec<Lost>, dead: &[RangeInclusive<u64>]) {
        for Lost { sequences, reason, is_exact } in lost {
            let slots = index.slot_from(*sequences.start())..index.slots_to(*sequences.end());
            let mut any = !is_exact && !covers(dead, &sequences);
            for slot in slots {
                if block.dead.insert(slot) {
                    any = true;
                    block.fresh.push(slot);
                }
            }
            if any {
                let file = block_name(block.facts.number);
                self.history.damage.push(Damage { file, sequences: Some(sequences), reason });
            }
        }
        for slot in 0..index.slots() {
            if index.subject_id(slot) == UNKNOWN && block.dead.insert(slot) {
                block.fresh.push(slot);
            }
        }
    }

    fn finish(self) -> (FileStore, Recovered) {
        let Self { blocks, history, subjects, expiries, dropped, last } = self;
        let (messages, bytes) = blocks
            .list
            .iter()
            .fold((0, 0), |(count, bytes), block| (count + u64::from(block.live), bytes + block.live_bytes));
        let recovered =
            Recovered { applied: history.last.applied, items: history.items.clone(), damage: history.damage };
        let checkpoints = Checkpoints {
            next_block: history.last.next_block,
            dropped,
            items: history.items,
            journal: history.journal,
            renew: history.renew,
            ..Checkpoints::default()
        };
        let store = FileStore {
            blocks,
            subjects,
            expiries,
            messages,
            bytes,
            last_sequence: history.last.last_sequence.max(last),
            last_timestamp: history.last.last_timestamp,
            first: Cell::new(None),
            checkpoints,
            failed: None,
        };
        (store, recovered)
    }
}

/// Is every sequence of the range in one of the runs, which ascend?
fn covers(runs: &[RangeInclusive<u64>], range: &RangeInclusive<u64>) -> bool {
    let mut next = *range.start();
    for run in runs {
        if next > *range.end() || *run.start() > next {
            break;
        }
        next = next.max(run.end().saturating_add(1));
    }
    next > *range.end()
}

/// Messages in chunks that the file is too short for.
fn cut_off(index: &Index, len: u32, expected: u32) -> Vec<Lost> {
    let mut lost = Vec::new();
    for (number, chunk) in index.chunks.iter().enumerate() {
        let end = u64::from(chunk.at) + super::chunk::HEADER as u64 + u64::from(chunk.stored);
        let slots = index.chunk_slots(number as u32);
        if end > u64::from(len) && !slots.is_empty() {
            let reason = if len == 0 {
                "file is missing or empty".to_owned()
            } else {
                format!("{len} of {expected} bytes are there")
            };
            let sequences = index.sequence(slots.start)..=index.sequence(slots.end - 1);
            lost.push(Lost { sequences, reason, is_exact: true });
        }
    }
    lost
}

/// Facts of a block that no record told of.
fn complete(facts: &mut Facts, index: &Index, len: u32) {
    facts.len = len;
    facts.base = index.base;
    facts.last = index.slots().checked_sub(1).map_or(index.base, |slot| index.sequence(slot));
    for chunk in &index.chunks {
        facts.oldest = facts.oldest.min(chunk.oldest);
        facts.newest = facts.newest.max(chunk.newest);
    }
}

/// Counts the live messages of a block and adds them to the subjects and expiries.
fn count(
    block: &mut Block,
    index: &Index,
    subjects: &mut SubjectIndex,
    expiries: &mut BTreeSet<(Timestamp, u64)>,
) {
    let slots = index.slots();
    block.live = block.count(0..slots);
    block.live_bytes =
        (0..slots).filter(|slot| !block.dead.contains(*slot)).map(|slot| index.size(slot)).sum();
    for (slot, expiry) in index.own().iter().filter(|(slot, _)| !block.dead.contains(*slot)) {
        if let Expiry::At(time) = expiry {
            expiries.insert((*time, index.sequence(*slot)));
        }
    }
    if block.live == 0 {
        return;
    }
    let names = &index.names;
    let mut states: Vec<Option<SubjectState>> = vec![None; names.len() as usize];
    if block.dead.is_clear() {
        for id in 0..names.len() {
            let span = names.span(id);
            let (first, last) = (index.sequence(span.first), index.sequence(span.last));
            states[id as usize] = Some(SubjectState { first, last, messages: u64::from(span.count) });
        }
    } else {
        for slot in (0..slots).filter(|slot| !block.dead.contains(*slot)) {
            let sequence = index.sequence(slot);
            let Some(state) = states.get_mut(index.subject_id(slot) as usize) else { continue };
            let state = state.get_or_insert(SubjectState { first: sequence, last: sequence, messages: 0 });
            state.last = sequence;
            state.messages += 1;
        }
    }
    let of_each = states.into_iter().enumerate();
    counters::merge(subjects, of_each.filter_map(|(id, state)| Some((names.get(id as u32), state?))));
}
