//! Checks and defaults of a stream by itself and against its account.
//!
//! The order of the checks is part of the contract: a configuration with several faults is refused for the first.

use std::fmt::Display;

use super::origin::{self, Origins};
use super::{Discard, PersistMode, Retention, Storage, StreamConfig};
use crate::ApiError;
use crate::duration::Nanos;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::limits::{AccountView, ServerLimits, check_room};
use crate::jetstream::name::{self, DESCRIPTION_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX};
use crate::jetstream::request::StreamRequest;
use crate::jetstream::subjects::{self, ALL};
use crate::jetstream::{metadata, quote};

/// Most replicas of a stream.
pub const REPLICAS_MAX: i64 = 5;
/// Highest sequence that a request may lead a stream to, and the last one that a publisher gets. What a stream stores by itself may lie above: there is
/// room enough that nothing ever counts to the end of numbers.
pub const SEQUENCE_MAX: u64 = 1 << 62;
/// How long message ids are remembered when nothing is said.
pub const DUPLICATE_WINDOW_DEFAULT: Nanos = Nanos::from_secs(120);

/// Shortest life of a message and shortest memory of message ids.
const SHORTEST_AGE: Nanos = Nanos::from_millis(100);
/// Shortest life of a marker.
const SHORTEST_MARKER_TTL: Nanos = Nanos::from_secs(1);

/// Subjects that only a stream without acknowledgements may store: those that acknowledgements themselves travel on.
const INTERNAL: [&str; 3] = ["$JS.>", "$JSC.>", "$NRG.>"];

/// What a configuration is checked against.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) server: &'a ServerLimits,
    pub(super) account: &'a AccountView<'a>,
    /// Refuse what would otherwise be put right.
    pub(super) pedantic: bool,
}

pub(super) fn invalid(text: impl Display) -> ApiError {
    ErrorCode::STREAM_INVALID_CONFIG.because(text)
}

/// The refusal of what a client that is not pedantic has put right for it.
fn unless_lax(pedantic: bool, text: &str) -> Result<(), ApiError> {
    if pedantic { Err(ErrorCode::PEDANTIC.because(text)) } else { Ok(()) }
}

/// Checks a request to create the stream of this name, and fills in what it leaves out.
///
/// When the account has the stream already with the same configuration, that is no error: the stream is to be left as it is.
///
/// # Errors
/// The error to answer with.
pub fn create_request(
    name: &str,
    request: &StreamRequest,
    server: &ServerLimits,
    account: &AccountView<'_>,
) -> Result<StreamConfig, ApiError> {
    let mut config = request.config.clone();
    let level = metadata::stream_level(&config);
    metadata::set_required_level(&mut config.metadata, level);
    if config.name != name {
        return Err(ErrorCode::STREAM_MISMATCH.into());
    }
    if name::has_path_separator(name) {
        return Err(ErrorCode::STREAM_NAME_CONTAINS_PATH_SEPARATORS.into());
    }
    if config.sealed {
        return Err(invalid("stream configuration for create can not be sealed"));
    }
    if config.mirror_direct && config.mirror.is_none() {
        return Err(invalid("stream has no mirror but does have mirror direct"));
    }
    create(&config, Context { server, account, pedantic: request.pedantic }, request.storage_given)
}

/// Checks a new stream, and fills in what it leaves out. The required level must be in its metadata.
///
/// # Errors
/// The error to answer with.
pub fn validate_create(
    config: &StreamConfig,
    server: &ServerLimits,
    account: &AccountView<'_>,
    pedantic: bool,
) -> Result<StreamConfig, ApiError> {
    create(config, Context { server, account, pedantic }, true)
}

/// With `room_first` a stream that finds no room is refused before anything else about it is.
fn create(config: &StreamConfig, context: Context<'_>, room_first: bool) -> Result<StreamConfig, ApiError> {
    let Context { server, account, .. } = context;
    check_stream_count(config, account)?;
    if room_first {
        let selected = account.limits.select(config.num_replicas)?;
        check_room(config, config.max_bytes, account.reserved(selected, config), selected, server)?;
    }
    let mut config = check(config, context)?;
    if config.num_replicas > 1 && !server.clustered {
        return Err(ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED.into());
    }
    if let Some(present) = account.streams.stream(&config.name) {
        let level = config.metadata.get(metadata::REQUIRED_LEVEL).cloned();
        metadata::copy_level(&mut config.metadata, &present.metadata);
        if config != *present {
            return Err(ErrorCode::STREAM_NAME_EXIST.into());
        }
        config.metadata.extend(level.map(|level| (metadata::REQUIRED_LEVEL.to_owned(), level)));
        return Ok(config);
    }
    let selected = account.limits.select(config.num_replicas)?;
    check_room(&config, config.max_bytes, account.reserved(selected, &config), selected, server)?;
    origin::check_filters(&config)?;
    check_overlap(&config, account)?;
    Ok(config)
}

/// A configuration with everything filled in that depends on nothing but itself and the server.
///
/// Two configurations ask for the same stream when they are equal after this, apart from what servers put into the metadata and from
/// `mirror_direct`, which follows the origin. What is invalid stays so.
pub fn with_defaults(config: &StreamConfig, server: &ServerLimits) -> StreamConfig {
    let mut config = config.clone();
    if config.num_replicas == 0 {
        config.num_replicas = 1;
    }
    fill_subjects(&mut config);
    let filled = fill_counts(&mut config, false)
        .and_then(|()| fill_duplicate_window(&mut config, server, false))
        .and_then(|()| fill_markers(&mut config, false))
        .and_then(|()| fill_schedules(&mut config, false))
        .and_then(|()| fill_republish(&mut config, false));
    assert!(filled.is_ok(), "defaults are refused to pedantic clients only");
    fill_placement(&mut config);
    config
}

/// The account may have another stream.
fn check_stream_count(config: &StreamConfig, account: &AccountView<'_>) -> Result<(), ApiError> {
    let selected = account.limits.select(config.num_replicas)?;
    let streams_max = selected.limits.max_streams;
    if streams_max > 0 && account.stream_count(selected, &config.name) >= streams_max {
        return Err(ErrorCode::MAXIMUM_STREAMS_LIMIT.into());
    }
    Ok(())
}

/// No other stream of the account may store the same subjects.
pub(super) fn check_overlap(config: &StreamConfig, account: &AccountView<'_>) -> Result<(), ApiError> {
    let overlaps = account.streams.overlaps(&config.name, &config.subjects);
    if overlaps { Err(ErrorCode::STREAM_SUBJECT_OVERLAP.into()) } else { Ok(()) }
}

/// All checks that creation and update share, and the defaults.
pub(super) fn check(config: &StreamConfig, context: Context<'_>) -> Result<StreamConfig, ApiError> {
    let Context { server, account, pedantic } = context;
    check_texts(config)?;
    let mut config = config.clone();
    check_replicas(&mut config)?;
    fill_counts(&mut config, pedantic)?;
    check_age(&config)?;
    check_beginning(&config)?;
    fill_duplicate_window(&mut config, server, pedantic)?;
    check_duplicate_window(&config, server)?;
    check_combinations(&config)?;
    check_marker_ttl(&config)?;
    fill_markers(&mut config, pedantic)?;
    check_schedules(&config)?;
    fill_schedules(&mut config, pedantic)?;
    check_persist_mode(&config)?;
    let mut origins = Origins::default();
    origin::check_mirror(&mut config, context, &mut origins)?;
    origin::check_sources(&config, context, &mut origins)?;
    origins.check_prefixes()?;
    origin::check_cycle(&config, account)?;
    fill_subjects(&mut config);
    check_subjects(&config)?;
    check_bytes(&config, account)?;
    check_transform(&config)?;
    fill_republish(&mut config, pedantic)?;
    check_republish(&config)?;
    fill_placement(&mut config);
    if config.placement.as_ref().is_some_and(|placement| !placement.preferred.is_empty()) {
        return Err(invalid("preferred server not permitted in placement"));
    }
    Ok(config)
}

fn check_texts(config: &StreamConfig) -> Result<(), ApiError> {
    if !name::is_valid(&config.name) {
        return Err(invalid(r"stream name is required and can not contain '.', '*', '>', '\', '/'"));
    }
    if config.name.len() > NAME_BYTES_MAX {
        return Err(invalid(format_args!("stream name is too long, maximum allowed is {NAME_BYTES_MAX}")));
    }
    if config.description.len() > DESCRIPTION_BYTES_MAX {
        return Err(invalid(format_args!(
            "stream description is too long, maximum allowed is {DESCRIPTION_BYTES_MAX}"
        )));
    }
    if name::metadata_bytes(&config.metadata) > METADATA_BYTES_MAX {
        return Err(invalid(format_args!(
            "stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

fn check_replicas(config: &mut StreamConfig) -> Result<(), ApiError> {
    if config.num_replicas == 0 {
        config.num_replicas = 1;
    }
    if config.num_replicas > REPLICAS_MAX {
        return Err(invalid(format_args!("maximum replicas is {REPLICAS_MAX}")));
    }
    if config.num_replicas < 0 {
        return Err(ErrorCode::REPLICAS_COUNT_CANNOT_BE_NEGATIVE.into());
    }
    Ok(())
}

/// Counts without a limit become -1.
fn fill_counts(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    let fill = |count: &mut i64, name: &str| {
        if *count < -1 {
            unless_lax(pedantic, &format!("{name} must be set to -1"))?;
        }
        if *count < 1 {
            *count = -1;
        }
        Ok::<_, ApiError>(())
    };
    fill(&mut config.max_msgs, "max_msgs")?;
    fill(&mut config.max_msgs_per_subject, "max_msgs_per_subject")?;
    fill(&mut config.max_bytes, "max_bytes")?;
    let mut size = i64::from(config.max_msg_size);
    fill(&mut size, "max_msg_size")?;
    if size < 0 {
        config.max_msg_size = -1;
    }
    fill(&mut config.max_consumers, "max_consumers")
}

fn check_age(config: &StreamConfig) -> Result<(), ApiError> {
    if config.max_age.0 < 0 {
        return Err(invalid("max age can not be negative"));
    }
    if !config.max_age.is_zero() && config.max_age < SHORTEST_AGE {
        return Err(invalid("max age needs to be >= 100ms"));
    }
    Ok(())
}

fn check_beginning(config: &StreamConfig) -> Result<(), ApiError> {
    if config.first_seq > SEQUENCE_MAX {
        return Err(invalid(format_args!("first sequence can not be above {SEQUENCE_MAX}")));
    }
    Ok(())
}

/// Streams that store what clients publish remember message ids, as long as server and messages live.
fn fill_duplicate_window(
    config: &mut StreamConfig,
    server: &ServerLimits,
    pedantic: bool,
) -> Result<(), ApiError> {
    if !config.duplicate_window.is_zero() || config.mirror.is_some() || !config.sources.is_empty() {
        return Ok(());
    }
    let mut window = DUPLICATE_WINDOW_DEFAULT;
    if server.duplicate_window.0 > 0 && window > server.duplicate_window {
        unless_lax(pedantic, "duplicate window limits are higher than current limits")?;
        window = server.duplicate_window;
    }
    if !config.max_age.is_zero() && config.max_age < window {
        unless_lax(pedantic, "duplicate window cannot be bigger than max age")?;
        window = config.max_age;
    }
    config.duplicate_window = window;
    Ok(())
}

fn check_duplicate_window(config: &StreamConfig, server: &ServerLimits) -> Result<(), ApiError> {
    let window = config.duplicate_window;
    if window.0 < 0 {
        return Err(invalid("duplicates window can not be negative"));
    }
    if !config.max_age.is_zero() && window > config.max_age {
        return Err(invalid("duplicates window can not be larger then max age"));
    }
    let limit = server.duplicate_window;
    if limit.0 > 0 && window > limit {
        return Err(invalid(format_args!(
            "duplicates window can not be larger then server limit of {limit}"
        )));
    }
    if window.0 > 0 && window < SHORTEST_AGE {
        return Err(invalid("duplicates window needs to be >= 100ms"));
    }
    Ok(())
}

/// Features that exclude or need each other.
fn check_combinations(config: &StreamConfig) -> Result<(), ApiError> {
    let counter = config.allow_msg_counter;
    let per_subject = config.discard_new_per_subject;
    let refused = [
        (config.deny_purge && config.allow_rollup_hdrs, "roll-ups require the purge permission"),
        (counter && config.discard == Discard::New, "counter stream cannot use discard new"),
        (counter && config.allow_msg_ttl, "counter stream cannot use message TTLs"),
        (counter && config.allow_msg_schedules, "counter stream cannot use message schedules"),
        (counter && config.retention != Retention::Limits, "counter stream can only use limits retention"),
        (
            per_subject && config.discard != Discard::New,
            "discard new per subject requires discard new policy to be set",
        ),
        (
            per_subject && config.max_msgs_per_subject <= 0,
            "discard new per subject requires max msgs per subject > 0",
        ),
    ];
    first_refused(&refused)
}

fn first_refused(refused: &[(bool, &str)]) -> Result<(), ApiError> {
    match refused.iter().find(|(applies, _)| *applies) {
        Some((_, text)) => Err(invalid(text)),
        None => Ok(()),
    }
}

fn check_marker_ttl(config: &StreamConfig) -> Result<(), ApiError> {
    let ttl = config.subject_delete_marker_ttl;
    first_refused(&[
        (ttl.0 > 0 && ttl < SHORTEST_MARKER_TTL, "subject delete marker TTL must be at least 1 second"),
        (ttl.0 < 0, "subject delete marker TTL must not be negative"),
    ])
}

/// Markers need lives of their own and must be able to remove what they mark.
fn fill_markers(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if config.subject_delete_marker_ttl.0 <= 0 {
        return Ok(());
    }
    first_refused(&[
        (
            pedantic && !config.allow_msg_ttl,
            "subject delete marker cannot be set if message TTLs are disabled",
        ),
        (
            pedantic && !config.allow_rollup_hdrs,
            "subject delete marker cannot be set if roll-ups are disabled",
        ),
    ])?;
    config.allow_msg_ttl = true;
    allow_rollup(config);
    Ok(())
}

fn check_schedules(config: &StreamConfig) -> Result<(), ApiError> {
    first_refused(&[(
        config.allow_msg_schedules && config.discard == Discard::New,
        "message scheduling cannot use discard new",
    )])
}

/// A schedule replaces the one before it.
fn fill_schedules(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    if !config.allow_msg_schedules {
        return Ok(());
    }
    first_refused(&[(
        pedantic && !config.allow_rollup_hdrs,
        "message scheduling cannot be set if roll-ups are disabled",
    )])?;
    allow_rollup(config);
    Ok(())
}

fn allow_rollup(config: &mut StreamConfig) {
    if !config.allow_rollup_hdrs {
        config.allow_rollup_hdrs = true;
        config.deny_purge = false;
    }
}

fn check_persist_mode(config: &StreamConfig) -> Result<(), ApiError> {
    let asynchronous = config.persist_mode == PersistMode::Async;
    first_refused(&[
        (
            asynchronous && config.storage != Storage::File,
            "async persist mode is only supported on file storage",
        ),
        (
            asynchronous && config.num_replicas > 1,
            "async persist mode is not supported on replicated streams",
        ),
        (
            asynchronous && config.allow_atomic,
            "async persist mode is not supported with atomic batch publish",
        ),
    ])
}

/// A stream that takes nothing from others stores the subject of its name.
fn fill_subjects(config: &mut StreamConfig) {
    if config.subjects.is_empty() && config.mirror.is_none() && config.sources.is_empty() {
        config.subjects.push(config.name.clone());
    }
}

fn check_subjects(config: &StreamConfig) -> Result<(), ApiError> {
    for (at, subject) in config.subjects.iter().enumerate() {
        if !subjects::is_valid(subject) {
            return Err(invalid("invalid subject"));
        }
        first_refused(&[
            (subject == ALL && !config.no_ack, "capturing all subjects requires no-ack to be true"),
            (subject == ALL && config.num_replicas != 1, "capturing all subjects requires replicas of 1"),
        ])?;
        if !config.no_ack {
            check_internal(subject)?;
        }
        if let Some(other) = config.subjects[at + 1..].iter().find(|other| subjects::overlap(other, subject))
        {
            let (subject, other) = (quote::double(subject.as_bytes()), quote::double(other.as_bytes()));
            return Err(invalid(format_args!("subject {subject} overlaps with {other}")));
        }
    }
    Ok(())
}

/// An acknowledgement must not be stored and acknowledged in turn.
fn check_internal(subject: &str) -> Result<(), ApiError> {
    let overlaps = INTERNAL.iter().any(|internal| subjects::overlap(subject, internal));
    first_refused(&[
        (
            // Streams of events were made before this was refused.
            overlaps && !subjects::is_subset(subject, "$JS.EVENT.>"),
            "subjects that overlap with jetstream api require no-ack to be true",
        ),
        (
            subjects::overlap(subject, "$SYS.>") && !subjects::is_subset(subject, "$SYS.ACCOUNT.>"),
            "subjects that overlap with system api require no-ack to be true",
        ),
    ])
}

fn check_bytes(config: &StreamConfig, account: &AccountView<'_>) -> Result<(), ApiError> {
    // Without a fitting tier the stream is refused later, in other words.
    let Ok(selected) = account.limits.select(config.num_replicas) else { return Ok(()) };
    let limits = selected.limits;
    let limit = match config.storage {
        Storage::Memory => limits.memory_max_stream_bytes,
        Storage::File => limits.storage_max_stream_bytes,
    };
    if limits.max_bytes_required && config.max_bytes <= 0 {
        return Err(ErrorCode::STREAM_MAX_BYTES_REQUIRED.into());
    }
    if limit > 0 && config.max_bytes > limit {
        return Err(ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED.into());
    }
    Ok(())
}

fn check_transform(config: &StreamConfig) -> Result<(), ApiError> {
    let Some(transform) = &config.subject_transform else { return Ok(()) };
    let source = &transform.source;
    if !source.is_empty() && !subjects::is_valid(source) {
        let text = format_args!("invalid subject {source}");
        return Err(ErrorCode::STREAM_TRANSFORM_INVALID_SOURCE.because(text));
    }
    subjects::check_mapping(source, &transform.destination)
        .map_err(|error| ErrorCode::STREAM_TRANSFORM_INVALID_DESTINATION.because(error))
}

fn fill_republish(config: &mut StreamConfig, pedantic: bool) -> Result<(), ApiError> {
    let Some(republish) = &mut config.republish else { return Ok(()) };
    if republish.source.is_empty() {
        unless_lax(pedantic, "republish source can not be empty")?;
        ALL.clone_into(&mut republish.source);
    }
    let Some(transform) = &config.subject_transform else { return Ok(()) };
    // From everything to everything would be a cycle, unless a transform of the only subject takes it elsewhere.
    let everything = republish.destination == ALL && republish.source == ALL;
    if everything && config.subjects.len() == 1 && config.subjects[0] == transform.source {
        unless_lax(pedantic, "implicit republish based on subject transform")?;
        republish.source.clone_from(&transform.destination);
        republish.destination.clone_from(&transform.destination);
    }
    Ok(())
}

fn check_republish(config: &StreamConfig) -> Result<(), ApiError> {
    let Some(republish) = &config.republish else { return Ok(()) };
    let (source, destination) = (&republish.source, &republish.destination);
    if config.subjects.iter().any(|subject| subjects::overlap(destination, subject)) {
        return Err(invalid("stream configuration for republish destination forms a cycle"));
    }
    // Without a destination nothing is published again.
    if !destination.is_empty() && subjects::check_transform(source, destination).is_err() {
        return Err(invalid(format_args!(
            "stream configuration for republish with transform from '{source}' to '{destination}' not valid"
        )));
    }
    Ok(())
}

fn fill_placement(config: &mut StreamConfig) {
    if config.placement.as_ref().is_some_and(super::Placement::is_empty) {
        config.placement = None;
    }
}
