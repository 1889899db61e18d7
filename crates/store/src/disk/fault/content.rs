//! Bytes of one simulated file: what programs read, what is on stable storage, and what lies between.

use super::Loss;
use super::random::Random;

/// What a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// A file without its name.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// What is read.
    live: Vec<u8>,
    /// What a loss of power leaves, before what is pending is considered.
    durable: Vec<u8>,
    /// What was done since the last sync, in order.
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// What became of one pending change.
enum Fate {
    Kept,
    Torn,
    Lost,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        overwrite(&mut self.live, offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.live.resize(len, 0);
        self.pending.push(Change::Length(len));
    }

    /// Everything pending reaches stable storage.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, change);
        }
    }

    /// Stable storage took part of what was pending, and the rest is forgotten: it is still read, and no later sync writes it.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            let fate = scattered(random);
            settle(&mut self.durable, change, &fate, random);
        }
    }

    /// The power goes. What is read from now on is what stable storage has.
    pub(super) fn crash(&mut self, loss: Loss, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let choice = match loss {
            Loss::Nothing => 0,
            Loss::Everything => 1,
            Loss::Random => random.below(5),
        };
        match choice {
            0 => pending.into_iter().for_each(|change| apply(&mut self.durable, change)),
            1 => {}
            2 => {
                let kept = random.below(pending.len() + 1);
                for (at, change) in pending.into_iter().enumerate().take(kept + 1) {
                    let fate = if at < kept { Fate::Kept } else { Fate::Torn };
                    settle(&mut self.durable, change, &fate, random);
                }
            }
            3 => {
                for change in pending {
                    let fate = scattered(random);
                    settle(&mut self.durable, change, &fate, random);
                }
            }
            // The length was written, the bytes were not.
            _ => self.durable.resize(self.live.len(), 0),
        }
        self.live.clone_from(&self.durable);
    }

    /// Changes the bytes behind everybody's back. What was pending counts as synced before.
    pub(super) fn alter(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.pending.clear();
        change(&mut self.live);
        self.durable.clone_from(&self.live);
    }
}

/// Half of the changes survive whole, a quarter in part.
fn scattered(random: &mut Random) -> Fate {
    match random.below(4) {
        0 => Fate::Torn,
        1 => Fate::Lost,
        _ => Fate::Kept,
    }
}

fn settle(bytes: &mut Vec<u8>, change: Change, fate: &Fate, random: &mut Random) {
    match (fate, change) {
        (Fate::Kept, change) => apply(bytes, change),
        (Fate::Torn, Change::Write { offset, bytes: written }) => tear(bytes, offset, &written, random),
        (Fate::Torn | Fate::Lost, _) => {}
    }
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    match change {
        Change::Write { offset, bytes: written } => overwrite(bytes, offset, &written),
        Change::Length(len) => bytes.resize(len, 0),
    }
}

fn overwrite(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

/// Part of a write: either its beginning, cut anywhere, or some of its sectors.
fn tear(bytes: &mut Vec<u8>, offset: usize, written: &[u8], random: &mut Random) {
    if random.coin() {
        let kept = random.below(written.len() + 1);
        overwrite(bytes, offset, &written[..kept]);
        return;
    }
    let mut start = 0;
    while start < written.len() {
        let next_sector = SECTOR - (offset + start) % SECTOR;
        let end = written.len().min(start + next_sector);
        if random.coin() {
            overwrite(bytes, offset + start, &written[start..end]);
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(prepare: impl Fn(&mut Content)) -> Vec<Vec<u8>> {
        let mut found: Vec<Vec<u8>> = (0..300)
            .map(|seed| {
                let mut content = Content::default();
                prepare(&mut content);
                content.crash(Loss::Random, &mut Random::new(seed));
                content.live
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn synced_bytes_survive_every_crash() {
        let found = outcomes(|content| {
            content.write(0, &[1; 2000]);
            content.sync();
        });
        assert_eq!(found, [vec![1; 2000]]);
    }

    #[test]
    fn unsynced_bytes_are_kept_lost_torn_or_reordered() {
        let found = outcomes(|content| {
            content.write(0, &[1; 1024]);
            content.write(1024, &[2; 512]);
        });
        assert!(found.contains(&Vec::new()), "lost");
        assert!(found.contains(&[[1; 1024].as_slice(), &[2; 512]].concat()), "kept");
        assert!(found.contains(&[[0; 1024].as_slice(), &[2; 512]].concat()), "reordered");
        assert!(found.contains(&[[1; 512].as_slice(), &[0; 512], &[2; 512]].concat()), "torn by sector");
        assert!(found.contains(&vec![0; 1536]), "only the length");
        assert!(found.iter().any(|bytes| !bytes.is_empty() && bytes.len() % 512 != 0), "cut anywhere");
    }

    #[test]
    fn a_sync_after_a_failed_one_does_not_mend_it() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut content = Content::default();
            content.write(0, &[1; 512]);
            content.fail_sync(&mut random);
            assert_eq!(content.bytes(), [1; 512]);
            content.write(512, &[2; 512]);
            content.sync();
            content.crash(Loss::Nothing, &mut random);
            assert_eq!(content.bytes()[512..], [2; 512]);
            lost += usize::from(content.bytes()[..512] != [1; 512]);
        }
        assert!(lost > 10, "{lost}");
    }
}
