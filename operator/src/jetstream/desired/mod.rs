//! What a spec asks for, as configurations of the server's own types. Pure.
//!
//! The checks and defaults are those that a server applies to a request, by the same code, so that a spec that no server
//! would take never leaves the operator.

mod bucket;
mod consumer;
mod stream;

use api::duration::Nanos;
use api::jetstream::account::Limits;
use api::jetstream::limits::{AccountLimits, ServerLimits};
use api::jetstream::name;
use api::jetstream::stream::StreamConfig;
use crd::common::DurationError;
use crd::jetstream::parts::{Placement, Republish, Source, Storage};
use crd::jetstream::span::Span;

pub use bucket::{key_value, object_store};
pub use consumer::{DesiredConsumer, consumer};
pub use stream::stream;

/// What an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Desired {
    /// A stream, filled in.
    Stream(Box<StreamConfig>),
    /// A consumer, which its stream completes.
    Consumer(Box<DesiredConsumer>),
}

impl Desired {
    /// Name of the stream that is managed, or whose consumer is.
    #[must_use]
    pub fn stream_name(&self) -> &str {
        match self {
            Self::Stream(config) => &config.name,
            Self::Consumer(consumer) => &consumer.stream,
        }
    }
}

/// Why a spec cannot be acted on. Each text says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    /// A duration that cannot be read.
    #[error("{field}: {source}")]
    Duration {
        /// Where it stands.
        field: &'static str,
        /// What is wrong with it.
        source: DurationError,
    },
    /// A time that cannot be read.
    #[error("{field}: `{text}` is not a time: write it as 2026-01-31T12:00:00Z")]
    Time {
        /// Where it stands.
        field: &'static str,
        /// The text.
        text: String,
    },
    /// An amount of bytes that cannot be read.
    #[error("{field}: `{text}` is not an amount of bytes: write a number, or a quantity such as 10Gi")]
    Size {
        /// Where it stands.
        field: &'static str,
        /// The text.
        text: String,
    },
    /// A value that no server takes.
    #[error("{field}: {problem}")]
    Field {
        /// Where it stands.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A server would refuse it, in its own words.
    #[error("a server would refuse this: {0}")]
    Refused(String),
}

/// Prefix of names in metadata that are ours.
const RESERVED: &str = crd::jetstream::metadata::PREFIX;

pub(super) fn problem(field: &'static str, problem: impl Into<String>) -> SpecProblem {
    SpecProblem::Field { field, problem: problem.into() }
}

/// Limits of a server that has none and knows all features: what is left are the rules.
pub(super) fn any_server() -> ServerLimits {
    ServerLimits { clustered: true, ..ServerLimits::default() }
}

/// An account without limits.
pub(super) const fn any_account() -> AccountLimits {
    AccountLimits::Flat(Limits::UNLIMITED)
}

fn nanos(field: &'static str, span: &Span) -> Result<Nanos, SpecProblem> {
    span.nanos().map(Nanos).map_err(|source| SpecProblem::Duration { field, source })
}

fn time(field: &'static str, text: &str) -> Result<Option<api::Time>, SpecProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| SpecProblem::Time { field, text: text.chars().take(64).collect() })
}

fn bytes(field: &'static str, size: &crd::common::Size) -> Result<i64, SpecProblem> {
    size.bytes().ok_or_else(|| SpecProblem::Size { field, text: size.to_string().chars().take(64).collect() })
}

/// Names go into the subjects of requests, so what is no name must never get there.
fn checked_name(field: &'static str, text: &str) -> Result<String, SpecProblem> {
    if !name::is_valid(text) || text.len() > name::NAME_BYTES_MAX {
        let shown: String = text.chars().take(64).collect();
        return Err(problem(
            field,
            format!(
                "`{}` is no name: write 1 to 255 characters without spaces, `.`, `*`, `>`, `/` and `\\`",
                shown.escape_default()
            ),
        ));
    }
    Ok(text.to_owned())
}

fn metadata(
    entries: &std::collections::BTreeMap<String, String>,
) -> Result<std::collections::BTreeMap<String, String>, SpecProblem> {
    for key in entries.keys() {
        if key.starts_with(RESERVED) || key.starts_with("_nats.") {
            let shown: String = key.chars().take(64).collect();
            return Err(problem(
                "metadata",
                format!("`{shown}` is reserved: choose a name without {RESERVED} and _nats."),
            ));
        }
    }
    Ok(entries.clone())
}

const fn storage(storage: Storage) -> api::jetstream::stream::Storage {
    match storage {
        Storage::File => api::jetstream::stream::Storage::File,
        Storage::Memory => api::jetstream::stream::Storage::Memory,
    }
}

fn placement(placement: &Placement) -> api::jetstream::stream::Placement {
    api::jetstream::stream::Placement {
        cluster: placement.cluster.clone(),
        tags: placement.tags.clone(),
        preferred: placement.preferred.clone(),
    }
}

fn republish(republish: &Republish) -> api::jetstream::stream::Republish {
    api::jetstream::stream::Republish {
        source: republish.source.clone(),
        destination: republish.destination.clone(),
        headers_only: republish.headers_only || republish.headers_only_snake,
    }
}

fn source(field: &'static str, source: &Source) -> Result<api::jetstream::stream::StreamSource, SpecProblem> {
    let external = !source.external_api_prefix.is_empty() || !source.external_deliver_prefix.is_empty();
    Ok(api::jetstream::stream::StreamSource {
        name: source.name.clone(),
        opt_start_seq: source.opt_start_seq.and_then(|sequence| u64::try_from(sequence).ok()).unwrap_or(0),
        opt_start_time: time(field, &source.opt_start_time)?,
        filter_subject: source.filter_subject.clone(),
        subject_transforms: source
            .subject_transforms
            .iter()
            .map(|transform| api::jetstream::stream::SubjectTransform {
                source: transform.source.clone(),
                destination: transform.dest.clone(),
            })
            .collect(),
        external: external.then(|| api::jetstream::stream::External {
            api: source.external_api_prefix.clone(),
            deliver: source.external_deliver_prefix.clone(),
        }),
        consumer: source.consumer.as_ref().map(|consumer| api::jetstream::stream::SourceConsumer {
            name: consumer.name.clone(),
            deliver_subject: consumer.deliver_subject.clone(),
        }),
    })
}

/// Whether text is a single token that may stand in a subject.
#[must_use]
pub fn is_token(text: &str) -> bool {
    name::is_valid(text)
}
