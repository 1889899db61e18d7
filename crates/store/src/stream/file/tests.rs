//! The books of a store against its blocks, after every random change; and what blocks and caches come to.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::disk::fault::FaultDisk;
use crate::disk::os::OsDisk;

const BLOCK_BYTES: u32 = BLOCK_BYTES_MIN;

fn open(disk: &FaultDisk, cache_bytes: usize) -> FileStore {
    let mut options = FileOptions::new(5, Arc::new(Cache::new(cache_bytes)));
    options.block_bytes = BLOCK_BYTES;
    FileStore::open(Arc::new(disk.clone()), Path::new("/s"), options).unwrap().0
}

fn append(store: &mut FileStore, sequence: u64) {
    let (timestamp, subject) = (Timestamp(sequence.cast_signed()), format!("s.{}", sequence % 5));
    let expiry = if sequence.is_multiple_of(7) { Expiry::At(Timestamp(99)) } else { Expiry::MaxAge };
    let (subject, headers, payload) = (subject.as_bytes(), &b""[..], &[b'x'; 60][..]);
    store.append(Append { sequence, timestamp, subject, headers, payload, expiry }).unwrap();
}

fn checkpoint(store: &mut FileStore, applied: u64) {
    let job = store.begin_checkpoint(applied, Vec::new()).unwrap();
    store.finish_checkpoint(job()).unwrap();
}

/// The invariants of the module.
fn check(store: &FileStore) {
    let list = &store.blocks.list;
    assert_eq!(store.messages, list.iter().map(|block| u64::from(block.live)).sum::<u64>());
    assert_eq!(store.bytes, list.iter().map(|block| block.live_bytes).sum::<u64>());
    let mut subjects = SubjectIndex::new();
    let (mut expiries, mut before) = (BTreeSet::new(), None);
    for (at, block) in list.iter().enumerate() {
        let (facts, index) = (&block.facts, store.blocks.index(at).unwrap());
        assert!(before.is_none_or(|before| before < facts.base) && facts.base <= facts.last);
        before = Some(facts.last);
        assert!(block.live > 0 || at + 1 == list.len(), "block {} is dead and stays", facts.number);
        assert!(facts.number < store.checkpoints.next_block);
        assert_eq!((index.slots(), index.base), (facts.slots, facts.base));
        assert_eq!(index.sequence(facts.slots - 1), facts.last);
        assert_eq!(block.live, facts.slots - block.dead.count(0..facts.slots));
        let mut bytes = 0;
        for slot in (0..facts.slots).filter(|slot| !block.dead.contains(*slot)) {
            let (sequence, message) =
                (index.sequence(slot), store.blocks.message(at, &index, slot).unwrap().unwrap());
            assert_eq!((message.sequence, Some(&message.subject[..])), (sequence, index.subject(slot)));
            assert!(facts.oldest <= message.timestamp && message.timestamp <= facts.newest);
            assert!(block.aging_from.get() <= message.timestamp);
            bytes += index.size(slot);
            subjects.append(&message.subject, sequence);
            if let Expiry::At(time) = index.expiry(slot) {
                expiries.insert((time, sequence));
            }
        }
        assert_eq!(block.live_bytes, bytes);
    }
    assert_eq!(store.expiries, expiries);
    assert_eq!(store.subjects.len(), subjects.len());
    subjects.for_each(&Filter::All, &mut |_, name, state| {
        assert_eq!(store.subject_state(name), Some(state), "{}", name.escape_ascii());
        true
    });
}

#[test]
fn books_agree_after_every_change() {
    for seed in 0..6u64 {
        let (disk, cache_bytes) = (FaultDisk::new(seed), [0, 9000, 1 << 20][seed as usize % 3]);
        let mut store = open(&disk, cache_bytes);
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for step in 1..400 {
            let State { first_sequence, last_sequence, .. } = store.state();
            let any = first_sequence + below(last_sequence + 2 - first_sequence);
            match below(20) {
                0..9 => (1..=below(30)).for_each(|more| append(&mut store, last_sequence + more)),
                9 => append(&mut store, last_sequence + 1 + below(90)),
                10..15 => (0..below(20)).for_each(|more| _ = store.remove(any + more, more == 3).unwrap()),
                15 => store.purge(&Filter::All, first_sequence + below(40), &mut |_| {}).unwrap(),
                16 => {
                    let filter = Filter::Any(vec![format!("s.{}", below(6)).into_bytes().into()]);
                    store.purge(&filter, any, &mut |_| {}).unwrap();
                }
                17 => store.skip_to(last_sequence + below(9), Timestamp(1)).unwrap(),
                18 => checkpoint(&mut store, step),
                _ => {
                    checkpoint(&mut store, step);
                    drop(store);
                    store = open(&disk, cache_bytes);
                }
            }
            check(&store);
        }
    }
}

#[test]
fn blocks_close_when_they_are_full_and_go_when_they_are_dead() {
    let disk = FaultDisk::new(1);
    let mut store = open(&disk, 1 << 20);
    let each = 30 + 3 + 60;
    let full = u64::from(BLOCK_BYTES).div_ceil(each + 1);
    (1..=full).for_each(|sequence| append(&mut store, sequence));
    assert_eq!(store.blocks.list.len(), 1);
    (full + 1..=full + 4).for_each(|sequence| append(&mut store, sequence));
    assert_eq!(store.blocks.list.len(), 2);
    checkpoint(&mut store, 1);
    let (first, last) = (store.blocks.list[0].facts.base, store.blocks.list[0].facts.last);
    (first..=last).for_each(|sequence| _ = store.remove(sequence, false).unwrap());
    assert_eq!(store.blocks.list.len(), 1);
    // The files stay until a checkpoint no longer needs them.
    assert!(disk.read(Path::new("/s/1.blk")).is_some() && disk.read(Path::new("/s/1.idx")).is_some());
    checkpoint(&mut store, 2);
    assert!(disk.read(Path::new("/s/1.blk")).is_none() && disk.read(Path::new("/s/1.idx")).is_none());
}

#[test]
fn changes_are_written_and_not_the_whole_state() {
    let disk = FaultDisk::new(1);
    let mut store = open(&disk, 1 << 20);
    (1..=2000).for_each(|sequence| append(&mut store, sequence));
    checkpoint(&mut store, 1);
    let mut longest = 0;
    for applied in 2..2000 {
        store.remove(applied, false).unwrap();
        let before = store.checkpoints.journal;
        checkpoint(&mut store, applied);
        let after = store.checkpoints.journal;
        let grown = after.len.saturating_sub(before.len);
        assert!(after.base != before.base || grown < 600, "{grown} bytes for one deletion");
        longest = longest.max(after.len);
    }
    assert!(longest < 40_000, "{longest} bytes of checkpoints");
}

#[test]
fn cache_keeps_its_bound() {
    let disk = FaultDisk::new(1);
    let mut store = open(&disk, 50_000);
    for sequence in 1..=3000 {
        append(&mut store, sequence);
        assert!(store.blocks.shared.cache().bytes() <= 50_000);
    }
    checkpoint(&mut store, 1);
    for sequence in (1..=3000).rev() {
        assert!(store.load(sequence).unwrap().is_some());
        assert!(store.blocks.shared.cache().bytes() <= 50_000);
    }
}

#[test]
fn works_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("account/stream");
    let options = FileOptions::new(1, Arc::new(Cache::new(1 << 20)));
    let open = || FileStore::open(Arc::new(OsDisk::new()), &path, options.clone()).unwrap();
    let (mut store, _) = open();
    (1..=5000).for_each(|sequence| append(&mut store, sequence));
    checkpoint(&mut store, 7);
    (5001..=6000).for_each(|sequence| append(&mut store, sequence));
    drop(store);
    let (store, recovered) = open();
    assert_eq!((recovered.applied, recovered.damage.len(), store.state().last_sequence), (7, 0, 5000));
    check(&store);
}
