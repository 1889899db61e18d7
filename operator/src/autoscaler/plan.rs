//! A spec with its durations read, and the limits at a time. Pure.

use crd::common::Duration;
use crd::nats_autoscaler::schedule::Schedule;
use crd::nats_autoscaler::validate::{self, SpecError};
use crd::nats_autoscaler::{Combine, NatsAutoscalerSpec, PolicyType, Rules, Select};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// What a decision needs of a spec.
#[derive(Clone, Debug)]
pub struct Plan {
    min: i32,
    max: i32,
    idle: i32,
    schedule: Vec<Schedule>,
    /// How several sources make one number.
    pub combine: Combine,
    /// Time between looks while somebody works.
    pub poll: SignedDuration,
    /// Time between looks while nobody works.
    pub activation: SignedDuration,
    /// Time without work before it counts as none.
    pub cooldown: SignedDuration,
    /// Growing.
    pub up: Direction,
    /// Shrinking.
    pub down: Direction,
    /// How much the need may differ from what there is, as a share of it.
    pub tolerance: f64,
    /// Looks without an answer before the fallback.
    pub failures_max: u32,
    /// Replicas at least then.
    pub fallback: Option<i32>,
    /// Nothing is decided, and this many replicas are wanted if that was said.
    pub paused: Option<Option<i32>>,
}

/// How fast the number may change in one direction.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The most careful need within this time counts.
    pub window: SignedDuration,
    /// Unit, amount and time of each step.
    pub policies: Vec<(PolicyType, i32, SignedDuration)>,
    /// Which of them counts.
    pub select: Select,
}

/// Limits at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Least replicas while there is work.
    pub min: i32,
    /// Most replicas.
    pub max: i32,
    /// Replicas without work.
    pub idle: i32,
}

impl Plan {
    /// Reads a spec.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn of(spec: &NatsAutoscalerSpec) -> Result<Self, SpecError> {
        validate::validate(spec)?;
        Ok(Self {
            min: spec.min_replicas,
            max: spec.max_replicas,
            idle: spec.idle_replicas.unwrap_or(spec.min_replicas),
            schedule: spec.schedule.clone(),
            combine: spec.combine,
            poll: span(&spec.poll_interval),
            activation: span(&spec.activation_interval),
            cooldown: span(&spec.cooldown),
            up: direction(&spec.behavior.scale_up),
            down: direction(&spec.behavior.scale_down),
            tolerance: f64::from(spec.behavior.tolerance_percent) / 100.0,
            failures_max: u32::try_from(spec.fallback.after_failures).unwrap_or(1),
            fallback: spec.fallback.replicas,
            paused: spec.paused.then_some(spec.paused_replicas),
        })
    }

    /// The limits at a time: those of the first schedule in force, where it says.
    #[must_use]
    pub fn limits(&self, now: Timestamp) -> Limits {
        let own = Limits { min: self.min, max: self.max, idle: self.idle };
        let Some(entry) = self.schedule.iter().find(|entry| entry.is_in_force(now)) else {
            return own;
        };
        let max = entry.max_replicas.unwrap_or_else(|| own.max.max(entry.min_replicas.unwrap_or(0)));
        let min = entry.min_replicas.unwrap_or(own.min).min(max);
        // Least replicas at a certain time are meant for when nobody has sent anything yet.
        let idle = if entry.min_replicas.is_some() { min } else { own.idle.min(min) };
        Limits { min, max, idle }
    }
}

/// The spec was checked, so every text is a duration.
fn span(text: &Duration) -> SignedDuration {
    text.parse().ok().and_then(|span| SignedDuration::try_from(span).ok()).unwrap_or(SignedDuration::MAX)
}

fn direction(rules: &Rules) -> Direction {
    Direction {
        window: span(&rules.stabilization_window),
        policies: rules
            .policies
            .iter()
            .map(|policy| (policy.type_, policy.value, span(&policy.period)))
            .collect(),
        select: rules.select,
    }
}
