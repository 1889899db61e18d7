//! Whether a stream takes a consumer, beside those it has.

use std::collections::BTreeMap;

use super::validate::fill_inactive_threshold;
use super::{AckPolicy, ConsumerAction, ConsumerConfig, DeliverPolicy, validate_create};
use crate::ApiError;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::account::Limits;
use crate::jetstream::limits::{AccountLimits, ServerLimits};
use crate::jetstream::name::{self, NAME_BYTES_MAX};
use crate::jetstream::request::CreateConsumerRequest;
use crate::jetstream::stream::{Retention, StreamConfig};
use crate::jetstream::{metadata, subjects};

/// The consumers of a stream.
pub trait Consumers {
    /// The consumer with this name.
    fn consumer(&self, name: &str) -> Option<&ConsumerConfig>;

    /// Calls the function with every consumer and its name.
    fn visit(&self, function: &mut dyn FnMut(&str, &ConsumerConfig));

    /// How many count in limits: those of mirrors and sources do not.
    fn count(&self) -> i64 {
        let mut count = 0;
        self.visit(&mut |_, consumer| count += i64::from(!consumer.is_internal()));
        count
    }

    /// Whether someone listens to a subject in the account.
    fn has_interest(&self, subject: &str) -> bool;
}

impl Consumers for BTreeMap<String, ConsumerConfig> {
    fn consumer(&self, name: &str) -> Option<&ConsumerConfig> {
        self.get(name)
    }

    fn visit(&self, function: &mut dyn FnMut(&str, &ConsumerConfig)) {
        self.iter().for_each(|(name, config)| function(name, config));
    }

    /// Nobody listens.
    fn has_interest(&self, _: &str) -> bool {
        false
    }
}

/// What is to be done with a consumer that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Make it. Without a name it is to be given one.
    Create(ConsumerConfig),
    /// Change the one of this name, if there is a difference.
    Update(ConsumerConfig),
}

/// What a consumer is checked against.
#[derive(Clone, Copy)]
pub struct StreamView<'a> {
    /// The stream.
    pub config: &'a StreamConfig,
    /// Its consumers.
    pub consumers: &'a dyn Consumers,
    /// What the server allows.
    pub server: &'a ServerLimits,
    /// What the account may use.
    pub limits: &'a AccountLimits,
}

/// The subject of a request to create a consumer, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSubject<'s> {
    /// The stream.
    pub stream: &'s str,
    form: Form<'s>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form<'s> {
    /// `CREATE.<stream>`: the name, if any, is in the body.
    Unnamed,
    /// `DURABLE.CREATE.<stream>.<name>`.
    Durable(&'s str),
    /// `CREATE.<stream>.<name>[.<filter>]`.
    Named(&'s str, &'s str),
}

impl<'s> CreateSubject<'s> {
    /// Reads what follows `$JS.API.CONSUMER.`; `None` if it is no such subject.
    ///
    /// # Errors
    /// When it is the form for durable consumers and does not have their tokens.
    pub fn parse(subject: &'s str) -> Result<Option<Self>, ApiError> {
        if let Some(rest) = subject.strip_prefix("DURABLE.CREATE.") {
            return match rest.split_once('.') {
                Some((stream, name)) if !name.contains('.') => {
                    Ok(Some(Self { stream, form: Form::Durable(name) }))
                }
                _ => Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT.into()),
            };
        }
        let Some(rest) = subject.strip_prefix("CREATE.") else { return Ok(None) };
        let Some((stream, rest)) = rest.split_once('.') else {
            return Ok(Some(Self { stream: rest, form: Form::Unnamed }));
        };
        let (name, filter) = rest.split_once('.').unwrap_or((rest, ""));
        Ok(Some(Self { stream, form: Form::Named(name, filter) }))
    }
}

/// Checks that the body of a request to create a consumer agrees with its subject, and takes the name from there.
///
/// # Errors
/// The error to answer with.
pub fn create_request(
    subject: &CreateSubject<'_>,
    request: &mut CreateConsumerRequest,
    server: &ServerLimits,
) -> Result<(), ApiError> {
    if subject.stream != request.stream_name {
        return Err(ErrorCode::STREAM_MISMATCH.into());
    }
    let config = &mut request.config;
    let name = match subject.form {
        Form::Unnamed => config.name.as_str(),
        Form::Durable(name) | Form::Named(name, _) => name,
    };
    if name::has_path_separator(name) {
        return Err(ErrorCode::CONSUMER_NAME_CONTAINS_PATH_SEPARATORS.into());
    }
    let durable = !config.durable_name.is_empty();
    match subject.form {
        Form::Durable(_) if !durable => return Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_SET.into()),
        Form::Durable(name) | Form::Named(name, _) => {
            if durable && config.durable_name != name {
                return Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT.into());
            }
            name.clone_into(&mut config.name);
        }
        Form::Unnamed if durable => return Err(ErrorCode::CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.into()),
        Form::Unnamed => {}
    }
    if let Form::Named(_, filter) = subject.form
        && !filter.is_empty()
    {
        if !config.filter_subjects.is_empty() {
            return Err(ErrorCode::CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED.into());
        }
        if config.filter_subject != filter {
            return Err(ErrorCode::CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH.into());
        }
    }
    if config.num_replicas > 1 && !server.clustered {
        return Err(ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED.into());
    }
    Ok(())
}

/// Makes the consumer of a mirror or source one that lasts, where messages wait for its acknowledgements.
///
/// False if it is such a consumer but stays as it is; then the caller appends a random suffix to its name, which the other side
/// uses for all its attempts.
pub fn upgrade_sourcing(config: &mut ConsumerConfig, stream: &StreamConfig) -> bool {
    if !config.direct || !config.sourcing || config.name.is_empty() {
        return true;
    }
    if stream.retention == Retention::Limits {
        return false;
    }
    config.direct = false;
    config.durable_name.clone_from(&config.name);
    config.ack_policy = AckPolicy::FlowControl;
    config.ack_wait = crate::duration::Nanos::ZERO;
    config.max_deliver = 0;
    config.inactive_threshold = crate::duration::Nanos::ZERO;
    true
}

/// Decides about a consumer whose request agrees with its subject, and fills in what it leaves out.
///
/// # Errors
/// The error to answer with.
pub fn admit(
    config: &ConsumerConfig,
    action: ConsumerAction,
    stream: StreamView<'_>,
    pedantic: bool,
) -> Result<Admission, ApiError> {
    let mut config = config.clone();
    if let Some(present) = stream.consumers.consumer(config.effective_name()) {
        keep_present(&mut config, present);
    }
    let level = metadata::consumer_level(&config);
    metadata::set_required_level(&mut config.metadata, level);
    let limits = stream.limits.select(config.replicas(stream.config))?.limits;
    let mut config = validate_create(&config, stream.config, stream.server, limits, pedantic)?;
    let name = if config.durable_name.is_empty() { &config.name } else { &config.durable_name };
    if let Some(present) = stream.consumers.consumer(name) {
        if action == ConsumerAction::Create {
            metadata::copy_level(&mut config.metadata, &present.metadata);
            if config != *present {
                return Err(ErrorCode::CONSUMER_ALREADY_EXISTS.into());
            }
        }
        let is_queue = stream.config.retention == Retention::WorkQueue;
        if is_queue && !is_unique(&config, stream.consumers) {
            return Err(ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE.into());
        }
        validate_update(present, &config, |subject| stream.consumers.has_interest(subject))?;
        // One that was durable and lost that by an update has no threshold until an update changes it.
        if present.durable_name.is_empty() && config.inactive_threshold != present.inactive_threshold {
            fill_inactive_threshold(&mut config);
        }
        return Ok(Admission::Update(config));
    }
    if action == ConsumerAction::Update {
        return Err(ErrorCode::CONSUMER_DOES_NOT_EXIST.into());
    }
    if !config.is_internal() {
        check_count(stream, limits)?;
        check_queue(&config, stream)?;
    }
    if config.durable_name.len() > NAME_BYTES_MAX {
        return Err(ErrorCode::CONSUMER_NAME_TOO_LONG.because(NAME_BYTES_MAX));
    }
    if config.name.len() > NAME_BYTES_MAX {
        return Err(ErrorCode::CONSUMER_CREATE.because("error creating store for consumer"));
    }
    if config.durable_name.is_empty() {
        fill_inactive_threshold(&mut config);
    }
    Ok(Admission::Create(config))
}

/// What creation can not change of a consumer that is there.
fn keep_present(config: &mut ConsumerConfig, present: &ConsumerConfig) {
    config.pause_until = present.pause_until;
    if config.sourcing && !config.durable_name.is_empty() {
        config.deliver_policy = present.deliver_policy;
        config.opt_start_seq = present.opt_start_seq;
        config.opt_start_time = present.opt_start_time;
    }
}

fn check_count(stream: StreamView<'_>, limits: &Limits) -> Result<(), ApiError> {
    let mut max = stream.config.max_consumers;
    if max <= 0 || (limits.max_consumers > 0 && limits.max_consumers < max) {
        max = limits.max_consumers;
    }
    if max <= 0 {
        max = stream.server.default_max_consumers;
    }
    if max > 0 && stream.consumers.count() >= max {
        return Err(ErrorCode::MAXIMUM_CONSUMERS_LIMIT.into());
    }
    Ok(())
}

/// Each message of a work queue belongs to one consumer.
fn check_queue(config: &ConsumerConfig, stream: StreamView<'_>) -> Result<(), ApiError> {
    if stream.config.retention != Retention::WorkQueue {
        return Ok(());
    }
    if !matches!(config.ack_policy, AckPolicy::Explicit | AckPolicy::FlowControl) {
        return Err(ErrorCode::CONSUMER_WQ_REQUIRES_EXPLICIT_ACK.into());
    }
    if config.deliver_policy != DeliverPolicy::All {
        return Err(ErrorCode::CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL.into());
    }
    if stream.consumers.count() == 0 {
        return Ok(());
    }
    if config.filters().is_empty() {
        return Err(ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED.into());
    }
    if !is_unique(config, stream.consumers) {
        return Err(ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE.into());
    }
    Ok(())
}

/// Whether no other consumer gets a message that this one gets.
fn is_unique(config: &ConsumerConfig, consumers: &dyn Consumers) -> bool {
    let own_name = config.effective_name();
    let mut unique = true;
    consumers.visit(&mut |name, other| {
        if name == own_name || other.is_internal() {
            return;
        }
        let theirs = other.filters();
        unique &= config
            .filters()
            .iter()
            .all(|own| !theirs.is_empty() && !theirs.iter().any(|filter| subjects::overlap(own, filter)));
    });
    unique
}

/// Checks the change of a consumer; both configurations have their defaults. `has_interest` tells whether someone listens to a
/// subject in the account.
///
/// # Errors
/// The error to answer with.
pub fn validate_update(
    old: &ConsumerConfig,
    new: &ConsumerConfig,
    has_interest: impl Fn(&str) -> bool,
) -> Result<(), ApiError> {
    if old == new {
        return Ok(());
    }
    let refused = |text| Err(ErrorCode::CONSUMER_CREATE.because(text));
    let fixed = [
        (old.deliver_policy != new.deliver_policy, "deliver policy can not be updated"),
        (old.mem_storage != new.mem_storage, "storage type can not be updated"),
        (old.direct != new.direct, "direct can not be updated"),
        (old.sourcing != new.sourcing, "sourcing can not be updated"),
        (old.opt_start_seq != new.opt_start_seq, "start sequence can not be updated"),
        (old.opt_start_time != new.opt_start_time, "start time can not be updated"),
        (old.ack_policy != new.ack_policy, "ack policy can not be updated"),
        (old.replay_policy != new.replay_policy, "replay policy can not be updated"),
        (old.idle_heartbeat != new.idle_heartbeat, "heart beats can not be updated"),
        (old.flow_control != new.flow_control, "flow control can not be updated"),
        (old.is_pull() && !new.is_pull(), "can not update pull consumer to push based"),
        (!old.is_pull() && new.is_pull(), "can not update push consumer to pull based"),
    ];
    if let Some((_, text)) = fixed.iter().find(|(differs, _)| *differs) {
        return refused(*text);
    }
    if old.deliver_subject != new.deliver_subject && has_interest(&old.deliver_subject) {
        return Err(ErrorCode::CONSUMER_NAME_EXIST.into());
    }
    if old.max_waiting != new.max_waiting {
        return refused("max waiting can not be updated");
    }
    Ok(())
}
