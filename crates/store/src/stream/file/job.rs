//! The part of a checkpoint that waits for the disk. It runs beside the store and shares nothing with it but the files.
//!
//! The order is what makes it safe: first the blocks and indexes that the record will name, then the record, then what only older records named.

use std::sync::Arc;

use super::checkpoint::Garbage;
use super::compact::{self, Compacted, Plan};
use super::index::Index;
use super::index_file;
use super::journal::{Journal, Record, put_frame};
use super::record;
use super::shared::{CHECKPOINT, CHECKPOINT_NEW, Shared};
use crate::disk::{self, File, Open};
use crate::stream::{Damage, Error};

/// A body that is not sealed.
pub(super) const PLAIN: u8 = 0;
/// A sealed body.
pub(super) const SEALED: u8 = 1;
/// A sealed body behind the wrapped key.
pub(super) const SEALED_WITH_KEY: u8 = 2;

/// Erased messages of one block.
#[derive(Debug)]
pub(super) struct Wipe {
    pub number: u64,
    /// Sequence, offset and length of each record.
    pub places: Vec<(u64, u64, u32)>,
}

/// All that a job needs.
#[derive(Debug)]
pub(super) struct Work {
    pub shared: Arc<Shared>,
    pub journal: Journal,
    pub record: Record,
    /// Files of blocks with unsynced writes.
    pub sync: Vec<Arc<dyn File>>,
    /// Closed blocks whose index is to be written.
    pub indexes: Vec<(u64, Arc<Index>)>,
    pub garbage: Vec<Garbage>,
    pub wipes: Vec<Wipe>,
    pub plan: Option<Plan>,
}

/// What a job did.
#[derive(Debug)]
pub(super) struct Outcome {
    pub journal: Journal,
    /// Blocks whose index is in a file now, and its checksum.
    pub indexed: Vec<(u64, u64)>,
    pub compacted: Option<Compacted>,
    pub damage: Vec<Damage>,
}

/// The body of a record as it is stored.
fn seal_body(shared: &Shared, number: u64, record: &Record) -> Result<Vec<u8>, Error> {
    let mut body = vec![PLAIN];
    if let Some(envelope) = shared.envelope.filter(|_| shared.key.is_some()) {
        body[0] = if record.base { SEALED_WITH_KEY } else { SEALED };
        if record.base {
            body.extend_from_slice(&envelope);
        }
    }
    body.extend_from_slice(&shared.seal(&body_place(number), record.encode())?);
    Ok(body)
}

/// What a sealed body is bound to.
pub(super) fn body_place(number: u64) -> String {
    format!("{CHECKPOINT} {number}")
}

impl Work {
    /// Does it. Once this returns well, the checkpoint is the one that opening the store comes back to.
    pub(super) fn run(mut self) -> Result<Outcome, Error> {
        for file in &self.sync {
            file.sync()?;
        }
        let indexed = self.write_indexes()?;
        if !self.sync.is_empty() || !indexed.is_empty() {
            self.shared.disk.sync_dir(&self.shared.dir)?;
        }
        let journal = write_record(&self.shared, self.journal, &self.record)?;
        self.wipe_erased()?;
        self.remove_garbage()?;
        let (compacted, damage) = match self.plan.take() {
            Some(plan) => compact::run(&self.shared, plan)?,
            None => (None, Vec::new()),
        };
        Ok(Outcome { journal, indexed, compacted, damage })
    }

    fn write_indexes(&mut self) -> Result<Vec<(u64, u64)>, Error> {
        let mut indexed = Vec::with_capacity(self.indexes.len());
        for (number, index) in &self.indexes {
            let (bytes, sum) = index_file::seal(&self.shared, *number, index)?;
            write_new(&self.shared, &self.shared.index_path(*number), &bytes)?;
            indexed.push((*number, sum));
            if let Some(facts) = self.record.blocks.iter_mut().find(|facts| facts.number == *number) {
                facts.index = Some(sum);
            }
        }
        Ok(indexed)
    }

    fn wipe_erased(&self) -> Result<(), Error> {
        for wipe in &self.wipes {
            let file = self.shared.disk.open(&self.shared.block_path(wipe.number), Open::Write)?;
            for (sequence, offset, length) in &wipe.places {
                let mut record = vec![0; *length as usize];
                record::erase(self.shared.identity, *sequence, &mut record);
                file.write_at(&record, *offset)?;
            }
            file.sync()?;
        }
        Ok(())
    }

    fn remove_garbage(&self) -> Result<(), Error> {
        for garbage in &self.garbage {
            let path = self.shared.block_path(garbage.number);
            if garbage.wipe {
                overwrite(&self.shared, &path)?;
            }
            self.shared.remove(&path)?;
            self.shared.remove(&self.shared.index_path(garbage.number))?;
        }
        Ok(())
    }
}

/// Writes a record, and a new file for a base. It is on stable storage when this returns well.
pub(super) fn write_record(shared: &Shared, journal: Journal, record: &Record) -> Result<Journal, Error> {
    let number = journal.next;
    let mut bytes = Vec::new();
    let sum = put_frame(shared.identity, number, &seal_body(shared, number, record)?, &mut bytes);
    let length = bytes.len() as u64;
    let path = shared.path(CHECKPOINT);
    if record.base {
        let new = shared.path(CHECKPOINT_NEW);
        write_new(shared, &new, &bytes)?;
        shared.disk.rename(&new, &path)?;
        shared.disk.sync_dir(&shared.dir)?;
        return Ok(Journal { len: length, base: length, next: number + 1, sum });
    }
    let file = shared.disk.open(&path, Open::Write)?;
    file.write_at(&bytes, journal.len)?;
    file.sync()?;
    Ok(Journal { len: journal.len + length, next: number + 1, sum, ..journal })
}

/// Writes a file from the start and syncs it, not its name.
pub(super) fn write_new(shared: &Shared, path: &std::path::Path, bytes: &[u8]) -> disk::Result<()> {
    let file = shared.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync()
}

/// Overwrites a whole file, if it is there.
pub(super) fn overwrite(shared: &Shared, path: &std::path::Path) -> disk::Result<()> {
    const ZEROS: &[u8] = &[0; 64 << 10];
    let file = match shared.disk.open(path, Open::Write) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => opened?,
    };
    let length = file.len()?;
    let mut at = 0;
    while at < length {
        let count = (length - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..count as usize], at)?;
        at += count;
    }
    file.sync()
}
