//! What can go wrong in a pass, and what it means for the cluster.

use crd::nats_cluster::validate::SpecError;

/// Why a pass over a cluster did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server answered with an error, or not at all.
    #[error("kubernetes: {0}")]
    Kube(#[from] kube::Error),
    /// The spec cannot be acted on until somebody changes it.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The rendered configuration would be refused by a server.
    #[error("the servers would refuse this configuration: {0}")]
    Config(String),
    /// `additionalConfig` sets what the operator sets.
    #[error("additionalConfig: `{path}` is set by the operator: remove it, or set allowOverrides to true")]
    Owned {
        /// The option.
        path: String,
    },
    /// `additionalConfig` holds a value that the language cannot write.
    #[error("additionalConfig: `{path}` {problem}")]
    Additional {
        /// The option.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A Secret that the spec names is not there, or lacks a key.
    #[error("secret `{name}`: {problem}")]
    Secret {
        /// Name of the Secret.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A Secret that the spec names holds something else than it should.
    #[error("secret `{name}` cannot be used: {problem}: correct its content")]
    BadSecret {
        /// Name of the Secret.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An object with the name of one of ours belongs to somebody else.
    #[error("{kind} `{name}` exists and belongs to {owner}: rename the cluster or remove that object")]
    OwnedByOther {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Who owns it.
        owner: String,
    },
    /// Certificates could not be made or read.
    #[error("certificates: {0}")]
    Certificate(String),
    /// A password could not be hashed.
    #[error("password of `{user}`: {problem}")]
    Password {
        /// The user.
        user: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An object came without a field that the API server always sets.
    #[error("object without {0}")]
    Incomplete(&'static str),
    /// A bug ended the pass.
    #[error("a pass ended by a panic")]
    Panicked,
    /// A test stopped the operator here.
    #[error("stopped before write {0} by a test")]
    Stopped(u64),
}

impl Error {
    /// The reason of `Stalled`, when retrying will not help until somebody changes something.
    #[must_use]
    pub const fn stalled_reason(&self) -> Option<&'static str> {
        match self {
            Self::Spec(_)
            | Self::Config(_)
            | Self::Owned { .. }
            | Self::Additional { .. }
            | Self::Password { .. } => Some("InvalidSpec"),
            Self::Secret { .. } => Some("SecretMissing"),
            Self::BadSecret { .. } => Some("SecretInvalid"),
            Self::OwnedByOther { .. } => Some("OwnedByOther"),
            Self::Kube(_)
            | Self::Certificate(_)
            | Self::Incomplete(_)
            | Self::Panicked
            | Self::Stopped(_) => None,
        }
    }

    /// The reason of `Reconciled` when the pass ended with this error.
    #[must_use]
    pub fn reconciled_reason(&self) -> &'static str {
        match self {
            Self::Kube(kube::Error::Api(status)) if status.code == 409 => "Conflict",
            Self::Kube(_) => "ApiError",
            _ => self.stalled_reason().unwrap_or("Failed"),
        }
    }
}
