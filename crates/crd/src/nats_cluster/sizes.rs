//! How much JetStream may store: what the spec says, or what follows from the volume; checked against both.

use super::NatsClusterSpec;
use super::jetstream::JetStream;
use super::validate::SpecError;
use crate::common::{Duration, Size, quantity_bytes};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Percent of a volume that streams may fill unless the spec says. The rest is for logs, checkpoints and what is being rewritten.
const FILE_PERCENT: i64 = 85;
/// Percent of a volume that the spec may ask for at most.
const FILE_PERCENT_MAX: i64 = 95;
/// Percent of a server's memory that streams in memory may fill at most. The rest is for connections and caches.
const MEMORY_PERCENT_MAX: i64 = 75;
/// Memory of a server whose spec has no resources.
const MEMORY_DEFAULT: i64 = 1 << 30;

/// Bytes that streams may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// In memory.
    pub memory: i64,
    /// In files; `None` leaves it to the server, which looks at the disk.
    pub file: Option<i64>,
}

/// The sizes for a cluster with JetStream. `capacity` is what the volumes really have, once that is known: a volume that is still
/// growing must not be promised yet.
///
/// # Errors
/// When a size is none, or more than there is room for.
pub fn sizes(
    spec: &NatsClusterSpec,
    jetstream: &JetStream,
    capacity: Option<i64>,
) -> Result<Sizes, SpecError> {
    let memory = bytes("jetstream.memoryStore.maxSize", &jetstream.memory_store.max_size)?;
    if let Some(limit) = memory_limit(spec)?
        && memory > limit / 100 * MEMORY_PERCENT_MAX
    {
        return Err(SpecError::MemoryStoreTooLarge { bytes: memory, limit });
    }
    let wanted = room(spec)?;
    let asked = jetstream.file_store.max_size.as_ref();
    let asked = asked.map(|size| bytes("jetstream.fileStore.maxSize", size)).transpose()?;
    if let (Some(asked), Some(wanted)) = (asked, wanted)
        && asked > wanted / 100 * FILE_PERCENT_MAX
    {
        return Err(SpecError::FileStoreTooLarge { bytes: asked, volume: wanted });
    }
    let there = match (wanted, capacity) {
        (Some(wanted), Some(capacity)) => Some(wanted.min(capacity)),
        (wanted, _) => wanted,
    };
    let derived = there.map(|there| there / 100 * FILE_PERCENT);
    // A size that was asked for waits for its volume to grow as well.
    let file = match (asked, there) {
        (Some(asked), Some(there)) => Some(asked.min(there / 100 * FILE_PERCENT_MAX)),
        (Some(asked), None) => Some(asked),
        (None, _) => derived,
    };
    Ok(Sizes { memory, file })
}

/// Checks everything about JetStream that the schema cannot.
pub(super) fn validate(spec: &NatsClusterSpec) -> Result<(), SpecError> {
    let Some(jetstream) = spec.jetstream.as_ref().filter(|jetstream| jetstream.enabled) else {
        return Ok(());
    };
    if spec.replicas > 1 {
        return Err(SpecError::JetStreamReplicas { replicas: spec.replicas });
    }
    sizes(spec, jetstream, None)?;
    if let Some(size) = &jetstream.max_outstanding_catchup {
        bytes("jetstream.maxOutstandingCatchup", size)?;
    }
    let limits = jetstream.limits.as_ref();
    let batch = limits.and_then(|limits| limits.batch.as_ref());
    let sync = jetstream.file_store.sync_interval.as_ref().and_then(super::jetstream::SyncInterval::duration);
    for (field, text) in [
        ("jetstream.fileStore.syncInterval", sync.as_ref()),
        ("jetstream.limits.duplicateWindow", limits.and_then(|limits| limits.duplicate_window.as_ref())),
        ("jetstream.limits.batch.timeout", batch.and_then(|batch| batch.timeout.as_ref())),
    ] {
        text.map(Duration::parse).transpose().map_err(|source| SpecError::Duration { field, source })?;
    }
    for account in spec.auth.accounts.iter().filter_map(|account| account.jetstream.as_ref()) {
        for (field, size) in [
            ("auth.accounts.jetstream.maxMemory", &account.max_memory),
            ("auth.accounts.jetstream.maxFile", &account.max_file),
            ("auth.accounts.jetstream.memoryMaxStreamBytes", &account.memory_max_stream_bytes),
            ("auth.accounts.jetstream.fileMaxStreamBytes", &account.file_max_stream_bytes),
        ] {
            size.as_ref().map(|size| bytes(field, size)).transpose()?;
        }
    }
    Ok(())
}

/// Bytes of a size, which may not be negative.
///
/// # Errors
/// When it is not an amount.
pub fn bytes(field: &'static str, size: &Size) -> Result<i64, SpecError> {
    size.bytes().filter(|bytes| *bytes >= 0).ok_or_else(|| SpecError::Size { field, text: size.to_string() })
}

/// Bytes that the spec gives each server for streams in files; `None` when it does not say.
fn room(spec: &NatsClusterSpec) -> Result<Option<i64>, SpecError> {
    let (field, text) = match (spec.storage.wanted_volume(), &spec.storage.ephemeral) {
        (Some(volume), _) => ("storage.volume.size", volume.size),
        (None, Some(ephemeral)) => match &ephemeral.size_limit {
            Some(limit) => ("storage.ephemeral.sizeLimit", limit.clone()),
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    quantity_bytes(&text).map(Some).ok_or(SpecError::Size { field, text })
}

/// Memory that a server may use; `None` without a limit.
fn memory_limit(spec: &NatsClusterSpec) -> Result<Option<i64>, SpecError> {
    let Some(resources) = &spec.resources else {
        return Ok(Some(MEMORY_DEFAULT));
    };
    let text = match resources.limits.get("memory") {
        None => return Ok(None),
        Some(IntOrString::Int(bytes)) => return Ok(Some(i64::from(*bytes))),
        Some(IntOrString::String(text)) => text,
    };
    let field = "resources.limits.memory";
    quantity_bytes(text).map(Some).ok_or_else(|| SpecError::Size { field, text: text.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GI: i64 = 1 << 30;

    fn spec(storage: Value, jetstream: Value) -> NatsClusterSpec {
        serde_json::from_value(json!({
            "replicas": 1, "auth": {"mode": "None", "allowAnonymous": true},
            "storage": storage, "jetstream": jetstream,
        }))
        .unwrap()
    }

    fn file(storage: Value, jetstream: Value, capacity: Option<i64>) -> Result<Option<i64>, String> {
        let spec = spec(storage, jetstream);
        sizes(&spec, spec.jetstream.as_ref().unwrap(), capacity)
            .map(|sizes| sizes.file)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn files_take_their_share_of_the_volume_that_is_really_there() {
        let volume = json!({"volume": {"size": "100Gi"}});
        assert_eq!(file(json!({}), json!({}), None), Ok(Some(10 * GI / 100 * 85)));
        assert_eq!(file(volume.clone(), json!({}), None), Ok(Some(GI * 85)));
        assert_eq!(file(volume.clone(), json!({}), Some(10 * GI)), Ok(Some(10 * GI / 100 * 85)));
        // What the class gave more than was asked for is not taken.
        assert_eq!(file(volume.clone(), json!({}), Some(200 * GI)), Ok(Some(GI * 85)));
        let asked = json!({"fileStore": {"maxSize": "90Gi"}});
        assert_eq!(file(volume.clone(), asked.clone(), Some(100 * GI)), Ok(Some(90 * GI)));
        assert_eq!(file(volume, asked, Some(10 * GI)), Ok(Some(10 * GI / 100 * 95)));
        assert_eq!(file(json!({"ephemeral": {}}), json!({}), None), Ok(None));
        assert_eq!(
            file(json!({"ephemeral": {"sizeLimit": "1Gi"}}), json!({}), None),
            Ok(Some(GI / 100 * 85))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_to_do() {
        let full = file(json!({"volume": {"size": "10Gi"}}), json!({"fileStore": {"maxSize": "10Gi"}}), None);
        assert!(full.unwrap_err().contains("make storage.volume.size larger"));
        let memory = file(json!({}), json!({"memoryStore": {"maxSize": "900Mi"}}), None);
        assert!(memory.unwrap_err().contains("resources.limits.memory"));
        assert!(file(json!({}), json!({"memoryStore": {"maxSize": "700Mi"}}), None).is_ok());
        assert!(file(json!({}), json!({"memoryStore": {"maxSize": -1}}), None).is_err());
    }

    #[test]
    fn streams_are_not_replicated_yet() {
        let mut spec = spec(json!({}), json!({}));
        assert_eq!(validate(&spec), Ok(()));
        spec.replicas = 3;
        assert!(validate(&spec).unwrap_err().to_string().contains("set replicas to 1"));
        spec.jetstream.as_mut().unwrap().enabled = false;
        assert_eq!(validate(&spec), Ok(()));
    }
}
