//! Rules about an autoscaler that the schema cannot express.

use super::schedule::Cron;
use super::{Combine, NatsAutoscalerSpec};
use crate::common::{Duration, DurationError};

/// Why a spec cannot be acted on. Each text says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A text is not a duration.
    #[error("{field}: {source}")]
    Duration {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with the text.
        source: DurationError,
    },
    /// A duration that must not be nothing is that.
    #[error("{field} must be more than nothing")]
    NoTime {
        /// Path of the field.
        field: &'static str,
    },
    /// A text is no schedule.
    #[error("schedule: `{cron}`: {problem}")]
    Cron {
        /// The text.
        cron: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A text names no time zone.
    #[error("schedule: there is no time zone `{zone}`: write one such as Europe/Berlin, or UTC")]
    Zone {
        /// The text.
        zone: String,
    },
    /// Needs of different measures are to be added up.
    #[error("combine: Sum adds up like with like, and there is {one} beside {other}: use Max")]
    Unlike {
        /// The first measure.
        one: &'static str,
        /// Another one.
        other: &'static str,
    },
    /// Steps are to be added up, which say nothing about how many are needed.
    #[error("combine: Sum cannot add up slowConsumers: use Max")]
    Steps,
    /// A text is not a subject.
    #[error("sources: `{text}` is not a subject")]
    Subject {
        /// The text.
        text: String,
    },
}

/// Checks a spec as far as that is possible without looking at other objects.
///
/// # Errors
/// The first rule that is broken.
pub fn validate(spec: &NatsAutoscalerSpec) -> Result<(), SpecError> {
    let check = |field: &'static str, text: &Duration, positive: bool| {
        let span = text.parse().map_err(|source| SpecError::Duration { field, source })?;
        if positive && span.is_zero() { Err(SpecError::NoTime { field }) } else { Ok(()) }
    };
    check("pollInterval", &spec.poll_interval, true)?;
    check("activationInterval", &spec.activation_interval, true)?;
    check("cooldown", &spec.cooldown, false)?;
    for rules in [&spec.behavior.scale_up, &spec.behavior.scale_down] {
        check("behavior.stabilizationWindow", &rules.stabilization_window, false)?;
        for policy in &rules.policies {
            check("behavior.policies.period", &policy.period, true)?;
        }
    }
    if spec.combine == Combine::Sum {
        if spec.sources.iter().any(|source| source.measure() == Some(super::source::SLOW_CONSUMERS)) {
            return Err(SpecError::Steps);
        }
        let mut measures = spec.sources.iter().filter_map(super::source::Source::measure);
        if let Some(one) = measures.next()
            && let Some(other) = measures.find(|other| *other != one)
        {
            return Err(SpecError::Unlike { one, other });
        }
    }
    for source in &spec.sources {
        if let Some(drain) = source.consumer.as_ref().and_then(|consumer| consumer.drain_time.as_ref()) {
            check("sources.consumer.drainTime.target", &drain.target, true)?;
        }
        if let Some(slow) = source.queue_group.as_ref().and_then(|group| group.slow_consumers.as_ref()) {
            check("sources.queueGroup.slowConsumers.window", &slow.window, true)?;
        }
        let filter = source.workqueue.as_ref().and_then(|workqueue| workqueue.filter.as_ref());
        let subject = source.queue_group.as_ref().map(|group| &group.subject);
        for text in filter.into_iter().chain(subject) {
            if !subject::is_valid(text.as_bytes()) {
                return Err(SpecError::Subject { text: text.clone() });
            }
        }
    }
    for entry in &spec.schedule {
        check("schedule.duration", &entry.duration, true)?;
        Cron::parse(&entry.cron).map_err(|problem| SpecError::Cron { cron: entry.cron.clone(), problem })?;
        entry.zone()?;
    }
    Ok(())
}
