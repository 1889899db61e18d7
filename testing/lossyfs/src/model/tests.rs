//! What is synced stays, what is not goes, and what survives by chance could have been on a disk.

use super::*;

const CAPACITY: u64 = 1 << 20;
/// Seeds that are tried where chance decides.
const SEEDS: u64 = 300;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn file(model: &mut Model, directory: u64, text: &str) -> u64 {
    model.create(directory, name(text), 0o644, false).unwrap()
}

fn directory(model: &mut Model, above: u64, text: &str) -> u64 {
    model.create(above, name(text), 0o755, true).unwrap()
}

fn sync(model: &mut Model, number: u64) {
    let handle = model.open(number).unwrap();
    model.sync(handle).unwrap();
    model.close(handle);
}

fn write(model: &mut Model, number: u64, bytes: &[u8]) {
    let handle = model.open(number).unwrap();
    model.write(handle, 0, bytes).unwrap();
    model.close(handle);
}

fn read(model: &mut Model, number: u64) -> Vec<u8> {
    let handle = model.open(number).unwrap();
    model.read(handle, 0, PAGE).unwrap()
}

fn listed(model: &mut Model, directory: u64) -> Vec<String> {
    let handle = model.open(directory).unwrap();
    let names = model.listing(handle).unwrap().iter().map(|entry| entry.name.to_string_lossy().into_owned());
    names.collect()
}

/// A seed whose crash loses everything that is not synced.
fn losing_seed() -> u64 {
    (0..SEEDS).find(|seed| Random::new(*seed).below(8) == 0).unwrap()
}

fn lose_all(model: &mut Model) -> Crash {
    model.crash(losing_seed())
}

#[test]
fn a_file_without_a_synced_name_is_gone_with_its_synced_bytes() {
    let mut model = Model::new(CAPACITY);
    let number = file(&mut model, ROOT, "f");
    write(&mut model, number, b"x");
    sync(&mut model, number);
    let crash = lose_all(&mut model);
    assert_eq!((crash.names_lost, crash.files_lost), (1, 0));
    assert_eq!(model.lookup(ROOT, name("f")), Err(Errno::NOENT));
    assert_eq!(model.attributes(number).unwrap_err(), Errno::NOENT);
}

#[test]
fn a_synced_name_without_synced_bytes_is_an_empty_file() {
    let mut model = Model::new(CAPACITY);
    let number = file(&mut model, ROOT, "f");
    write(&mut model, number, b"x");
    sync(&mut model, ROOT);
    assert_eq!(lose_all(&mut model).files_lost, 1);
    assert_eq!(model.lookup(ROOT, name("f")), Ok(number));
    assert_eq!(model.attributes(number).unwrap().len, 0);
}

#[test]
fn every_directory_above_has_to_be_synced() {
    let mut model = Model::new(CAPACITY);
    let inner = directory(&mut model, ROOT, "d");
    file(&mut model, inner, "f");
    sync(&mut model, inner);
    lose_all(&mut model);
    assert!(listed(&mut model, ROOT).is_empty());
    assert_eq!(model.nodes.len(), 1, "nothing is left of what cannot be reached");
}

#[test]
fn names_that_were_renamed_or_removed_are_back_until_the_directory_is_synced() {
    let mut model = Model::new(CAPACITY);
    for text in ["a", "b", "c"] {
        file(&mut model, ROOT, text);
    }
    sync(&mut model, ROOT);
    for is_synced in [false, true] {
        model.rename((ROOT, name("a")), (ROOT, name("b"))).unwrap();
        model.remove(ROOT, name("c"), false).unwrap();
        assert_eq!(listed(&mut model, ROOT), ["b"]);
        if is_synced {
            sync(&mut model, ROOT);
        }
        lose_all(&mut model);
        assert_eq!(listed(&mut model, ROOT), if is_synced { vec!["b"] } else { vec!["a", "b", "c"] });
    }
}

#[test]
fn a_sync_of_one_directory_makes_a_move_into_it_durable_as_a_whole() {
    let mut model = Model::new(CAPACITY);
    let (from, to) = (directory(&mut model, ROOT, "from"), directory(&mut model, ROOT, "to"));
    sync(&mut model, ROOT);
    let number = file(&mut model, from, "f");
    file(&mut model, from, "other");
    model.rename((from, name("f")), (to, name("g"))).unwrap();
    sync(&mut model, to);
    lose_all(&mut model);
    assert_eq!(model.lookup(to, name("g")), Ok(number));
    assert!(listed(&mut model, from).is_empty());
}

#[test]
fn a_file_is_never_lost_by_a_rename_and_the_target_always_there() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..SEEDS {
        let mut model = Model::new(CAPACITY);
        let target = file(&mut model, ROOT, "target");
        sync(&mut model, ROOT);
        let fresh = file(&mut model, ROOT, "fresh");
        write(&mut model, fresh, b"whole");
        sync(&mut model, fresh);
        model.rename((ROOT, name("fresh")), (ROOT, name("target"))).unwrap();
        model.crash(seed);
        let found = model.lookup(ROOT, name("target")).unwrap();
        if found == fresh {
            new += 1;
            assert_eq!(read(&mut model, found), b"whole");
            assert_eq!(listed(&mut model, ROOT), ["target"]);
        } else {
            old += 1;
            assert_eq!(found, target);
        }
    }
    assert!(old > 50 && new > 50, "{old} {new}");
}

#[test]
fn unsynced_names_survive_each_on_its_own() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut model = Model::new(CAPACITY);
        for text in ["a", "b"] {
            file(&mut model, ROOT, text);
        }
        let crash = model.crash(seed);
        let names = listed(&mut model, ROOT).concat();
        assert_eq!((crash.names_kept, crash.names_lost), (names.len(), 2 - names.len()));
        seen.insert(names);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["", "a", "ab", "b"]);
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let end = |seed| {
        let mut model = Model::new(CAPACITY);
        for text in ["a", "b", "c", "d"] {
            let number = file(&mut model, ROOT, text);
            write(&mut model, number, &[1; 3 * PAGE]);
        }
        let crash = model.crash(seed);
        let names = listed(&mut model, ROOT);
        let contents = names.iter().map(|text| {
            let number = model.lookup(ROOT, name(text)).unwrap();
            let handle = model.open(number).unwrap();
            model.read(handle, 0, 3 * PAGE).unwrap()
        });
        let contents: Vec<_> = contents.collect();
        (crash, names, contents)
    };
    assert!((0..20).all(|seed| end(seed) == end(seed)));
    assert!((0..20).any(|seed| end(seed) != end(seed + 1)));
}

#[test]
fn what_was_open_before_a_crash_is_refused_afterwards() {
    let mut model = Model::new(CAPACITY);
    let number = file(&mut model, ROOT, "f");
    sync(&mut model, ROOT);
    let before = model.open(number).unwrap();
    lose_all(&mut model);
    let after = model.open(number).unwrap();
    assert_eq!(model.write(before, 0, b"late"), Err(Errno::IO));
    assert_eq!(model.sync(before), Err(Errno::IO));
    model.close(before);
    model.write(after, 0, b"new").unwrap();
    assert_eq!(model.read(after, 0, 9).unwrap(), b"new");
}

#[test]
fn an_open_file_lives_on_without_a_name_and_gives_its_pages_back() {
    let mut model = Model::new(CAPACITY);
    let number = file(&mut model, ROOT, "f");
    let handle = model.open(number).unwrap();
    model.write(handle, 0, &[1; 8 * PAGE]).unwrap();
    model.remove(ROOT, name("f"), false).unwrap();
    sync(&mut model, ROOT);
    model.sweep();
    assert_eq!((model.read(handle, 0, 1).unwrap(), model.usage().0), (vec![1], 8));
    model.close(handle);
    model.sweep();
    assert_eq!(model.usage().0, 0);
}

#[test]
fn bounds_are_kept() {
    let mut model = Model::new(4 * PAGE as u64);
    let number = file(&mut model, ROOT, "f");
    let handle = model.open(number).unwrap();
    assert_eq!(model.write(handle, 0, &[1; 5 * PAGE]), Err(Errno::NOSPC));
    model.write(handle, 0, &[1; 3 * PAGE]).unwrap();
    assert_eq!(model.write(handle, 4 * PAGE as u64, b"x"), Err(Errno::NOSPC));
    for round in 0..CHANGES_MAX {
        let (from, to) = if round % 2 == 0 { ("f", "g") } else { ("g", "f") };
        model.rename((ROOT, name(from)), (ROOT, name(to))).unwrap();
    }
    assert_eq!(model.changes.len(), CHANGES_MAX);
    lose_all(&mut model);
    assert_eq!(listed(&mut model, ROOT), ["f"], "the oldest change became durable");
}

#[test]
fn names_are_refused_as_on_any_file_system() {
    let mut model = Model::new(CAPACITY);
    let inner = directory(&mut model, ROOT, "d");
    let number = file(&mut model, inner, "f");
    assert_eq!(model.create(ROOT, name("d"), 0, false), Err(Errno::EXIST));
    assert_eq!(model.create(number, name("x"), 0, false), Err(Errno::NOTDIR));
    assert_eq!(model.remove(ROOT, name("d"), true), Err(Errno::NOTEMPTY));
    assert_eq!(model.remove(ROOT, name("d"), false), Err(Errno::ISDIR));
    assert_eq!(model.remove(inner, name("f"), true), Err(Errno::NOTDIR));
    assert_eq!(model.remove(inner, name("none"), false), Err(Errno::NOENT));
    assert_eq!(model.rename((inner, name("f")), (ROOT, name("d"))), Err(Errno::ISDIR));
    model.remove(inner, name("f"), false).unwrap();
    model.remove(ROOT, name("d"), true).unwrap();
    assert!(listed(&mut model, ROOT).is_empty());
}
