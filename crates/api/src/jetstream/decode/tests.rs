//! Bodies and what the reference says of them; `tests/testdata/decode.json` was recorded from it.

use base64::Engine as _;
use serde::Deserialize;

use super::*;
use crate::jetstream::request;

/// A body, and the text of the refusal in each mode.
#[derive(Deserialize)]
struct Case {
    request: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    body_base64: String,
    strict: Option<String>,
    lenient: Option<String>,
}

fn refusal(request: &str, body: &[u8], mode: Mode) -> Option<String> {
    fn text<T>(result: Result<T, DecodeError>) -> Option<String> {
        result.err().map(|error| ApiError::from(error).description)
    }
    match request {
        "stream" => text(stream_request(body, mode)),
        "consumer" => text(decode::<request::CreateConsumerRequest>(body, mode)),
        "pause" => text(decode::<request::Pause>(body, mode)),
        "get" => text(decode::<request::MsgGet>(body, mode)),
        "list" => text(decode::<request::StreamList>(body, mode)),
        "names" => text(decode::<request::StreamNames>(body, mode)),
        "consumers" => text(decode::<request::Consumers>(body, mode)),
        "info" => text(decode::<request::StreamInfoDetails>(body, mode)),
        "restore" => text(decode::<request::Restore>(body, mode)),
        "purge" => text(decode::<request::Purge>(body, mode)),
        other => panic!("no such request: {other}"),
    }
}

#[test]
fn refusals_are_worded_as_by_the_reference() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../../tests/testdata/decode.json")).unwrap();
    assert!(cases.len() > 150, "{}", cases.len());
    let mut failed = 0;
    for case in &cases {
        let body = match case.body_base64.as_str() {
            "" => case.body.clone().into_bytes(),
            text => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
        };
        for (mode, expected) in [(Mode::Strict, &case.strict), (Mode::Lenient, &case.lenient)] {
            let told = refusal(&case.request, &body, mode);
            if told != *expected {
                failed += 1;
                eprintln!(
                    "{} {mode:?} {}\n  told     {told:?}\n  expected {expected:?}",
                    case.request,
                    body.escape_ascii()
                );
            }
        }
    }
    assert_eq!(failed, 0);
}

#[test]
fn members_are_read_whatever_their_case_and_the_last_counts() {
    let request = stream_request(
        br#"{"NAME":"A","Subjects":["a.\u003e","\ud83d\ude00"],"max_msgs":1,"max_msgs":-5,"pedantic":true,
            "max_age":1000000000,"mirror":{"opt_start_time":"2026-12-02T07:08:09.5Z"},"metadata":{"Key":"v","n":null}}
            {"max_bytes":7,"placement":null}"#,
        Mode::Strict,
    )
    .unwrap();
    let config = request.config;
    assert!(request.pedantic);
    assert_eq!((config.name.as_str(), config.max_msgs, config.max_bytes), ("A", -5, 7));
    assert_eq!(config.subjects, ["a.>", "😀"]);
    assert_eq!(config.max_age, crate::duration::Nanos::from_secs(1));
    assert_eq!(config.mirror.unwrap().opt_start_time, Some("2026-12-02T07:08:09.5Z".parse().unwrap()));
    assert_eq!(config.metadata["Key"], "v");
    assert_eq!(config.metadata["n"], "");
}

#[test]
fn nesting_beyond_the_bound_is_refused_without_recursion() {
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let told = |depth| refusal("purge", nested(depth).as_bytes(), Mode::Lenient);
    assert_eq!(told(DEPTH_MAX - 1), None);
    assert_eq!(told(DEPTH_MAX).unwrap(), "invalid JSON: exceeded max depth");
    let told = refusal("purge", nested(DEPTH_MAX).as_bytes(), Mode::Strict).unwrap();
    assert_eq!(told, "invalid JSON: exceeded max depth at offset 10005");
    assert_eq!(
        refusal("purge", "[".repeat(3_000_000).as_bytes(), Mode::Lenient).unwrap(),
        "invalid JSON: exceeded max depth"
    );
}

#[test]
fn bodies_that_say_nothing_are_recognised() {
    for body in ["", "{}", "{ }", " {\n} "] {
        assert!(is_empty_request(body.as_bytes()), "{body}");
    }
    for body in ["[]", "x", "{\"a\":1}", "{", "null", "{}{}"] {
        assert!(!is_empty_request(body.as_bytes()), "{body}");
    }
    assert!(
        is_object_or_array(b" {")
            && is_object_or_array(b"[")
            && !is_object_or_array(b"")
            && !is_object_or_array(b"x")
    );
}

#[test]
fn every_cut_and_every_changed_byte_ends_in_an_answer() {
    let body = br#"{"stream_name":"S","config":{"backoff":[1,2],"opt_start_time":"2026-12-02T07:08:09.5+01:00",
        "metadata":{"a":"\u00e9\n"},"filter_subjects":["a","b.*"],"deliver_policy":"new"},"action":"create"}"#;
    for cut in 0..body.len() {
        let _ = refusal("consumer", &body[..cut], Mode::Strict);
        for byte in [0, b'"', b'{', b'\\', b'9', 0xff] {
            let mut changed = body.to_vec();
            changed[cut] = byte;
            let _ = refusal("consumer", &changed, Mode::Strict);
        }
    }
    assert_eq!(refusal("consumer", body, Mode::Strict), None);
}
