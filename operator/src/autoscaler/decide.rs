//! How many replicas there should be. Pure: what was read and what is remembered goes in, one number comes out with its reason.
//!
//! Three things hold whatever is read: the number stays within the limits, it never falls within them while a source is not known, and it falls only to
//! what was enough for the whole window of the past.

use crd::nats_autoscaler::{Combine, PolicyType, Select};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::memory::Memory;
use super::need::Need;
use super::plan::{Direction, Limits, Plan};

/// What is known of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// What it asks for.
    Need(Need),
    /// It cannot be read, and why.
    Unknown(String),
}

/// Why the number is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A person said so.
    Paused,
    /// A source cannot be read.
    Hold,
    /// A source could not be read for so long that the fallback counts.
    Fallback,
    /// There is more work than is done.
    AboveTarget,
    /// There is less work than could be done.
    BelowTarget,
    /// There is about as much work as is done.
    WithinTolerance,
    /// There is no work.
    Idle,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Replicas that there should be.
    pub desired: i32,
    /// Replicas that the work asks for, within the limits; before windows and steps.
    pub wanted: i32,
    /// Whether there is work.
    pub active: bool,
    /// Why.
    pub reason: Reason,
}

/// Decides how many replicas there should be, with `current` of them asked for today.
pub fn decide(plan: &Plan, now: Timestamp, current: i32, sources: &[Known], memory: &mut Memory) -> Decision {
    let limits = plan.limits(now);
    let (asked, active, unknown) = combine(plan, current, sources);
    memory.failures = if unknown { memory.failures.saturating_add(1) } else { 0 };
    // While it is not known whether there is work there may be some.
    if active || unknown {
        memory.last_active = now;
    }
    if let Some(paused) = plan.paused {
        memory.needed(now, current);
        let desired = paused.unwrap_or(current);
        return Decision { desired, wanted: desired, active, reason: Reason::Paused };
    }
    if unknown {
        return hold(plan, limits, (now, current), asked, active, memory);
    }
    let idle = !active && now.duration_since(memory.last_active) >= plan.cooldown;
    let wanted = wanted(limits, current, asked, active, idle);
    memory.needed(now, wanted);
    // The cooldown has been waited for; there is nobody left for whom steps would be easier.
    let desired = if idle && wanted <= current {
        wanted
    } else {
        let stable = stabilise(plan, now, current, wanted, memory);
        step(plan, limits, (now, current), stable, memory)
    };
    let reason = match wanted.cmp(&current) {
        _ if idle => Reason::Idle,
        std::cmp::Ordering::Greater => Reason::AboveTarget,
        std::cmp::Ordering::Less => Reason::BelowTarget,
        std::cmp::Ordering::Equal => Reason::WithinTolerance,
    };
    Decision { desired, wanted, active, reason }
}

/// What all known sources together ask for, whether there is work, and whether a source is not known.
fn combine(plan: &Plan, current: i32, sources: &[Known]) -> (i32, bool, bool) {
    let (mut asked, mut active, mut unknown) = (0_i32, false, false);
    for source in sources {
        match source {
            Known::Unknown(_) => unknown = true,
            Known::Need(need) => {
                active |= need.active;
                let replicas = match need.step {
                    _ if !need.active => 0,
                    Some(step) => current.saturating_add(step).max(0),
                    None => round(need.replicas, current, plan),
                };
                asked = match plan.combine {
                    Combine::Max => asked.max(replicas),
                    Combine::Sum => asked.saturating_add(replicas),
                };
            }
        }
    }
    (asked, active, unknown)
}

/// A whole number of replicas. What there is will do when the need is near it.
fn round(replicas: f64, current: i32, plan: &Plan) -> i32 {
    // Of several sources each has only its share, which is not compared with all replicas.
    let alone = plan.combine == Combine::Max && current > 0;
    if alone && (replicas / f64::from(current) - 1.0).abs() <= plan.tolerance {
        return current;
    }
    #[expect(clippy::cast_possible_truncation, reason = "cut at the largest number of replicas")]
    let whole = replicas.ceil().clamp(0.0, f64::from(crd::nats_autoscaler::REPLICAS_MAX)) as i32;
    whole
}

/// What the work asks for within the limits.
fn wanted(limits: Limits, current: i32, asked: i32, active: bool, idle: bool) -> i32 {
    // Somebody has to work as long as there may be work.
    let floor = limits.min.max(1).min(limits.max);
    if idle {
        return limits.idle.min(limits.max);
    }
    if !active && current < floor {
        // Nobody is woken up for nothing.
        return current.max(limits.idle).min(limits.max);
    }
    asked.clamp(floor, limits.max.max(floor))
}

/// Nothing falls while a source is not known; what is known may still ask for more.
fn hold(
    plan: &Plan,
    limits: Limits,
    (now, current): (Timestamp, i32),
    asked: i32,
    active: bool,
    memory: &mut Memory,
) -> Decision {
    // What a person allows at most is known.
    let current = current.min(limits.max);
    let fallback = plan.fallback.filter(|_| memory.failures >= plan.failures_max);
    let least = if active { asked.max(limits.min) } else { 0 };
    let wanted = least.max(fallback.unwrap_or(0)).min(limits.max).max(current);
    memory.needed(now, wanted);
    let stable = stabilise(plan, now, current, wanted, memory).max(current);
    let desired =
        if stable > current { climb(plan, limits, (now, current), stable, memory) } else { current };
    let reason = if fallback.is_some() { Reason::Fallback } else { Reason::Hold };
    Decision { desired, wanted, active, reason }
}

/// The most careful need of the window before now.
fn stabilise(plan: &Plan, now: Timestamp, current: i32, wanted: i32, memory: &Memory) -> i32 {
    let (least, _) = memory.needs(now, plan.up.window).unwrap_or((wanted, wanted));
    let (_, most) = memory.needs(now, plan.down.window).unwrap_or((wanted, wanted));
    if current < least {
        least
    } else if current > most {
        most
    } else {
        current
    }
}

/// One step towards `stable`. Limits that changed count at once.
fn step(plan: &Plan, limits: Limits, (now, current): (Timestamp, i32), stable: i32, memory: &Memory) -> i32 {
    if current > limits.max {
        return limits.max;
    }
    match stable.cmp(&current) {
        std::cmp::Ordering::Equal => current,
        std::cmp::Ordering::Greater => climb(plan, limits, (now, current), stable, memory),
        std::cmp::Ordering::Less => {
            let end = end(
                &plan.down,
                |end| (current - end).max(0),
                |policy, amount, period| {
                    let before = current.saturating_add(memory.change(now, period, false));
                    match policy {
                        PolicyType::Pods => before.saturating_sub(amount),
                        PolicyType::Percent => percent(before, 100 - amount.min(100), false),
                    }
                },
            );
            let end = if plan.down.select == Select::Disabled { current } else { end.unwrap_or(0) };
            stable.max(end).min(current)
        }
    }
}

/// One step up to `stable`.
fn climb(plan: &Plan, limits: Limits, (now, current): (Timestamp, i32), stable: i32, memory: &Memory) -> i32 {
    let end = end(
        &plan.up,
        |end| (end - current).max(0),
        |policy, amount, period| {
            let before = current.saturating_sub(memory.change(now, period, true));
            match policy {
                PolicyType::Pods => before.saturating_add(amount),
                PolicyType::Percent => percent(before, 100_i32.saturating_add(amount), true),
            }
        },
    );
    if plan.up.select == Select::Disabled {
        return current;
    }
    // From nothing a percentage leads nowhere, and below the minimum there is no step to take.
    stable.min(end.unwrap_or(i32::MAX).max(limits.min).max(1)).max(current)
}

/// Where the policy that counts ends; `None` without any. `allowed` is the change up to an end.
fn end(
    direction: &Direction,
    allowed: impl Fn(i32) -> i32,
    end: impl Fn(PolicyType, i32, SignedDuration) -> i32,
) -> Option<i32> {
    let ends = direction.policies.iter().map(|(policy, amount, period)| end(*policy, *amount, *period));
    match direction.select {
        Select::Disabled => None,
        Select::Max => ends.max_by_key(|end| allowed(*end)),
        Select::Min => ends.min_by_key(|end| allowed(*end)),
    }
}

/// A percentage of some replicas, rounded up or down.
fn percent(replicas: i32, percent: i32, up: bool) -> i32 {
    let exact = i64::from(replicas) * i64::from(percent);
    let whole = if up { (exact + 99) / 100 } else { exact / 100 };
    i32::try_from(whole).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
