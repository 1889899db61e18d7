//! Checks and defaults of a consumer by itself and against its stream.
//!
//! The order of the checks is part of the contract: a configuration with several faults is refused for the first.

use super::{AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy, features};
use crate::ApiError;
use crate::duration::Nanos;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::account::Limits;
use crate::jetstream::limits::ServerLimits;
use crate::jetstream::name::{self, DESCRIPTION_BYTES_MAX, METADATA_BYTES_MAX};
use crate::jetstream::stream::{Retention, StreamConfig};
use crate::jetstream::{quote, subjects};

/// How long an acknowledgement is waited for when nothing is said.
pub const ACK_WAIT_DEFAULT: Nanos = Nanos::from_secs(30);
/// Messages that may wait for their acknowledgement when nothing is said.
pub const ACK_PENDING_DEFAULT: i64 = 1_000;
/// Pull requests that may wait when nothing is said.
pub const WAITING_DEFAULT: i64 = 512;
/// How long a consumer that is not durable lives without a client when nothing is said.
pub const INACTIVE_THRESHOLD_DEFAULT: Nanos = Nanos::from_secs(5);
/// How long a silent client stays pinned when nothing is said.
pub const PRIORITY_TIMEOUT_DEFAULT: Nanos = Nanos::from_secs(120);
/// Longest silence of consumers that are acknowledged by flow control.
pub const FLOW_CONTROL_HEARTBEAT: Nanos = Nanos::from_secs(1);

/// Shortest of other silences.
const SHORTEST_HEARTBEAT: Nanos = Nanos::from_millis(100);
/// Shortest bound of the life of a pull request.
const SHORTEST_EXPIRES: Nanos = Nanos::from_millis(1);

fn invalid(text: &str) -> ApiError {
    ErrorCode::STREAM_INVALID_CONFIG.because(text)
}

/// The first error that applies.
fn first_of(refused: &[(bool, ErrorCode)]) -> Result<(), ApiError> {
    match refused.iter().find(|(applies, _)| *applies) {
        Some((_, error)) => Err((*error).into()),
        None => Ok(()),
    }
}

/// Checks a consumer, and fills in what it leaves out but the life of one that is not durable, which [`super::admit`] does last.
/// `limits` are those of the account for its replicas.
///
/// # Errors
/// The error to answer with.
pub fn validate_create(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
    limits: &Limits,
    pedantic: bool,
) -> Result<ConsumerConfig, ApiError> {
    let mut config = config.clone();
    fill(&mut config, stream, server, limits, pedantic)?;
    check(&config, stream, server, limits)?;
    Ok(config)
}

/// A configuration with everything filled in that it leaves out.
///
/// Two configurations ask for the same consumer when they are equal after this, apart from what servers put into the metadata.
/// What is invalid stays so.
pub fn with_defaults(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
    limits: &Limits,
) -> ConsumerConfig {
    let mut config = config.clone();
    let filled = fill(&mut config, stream, server, limits, false);
    assert!(filled.is_ok(), "defaults are refused to pedantic clients only");
    if config.durable_name.is_empty() {
        fill_inactive_threshold(&mut config);
    }
    config
}

/// A consumer that is not durable goes some time after its clients.
pub(super) fn fill_inactive_threshold(config: &mut ConsumerConfig) {
    if config.inactive_threshold.0 <= 0 {
        config.inactive_threshold = INACTIVE_THRESHOLD_DEFAULT;
    }
}

fn fill(
    config: &mut ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
    limits: &Limits,
    pedantic: bool,
) -> Result<(), ApiError> {
    fill_negative(config, pedantic)?;
    if config.is_pull() && config.max_waiting == 0 {
        config.max_waiting = WAITING_DEFAULT;
    }
    if config.ack_wait.is_zero() && matches!(config.ack_policy, AckPolicy::Explicit | AckPolicy::All) {
        config.ack_wait = ACK_WAIT_DEFAULT;
    }
    let unless_lax = |text| if pedantic { Err(ErrorCode::PEDANTIC.because(text)) } else { Ok(()) };
    if let Some(first) = config.backoff.first().copied() {
        if config.ack_wait != first {
            unless_lax("first backoff value has to equal batch AckWait")?;
        }
        config.ack_wait = first;
    }
    let of_stream = stream.consumer_limits;
    if config.max_ack_pending == 0 {
        if of_stream.max_ack_pending > 0 {
            unless_lax("max_ack_pending must be set if it's configured in stream limits")?;
        }
        config.max_ack_pending = of_stream.max_ack_pending;
    }
    if config.inactive_threshold.is_zero() {
        if of_stream.inactive_threshold.0 > 0 {
            unless_lax("inactive_threshold must be set if it's configured in stream limits")?;
        }
        config.inactive_threshold = of_stream.inactive_threshold;
    }
    if config.max_ack_pending == 0 && config.ack_policy != AckPolicy::None {
        let bounds = [server.max_ack_pending, limits.max_ack_pending];
        let bounds = bounds.into_iter().filter(|bound| *bound > 0);
        config.max_ack_pending = bounds.fold(ACK_PENDING_DEFAULT, i64::min);
    }
    if config.is_pull() && config.max_batch == 0 && server.max_request_batch > 0 {
        unless_lax("max_request_batch must be set if it's JetStream limits are set")?;
        config.max_batch = server.max_request_batch;
    }
    if config.priority_policy == PriorityPolicy::PinnedClient && config.priority_timeout.is_zero() {
        config.priority_timeout = PRIORITY_TIMEOUT_DEFAULT;
    }
    if config.ack_policy == AckPolicy::FlowControl && !pedantic {
        config.flow_control = true;
        config.idle_heartbeat = FLOW_CONTROL_HEARTBEAT;
    }
    Ok(())
}

/// Negative numbers stand for "not set", except where -1 stands for "without limit".
fn fill_negative(config: &mut ConsumerConfig, pedantic: bool) -> Result<(), ApiError> {
    let unless_lax = |negative: bool, name: &str, rule: &str| {
        if negative && pedantic {
            return Err(ErrorCode::PEDANTIC.because(format_args!("{name} must {rule}")));
        }
        Ok(negative)
    };
    const UNLIMITED: &str = "be set to -1";
    const POSITIVE: &str = "not be negative";
    unless_lax(config.max_deliver < -1, "max_deliver", UNLIMITED)?;
    if config.max_deliver < 1 {
        config.max_deliver = -1;
    }
    if unless_lax(config.max_waiting < 0, "max_waiting", POSITIVE)? {
        config.max_waiting = 0;
    }
    if unless_lax(config.max_ack_pending < -1, "max_ack_pending", UNLIMITED)? {
        config.max_ack_pending = -1;
    }
    if unless_lax(config.max_batch < 0, "max_batch", POSITIVE)? {
        config.max_batch = 0;
    }
    if unless_lax(config.max_expires.0 < 0, "max_expires", POSITIVE)? {
        config.max_expires = Nanos::ZERO;
    }
    if unless_lax(config.max_bytes < 0, "max_bytes", POSITIVE)? {
        config.max_bytes = 0;
    }
    if unless_lax(config.idle_heartbeat.0 < 0, "idle_heartbeat", POSITIVE)? {
        config.idle_heartbeat = Nanos::ZERO;
    }
    if unless_lax(config.inactive_threshold.0 < 0, "inactive_threshold", POSITIVE)? {
        config.inactive_threshold = Nanos::ZERO;
    }
    if unless_lax(config.priority_timeout.0 < 0, "priority_timeout", POSITIVE)? {
        config.priority_timeout = Nanos::ZERO;
    }
    Ok(())
}

fn check(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
    limits: &Limits,
) -> Result<(), ApiError> {
    check_names(config)?;
    check_replicas(config, stream)?;
    check_ack(config)?;
    if config.description.len() > DESCRIPTION_BYTES_MAX {
        return Err(ErrorCode::CONSUMER_DESCRIPTION_TOO_LONG.because(DESCRIPTION_BYTES_MAX));
    }
    if config.is_pull() {
        check_pull(config, stream, server)?
    } else {
        check_push(config, stream)?
    }
    check_limits(config, stream, server, limits)?;
    first_of(&[
        (config.direct && config.is_pull(), ErrorCode::CONSUMER_DIRECT_REQUIRES_PUSH),
        (config.direct && !config.durable_name.is_empty(), ErrorCode::CONSUMER_DIRECT_REQUIRES_EPHEMERAL),
    ])?;
    check_filters(config)?;
    check_start(config)?;
    check_sampling(config)?;
    let named_twice = !config.durable_name.is_empty() && !config.name.is_empty();
    first_of(&[
        (
            config.flow_control && config.idle_heartbeat.is_zero(),
            ErrorCode::CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS,
        ),
        (
            named_twice && config.name != config.durable_name,
            ErrorCode::CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH,
        ),
    ])?;
    if name::metadata_bytes(&config.metadata) > METADATA_BYTES_MAX {
        let limit = format_args!("{}KB", METADATA_BYTES_MAX / 1024);
        return Err(ErrorCode::CONSUMER_METADATA_LENGTH.because(limit));
    }
    check_priority(config)?;
    features::check(config, stream, server)
}

fn check_names(config: &ConsumerConfig) -> Result<(), ApiError> {
    if !config.name.is_empty() && !name::is_valid(&config.name) {
        return Err(invalid(r"consumer name can not contain '.', '*', '>', '\', '/'"));
    }
    if !config.durable_name.is_empty() && !name::is_valid(&config.durable_name) {
        return Err(invalid(r"consumer durable name can not contain '.', '*', '>', '\', '/'"));
    }
    Ok(())
}

fn check_replicas(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let differs = config.num_replicas != 0 && config.num_replicas != stream.num_replicas;
    first_of(&[
        (config.num_replicas > stream.num_replicas, ErrorCode::CONSUMER_REPLICAS_EXCEEDS_STREAM),
        (config.num_replicas < 0, ErrorCode::REPLICAS_COUNT_CANNOT_BE_NEGATIVE),
        (
            // What every consumer acknowledged is removed, so all must be known wherever the messages are.
            differs && stream.retention != Retention::Limits,
            ErrorCode::CONSUMER_REPLICAS_SHOULD_MATCH_STREAM,
        ),
    ])
}

fn check_ack(config: &ConsumerConfig) -> Result<(), ApiError> {
    first_of(&[
        (config.backoff.iter().any(|wait| wait.0 < 0), ErrorCode::CONSUMER_BACK_OFF_NEGATIVE),
        (config.ack_wait.0 < 0, ErrorCode::CONSUMER_ACK_WAIT_NEGATIVE),
    ])?;
    if config.ack_policy == AckPolicy::FlowControl {
        check_flow_control_ack(config)?;
    }
    let waits = i64::try_from(config.backoff.len()).unwrap_or(i64::MAX);
    first_of(&[(
        waits > 0 && config.max_deliver != -1 && waits > config.max_deliver,
        ErrorCode::CONSUMER_MAX_DELIVER_BACKOFF,
    )])
}

fn check_flow_control_ack(config: &ConsumerConfig) -> Result<(), ApiError> {
    first_of(&[
        (config.is_pull(), ErrorCode::CONSUMER_ACK_FC_REQUIRES_PUSH),
        (!config.flow_control, ErrorCode::CONSUMER_ACK_FC_REQUIRES_FC),
    ])?;
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT {
        return Err(invalid("flow control ack policy heartbeat needs to be 1s"));
    }
    let waits = !config.ack_wait.is_zero() || !config.backoff.is_empty();
    first_of(&[
        (config.max_ack_pending <= 0, ErrorCode::CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING),
        (waits, ErrorCode::CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT),
        (config.max_deliver > 0, ErrorCode::CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER),
    ])
}

fn check_push(config: &ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
    let subject = &config.deliver_subject;
    let cycle = stream.subjects.iter().any(|stored| subjects::is_subset(subject, stored));
    first_of(&[
        (!subjects::is_literal(subject), ErrorCode::CONSUMER_DELIVER_TO_WILDCARDS),
        (!subjects::is_valid(subject), ErrorCode::CONSUMER_INVALID_DELIVER_SUBJECT),
        (cycle, ErrorCode::CONSUMER_DELIVER_CYCLE),
        (config.max_waiting != 0, ErrorCode::CONSUMER_PUSH_MAX_WAITING),
        (
            config.max_ack_pending > 0 && config.ack_policy == AckPolicy::None,
            ErrorCode::CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED,
        ),
        (
            config.idle_heartbeat.0 > 0 && config.idle_heartbeat < SHORTEST_HEARTBEAT,
            ErrorCode::CONSUMER_SMALL_HEARTBEAT,
        ),
    ])
}

fn check_pull(config: &ConsumerConfig, stream: &StreamConfig, server: &ServerLimits) -> Result<(), ApiError> {
    let unacknowledged = config.ack_policy == AckPolicy::None;
    first_of(&[
        (unacknowledged && stream.retention == Retention::WorkQueue, ErrorCode::CONSUMER_PULL_REQUIRES_ACK),
        (config.rate_limit_bps > 0, ErrorCode::CONSUMER_PULL_WITH_RATE_LIMIT),
        (config.idle_heartbeat.0 > 0, ErrorCode::CONSUMER_HB_REQUIRES_PUSH),
        (config.flow_control, ErrorCode::CONSUMER_FC_REQUIRES_PUSH),
        (
            !config.max_expires.is_zero() && config.max_expires < SHORTEST_EXPIRES,
            ErrorCode::CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL,
        ),
    ])?;
    let limit = server.max_request_batch;
    if limit > 0 && config.max_batch > limit {
        return Err(ErrorCode::CONSUMER_MAX_REQUEST_BATCH_EXCEEDED.because(limit));
    }
    Ok(())
}

fn check_limits(
    config: &ConsumerConfig,
    stream: &StreamConfig,
    server: &ServerLimits,
    limits: &Limits,
) -> Result<(), ApiError> {
    let of_stream = stream.consumer_limits;
    for limit in [server.max_ack_pending, limits.max_ack_pending, of_stream.max_ack_pending] {
        if limit > 0 && config.max_ack_pending > limit {
            return Err(ErrorCode::CONSUMER_MAX_PENDING_ACK_EXCESS.because(limit));
        }
    }
    let limit = of_stream.inactive_threshold;
    if limit.0 > 0 && config.inactive_threshold > limit {
        return Err(ErrorCode::CONSUMER_INACTIVE_THRESHOLD_EXCESS.because(limit));
    }
    Ok(())
}

fn check_filters(config: &ConsumerConfig) -> Result<(), ApiError> {
    const BAD_SUBJECT: &str = "invalid subject";
    if !config.filter_subject.is_empty() && !config.filter_subjects.is_empty() {
        return Err(ErrorCode::CONSUMER_DUPLICATE_FILTER_SUBJECTS.into());
    }
    if !config.filter_subject.is_empty() && !subjects::is_valid(&config.filter_subject) {
        return Err(invalid(BAD_SUBJECT));
    }
    let filters = &config.filter_subjects;
    if filters.iter().any(String::is_empty) {
        return Err(ErrorCode::CONSUMER_EMPTY_FILTER.into());
    }
    for (at, filter) in filters.iter().enumerate() {
        if !subjects::is_valid(filter) {
            return Err(invalid(BAD_SUBJECT));
        }
        let covered = |(other, that): (usize, &String)| other != at && subjects::is_subset(filter, that);
        if filters.iter().enumerate().any(covered) {
            return Err(ErrorCode::CONSUMER_OVERLAPPING_SUBJECT_FILTERS.into());
        }
    }
    Ok(())
}

fn check_start(config: &ConsumerConfig) -> Result<(), ApiError> {
    let (sequence, time) = (config.opt_start_seq > 0, config.opt_start_time.is_some());
    let unfiltered = config.filters().is_empty();
    let (policy, fault) = match config.deliver_policy {
        DeliverPolicy::All => ("all", also_set(sequence, time)),
        DeliverPolicy::Last => ("last", also_set(sequence, time)),
        DeliverPolicy::New => ("new", also_set(sequence, time)),
        DeliverPolicy::LastPerSubject => (
            "last per subject",
            also_set(sequence, time).or_else(|| unfiltered.then_some("filter subject is not set")),
        ),
        DeliverPolicy::ByStartSequence if !sequence => {
            ("by start sequence", Some("start sequence is not set"))
        }
        DeliverPolicy::ByStartSequence => ("by start sequence", time.then_some("start time is also set")),
        DeliverPolicy::ByStartTime if !time => ("by start time", Some("start time is not set")),
        // The doubled word is what clients know.
        DeliverPolicy::ByStartTime => {
            ("by start time", sequence.then_some("start start sequence is also set"))
        }
    };
    match fault {
        None => Ok(()),
        Some(fault) => {
            let text = format_args!("consumer delivery policy is deliver {policy}, but optional {fault}");
            Err(ErrorCode::CONSUMER_INVALID_POLICY.because(text))
        }
    }
}

/// What is set for a policy that has no use for it.
fn also_set(sequence: bool, time: bool) -> Option<&'static str> {
    match (sequence, time) {
        (true, _) => Some("start sequence is also set"),
        (_, true) => Some("start time is also set"),
        _ => None,
    }
}

fn check_sampling(config: &ConsumerConfig) -> Result<(), ApiError> {
    let text = config.sample_freq.strip_suffix('%').unwrap_or(&config.sample_freq);
    if config.sample_freq.is_empty() {
        return Ok(());
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fault = match text.parse::<i64>() {
        Ok(0..) => return Ok(()),
        Ok(_) => "<nil>".to_owned(),
        Err(_) => {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            format!("strconv.Atoi: parsing {}: {why}", quote::double(text.as_bytes()))
        }
    };
    Err(ErrorCode::CONSUMER_INVALID_SAMPLING.because(fault))
}

fn check_priority(config: &ConsumerConfig) -> Result<(), ApiError> {
    let groups = &config.priority_groups;
    if config.priority_policy == PriorityPolicy::None {
        return first_of(&[
            (!groups.is_empty(), ErrorCode::CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE),
            (config.priority_timeout.0 > 0, ErrorCode::CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE),
        ]);
    }
    first_of(&[
        (!config.is_pull(), ErrorCode::CONSUMER_PUSH_WITH_PRIORITY_GROUP),
        (groups.is_empty(), ErrorCode::CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP),
    ])?;
    for group in groups {
        first_of(&[
            (group.is_empty(), ErrorCode::CONSUMER_EMPTY_GROUP_NAME),
            (!name::is_valid_group(group), ErrorCode::CONSUMER_INVALID_GROUP_NAME),
        ])?;
    }
    Ok(())
}
