//! Since when nothing is known of a source. Pure.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::jetstream::problem::Problem;

/// Intervals without a reading after which a source is stale.
pub const INTERVALS: i32 = 3;

/// Reason and text for a source that could not be read `now`, and was last read `before`. What somebody has to change is told as it is, and
/// what merely does not answer becomes stale: nobody should take it for a moment that passes.
#[must_use]
pub fn judge(
    problem: &Problem,
    (before, now): (Timestamp, Timestamp),
    interval: SignedDuration,
) -> (&'static str, String) {
    let passing = match problem {
        Problem::Operator(error) => error.reconciled_reason() == "ApiError",
        Problem::Transient { reason, .. } => {
            matches!(*reason, "Unreachable" | "Timeout" | "Busy" | "NatsError")
        }
        Problem::Stalled { .. } | Problem::Outdated => false,
    };
    if passing && now.duration_since(before) > interval.saturating_mul(INTERVALS) {
        // A time and not a duration, which would be another text at each look.
        return ("SourceStale", format!("nothing was read since {before:.0}: {problem}"));
    }
    (problem.reason(), problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_for_more_than_three_intervals_is_stale() {
        let judged = |problem: &Problem, second| {
            let at = |second| Timestamp::from_second(second).unwrap();
            judge(problem, (at(0), at(second)), SignedDuration::from_secs(5))
        };
        for word in ["Unreachable", "Timeout", "Busy", "NatsError"] {
            let problem = Problem::transient(word, "away");
            assert_eq!((judged(&problem, 15).0, judged(&problem, 16).0), (word, "SourceStale"));
        }
        let told = |second| judged(&Problem::transient("Timeout", "away"), second).1;
        assert_eq!(told(20), "nothing was read since 1970-01-01T00:00:00Z: away");
        assert_eq!(told(20), told(25), "each new text would be a write of the status");
        for problem in [Problem::transient("SourceMissing", "m"), Problem::stalled("PermissionDenied", "m")] {
            assert_eq!(judged(&problem, 1000).0, problem.reason(), "somebody has to change something");
        }
    }
}
