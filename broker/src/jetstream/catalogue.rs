//! The keeper of the catalogue: on shard 0, decides one change of the catalogue after the other.
//!
//! A change is decided against what is applied, proposed to the catalogue's group, and carried out when it is applied: only then does the
//! next one's turn come. So of parallel requests for one name one wins, and the others see what it made.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::request::StreamRequest;
use api::jetstream::stream::StreamConfig;
use jetstream::meta::{Asset, Catalogue, Change, Command, META_GROUP};
use jetstream::{Request, Response};
use multiraft::{Entry, GroupId, Position, Start};

use super::directory::{AccountEntry, StreamEntry};
use super::draft::Draft;
use super::letters::Announcement;
use super::log_thread::Record;
use super::shard::{Call, Input, Outgoing, Respond, Shard, StreamSpec};
use super::{Shared, letters, validate};

/// Changes of the catalogue after which it is written as a whole.
const ENTRIES_PER_STATE: u64 = 1024;
/// Requests that may wait for their turn.
const QUEUE_MAX: usize = 10_000;

/// What is wanted of the catalogue.
#[derive(Debug)]
pub enum Wanted {
    /// A stream.
    Create {
        /// Its name.
        name: Box<str>,
        /// As the client sent it.
        request: Box<StreamRequest>,
    },
    /// Another configuration of a stream.
    Update {
        /// Its name.
        name: Box<str>,
        /// As the client sent it.
        request: Box<StreamRequest>,
    },
    /// A group for a stream that will be restored.
    Reserve {
        /// Its name.
        name: Box<str>,
        /// As the client sent it.
        request: Box<StreamRequest>,
        /// Gets what the catalogue will have, before the answer.
        reserved: Arc<OnceLock<Asset>>,
    },
    /// A stream that was restored.
    Adopt {
        /// As the client sent it.
        request: Box<StreamRequest>,
        /// The stream.
        draft: Box<Draft>,
    },
    /// No stream of that name.
    Delete {
        /// Its name.
        name: Box<str>,
    },
}

/// A request to change the catalogue.
#[derive(Debug)]
pub struct CatalogueRequest {
    /// The account it is in.
    pub account: Arc<AccountEntry>,
    /// What is wanted.
    pub wanted: Wanted,
    /// What is done with the answer: `Response::Stream` for create, update and adopt, `Response::Done` for the rest.
    pub respond: Respond,
}

/// The catalogue and the requests that wait for it.
#[derive(Debug)]
pub struct Keeper {
    catalogue: Catalogue,
    /// Groups whose files are on disk, until it is seen which of them the catalogue has lost.
    on_disk: Vec<u64>,
    /// How its group begins, and what the log has to hear of that first; taken when it does.
    start: Option<(Start, Option<Position>)>,
    /// Where the catalogue is written as a whole.
    path: PathBuf,
    queue: VecDeque<CatalogueRequest>,
    /// The request whose command is proposed, and what is announced of it.
    current: Option<(CatalogueRequest, Option<Announcement>)>,
    /// Place in the log up to which everything is applied.
    applied: Position,
    /// Index that the state on disk covers.
    saved: u64,
    /// Damage was found: nothing may be deleted because the catalogue does not name it.
    damaged: bool,
    ready: Option<Call<Catalogue>>,
}

impl Keeper {
    /// A keeper of what was recovered. `ready` is called once with everything that is in the catalogue.
    pub fn new(
        (catalogue, on_disk): (Catalogue, Vec<u64>),
        start: (Start, Option<Position>),
        path: PathBuf,
        ready: Call<Catalogue>,
    ) -> Self {
        let saved = catalogue.applied();
        Self {
            catalogue,
            on_disk,
            start: Some(start),
            path,
            queue: VecDeque::new(),
            current: None,
            applied: Position::default(),
            saved,
            damaged: false,
            ready: Some(ready),
        }
    }
}

/// What a request comes to before anything is changed.
enum Decision {
    /// There is such a stream already, with this configuration.
    Exists(Arc<StreamEntry>),
    /// This has to be agreed, and was announced.
    Propose(Command, Option<Announcement>),
    /// Nobody else needs to know yet.
    Done,
}

impl Shard {
    /// Starts the catalogue's group.
    pub(super) fn start_keeper(&mut self) {
        let start = self.keeper.as_mut().and_then(|keeper| keeper.start.take());
        let Some((start, untold)) = start else { return };
        if let Some(Position { index, term }) = untold {
            self.records.push(Record::Released { group: META_GROUP, index, term, checkpoint: 0 });
        }
        let started = self.node.add_group(GroupId(META_GROUP), start);
        assert!(started.is_ok(), "the catalogue's group does not start: {started:?}");
    }

    /// Everything that was committed is applied.
    pub(super) fn catalogue_ready(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let on_disk = std::mem::take(&mut keeper.on_disk);
        if keeper.ready.is_some() && keeper.catalogue.find_lost(on_disk.into_iter()) {
            self.write_catalogue();
        }
        let Some(keeper) = &mut self.keeper else { return };
        if let Some(ready) = keeper.ready.take() {
            ready.call(&mut keeper.catalogue);
        }
        self.next_change();
    }

    pub(super) fn change_catalogue(&mut self, request: CatalogueRequest) {
        let Some(keeper) = &mut self.keeper else { return };
        if keeper.queue.len() >= QUEUE_MAX {
            request.respond.call(&mut self.outgoing, Err(ErrorCode::INSUFFICIENT_RESOURCES.into()));
            return;
        }
        keeper.queue.push_back(request);
        self.next_change();
    }

    /// Decides requests until one has to be agreed.
    fn next_change(&mut self) {
        loop {
            let Some(keeper) = &mut self.keeper else { return };
            if keeper.current.is_some() || keeper.ready.is_some() {
                return;
            }
            let Some(request) = keeper.queue.pop_front() else { return };
            if let Some(reason) = &self.log_failed {
                tracing::error!("JetStream takes no changes: {reason}");
                request.respond.call(&mut self.outgoing, Err(ErrorCode::INSUFFICIENT_RESOURCES.into()));
                continue;
            }
            match decide(&mut keeper.catalogue, &request, self.now) {
                Err(error) => request.respond.call(&mut self.outgoing, Err(error)),
                Ok(Decision::Exists(stream)) => inspect(&stream, request.respond),
                Ok(Decision::Done) => request.respond.call(&mut self.outgoing, Ok(Response::Done)),
                Ok(Decision::Propose(command, announced)) => {
                    keeper.current = Some((request, announced));
                    let proposed = self.node.propose(GroupId(META_GROUP), command.encode());
                    assert!(proposed.is_ok(), "the catalogue's group of one refuses: {proposed:?}");
                    return;
                }
            }
        }
    }

    /// Commands of the catalogue are committed.
    pub(super) fn apply_catalogue(&mut self, entries: &[Entry], through: Position) {
        for entry in entries {
            let Some(keeper) = &mut self.keeper else { return };
            match keeper.catalogue.apply(entry.index, &entry.payload) {
                Ok(change) => self.carry_out_change(change),
                Err(error) => {
                    // Written by this server and checked by the log: it can only be of another version.
                    tracing::error!("JetStream catalogue: entry {}: {error}", entry.index);
                    keeper.damaged = true;
                }
            }
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.applied = through;
            if through.index >= keeper.saved + ENTRIES_PER_STATE {
                self.save_catalogue();
            }
        }
        self.next_change();
    }

    fn carry_out_change(&mut self, change: Change) {
        let Some(keeper) = &mut self.keeper else { return };
        // While the log is replayed nobody has asked, and streams are opened from the whole catalogue afterwards.
        let Some((request, announced)) = keeper.current.take() else { return };
        let CatalogueRequest { account, wanted, respond } = request;
        match change {
            Change::Created { asset, .. } => {
                let stream = self.shared.add_stream(&account, &asset);
                let spec = StreamSpec {
                    entry: Arc::clone(&stream),
                    created: asset.created,
                    log: None,
                    draft: if let Wanted::Adopt { draft, .. } = wanted { Some(draft) } else { None },
                    respond: Some(respond),
                };
                stream.inbox.push(Input::Open(Box::new(spec)));
            }
            Change::Updated { asset, .. } => {
                update(&self.shared, &account, asset, respond, &mut self.outgoing)
            }
            Change::Deleted { asset, .. } => {
                let Some(stream) = self.shared.remove_stream(&account, &asset.config.name) else {
                    respond.call(&mut self.outgoing, Ok(Response::Done));
                    return;
                };
                let done =
                    Call::new(move |outgoing: &mut Outgoing| respond.call(outgoing, Ok(Response::Done)));
                stream.inbox.push(Input::Destroy { group: stream.group, done });
            }
            Change::Nothing => respond.call(&mut self.outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into())),
        }
        // It is in force, and seen as such.
        drop(announced);
    }

    /// Writes the catalogue as a whole, so that the log needs to keep none of it.
    pub(super) fn save_catalogue(&mut self) {
        if self.keeper.as_ref().is_some_and(|keeper| keeper.applied.index > keeper.saved) {
            self.write_catalogue();
        }
    }

    fn write_catalogue(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let Position { index, term } = keeper.applied;
        keeper.catalogue.cover(index);
        match self.shared.write_catalogue(&keeper.path, &keeper.catalogue.encode()) {
            Ok(()) if index <= keeper.saved => {}
            Ok(()) => {
                keeper.saved = index;
                self.node.compact(GroupId(META_GROUP), index);
                self.records.push(Record::Released { group: META_GROUP, index, term, checkpoint: 0 });
            }
            // The log still has everything; the next time may be better.
            Err(error) => tracing::error!("JetStream catalogue: {error}"),
        }
    }
}

fn decide(
    catalogue: &mut Catalogue,
    request: &CatalogueRequest,
    now: store::Timestamp,
) -> Result<Decision, ApiError> {
    let account = request.account.account.name();
    match &request.wanted {
        Wanted::Create { name, request: wanted } => {
            let config = validate::create(catalogue, &request.account, name, wanted)?;
            if catalogue.get(account, name).is_some() {
                let stream = request.account.stream(name.as_bytes());
                return stream.map(Decision::Exists).ok_or_else(|| ErrorCode::STREAM_OFFLINE.into());
            }
            let announced = letters::announce_stream(&request.account, &config)?;
            Ok(Decision::Propose(catalogue.create(account, config, now), Some(announced)))
        }
        Wanted::Reserve { name, request: wanted, reserved } => {
            let config = restorable(catalogue, &request.account, name, wanted)?.0;
            // It is set once, and if it were set already it would be the same request.
            let _ = reserved.set(Asset { group: catalogue.reserve(), created: now, config: config.into() });
            Ok(Decision::Done)
        }
        Wanted::Adopt { request: wanted, draft } => {
            let asset = draft.asset();
            let announced = restorable(catalogue, &request.account, &asset.config.name, wanted)?.1;
            let command = Command::Create { account: account.into(), asset: Box::new(asset.clone()) };
            Ok(Decision::Propose(command, Some(announced)))
        }
        Wanted::Update { name, request: wanted } => {
            let config = validate::update(catalogue, &request.account, name, wanted)?;
            let announced = letters::announce_stream(&request.account, &config)?;
            let command = Command::Update { account: account.into(), config: Box::new(config) };
            Ok(Decision::Propose(command, Some(announced)))
        }
        Wanted::Delete { name } => {
            if catalogue.get(account, name).is_none() {
                return Err(ErrorCode::STREAM_NOT_FOUND.into());
            }
            Ok(Decision::Propose(Command::Delete { account: account.into(), name: name.clone() }, None))
        }
    }
}

/// The configuration of a stream that is to be restored. There must be none of its name.
fn restorable(
    catalogue: &Catalogue,
    account: &Arc<AccountEntry>,
    name: &str,
    request: &StreamRequest,
) -> Result<(StreamConfig, Announcement), ApiError> {
    // No client can create a sealed stream, but there are such, and so there are copies of them.
    let mut open = request.clone();
    let sealed = std::mem::take(&mut open.config.sealed);
    let config = validate::create(catalogue, account, name, &open)
        .and_then(|config| letters::announce_stream(account, &config).map(|announced| (config, announced)));
    let exists = catalogue.get(account.account.name(), name).is_some();
    match config {
        Err(error) if !(exists && ErrorCode::STREAM_NAME_EXIST.is(&error)) => Err(error),
        _ if exists => Err(ErrorCode::STREAM_NAME_EXIST_RESTORE_FAILED.into()),
        config => config.map(|(config, announced)| (StreamConfig { sealed, ..config }, announced)),
    }
}

/// The stream takes its new configuration; the catalogue has it already.
fn update(
    shared: &Shared,
    account: &Arc<AccountEntry>,
    asset: Asset,
    respond: Respond,
    outgoing: &mut Outgoing,
) {
    let Some(stream) = account.stream(asset.config.name.as_bytes()) else {
        respond.call(outgoing, Err(ErrorCode::STREAM_NOT_FOUND.into()));
        return;
    };
    stream.config.store(Arc::clone(&asset.config));
    stream.resubscribe(shared);
    let request = Box::new(Request::UpdateStream(Box::new(Arc::unwrap_or_clone(asset.config))));
    stream.inbox.push_request(Input::Request { group: stream.group, request, respond });
}

/// Asks a stream for its info.
fn inspect(stream: &StreamEntry, respond: Respond) {
    let request = Box::new(Request::StreamInfo(api::jetstream::request::StreamInfoDetails::default()));
    stream.inbox.push_request(Input::Request { group: stream.group, request, respond });
}
