//! The log against a plain model, on a disk that fails by seed: what was synced comes back, what was not comes back as a prefix or not at all.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use store::crypt::{Cipher, Keyring, MasterKey, SeededEntropy};
use store::disk::fault::{EIO, Effect, FaultDisk, Loss, Operation, Rule};
use store::wal::{Error, GroupId, HardState, Options, Record, Report, SEGMENT_BYTES_MIN, Wal};

const DIRECTORY: &str = "/log";
/// Seeds that every run of the tests tries; `MYELIN_WAL_SEEDS` asks for another number.
const SEEDS: u64 = 120;
const LIVES: usize = 6;
const STEPS: usize = 60;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// A record that owns its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Logged {
    Entry(GroupId, u64, u64, Bytes),
    HardState(GroupId, HardState),
    Released(GroupId, u64, u64, u64),
    Removed(GroupId),
}

impl Logged {
    fn new(record: Record<'_>) -> Self {
        match record {
            Record::Entry { group, index, term, payload } => {
                Self::Entry(group, index, term, Bytes::copy_from_slice(payload))
            }
            Record::HardState { group, state } => Self::HardState(group, state),
            Record::Released { group, index, term, checkpoint } => {
                Self::Released(group, index, term, checkpoint)
            }
            Record::Removed { group } => Self::Removed(group),
        }
    }

    fn record(&self) -> Record<'_> {
        match self {
            Self::Entry(group, index, term, payload) => {
                Record::Entry { group: *group, index: *index, term: *term, payload }
            }
            Self::HardState(group, state) => Record::HardState { group: *group, state: *state },
            Self::Released(group, index, term, checkpoint) => {
                let (index, term, checkpoint) = (*index, *term, *checkpoint);
                Record::Released { group: *group, index, term, checkpoint }
            }
            Self::Removed(group) => Record::Removed { group: *group },
        }
    }
}

/// What a log means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    groups: BTreeMap<GroupId, Group>,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Group {
    hard_state: Option<HardState>,
    /// Index, term, checkpoint.
    released: (u64, u64, u64),
    entries: BTreeMap<u64, (u64, Bytes)>,
}

impl Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, released {:?}", self.hard_state, self.released)?;
        let mut entries = self.entries.iter();
        entries.try_for_each(|(index, (term, payload))| write!(f, ", {index}/{term}: {}", payload.len()))
    }
}

impl Group {
    fn last(&self) -> u64 {
        self.entries.keys().next_back().copied().unwrap_or(self.released.0)
    }
}

impl Model {
    fn apply(&mut self, logged: &Logged) {
        match logged {
            Logged::Entry(group, index, term, payload) => {
                let group = self.groups.entry(*group).or_default();
                if *index > group.released.0 {
                    group.entries.split_off(index);
                    group.entries.insert(*index, (*term, payload.clone()));
                }
            }
            Logged::HardState(group, state) => {
                self.groups.entry(*group).or_default().hard_state = Some(*state);
            }
            Logged::Released(_, 0, ..) => {}
            Logged::Released(group, index, term, checkpoint) => {
                let group = self.groups.entry(*group).or_default();
                if *index >= group.released.0 {
                    group.released = (*index, *term, *checkpoint);
                    group.entries = group.entries.split_off(&(index + 1));
                }
            }
            Logged::Removed(group) => {
                self.groups.remove(group);
            }
        }
    }

    fn of<'a>(records: impl IntoIterator<Item = &'a Logged>) -> Self {
        let mut model = Self::default();
        records.into_iter().for_each(|logged| model.apply(logged));
        model
    }
}

/// One run: a disk, a log on it, and what should be in the log.
struct Run {
    random: Random,
    disk: FaultDisk,
    seed: u64,
    /// Of the configured key; zero for none.
    key: u64,
    history: Vec<Logged>,
    /// So many of them are on stable storage for certain.
    synced: usize,
    /// What the whole history means.
    model: Model,
}

type Check = Result<(), String>;

fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(reason()) }
}

fn equal<T: PartialEq + Debug>(left: &T, right: &T, what: &str) -> Check {
    ensure(left == right, || format!("{what}: {left:?} is not {right:?}"))
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        // Ciphers are slow without optimisation.
        let key = if seed % 4 == 3 { 1 + random.below(2) } else { 0 };
        Self {
            random,
            disk: FaultDisk::new(seed),
            seed,
            key,
            history: Vec::new(),
            synced: 0,
            model: Model::default(),
        }
    }

    fn options(&mut self) -> Options {
        let entropy = Arc::new(SeededEntropy::new(self.random.below(u64::MAX)));
        let key = |number: u64| MasterKey::new(format!("key {number}").as_bytes());
        let crypt = (self.key > 0).then(|| {
            let cipher =
                if self.key.is_multiple_of(2) { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
            Arc::new(Keyring::new(cipher, key(self.key), Some(key(self.key - 1)), entropy.clone()))
        });
        Options { segment_bytes: SEGMENT_BYTES_MIN, crypt, entropy }
    }

    /// Opens the log and compares it with the model. The outer error is a wrong log, the inner one a log that did not open.
    fn open(&mut self) -> Result<Result<(Wal, Report), Error>, String> {
        let mut visited = Vec::new();
        let options = self.options();
        let mut visit = |record: Record<'_>| visited.push(Logged::new(record));
        let disk = Arc::new(self.disk.clone());
        let (wal, report) = match Wal::open(disk, Path::new(DIRECTORY), options, &mut visit) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        ensure(report.damage.is_empty() && report.gaps.is_empty(), || format!("false damage: {report:?}"))?;
        equal(&report.records, &(visited.len() as u64), "count of records")?;
        let found = Model::of(&visited);
        let mut expected = Model::of(&self.history[..self.synced]);
        let mut kept = self.synced;
        while found != expected {
            let Some(next) = self.history.get(kept) else {
                return Err(format!(
                    "seed {}: {} of {} records were synced, found {found:?}, not {:?}",
                    self.seed,
                    self.synced,
                    self.history.len(),
                    Model::of(&self.history[..self.synced])
                ));
            };
            expected.apply(next);
            kept += 1;
        }
        // What a log shows after it was opened is on stable storage.
        self.history.truncate(kept);
        self.synced = kept;
        compare(&wal, &found)?;
        self.model = found;
        Ok(Ok((wal, report)))
    }

    /// Opens the log until it works: the power may go meanwhile.
    fn open_somehow(&mut self) -> Result<(Wal, Report), String> {
        if self.random.below(3) == 0 {
            self.disk.crash_at(1 + self.random.below(12));
        }
        for _ in 0..2 {
            match self.open()? {
                Ok(opened) => return Ok(opened),
                Err(error) => {
                    ensure(self.disk.is_down(), || format!("seed {}: {error}", self.seed))?;
                    self.disk.crash(Loss::Random);
                }
            }
        }
        Err(format!("seed {}: the log does not open", self.seed))
    }

    fn next_record(&mut self) -> Logged {
        let id = GroupId(1 + self.random.below(4));
        let group = self.model.groups.get(&id).cloned().unwrap_or_default();
        let term = group.entries.values().next_back().map_or(group.released.1, |(term, _)| *term).max(1);
        match self.random.below(20) {
            0..13 => {
                let back = if self.random.below(6) == 0 { self.random.below(4) } else { 0 };
                let index = (group.last() + 1).saturating_sub(back).max(group.released.0 + 1);
                let length = match self.random.below(30) {
                    0 => 20_000,
                    1..4 => 3_000 + self.random.below(3_000),
                    _ => self.random.below(300),
                };
                let byte = self.random.below(256) as u8;
                let payload = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
                Logged::Entry(id, index, term + u64::from(back > 0), payload)
            }
            13..16 => {
                let state = HardState { term, vote: self.random.below(3), commit: self.random.below(100) };
                Logged::HardState(id, state)
            }
            16..19 => {
                let unreleased = group.last() - group.released.0;
                let index = group.released.0 + self.random.below(unreleased + 2);
                let term = group.entries.get(&index).map_or(term, |(term, _)| *term);
                Logged::Released(id, index, term, self.random.below(5))
            }
            _ => Logged::Removed(id),
        }
    }

    fn append(&mut self, wal: &mut Wal, logged: Logged) -> Result<(), Error> {
        self.model.apply(&logged);
        let result = wal.append(logged.record());
        self.history.push(logged);
        result
    }

    fn step(&mut self, wal: &mut Wal) -> Result<Result<(), Error>, String> {
        let result = match self.random.below(20) {
            0 => wal.flush(),
            1..4 => {
                let count = self.history.len();
                let result = wal.sync();
                if result.is_ok() {
                    self.synced = count;
                }
                result
            }
            4 => wal.recycle().map(|_| ()),
            5 => wal.mark(),
            6 => return compare(wal, &self.model).map(Ok),
            _ => {
                let logged = self.next_record();
                self.append(wal, logged)
            }
        };
        Ok(result)
    }

    /// One life of the process.
    fn live(&mut self) -> Check {
        let (mut wal, _) = self.open_somehow()?;
        match self.random.below(6) {
            0..3 => self.disk.crash_at(1 + self.random.below(60)),
            3 => {
                let after = self.random.below(8);
                self.disk.inject(Rule::new(Operation::Sync, Effect::Fail(EIO)).after(after).once());
            }
            4 => self.disk.set_capacity(Some(self.disk.used() + self.random.below(40_000))),
            _ => {}
        }
        for _ in 0..STEPS {
            if let Err(error) = self.step(&mut wal)? {
                ensure(wal.failure().is_some(), || format!("seed {}: not the end: {error}", self.seed))?;
                let refused = |result: Result<(), Error>| matches!(result, Err(Error::Failed { .. }));
                let is_poisoned = refused(wal.sync())
                    && refused(wal.flush())
                    && refused(wal.mark())
                    && refused(wal.recycle().map(|_| ()))
                    && refused(wal.remove(GroupId(9)));
                ensure(is_poisoned, || format!("seed {}: it went on after {error}", self.seed))?;
                break;
            }
        }
        if wal.failure().is_none() && self.random.below(3) == 0 && wal.close().is_ok() {
            self.synced = self.history.len();
        }
        drop(wal);
        self.disk.clear_rules();
        self.disk.set_capacity(None);
        // Either the power goes, or only the process does.
        if self.disk.is_down() || self.random.below(2) == 0 {
            self.disk.crash(Loss::Random);
        }
        if self.random.below(4) == 0 && self.key > 0 {
            self.rotate()?;
        }
        Ok(())
    }

    /// Takes the next key. Opening the log wrapped everything by the one before.
    fn rotate(&mut self) -> Check {
        self.open_somehow()?;
        if self.disk.is_down() || self.random.below(2) == 0 {
            self.disk.crash(Loss::Random);
        }
        self.key += 1;
        Ok(())
    }
}

/// What the log says of its groups is what the model says.
fn compare(wal: &Wal, model: &Model) -> Check {
    let known: Vec<GroupId> = model.groups.keys().copied().collect();
    equal(&wal.groups(), &known, "groups")?;
    for (id, group) in &model.groups {
        let state = wal.group(*id).ok_or("no state")?;
        equal(&state.hard_state, &group.hard_state, "hard state")?;
        let released = (state.released, state.released_term, state.checkpoint);
        equal(&released, &group.released, "released")?;
        let first = group.entries.keys().next().copied().unwrap_or(group.released.0 + 1);
        equal(&state.entries, &(first..group.last() + 1), "entries")?;
        let found = match group.entries.is_empty() {
            true => Vec::new(),
            false => wal.read(*id, state.entries, usize::MAX).map_err(|error| error.to_string())?,
        };
        let found: BTreeMap<_, _> =
            found.into_iter().map(|entry| (entry.index, (entry.term, entry.payload))).collect();
        ensure(found == group.entries, || format!("entries of {id:?} differ"))?;
        for (index, (term, _)) in &group.entries {
            equal(&wal.term(*id, *index), &Some(*term), "term")?;
        }
    }
    Ok(())
}

fn run(seed: u64, prepare: impl Fn(&FaultDisk)) -> Check {
    let mut run = Run::new(seed);
    for _ in 0..LIVES {
        prepare(&run.disk);
        run.live()?;
    }
    run.open_somehow().map(drop)
}

#[test]
fn synced_records_survive_and_others_are_a_prefix() {
    let seeds = std::env::var("MYELIN_WAL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        if let Err(reason) = run(seed, |_| {}) {
            panic!("seed {seed}: {reason}");
        }
    }
}

/// The check can fail: a disk that does not do what the log asks is found out.
#[test]
fn a_disk_that_lies_is_caught() {
    let caught = |operation: Operation| {
        let lie = |disk: &FaultDisk| {
            disk.clear_rules();
            disk.inject(Rule::new(operation, Effect::Ignore));
        };
        (0..60).filter(|seed| run(*seed, lie).is_err()).count()
    };
    assert!(caught(Operation::Sync) > 20);
    assert!(caught(Operation::SyncDirectory) > 20);
    assert!(caught(Operation::Write) > 20);
}

/// A log with several segments, all of it proved to be synced, and what is in it.
fn finished(seed: u64) -> (FaultDisk, Run, Vec<Logged>) {
    let mut run = Run::new(seed);
    let mut wal = run.open().unwrap().unwrap().0;
    while wal.segments() < 4 {
        let logged = run.next_record();
        if matches!(logged, Logged::Released(..) | Logged::Removed(..)) {
            continue;
        }
        run.append(&mut wal, logged).unwrap();
        if run.random.below(5) == 0 {
            wal.sync().unwrap();
        }
    }
    wal.mark().unwrap();
    let history = run.history.clone();
    (run.disk.clone(), run, history)
}

fn reopen(run: &mut Run, disk: &FaultDisk) -> (Result<Report, Error>, Vec<Logged>) {
    let mut visited = Vec::new();
    let options = run.options();
    let mut visit = |record: Record<'_>| visited.push(Logged::new(record));
    let opened = Wal::open(Arc::new(disk.clone()), Path::new(DIRECTORY), options, &mut visit);
    (opened.map(|(_, report)| report), visited)
}

fn segment_files(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| !path.to_string_lossy().contains("spare")).collect()
}

/// Is the first a selection of the second, in the same order?
fn is_selection(part: &[Logged], whole: &[Logged]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|logged| rest.any(|other| other == logged))
}

#[test]
fn flipped_bits_are_reported_and_never_believed() {
    for seed in 0..4 {
        let (disk, mut run, history) = finished(seed);
        let mut reported = 0;
        for round in 0..100 {
            let disk = disk.fork(round);
            let files = segment_files(&disk);
            let file = &files[run.random.below(files.len() as u64) as usize];
            let bits = disk.read(file).unwrap().len() as u64 * 8;
            assert!(disk.flip_bit(file, run.random.below(bits)));
            let (report, visited) = reopen(&mut run, &disk);
            let report = report.unwrap();
            assert!(is_selection(&visited, &history), "seed {seed} round {round}");
            if visited.len() < history.len() {
                assert!(!report.damage.is_empty(), "seed {seed} round {round}: {report:?}");
                assert!(file.ends_with(&report.damage[0].file), "{report:?}");
                reported += 1;
            }
        }
        assert!(reported > 20, "{reported}");
    }
}

#[test]
fn missing_and_cut_files_are_reported() {
    for seed in 0..8 {
        let (disk, mut run, history) = finished(seed);
        let files = segment_files(&disk);
        for (at, file) in files.iter().enumerate() {
            let missing = disk.fork(1);
            assert!(missing.vanish(file));
            let (report, visited) = reopen(&mut run, &missing);
            let report = report.unwrap();
            assert!(!report.damage.is_empty(), "seed {seed} {file:?}");
            assert!(report.damage[0].reason.contains("missing"), "{report:?}");
            assert!(is_selection(&visited, &history) && visited.len() < history.len());
            // It is still known at the next start.
            let (report, _) = reopen(&mut run, &missing);
            assert!(!report.unwrap().damage.is_empty(), "seed {seed} {file:?}");
            // The end of the newest segment cannot be told from one that was never synced.
            if at + 1 == files.len() {
                continue;
            }
            let cut = disk.fork(1);
            let len = cut.read(file).unwrap().len() as u64;
            assert!(cut.truncate(file, run.random.below(len / 2)));
            let (report, visited) = reopen(&mut run, &cut);
            let report = report.unwrap();
            assert!(!report.damage.is_empty(), "seed {seed} {file:?}");
            assert!(is_selection(&visited, &history) && visited.len() < history.len());
        }
    }
}

#[test]
fn unreadable_places_are_damage_and_not_the_end() {
    let (disk, mut run, history) = finished(3);
    let files = segment_files(&disk);
    for file in &files {
        let disk = disk.fork(1);
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // The header page is read alone first; then the file in one piece, which fails, and in small ones, of which the second fails.
        let rule = Rule::new(Operation::Read, Effect::Fail(EIO)).at(&name);
        disk.inject(rule.clone().after(1).once());
        disk.inject(rule.after(2).once());
        let (report, visited) = reopen(&mut run, &disk);
        let report = report.unwrap();
        assert!(report.damage.iter().any(|damage| damage.reason.contains("read")), "{report:?}");
        assert!(is_selection(&visited, &history) && visited.len() < history.len());
    }
}
