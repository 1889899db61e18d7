//! Crashes, errors of the disk, and damage behind the server's back.

use std::path::{Path, PathBuf};

use store::disk::fault::{EIO, ENOSPC, Effect, Loss, Operation, Rule as Fault};

use super::Run;
use crate::history::Rule;
use crate::shell::{DIRECTORY, stream_dir_name};

/// What a file on the disk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The log or the catalogue.
    All,
    /// One stream.
    Stream(u64),
}

impl Run {
    pub(super) fn make_trouble(&mut self) {
        match self.random.below(12) {
            0..=2 => self.crash(),
            3 | 4 => self.disk.crash_at(1 + self.random.below(25)),
            5 => self.kill(),
            6 => self.stop(),
            7 | 8 => self.break_disk(),
            9 => self.fill_disk(),
            _ => self.damage(),
        }
    }

    fn loss(&mut self) -> Loss {
        if !self.settings.sync {
            // Without syncs only the process may die.
            return Loss::Nothing;
        }
        match self.random.below(6) {
            0 => Loss::Nothing,
            1 => Loss::Everything,
            _ => Loss::Random,
        }
    }

    fn forget_server(&mut self, how: &str) {
        self.trace(|| how.to_owned());
        self.server = None;
        self.history.server_died();
        for history in self.history.streams.values_mut() {
            history.is_reported &= history.is_injected;
        }
    }

    /// The disk works again.
    pub(super) fn power_back(&mut self) {
        self.disk.clear_rules();
        self.disk.set_capacity(None);
        self.has_faults = false;
        if self.disk.is_down() {
            let loss = self.loss();
            self.disk.crash(loss);
        }
    }

    /// The power goes and comes back, sometimes more than once.
    pub(super) fn crash(&mut self) {
        self.forget_server("the power goes");
        self.power_back();
        let loss = self.loss();
        self.disk.crash(loss);
        self.trace(|| format!("{loss:?} is lost"));
        if self.random.one_in(5) {
            self.disk.crash_at(1 + self.random.below(40));
        }
        self.boot();
    }

    /// The process dies, and the disk knows nothing of it.
    pub(super) fn kill(&mut self) {
        self.forget_server("killed");
        self.power_back();
        self.boot();
    }

    /// The server ends in good order.
    fn stop(&mut self) {
        if let Some(server) = &mut self.server {
            // What cannot be written at the end is in the log, or was never acknowledged.
            let _ = server.stop();
        }
        self.take_out();
        self.forget_server("stopped");
        self.power_back();
        self.boot();
    }

    pub(super) fn recover_if_down(&mut self) {
        if self.disk.is_down() || self.server.as_ref().is_none_or(|server| server.has_failed()) {
            self.kill();
        }
        // A start may have been hit by a crash that was planned before.
        if self.disk.is_down() {
            self.crash();
        }
    }

    fn break_disk(&mut self) {
        let operations = [Operation::Write, Operation::Sync, Operation::Create, Operation::Rename];
        let operations = [&operations[..], &[Operation::Remove, Operation::SyncDirectory]].concat();
        let Some(operation) = self.random.pick(&operations).copied() else { return };
        if operation == Operation::Sync && !self.settings.sync {
            // Who acknowledges before the sync may lose what it acknowledged.
            return;
        }
        let number = if self.random.one_in(3) { ENOSPC } else { EIO };
        let effect = match operation {
            Operation::Write if self.random.one_in(3) => Effect::Partial,
            _ => Effect::Fail(number),
        };
        let place = ["", "/log/", "/streams/"][self.random.below(3) as usize];
        let fault = Fault::new(operation, effect).at(place).after(self.random.below(12));
        self.trace(|| format!("{fault:?}"));
        self.disk.inject(if self.random.one_in(2) { fault.once() } else { fault });
        self.has_faults = true;
    }

    fn fill_disk(&mut self) {
        let used = self.disk.used();
        let room = self.random.below(20_000);
        self.trace(|| format!("room for {room} bytes"));
        self.disk.set_capacity(Some(used + room));
        self.has_faults = true;
    }

    /// Between two lives a file loses a bit, its end, or its name.
    fn damage(&mut self) {
        if !self.settings.sync || self.has_faults || self.disk.is_down() {
            return;
        }
        self.quiesce();
        // What the log holds is proved, so that what is lost of it can be told from what was never synced.
        let Some(server) = &mut self.server else { return };
        server.mark_log();
        server.turn();
        self.take_out();
        if self.disk.is_down() || self.is_over() {
            return;
        }
        self.forget_server("killed to be damaged");
        // A crash that was planned would be taken for a consequence.
        self.disk.crash(Loss::Nothing);
        let whole = self.disk.fork(self.random.next_u64());
        let Some((path, owner)) = self.hit_a_file() else { return self.boot() };
        self.trace(|| format!("{} is damaged", path.display()));
        self.outcome.damages += 1;
        self.expect(owner);
        let was_damaged = self.log_is_damaged;
        self.log_is_damaged |= owner == Owner::All;
        self.has_faults = owner == Owner::All;
        self.boot_damaged(&path, owner);
        self.has_faults = false;
        if self.server.is_none() {
            // It said what is wrong, and somebody mends it.
            self.disk = whole;
            self.log_is_damaged = was_damaged;
            self.boot();
        }
        self.quiesce();
    }

    /// One start. A server that refuses says why; only the log and the catalogue are reasons.
    fn boot_damaged(&mut self, path: &Path, owner: Owner) {
        let (settings, witness) = (self.settings.clone(), std::rc::Rc::clone(&self.witness));
        self.outcome.lives += 1;
        let life = self.outcome.lives;
        match crate::shell::Server::boot(self.server_disk(), settings, witness, self.now, life) {
            Ok(server) => {
                self.server = Some(server);
                self.rest();
            }
            Err(_) if owner == Owner::All => {}
            Err(error) => {
                let text = format!("damage of {} stops the server: {error}", path.display());
                self.history.violate(Rule::OthersStopped, text);
            }
        }
    }

    fn expect(&mut self, owner: Owner) {
        let mut witness = self.witness.borrow_mut();
        for (group, history) in &mut self.history.streams {
            if owner == Owner::All || owner == Owner::Stream(*group) {
                history.is_injected = true;
                witness.expect_damage(*group);
            }
        }
    }

    /// Damages one file. `None` if there is none worth it.
    fn hit_a_file(&mut self) -> Option<(PathBuf, Owner)> {
        let files: Vec<PathBuf> =
            self.disk.files().into_iter().filter(|path| !path.to_string_lossy().contains("spare-")).collect();
        // Files of streams more often: each of the others concerns everything.
        let streams = Path::new(DIRECTORY).join("streams");
        let of_streams: Vec<PathBuf> =
            files.iter().filter(|path| path.starts_with(&streams)).cloned().collect();
        let from = if self.random.one_in(3) { &files } else { &of_streams };
        let path = self.random.pick(from)?.clone();
        let len = self.disk.read(&path)?.len() as u64;
        // Nothing behind it proves what the end of the newest segment held.
        let newest = files.iter().rfind(|file| file.extension().is_some_and(|ending| ending == "wal"));
        let kinds = if newest == Some(&path) { 2 } else { 0 };
        match kinds + self.random.below(4 - kinds) {
            0 if len > 0 => {
                let cut = self.random.below(len);
                self.trace(|| format!("{cut} of its {len} bytes are left"));
                self.disk.truncate(&path, cut);
            }
            1 => {
                self.disk.vanish(&path);
            }
            _ if len > 0 => {
                let mut bit = self.random.below(len * 8);
                // Flipped once more it would be whole, and what was reported as lost would be back.
                if !self.flipped.insert((path.clone(), bit)) {
                    bit = (bit + 1) % (len * 8);
                }
                self.trace(|| format!("bit {bit} of {len} bytes is flipped"));
                self.disk.flip_bit(&path, bit);
            }
            _ => return None,
        }
        let owner = self.owner(&path);
        Some((path, owner))
    }

    fn owner(&self, path: &Path) -> Owner {
        let text = path.to_string_lossy();
        let groups = self.history.streams.keys();
        let mut of = groups.filter(|group| text.contains(&format!("/streams/{}/", stream_dir_name(**group))));
        match of.next() {
            Some(group) => Owner::Stream(*group),
            // What a deleted stream left behind concerns nobody.
            None if text.contains("/streams/") => Owner::Stream(0),
            None => Owner::All,
        }
    }
}
