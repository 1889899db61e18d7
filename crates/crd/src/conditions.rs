//! Conditions of a status: set by type, with a transition time that moves only when the status does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What a pass found out about one condition type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Condition type, such as `Ready`.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: Status,
    /// Stable word in PascalCase.
    pub reason: &'static str,
    /// One sentence for a person.
    pub message: String,
}

/// A finding of these parts.
#[must_use]
pub fn finding(
    type_: &'static str,
    status: impl Into<Status>,
    reason: &'static str,
    message: impl Into<String>,
) -> Finding {
    Finding { type_, status: status.into(), reason, message: message.into() }
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It could not be found out.
    Unknown,
}

impl Status {
    /// The word used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Longest message that the API server accepts in a condition.
const MESSAGE_LENGTH_MAX: usize = 32_768;

/// Merges findings into the conditions of an earlier pass. Returns the findings whose status or reason changed.
pub fn merge(
    conditions: &mut Vec<Condition>,
    findings: &[Finding],
    generation: i64,
    now: &Time,
) -> Vec<Finding> {
    let mut changed = Vec::new();
    for finding in findings {
        let mut message = finding.message.clone();
        if message.len() > MESSAGE_LENGTH_MAX {
            let cut = (0..=MESSAGE_LENGTH_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(cut);
        }
        let fresh = Condition {
            type_: finding.type_.to_owned(),
            status: finding.status.as_str().to_owned(),
            reason: finding.reason.to_owned(),
            message,
            last_transition_time: now.clone(),
            observed_generation: Some(generation),
        };
        let Some(old) = conditions.iter_mut().find(|c| c.type_ == finding.type_) else {
            conditions.push(fresh);
            changed.push(finding.clone());
            continue;
        };
        if old.status != fresh.status || old.reason != fresh.reason {
            changed.push(finding.clone());
        }
        let transition =
            if old.status == fresh.status { old.last_transition_time.clone() } else { now.clone() };
        *old = Condition { last_transition_time: transition, ..fresh };
    }
    changed
}

/// The condition of a type, if it was ever set.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(status: Status, reason: &'static str) -> Finding {
        Finding { type_: "Ready", status, reason, message: "m".to_owned() }
    }

    #[test]
    fn transition_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        assert_eq!(merge(&mut conditions, &[ready(Status::False, "Progressing")], 1, &at(1)).len(), 1);
        assert_eq!(merge(&mut conditions, &[ready(Status::False, "Progressing")], 2, &at(2)).len(), 0);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(conditions[0].observed_generation, Some(2));

        assert_eq!(merge(&mut conditions, &[ready(Status::False, "Degraded")], 2, &at(3)).len(), 1);
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!(merge(&mut conditions, &[ready(Status::True, "Ready")], 2, &at(4)).len(), 1);
        assert_eq!(conditions[0].last_transition_time, at(4));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut conditions = Vec::new();
        let finding = Finding { message: "ä".repeat(MESSAGE_LENGTH_MAX), ..ready(Status::True, "Ready") };
        merge(&mut conditions, &[finding], 1, &at(1));
        assert_eq!(conditions[0].message.len(), MESSAGE_LENGTH_MAX);
    }
}
