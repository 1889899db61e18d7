//! Subjects of configurations, where an empty one may stand.

use subject::Transform;

/// Stands for all subjects.
pub(super) const ALL: &str = ">";

/// Whether a subject may be subscribed to.
pub(super) fn is_valid(subject: &str) -> bool {
    subject::is_valid(subject.as_bytes())
}

/// Whether a subject has no wildcard; it need not be valid.
pub(super) fn is_literal(subject: &str) -> bool {
    !subject::has_wildcard(subject.as_bytes())
}

/// Whether a message may be published to a subject.
pub(super) fn is_publishable(subject: &str) -> bool {
    is_valid(subject) && is_literal(subject)
}

/// Whether some subject is matched by both. An empty one is only within `>` and itself.
pub(super) fn overlap(left: &str, right: &str) -> bool {
    if left.is_empty() || right.is_empty() {
        return left == right || is_subset(left, right) || is_subset(right, left);
    }
    subject::overlaps(left.as_bytes(), right.as_bytes())
}

/// Whether `superset` matches every subject that `subset` matches. An empty one is only within `>`.
pub(super) fn is_subset(subset: &str, superset: &str) -> bool {
    match (subset, superset) {
        (_, "") => false,
        ("", superset) => superset == ALL,
        _ => subject::is_subset(subset.as_bytes(), superset.as_bytes()),
    }
}

/// Why what a subject becomes can not be computed; an empty destination changes nothing.
pub(super) fn check_mapping(source: &str, destination: &str) -> Result<(), String> {
    const INVALID: &str = "invalid mapping destination: invalid transform";
    if destination.is_empty() {
        return Ok(());
    }
    let mut ended = false;
    for token in destination.split('.') {
        if token.is_empty() {
            return Err(INVALID.to_owned());
        }
        if ended {
            return Err(format!("{INVALID} in {token}"));
        }
        ended = token == ALL;
        let is_function = token.len() > 4 && token.starts_with("{{") && token.ends_with("}}");
        if !is_function && token.contains(['\t', '\n', '\x0c', '\r', ' ']) {
            return Err(INVALID.to_owned());
        }
    }
    check_transform(source, destination)
}

/// Why a transform can not be made.
pub(super) fn check_transform(source: &str, destination: &str) -> Result<(), String> {
    match Transform::new(source.as_bytes(), destination.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
