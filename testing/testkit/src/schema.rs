//! Holds what servers say against the public JSON schemas.
//!
//! Every [`Client`](crate::Client) hands over what it receives, so each document that names its schema (`"type":
//! "io.nats..."`) and each acknowledgement of a publish is checked, in every test and for both servers. The schemas are
//! those that the official command line tool carries; each is read and compiled once in a process, when the first
//! document of its kind comes. Without the tool nothing is checked ([`crate::tools::nats`]).
//!
//! A schema in two alternatives, of which one is the error, is split: the document says which half it must satisfy, and
//! complaints then name a place instead of "no alternative fits".

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use crate::tools;

/// How every document begins that names its schema.
const TYPED: &[u8] = b"{\"type\":\"io.nats.";
/// How an acknowledgement of a publish begins, when it is one and when it is a refusal.
const PUBLISH_ACKS: [&[u8]; 2] = [b"{\"stream\":\"", b"{\"error\":{\"code\":"];
/// What an acknowledgement of a publish would name, if it did.
const PUBLISH_ACK: &str = "io.nats.jetstream.api.v1.pub_ack_response";
/// What all names of schemas begin with.
const FAMILY: &str = "io.nats.";

/// Where the reference says something else than the schema: part of the schema's name, the place, and what is wrong
/// there, with `*` for any number. Each is what the reference does on the wire, so ours does it too.
const EXCEPTIONS: &[(&str, &str)] = &[
    // These schemas call a sequence text, and give it a minimum nevertheless; it is a number as everywhere.
    ("advisory.v1.nak", "/consumer_seq: type"),
    ("advisory.v1.terminated", "/consumer_seq: type"),
    // The schemas want a server that neither names.
    ("advisory.v1.consumer_group_", "/server: missing"),
    // What is asked in the system account names no client.
    ("advisory.v1.api_audit", "/client/acc: missing"),
    // The schema has an error inside of the error.
    ("api.v1.consumer_unpin_response", "/error/error: missing"),
    // Neither server refuses a negative threshold as the limit of a stream's consumers; both keep it as it came.
    ("api.v1.stream_", "/config/consumer_limits/inactive_threshold: minimum"),
];

/// The reference says this, and no schema says what it is.
const WITHOUT_SCHEMA: &str = "io.nats.jetstream.api.v1.system_response";

/// The halves of a schema.
struct Schema {
    success: Validator,
    error: Validator,
}

type Slot = Arc<OnceLock<Option<Schema>>>;

static TOOL: LazyLock<Option<PathBuf>> = LazyLock::new(tools::nats);
static SCHEMAS: LazyLock<Mutex<HashMap<String, Slot>>> = LazyLock::new(Mutex::default);

/// Panics when a payload names a schema, or is an acknowledgement of a publish, and does not satisfy it.
pub(crate) fn check_payload(payload: &[u8]) {
    let (Some(tool), Some(name)) = (TOOL.as_deref(), kind(payload)) else { return };
    let Ok(document) = serde_json::from_slice::<Value>(payload) else {
        panic!("not JSON: {}", String::from_utf8_lossy(payload))
    };
    let name = name.unwrap_or_else(|| document["type"].as_str().unwrap_or_default().to_owned());
    let faults = faults(tool, &name, &document);
    assert!(faults.is_empty(), "{name} is not satisfied:\n{}\nby {document}", faults.join("\n"));
}

/// Whether a payload is to be checked, and by which schema if it does not say so itself.
fn kind(payload: &[u8]) -> Option<Option<String>> {
    if payload.starts_with(TYPED) {
        return Some(None);
    }
    PUBLISH_ACKS.iter().any(|begin| payload.starts_with(begin)).then(|| Some(PUBLISH_ACK.to_owned()))
}

/// What is wrong with a document, exceptions aside.
fn faults(tool: &Path, name: &str, document: &Value) -> Vec<String> {
    if name == WITHOUT_SCHEMA {
        return Vec::new();
    }
    let slot = Arc::clone(
        SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default(),
    );
    let Some(schema) = slot.get_or_init(|| load(tool, name)) else {
        return vec!["no such schema".to_owned()];
    };
    let half = if document.get("error").is_some() { &schema.error } else { &schema.success };
    let mut faults = Vec::new();
    for error in half.iter_errors(document) {
        describe(&error, &mut faults);
    }
    faults.retain(|fault| !EXCEPTIONS.iter().any(|&(part, known)| name.contains(part) && fault == known));
    faults
}

/// Lines `PLACE: what is wrong there`; alternatives are judged by the one that fits best.
fn describe(error: &ValidationError<'_>, faults: &mut Vec<String>) {
    let place = place(&error.instance_path().to_string());
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            faults.extend(unexpected.iter().map(|name| format!("{place}/{name}: unexpected")));
        }
        ValidationErrorKind::Required { property } => {
            faults.push(format!("{place}/{}: missing", property.as_str().unwrap_or_default()));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match context.iter().min_by_key(|errors| errors.len()) {
                Some(best) if !best.is_empty() => best.iter().for_each(|error| describe(error, faults)),
                _ => faults.push(format!("{place}: {error}")),
            }
        }
        kind => faults.push(format!("{place}: {}", kind.keyword())),
    }
}

/// A place with `*` for the number of an element.
fn place(path: &str) -> String {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    path.split('/').map(|part| if number(part) { "*" } else { part }).collect::<Vec<_>>().join("/")
}

/// Reads a schema from the tool; `None` when it has none of this name.
fn load(tool: &Path, name: &str) -> Option<Schema> {
    let output =
        match tools::nats_command(tool, Path::new("/nonexistent")).args(["schema", "info", name]).output() {
            Ok(output) => output,
            Err(error) => panic!("{}: {error}", tool.display()),
        };
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("could not load schema"), "schema {name}: {text}");
        return None;
    }
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(document) if name.starts_with(FAMILY) => Some(split(name, document)),
        Ok(_) => None,
        Err(error) => panic!("schema {name}: {error}"),
    }
}

fn split(name: &str, mut document: Value) -> Schema {
    let alternatives = document.as_object_mut().and_then(|members| members.remove("oneOf"));
    let is_error = |schema: &&Value| schema["properties"].get("error").is_some();
    let half = |wanted: bool| {
        let list = alternatives.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let chosen: Vec<&Value> = list.iter().filter(|schema| is_error(schema) == wanted).collect();
        assert!(list.is_empty() || chosen.len() == 1, "{name}: {} alternatives", list.len());
        let schema = json!({"allOf": [document, chosen.first().map_or(&json!(true), |&schema| schema)]});
        match jsonschema::draft7::options().should_validate_formats(true).build(&schema) {
            Ok(validator) => validator,
            Err(error) => panic!("schema {name}: {error}"),
        }
    };
    Schema { success: half(false), error: half(true) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PUBLISH_ACK, TOOL, check_payload, faults};

    const PURGED: &str = "io.nats.jetstream.api.v1.stream_purge_response";

    #[test]
    fn wrong_documents_are_told_from_right_ones() {
        let Some(tool) = TOOL.as_deref() else { return };
        let error = json!({"code": 404, "err_code": 10059, "description": "stream not found"});
        for (name, document, expected) in [
            (PURGED, json!({"type": PURGED, "success": true, "purged": 7}), vec![]),
            (PURGED, json!({"type": PURGED, "error": error}), vec![]),
            (PURGED, json!({"type": PURGED, "success": true, "purged": -1}), vec!["/purged: minimum"]),
            (PURGED, json!({"type": PURGED, "purged": 7}), vec!["/success: missing"]),
            (PURGED, json!({"type": "purged", "success": true, "purged": 7}), vec!["/type: const"]),
            (PURGED, json!({"type": PURGED, "error": {"code": 7}}), vec!["/error/code: minimum"]),
            (PUBLISH_ACK, json!({"stream": "S", "seq": 1}), vec![]),
            (PUBLISH_ACK, json!({"stream": "S", "seq": 1, "colour": 1}), vec!["/colour: unexpected"]),
            ("io.nats.jetstream.api.v1.dance", json!({}), vec!["no such schema"]),
        ] {
            assert_eq!(faults(tool, name, &document), expected, "{name} {document}");
        }
    }

    #[test]
    fn places_deep_in_a_document_are_named() {
        let Some(tool) = TOOL.as_deref() else { return };
        let name = "io.nats.jetstream.api.v1.consumer_names_response";
        let list = json!({"type": name, "total": 2, "offset": 0, "limit": 1024, "consumers": ["C", 7]});
        assert_eq!(faults(tool, name, &list), ["/consumers/*: type"]);
    }

    #[test]
    #[should_panic(expected = "stream_purge_response is not satisfied")]
    fn a_wrong_payload_ends_the_test_that_received_it() {
        assert!(
            TOOL.is_some(),
            "without the tool there is nothing to check: stream_purge_response is not satisfied"
        );
        check_payload(format!("{{\"type\":\"{PURGED}\",\"success\":true}}").as_bytes());
    }

    #[test]
    fn other_payloads_are_nobodys_business() {
        check_payload(b"{\"type\":\"io.nats");
        check_payload(b"hello");
        check_payload(b"");
    }
}
