//! The cases: what is sent to a server, and which figures come out.

mod connections;
mod deliver;
mod publish;
mod request;
mod subscriptions;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::measure::{Measure, Target};

/// The subject of the plain cases: three tokens, as applications have them.
const SUBJECT: &str = "bench.sensor.42";

/// How much of each case is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Length of the measured part of a case that runs for a time.
    pub(crate) duration: Duration,
    /// Idle connections.
    pub(crate) connections: usize,
    /// Subscriptions of the one connection that has many.
    pub(crate) subscriptions: usize,
}

impl Settings {
    /// Work before the measured part, so that buffers and caches have their size.
    fn warm_up(&self) -> Duration {
        self.duration / 10
    }
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// One connection publishes, nobody listens.
    Publish { size: usize },
    /// One connection publishes to so many others.
    Deliver { size: usize, subscribers: usize },
    /// One request after the other.
    Request,
    /// Connections that do nothing.
    Connections,
    /// Very many subscriptions on one connection.
    Subscriptions,
}

/// All cases by name, in the order of the table.
pub(crate) const ALL: [(&str, Case); 10] = [
    ("publish-16", Case::Publish { size: 16 }),
    ("publish-128", Case::Publish { size: 128 }),
    ("publish-1024", Case::Publish { size: 1024 }),
    ("deliver-16", Case::Deliver { size: 16, subscribers: 1 }),
    ("deliver-128", Case::Deliver { size: 128, subscribers: 1 }),
    ("deliver-1024", Case::Deliver { size: 1024, subscribers: 1 }),
    ("fan-out-5", Case::Deliver { size: 128, subscribers: 5 }),
    ("request", Case::Request),
    ("connections", Case::Connections),
    ("subscriptions", Case::Subscriptions),
];

/// The case of this name.
pub(crate) fn find(name: &str) -> Result<(&'static str, Case)> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.copied().with_context(|| format!("unknown case {name}; known: {}", names()))
}

impl Case {
    /// Runs the case against a server that answers.
    pub(crate) fn run(self, target: Target, settings: &Settings) -> Result<Vec<Measure>> {
        match self {
            Self::Publish { size } => publish::run(target, settings, size),
            Self::Deliver { size, subscribers } => deliver::run(target, settings, size, subscribers),
            Self::Request => request::run(target, settings),
            Self::Connections => connections::run(target, settings),
            Self::Subscriptions => subscriptions::run(target, settings),
        }
    }
}
