//! From the spec of a Stream to a configuration.

use std::collections::BTreeMap;

use api::jetstream::limits::AccountView;
use api::jetstream::metadata as level;
use api::jetstream::request::StreamRequest;
use api::jetstream::stream::{
    Compression, ConsumerLimits, Discard, PersistMode, Retention, StreamConfig, SubjectTransform,
    create_request,
};
use crd::jetstream::StreamSpec;
use crd::jetstream::stream as spec;

use super::{
    SpecProblem, any_account, any_server, bytes, checked_name, metadata, nanos, placement, problem,
    republish, source, storage,
};

/// The stream that a spec asks for, filled in as a server would.
///
/// # Errors
/// When no server would take it.
pub fn stream(spec: &StreamSpec) -> Result<StreamConfig, SpecProblem> {
    let config = StreamConfig {
        name: checked_name("name", &spec.name)?,
        description: spec.description.clone(),
        subjects: spec.subjects.clone(),
        retention: retention(spec.retention),
        max_consumers: spec.max_consumers,
        max_msgs: spec.max_msgs,
        max_bytes: bytes("maxBytes", &spec.max_bytes)?,
        max_age: nanos("maxAge", &spec.max_age)?,
        max_msgs_per_subject: spec.max_msgs_per_subject,
        max_msg_size: i32::try_from(spec.max_msg_size)
            .map_err(|_| problem("maxMsgSize", "is more than 2147483647: make it smaller"))?,
        discard: match spec.discard {
            spec::Discard::Old => Discard::Old,
            spec::Discard::New => Discard::New,
        },
        storage: storage(spec.storage),
        num_replicas: spec.replicas,
        no_ack: spec.no_ack,
        duplicate_window: nanos("duplicateWindow", &spec.duplicate_window)?,
        placement: spec.placement.as_ref().map(placement),
        mirror: spec.mirror.as_ref().map(|mirror| source("mirror.optStartTime", mirror)).transpose()?,
        sources: spec
            .sources
            .iter()
            .map(|origin| source("sources.optStartTime", origin))
            .collect::<Result<_, _>>()?,
        compression: match spec.compression {
            spec::Compression::Unset | spec::Compression::None => Compression::None,
            spec::Compression::S2 => Compression::S2,
        },
        first_seq: spec.first_sequence.0,
        subject_transform: spec.subject_transform.as_ref().map(|transform| SubjectTransform {
            source: transform.source.clone(),
            destination: transform.dest.clone(),
        }),
        republish: spec.republish.as_ref().map(republish),
        allow_direct: spec.allow_direct,
        mirror_direct: spec.mirror_direct,
        discard_new_per_subject: spec.discard_per_subject,
        sealed: spec.sealed,
        deny_delete: spec.deny_delete,
        deny_purge: spec.deny_purge,
        allow_rollup_hdrs: spec.allow_rollup,
        consumer_limits: consumer_limits(spec)?,
        allow_msg_ttl: spec.allow_msg_ttl,
        subject_delete_marker_ttl: nanos("subjectDeleteMarkerTtl", &spec.subject_delete_marker_ttl)?,
        allow_msg_counter: spec.allow_msg_counter,
        allow_atomic: spec.allow_atomic_publish,
        allow_msg_schedules: spec.allow_msg_schedules,
        persist_mode: persist_mode(&spec.persist_mode)?,
        allow_batched: spec.allow_batch_publish,
        metadata: metadata(&spec.metadata)?,
    };
    fill(config)
}

/// Checks a configuration by the rules of a server and fills in what it leaves out.
pub(super) fn fill(config: StreamConfig) -> Result<StreamConfig, SpecProblem> {
    let (sealed, preferred) =
        (config.sealed, config.placement.as_ref().is_some_and(|placement| !placement.preferred.is_empty()));
    if preferred {
        return Err(problem(
            "placement.preferred",
            "servers take it in requests to move a leader only: remove it",
        ));
    }
    // A new stream cannot be sealed, an existing one can; that is judged when it is known which of them it is.
    let request = StreamRequest {
        config: StreamConfig { sealed: false, ..config },
        pedantic: false,
        ..StreamRequest::default()
    };
    let (streams, limits) = (BTreeMap::new(), any_account());
    let account = AccountView { streams: &streams, limits: &limits };
    let filled = create_request(&request.config.name, &request, &any_server(), &account);
    let mut filled = filled.map_err(|error| SpecProblem::Refused(error.description))?;
    level::remove_all(&mut filled.metadata);
    filled.sealed = sealed;
    Ok(filled)
}

const fn retention(retention: spec::Retention) -> Retention {
    match retention {
        spec::Retention::Limits => Retention::Limits,
        spec::Retention::Interest => Retention::Interest,
        spec::Retention::WorkQueue => Retention::WorkQueue,
    }
}

fn persist_mode(text: &str) -> Result<PersistMode, SpecProblem> {
    match text {
        "" | "default" => Ok(PersistMode::Default),
        "async" => Ok(PersistMode::Async),
        _ => Err(problem("persistMode", "is neither default nor async")),
    }
}

fn consumer_limits(spec: &StreamSpec) -> Result<ConsumerLimits, SpecProblem> {
    let Some(limits) = &spec.consumer_limits else { return Ok(ConsumerLimits::default()) };
    Ok(ConsumerLimits {
        inactive_threshold: nanos("consumerLimits.inactiveThreshold", &limits.inactive_threshold)?,
        max_ack_pending: limits.max_ack_pending.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use api::duration::Nanos;
    use api::jetstream::stream::Storage;
    use serde_json::{Value, json};

    use super::*;

    fn read(mut spec: Value) -> Result<StreamConfig, String> {
        if spec.get("name").is_none() {
            spec["name"] = json!("orders");
        }
        let spec: StreamSpec = serde_json::from_value(spec).unwrap();
        stream(&spec).map_err(|problem| problem.to_string())
    }

    #[test]
    fn an_empty_spec_is_a_stream_in_memory_that_stores_its_name() {
        let config = read(json!({})).unwrap();
        assert_eq!(config.subjects, ["orders"]);
        assert_eq!((config.storage, config.num_replicas), (Storage::Memory, 1));
        assert_eq!((config.max_msgs, config.max_bytes, config.max_msgs_per_subject), (-1, -1, -1));
        assert_eq!(config.duplicate_window, Nanos::from_secs(120));
        assert!(config.metadata.is_empty());
    }

    #[test]
    fn fields_keep_their_meaning() {
        let config = read(json!({
            "subjects": ["orders.*"], "storage": "file", "maxAge": "1h", "maxBytes": "1Gi", "discard": "new",
            "retention": "workqueue", "compression": "s2", "allowMsgTtl": true, "subjectDeleteMarkerTtl": "5m",
            "republish": { "source": "orders.>", "destination": "copy.>", "headers_only": true },
            "placement": { "tags": ["a"] }, "consumerLimits": { "inactiveThreshold": "1d", "maxAckPending": 5 },
            "metadata": { "team": "blue" }, "firstSequence": 7, "allowBatchPublish": true,
        }))
        .unwrap();
        assert_eq!(config.max_age, Nanos::from_secs(3600));
        assert_eq!(config.max_bytes, 1 << 30);
        assert_eq!(config.retention, Retention::WorkQueue);
        assert!(config.allow_rollup_hdrs, "markers need roll-ups");
        assert!(config.republish.unwrap().headers_only);
        assert_eq!(config.consumer_limits.inactive_threshold, Nanos::from_secs(86_400));
        assert_eq!(config.metadata["team"], "blue");
        assert_eq!(config.first_seq, 7);
        assert!(config.allow_batched);
    }

    #[test]
    fn mirrors_and_sources_keep_where_they_come_from() {
        let config = read(json!({ "mirror": { "name": "m", "externalApiPrefix": "FOO.JS.API", "externalDeliverPrefix": "FOO.D" } }))
            .unwrap();
        let mirror = config.mirror.unwrap();
        assert_eq!(mirror.external.unwrap().api, "FOO.JS.API");
        assert!(config.subjects.is_empty());
        let config = read(json!({ "sources": [{ "name": "a", "optStartTime": "2026-01-02T03:04:05Z" }, { "name": "b", "optStartSeq": 5 }] })).unwrap();
        assert!(config.sources[0].opt_start_time.is_some());
        assert_eq!(config.sources[1].opt_start_seq, 5);
    }

    #[test]
    fn what_no_server_takes_is_refused_with_what_to_change() {
        for (spec, part) in [
            (json!({ "name": "a b" }), "is no name"),
            (json!({ "name": "a\r\nPUB x 0\r\n" }), r"a\r\nPUB x 0\r\n"),
            (json!({ "name": "../../etc" }), "is no name"),
            (json!({ "name": "" }), "is no name"),
            (json!({ "maxAge": "soon" }), "maxAge: `soon` is not a duration"),
            (json!({ "maxAge": "1ms" }), "max age needs to be >= 100ms"),
            (json!({ "maxBytes": "many" }), "maxBytes: `many` is not an amount"),
            (json!({ "subjects": ["a..b"] }), "invalid subject"),
            (json!({ "subjects": [">"] }), "no-ack"),
            (json!({ "discardPerSubject": true }), "requires discard new"),
            (json!({ "denyPurge": true, "allowRollup": true }), "roll-ups require"),
            (json!({ "persistMode": "later" }), "neither default nor async"),
            (json!({ "persistMode": "async" }), "file storage"),
            (json!({ "metadata": { "myelin.dev/owner": "me" } }), "is reserved"),
            (json!({ "metadata": { "_nats.req.level": "9" } }), "is reserved"),
            (json!({ "mirror": { "name": "m" }, "subjects": ["a"] }), "mirror"),
            (json!({ "placement": { "preferred": "a" } }), "placement.preferred"),
            (json!({ "sources": [{ "name": "a", "optStartTime": "yesterday" }] }), "is not a time"),
        ] {
            let text = read(spec.clone()).unwrap_err();
            assert!(text.contains(part), "{spec} -> {text}");
        }
    }

    #[test]
    fn a_stream_may_be_sealed() {
        assert!(read(json!({ "sealed": true })).unwrap().sealed);
    }
}
