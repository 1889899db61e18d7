//! Files that are not what was written, and disks that refuse: what is lost is told, the rest works, and nothing wrong is ever read.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod file_common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use file_common::{
    DIR, FORMS, Form, Numbers, append, change, check_counters, checkpoint, content, keyring, messages, open,
    options,
};
use store::Timestamp;
use store::disk::fault::{EIO, ENOSPC, Effect, FaultDisk, Loss, Operation, Rule};
use store::stream::{Append, Damage, Error, Expiry, FileStore, Filter, Message, StreamStore};

/// A store of several blocks with deletions, at a checkpoint.
fn filled(form: Form) -> (FaultDisk, BTreeMap<u64, Message>) {
    let disk = FaultDisk::new(1);
    let (mut store, _) = open(&disk, form).unwrap();
    for round in 1..=5 {
        change(&mut store, &mut Numbers(round), 60).unwrap();
        checkpoint(&mut store, round).unwrap();
    }
    for round in 6..=8 {
        (0..30).for_each(|_| append_next(&mut store));
        checkpoint(&mut store, round).unwrap();
    }
    assert!(files(&disk, ".blk").len() > 3 && files(&disk, ".idx").len() > 2);
    let held = messages(&store).into_iter().map(|message| (message.sequence, message)).collect();
    (disk, held)
}

fn append_next(store: &mut FileStore) {
    append(store, content_last(store) + 1).unwrap();
}

fn content_last(store: &FileStore) -> u64 {
    store.state().last_sequence
}

fn files(disk: &FaultDisk, suffix: &str) -> Vec<PathBuf> {
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(suffix);
    disk.files().into_iter().filter(ends).collect()
}

/// Opens what was damaged and reads all: what is there is right, what is not there was told of, and the counters agree in the end.
/// Returns how many messages were lost.
fn survey(disk: &FaultDisk, form: Form, held: &BTreeMap<u64, Message>, what: &str) -> (usize, Vec<Damage>) {
    let (mut store, recovered) = open(disk, form).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut damage = recovered.damage;
    let found = messages(&store);
    damage.extend(store.take_damage());
    for message in &found {
        assert_eq!(held.get(&message.sequence), Some(message), "{what}");
    }
    let told = |sequence: u64| {
        damage.iter().any(|damage| damage.sequences.as_ref().is_some_and(|range| range.contains(&sequence)))
    };
    let found: Vec<u64> = found.iter().map(|message| message.sequence).collect();
    let lost: Vec<u64> =
        held.keys().copied().filter(|sequence| found.binary_search(sequence).is_err()).collect();
    for sequence in &lost {
        assert!(told(*sequence), "{what}: {sequence} is gone without a word, {damage:?}");
        assert_eq!(store.load(*sequence).unwrap(), None);
    }
    check_counters(&store);
    assert_eq!(store.state().last_sequence, held.last_key_value().map(|(last, _)| *last).unwrap(), "{what}");
    // Once written off it is not told again.
    append_next(&mut store);
    checkpoint(&mut store, 100).unwrap();
    checkpoint(&mut store, 101).unwrap();
    let after = content(&store);
    drop(store);
    disk.crash(Loss::Everything);
    let (store, recovered) = open(disk, form).unwrap();
    assert_eq!((recovered.applied, recovered.damage, content(&store)), (101, vec![], after), "{what}");
    (lost.len(), damage)
}

#[test]
fn a_flipped_bit_loses_at_most_what_it_hit() {
    for form in FORMS {
        let (disk, held) = filled(form);
        for path in disk.files() {
            let bytes = disk.read(&path).unwrap().len() as u64;
            let step = (bytes / 8).max(1) * 8 + 3;
            for bit in (0..bytes * 8).step_by(step as usize) {
                let what = format!("{form:?}, bit {bit} of {}", path.display());
                let disk = disk.fork(bit);
                assert!(disk.flip_bit(&path, bit));
                let (lost, damage) = survey(&disk, form, &held, &what);
                let is_block = path.to_string_lossy().ends_with(".blk");
                assert!(is_block || lost == 0, "{what}: {lost} lost, {damage:?}");
                assert!(form != Form::Plain || lost <= 1, "{what}: {lost} lost, {damage:?}");
            }
        }
    }
}

#[test]
fn a_missing_or_cut_file_loses_at_most_what_was_in_it() {
    for form in FORMS {
        let (disk, held) = filled(form);
        for path in disk.files().into_iter().filter(|path| !path.ends_with("checkpoint")) {
            let bytes = disk.read(&path).unwrap().len() as u64;
            for cut in [None, Some(0), Some(5), Some(bytes / 2), Some(bytes - 1)] {
                let what = format!("{form:?}, {} cut to {cut:?} of {bytes}", path.display());
                let disk = disk.fork(bytes);
                match cut {
                    Some(length) => assert!(disk.truncate(&path, length)),
                    None => assert!(disk.vanish(&path)),
                }
                let (lost, damage) = survey(&disk, form, &held, &what);
                let is_block = path.to_string_lossy().ends_with(".blk");
                assert_eq!(lost > 0, is_block, "{what}: {lost} lost, {damage:?}");
                assert_eq!(damage.is_empty(), path.ends_with("key"), "{what}");
            }
        }
    }
}

#[test]
fn block_and_index_damaged_at_once_lose_no_more_than_the_block_shows() {
    let (disk, held) = filled(Form::Plain);
    for path in files(&disk, ".idx") {
        let block = path.with_extension("blk");
        let bytes = disk.read(&block).unwrap().len() as u64;
        for bit in (0..bytes * 8).step_by(1009) {
            let disk = disk.fork(bit);
            assert!(disk.vanish(&path) && disk.flip_bit(&block, bit));
            let (lost, damage) =
                survey(&disk, Form::Plain, &held, &format!("bit {bit} of {}", block.display()));
            assert!(lost <= 1, "{lost} lost, {damage:?}");
        }
    }
}

/// Length of each record of [`small`]: a flip in one makes it a multiple, which leads to the begin of a later record.
const SMALL_RECORD: usize = 64;
/// Length of the header of a chunk.
const HEADER: usize = 32;

/// A block that still grows, of chunks with several records each. Every sequence is a multiple of `step`; deleted are those of `deleted`, as
/// numbers of records from 1 on.
fn small(form: Form, step: u64, deleted: &[u64], erase: bool) -> (FaultDisk, BTreeMap<u64, Message>) {
    let disk = FaultDisk::new(1);
    let (mut store, _) = open(&disk, form).unwrap();
    for number in 1..=15 {
        let (sequence, timestamp, headers) = (number * step, Timestamp(number.cast_signed()), &b""[..]);
        // An expiry takes eight bytes that are the payload's in the others.
        let (expiry, length) = match sequence % 5 {
            0 => (Expiry::At(Timestamp(sequence.cast_signed() + 1000)), SMALL_RECORD - 39),
            1 => (Expiry::Never, SMALL_RECORD - 31),
            _ => (Expiry::MaxAge, SMALL_RECORD - 31),
        };
        let payload = &vec![b'x'; length];
        let message = Append { sequence, timestamp, subject: b"s", headers, payload, expiry };
        store.append(message).unwrap();
        if number % 5 == 0 {
            checkpoint(&mut store, number).unwrap();
        }
    }
    for number in deleted {
        assert!(store.remove(number * step, erase).unwrap().is_some());
    }
    checkpoint(&mut store, 20).unwrap();
    assert_eq!((files(&disk, ".blk").len(), files(&disk, ".idx").len()), (1, 0));
    let held = messages(&store).into_iter().map(|message| (message.sequence, message)).collect();
    (disk, held)
}

/// Where a record of [`small`] begins in its file, if that is plain.
fn place(number: usize) -> usize {
    HEADER * (1 + (number - 1) / 5) + SMALL_RECORD * (number - 1)
}

#[test]
fn what_is_lost_behind_deleted_messages_is_told() {
    for form in FORMS {
        for (step, deleted) in [(1, &[1, 2, 6][..]), (3, &[1]), (3, &[1, 2, 6]), (3, &[2, 4, 7, 8, 12])] {
            let (disk, held) = small(form, step, deleted, false);
            let block = files(&disk, ".blk").remove(0);
            let bytes = disk.read(&block).unwrap().len();
            for at in 0..bytes {
                let what = format!("{form:?}, every {step}th, without {deleted:?}, byte {at} of {bytes}");
                let cut = disk.fork(1);
                assert!(cut.truncate(&block, at as u64));
                let (lost, damage) = survey(&cut, form, &held, &format!("{what}, cut"));
                assert!(lost > 0, "{what}: {damage:?}");
                for bit in [0, 7] {
                    let flipped = disk.fork(1);
                    assert!(flipped.flip_bit(&block, at as u64 * 8 + bit));
                    let (lost, damage) = survey(&flipped, form, &held, &what);
                    assert!(form != Form::Plain || lost <= 1, "{what}: {lost} lost, {damage:?}");
                }
            }
        }
    }
}

#[test]
fn a_header_and_nearly_all_behind_it_lose_the_messages_behind_deleted_ones_and_tell() {
    for step in [1, 3] {
        let (disk, held) = small(Form::Plain, step, &[1, 2, 3, 4], false);
        let block = files(&disk, ".blk").remove(0);
        for behind in 0..SMALL_RECORD {
            let disk = disk.fork(1);
            disk.alter(&block, |bytes| {
                bytes[0] = 0;
                bytes.truncate(HEADER + behind);
            });
            let (lost, damage) = survey(&disk, Form::Plain, &held, &format!("{behind} bytes are left"));
            assert_eq!(lost, held.len(), "{damage:?}");
        }
    }
}

/// A process that ends while it overwrites erased messages leaves some half overwritten: nobody lost anything.
#[test]
fn erased_messages_that_are_half_overwritten_are_no_damage_and_go_for_good() {
    for step in [1, 3] {
        for deleted in [&[1, 2, 3][..], &[2, 3, 4], &[3, 4, 5], &[4, 5, 6, 7], &[7], &[13, 14, 15]] {
            let (disk, held) = small(Form::Plain, step, deleted, true);
            let block = files(&disk, ".blk").remove(0);
            for lengths_too in [false, true] {
                let what = format!("every {step}th, without {deleted:?}, lengths {lengths_too}");
                let disk = disk.fork(1);
                disk.alter(&block, |bytes| {
                    for number in deleted {
                        let at = place(*number as usize);
                        bytes[at + 40..at + SMALL_RECORD].fill(b'x');
                        bytes[at] ^= u8::from(lengths_too) << 7;
                    }
                });
                let (mut store, recovered) = open(&disk, Form::Plain).unwrap();
                assert!(lengths_too || recovered.damage.is_empty(), "{what}: {:?}", recovered.damage);
                let found: Vec<u64> = messages(&store).iter().map(|message| message.sequence).collect();
                assert_eq!(found, held.keys().copied().collect::<Vec<u64>>(), "{what}");
                checkpoint(&mut store, 21).unwrap();
                checkpoint(&mut store, 22).unwrap();
                assert_eq!((messages(&store).len(), store.take_damage()), (held.len(), vec![]), "{what}");
                let blocks = files(&disk, ".blk");
                let bytes = blocks.iter().map(|path| disk.read(path).unwrap());
                let payloads: usize = bytes
                    .map(|bytes| {
                        bytes.chunk_by(|a, b| a == b).filter(|run| run[0] == b'x' && run.len() > 8).count()
                    })
                    .sum();
                assert!(lengths_too || payloads == held.len(), "{what}: {payloads} payloads are on disk");
            }
        }
    }
}

#[test]
fn without_the_checkpoint_the_blocks_still_tell_their_messages() {
    for form in FORMS {
        let (disk, held) = filled(form);
        assert!(disk.vanish(&PathBuf::from(DIR).join("checkpoint")));
        let (mut store, recovered) = open(&disk, form).unwrap();
        assert_eq!((recovered.applied, recovered.items.len()), (0, 0));
        assert!(recovered.damage.iter().any(|damage| damage.file == "checkpoint"), "{:?}", recovered.damage);
        for (sequence, message) in &held {
            assert_eq!(store.load(*sequence).unwrap().as_ref(), Some(message), "{form:?}");
        }
        check_counters(&store);
        append_next(&mut store);
        checkpoint(&mut store, 100).unwrap();
        let after = content(&store);
        drop(store);
        let (store, recovered) = open(&disk, form).unwrap();
        assert_eq!((recovered.damage, content(&store)), (vec![], after));
    }
}

#[test]
fn damage_met_while_reading_is_told_once_and_leaves_the_rest() {
    let (disk, held) = filled(Form::Plain);
    let (mut store, recovered) = open(&disk, Form::Plain).unwrap();
    assert_eq!(recovered.damage, []);
    let path = files(&disk, ".blk").remove(0);
    disk.alter(&path, |bytes| bytes.fill(0xee));
    let found = messages(&store);
    assert!(!found.is_empty() && found.len() < held.len());
    assert!(store.state().messages > found.len() as u64);
    assert!(!store.take_damage().is_empty());
    assert_eq!(store.take_damage(), []);
    assert_eq!(messages(&store), found);
    check_counters(&store);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    for form in FORMS {
        let (disk, held) = filled(form);
        let (mut store, _) = open(&disk, form).unwrap();
        disk.set_capacity(Some(disk.used() + 3000));
        let mut numbers = Numbers(4);
        let error = loop {
            let next = content_last(&store) + 1 + numbers.below(2);
            match append(&mut store, next) {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, Error::Disk(error) if error.is_full()), "{error}");
        assert_refuses(&mut store, 0);
        for (sequence, message) in &held {
            assert_eq!(store.load(*sequence).unwrap().as_ref(), Some(message));
        }
        drop(store);
        disk.set_capacity(None);
        survey(&disk, form, &held, "after a full disk");
    }
}

fn assert_refuses(store: &mut FileStore, sequence: u64) {
    let last = content_last(store);
    let before = store.state();
    let results = [
        append(store, last + 1),
        store.skip_to(last + 5, Timestamp(2)),
        store.remove(sequence, false).map(drop),
        store.purge(&Filter::All, last, &mut |_| {}),
        store.begin_checkpoint(1, Vec::new()).map(drop),
    ];
    for result in results {
        assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
    }
    assert_eq!(store.state(), before);
}

#[test]
fn a_failed_write_or_sync_is_never_taken_back() {
    for operation in
        [Operation::Sync, Operation::Write, Operation::SyncDirectory, Operation::Rename, Operation::Remove]
    {
        for (after, number) in (0..12).flat_map(|after| [EIO, ENOSPC].map(|number| (after, number))) {
            let (disk, _) = filled(Form::Plain);
            let (mut store, _) = open(&disk, Form::Plain).unwrap();
            let mut saved = content(&store);
            disk.inject(Rule::new(operation, Effect::Fail(number)).after(after).once());
            let mut numbers = Numbers(after);
            let mut failed = false;
            for round in 20..30 {
                let result = change(&mut store, &mut numbers, 60).and_then(|()| {
                    let now = content(&store);
                    checkpoint(&mut store, round).map(|()| now)
                });
                match result {
                    Ok(now) => saved = now,
                    Err(error) => {
                        assert!(!error.to_string().is_empty());
                        failed = true;
                        break;
                    }
                }
            }
            let what = format!("{operation:?} after {after} with {number}");
            disk.clear_rules();
            if failed {
                assert_refuses(&mut store, 1);
            }
            let now = content(&store);
            drop(store);
            disk.crash(Loss::Everything);
            let (store, recovered) = open(&disk, Form::Plain).unwrap();
            assert_eq!(recovered.damage, [], "{what}");
            // A job may fail after its record was written.
            assert!([&saved, &now].contains(&&content(&store)), "{what}");
        }
    }
}

#[test]
fn erased_messages_leave_the_disk_with_the_next_checkpoints() {
    for form in FORMS {
        let (disk, held) = filled(form);
        let (mut store, _) = open(&disk, form).unwrap();
        let first = content_last(&store) + 1;
        // Bytes that no compression hides.
        let noise = |sequence: u64| -> Vec<u8> {
            let mut numbers = Numbers(sequence * 77);
            (0..64).map(|_| numbers.below(256) as u8).collect()
        };
        for sequence in first..first + 100 {
            let (timestamp, payload) = (Timestamp(sequence.cast_signed()), noise(sequence));
            let (subject, headers, expiry) = (b"noise", b"", Expiry::MaxAge);
            store
                .append(Append { sequence, timestamp, subject, headers, payload: &payload, expiry })
                .unwrap();
        }
        checkpoint(&mut store, 199).unwrap();
        let shows = |sequence: u64| {
            let needle = noise(sequence);
            let has = |path: &PathBuf| disk.read(path).unwrap().windows(64).any(|window| window == needle);
            disk.files().iter().any(has)
        };
        let erased: Vec<u64> = (first..first + 100).step_by(9).collect();
        assert!(erased.iter().all(|sequence| shows(*sequence) == (form != Form::Sealed)));
        for sequence in &erased {
            assert!(store.remove(*sequence, true).unwrap().is_some());
        }
        (200..210).for_each(|round| checkpoint(&mut store, round).unwrap());
        for sequence in first..first + 100 {
            let expected = form != Form::Sealed && !erased.contains(&sequence);
            assert_eq!(shows(sequence), expected, "{form:?}: {sequence}");
        }
        let rest = held.len() + 100 - erased.len();
        assert_eq!(messages(&store).len(), rest);
        drop(store);
        let (store, recovered) = open(&disk, form).unwrap();
        assert_eq!((recovered.damage, messages(&store).len()), (vec![], rest));
    }
}

#[test]
fn nothing_is_on_an_encrypted_disk_in_clear() {
    let disk = FaultDisk::new(1);
    let (mut store, _) = open(&disk, Form::Sealed).unwrap();
    for round in 1..20 {
        change(&mut store, &mut Numbers(round), 30).unwrap();
        checkpoint(&mut store, round).unwrap();
        // The first write after opening is sealed like all others.
        drop(store);
        store = open(&disk, Form::Sealed).unwrap().0;
        change(&mut store, &mut Numbers(round + 100), 5).unwrap();
    }
    for path in disk.files() {
        let bytes = disk.read(&path).unwrap();
        for word in [&b"payload"[..], b"subject", b"NATS/1.0", b"consumer", b"state at"] {
            assert!(!bytes.windows(word.len()).any(|window| window == word), "{}", path.display());
        }
    }
}

#[test]
fn keys_rotate_and_a_missing_key_is_named() {
    let (disk, held) = filled(Form::Sealed);
    let open = |current: Option<(&str, Option<&str>)>| {
        let mut options = options(Form::Sealed);
        options.keyring = current.map(|(current, previous)| keyring(current, previous));
        FileStore::open(std::sync::Arc::new(disk.clone()), std::path::Path::new(DIR), options)
    };
    for wrong in [None, Some(("second", None)), Some(("second", Some("third")))] {
        let error = open(wrong).unwrap_err().to_string();
        assert!(error.contains("key"), "{error}");
    }
    let (mut store, recovered) = open(Some(("second", Some("first")))).unwrap();
    assert_eq!((recovered.damage, messages(&store).len()), (vec![], held.len()));
    checkpoint(&mut store, 50).unwrap();
    drop(store);
    // Now the old key is not needed any more, not even for the copy in the checkpoints.
    assert!(disk.vanish(&PathBuf::from(DIR).join("key")));
    let (store, recovered) = open(Some(("second", None))).unwrap();
    assert_eq!((recovered.damage, messages(&store).len()), (vec![], held.len()));
}

#[test]
fn dead_space_is_given_back() {
    for form in FORMS {
        let disk = FaultDisk::new(1);
        let (mut store, _) = open(&disk, form).unwrap();
        for sequence in 1..=3000 {
            append(&mut store, sequence).unwrap();
            if sequence > 20 && (sequence - 20) % 100 != 0 {
                store.remove(sequence - 20, false).unwrap();
            }
            if sequence % 50 == 0 {
                checkpoint(&mut store, sequence).unwrap();
            }
        }
        (3001..3020).for_each(|round| checkpoint(&mut store, round).unwrap());
        let bytes = store.state().bytes;
        assert_eq!(store.state().messages, 49);
        assert!(disk.used() < bytes * 4 + 20_000, "{form:?}: {} bytes of disk for {bytes}", disk.used());
        assert!(disk.files().len() < 12, "{form:?}: {:?}", disk.files());
        check_counters(&store);
    }
}
