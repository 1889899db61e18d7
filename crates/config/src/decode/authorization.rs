//! `authorization`, users and permissions.

use std::collections::{BTreeSet, HashSet};

use super::field::Field;
use super::{Report, described, set};
use crate::Secret;
use crate::diagnostic::Position;
use crate::lang::{Kind, Map, Value};
use crate::options::{
    Authorization, ConnectionType, Credentials, Permissions, RESPONSES_EXPIRES_DEFAULT,
    RESPONSES_MAX_DEFAULT, ResponsePermission, SubjectPermission, SubjectRule, User,
};
use crate::schema::{self, Section};

/// Decodes the `authorization` block of clients.
pub(super) fn decode(field: &Field<'_>, report: &mut Report) -> Option<Authorization> {
    let map = field.map(report)?;
    let mut authorization = Authorization { is_configured: true, ..Authorization::default() };
    let (mut username, mut password, mut token) = (String::new(), Secret::default(), Secret::default());
    let mut users = None;
    for inner in report.fields(Section::Authorization, map) {
        match inner.name() {
            "user" => set(&mut username, inner.string(report)),
            "password" => set(&mut password, inner.text(report).map(Secret::new)),
            "token" => set(&mut token, inner.text(report).map(Secret::new)),
            "timeout" => authorization.timeout = inner.timeout("authorization", report),
            "users" => users = decode_users(&inner, report),
            "default_permissions" => {
                authorization.default_permissions = decode_permissions(inner.value, report)
            }
            name => unreachable!("authorization key {name}"),
        }
    }
    let position = field.position;
    let (has_user, has_token) = (!username.is_empty(), !token.is_empty());
    if has_user && has_token {
        report.error(position, "Cannot have a user/pass and token");
    }
    if users.is_some() && has_user {
        report.error(position, "Can not have a single user/pass and a users array");
    }
    if users.is_some() && has_token {
        report.error(position, "Can not have a token and a users array");
    }
    if !has_user && !password.is_empty() {
        report.warn(position, "a password without a user asks nothing of clients");
    }
    if (has_user || has_token) && authorization.default_permissions.is_some() {
        report.warn(
            position,
            "permissions in authorization are for its users array and have no effect without one",
        );
    }
    authorization.credentials = match users {
        Some(mut users) => {
            apply_default_permissions(&mut users, authorization.default_permissions.as_ref());
            Credentials::Users(users)
        }
        None if has_token => Credentials::Token(token),
        None if has_user => Credentials::Single { username, password },
        None => Credentials::Open,
    };
    Some(authorization)
}

/// Gives users without permissions those of their block.
pub(super) fn apply_default_permissions(users: &mut [User], default: Option<&Permissions>) {
    for user in users {
        if user.permissions.is_none() {
            user.permissions = default.cloned();
        }
    }
}

/// Decodes a `users` list.
pub(super) fn decode_users(field: &Field<'_>, report: &mut Report) -> Option<Vec<User>> {
    let Kind::Array(values) = &field.value.kind else {
        let found = described(&field.value.kind);
        report.error(&field.value.position, format!("Expected users field to be an array, got {found}"));
        return None;
    };
    let mut users = Vec::with_capacity(values.len());
    for value in values {
        let Some(map) = value.as_map() else {
            let found = described(&value.kind);
            report.error(&value.position, format!("Expected user entry to be a map/struct, got {found}"));
            continue;
        };
        users.extend(decode_user(map, &value.position, report));
    }
    Some(users)
}

fn decode_user(map: &Map, position: &Position, report: &mut Report) -> Option<User> {
    let mut user = User {
        username: String::new(),
        password: Secret::default(),
        permissions: None,
        allowed_connection_types: BTreeSet::new(),
    };
    let errors_before = report.errors.len();
    for field in report.fields(Section::User, map) {
        match field.name() {
            "user" => set(&mut user.username, field.string(report)),
            "password" => set(&mut user.password, field.text(report).map(Secret::new)),
            "permissions" => user.permissions = decode_permissions(field.value, report),
            "allowed_connection_types" => user.allowed_connection_types = connection_types(&field, report),
            name => unreachable!("user key {name}"),
        }
    }
    if user.username.is_empty() {
        // With an error in it, such as an nkey, the missing name is not news.
        if report.errors.len() == errors_before {
            report.error(position, "User entry requires a user");
        }
        return None;
    }
    Some(user)
}

fn connection_types(field: &Field<'_>, report: &mut Report) -> BTreeSet<ConnectionType> {
    let mut types = BTreeSet::new();
    let mut unknown = Vec::new();
    for (written, _) in field.strings(report).unwrap_or_default() {
        let upper = written.to_ascii_uppercase();
        types.extend(match upper.as_str() {
            "STANDARD" => Some(ConnectionType::Standard),
            "WEBSOCKET" => Some(ConnectionType::Websocket),
            "LEAFNODE" => Some(ConnectionType::Leafnode),
            "LEAFNODE_WS" => Some(ConnectionType::LeafnodeWebsocket),
            "MQTT" => Some(ConnectionType::Mqtt),
            "MQTT_WS" => Some(ConnectionType::MqttWebsocket),
            "IN_PROCESS" => Some(ConnectionType::InProcess),
            _ => {
                unknown.push(format!("{upper:?}"));
                None
            }
        });
    }
    if !unknown.is_empty() {
        report.error(&field.value.position, format!("invalid connection types [{}]", unknown.join(" ")));
    }
    types
}

/// Decodes a `permissions` map.
pub(super) fn decode_permissions(value: &Value, report: &mut Report) -> Option<Permissions> {
    let Some(map) = value.as_map() else {
        let found = described(&value.kind);
        report.error(&value.position, format!("Expected permissions to be a map/struct, got {found}"));
        return None;
    };
    let mut permissions = Permissions::default();
    for field in report.fields(Section::Permissions, map) {
        match field.name() {
            "publish" => permissions.publish = subject_permission(&field, Queue::Refused, report),
            "subscribe" => permissions.subscribe = subject_permission(&field, Queue::Allowed, report),
            "allow_responses" => permissions.responses = responses(&field, report),
            name => unreachable!("permissions key {name}"),
        }
    }
    // Who may answer and is allowed nothing else may publish nothing else.
    if permissions.responses.is_some() && permissions.publish.allow.is_none() {
        permissions.publish.allow = Some(Vec::new());
    }
    Some(permissions)
}

/// Whether a rule may carry a queue name after its subject.
#[derive(Clone, Copy, PartialEq)]
enum Queue {
    Allowed,
    Refused,
}

fn subject_permission(field: &Field<'_>, queue: Queue, report: &mut Report) -> SubjectPermission {
    let Some(map) = field.value.as_map() else {
        return SubjectPermission { allow: Some(rules(field.value, queue, report)), deny: Vec::new() };
    };
    let mut permission = SubjectPermission::default();
    for inner in report.fields(Section::SubjectPermission, map) {
        let rules = rules(inner.value, queue, report);
        match inner.name() {
            "allow" => permission.allow = Some(rules),
            _ => permission.deny = rules,
        }
    }
    permission
}

fn rules(value: &Value, queue: Queue, report: &mut Report) -> Vec<SubjectRule> {
    let values = match &value.kind {
        Kind::String(_) => std::slice::from_ref(value),
        Kind::Array(values) => values,
        kind => {
            let found = kind.name();
            let message =
                format!("Expected subject permissions to be a subject, or array of subjects, got {found}");
            report.error(&value.position, message);
            return Vec::new();
        }
    };
    let mut rules = Vec::with_capacity(values.len());
    for value in values {
        let Some(text) = value.as_str() else {
            report.error(&value.position, "Subject in permissions array cannot be cast to string");
            continue;
        };
        match parse_rule(text, queue) {
            Some(rule) => rules.push(rule),
            None => report.error(&value.position, format!("subject \"{text}\" is not a valid subject")),
        }
    }
    rules
}

fn parse_rule(text: &str, queue: Queue) -> Option<SubjectRule> {
    if subject::is_valid(text.as_bytes()) {
        return Some(SubjectRule { subject: text.into(), queue: None });
    }
    let mut parts = text.split_whitespace();
    let (subject, name) = (parts.next()?, parts.next()?);
    let is_valid = queue == Queue::Allowed
        && parts.next().is_none()
        && subject::is_valid(subject.as_bytes())
        && subject::is_valid(name.as_bytes());
    is_valid.then(|| SubjectRule { subject: subject.into(), queue: Some(name.into()) })
}

fn responses(field: &Field<'_>, report: &mut Report) -> Option<ResponsePermission> {
    let map = match &field.value.kind {
        Kind::Bool(true) => return Some(ResponsePermission::default()),
        Kind::Bool(false) => return None,
        Kind::Map(map) => map,
        _ => {
            report.error(
                &field.value.position,
                "error parsing response permissions, expected a boolean or a map",
            );
            return None;
        }
    };
    let mut responses = ResponsePermission::default();
    for inner in report.fields(Section::Responses, map) {
        match inner.name() {
            "max" => {
                if let Some(max) = inner.integer(report) {
                    responses.max = match u32::try_from(max) {
                        Ok(0) => Some(RESPONSES_MAX_DEFAULT),
                        Ok(max) => Some(max),
                        // Below 0, or more than can ever be counted.
                        Err(_) => None,
                    };
                }
            }
            _ => match &inner.value.kind {
                Kind::String(_) => match inner.signed_duration(report) {
                    Some((true, _)) => responses.expires = None,
                    Some((false, time)) if time.is_zero() => {
                        responses.expires = Some(RESPONSES_EXPIRES_DEFAULT)
                    }
                    Some((false, time)) => responses.expires = Some(time),
                    None => {}
                },
                _ => report.error(&inner.value.position, "error parsing expires, not a duration string"),
            },
        }
    }
    Some(responses)
}

/// Reports users whose name was taken before, in `authorization` or in any account, at the place of the user.
pub(super) fn report_duplicate_users(root: &Map, report: &mut Report) {
    let mut seen = HashSet::new();
    for list in user_lists(root) {
        let Kind::Array(values) = &list.kind else { continue };
        for value in values {
            let Some(map) = value.as_map() else { continue };
            if let Some(name) = named(map, Section::User, "user").and_then(Value::as_str)
                && !seen.insert(name)
            {
                report.error(&value.position, format!("Duplicate user \"{name}\" detected"));
            }
        }
    }
}

/// Every `users` value of the tree.
fn user_lists(root: &Map) -> Vec<&Value> {
    let mut lists = Vec::new();
    for (written, entry) in root {
        let Some(key) = schema::find(Section::Top, written) else { continue };
        let Some(map) = entry.value.as_map() else { continue };
        match key.name {
            "authorization" => lists.extend(named(map, Section::Authorization, "users")),
            "accounts" => {
                for (_, account) in map {
                    if let Some(account) = account.value.as_map() {
                        lists.extend(named(account, Section::Account, "users"));
                    }
                }
            }
            _ => {}
        }
    }
    lists
}

fn named<'a>(map: &'a Map, section: Section, name: &str) -> Option<&'a Value> {
    map.iter()
        .find(|(written, _)| schema::find(section, written).is_some_and(|key| key.name == name))
        .map(|(_, entry)| &entry.value)
}
