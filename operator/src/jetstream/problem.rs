//! Why a pass did not reach its end, and what that means for the object.

use api::ApiError;
use api::error::jetstream::ErrorCode;

use super::desired::SpecProblem;
use super::files::FileProblem;
use crate::error::Error as OperatorError;
use crate::nats::address::AddressError;
use crate::nats::client::Error as NatsError;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The API server, or a test that stops the operator.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Nothing helps until somebody changes something.
    #[error("{message}")]
    Stalled {
        /// Reason of `Stalled`.
        reason: &'static str,
        /// What to change.
        message: String,
    },
    /// It may be better the next time.
    #[error("{message}")]
    Transient {
        /// Reason of `Reconciled`.
        reason: &'static str,
        /// What is in the way.
        message: String,
    },
    /// The object changed while the pass was under way; the next one sees how.
    #[error("the object changed meanwhile")]
    Outdated,
}

impl Problem {
    /// Something that somebody has to change.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Stalled { reason, message: message.into() }
    }

    /// Something that may pass.
    pub fn transient(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Transient { reason, message: message.into() }
    }

    /// The reason of `Stalled`, if it is.
    #[must_use]
    pub const fn stalled_reason(&self) -> Option<&'static str> {
        match self {
            Self::Stalled { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// The reason of `Reconciled`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Operator(error) => error.reconciled_reason(),
            Self::Stalled { reason, .. } | Self::Transient { reason, .. } => reason,
            Self::Outdated => "Conflict",
        }
    }

    /// Whether the servers, and not the object, are in the way.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Transient { reason: "Unreachable" | "Timeout", .. })
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        Self::Operator(error.into())
    }
}

impl From<SpecProblem> for Problem {
    fn from(problem: SpecProblem) -> Self {
        Self::stalled("InvalidSpec", problem.to_string())
    }
}

impl From<FileProblem> for Problem {
    fn from(problem: FileProblem) -> Self {
        Self::stalled("FilePathNotAllowed", problem.to_string())
    }
}

impl From<AddressError> for Problem {
    fn from(problem: AddressError) -> Self {
        Self::stalled("InvalidSpec", format!("servers: {problem}"))
    }
}

impl From<NatsError> for Problem {
    fn from(error: NatsError) -> Self {
        let message = error.public();
        match error {
            NatsError::Denied(_) => Self::stalled(
                "PermissionDenied",
                format!("{message}: give the user of this connection the right to publish there"),
            ),
            NatsError::Timeout(_) => Self::transient("Timeout", message),
            NatsError::NoResponders(_) => Self::transient(
                "Unreachable",
                "no JetStream answers: it is off for this account or domain, or still starting",
            ),
            NatsError::Busy => Self::transient("Busy", message),
            _ => Self::transient("Unreachable", message),
        }
    }
}

/// Errors that come and go with the state of the servers and not with the request.
const PASSING: [ErrorCode; 8] = [
    ErrorCode::CLUSTER_NOT_ACTIVE,
    ErrorCode::CLUSTER_NOT_ASSIGNED,
    ErrorCode::CLUSTER_NOT_LEADER,
    ErrorCode::CLUSTER_NOT_AVAIL,
    ErrorCode::CLUSTER_NO_PEERS,
    ErrorCode::INSUFFICIENT_RESOURCES,
    ErrorCode::NOT_ENABLED_FOR_ACCOUNT,
    ErrorCode::NOT_ENABLED,
];

/// Errors of accounts and servers that are full.
const LIMITS: [ErrorCode; 6] = [
    ErrorCode::MAXIMUM_STREAMS_LIMIT,
    ErrorCode::MAXIMUM_CONSUMERS_LIMIT,
    ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
    ErrorCode::STREAM_MAX_BYTES_REQUIRED,
];

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let text: String = error.description.chars().filter(|c| !c.is_control()).take(500).collect();
        let message = format!("the server says: {text} ({})", error.err_code);
        if ErrorCode::STREAM_NOT_FOUND.is(&error) {
            return Self::transient("StreamNotFound", message);
        }
        if LIMITS.iter().any(|limit| limit.is(&error)) {
            return Self::stalled("LimitsExceeded", message);
        }
        // A consumer whose receiver listens cannot move; the receiver may go.
        let known = PASSING.iter().any(|known| known.is(&error)) || ErrorCode::CONSUMER_NAME_EXIST.is(&error);
        // Many refusals of a configuration have code 500 as well, so the code says nothing where there is a number.
        let unknown = error.err_code == 0 && error.code >= 500;
        if known || unknown || matches!(error.code, 408 | 503 | 504) {
            return Self::transient("NatsError", message);
        }
        Self::stalled("Refused", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_servers_wait_or_ask_for_a_change() {
        let judge = |error: ApiError| {
            let problem = Problem::from(error);
            (problem.stalled_reason().is_some(), problem.reason())
        };
        assert_eq!(judge(ErrorCode::STREAM_INVALID_CONFIG.because("x")), (true, "Refused"));
        assert_eq!(judge(ErrorCode::STREAM_SUBJECT_OVERLAP.into()), (true, "Refused"));
        assert_eq!(judge(ErrorCode::MAXIMUM_STREAMS_LIMIT.into()), (true, "LimitsExceeded"));
        assert_eq!(judge(ErrorCode::STREAM_NOT_FOUND.into()), (false, "StreamNotFound"));
        assert_eq!(judge(ErrorCode::INSUFFICIENT_RESOURCES.into()), (false, "NatsError"));
        assert_eq!(judge(ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into()), (false, "NatsError"));
        assert_eq!(judge(ApiError { code: 503, ..ApiError::default() }), (false, "NatsError"));
        assert!(Problem::from(NatsError::Denied("x".to_owned())).stalled_reason().is_some());
        assert!(Problem::from(NatsError::Plain).is_unreachable());
    }
}
