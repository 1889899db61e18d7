//! Where the messages of a mirror or of a stream with sources come from.

use std::collections::{BTreeSet, VecDeque};

use super::validate::{Context, invalid};
use super::{External, SourceConsumer, StreamConfig, StreamSource, SubjectTransform};
use crate::ApiError;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::limits::AccountView;
use crate::jetstream::{name, quote, subjects};

/// Prefix of the API.
const API_PREFIX: &str = "$JS.API";

/// What is found out about the origins of a stream.
#[derive(Default)]
pub(super) struct Origins {
    /// Subjects of origins in the account.
    subjects: Vec<String>,
    deliver_prefixes: Vec<String>,
    api_prefixes: Vec<String>,
}

impl Origins {
    /// Keeps the prefixes of an origin elsewhere.
    fn add_external(&mut self, external: &External) {
        self.deliver_prefixes.extend(Some(&external.deliver).filter(|prefix| !prefix.is_empty()).cloned());
        self.api_prefixes.extend(Some(&external.api).filter(|prefix| !prefix.is_empty()).cloned());
    }

    /// Messages of an origin elsewhere must not come back to an origin in the account.
    pub(super) fn check_prefixes(&self) -> Result<(), ApiError> {
        for prefix in &self.deliver_prefixes {
            if !subjects::is_publishable(prefix) {
                return Err(ErrorCode::STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ.because(prefix));
            }
            for subject in &self.subjects {
                if subjects::overlap(subject, &format!("{prefix}.{subject}")) {
                    return Err(ErrorCode::STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS.with(&[prefix, subject]));
                }
            }
        }
        for prefix in &self.api_prefixes {
            if !subjects::is_publishable(prefix) {
                let prefix = quote::double(prefix.as_bytes());
                return Err(invalid(format_args!(
                    "stream external api prefix {prefix} must be a valid subject without wildcards"
                )));
            }
            if subjects::overlap(prefix, API_PREFIX) {
                return Err(ErrorCode::STREAM_EXTERNAL_API_OVERLAP.with(&[prefix, &API_PREFIX]));
            }
        }
        Ok(())
    }
}

/// Checks a mirror, which follows its origin in whether messages may be read from any replica.
pub(super) fn check_mirror(
    config: &mut StreamConfig,
    context: Context<'_>,
    origins: &mut Origins,
) -> Result<(), ApiError> {
    let Some(mirror) = &config.mirror else { return Ok(()) };
    check_mirror_features(config)?;
    check_consumer(mirror, ErrorCode::MIRROR_DURABLE_CONSUMER_CFG_INVALID)?;
    if !mirror.filter_subject.is_empty() && !mirror.subject_transforms.is_empty() {
        return Err(ErrorCode::MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED.into());
    }
    if config.subject_delete_marker_ttl.0 > 0 {
        // A marker would take a sequence that the origin gives to another message.
        return Err(invalid("subject delete markers forbidden on mirrors"));
    }
    for (at, transform) in mirror.subject_transforms.iter().enumerate() {
        check_origin_transform(
            transform,
            ErrorCode::MIRROR_INVALID_SUBJECT_FILTER,
            ErrorCode::MIRROR_INVALID_TRANSFORM_DESTINATION,
        )?;
        let overlaps = |(other, that): (usize, &SubjectTransform)| {
            other != at && subjects::overlap(&transform.source, &that.source)
        };
        if mirror.subject_transforms.iter().enumerate().any(overlaps) {
            return Err(ErrorCode::MIRROR_OVERLAPPING_SUBJECT_FILTERS.into());
        }
    }
    if let Some(external) = &mirror.external {
        origins.add_external(external);
        return Ok(());
    }
    if !name::is_valid(&mirror.name) {
        return Err(ErrorCode::MIRROR_INVALID_STREAM_NAME.into());
    }
    let Some(origin) = context.account.streams.stream(&mirror.name) else { return Ok(()) };
    origins.subjects.extend(origin.subjects.iter().cloned());
    if is_too_small(config, origin) {
        return Err(ErrorCode::MIRROR_MAX_MESSAGE_SIZE_TOO_BIG.into());
    }
    if context.pedantic && config.mirror_direct != origin.allow_direct {
        return Err(ErrorCode::PEDANTIC.because("origin stream has direct get set, mirror has it disabled"));
    }
    config.mirror_direct = origin.allow_direct;
    Ok(())
}

/// What a mirror can not have of its own.
fn check_mirror_features(config: &StreamConfig) -> Result<(), ApiError> {
    let refused = [
        (config.first_seq > 0, ErrorCode::MIRROR_WITH_FIRST_SEQ),
        (!config.subjects.is_empty(), ErrorCode::MIRROR_WITH_SUBJECTS),
        (!config.sources.is_empty(), ErrorCode::MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, ErrorCode::MIRROR_WITH_COUNTERS),
        (config.allow_atomic, ErrorCode::MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, ErrorCode::MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, ErrorCode::MIRROR_WITH_MSG_SCHEDULES),
    ];
    match refused.iter().find(|(applies, _)| *applies) {
        Some((_, error)) => Err((*error).into()),
        None => Ok(()),
    }
}

/// Checks all sources, and that no two are the same.
pub(super) fn check_sources(
    config: &StreamConfig,
    context: Context<'_>,
    origins: &mut Origins,
) -> Result<(), ApiError> {
    if !config.sources.is_empty() && config.allow_msg_schedules {
        return Err(ErrorCode::SOURCE_WITH_MSG_SCHEDULES.into());
    }
    let mut seen = BTreeSet::new();
    let mut consumers = BTreeSet::new();
    for source in &config.sources {
        if !name::is_valid(&source.name) {
            return Err(ErrorCode::SOURCE_INVALID_STREAM_NAME.into());
        }
        if !seen.insert(SourceKey::of(source)) {
            return Err(ErrorCode::SOURCE_DUPLICATE_DETECTED.into());
        }
        check_source_transforms(source)?;
        check_consumer(source, ErrorCode::SOURCE_DURABLE_CONSUMER_CFG_INVALID)?;
        if let Some(consumer) = &source.consumer {
            let api = source.external.as_ref().map(|external| external.api.as_str());
            if !consumers.insert((source.name.as_str(), api, consumer.name.as_str())) {
                return Err(ErrorCode::SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED.into());
            }
        }
        if let Some(external) = &source.external {
            origins.add_external(external);
        } else if let Some(origin) = context.account.streams.stream(&source.name) {
            origins.subjects.extend(origin.subjects.iter().cloned());
            if is_too_small(config, origin) {
                return Err(ErrorCode::SOURCE_MAX_MESSAGE_SIZE_TOO_BIG.into());
            }
        }
    }
    Ok(())
}

/// What makes two sources different.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SourceKey<'a> {
    name: &'a str,
    api: Option<&'a str>,
    consumer: Option<&'a str>,
    filters: Vec<(&'a str, &'a str)>,
}

impl<'a> SourceKey<'a> {
    fn of(source: &'a StreamSource) -> Self {
        let or_all = |subject: &'a str| if subject.is_empty() { subjects::ALL } else { subject };
        let filters = if source.subject_transforms.is_empty() {
            vec![(or_all(&source.filter_subject), subjects::ALL)]
        } else {
            let pair =
                |transform: &'a SubjectTransform| (or_all(&transform.source), or_all(&transform.destination));
            source.subject_transforms.iter().map(pair).collect()
        };
        Self {
            name: &source.name,
            api: source.external.as_ref().map(|external| external.api.as_str()),
            consumer: source.consumer.as_ref().map(|consumer| consumer.name.as_str()),
            filters,
        }
    }
}

fn check_source_transforms(source: &StreamSource) -> Result<(), ApiError> {
    let transforms = &source.subject_transforms;
    if !source.filter_subject.is_empty() && !transforms.is_empty() {
        return Err(ErrorCode::SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED.into());
    }
    for transform in transforms {
        check_origin_transform(
            transform,
            ErrorCode::SOURCE_INVALID_SUBJECT_FILTER,
            ErrorCode::SOURCE_INVALID_TRANSFORM_DESTINATION,
        )?;
    }
    for (at, transform) in transforms.iter().enumerate() {
        let covered = |(other, that): (usize, &SubjectTransform)| {
            other != at && subjects::is_subset(&transform.source, &that.source)
        };
        if transforms.iter().enumerate().any(covered) {
            return Err(ErrorCode::SOURCE_OVERLAPPING_SUBJECT_FILTERS.into());
        }
    }
    Ok(())
}

/// Checks one transform of a mirror or source; faults of its source and of its destination have errors of their own.
fn check_origin_transform(
    transform: &SubjectTransform,
    of_source: ErrorCode,
    of_destination: ErrorCode,
) -> Result<(), ApiError> {
    let source = &transform.source;
    if !source.is_empty() && !subjects::is_valid(source) {
        return Err(of_source.because(format_args!("invalid subject {source}")));
    }
    subjects::check_mapping(source, &transform.destination).map_err(|error| of_destination.because(error))
}

/// A consumer made by the owner decides itself where it begins and what it delivers.
fn check_consumer(source: &StreamSource, error: ErrorCode) -> Result<(), ApiError> {
    let Some(SourceConsumer { name, deliver_subject }) = &source.consumer else { return Ok(()) };
    let valid = name::is_valid(name)
        && subjects::is_publishable(deliver_subject)
        && source.opt_start_seq == 0
        && source.opt_start_time.is_none()
        && source.filter_subject.is_empty();
    if valid { Ok(()) } else { Err(error.into()) }
}

/// Whether messages of the origin may be too large for the stream.
fn is_too_small(config: &StreamConfig, origin: &StreamConfig) -> bool {
    config.max_msg_size > 0 && origin.max_msg_size > 0 && config.max_msg_size < origin.max_msg_size
}

/// Messages must not come back to the stream they came from.
pub(super) fn check_cycle(config: &StreamConfig, account: &AccountView<'_>) -> Result<(), ApiError> {
    let mut waiting = VecDeque::from([config]);
    let mut visited: BTreeSet<&str> = BTreeSet::new();
    while let Some(stream) = waiting.pop_front() {
        visited.insert(&stream.name);
        for source in stream.sources.iter().filter(|source| source.external.is_none()) {
            if visited.contains(source.name.as_str()) {
                if passes(&stream.subjects, &source.filter_subject) {
                    return Err(invalid("detected cycle"));
                }
            } else {
                waiting.extend(account.streams.stream(&source.name));
            }
        }
        let Some(mirror) = stream.mirror.as_ref().filter(|mirror| mirror.external.is_none()) else {
            continue;
        };
        if visited.contains(mirror.name.as_str()) {
            return Err(invalid("detected cycle"));
        }
        waiting.extend(account.streams.stream(&mirror.name));
    }
    Ok(())
}

/// Whether a filter lets any of the subjects through.
fn passes(subjects: &[String], filter: &str) -> bool {
    filter.is_empty() || subjects.iter().any(|subject| subjects::overlap(subject, filter))
}

/// Filters are looked at once the stream has its room.
pub(super) fn check_filters(config: &StreamConfig) -> Result<(), ApiError> {
    let bad = |source: &&StreamSource| {
        source.subject_transforms.is_empty()
            && !source.filter_subject.is_empty()
            && !subjects::is_valid(&source.filter_subject)
    };
    if let Some(mirror) = config.mirror.as_ref().filter(|mirror| bad(mirror)) {
        let filter = &mirror.filter_subject;
        let text = format_args!("subject filter '{filter}' for the mirror invalid subject");
        return Err(ErrorCode::STREAM_CREATE.because(text));
    }
    if let Some(source) = config.sources.iter().find(bad) {
        let filter = &source.filter_subject;
        let text = format_args!("subject filter '{filter}' for the source: invalid subject");
        return Err(ErrorCode::STREAM_CREATE.because(text));
    }
    Ok(())
}
