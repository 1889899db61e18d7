//! Files by the standard library, through the kernel.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use lossyfs::Mounted;

const CAPACITY: u64 = 8 << 20;
/// Seeds of crashes: some lose everything, some nothing.
const SEEDS: u64 = 60;

fn mount() -> Mounted {
    match Mounted::new(CAPACITY) {
        Ok(mounted) => mounted,
        Err(error) => panic!("mount: {error}"),
    }
}

pub(crate) fn sync_directory(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Everything that programs do with files, without a crash.
pub(crate) fn what_programs_make_is_seen_by_programs() {
    let mounted = mount();
    let at = |name: &str| mounted.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/f"), "hello").unwrap();
    let file = OpenOptions::new().read(true).write(true).open(at("a/b/f")).unwrap();
    file.write_all_at(&[7; 300_000], 3).unwrap();
    let mut bytes = vec![0; 300_100];
    assert_eq!(file.read_at(&mut bytes, 1).unwrap(), 300_002);
    assert_eq!((&bytes[..3], bytes[300_001], bytes[300_002]), (&b"el\x07"[..], 7, 0));
    file.set_len(4).unwrap();
    assert_eq!(fs::metadata(at("a/b/f")).unwrap().len(), 4);
    OpenOptions::new().append(true).open(at("a/b/f")).unwrap().write_all(b"!").unwrap();
    assert_eq!(fs::read(at("a/b/f")).unwrap(), b"hel\x07!");
    assert_eq!(File::create_new(at("a/b/f")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(File::open(at("none")).unwrap_err().kind(), ErrorKind::NotFound);

    fs::write(at("a/g"), "other").unwrap();
    fs::rename(at("a/b/f"), at("a/g")).unwrap();
    assert_eq!((names(&at("a")), names(&at("a/b"))), (vec!["b".to_owned(), "g".to_owned()], Vec::new()));
    fs::remove_file(at("a/g")).unwrap();
    // It is open still.
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5);
    for number in 0..300 {
        fs::write(at(&format!("a/b/a name of some length, number {number}")), "x").unwrap();
    }
    assert_eq!(names(&at("a/b")).len(), 300);
    assert_eq!(fs::remove_dir(at("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(at("a")).unwrap();
    assert!(names(mounted.path()).is_empty());
    let full = fs::write(at("big"), vec![1; CAPACITY as usize + 1]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    // What nobody can reach, not even after a crash, takes no space.
    fs::remove_file(at("big")).unwrap();
    assert!(fs::write(at("next"), vec![1; CAPACITY as usize / 2]).is_err());
    fs::remove_file(at("next")).unwrap();
    sync_directory(mounted.path());
    fs::write(at("next"), vec![1; CAPACITY as usize / 2]).unwrap();
}

/// Crashes as programs see them: syncs are what counts, and the kernel remembers nothing.
pub(crate) fn what_is_not_synced_is_lost() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let mounted = mount();
        let at = |name: &str| mounted.path().join(name);
        let file = File::create(at("synced")).unwrap();
        (&file).write_all(b"synced").unwrap();
        file.sync_data().unwrap();
        sync_directory(mounted.path());
        (&file).write_all(b", not synced").unwrap();
        fs::write(at("fresh"), "fresh").unwrap();
        let crash = mounted.crash(seed);
        assert_eq!(crash.names_lost + crash.names_kept, 1, "seed {seed}: {crash}");

        let mut text = String::new();
        File::open(at("synced")).unwrap().read_to_string(&mut text).unwrap();
        assert!(text.starts_with("synced"), "seed {seed}: {text:?}");
        assert_eq!(at("fresh").exists(), crash.names_kept == 1, "seed {seed}");
        assert_eq!(names(mounted.path()).len(), 1 + crash.names_kept, "seed {seed}");
        if text == "synced" && crash.names_lost == 1 {
            lost += 1;
        } else if text == "synced, not synced" && crash.names_kept == 1 {
            kept += 1;
        }
        assert!((&file).write_all(b"late").is_err(), "seed {seed}: a file was open over the crash");
        fs::write(at("next"), "next life").unwrap();
        assert_eq!(fs::read(at("next")).unwrap(), b"next life");
    }
    assert!(lost > 3 && kept > 3, "of {SEEDS} crashes {lost} lost all and {kept} nothing");
}
