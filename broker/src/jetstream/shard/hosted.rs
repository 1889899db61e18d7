//! A stream as its shard holds it: the machine, and what the shell keeps around it.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use jetstream::effect::Effects;
use jetstream::limits::Limits;
use jetstream::{Outside, Stream, Token};
use multiraft::Position;
use store::Timestamp;

use super::{Input, Outgoing, Respond};
use crate::jetstream::directory::StreamEntry;
use crate::jetstream::log_thread::Record;
use crate::jetstream::sources::Subscriptions;
use crate::net::sink::Account;

/// Where a stream is with its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoint {
    /// None is being taken.
    Idle,
    /// A job is out.
    Running,
    /// A job is out, and another one is wanted after it.
    Again,
}

/// A stream on its shard.
#[derive(Debug)]
pub struct Hosted {
    /// The machine.
    pub stream: Stream,
    /// Its place in the directory.
    pub entry: Arc<StreamEntry>,
    /// Whether its entries go to the log; those of a memory stream stay in memory.
    pub durable: bool,
    /// Effects that were not carried out yet.
    pub effects: Effects,
    /// Requests that wait for their answer.
    pub responders: HashMap<u64, Respond>,
    /// Whether its group has chosen this server.
    pub elected: bool,
    /// Whether the machine leads: it has seen everything that was committed before, and its account has JetStream.
    pub leads: bool,
    /// Whether the start waits for it: until it leads, or rests because its account has no JetStream.
    pub recovering: bool,
    /// Gets its info when it leads for the first time.
    pub respond: Option<Respond>,
    /// Requests that came before the machine led for the first time.
    pub early: Vec<Input>,
    /// Bytes that it put into the log since its last checkpoint began.
    pub log_bytes: u64,
    /// Where it is with its checkpoint.
    pub checkpoint: Checkpoint,
    /// Place in the log up to which everything is applied.
    pub applied: Position,
    /// Place that the log knows to be covered by a checkpoint, or the one of the checkpoint whose job is out.
    pub covered: Position,
    /// Its entry in the shard's deadlines.
    pub deadline: Option<Timestamp>,
    /// It is in the shard's list of touched groups.
    pub touched: bool,
    /// Why it takes no more changes, if it does not.
    pub failed: Option<Arc<str>>,
    /// What its mirror and sources listen to.
    pub sources: Subscriptions,
    next_token: u64,
}

/// The world as a machine sees it during one call.
struct View<'a> {
    now: Timestamp,
    outgoing: RefCell<&'a mut Outgoing>,
    account: &'a Account,
    limits: &'a Limits,
}

impl Outside for View<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn has_interest(&self, subject: &[u8]) -> bool {
        self.outgoing.borrow_mut().has_interest(self.account, subject)
    }

    fn has_group_interest(&self, subject: &[u8], group: &[u8]) -> bool {
        self.outgoing.borrow_mut().has_group_interest(self.account, subject, group)
    }

    fn random(&mut self) -> u64 {
        self.outgoing.get_mut().random()
    }

    fn limits(&self) -> &Limits {
        self.limits
    }
}

impl Hosted {
    /// A stream that does not lead yet.
    pub fn new(stream: Stream, entry: Arc<StreamEntry>, durable: bool, respond: Option<Respond>) -> Self {
        Self {
            stream,
            entry,
            durable,
            effects: Effects::default(),
            responders: HashMap::new(),
            elected: false,
            leads: false,
            // Who creates a stream waits for it; the start does not.
            recovering: respond.is_none(),
            respond,
            early: Vec::new(),
            log_bytes: 0,
            checkpoint: Checkpoint::Idle,
            applied: Position::default(),
            covered: Position::default(),
            deadline: None,
            touched: false,
            failed: None,
            sources: Subscriptions::default(),
            next_token: 0,
        }
    }

    /// Lets the machine work with a view of the world.
    pub fn with<T>(
        &mut self,
        outgoing: &mut Outgoing,
        now: Timestamp,
        work: impl FnOnce(&mut Stream, &mut dyn Outside, &mut Effects) -> T,
    ) -> T {
        let limits = self.entry.account.limits.load();
        let mut view = View {
            now,
            outgoing: RefCell::new(outgoing),
            account: &self.entry.account.account,
            limits: &limits,
        };
        work(&mut self.stream, &mut view, &mut self.effects)
    }

    /// Those who wait for it to lead for the first time, if it never will.
    pub fn take_early(&mut self) -> Vec<Respond> {
        let requests = std::mem::take(&mut self.early).into_iter().filter_map(|input| match input {
            Input::Request { respond, .. } => Some(respond),
            _ => None,
        });
        self.respond.take().into_iter().chain(requests).collect()
    }

    /// A name for a request, under which `respond` waits.
    pub fn token(&mut self, respond: Respond) -> Token {
        self.next_token += 1;
        self.responders.insert(self.next_token, respond);
        Token(self.next_token)
    }

    /// Releases the log up to what is applied, all of which the newest checkpoint covers. `None` if the log knows.
    pub fn release(&mut self) -> Option<Record> {
        let Position { index, term } = self.applied;
        if !self.durable || index <= self.covered.index {
            return None;
        }
        self.covered = self.applied;
        let (group, checkpoint) = (self.entry.group, self.stream.newest_checkpoint());
        Some(Record::Released { group, index, term, checkpoint })
    }

    /// The commands of this turn as one entry, if there are any.
    pub fn take_proposal(&mut self) -> Option<Bytes> {
        (!self.effects.proposal.is_empty()).then(|| self.effects.proposal.split().freeze())
    }
}
