//! What a consumer tells about itself.

use api::Time;
use api::duration::Nanos;
use api::jetstream::consumer::{ConsumerInfo, PriorityGroupState, PriorityPolicy, SequenceInfo};
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
            num_redelivered: self.state.redelivered_shown() as i64,
            num_pending,
            push_bound: self.is_push_bound(),
            paused: paused.is_some(),
            pause_remaining: paused.map_or(Nanos::ZERO, Nanos::from),
            ts: time(now),
            priority_groups: self.groups(),
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
