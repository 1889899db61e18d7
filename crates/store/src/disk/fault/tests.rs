//! The simulated disk keeps what it promises and breaks what it does not.

use super::*;

fn disk() -> FaultDisk {
    let disk = FaultDisk::new(1);
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn create(disk: &FaultDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(Path::new(path), Open::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

#[test]
fn a_synced_file_in_a_synced_directory_survives() {
    let disk = disk();
    let file = create(&disk, "/d/f", b"bytes");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.crash(Loss::Random);
    assert_eq!(disk.read(Path::new("/d/f")).unwrap(), b"bytes");
    assert!(file.write_at(b"x", 0).is_err(), "a file of an earlier life");
    let again = disk.open(Path::new("/d/f"), Open::Read).unwrap();
    assert_eq!(again.write_at(b"x", 0).unwrap_err().source.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_synced_file_without_a_synced_name_is_lost() {
    let disk = disk();
    create(&disk, "/d/f", b"bytes").sync().unwrap();
    disk.crash(Loss::Everything);
    assert_eq!(disk.files(), Vec::<PathBuf>::new());
}

#[test]
fn the_power_goes_at_the_change_that_was_named() {
    let disk = disk();
    let file = create(&disk, "/d/f", b"one");
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.crash_at(2);
    file.write_at(b"two", 0).unwrap();
    assert!(!disk.is_down());
    assert!(file.write_at(b"six", 0).is_err());
    assert!(disk.is_down());
    assert!(file.read_at(&mut [0; 3], 0).is_err());
    assert!(disk.list(Path::new("/d")).is_err());
    disk.crash(Loss::Everything);
    assert_eq!(disk.read(Path::new("/d/f")).unwrap(), b"one");
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let outcome = |seed| {
        let disk = FaultDisk::new(seed);
        for name in 0..20 {
            create(&disk, &format!("/{name}"), &[7; 3000]);
        }
        disk.crash(Loss::Random);
        disk.files().iter().map(|path| disk.read(path).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(outcome(3), outcome(3));
    assert_ne!(outcome(3), outcome(4));
}

#[test]
fn rules_fail_lie_do_a_part_and_miss() {
    let disk = disk();
    let file = create(&disk, "/d/f", b"0123456789");
    disk.inject(Rule::new(Operation::Write, Effect::Fail(EIO)).at("other"));
    disk.inject(Rule::new(Operation::Write, Effect::Fail(EIO)).after(1).once());
    file.write_at(b"a", 0).unwrap();
    assert_eq!(file.write_at(b"b", 1).unwrap_err().source.raw_os_error(), Some(EIO));
    file.write_at(b"c", 2).unwrap();
    disk.inject(Rule::new(Operation::Write, Effect::Misdirect(3)).once());
    file.write_at(b"d", 3).unwrap();
    disk.inject(Rule::new(Operation::Write, Effect::Ignore).once());
    file.write_at(b"e", 4).unwrap();
    disk.inject(Rule::new(Operation::Write, Effect::Partial).once());
    assert!(file.write_at(b"fghi", 8).is_err());
    assert_eq!(disk.read(Path::new("/d/f")).unwrap(), b"a1c345d7fg");
    disk.inject(Rule::new(Operation::Read, Effect::Partial).once());
    assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 5);
    disk.inject(Rule::new(Operation::Sync, Effect::Ignore).once());
    disk.sync_dir(Path::new("/d")).unwrap();
    file.sync().unwrap();
    disk.crash(Loss::Everything);
    assert_eq!(disk.read(Path::new("/d/f")).unwrap(), b"", "the sync lied");
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = disk();
    disk.set_capacity(Some(10));
    let file = create(&disk, "/d/f", b"12345678");
    assert_eq!(disk.free_space(Path::new("/")).unwrap(), Some(2));
    assert!(file.write_at(b"abcd", 8).unwrap_err().is_full());
    assert_eq!(disk.read(Path::new("/d/f")).unwrap(), b"12345678ab");
    file.write_at(b"again", 0).unwrap();
    disk.set_read_only(true);
    assert_eq!(file.write_at(b"x", 0).unwrap_err().source.raw_os_error(), Some(EROFS));
    assert!(disk.remove_file(Path::new("/d/f")).is_err());
    disk.set_read_only(false);
    disk.remove_file(Path::new("/d/f")).unwrap();
    assert_eq!(disk.used(), 0);
}

#[test]
fn files_change_behind_everybodys_back() {
    let disk = disk();
    let file = create(&disk, "/d/f", b"abc");
    let path = Path::new("/d/f");
    assert!(disk.flip_bit(path, 8));
    assert_eq!(disk.read(path).unwrap(), b"acc");
    assert!(!disk.flip_bit(path, 24));
    assert!(disk.truncate(path, 2));
    assert_eq!(file.len().unwrap(), 2);
    let other = disk.fork(9);
    assert!(disk.vanish(path));
    assert!(!disk.vanish(path));
    assert_eq!(disk.list(Path::new("/d")).unwrap(), Vec::<String>::new());
    assert_eq!(other.read(path).unwrap(), b"ac");
}

#[test]
fn directories_move_and_go_with_what_is_in_them() {
    let disk = disk();
    disk.create_dir_all(Path::new("/d/a/b")).unwrap();
    create(&disk, "/d/a/b/f", b"x");
    disk.rename(Path::new("/d/a"), Path::new("/d/c")).unwrap();
    assert_eq!(disk.files(), [PathBuf::from("/d/c/b/f")]);
    assert_eq!(disk.list(Path::new("/d")).unwrap(), ["c"]);
    assert!(disk.open(Path::new("/d/c"), Open::Read).is_err());
    assert!(disk.open(Path::new("/d/none/f"), Open::Create).unwrap_err().is_not_found());
    disk.remove_dir_all(Path::new("/d")).unwrap();
    disk.remove_dir_all(Path::new("/d")).unwrap();
    assert!(disk.list(Path::new("/d")).unwrap_err().is_not_found());
}
