//! What is to be said about streams and their volumes.

use crd::conditions::{self, Finding, Status, finding};

use crate::cluster::observe::Observed;
use crate::cluster::reconcile::{Outcome, Pass};
use crate::cluster::storage::Growth;

/// Percent of the bytes for streams in files from which on there is too little left.
const STORAGE_LOW_PERCENT: i64 = 95;

/// Whether every server holds its streams; `None` for a cluster that never had any.
#[must_use]
pub(super) fn healthy(pass: &Pass<'_>, observed: &Observed) -> Option<Finding> {
    let verdict =
        |status: Status, reason, message: String| Some(finding("JetStreamHealthy", status, reason, message));
    if pass.cluster.jetstream().is_none() {
        was_reported(pass, "JetStreamHealthy")?;
        return verdict(Status::Unknown, "Disabled", "the cluster has no JetStream".to_owned());
    }
    if observed.servers.is_empty() {
        return verdict(Status::Unknown, "NoServers", "no server runs".to_owned());
    }
    let (mut streams, mut consumers, mut low) = (0, 0, None);
    for server in &observed.servers {
        let pod = &server.pod;
        let Some(report) = &server.report else {
            return verdict(Status::Unknown, "Unreachable", format!("{pod} does not answer"));
        };
        let Some(jetstream) = &report.jetstream else {
            let message = format!("{pod} runs without JetStream until it is replaced");
            return verdict(Status::False, "NotEnabled", message);
        };
        if let Some(trouble) = &jetstream.trouble {
            return verdict(Status::False, "Unhealthy", format!("{pod}: {trouble}"));
        }
        let (used, limit) = jetstream.storage;
        if limit > 0 && used >= limit / 100 * STORAGE_LOW_PERCENT {
            low = low.or(Some((pod, used, limit)));
        }
        streams += jetstream.streams;
        consumers += jetstream.consumers;
    }
    if let Some((pod, used, limit)) = low {
        let message = format!(
            "streams of {pod} take {used} of {limit} bytes: make storage.volume.size larger, or remove messages"
        );
        return verdict(Status::False, "StorageLow", message);
    }
    let message = format!("{streams} streams and {consumers} consumers can be used");
    verdict(Status::True, "AllCurrent", message)
}

/// Whether volumes have their size; `None` for a cluster that never had any.
#[must_use]
pub(super) fn expanded(pass: &Pass<'_>, outcome: &Outcome) -> Option<Finding> {
    let verdict =
        |status: bool, reason, message: String| Some(finding("StorageExpanded", status, reason, message));
    let Some(growth) = &outcome.growth else {
        was_reported(pass, "StorageExpanded")?;
        // A pass that ended early has found nothing out.
        if outcome.error.is_some() || pass.cluster.paused() {
            return None;
        }
        return verdict(true, "UpToDate", "the cluster has no volumes".to_owned());
    };
    let size = pass.cluster.spec.storage.wanted_volume().unwrap_or_default().size;
    match growth {
        Growth::Done => verdict(true, "UpToDate", format!("every volume has {size}")),
        Growth::Resizing(claims) => {
            verdict(false, "Resizing", format!("growing to {size}: {}", claims.join(", ")))
        }
        Growth::FileSystemPending(claims) => verdict(
            false,
            "FileSystemPending",
            format!("the volume has grown and its file system follows: {}", claims.join(", ")),
        ),
        Growth::Refused { claim, problem } => verdict(
            false,
            "NotSupported",
            format!(
                "{claim} cannot grow to {size}: {problem}; restore storage.volume.size, or use a class that allows growth"
            ),
        ),
        Growth::Larger(claims) => verdict(
            false,
            "ShrinkRefused",
            format!(
                "larger than {size} and volumes never shrink: {}; raise storage.volume.size",
                claims.join(", ")
            ),
        ),
    }
}

fn was_reported(pass: &Pass<'_>, type_: &str) -> Option<()> {
    conditions::find(&pass.cluster.status.as_ref()?.conditions, type_).map(|_| ())
}
