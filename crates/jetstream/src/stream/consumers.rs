//! The consumers of a stream: found by name and by the subjects they want, called with what they need, woken only when there is something to do.
//!
//! Invariant: every consumer of `slots` stands in `names`, and in `filtered` under each of its filters or in `others`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::jetstream::advisory::Action;
use bytes::BytesMut;
use hashbrown::HashMap;
use store::Timestamp;
use store::stream::{Filter, Removed};
use subject::{Sublist, Visitor};

use crate::command::encode_consumer;
use crate::consumer::{Budget, Consumer, Context, RemoveReason};
use crate::effect::Effect;

/// Below this many consumers each is asked whether it wants a subject; from there on the trie is.
const TRIE_MIN: usize = 8;

#[derive(Debug)]
struct Slot {
    consumer: Consumer,
    /// The time under which it stands in `timeouts`.
    timeout: Option<Timestamp>,
    /// Its deletion is proposed.
    deleting: bool,
    /// A checkpoint has it.
    saved: bool,
}

/// All consumers of a stream.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    slots: BTreeMap<u64, Slot>,
    names: HashMap<Arc<str>, u64>,
    /// How many of them people do not see, and how many count in no limit.
    hidden: usize,
    internal: usize,
    next_id: u64,
    filtered: Sublist<u64>,
    /// Consumers that are asked one by one.
    others: BTreeSet<u64>,
    /// Those that may hold messages of an older filter.
    straying: BTreeSet<u64>,
    /// Deliver subjects of those that push, with the consumer's number.
    pushing: BTreeSet<(Box<[u8]>, u64)>,
    /// May deliver.
    ready: BTreeSet<u64>,
    /// The first to deliver in the next turn.
    cursor: u64,
    /// May have a command to propose.
    touched: BTreeSet<u64>,
    timeouts: BTreeSet<(Timestamp, u64)>,
    /// Names of consumers of the last checkpoint that were deleted since.
    deleted: Vec<Box<str>>,
}

/// What stands in `pushing` for a consumer.
fn pushed(id: u64, consumer: &Consumer) -> Option<(Box<[u8]>, u64)> {
    let config = consumer.config();
    (!config.is_pull()).then(|| (config.deliver_subject.as_bytes().into(), id))
}

/// Collects numbers of consumers.
struct Ids(Vec<u64>);

impl<'a> Visitor<'a, u64> for Ids {
    fn plain(&mut self, values: &'a [u64]) {
        self.0.extend_from_slice(values);
    }

    fn queue(&mut self, _name: &'a [u8], values: &'a [u64]) {
        self.0.extend_from_slice(values);
    }
}

impl Consumers {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// In the order of their making.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.slots.values().map(|slot| &slot.consumer)
    }

    /// Number of the consumer with this name.
    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Consumer> {
        self.slots.get(&id).map(|slot| &slot.consumer)
    }

    /// The number that the next consumer gets.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    pub(crate) fn set_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

    /// Adds a consumer from a checkpoint.
    pub(crate) fn insert_restored(&mut self, id: u64, consumer: Consumer) {
        // What it has delivered may have come under another filter, which the checkpoint does not tell.
        if consumer.is_holding() {
            self.straying.insert(id);
        }
        self.insert_slot(id, Slot { consumer, timeout: None, deleting: false, saved: true });
    }

    fn insert_slot(&mut self, id: u64, slot: Slot) {
        let consumer = &slot.consumer;
        self.next_id = self.next_id.max(id + 1);
        self.index(id, consumer.filter());
        self.pushing.extend(pushed(id, consumer));
        self.names.insert(consumer.name().into(), id);
        // Neither can be changed of a consumer that is there.
        self.hidden += usize::from(consumer.config().direct);
        self.internal += usize::from(consumer.config().is_internal());
        self.slots.insert(id, slot);
    }

    /// Adds a new consumer; with `lead` it begins to work.
    pub(crate) fn insert(&mut self, ctx: &mut Context<'_>, id: u64, consumer: Consumer, lead: bool) {
        ctx.effects.push(Effect::ConsumerAdded(consumer.name().into(), id, Arc::clone(consumer.config())));
        self.insert_slot(id, Slot { consumer, timeout: None, deleting: false, saved: false });
        if lead {
            self.call(ctx, id, |consumer, ctx| {
                consumer.lead(ctx);
                consumer.advise_action(ctx, Action::Create);
            });
        }
    }

    /// Takes a consumer out; who leads tells of it.
    pub(crate) fn remove(&mut self, ctx: &mut Context<'_>, id: u64, lead: bool) -> Option<Consumer> {
        let mut slot = self.slots.remove(&id)?;
        slot.consumer.shut(ctx);
        if lead {
            slot.consumer.advise_action(ctx, Action::Delete);
        }
        self.names.remove(slot.consumer.name());
        self.hidden -= usize::from(slot.consumer.config().direct);
        self.internal -= usize::from(slot.consumer.config().is_internal());
        self.unindex(id, slot.consumer.filter());
        if let Some(pushed) = pushed(id, &slot.consumer) {
            self.pushing.remove(&pushed);
        }
        self.straying.remove(&id);
        self.ready.remove(&id);
        self.touched.remove(&id);
        if let Some(timeout) = slot.timeout {
            self.timeouts.remove(&(timeout, id));
        }
        ctx.effects.push(Effect::ConsumerRemoved(slot.consumer.name().into()));
        // What no checkpoint has need not be taken out of one: short-lived consumers leave nothing behind.
        if slot.saved {
            self.deleted.push(slot.consumer.name().into());
        }
        Some(slot.consumer)
    }

    fn index(&mut self, id: u64, filter: &Filter) {
        let Filter::Any(patterns) = filter else {
            self.others.insert(id);
            return;
        };
        for pattern in patterns {
            if self.filtered.insert(pattern, None, id).is_err() {
                // What the trie cannot hold is matched one by one.
                self.unindex(id, filter);
                self.others.insert(id);
                return;
            }
        }
    }

    fn unindex(&mut self, id: u64, filter: &Filter) {
        self.others.remove(&id);
        if let Filter::Any(patterns) = filter {
            for pattern in patterns {
                self.filtered.remove(pattern, None, |other| *other == id);
            }
        }
    }

    /// Calls a consumer, and sees to what may have changed by it.
    pub(crate) fn call<R>(
        &mut self,
        ctx: &mut Context<'_>,
        id: u64,
        f: impl FnOnce(&mut Consumer, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let slot = self.slots.get_mut(&id)?;
        let result = f(&mut slot.consumer, ctx);
        self.touched.insert(id);
        if slot.consumer.is_ready() {
            self.ready.insert(id);
        }
        self.arm(id);
        Some(result)
    }

    /// Takes over the time of the consumer's next timeout. One that moved away is noticed when it comes.
    fn arm(&mut self, id: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let Some(timeout) = slot.consumer.poll_timeout() else { return };
        if slot.timeout.is_some_and(|armed| armed <= timeout) {
            return;
        }
        if let Some(armed) = slot.timeout.replace(timeout) {
            self.timeouts.remove(&(armed, id));
        }
        self.timeouts.insert((timeout, id));
    }

    /// Replaces filter and deliver subject in the indexes when a configuration changed.
    pub(crate) fn update<R>(
        &mut self,
        ctx: &mut Context<'_>,
        id: u64,
        f: impl FnOnce(&mut Consumer, &mut Context<'_>) -> R,
    ) -> Option<(R, Filter)> {
        let indexed = |consumer: &Consumer| (consumer.filter().clone(), pushed(id, consumer));
        let (before, pushed_before) = self.get(id).map(indexed)?;
        let result = self.call(ctx, id, f)?;
        let (after, pushed) = self.get(id).map(indexed)?;
        if before != after {
            self.unindex(id, &before);
            self.index(id, &after);
            self.straying.insert(id);
        }
        if pushed_before != pushed {
            if let Some(before) = pushed_before {
                self.pushing.remove(&before);
            }
            self.pushing.extend(pushed);
        }
        Some((result, before))
    }

    /// Numbers of the consumers that want a subject, ascending.
    fn wanting(&self, subject: &[u8]) -> Vec<u64> {
        let wants = |id: &u64| self.get(*id).is_some_and(|consumer| consumer.filter().matches(subject));
        if self.slots.len() < TRIE_MIN {
            return self.slots.keys().copied().filter(wants).collect();
        }
        let mut ids = Ids(self.others.iter().copied().filter(wants).collect());
        self.filtered.matching(subject, &mut ids);
        ids.0.sort_unstable();
        ids.0.dedup();
        ids.0
    }

    /// Does any consumer want this subject?
    pub(crate) fn is_interested(&self, subject: &[u8]) -> bool {
        let other = |id: &u64| self.get(*id).is_some_and(|consumer| consumer.filter().matches(subject));
        self.others.iter().any(other) || (!self.filtered.is_empty() && self.filtered.has_match(subject))
    }

    /// Does any consumer still need this message, as far as applied commands say?
    pub(crate) fn needs(&self, sequence: u64, subject: &[u8]) -> bool {
        self.wanting(subject)
            .into_iter()
            .any(|id| self.get(id).is_some_and(|consumer| consumer.needs(sequence, subject)))
    }

    /// A message was stored.
    pub(crate) fn appended(&mut self, subject: &[u8]) {
        if self.slots.is_empty() {
            return;
        }
        for id in self.wanting(subject) {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.consumer.handle_appended();
            if slot.consumer.is_ready() {
                self.ready.insert(id);
            }
        }
    }

    /// A message left the store: those hear of it that want its subject, and those that may have had it under an older filter.
    pub(crate) fn removed(&mut self, ctx: &mut Context<'_>, removed: &Removed, reason: RemoveReason) {
        if self.slots.is_empty() {
            return;
        }
        let mut ids = self.wanting(&removed.subject);
        if !self.straying.is_empty() {
            ids.extend(&self.straying);
            ids.sort_unstable();
            ids.dedup();
        }
        for id in ids {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.consumer.handle_removed(ctx, removed, reason);
            if slot.consumer.is_ready() {
                self.ready.insert(id);
            }
            if !slot.consumer.is_holding() {
                self.straying.remove(&id);
            }
            self.touched.insert(id);
        }
    }

    /// All, with their numbers.
    pub(crate) fn iter_with_ids(&self) -> impl Iterator<Item = (u64, &Consumer)> {
        self.slots.iter().map(|(id, slot)| (*id, &slot.consumer))
    }

    /// All up to a sequence left the store.
    pub(crate) fn purged(&mut self, ctx: &mut Context<'_>, up_to: u64) {
        self.for_each(ctx, |consumer, ctx| consumer.handle_purged(ctx, up_to));
    }

    /// The stream keeps messages by another rule.
    pub(crate) fn retention_changed(&mut self, ctx: &mut Context<'_>) {
        self.for_each(ctx, Consumer::handle_retention);
    }

    pub(crate) fn lead(&mut self, ctx: &mut Context<'_>) {
        self.for_each(ctx, Consumer::lead);
    }

    pub(crate) fn follow(&mut self, ctx: &mut Context<'_>) {
        for slot in self.slots.values_mut() {
            slot.consumer.step_down(ctx);
            slot.timeout = None;
            slot.deleting = false;
        }
        self.timeouts.clear();
        self.ready.clear();
        self.touched.clear();
    }

    /// The stream is deleted; who leads tells of its consumers too.
    pub(crate) fn delete_all(&mut self, ctx: &mut Context<'_>, lead: bool) {
        for slot in self.slots.values_mut() {
            slot.consumer.shut(ctx);
            if lead {
                slot.consumer.advise_action(ctx, Action::Delete);
            }
        }
        *self = Self::default();
    }

    /// The server ends: clients that wait are told.
    pub(crate) fn take_leave(&mut self, ctx: &mut Context<'_>) {
        self.for_each(ctx, Consumer::take_leave);
    }

    fn for_each(&mut self, ctx: &mut Context<'_>, f: impl Fn(&mut Consumer, &mut Context<'_>)) {
        let ids: Vec<u64> = self.slots.keys().copied().collect();
        for id in ids {
            self.call(ctx, id, &f);
        }
    }

    /// When `handle_timeout` is wanted.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.timeouts.first().map(|(timeout, _)| *timeout)
    }

    /// Calls the consumers whose time has come. Those that nobody uses any more, each told once.
    pub(crate) fn handle_timeout(&mut self, ctx: &mut Context<'_>) -> Vec<u64> {
        let now = ctx.outside.now();
        let mut due = Vec::new();
        while let Some((timeout, id)) = self.timeouts.first().copied().filter(|(timeout, _)| *timeout <= now)
        {
            self.timeouts.remove(&(timeout, id));
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.timeout = None;
            }
            due.push(id);
        }
        due.retain(|id| {
            self.call(ctx, *id, Consumer::handle_timeout);
            let Some(slot) = self.slots.get_mut(id) else { return false };
            let told = std::mem::replace(&mut slot.deleting, slot.consumer.wants_deletion());
            slot.deleting && !told
        });
        due
    }

    /// Lets consumers deliver what they can within the budget. True if there is more to deliver.
    pub(crate) fn deliver(&mut self, ctx: &mut Context<'_>, budget: &mut Budget) -> bool {
        // It goes on where the last turn was cut short, so that none starves.
        let mut turn: Vec<u64> = self.ready.range(self.cursor..).copied().collect();
        turn.extend(self.ready.range(..self.cursor));
        for id in turn {
            if budget.is_spent() {
                self.cursor = id;
                break;
            }
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if !slot.consumer.deliver(ctx, budget) {
                self.ready.remove(&id);
            }
            self.cursor = id + 1;
            self.touched.insert(id);
            self.arm(id);
        }
        !self.ready.is_empty()
    }

    /// Appends what consumers have to propose to an entry, and calls `proposed` for each command. True if a client waits for any to last.
    pub(crate) fn take_commands(&mut self, out: &mut BytesMut, mut proposed: impl FnMut()) -> bool {
        let mut awaited = false;
        while let Some(id) = self.touched.pop_first() {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if encode_consumer(id, out, |out| slot.consumer.take_command(out)) {
                proposed();
            }
            awaited |= slot.consumer.is_awaited();
        }
        awaited
    }

    /// Drops what consumers would have to propose: they go on, but nothing of it lasts.
    pub(crate) fn drop_commands(&mut self) {
        while let Some(id) = self.touched.pop_first() {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.consumer.drop_command();
            }
        }
    }

    /// Consumers whose state is in memory only.
    pub(crate) fn volatile(&self) -> Vec<u64> {
        let volatile = self.slots.iter().filter(|(_, slot)| slot.consumer.is_volatile());
        volatile.map(|(id, _)| *id).collect()
    }

    /// Shows each consumer that changed since the last checkpoint, and takes it as saved.
    pub(crate) fn changes(&mut self, mut saved: impl FnMut(u64, &Consumer)) {
        for (id, slot) in &mut self.slots {
            if slot.consumer.is_dirty() && !slot.consumer.is_volatile() {
                saved(*id, &slot.consumer);
                slot.consumer.clear_dirty();
                slot.saved = true;
            }
        }
    }

    /// Names of consumers of the last checkpoint that were deleted since.
    pub(crate) fn take_deleted(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.deleted)
    }

    /// Consumers that push to this subject.
    pub(crate) fn delivering_to(&self, subject: &[u8]) -> Vec<u64> {
        let first = (Box::from(subject), 0);
        let here = self.pushing.range(first..).take_while(|(pushed, _)| **pushed == *subject);
        here.map(|(_, id)| *id).collect()
    }

    /// How many are shown: those of mirrors and sources of other streams are not.
    pub(crate) fn shown(&self) -> usize {
        self.slots.len() - self.hidden
    }

    /// How many count in limits: those of mirrors and sources do not.
    pub(crate) fn limited(&self) -> usize {
        self.slots.len() - self.internal
    }

    /// Names of those that are shown, sorted.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let shown = |id: &u64| self.get(*id).is_some_and(|consumer| !consumer.config().direct);
        let names = self.names.iter().filter(|(_, id)| shown(id));
        let mut names: Vec<Arc<str>> = names.map(|(name, _)| Arc::clone(name)).collect();
        names.sort_unstable();
        names
    }
}
