//! Who am I: user, account and rights of the client that asks.

use api::event::{ServerApiResponse, UserInfo};
use routing::permission::{Pattern, Permissions, ResponseLimit, Rules};
use serde_json::{Map, Value, json};

use super::internal::Delivered;
use super::requests::encode;
use super::server_info;
use crate::monitor::text;
use crate::server::Server;

/// The answer, if the client is one of this server's: a request that came from a peer is answered there.
pub(super) fn info(server: &Server, message: &Delivered) -> Option<Vec<u8>> {
    let client = server.client(message.publisher?)?;
    let binding = client.binding()?;
    let account = binding.account.name().to_owned();
    let user = UserInfo {
        user: binding.user.clone().unwrap_or_default(),
        account: account.clone(),
        account_name: account,
        permissions: binding.permissions.as_deref().map(permissions),
        ..UserInfo::default()
    };
    encode(&ServerApiResponse::data(server_info(server), user))
}

fn permissions(permissions: &Permissions) -> Value {
    let mut document = Map::new();
    for (name, side) in [("publish", &permissions.publish), ("subscribe", &permissions.subscribe)] {
        if *side != Rules::default() {
            document.insert(name.to_owned(), rules(side));
        }
    }
    if let Some(ResponseLimit { messages_max, expires }) = permissions.responses {
        let max = messages_max.map_or(-1, i64::from);
        let ttl = i64::try_from(expires.as_nanos()).unwrap_or(i64::MAX);
        document.insert("responses".to_owned(), json!({"max": max, "ttl": ttl}));
    }
    Value::Object(document)
}

fn rules(rules: &Rules) -> Value {
    let mut document = Map::new();
    let mut add = |name: &str, patterns: &[Pattern]| {
        if !patterns.is_empty() {
            document.insert(name.to_owned(), patterns.iter().map(pattern).collect::<Vec<_>>().into());
        }
    };
    add("allow", rules.allow.as_deref().unwrap_or(&[]));
    add("deny", &rules.deny);
    Value::Object(document)
}

fn pattern(pattern: &Pattern) -> String {
    let subject = text(&pattern.subject);
    match &pattern.queue {
        Some(queue) => format!("{subject} {}", text(queue)),
        None => subject,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rights_are_written_as_they_are_configured() {
        let all = Permissions {
            publish: Rules { allow: Some(vec![Pattern::parse("x.>")]), deny: Vec::new() },
            subscribe: Rules {
                allow: Some(vec![Pattern::parse("foo q")]),
                deny: vec![Pattern::parse("foo")],
            },
            responses: Some(ResponseLimit { messages_max: Some(3), expires: Duration::from_secs(5) }),
        };
        let expected = json!({
            "publish": {"allow": ["x.>"]},
            "subscribe": {"allow": ["foo q"], "deny": ["foo"]},
            "responses": {"max": 3, "ttl": 5_000_000_000_i64},
        });
        assert_eq!(permissions(&all), expected);
        assert_eq!(permissions(&Permissions::default()), json!({}));
    }
}
