//! What a shard sends: acknowledgements, answers and stored messages go to their receivers' buffers from here, and are flushed once a turn.

use std::sync::Arc;

use hashbrown::HashMap;
use routing::deliver::{self, PlanCache};
use routing::random::Random;

use crate::net::dispatch::{Dispatch, Finished, Message, Tally, remove_finished};
use crate::net::flush::DirtySet;
use crate::net::sink::{Account, Sink, Subscription};
use crate::server::Server;

/// A message as the shard hands it over.
#[derive(Debug, Clone, Copy)]
pub struct Outbound<'a> {
    /// Literal subject by which receivers are found.
    pub to: &'a [u8],
    /// Subject that they see.
    pub subject: &'a [u8],
    /// Where an answer goes.
    pub reply: Option<&'a [u8]>,
    /// Header block; empty for none.
    pub headers: &'a [u8],
    /// Body.
    pub payload: &'a [u8],
}

/// The sending side of a shard.
#[derive(Debug)]
pub struct Outgoing {
    server: Arc<Server>,
    dirty: DirtySet,
    random: Random,
    plans: HashMap<Box<str>, Plans>,
    /// Headers and body in one piece, when a message has both.
    scratch: Vec<u8>,
}

/// Plans and counters of one account.
#[derive(Debug, Default)]
struct Plans {
    cache: PlanCache<Sink>,
    tally: Tally,
    finished: Finished,
}

impl Outgoing {
    /// A side that has sent nothing.
    pub fn new(server: Arc<Server>, seed: u64) -> Self {
        Self {
            server,
            dirty: DirtySet::default(),
            random: Random::new(seed),
            plans: HashMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Sends to whoever subscribes, here and on peers. Returns the number of receivers.
    pub fn send(&mut self, account: &Account, message: &Outbound<'_>) -> u32 {
        let payload = if message.headers.is_empty() {
            message.payload
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(message.headers);
            self.scratch.extend_from_slice(message.payload);
            &self.scratch
        };
        let plans = plans_of(&mut self.plans, account);
        let plan = plans.cache.get(&account.interest, message.to);
        if plan.is_empty() {
            return 0;
        }
        let header_len = message.headers.len();
        let mut dispatch = Dispatch {
            message: Message { subject: message.subject, reply: message.reply, header_len, payload },
            routed_by: message.to,
            account,
            publisher: None,
            skip: None,
            drop_for_slow: false,
            dirty: &mut self.dirty,
            tally: &mut plans.tally,
            finished: &mut plans.finished,
            // A shard serves others too: it is never slowed down by one receiver.
            stall: &mut false,
        };
        let receivers = deliver::from_client(plan, &mut self.random, &mut dispatch);
        if !plans.finished.is_empty() {
            remove_finished(account, &mut plans.finished);
            self.server.routes().mark_dirty(&mut self.dirty);
        }
        receivers
    }

    /// Does anybody subscribe to this literal subject? JetStream's own ear does not count.
    pub fn has_interest(&mut self, account: &Account, subject: &[u8]) -> bool {
        let plan = plans_of(&mut self.plans, account).cache.get(&account.interest, subject);
        let is_own = |subscription: &Arc<Subscription>| matches!(subscription.sink, Sink::Api(_));
        let others = !plan.groups.is_empty() || !plan.routes.is_empty() || !plan.services.is_empty();
        others || !plan.plain.iter().all(is_own)
    }

    /// Does a member of this queue group subscribe to this literal subject?
    pub fn has_group_interest(&mut self, account: &Account, subject: &[u8], group: &[u8]) -> bool {
        let plan = plans_of(&mut self.plans, account).cache.get(&account.interest, subject);
        plan.groups.iter().any(|known| *known.name == *group)
    }

    /// Does anybody subscribe to this very subject, not to a pattern that it matches? Peers do not say which, so their interest counts.
    pub fn is_named(&mut self, account: &Account, subject: &[u8]) -> bool {
        let plan = plans_of(&mut self.plans, account).cache.get(&account.interest, subject);
        let members = plan.groups.iter().flat_map(|group| &group.local);
        let mut local = plan.plain.iter().chain(&plan.services).chain(members);
        !plan.routes.is_empty() || local.any(|subscription| *subscription.subject == *subject)
    }

    /// The next number of the shard's generator.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Writes what this turn has sent.
    pub fn flush(&mut self) {
        self.dirty.flush();
        for (name, plans) in &mut self.plans {
            if plans.tally.sent.messages > 0 || plans.tally.routed.messages > 0 {
                let account = self.server.accounts.get(name);
                plans.tally.settle(account.as_deref(), self.server.stats(), false);
            }
        }
    }
}

fn plans_of<'a>(plans: &'a mut HashMap<Box<str>, Plans>, account: &Account) -> &'a mut Plans {
    if !plans.contains_key(account.name()) {
        plans.insert(account.name().into(), Plans::default());
    }
    let Some(plans) = plans.get_mut(account.name()) else { unreachable!("it was just inserted") };
    plans
}
