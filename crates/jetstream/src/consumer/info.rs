//! What a consumer tells about itself.

use api::Time;
use api::duration::Nanos;
use api::jetstream::consumer::{
    ConsumerInfo, DeadLetterState, PriorityGroupState, PriorityPolicy, SequenceInfo, SubjectsAckPending,
};
use store::Timestamp;

use super::{Consumer, Context};

fn time(timestamp: Timestamp) -> Time {
    Time::from_unix_nanos(i128::from(timestamp.0))
}

impl Consumer {
    /// Everything about it; the shell adds what it knows of the cluster.
    pub fn info(&mut self, ctx: &mut Context<'_>) -> ConsumerInfo {
        let now = ctx.outside.now();
        let num_pending = self.num_pending(ctx);
        let paused = self.pause_remaining(now);
        let mut info = ConsumerInfo {
            stream_name: ctx.facts.name().to_owned(),
            name: self.name.to_string(),
            created: time(self.created),
            config: Some((*self.config).clone()),
            num_ack_pending: self.state.pending.len() as i64,
            num_redelivered: self.state.redelivered_shown(self.settings.deliver_max) as i64,
            num_pending,
            push_bound: self.is_push_bound(),
            paused: paused.is_some(),
            pause_remaining: paused.map_or(Nanos::ZERO, Nanos::from),
            ts: time(now),
            priority_groups: self.groups(),
            dead_letters: self.letters_told(),
            subjects_ack_pending: self.subjects_told(),
            ..ConsumerInfo::default()
        };
        let state = &self.state;
        let floor = self.ack_floor();
        info.delivered = SequenceInfo {
            consumer_seq: state.delivered.consumer,
            stream_seq: state.delivered.stream,
            last_active: None,
        };
        info.ack_floor =
            SequenceInfo { consumer_seq: floor.consumer, stream_seq: floor.stream, last_active: None };
        let Some(lead) = &mut self.lead else { return info };
        info.delivered.last_active = lead.delivered_at.map(time);
        info.ack_floor.last_active = lead.acked_at.map(time);
        info.num_waiting = lead.pulls.sweep(ctx, now) as i64;
        info
    }

    fn letters_told(&self) -> Option<DeadLetterState> {
        if !self.settings.dead_letters {
            return None;
        }
        let (stored, pending) = match &self.state.letters {
            Some(letters) => (letters.stored, letters.open.len() as u64),
            None => (0, 0),
        };
        let lead = self.lead.as_ref().and_then(|lead| lead.letters.as_ref());
        let last_error = lead.map_or_else(String::new, |letters| letters.error().to_owned());
        Some(DeadLetterState { stored, pending, last_error })
    }

    fn subjects_told(&self) -> Option<SubjectsAckPending> {
        if self.settings.pending_per_subject_max == usize::MAX {
            return None;
        }
        let subjects = self.lead.as_ref().map_or(0, |lead| lead.keys.subjects_pending() as u64);
        Some(SubjectsAckPending { subjects, held_back: self.state.parked.len() as u64 })
    }

    fn groups(&self) -> Vec<PriorityGroupState> {
        if self.settings.priority == PriorityPolicy::None {
            return Vec::new();
        }
        let pin = self.lead.as_ref().and_then(|lead| lead.pin.as_ref());
        let state = |group: &String| PriorityGroupState {
            group: group.clone(),
            pinned_client_id: pin.map(|pin| pin.id.to_string()).unwrap_or_default(),
            pinned_ts: pin.map_or(Time::ZERO, |pin| time(pin.since)),
        };
        // Of several groups only the first one is ever used.
        self.config.priority_groups.iter().take(1).map(state).collect()
    }
}
