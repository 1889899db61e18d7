//! One run: a server in all its lives, its clients, and the faults, as a seed decides.

mod answers;
mod checks;
mod configs;
mod faults;
mod work;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use store::crypt::{Cipher, Keyring, MasterKey, SeededEntropy};
use store::disk::Disk;
use store::disk::fault::FaultDisk;

use crate::history::{History, Rule, Violation};
use crate::plant::{BrokenDisk, Lie, Plant};
use crate::random::Random;
use crate::shell::{Server, Settings};
use crate::witness::Witness;
use crate::world::START;

/// Steps of a run, at least and at most.
const STEPS: (u64, u64) = (80, 320);
/// Starts that may fail in a row before that is a violation.
const BOOTS_MAX: usize = 20;

/// Lines of the trace of a run.
const TRACE_MAX: usize = 500;

/// A delivery that a client has not answered.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    group: u64,
    consumer: String,
    /// Of the consumer when it delivered.
    epoch: u64,
    sequence: u64,
    subject: bytes::Bytes,
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Rules that were broken; nothing more was done after the first.
    pub violations: Vec<Violation>,
    /// Publishes that were acknowledged.
    pub acknowledged: u64,
    /// Lives of the server.
    pub lives: u64,
    /// Times that something was damaged behind the server's back.
    pub damages: u64,
    /// What happened to the server, and what it said of it.
    pub trace: Vec<String>,
}

pub(crate) struct Run {
    pub(crate) random: Random,
    pub(crate) disk: FaultDisk,
    pub(crate) settings: Settings,
    pub(crate) witness: Rc<RefCell<Witness>>,
    pub(crate) server: Option<Server>,
    pub(crate) history: History,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) now: i64,
    pub(crate) outcome: Outcome,
    /// Something was done to the disk in this life that may make the server fail.
    pub(crate) has_faults: bool,
    /// Something may have been lost for good from the log or the catalogue.
    pub(crate) log_is_damaged: bool,
    /// Bits of files that were flipped.
    pub(crate) flipped: BTreeSet<(PathBuf, u64)>,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    run_planted(seed, None)
}

/// Runs a seed with a fault of the server. The comparison with the log is off then, so that the rules have to find it.
#[must_use]
pub fn run_planted(seed: u64, plant: Option<Plant>) -> Outcome {
    let mut run = Run::new(seed, plant);
    let done = catch_unwind(AssertUnwindSafe(|| run.go()));
    if let Err(panic) = done {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        run.outcome.violations.push(Violation { rule: Rule::Panic, text });
    }
    run.outcome
}

impl Run {
    fn new(seed: u64, plant: Option<Plant>) -> Self {
        let mut random = Random::new(seed);
        let keyring = random.one_in(6).then(|| {
            let cipher = if random.one_in(2) { Cipher::ChaCha20Poly1305 } else { Cipher::Aes256Gcm };
            Arc::new(Keyring::new(cipher, MasterKey::new(b"key"), None, Arc::new(SeededEntropy::new(seed))))
        });
        let settings = Settings {
            seed,
            keyring,
            sync: !random.one_in(8),
            checkpoint_bytes: 500 << random.below(6),
            plant,
            memory: Rc::default(),
        };
        let witness = Witness::new(plant.is_some());
        Self {
            disk: FaultDisk::new(random.next_u64()),
            random,
            settings,
            witness: Rc::new(RefCell::new(witness)),
            server: None,
            history: History::default(),
            deliveries: Vec::new(),
            now: START,
            outcome: Outcome::default(),
            has_faults: false,
            log_is_damaged: false,
            flipped: BTreeSet::new(),
        }
    }

    fn go(&mut self) {
        self.boot();
        let steps = STEPS.0 + self.random.below(STEPS.1 - STEPS.0);
        for _ in 0..steps {
            self.step();
            if self.is_over() {
                return;
            }
        }
        // Twice: as it is, and as the next start finds it.
        for _ in 0..2 {
            self.recover_if_down();
            self.quiesce();
            self.check_end();
            if self.is_over() {
                return;
            }
            self.crash();
        }
    }

    /// Notes what happens, for whoever looks into a seed.
    pub(crate) fn trace(&mut self, what: impl FnOnce() -> String) {
        if self.outcome.trace.len() < TRACE_MAX {
            self.outcome.trace.push(format!("life {}: {}", self.outcome.lives, what()));
        }
    }

    /// Something was found.
    pub(crate) fn is_over(&mut self) -> bool {
        let found = self.witness.borrow_mut().take_violations();
        self.outcome.violations.extend(found);
        self.outcome.violations.extend(self.history.take_violations());
        !self.outcome.violations.is_empty()
    }

    /// The disk as the server sees it.
    fn server_disk(&self) -> Arc<dyn Disk> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        match self.settings.plant {
            Some(Plant::SyncIgnored) => Arc::new(BrokenDisk { inner: disk, lie: Lie::Ignored }),
            Some(Plant::SyncRetried) => Arc::new(BrokenDisk { inner: disk, lie: Lie::Retried }),
            Some(Plant::FilesBelieved) => {
                let opening = Arc::clone(&self.settings.memory.borrow().opening);
                Arc::new(BrokenDisk { inner: disk, lie: Lie::Believed(opening) })
            }
            _ => disk,
        }
    }

    /// Starts the server, again and again if the power goes meanwhile.
    pub(crate) fn boot(&mut self) {
        self.server = None;
        self.witness.borrow_mut().watch(&self.disk);
        for _ in 0..BOOTS_MAX {
            self.outcome.lives += 1;
            let (settings, witness) = (self.settings.clone(), Rc::clone(&self.witness));
            match Server::boot(self.server_disk(), settings, witness, self.now, self.outcome.lives) {
                Ok(server) => {
                    self.server = Some(server);
                    self.take_out();
                    return;
                }
                Err(error) => {
                    let is_excused = self.disk.is_down() || self.has_faults;
                    if !is_excused {
                        let text = format!("the server does not start: {error}");
                        return self.history.violate(Rule::UncausedDamage, text);
                    }
                    self.power_back();
                }
            }
        }
        self.history.violate(Rule::Stuck, format!("{BOOTS_MAX} starts failed"));
    }
}
