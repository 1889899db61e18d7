//! The catalogue's side: one change after the other, and what each comes to.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::error::jetstream::ErrorCode;
use api::jetstream::stream::StreamConfig;
use jetstream::meta::{Catalogue, Change, Command, META_GROUP};
use jetstream::{Request, Response, Token};
use multiraft::{Entry, GroupId, Position, Start};
use store::disk::Disk;
use store::{Timestamp, state_file};

use super::log::{GroupLog, Record};
use super::{ACCOUNT, BootError, DIRECTORY, Input, Out, Server, Settings};
use crate::plant::Plant;

const KIND: state_file::Kind<'static> =
    state_file::Kind { magic: *b"MYELNCAT", version: 1, name: "catalogue" };
/// Changes after which the catalogue is written as a whole.
const ENTRIES_PER_STATE: u64 = 5;

/// What is wanted of the catalogue.
#[derive(Debug)]
pub(crate) enum Wanted {
    Create(Box<StreamConfig>),
    Update(Box<StreamConfig>),
    Delete(String),
}

pub(crate) struct Keeper {
    catalogue: Catalogue,
    /// How its group begins, and what the log has to hear of that first.
    start: Option<(Start, Option<Position>)>,
    queue: VecDeque<(Token, Wanted)>,
    current: Option<Token>,
    applied: Position,
    saved: u64,
    ready: bool,
}

fn path() -> PathBuf {
    Path::new(DIRECTORY).join("catalogue")
}

impl Keeper {
    pub(super) fn recover(
        disk: &dyn Disk,
        settings: &Settings,
        logs: &mut BTreeMap<u64, GroupLog>,
    ) -> Result<Self, BootError> {
        let mut catalogue = match state_file::read(disk, &path(), &KIND, settings.keyring.as_deref())? {
            None => Catalogue::new(),
            Some(content) => {
                Catalogue::decode(&content.bytes).map_err(|error| BootError::Catalogue(error.to_string()))?
            }
        };
        // If the catalogue has lost a stream, its group must not be given to another one.
        let on_disk = disk.list(&Path::new(DIRECTORY).join("streams"))?;
        let on_disk = on_disk.iter().filter_map(|name| u64::from_str_radix(name, 16).ok());
        if let Some(newest) = logs.keys().copied().chain(on_disk).max() {
            catalogue.avoid(newest);
        }
        let saved = catalogue.applied();
        let log = logs.remove(&META_GROUP).unwrap_or_default();
        let logged = log.last();
        let (start, lost) = log.start(saved, 0);
        if let Some(lost) = lost {
            return Err(BootError::Catalogue(lost));
        }
        let untold = (logged < start.applied).then_some(start.snapshot);
        Ok(Self {
            catalogue,
            start: Some((start, untold)),
            queue: VecDeque::new(),
            current: None,
            applied: Position::default(),
            saved,
            ready: false,
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<(u64, &StreamConfig)> {
        self.catalogue.get(ACCOUNT, name).map(|asset| (asset.group, &*asset.config))
    }

    pub(super) fn created(&self, name: &str) -> Option<Timestamp> {
        self.catalogue.get(ACCOUNT, name).map(|asset| asset.created)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }
}

impl Server {
    pub(super) fn start_keeper(&mut self) {
        let Some((start, untold)) = self.keeper.start.take() else { return };
        if let Some(at) = untold {
            self.batch.records.push(Record::Released { group: META_GROUP, at, checkpoint: 0 });
        }
        let started = self.node.add_group(GroupId(META_GROUP), start);
        assert!(started.is_ok(), "the catalogue's group does not start: {started:?}");
    }

    /// Everything that was committed is applied: streams are opened.
    pub(super) fn catalogue_ready(&mut self) {
        if std::mem::replace(&mut self.keeper.ready, true) {
            return;
        }
        let all = self.keeper.catalogue.all();
        let all: Vec<_> = all.map(|(_, asset)| (asset.group, asset.config.name.clone())).collect();
        for (group, name) in all {
            let log = self.logs.remove(&group);
            self.inbox.push_back(Input::Open { group, name, log, token: None });
        }
        self.clear_away();
        self.next_change();
    }

    /// What deleted streams left behind when the power went: their part of the log would hold it for ever, and their files the disk.
    fn clear_away(&mut self) {
        if self.is_damaged {
            // A stream that the catalogue does not name may be one that it lost.
            return;
        }
        for (group, _) in std::mem::take(&mut self.logs) {
            self.batch.records.push(Record::Removed { group });
        }
        let all = self.keeper.catalogue.all();
        let known: Vec<String> = all.map(|(_, asset)| super::stream_dir_name(asset.group)).collect();
        let streams = Path::new(DIRECTORY).join("streams");
        for name in self.disk.list(&streams).unwrap_or_default() {
            if !known.contains(&name) {
                // It is tried again at the next start.
                let _ = self.disk.remove_dir_all(&streams.join(name));
            }
        }
    }

    /// A change of the catalogue.
    pub(crate) fn change(&mut self, token: Token, wanted: Wanted) {
        self.keeper.queue.push_back((token, wanted));
        self.next_change();
    }

    fn next_change(&mut self) {
        while self.keeper.current.is_none() && self.keeper.ready {
            let Some((token, wanted)) = self.keeper.queue.pop_front() else { return };
            if self.log_failed.is_some() {
                let result = Err(ErrorCode::INSUFFICIENT_RESOURCES.into());
                self.out.push_back(Out::Reply { token, result });
                continue;
            }
            let command = match wanted {
                Wanted::Create(config) if self.keeper.get(&config.name).is_none() => {
                    self.keeper.catalogue.create(ACCOUNT, *config, self.timestamp())
                }
                Wanted::Create(_) => {
                    let result = Err(ErrorCode::STREAM_NAME_EXIST.into());
                    self.out.push_back(Out::Reply { token, result });
                    continue;
                }
                Wanted::Update(config) => Command::Update { account: ACCOUNT.into(), config },
                Wanted::Delete(name) => {
                    Command::Delete { account: ACCOUNT.into(), name: name.as_str().into() }
                }
            };
            self.keeper.current = Some(token);
            let proposed = self.node.propose(GroupId(META_GROUP), command.encode());
            assert!(proposed.is_ok(), "the catalogue's group refuses: {proposed:?}");
        }
    }

    pub(super) fn apply_catalogue(&mut self, entries: &[Entry], through: Position) {
        for entry in entries {
            let is_lost = self.settings.plant == Some(Plant::StreamDeleteForgotten) && !self.keeper.ready;
            if is_lost && matches!(Command::decode(&entry.payload), Ok(Command::Delete { .. })) {
                continue;
            }
            match self.keeper.catalogue.apply(entry.index, &entry.payload) {
                Ok(change) => self.carry_out_change(change),
                Err(error) => {
                    let reason = error.to_string();
                    self.out.push_back(Out::Failed { group: META_GROUP, reason });
                }
            }
        }
        self.keeper.applied = through;
        if through.index >= self.keeper.saved + ENTRIES_PER_STATE {
            self.save_catalogue();
        }
        self.next_change();
    }

    fn carry_out_change(&mut self, change: Change) {
        let Some(token) = self.keeper.current.take() else { return };
        match change {
            Change::Created { asset, .. } => {
                let (group, name) = (asset.group, asset.config.name.clone());
                self.inbox.push_back(Input::Open { group, name, log: None, token: Some(token) });
            }
            Change::Updated { asset, .. } => {
                let request = Box::new(Request::UpdateStream(Box::new(Arc::unwrap_or_clone(asset.config))));
                self.inbox.push_back(Input::Request(asset.group, request, token));
            }
            Change::Deleted { asset, .. } => self.inbox.push_back(Input::Destroy(asset.group, token)),
            Change::Nothing => {
                let result: Result<Response, _> = Err(ErrorCode::STREAM_NOT_FOUND.into());
                self.out.push_back(Out::Reply { token, result });
            }
        }
    }

    pub(super) fn save_catalogue(&mut self) {
        let at = self.keeper.applied;
        if at.index <= self.keeper.saved {
            return;
        }
        self.keeper.catalogue.cover(at.index);
        let bytes = self.keeper.catalogue.encode();
        let keyring = self.settings.keyring.as_deref();
        // If it cannot be written the log still has everything.
        if state_file::write(&*self.disk, &path(), &KIND, &bytes, keyring).is_ok() {
            self.keeper.saved = at.index;
            self.node.compact(GroupId(META_GROUP), at.index);
            self.batch.records.push(Record::Released { group: META_GROUP, at, checkpoint: 0 });
        }
    }
}
