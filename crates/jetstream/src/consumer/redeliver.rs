//! Messages that were not acknowledged: again after a while, and given up after too many times.
//!
//! Given up means: the consumer does not deliver the message any more, while the stream keeps it. With a dead letter subject it is done once its
//! letter is stored (`letters`).

use store::Timestamp;

use super::command::Operation;
use super::pending::Overdue;
use super::{Consumer, Context};

/// Messages whose wait is over that are looked at in one call, so that one call never takes long.
const OVERDUE_PER_CALL: usize = 4_096;

impl Consumer {
    /// Queues what waited too long: what is found at once is queued by sequence, whatever the order of the deadlines was.
    pub(super) fn check_overdue(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let mut overdue = Vec::new();
        for _ in 0..OVERDUE_PER_CALL {
            let Some(lead) = &mut self.lead else { return };
            match lead.deadlines.pop(now, &self.state, &self.settings, &lead.queue) {
                Some(Overdue::Redeliver(sequence)) => overdue.push(sequence),
                Some(Overdue::GiveUp(sequence)) => self.give_up(ctx, sequence),
                None => break,
            }
        }
        if let Some(lead) = &mut self.lead
            && !overdue.is_empty()
        {
            overdue.sort_unstable();
            overdue.into_iter().for_each(|sequence| lead.queue.push(sequence));
            lead.ready = true;
        }
    }

    /// The client wants the message again, now.
    pub(super) fn requeue(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let Some(pending) = self.state.pending.get(&sequence) else { return };
        if pending.count >= self.settings.deliver_max {
            return self.give_up(ctx, sequence);
        }
        if let Some(lead) = &mut self.lead {
            lead.queue.push(sequence);
            lead.ready = true;
        }
    }

    /// The message was delivered as often as allowed.
    pub(super) fn give_up(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let now = ctx.outside.now();
        let Some(pending) = self.state.pending.get(&sequence).copied() else { return };
        if self.state.is_given_up(sequence) {
            return;
        }
        self.advise_max_deliveries(ctx, sequence, u64::from(pending.count));
        if self.wants_letter(ctx, sequence) {
            self.condemn(sequence, None, now);
        } else {
            self.exhaust(ctx, sequence, now);
        }
    }

    /// The message is not delivered any more, and stays in the stream.
    pub(super) fn exhaust(&mut self, ctx: &mut Context<'_>, sequence: u64, now: Timestamp) {
        self.free_key(ctx, sequence);
        self.close_letter(sequence);
        self.state.exhaust(sequence);
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.queue.remove(sequence);
        lead.ready = true;
        if lead.replicated {
            lead.record(Operation::Exhausted { sequence }, now);
        }
    }
}
