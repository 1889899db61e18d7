//! `/healthz`: whether the server takes connections, and whether JetStream is there and every stream of it can be written.
//!
//! A stream that lost a part and works on does not make the server ill: sending it no clients any more would help nobody. Who asks for
//! details sees it.

use api::monitor::{HealthError, HealthErrorKind, HealthStatus, HealthzOptions, JetStreamFault};

use crate::jetstream::{Progress, Shared, Trouble};
use crate::server::{Life, Server};

/// What is wrong with a stream: account, stream, trouble.
type Report = (Box<str>, Box<str>, Trouble);

/// The answer to a health check.
pub fn healthz(server: &Server, options: &HealthzOptions) -> HealthStatus {
    if let Some(status) = basics(server.life(), server.monitoring.recovery(), options) {
        return status;
    }
    if options.js_server_only || !server.options().jetstream.enabled {
        return HealthStatus::ok();
    }
    let Some(jetstream) = server.jetstream.get() else {
        return HealthStatus::of_jetstream(&[JetStreamFault::NotEnabled], options.details);
    };
    if options.js_enabled_only || options.js_enabled {
        return HealthStatus::ok();
    }
    streams(&jetstream.shared, options)
}

/// What has to be right before JetStream is looked at; `None` if it is.
fn basics(life: Life, recovery: Option<Progress>, options: &HealthzOptions) -> Option<HealthStatus> {
    if let Some(contradiction) = options.contradiction() {
        return Some(contradiction);
    }
    let text = match (life, recovery) {
        (Life::Running | Life::LameDuck, _) => return None,
        (Life::Starting, Some(progress)) if progress != Progress::Done && !options.js_server_only => {
            let kind = HealthErrorKind::JetStream;
            return Some(HealthStatus::failed(503, kind, progress.to_string(), options.details));
        }
        (Life::Starting, _) => "not ready for connections: the server is starting",
        (Life::Stopping, _) => "not ready for connections: the server is stopping",
    };
    Some(HealthStatus::failed(500, HealthErrorKind::Connection, text, options.details))
}

fn streams(shared: &Shared, options: &HealthzOptions) -> HealthStatus {
    let mut faults = Vec::new();
    if let Some(reason) = shared.log.stats.failure.get() {
        faults.push(JetStreamFault::MetaUnwritable { reason });
    }
    let troubles = if options.js_meta_only { Vec::new() } else { shared.health.troubles() };
    if !options.js_meta_only {
        faults.extend(missing(shared, options));
    }
    let (damage, ill): (Vec<_>, Vec<_>) = troubles
        .iter()
        .filter(|report| concerns(report, options))
        .partition(|(_, _, trouble)| matches!(trouble, Trouble::Damaged(_)));
    faults.extend(ill.into_iter().filter_map(fault));
    let mut status = HealthStatus::of_jetstream(&faults, options.details);
    if options.details {
        status.errors.extend(damage.into_iter().map(damaged));
    }
    status
}

/// What was asked for and is not there.
fn missing<'a>(shared: &Shared, options: &'a HealthzOptions) -> Option<JetStreamFault<'a>> {
    let HealthzOptions { account, stream, consumer, .. } = options;
    if account.is_empty() {
        return None;
    }
    let Some(entry) = shared.directory.account(account) else {
        return Some(JetStreamFault::AccountMissing { account });
    };
    if stream.is_empty() {
        return None;
    }
    let Some(found) = entry.stream(stream.as_bytes()) else {
        return Some(JetStreamFault::StreamMissing { account, stream });
    };
    let is_there = consumer.is_empty() || found.consumers.read().contains_key(consumer.as_str());
    (!is_there).then_some(JetStreamFault::ConsumerMissing { account, stream, consumer })
}

/// Is the report about what was asked for? Damage of the log, which has no stream, is about everything.
fn concerns((account, stream, _): &Report, options: &HealthzOptions) -> bool {
    let fits = |wanted: &str, actual: &str| wanted.is_empty() || actual.is_empty() || wanted == actual;
    fits(&options.account, account) && fits(&options.stream, stream)
}

fn fault((account, stream, trouble): &Report) -> Option<JetStreamFault<'_>> {
    match trouble {
        Trouble::Lost(_) => Some(JetStreamFault::StreamLost { account, stream }),
        Trouble::Failed(reason) => Some(JetStreamFault::StreamUnwritable { account, stream, reason }),
        Trouble::Damaged(_) => None,
    }
}

fn damaged((account, stream, trouble): &Report) -> HealthError {
    let (Trouble::Damaged(reason) | Trouble::Lost(reason) | Trouble::Failed(reason)) = trouble;
    let (kind, error) = if stream.is_empty() {
        (HealthErrorKind::JetStream, format!("JetStream log is damaged: {reason}"))
    } else {
        (HealthErrorKind::Stream, format!("JetStream stream '{account} > {stream}' is damaged: {reason}"))
    };
    HealthError {
        kind,
        account: account.to_string(),
        stream: stream.to_string(),
        consumer: String::new(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(life: Life, recovery: Option<Progress>, options: &HealthzOptions) -> u16 {
        basics(life, recovery, options).map_or(200, |status| status.status_code)
    }

    #[test]
    fn only_a_server_that_serves_is_healthy() {
        let options = HealthzOptions::default();
        for (life, expected) in
            [(Life::Starting, 500), (Life::Running, 200), (Life::LameDuck, 200), (Life::Stopping, 500)]
        {
            assert_eq!(code(life, None, &options), expected, "{life:?}");
        }
    }

    #[test]
    fn a_server_that_recovers_says_how_far_it_is() {
        let mut options = HealthzOptions::default();
        let progress = Some(Progress::Streams(3, 70));
        let status = basics(Life::Starting, progress, &options).unwrap();
        assert_eq!(
            (status.status_code, status.error.as_str()),
            (503, "JetStream is still recovering: 3 of 70 streams")
        );
        assert_eq!(code(Life::Starting, Some(Progress::Done), &options), 500);
        options.js_server_only = true;
        assert_eq!(code(Life::Starting, progress, &options), 500);
    }

    #[test]
    fn a_question_without_sense_is_refused_first() {
        let options = HealthzOptions { stream: "s".to_owned(), ..HealthzOptions::default() };
        assert_eq!(code(Life::Starting, Some(Progress::Log), &options), 400);
    }

    #[test]
    fn troubles_are_told_of_the_stream_that_was_asked_for() {
        let report = |account: &str, stream: &str| -> Report {
            (account.into(), stream.into(), Trouble::Damaged("x".to_owned()))
        };
        let options = HealthzOptions { account: "A".to_owned(), ..HealthzOptions::default() };
        assert!(concerns(&report("A", "S"), &options) && !concerns(&report("B", "S"), &options));
        assert!(concerns(&report("", ""), &options));
        let options = HealthzOptions { stream: "S".to_owned(), ..options };
        assert!(concerns(&report("A", "S"), &options) && !concerns(&report("A", "T"), &options));
        assert_eq!(damaged(&report("", "")).error, "JetStream log is damaged: x");
        assert_eq!(damaged(&report("A", "S")).error, "JetStream stream 'A > S' is damaged: x");
    }
}
