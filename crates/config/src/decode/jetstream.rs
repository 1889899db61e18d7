//! `jetstream`, of the server and of an account.

use std::time::Duration;

use super::field::Field;
use super::{Report, set};
use crate::Secret;
use crate::diagnostic::Position;
use crate::duration;
use crate::lang::{Kind, Map, Value};
use crate::options::{BatchLimits, Cipher, JetStream, JetStreamAccountLimits, JetStreamLimits, SyncMode};
use crate::schema::Section;

/// What the block gives beside its options.
#[derive(Default)]
pub(super) struct Block {
    pub(super) options: JetStream,
    /// `store_dir` and where it stands.
    pub(super) store_dir: Option<(String, Position)>,
}

/// Decodes the `jetstream` block, or the word that stands for it.
pub(super) fn decode(field: &Field<'_>, report: &mut Report) -> Block {
    let mut block = Block::default();
    match &field.value.kind {
        Kind::Map(map) => {
            block.options.enabled = true;
            // What is not said follows the other limit, so that one has to be known first.
            let mut info_queue_limit = None;
            for inner in report.fields(Section::JetStream, map) {
                let is_taken = storage(&inner, &mut block, report)
                    || encryption(&inner, &mut block.options, report)
                    || queues(&inner, &mut block.options, &mut info_queue_limit, report)
                    || placement(&inner, &mut block.options, report);
                assert!(is_taken, "key {} is in the table of options but is not decoded", inner.name());
            }
            block.options.info_queue_limit = info_queue_limit.unwrap_or(block.options.request_queue_limit);
        }
        _ => block.options.enabled = switch(field.value, report).unwrap_or_default(),
    }
    block
}

/// A truth value, or the word for one.
fn switch(value: &Value, report: &mut Report) -> Option<bool> {
    match &value.kind {
        Kind::Bool(value) => return Some(*value),
        Kind::String(text) => match text.to_ascii_lowercase().as_str() {
            "enabled" | "enable" => return Some(true),
            "disabled" | "disable" => return Some(false),
            _ => report.error(
                &value.position,
                format!("Expected 'enabled' or 'disabled' for string value, got '{text}'"),
            ),
        },
        kind => report.error(
            &value.position,
            format!("Expected map, bool or string to define JetStream, got {}", kind.name()),
        ),
    }
    None
}

fn storage(field: &Field<'_>, block: &mut Block, report: &mut Report) -> bool {
    let options = &mut block.options;
    match field.name() {
        "enabled" => set(&mut options.enabled, field.boolean(report)),
        "strict" => match field.value.kind {
            Kind::Bool(value) => options.strict = value,
            _ => report.error(
                &field.value.position,
                format!("Expected 'true' or 'false' for bool value, got '{}'", shown(field.value)),
            ),
        },
        "store_dir" => {
            block.store_dir = field.text(report).map(|text| (text.into(), field.value.position.clone()));
        }
        "max_memory_store" => {
            set(&mut options.max_memory_store, size(field, "max_mem_store", report).map(unsigned));
        }
        "max_file_store" => {
            set(&mut options.max_file_store, size(field, "max_file_store", report).map(unsigned));
        }
        "sync_interval" => set(&mut options.sync, sync_mode(field, report)),
        _ => return false,
    }
    true
}

fn encryption(field: &Field<'_>, options: &mut JetStream, report: &mut Report) -> bool {
    let secret = |text: &str| (!text.is_empty()).then(|| Secret::new(text));
    match field.name() {
        "encryption_key" => set(&mut options.encryption_key, field.text(report).map(secret)),
        "prev_encryption_key" => {
            set(&mut options.previous_encryption_key, field.text(report).map(secret));
        }
        "cipher" => {
            let Some(name) = field.text(report) else { return true };
            match name.to_ascii_lowercase().as_str() {
                "chacha" | "chachapoly" => options.cipher = Cipher::ChaCha,
                "aes" => options.cipher = Cipher::Aes,
                _ => report.error(&field.value.position, format!("Unknown cipher type: {name:?}")),
            }
        }
        _ => return false,
    }
    true
}

fn queues(
    field: &Field<'_>,
    options: &mut JetStream,
    info_queue_limit: &mut Option<u32>,
    report: &mut Report,
) -> bool {
    // 0 and less are the default everywhere here.
    let default = JetStream::default();
    match field.name() {
        "max_outstanding_catchup" => {
            let Some(bytes) = size(field, "max_outstanding_catchup", report) else { return true };
            if bytes < 0 {
                report.error(&field.value.position, "jetstream max catchup cannot be negative");
            }
            options.max_outstanding_catchup = positive(bytes).unwrap_or(default.max_outstanding_catchup);
        }
        "max_buffered_size" => {
            let bytes = size(field, "max_buffered_size", report).and_then(positive);
            options.max_buffered_bytes = bytes.unwrap_or(default.max_buffered_bytes);
        }
        "max_buffered_msgs" => {
            options.max_buffered_messages = count(field, report).unwrap_or(default.max_buffered_messages);
        }
        "max_working_memory" => {
            let bytes = size(field, "max_working_memory", report).and_then(positive);
            options.max_working_memory = bytes.unwrap_or(default.max_working_memory);
        }
        "request_queue_limit" => {
            options.request_queue_limit = count(field, report).unwrap_or(default.request_queue_limit);
        }
        "info_queue_limit" => *info_queue_limit = count(field, report),
        _ => return false,
    }
    true
}

fn placement(field: &Field<'_>, options: &mut JetStream, report: &mut Report) -> bool {
    match field.name() {
        "domain" => set(&mut options.domain, field.optional_string(report)),
        "unique_tag" => {
            let tag = field.text(report).map(|text| text.trim().to_lowercase());
            set(&mut options.unique_tag, tag.map(|tag| (!tag.is_empty()).then_some(tag)));
        }
        "limits" => match field.value.as_map() {
            Some(map) => limits(map, &mut options.limits, report),
            None => {
                let found = field.value.kind.name();
                let message = format!("Expected a map to define JetStreamLimits, got {found}");
                report.error(&field.value.position, message);
            }
        },
        _ => return false,
    }
    true
}

fn limits(map: &Map, limits: &mut JetStreamLimits, report: &mut Report) {
    for field in report.fields(Section::JetStreamLimits, map) {
        match field.name() {
            "max_request_batch" => limits.max_request_batch = count(&field, report),
            "max_ack_pending" => limits.max_ack_pending = count(&field, report),
            "max_ha_assets" => limits.max_ha_assets = count(&field, report),
            // Unlike the other limits, 0 is the default here, and only a negative number is no limit.
            "default_max_consumers" if matches!(field.value.kind, Kind::Integer(0)) => {}
            "default_max_consumers" => limits.default_max_consumers = count(&field, report),
            "duplicate_window" => limits.duplicate_window = positive_duration(&field, report),
            _ => match field.value.as_map() {
                Some(map) => batch(map, &mut limits.batch, report),
                None => {
                    let found = field.value.kind.name();
                    let message = format!("Expected a map to define batch limits, got {found}");
                    report.error(&field.value.position, message);
                }
            },
        }
    }
}

fn batch(map: &Map, limits: &mut BatchLimits, report: &mut Report) {
    for field in report.fields(Section::JetStreamBatch, map) {
        match field.name() {
            "max_inflight_per_stream" => limits.max_inflight_per_stream = count(&field, report),
            "max_inflight_total" => limits.max_inflight_total = count(&field, report),
            "max_msgs" => limits.max_messages = count(&field, report),
            _ => limits.timeout = positive_duration(&field, report),
        }
    }
}

/// Decodes `jetstream` of an account: a truth value, a word or a map.
pub(super) fn decode_account(field: &Field<'_>, report: &mut Report) -> Option<JetStreamAccountLimits> {
    let Kind::Map(map) = &field.value.kind else {
        return switch(field.value, report)?.then(JetStreamAccountLimits::default);
    };
    let mut limits = JetStreamAccountLimits::default();
    for inner in report.fields(Section::AccountJetStream, map) {
        match inner.name() {
            "max_memory" => limits.max_memory = account_size(&inner, report),
            "max_store" => limits.max_store = account_size(&inner, report),
            "max_streams" => limits.max_streams = account_count(&inner, report),
            "max_consumers" => limits.max_consumers = account_count(&inner, report),
            "max_ack_pending" => limits.max_ack_pending = account_count(&inner, report),
            "memory_max_stream_bytes" => limits.memory_max_stream_bytes = account_size(&inner, report),
            "disk_max_stream_bytes" => limits.disk_max_stream_bytes = account_size(&inner, report),
            "max_bytes_required" => match inner.value.kind {
                Kind::Bool(value) => limits.max_bytes_required = value,
                _ => unparseable(&inner, "bool", report),
            },
            _ => cluster_traffic(&inner, report),
        }
    }
    Some(limits)
}

/// Replicas speak in the system account; the account's own is not to be had.
fn cluster_traffic(field: &Field<'_>, report: &mut Report) {
    let written = field.written;
    let message = match &field.value.kind {
        Kind::String(text) if text == "system" || text.is_empty() => return,
        Kind::String(text) if text == "owner" => {
            format!("\"{written}\" of 'owner' is not supported in this version")
        }
        Kind::String(text) => {
            format!("Expected 'system' or 'owner' string value for {written:?}, got {text}")
        }
        _ => format!(
            "Expected either 'system' or 'owner' string value for {written:?}, got {}",
            shown(field.value)
        ),
    };
    report.error(&field.value.position, message);
}

/// A size of an account: a number, where what is negative means unlimited.
fn account_size(field: &Field<'_>, report: &mut Report) -> Option<u64> {
    match field.value.kind {
        Kind::Integer(number) => u64::try_from(number).ok(),
        _ => {
            unparseable(field, "size", report);
            None
        }
    }
}

/// A count of an account, where what is negative means unlimited.
fn account_count(field: &Field<'_>, report: &mut Report) -> Option<u32> {
    let number = account_size(field, report)?;
    // More than can be counted is no limit.
    u32::try_from(number).ok()
}

/// A count, where 0 and less mean that there is none.
fn count(field: &Field<'_>, report: &mut Report) -> Option<u32> {
    match field.value.kind {
        Kind::Integer(number) if number > i64::from(u32::MAX) => {
            report.error(&field.value.position, format!("{} value is too big", field.name()));
            None
        }
        Kind::Integer(number) => u32::try_from(number).ok().filter(|number| *number > 0),
        _ => {
            unparseable(field, "size", report);
            None
        }
    }
}

fn unparseable(field: &Field<'_>, wanted: &str, report: &mut Report) {
    let message =
        format!("Expected a parseable {wanted} for {:?}, got {}", field.written, shown(field.value));
    report.error(&field.value.position, message);
}

/// A size: a number, or a text that ends with K, M, G or T. `name` is what errors call it.
fn size(field: &Field<'_>, name: &str, report: &mut Report) -> Option<i64> {
    let parsed = match &field.value.kind {
        Kind::Integer(number) => Ok(*number),
        Kind::String(text) => size_of_text(text),
        _ => Err("must be int64 or string".into()),
    };
    parsed.map_err(|error| report.error(&field.value.position, format!("{name} {error}"))).ok()
}

fn size_of_text(text: &str) -> Result<i64, String> {
    let Some(suffix) = text.chars().next_back() else { return Ok(0) };
    let digits = &text[..text.len() - suffix.len_utf8()];
    let number: i64 =
        digits.parse().map_err(|_| format!("strconv.ParseInt: parsing {digits:?}: invalid syntax"))?;
    let shift = match suffix {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => return Err("sizes defined as strings must end in K, M, G, T".into()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is out of range"))
}

/// `None` below 0, which leaves the size to the broker.
fn unsigned(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

/// `None` for 0 and less.
fn positive(number: i64) -> Option<u64> {
    unsigned(number).filter(|number| *number > 0)
}

/// `None` for 0.
fn positive_duration(field: &Field<'_>, report: &mut Report) -> Option<Duration> {
    field.strict_duration(report).filter(|duration| !duration.is_zero())
}

fn sync_mode(field: &Field<'_>, report: &mut Report) -> Option<SyncMode> {
    if field.value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("always")) {
        return Some(SyncMode::Always);
    }
    let interval = field.duration(report)?;
    if interval.is_zero() {
        return Some(SyncMode::Always);
    }
    let message = format!(
        "{} of {}: messages are acknowledged before they are on stable storage, and a crash of the machine may lose \
         them; without this option, or with always, they are there first",
        field.written,
        duration::format_duration(interval)
    );
    report.warn(field.position, message);
    Some(SyncMode::Interval(interval))
}

/// A value in a text.
fn shown(value: &Value) -> String {
    match &value.kind {
        Kind::String(text) | Kind::Datetime(text) => text.clone(),
        Kind::Integer(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Bool(value) => value.to_string(),
        kind => kind.name().into(),
    }
}
