//! Rules that the schema cannot express, checked before anything is rendered.
//!
//! The API server has applied the schema already. What stands here needs parsing or looks across sections.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::auth::{AuthMode, Permissions, SubjectRules};
use super::{NatsClusterSpec, sizes};
use crate::common::{Duration, DurationError, quantity_bytes};

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
    /// A text is not an amount of bytes.
    #[error("{field}: `{text}` is not an amount of bytes: write a whole number or a quantity such as 8Mi")]
    Size {
        /// Path of the field.
        field: &'static str,
        /// The text as written.
        text: String,
    },
    /// The grace period eats the whole lame duck time.
    #[error("lameDuck.gracePeriod must be shorter than lameDuck.duration")]
    GraceTooLong,
    /// The reference minimum of the lame duck time.
    #[error("lameDuck.duration must be at least 30s")]
    LameDuckTooShort,
    /// A user name stands in two accounts.
    #[error("auth.accounts: the user `{user}` appears twice: user names are unique in the whole cluster")]
    DuplicateUser {
        /// The name.
        user: String,
    },
    /// `noAuthUser` names nobody.
    #[error("clients.noAuthUser: no user `{user}` in auth.accounts: add the user or correct the name")]
    UnknownNoAuthUser {
        /// The name.
        user: String,
    },
    /// A pinned account is not there.
    #[error("routes.accounts: no account `{account}` in auth.accounts: add the account or correct the name")]
    UnknownRouteAccount {
        /// The name.
        account: String,
    },
    /// A subject of a permission is not one.
    #[error("auth.accounts: `{subject}` in the permissions of `{user}` is not a subject")]
    Subject {
        /// The user.
        user: String,
        /// The text as written.
        subject: String,
    },
    /// A server without any user would let everybody in.
    #[error(
        "auth.accounts has no user: add one, or let everybody in with auth.mode None and auth.allowAnonymous true"
    )]
    NoUsers,
    /// Anonymous access has to be said twice.
    #[error("auth.mode None lets everybody in: set auth.allowAnonymous to true if that is meant")]
    AnonymousNotAllowed,
    /// Pods may not be killed before their clients left.
    #[error(
        "terminationGracePeriodSeconds is {seconds}: it must exceed lameDuck.duration, or clients are cut off"
    )]
    GraceBelowLameDuck {
        /// The value.
        seconds: i64,
    },
    /// There is no replication yet.
    #[error(
        "replicas is {replicas}: JetStream does not replicate streams in this version: set replicas to 1, or remove jetstream"
    )]
    JetStreamReplicas {
        /// Servers asked for.
        replicas: i32,
    },
    /// Streams in memory would not fit.
    #[error(
        "jetstream.memoryStore.maxSize is {bytes} bytes, more than 75 percent of resources.limits.memory ({limit} bytes): make it smaller or the limit larger"
    )]
    MemoryStoreTooLarge {
        /// Bytes asked for.
        bytes: i64,
        /// Memory of a server.
        limit: i64,
    },
    /// Streams in files would not fit.
    #[error(
        "jetstream.fileStore.maxSize is {bytes} bytes, more than 95 percent of the volume ({volume} bytes): make storage.volume.size larger, or leave it unset"
    )]
    FileStoreTooLarge {
        /// Bytes asked for.
        bytes: i64,
        /// Size of the volume.
        volume: i64,
    },
    /// The operator has users of its own.
    #[error(
        "auth.accounts: `{user}`: names that begin with {RESERVED_USER} are the operator's: choose another name"
    )]
    ReservedUser {
        /// The name.
        user: String,
    },
}

/// Beginning of the names of the operator's own users.
pub const RESERVED_USER: &str = "myelin-operator";

/// Bytes of an amount: a whole number, or a quantity with a decimal or binary suffix.
///
/// # Errors
/// When the text is not an amount or does not fit 63 bits.
pub fn bytes(field: &'static str, amount: &IntOrString) -> Result<i64, SpecError> {
    let text = match amount {
        IntOrString::Int(number) => return Ok(i64::from(*number)),
        IntOrString::String(text) => text,
    };
    quantity_bytes(text).ok_or_else(|| SpecError::Size { field, text: text.clone() })
}

/// Checks a spec as far as that is possible without looking at other objects.
///
/// # Errors
/// The first rule that is broken.
pub fn validate(spec: &NatsClusterSpec) -> Result<(), SpecError> {
    check_durations(spec)?;
    check_sizes(spec)?;
    check_users(spec)?;
    sizes::validate(spec)?;
    for account in &spec.routes.accounts {
        if !spec.auth.accounts.iter().any(|a| a.name == *account) {
            return Err(SpecError::UnknownRouteAccount { account: account.clone() });
        }
    }
    Ok(())
}

fn check_durations(spec: &NatsClusterSpec) -> Result<(), SpecError> {
    let parse = |field: &'static str, text: &Duration| {
        text.parse().map_err(|source| SpecError::Duration { field, source })
    };
    let lame_duck = parse("lameDuck.duration", &spec.lame_duck.duration)?;
    let grace = parse("lameDuck.gracePeriod", &spec.lame_duck.grace_period)?;
    parse("update.readyTimeout", &spec.update.ready_timeout)?;
    parse("update.settle", &spec.update.settle)?;
    for (field, text) in [
        ("clients.writeDeadline", &spec.clients.write_deadline),
        ("clients.pingInterval", &spec.clients.ping_interval),
        ("clients.tls.timeout", &spec.clients.tls.as_ref().and_then(|tls| tls.timeout.clone())),
    ] {
        if let Some(text) = text {
            parse(field, text)?;
        }
    }
    if lame_duck.as_secs() < 30 {
        return Err(SpecError::LameDuckTooShort);
    }
    if grace >= lame_duck {
        return Err(SpecError::GraceTooLong);
    }
    match spec.termination_grace_period_seconds {
        Some(seconds) if u64::try_from(seconds).is_ok_and(|s| s <= lame_duck.as_secs()) => {
            Err(SpecError::GraceBelowLameDuck { seconds })
        }
        _ => Ok(()),
    }
}

fn check_sizes(spec: &NatsClusterSpec) -> Result<(), SpecError> {
    for (field, amount) in [
        ("clients.maxPayload", &spec.clients.max_payload),
        ("clients.maxPending", &spec.clients.max_pending),
        ("clients.maxControlLine", &spec.clients.max_control_line),
    ] {
        if let Some(amount) = amount {
            bytes(field, amount)?;
        }
    }
    Ok(())
}

fn check_users(spec: &NatsClusterSpec) -> Result<(), SpecError> {
    let has_users = spec.auth.accounts.iter().any(|account| !account.users.is_empty());
    match spec.auth.mode {
        AuthMode::None if !spec.auth.allow_anonymous => return Err(SpecError::AnonymousNotAllowed),
        AuthMode::Config if !has_users => return Err(SpecError::NoUsers),
        AuthMode::None | AuthMode::Config => {}
    }
    let mut names = BTreeSet::new();
    for user in spec.auth.accounts.iter().flat_map(|account| &account.users) {
        if user.name.starts_with(RESERVED_USER) {
            return Err(SpecError::ReservedUser { user: user.name.clone() });
        }
        if !names.insert(user.name.as_str()) {
            return Err(SpecError::DuplicateUser { user: user.name.clone() });
        }
        if let Some(permissions) = &user.permissions {
            check_permissions(&user.name, permissions)?;
        }
    }
    match &spec.clients.no_auth_user {
        Some(user) if !names.contains(user.as_str()) => {
            Err(SpecError::UnknownNoAuthUser { user: user.clone() })
        }
        _ => Ok(()),
    }
}

fn check_permissions(user: &str, permissions: &Permissions) -> Result<(), SpecError> {
    let refused = |subject: &String| SpecError::Subject { user: user.to_owned(), subject: subject.clone() };
    let all = |rules: &Option<SubjectRules>| -> Vec<String> {
        rules.iter().flat_map(|r| r.allow.iter().chain(&r.deny)).cloned().collect()
    };
    for subject in all(&permissions.publish) {
        if !is_subject(&subject) {
            return Err(refused(&subject));
        }
    }
    for entry in all(&permissions.subscribe) {
        // A queue group may follow the subject; the server decides whether its name is a pattern.
        let mut words = entry.split_whitespace();
        let valid = words.next().is_some_and(is_subject) && words.nth(1).is_none();
        if !valid {
            return Err(refused(&entry));
        }
    }
    if let Some(ttl) = permissions.allow_responses.as_ref().and_then(|r| r.ttl.as_ref()) {
        ttl.parse()
            .map_err(|source| SpecError::Duration { field: "permissions.allowResponses.ttl", source })?;
    }
    Ok(())
}

/// Whether a text is a subject, wildcards included.
fn is_subject(text: &str) -> bool {
    subject::is_valid(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> NatsClusterSpec {
        serde_json::from_value(json).unwrap()
    }

    fn refused(json: serde_json::Value) -> String {
        validate(&spec(json)).unwrap_err().to_string()
    }

    #[test]
    fn a_spec_must_say_who_may_connect() {
        assert_eq!(validate(&spec(serde_json::json!({}))), Err(SpecError::NoUsers));
        let open = serde_json::json!({"auth": {"mode": "None", "allowAnonymous": true}});
        assert_eq!(validate(&spec(open)), Ok(()));
        let half_open = serde_json::json!({"auth": {"mode": "None"}});
        assert_eq!(validate(&spec(half_open)), Err(SpecError::AnonymousNotAllowed));
    }

    #[test]
    fn amounts_of_bytes_read_as_quantities() {
        for (text, expected) in [
            ("8Mi", Some(8 << 20)),
            ("10", Some(10)),
            ("1k", Some(1000)),
            ("1.5Mi", None),
            ("Mi", None),
            ("-1", None),
        ] {
            assert_eq!(bytes("f", &IntOrString::String(text.to_owned())).ok(), expected, "{text}");
        }
    }

    #[test]
    fn each_rule_says_what_to_do() {
        let user = |name: &str| serde_json::json!({"name": name, "passwordSecretRef": {"name": "s"}});
        for (spec, part) in [
            (serde_json::json!({"lameDuck": {"duration": "20s"}}), "at least 30s"),
            (serde_json::json!({"lameDuck": {"duration": "1d", "gracePeriod": "1d"}}), "shorter"),
            (serde_json::json!({"terminationGracePeriodSeconds": 30}), "must exceed lameDuck.duration"),
            (serde_json::json!({"clients": {"maxPayload": "1.5Mi"}}), "write a whole number"),
            (
                serde_json::json!({"clients": {"noAuthUser": "x"}, "auth": {"accounts": [{"name": "A", "users": [user("u")]}]}}),
                "add the user",
            ),
            (
                serde_json::json!({"routes": {"accounts": ["B"]}, "auth": {"accounts": [{"name": "A", "users": [user("u")]}]}}),
                "add the account",
            ),
            (
                serde_json::json!({"auth": {"accounts": [{"name": "A", "users": [user("u")]}, {"name": "B", "users": [user("u")]}]}}),
                "appears twice",
            ),
        ] {
            let text = refused(spec);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn permissions_hold_subjects() {
        for (subject, valid) in [
            ("a.>", true),
            ("a.*.b", true),
            (">", true),
            ("a.>.b", false),
            ("a..b", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_subject(subject), valid, "{subject}");
        }
    }
}
