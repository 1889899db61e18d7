//! A service of another account.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{InvalidImport, MakeSink, Renaming, invalid, local_pattern, transform};
use crate::account::{Account, Mapped};
use crate::random::Random;

/// How a service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Once.
    Single,
    /// Until there was no answer for the threshold, or an empty one.
    Many,
}

/// What an import of a service says.
#[derive(Debug)]
pub struct Request<'a, S> {
    /// The account that asks.
    pub importer: &'a Arc<Account<S>>,
    /// The account that answers.
    pub exporter: &'a Arc<Account<S>>,
    /// Subject in the exporting account.
    pub subject: &'a [u8],
    /// Subject in the importing account, with placeholders.
    pub local: &'a [u8],
    /// Identity of the export: no message goes through one twice.
    pub export: u64,
    /// How it answers.
    pub response: Response,
    /// In what time.
    pub threshold: Duration,
    /// Tell the service who asks.
    pub share: bool,
}

/// A service of another account, as the importing account has it.
#[derive(Debug)]
pub struct ServiceImport<S> {
    importer: Weak<Account<S>>,
    exporter: Weak<Account<S>>,
    local: Box<[u8]>,
    target: Renaming,
    /// Identity of the export.
    pub export: u64,
    /// How it answers.
    pub response: Response,
    /// In what time.
    pub threshold: Duration,
    /// Tell the service who asks.
    pub share: bool,
    pub(super) make: MakeSink<S>,
    pub(super) seed: u64,
}

impl<S: Clone + PartialEq> ServiceImport<S> {
    /// An import; replies made for it follow from `seed`.
    pub fn new(request: &Request<'_, S>, make: MakeSink<S>, seed: u64) -> Result<Self, InvalidImport> {
        let Request { subject, local, .. } = *request;
        let target = match transform(subject, local)? {
            Some(there) => {
                let back = there.reverse().map_err(|error| invalid(subject, local, error))?;
                Renaming::Mapped(Box::new(back))
            }
            None if subject == local => Renaming::Same,
            None => Renaming::Fixed(subject.into()),
        };
        // Without wildcards on the other side, whatever the local name says is one request.
        let local = if matches!(target, Renaming::Mapped(_)) { local_pattern(local) } else { local.into() };
        Ok(Self {
            importer: Arc::downgrade(request.importer),
            exporter: Arc::downgrade(request.exporter),
            local,
            target,
            export: request.export,
            response: request.response,
            threshold: request.threshold,
            share: request.share,
            make,
            seed,
        })
    }

    /// Subjects that lead to it in the importing account.
    pub fn local(&self) -> &[u8] {
        &self.local
    }

    /// The account that asks, unless it is gone.
    pub fn importer(&self) -> Option<Arc<Account<S>>> {
        self.importer.upgrade()
    }

    /// The account that answers, unless it is gone.
    pub fn exporter(&self) -> Option<Arc<Account<S>>> {
        self.exporter.upgrade()
    }

    /// Where a request to `literal` goes in the exporting account, its own mappings included. `None` if nowhere.
    pub fn target(&self, exporter: &Account<S>, literal: &[u8], random: &mut Random) -> Option<Vec<u8>> {
        let subject = self.target.apply(literal)?;
        let Some(mappings) = exporter.mappings() else { return Some(subject) };
        match mappings.select(&subject, random) {
            Mapped::Unchanged => Some(subject),
            Mapped::To(mapped) => Some(mapped),
            Mapped::Lost => None,
        }
    }
}
