//! What accounts give to each other: services to send requests to, streams to subscribe to.
//!
//! Both are subscriptions. A **service** is one in the importing account, which is not told to peers: a request that a client
//! sends there goes on in the exporting account, under the subject it has there and with a reply of its own, which leads
//! back. A **stream** is followed by *shadows*: every local subscription of the importing account that overlaps it has one
//! in the exporting account, which is told to peers like any other, and hands its messages to the subscription it stands for.
//!
//! **Invariants.** A shadow exists as long as its original and the import do. Replies that are waited for are bounded, and
//! each ends with its answer, with time, or when there are too many. Accounts hold each other weakly.

mod responses;
mod service;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use responses::{Answer, Responses};
pub use service::{Request, Response, ServiceImport};
pub(crate) use stream::Streams;
pub use stream::{Shadow, StreamImport};

use subject::Transform;
use subject::transform::{numbered, pattern};

/// How an import becomes the sink of a subscription. Given by the shell, which owns the type.
pub type MakeSink<S> = fn(Arc<Import<S>>) -> S;

/// A receiver that takes messages into another account.
#[derive(Debug)]
pub enum Import<S> {
    /// Requests go on in the exporting account.
    Service(ServiceImport<S>),
    /// Messages of the exporting account go to a subscription of the importing one.
    Shadow(Shadow<S>),
    /// Answers go back to the account that asked.
    Responses,
}

/// A rule of an import that does not hold. The configuration is checked before, so this is not for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("import of {subject:?} as {local:?}: {error}")]
pub struct InvalidImport {
    subject: String,
    local: String,
    error: subject::TransformError,
}

/// How subjects of one account become those of the other.
#[derive(Debug)]
enum Renaming {
    /// They are the same.
    Same,
    /// There is one on the other side.
    Fixed(Box<[u8]>),
    /// Wildcards are carried over.
    Mapped(Box<Transform>),
}

impl Renaming {
    /// What `literal` is on the other side.
    fn apply(&self, literal: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Same => Some(literal.to_vec()),
            Self::Fixed(subject) => Some(subject.to_vec()),
            Self::Mapped(transform) => transform.apply(literal),
        }
    }
}

/// The transform from the subject in the exporting account to the one in the importing account, if there is any.
fn transform(subject: &[u8], local: &[u8]) -> Result<Option<Transform>, InvalidImport> {
    if subject == local || !subject::has_wildcard(subject) {
        return Ok(None);
    }
    Transform::reversible(subject, &numbered(local)).map(Some).map_err(|error| invalid(subject, local, error))
}

fn invalid(subject: &[u8], local: &[u8], error: subject::TransformError) -> InvalidImport {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    InvalidImport { subject: text(subject), local: text(local), error }
}

/// The subjects that a local name with placeholders stands for.
fn local_pattern(local: &[u8]) -> Box<[u8]> {
    pattern(local).into()
}
