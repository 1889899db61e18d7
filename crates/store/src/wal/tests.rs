//! What the log does step by step; crashes by seed are tried in `tests/wal.rs`.

use std::path::Path;

use super::*;
use crate::crypt::{Cipher, MasterKey, SeededEntropy};
use crate::disk::fault::{EIO, ENOSPC, Effect, FaultDisk, Loss, Operation, Rule};
use crate::disk::os::OsDisk;

const ONE: GroupId = GroupId(1);
const TWO: GroupId = GroupId(2);

fn options(seed: u64) -> Options {
    Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::new(Arc::new(SeededEntropy::new(seed))) }
}

fn open(disk: &FaultDisk, seed: u64) -> (Wal, Report) {
    Wal::open(Arc::new(disk.clone()), Path::new("/log"), options(seed), &mut |_| {}).unwrap()
}

fn entry(wal: &mut Wal, group: GroupId, index: u64, payload: &[u8]) {
    wal.append(Record::Entry { group, index, term: 1, payload }).unwrap();
}

/// Entries of a kilobyte until there are so many segments; returns the next index.
fn fill(wal: &mut Wal, group: GroupId, segments: usize) -> u64 {
    let mut index = wal.group(group).map_or(1, |state| state.entries.end);
    while wal.segments() < segments {
        entry(wal, group, index, &[index as u8; 1000]);
        index += 1;
    }
    wal.sync().unwrap();
    index
}

fn names(disk: &FaultDisk) -> Vec<String> {
    disk.list(Path::new("/log")).unwrap()
}

#[test]
fn one_sync_is_one_write_and_one_sync() {
    let disk = FaultDisk::new(1);
    let (mut wal, report) = open(&disk, 1);
    assert_eq!(report, Report::default());
    entry(&mut wal, ONE, 1, b"first");
    wal.sync().unwrap();
    let before = disk.changes();
    for index in 2..50 {
        entry(&mut wal, ONE, index, b"payload");
        entry(&mut wal, TWO, index - 1, b"payload");
    }
    assert_eq!(disk.changes(), before, "appending writes nothing");
    assert!(wal.is_dirty() && wal.buffered_bytes() > 0);
    wal.sync().unwrap();
    assert_eq!(disk.changes(), before + 2);
    wal.sync().unwrap();
    assert_eq!(disk.changes(), before + 2, "nothing to do");
    assert!(!wal.is_dirty());
}

#[test]
fn entries_that_do_not_follow_are_refused_and_change_nothing() {
    let (mut wal, _) = open(&FaultDisk::new(1), 1);
    let mut append = |index| wal.append(Record::Entry { group: ONE, index, term: 1, payload: b"" });
    assert!(matches!(append(2), Err(Error::Order { index: 2, released: 0, last: 0, .. })));
    append(1).unwrap();
    append(2).unwrap();
    assert!(matches!(append(4), Err(Error::Order { index: 4, last: 2, .. })));
    wal.release(ONE, 1, 1).unwrap();
    let error = wal.append(Record::Entry { group: ONE, index: 1, term: 2, payload: b"" }).unwrap_err();
    assert_eq!(error.to_string(), "group 1 has entries from 2 to 2, entry 1 does not follow");
    wal.release(ONE, 10, 3).unwrap();
    entry(&mut wal, ONE, 11, b"behind a snapshot");
    assert_eq!(wal.term(ONE, 10), Some(3));
    assert_eq!(wal.term(ONE, 9), None);
    assert_eq!(wal.failure(), None);
}

#[test]
fn entries_are_read_back_from_disk_and_from_the_buffer() {
    let (mut wal, _) = open(&FaultDisk::new(1), 1);
    fill(&mut wal, ONE, 3);
    for index in 1..=30 {
        entry(&mut wal, TWO, index, &[index as u8; 100]);
        let next = wal.group(ONE).unwrap().entries.end;
        entry(&mut wal, ONE, next, b"between");
        if index == 20 {
            wal.flush().unwrap();
        }
    }
    let indexes = |entries: Vec<Entry>| entries.iter().map(|entry| entry.index).collect::<Vec<_>>();
    let all = wal.read(TWO, 1..31, usize::MAX).unwrap();
    assert!(all.iter().all(|entry| entry.payload == vec![entry.index as u8; 100]));
    assert_eq!(indexes(all), (1..31).collect::<Vec<_>>());
    assert_eq!(indexes(wal.read(TWO, 25..28, usize::MAX).unwrap()), [25, 26, 27]);
    assert_eq!(indexes(wal.read(TWO, 5..31, 250).unwrap()), [5, 6, 7]);
    assert_eq!(indexes(wal.read(TWO, 5..31, 0).unwrap()), [5]);
    assert_eq!(indexes(wal.read(TWO, 30..99, usize::MAX).unwrap()), [30]);
    assert!(matches!(wal.read(TWO, 31..40, 1), Err(Error::Missing { index: 31, .. })));
    wal.release(TWO, 10, 1).unwrap();
    assert!(matches!(wal.read(TWO, 10..12, 1), Err(Error::Missing { index: 10, .. })));
    assert_eq!(indexes(wal.read(ONE, 1..5, usize::MAX).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_new_entry_makes_those_behind_it_void() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    for index in 1..=6 {
        entry(&mut wal, ONE, index, b"old");
    }
    wal.append(Record::Entry { group: ONE, index: 3, term: 1, payload: b"new" }).unwrap();
    wal.append(Record::Entry { group: ONE, index: 4, term: 2, payload: b"new" }).unwrap();
    wal.sync().unwrap();
    for wal in [wal, open(&disk, 2).0] {
        let entries = wal.read(ONE, 1..9, usize::MAX).unwrap();
        let found: Vec<_> =
            entries.iter().map(|entry| (entry.index, entry.term, &entry.payload[..])).collect();
        assert_eq!(found, [(1, 1, &b"old"[..]), (2, 1, b"old"), (3, 1, b"new"), (4, 2, b"new")]);
        assert_eq!(wal.group(ONE).unwrap().last_term, 2);
    }
}

#[test]
fn released_segments_are_used_again_and_keep_what_only_they_knew() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    let state = HardState { term: 4, vote: 2, commit: 1 };
    wal.append(Record::HardState { group: TWO, state }).unwrap();
    entry(&mut wal, TWO, 1, b"only");
    wal.release(TWO, 1, 1).unwrap();
    let next = fill(&mut wal, ONE, 5);
    assert_eq!(wal.oldest_segment_groups(), [ONE]);
    assert_eq!(wal.recycle().unwrap(), 0);
    wal.release(ONE, next - 1, 1).unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.oldest_segment_groups(), []);
    assert_eq!(wal.recycle().unwrap(), 4);
    assert_eq!(wal.segments(), 1);
    let spares: Vec<String> = (1..5).map(|number| format!("spare-{number:016x}.wal")).collect();
    assert_eq!(names(&disk)[0], "0000000000000005.wal");
    assert_eq!(names(&disk)[1..], spares);
    disk.crash(Loss::Everything);
    let mut seen = Vec::new();
    let mut visit = |record: Record<'_>| seen.push(format!("{record:?}"));
    let (mut wal, report) =
        Wal::open(Arc::new(disk.clone()), Path::new("/log"), options(2), &mut visit).unwrap();
    assert_eq!(report.damage, []);
    assert!(!seen.iter().any(|record| record.contains("only")), "{seen:?}");
    let two = wal.group(TWO).unwrap();
    assert_eq!((two.hard_state, two.released, two.released_term), (Some(state), 1, 1));
    assert_eq!(wal.group(ONE).unwrap().released, next - 1);
    let bytes = wal.bytes();
    fill(&mut wal, ONE, 3);
    assert_eq!(wal.bytes(), bytes, "spare files became segments");
    assert_eq!(names(&disk).len(), 5);
}

#[test]
fn a_recycled_file_shows_nothing_of_its_earlier_life() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    let next = fill(&mut wal, ONE, 2);
    wal.release(ONE, next - 1, 1).unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.recycle().unwrap(), 1);
    // Someone removes the log and leaves the spare file, so the same numbers are given again.
    assert!(disk.vanish(Path::new("/log/0000000000000002.wal")));
    let (wal, report) = open(&disk, 2);
    assert_eq!(report.segments, 0);
    assert_eq!(names(&disk), ["0000000000000001.wal"]);
    drop(wal);
    let (_, report) = open(&disk, 3);
    assert_eq!((report.records, report.damage, report.torn_bytes), (0, vec![], 0));
}

#[test]
fn a_removed_group_holds_nothing_back_and_may_begin_anew() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    fill(&mut wal, ONE, 3);
    entry(&mut wal, TWO, 1, b"payload");
    wal.remove(ONE).unwrap();
    assert_eq!(wal.group(ONE), None);
    entry(&mut wal, ONE, 1, b"second life");
    wal.sync().unwrap();
    assert_eq!(wal.recycle().unwrap(), 2);
    let (wal, report) = open(&disk, 2);
    assert_eq!((report.damage, report.gaps), (vec![], vec![]));
    assert_eq!(wal.groups(), [ONE, TWO]);
    assert_eq!(&wal.read(ONE, 1..9, usize::MAX).unwrap()[0].payload[..], b"second life");
}

#[test]
fn a_record_larger_than_a_segment_has_its_own() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    entry(&mut wal, ONE, 1, b"small");
    let large = vec![7; 5 << 20];
    entry(&mut wal, ONE, 2, &large);
    entry(&mut wal, ONE, 3, b"small");
    wal.sync().unwrap();
    assert_eq!(wal.segments(), 3);
    assert!(wal.buffer.capacity() <= 2 * BUFFER_BYTES_MAX);
    let (mut wal, report) = open(&disk, 2);
    assert_eq!((report.records, report.damage), (3, vec![]));
    assert_eq!(wal.read(ONE, 2..3, 1).unwrap()[0].payload, large);
    wal.release(ONE, 3, 1).unwrap();
    wal.sync().unwrap();
    wal.recycle().unwrap();
    assert!(wal.bytes() < 4 * SEGMENT_BYTES_MIN, "a file of that size is not kept: {}", wal.bytes());
    let too_large = vec![0; PAYLOAD_BYTES_MAX + 1];
    let error = wal.append(Record::Entry { group: ONE, index: 4, term: 1, payload: &too_large });
    assert!(matches!(error, Err(Error::TooLarge { .. })));
    assert_eq!(wal.failure(), None);
}

#[test]
fn an_end_that_was_never_synced_is_cut_and_one_that_was_is_damage() {
    // A mark says that it was synced.
    for is_marked in [false, true] {
        let disk = FaultDisk::new(1);
        let (mut wal, _) = open(&disk, 1);
        entry(&mut wal, ONE, 1, b"whole");
        wal.sync().unwrap();
        entry(&mut wal, ONE, 2, b"hit");
        entry(&mut wal, ONE, 3, b"behind");
        wal.sync().unwrap();
        if is_marked {
            wal.mark().unwrap();
            let changes = disk.changes();
            wal.mark().unwrap();
            assert_eq!(disk.changes(), changes, "one mark is enough");
        }
        let path = Path::new("/log/0000000000000001.wal");
        disk.alter(path, |bytes| {
            let hit = bytes.windows(3).position(|part| part == b"hit").unwrap();
            bytes[hit] ^= 1;
        });
        let (mut wal, report) = open(&disk, 2);
        if is_marked {
            assert_eq!((report.records, report.torn_bytes), (2, 0));
            assert_eq!(report.damage.len(), 1, "{report:?}");
            assert_eq!(report.damage[0].file, "0000000000000001.wal");
            assert!(report.damage[0].reason.contains("checksum"), "{report:?}");
            assert_eq!(report.gaps, [Gap { group: ONE, missing: 2..3 }]);
            assert!(matches!(wal.read(ONE, 2..3, 1), Err(Error::Missing { .. })));
            assert_eq!(&wal.read(ONE, 3..4, 1).unwrap()[0].payload[..], b"behind");
        } else {
            assert_eq!((report.records, report.damage), (1, vec![]));
            assert!(report.torn_bytes >= 96, "{}", report.torn_bytes);
            entry(&mut wal, ONE, 2, b"again");
            wal.sync().unwrap();
            let (wal, report) = open(&disk, 3);
            assert_eq!((report.records, report.damage, report.torn_bytes), (2, vec![], 0));
            assert_eq!(&wal.read(ONE, 2..3, 1).unwrap()[0].payload[..], b"again");
        }
    }
}

#[test]
fn a_failure_is_the_end_and_what_is_on_disk_is_found_by_opening() {
    for (operation, number) in [(Operation::Write, ENOSPC), (Operation::Sync, EIO)] {
        let disk = FaultDisk::new(1);
        let (mut wal, _) = open(&disk, 1);
        entry(&mut wal, ONE, 1, b"safe");
        wal.sync().unwrap();
        disk.inject(Rule::new(operation, Effect::Fail(number)).once());
        entry(&mut wal, ONE, 2, b"unknown");
        let first = wal.sync().unwrap_err();
        assert!(matches!(&first, Error::Disk(_)), "{first}");
        let again = wal.sync().unwrap_err();
        assert_eq!(again.to_string(), format!("the log takes nothing after an earlier failure: {first}"));
        assert!(matches!(wal.remove(ONE), Err(Error::Failed { .. })));
        drop(wal);
        disk.crash(Loss::Random);
        let (wal, report) = open(&disk, 2);
        assert_eq!(report.damage, []);
        assert_eq!(&wal.read(ONE, 1..2, 1).unwrap()[0].payload[..], b"safe");
    }
}

#[test]
fn a_page_that_only_memory_has_is_written_again_when_the_log_is_opened() {
    for seed in 0..20 {
        let disk = FaultDisk::new(seed);
        let (mut wal, _) = open(&disk, 1);
        entry(&mut wal, ONE, 1, &[1; 3000]);
        disk.inject(Rule::new(Operation::Sync, Effect::Fail(EIO)).once());
        wal.sync().unwrap_err();
        drop(wal);
        // The process begins anew, the system does not: the bytes are read, and are nowhere on disk.
        let (wal, report) = open(&disk, 2);
        assert_eq!(report.records, 1);
        drop(wal);
        disk.crash(Loss::Everything);
        let (_, report) = open(&disk, 3);
        assert_eq!((report.records, report.damage), (1, vec![]), "seed {seed}");
    }
}

#[test]
fn opening_again_and_again_takes_no_space() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    entry(&mut wal, ONE, 1, b"payload");
    wal.sync().unwrap();
    drop(wal);
    for seed in 2..10 {
        let (wal, report) = open(&disk, seed);
        assert_eq!((report.records, report.damage), (1, vec![]));
        assert_eq!(wal.segments(), 2);
    }
}

#[test]
fn a_sealed_log_shows_nothing_and_names_its_keys() {
    let disk = FaultDisk::new(1);
    let ring = |current: &str, previous: Option<&str>| {
        let previous = previous.map(|key| MasterKey::new(key.as_bytes()));
        let entropy = Arc::new(SeededEntropy::new(9));
        Arc::new(Keyring::new(Cipher::Aes256Gcm, MasterKey::new(current.as_bytes()), previous, entropy))
    };
    let start = |seed, crypt: Option<Arc<Keyring>>| {
        let options = Options { crypt, ..options(seed) };
        Wal::open(Arc::new(disk.clone()), Path::new("/log"), options, &mut |_| {})
    };
    let is_clear = |disk: &FaultDisk| {
        let files = disk.files();
        files.iter().any(|path| disk.read(path).unwrap().windows(6).any(|part| part == b"secret"))
    };
    let (mut wal, _) = start(1, None).unwrap();
    entry(&mut wal, ONE, 1, b"secret");
    wal.sync().unwrap();
    assert!(is_clear(&disk));
    // From now on with a key: what was in clear goes with its segment, file and all.
    let (mut wal, report) = start(2, Some(ring("old", None))).unwrap();
    assert_eq!(report.records, 1);
    entry(&mut wal, ONE, 2, b"secret");
    wal.release(ONE, 1, 1).unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.recycle().unwrap(), 1);
    assert!(!is_clear(&disk));
    assert_eq!(&wal.read(ONE, 2..3, 1).unwrap()[0].payload[..], b"secret");
    drop(wal);
    let error = start(3, Some(ring("new", None))).unwrap_err();
    assert!(error.to_string().contains("encrypted with key "), "{error}");
    assert!(matches!(start(4, None), Err(Error::NoKey { .. })));
    start(5, Some(ring("new", Some("old")))).unwrap();
    // Once is enough.
    let (wal, _) = start(6, Some(ring("newer", Some("new")))).unwrap();
    assert_eq!(&wal.read(ONE, 2..3, 1).unwrap()[0].payload[..], b"secret");
    drop(wal);
    let (wal, _) = start(7, Some(ring("newer", None))).unwrap();
    assert_eq!(&wal.read(ONE, 2..3, 1).unwrap()[0].payload[..], b"secret");
}

#[test]
fn real_files_work_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let start = |seed| Wal::open(Arc::new(OsDisk::new()), &path, options(seed), &mut |_| {}).unwrap();
    let (mut wal, _) = start(1);
    let next = fill(&mut wal, ONE, 4);
    wal.release(ONE, next - 3, 1).unwrap();
    wal.sync().unwrap();
    assert_eq!(wal.recycle().unwrap(), 2);
    drop(wal);
    let (wal, report) = start(2);
    assert_eq!((report.damage, report.gaps, report.torn_bytes), (vec![], vec![], 0));
    assert_eq!(wal.read(ONE, next - 2..next, usize::MAX).unwrap().len(), 2);
}

#[test]
fn the_log_may_live_on_a_thread_of_its_own() {
    fn is_send<T: Send>() {}
    is_send::<Wal>();
}

#[test]
fn a_closed_log_of_which_nothing_is_needed_is_short_and_keeps_its_numbers() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    let state = HardState { term: 4, vote: 2, commit: 1 };
    wal.append(Record::HardState { group: TWO, state }).unwrap();
    let next = fill(&mut wal, ONE, 3);
    wal.append(Record::Released { group: ONE, index: next - 1, term: 1, checkpoint: 99 }).unwrap();
    wal.close().unwrap();
    assert_eq!(wal.segments(), 1);
    let newest = names(&disk)[0].clone();
    assert_eq!(newest, "0000000000000004.wal", "the others are spare");
    let length = disk.read(&Path::new("/log").join(newest)).unwrap().len() as u64;
    assert!(length < format::DATA_START + 500, "{length} bytes are to be read");
    disk.crash(Loss::Everything);
    let (wal, report) = open(&disk, 2);
    assert_eq!((report.torn_bytes, report.damage), (0, vec![]));
    let one = wal.group(ONE).unwrap();
    assert_eq!((one.released, one.released_term, one.checkpoint), (next - 1, 1, 99));
    assert_eq!(wal.group(TWO).unwrap().hard_state, Some(state));
}

#[test]
fn a_closed_log_keeps_what_is_needed_and_proves_it() {
    let disk = FaultDisk::new(1);
    let (mut wal, _) = open(&disk, 1);
    let next = fill(&mut wal, ONE, 2);
    wal.append(Record::Released { group: ONE, index: next - 2, term: 1, checkpoint: 99 }).unwrap();
    wal.close().unwrap();
    assert_eq!(wal.segments(), 2);
    disk.crash(Loss::Everything);
    let newest = Path::new("/log").join("0000000000000002.wal");
    let damaged = disk.fork(1);
    assert!(damaged.flip_bit(&newest, (format::DATA_START + 20) * 8));
    let (wal, report) = open(&disk, 2);
    assert_eq!((report.damage, wal.group(ONE).unwrap().entries), (vec![], next - 1..next));
    let (_, report) = open(&damaged, 2);
    assert_eq!((report.torn_bytes, report.damage.len()), (0, 1), "it had been synced");
}
