//! Where a new consumer begins.

use api::jetstream::consumer::{ConsumerConfig, DeliverPolicy};
use store::Timestamp;
use store::stream::{Error, Filter, StreamStore};

use super::state::{Chosen, State};

/// The state of a consumer made now, decided by what the store holds: the same on every replica.
pub(super) fn state(
    store: &dyn StreamStore,
    config: &ConsumerConfig,
    filter: &Filter,
) -> Result<State, Error> {
    let held = store.state();
    let end = held.last_sequence.saturating_add(1);
    let begin = held.first_sequence.min(end);
    let start = match config.deliver_policy {
        DeliverPolicy::All => begin,
        DeliverPolicy::New => end,
        DeliverPolicy::Last => store.last(filter, held.last_sequence)?.unwrap_or(begin),
        // Beyond the end it waits for that sequence.
        DeliverPolicy::ByStartSequence => config.opt_start_seq.max(begin),
        DeliverPolicy::ByStartTime => {
            let nanos = config.opt_start_time.map_or(0, api::Time::unix_nanos);
            let time = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
            store.sequence_at(Timestamp(time))?.clamp(begin, end)
        }
        DeliverPolicy::LastPerSubject => {
            let chosen = store.last_per_subject(filter, held.last_sequence, usize::MAX)?.unwrap_or_default();
            let start = chosen.first().copied().unwrap_or(end);
            let chosen = Chosen { sequences: chosen.into(), up_to: held.last_sequence };
            return Ok(State::starting_at(start, (start < end).then_some(chosen)));
        }
    };
    Ok(State::starting_at(start, None))
}
