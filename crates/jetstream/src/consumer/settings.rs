//! What a consumer's configuration means for its work: numbers in the units of the machine, the filter ready for use.

use api::jetstream::consumer::{AckPolicy, ConsumerConfig, PriorityPolicy, ReplayPolicy};
use api::jetstream::stream::Retention;
use store::stream::Filter;

use super::Context;

/// Deliveries are never sampled below this percentage and always at it.
pub(super) const SAMPLE_ALL: u8 = 100;

/// Derived from the configuration, so neither stored nor replicated.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Which messages are delivered.
    pub(super) filter: Filter,
    pub(super) ack: AckPolicy,
    /// Nanoseconds an acknowledgement is waited for; zero for ever.
    pub(super) ack_wait: i64,
    /// The same for each delivery, if given.
    pub(super) backoff: Box<[i64]>,
    /// Deliveries of one message.
    pub(super) deliver_max: u32,
    /// Messages that may wait for their acknowledgement.
    pub(super) pending_max: usize,
    /// The same for each subject.
    pub(super) pending_per_subject_max: usize,
    /// A message that is given up becomes a dead letter.
    pub(super) dead_letters: bool,
    /// Percentage of acknowledgements that are measured.
    pub(super) sample: u8,
    pub(super) priority: PriorityPolicy,
    pub(super) replay_original: bool,
    pub(super) headers_only: bool,
    /// Bytes a second; zero without limit.
    pub(super) rate: u64,
}

impl Settings {
    pub(super) fn new(config: &ConsumerConfig) -> Self {
        let filters = config.filters();
        let filter = if filters.is_empty() || filters.iter().any(|filter| filter == ">") {
            Filter::All
        } else {
            Filter::Any(filters.iter().map(|filter| filter.as_bytes().into()).collect())
        };
        let unlimited = |value: i64| match usize::try_from(value) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(limit) => limit,
        };
        let explicit = config.ack_policy == AckPolicy::Explicit;
        Self {
            filter,
            ack: config.ack_policy,
            ack_wait: if config.ack_policy == AckPolicy::None { 0 } else { config.ack_wait.0.max(0) },
            backoff: config.backoff.iter().map(|wait| wait.0.max(0)).collect(),
            deliver_max: u32::try_from(config.max_deliver).ok().filter(|max| *max > 0).unwrap_or(u32::MAX),
            pending_max: unlimited(config.max_ack_pending),
            pending_per_subject_max: if explicit {
                unlimited(config.max_ack_pending_per_subject)
            } else {
                usize::MAX
            },
            dead_letters: explicit && !config.dead_letter_subject.is_empty(),
            sample: sample(&config.sample_freq),
            priority: config.priority_policy,
            replay_original: config.replay_policy == ReplayPolicy::Original,
            headers_only: config.headers_only,
            rate: config.rate_limit_bps / 8,
        }
    }

    /// Nanoseconds that the acknowledgement of the delivery with this number is waited for; `None` for ever.
    pub(super) fn wait(&self, delivery: u32) -> Option<i64> {
        let index = (delivery.max(1) as usize - 1).min(self.backoff.len().saturating_sub(1));
        let wait = self.backoff.get(index).copied().unwrap_or(self.ack_wait);
        (wait > 0).then_some(wait)
    }

    /// Whether deliveries and acknowledgements must outlive the process.
    pub(super) fn is_replicated(config: &ConsumerConfig, ctx: &Context<'_>) -> bool {
        let lasting = !config.durable_name.is_empty() && !config.mem_storage;
        config.ack_policy != AckPolicy::None || lasting || keeps_messages(ctx)
    }
}

/// Whether acknowledgements decide what the stream keeps.
pub(super) fn keeps_messages(ctx: &Context<'_>) -> bool {
    ctx.facts.config.retention != Retention::Limits
}

/// The percentage in `30` or `30%`. Validation has refused everything else.
fn sample(text: &str) -> u8 {
    text.trim_end_matches('%').trim().parse().map_or(0, |percent: u64| percent.min(100) as u8)
}

#[cfg(test)]
mod tests {
    use api::duration::Nanos;

    use super::*;

    #[test]
    fn backoff_stays_at_its_last_step() {
        let config = ConsumerConfig {
            ack_policy: AckPolicy::Explicit,
            ack_wait: Nanos(7),
            backoff: vec![Nanos(1), Nanos(5)],
            sample_freq: "30%".into(),
            ..ConsumerConfig::default()
        };
        let settings = Settings::new(&config);
        assert_eq!([1, 2, 3].map(|delivery| settings.wait(delivery)), [Some(1), Some(5), Some(5)]);
        assert_eq!(settings.sample, 30);
        let settings = Settings::new(&ConsumerConfig { backoff: Vec::new(), ..config });
        assert_eq!(settings.wait(9), Some(7));
    }
}
