//! From the specs of buckets to the streams that hold them, as clients make them.

use api::duration::Nanos;
use api::jetstream::stream::{Compression, Discard, StreamConfig, StreamSource, SubjectTransform};
use crd::jetstream::parts::Storage;
use crd::jetstream::{KeyValueSpec, ObjectStoreSpec};

use super::stream::fill;
use super::{SpecProblem, bytes, metadata, nanos, placement, problem, republish, source, storage};

/// Beginning of the name of a stream that holds keys.
const KEY_VALUE: &str = "KV_";
/// Beginning of the name of a stream that holds objects.
const OBJECT_STORE: &str = "OBJ_";
/// Most values of a key.
const HISTORY_MAX: i64 = 64;
/// How long message ids are remembered at most.
const DUPLICATE_WINDOW: Nanos = Nanos::from_secs(120);

/// The stream that holds a bucket of keys.
///
/// # Errors
/// When no server would take it.
pub fn key_value(spec: &KeyValueSpec) -> Result<StreamConfig, SpecProblem> {
    let bucket = bucket_name(&spec.bucket)?;
    let history = spec.history.filter(|history| *history != 0).unwrap_or(1);
    if !(1..=HISTORY_MAX).contains(&history) {
        return Err(problem("history", format!("is {history}: keep 1 to {HISTORY_MAX} values of a key")));
    }
    let ttl = if spec.ttl.is_empty() { nanos("maxAge", &spec.max_age)? } else { nanos("ttl", &spec.ttl)? };
    let marker = match &spec.limit_marker_ttl {
        None => Nanos::ZERO,
        Some(span) => span
            .nanos()
            .map(Nanos)
            .map_err(|source| SpecProblem::Duration { field: "limitMarkerTtl", source })?,
    };
    let mut config = StreamConfig {
        name: format!("{KEY_VALUE}{bucket}"),
        description: spec.description.clone(),
        max_msgs_per_subject: history,
        max_bytes: max_bytes(spec.max_bytes.as_ref())?,
        max_age: ttl,
        max_msg_size: i32::try_from(spec.max_value_size.filter(|size| *size > 0).unwrap_or(-1))
            .map_err(|_| problem("maxValueSize", "is more than 2147483647: make it smaller"))?,
        storage: storage(spec.storage.unwrap_or(Storage::File)),
        num_replicas: spec.replicas,
        placement: spec.placement.as_ref().map(placement),
        republish: spec.republish.as_ref().map(republish),
        discard: Discard::New,
        duplicate_window: if ttl.0 > 0 { ttl.min(DUPLICATE_WINDOW) } else { DUPLICATE_WINDOW },
        compression: compression(spec.compression),
        deny_delete: true,
        allow_rollup_hdrs: true,
        allow_direct: true,
        allow_msg_ttl: marker.0 > 0,
        subject_delete_marker_ttl: marker,
        metadata: metadata(&spec.metadata)?,
        ..unlimited()
    };
    origins(spec, bucket, &mut config)?;
    fill(config)
}

/// A mirror stores nothing of its own; sources bring their keys under the name of this bucket.
fn origins(spec: &KeyValueSpec, bucket: &str, config: &mut StreamConfig) -> Result<(), SpecProblem> {
    if let Some(mirror) = &spec.mirror {
        let mirror = source("mirror.optStartTime", mirror)?;
        let name = prefixed(&mirror.name);
        config.mirror = Some(StreamSource { name, ..mirror });
        config.mirror_direct = true;
        config.duplicate_window = Nanos::ZERO;
        return Ok(());
    }
    for origin in &spec.sources {
        let mut origin = source("sources.optStartTime", origin)?;
        origin.name = prefixed(&origin.name);
        let other = origin.name.strip_prefix(KEY_VALUE).unwrap_or_default();
        if origin.external.is_none() || other != bucket {
            origin.subject_transforms =
                vec![SubjectTransform { source: keys_of(other), destination: keys_of(bucket) }];
        }
        config.sources.push(origin);
    }
    config.subjects = vec![keys_of(bucket)];
    Ok(())
}

fn prefixed(name: &str) -> String {
    if name.starts_with(KEY_VALUE) { name.to_owned() } else { format!("{KEY_VALUE}{name}") }
}

fn keys_of(bucket: &str) -> String {
    format!("$KV.{bucket}.>")
}

/// The stream that holds a bucket of objects.
///
/// # Errors
/// When no server would take it.
pub fn object_store(spec: &ObjectStoreSpec) -> Result<StreamConfig, SpecProblem> {
    let bucket = bucket_name(&spec.bucket)?;
    fill(StreamConfig {
        name: format!("{OBJECT_STORE}{bucket}"),
        description: spec.description.clone(),
        subjects: vec![format!("$O.{bucket}.C.>"), format!("$O.{bucket}.M.>")],
        max_bytes: max_bytes(spec.max_bytes.as_ref())?,
        max_age: nanos("ttl", &spec.ttl)?,
        storage: storage(spec.storage.unwrap_or(Storage::File)),
        num_replicas: spec.replicas,
        placement: spec.placement.as_ref().map(placement),
        discard: Discard::New,
        compression: compression(spec.compression),
        allow_rollup_hdrs: true,
        allow_direct: true,
        metadata: metadata(&spec.metadata)?,
        ..unlimited()
    })
}

fn unlimited() -> StreamConfig {
    StreamConfig {
        max_consumers: -1,
        max_msgs: -1,
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        ..StreamConfig::default()
    }
}

fn max_bytes(size: Option<&crd::common::Size>) -> Result<i64, SpecProblem> {
    let bytes = size.map(|size| bytes("maxBytes", size)).transpose()?;
    Ok(bytes.filter(|bytes| *bytes != 0).unwrap_or(-1))
}

const fn compression(packed: bool) -> Compression {
    if packed { Compression::S2 } else { Compression::None }
}

fn bucket_name(bucket: &str) -> Result<&str, SpecProblem> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if bucket.is_empty() || bucket.len() > 240 || !bucket.bytes().all(allowed) {
        let shown: String = bucket.chars().take(64).collect();
        let text = format!(
            "`{}` is no name of a bucket: write 1 to 240 letters, digits, `_` and `-`",
            shown.escape_default()
        );
        return Err(problem("bucket", text));
    }
    Ok(bucket)
}

#[cfg(test)]
mod tests {
    use api::jetstream::stream::Storage as Kept;
    use serde_json::{Value, json};

    use super::*;

    fn keys(spec: Value) -> Result<StreamConfig, String> {
        let spec: KeyValueSpec = serde_json::from_value(spec).unwrap();
        key_value(&spec).map_err(|problem| problem.to_string())
    }

    #[test]
    fn keys_are_kept_as_clients_keep_them() {
        let config = keys(json!({ "bucket": "cfg" })).unwrap();
        assert_eq!(config.name, "KV_cfg");
        assert_eq!(config.subjects, ["$KV.cfg.>"]);
        assert_eq!((config.max_msgs_per_subject, config.discard), (1, Discard::New));
        assert!(config.deny_delete && config.allow_rollup_hdrs && config.allow_direct && !config.deny_purge);
        assert_eq!((config.storage, config.duplicate_window), (Kept::File, Nanos::from_secs(120)));
        assert_eq!((config.max_bytes, config.max_msg_size), (-1, -1));
        let config = keys(
            json!({ "bucket": "cfg", "ttl": "30s", "history": 5, "limitMarkerTtl": 60_000_000_000_i64 }),
        )
        .unwrap();
        assert_eq!((config.max_age, config.duplicate_window), (Nanos::from_secs(30), Nanos::from_secs(30)));
        assert!(config.allow_msg_ttl);
        assert_eq!(config.subject_delete_marker_ttl, Nanos::from_secs(60));
        assert_eq!(keys(json!({ "bucket": "cfg", "maxAge": "1h" })).unwrap().max_age, Nanos::from_secs(3600));
    }

    #[test]
    fn mirrors_and_sources_are_buckets_too() {
        let config = keys(json!({ "bucket": "copy", "mirror": { "name": "cfg" } })).unwrap();
        assert_eq!(config.mirror.unwrap().name, "KV_cfg");
        assert!(config.subjects.is_empty() && config.mirror_direct);
        let config =
            keys(json!({ "bucket": "all", "sources": [{ "name": "a" }, { "name": "KV_b" }] })).unwrap();
        assert_eq!(config.sources[1].name, "KV_b");
        let transform = &config.sources[0].subject_transforms[0];
        assert_eq!((transform.source.as_str(), transform.destination.as_str()), ("$KV.a.>", "$KV.all.>"));
        assert_eq!(config.subjects, ["$KV.all.>"]);
    }

    #[test]
    fn objects_are_kept_as_clients_keep_them() {
        let spec: ObjectStoreSpec =
            serde_json::from_value(json!({ "bucket": "pics", "compression": true, "maxBytes": "1Mi" }))
                .unwrap();
        let config = object_store(&spec).unwrap();
        assert_eq!(config.name, "OBJ_pics");
        assert_eq!(config.subjects, ["$O.pics.C.>", "$O.pics.M.>"]);
        assert_eq!((config.compression, config.max_bytes), (Compression::S2, 1 << 20));
        assert!(config.allow_rollup_hdrs && config.allow_direct && !config.deny_delete);
    }

    #[test]
    fn names_of_buckets_have_no_dots_and_history_has_a_bound() {
        for bucket in ["", "a.b", "a b", "../x", "a\r\n"] {
            assert!(
                keys(json!({ "bucket": bucket })).unwrap_err().contains("is no name of a bucket"),
                "{bucket}"
            );
        }
        assert!(keys(json!({ "bucket": "a", "history": 65 })).unwrap_err().contains("1 to 64"));
    }
}
