//! Which pod is replaced next, and whether now. Pure.

use crd::nats_cluster::pod::UpdateStrategy;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::gate;
use crate::cluster::facts::Server;

/// What a rollout looks at.
#[derive(Clone, Debug)]
pub struct Rollout<'a> {
    /// Revision of the template that every pod should be made from.
    pub revision: &'a str,
    /// Names of the pods that should exist.
    pub expected: &'a [String],
    /// What there is.
    pub servers: &'a [Server],
    /// Whether servers keep streams, which have to be there again before a server counts as well.
    pub jetstream: bool,
    /// How a person wants it.
    pub strategy: UpdateStrategy,
    /// Pod that a person named to be replaced without asking the gate.
    pub forced: Option<&'a str>,
    /// How long a new pod must have been ready.
    pub settle: SignedDuration,
    /// How long a new pod may take to become ready.
    pub ready_timeout: SignedDuration,
    /// Now.
    pub now: Timestamp,
}

/// The single next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Every pod is on the revision and ready.
    Done,
    /// Replace this pod.
    Restart {
        /// Name of the pod.
        pod: String,
        /// Its uid.
        uid: String,
        /// A person asked for it, against the gate if need be.
        forced: bool,
    },
    /// Nothing to do but wait.
    Wait {
        /// What for, as the end of "waiting for ...".
        waiting_for: String,
    },
    /// A person has to name the next pod.
    Approve {
        /// Which pod it would be.
        pod: String,
    },
    /// Waiting does not help.
    Stalled {
        /// Which pod is in the way.
        pod: String,
        /// Why.
        problem: String,
    },
}

/// Decides the next step of a rollout.
#[must_use]
pub fn next(rollout: &Rollout<'_>) -> Step {
    let expected: Vec<&Server> = rollout
        .expected
        .iter()
        .filter_map(|name| rollout.servers.iter().find(|server| server.pod == *name))
        .collect();
    let (stale, fresh): (Vec<&Server>, Vec<&Server>) =
        expected.iter().partition(|server| server.revision != rollout.revision);
    // Only an outdated pod: after its replacement the same annotation asks for nothing more.
    if let Some(server) =
        stale.iter().find(|server| Some(server.pod.as_str()) == rollout.forced && !server.stopping)
    {
        return restart(server, true);
    }
    // A failing pod on the wanted revision says that the next one would fail too.
    if let Some(stalled) = fresh.iter().find_map(|server| stalled(server, rollout)) {
        return stalled;
    }
    if let Some(waiting_for) = absent(rollout) {
        return Step::Wait { waiting_for };
    }
    if rollout.strategy != UpdateStrategy::Immediate
        && let Some(server) = fresh.iter().find(|server| !server.is_ready())
    {
        return Step::Wait { waiting_for: format!("{} to become ready", server.pod) };
    }
    if rollout.jetstream
        && let Some(waiting_for) = fresh.iter().find_map(|server| unrecovered(server, !stale.is_empty()))
    {
        return Step::Wait { waiting_for };
    }
    let Some(candidate) = candidate(&stale) else {
        return Step::Done;
    };
    if rollout.strategy == UpdateStrategy::Manual {
        return Step::Approve { pod: candidate.pod.clone() };
    }
    // A pod that serves nobody needs nobody's permission: this is how a broken image is replaced.
    if rollout.strategy == UpdateStrategy::Immediate || !candidate.is_ready() {
        return restart(candidate, false);
    }
    match gate::check(&candidate.pod, rollout.expected, rollout.servers, rollout.settle, rollout.now) {
        Ok(()) => restart(candidate, false),
        Err(closed) => Step::Wait { waiting_for: closed.waiting_for },
    }
}

fn restart(server: &Server, forced: bool) -> Step {
    Step::Restart { pod: server.pod.clone(), uid: server.uid.clone(), forced }
}

/// Why the streams of a new server are not there yet. A stream that is ill holds up the others' replacement and is told by the health
/// of JetStream otherwise.
fn unrecovered(server: &Server, others_wait: bool) -> Option<String> {
    let Some(jetstream) = server.report.as_ref().and_then(|report| report.jetstream.as_ref()) else {
        return Some(format!("{} to recover its streams", server.pod));
    };
    let trouble = jetstream.trouble.as_ref().filter(|_| others_wait)?;
    Some(format!("the streams of {}: {trouble}", server.pod))
}

/// What a pod that is missing or on its way out makes everybody wait for.
fn absent(rollout: &Rollout<'_>) -> Option<String> {
    rollout.expected.iter().find_map(|name| match rollout.servers.iter().find(|server| server.pod == *name) {
        None => Some(format!("{name} to be created")),
        Some(server) if server.stopping => Some(format!("{name} to stop")),
        Some(_) => None,
    })
}

/// Pods that are not ready first, then from the highest number down.
fn candidate<'a>(stale: &[&'a Server]) -> Option<&'a Server> {
    stale.iter().copied().max_by_key(|server| (!server.is_ready(), server.ordinal))
}

fn stalled(server: &Server, rollout: &Rollout<'_>) -> Option<Step> {
    if server.is_ready() || server.stopping {
        return None;
    }
    let late = server.created.is_some_and(|created| created + rollout.ready_timeout < rollout.now);
    let problem = match &server.failure {
        Some(failure) => failure.clone(),
        None if late => "not ready within update.readyTimeout".to_owned(),
        None => return None,
    };
    Some(Step::Stalled { pod: server.pod.clone(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::system::{JetStreamReport, Report};

    const NOW: i64 = 10_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn server(ordinal: i32, revision: &str) -> Server {
        Server {
            pod: format!("c-{ordinal}"),
            uid: format!("u-{ordinal}"),
            ordinal,
            revision: revision.to_owned(),
            created: Some(at(NOW - 100)),
            ready_since: Some(at(NOW - 90)),
            report: Some(Report::default()),
            ..Server::default()
        }
    }

    fn decide(servers: &[Server], change: impl FnOnce(&mut Rollout<'_>)) -> Step {
        let expected: Vec<String> = (0..3).map(|n| format!("c-{n}")).collect();
        let mut rollout = Rollout {
            revision: "new",
            expected: &expected,
            servers,
            jetstream: false,
            strategy: UpdateStrategy::Gated,
            forced: None,
            settle: SignedDuration::from_secs(10),
            ready_timeout: SignedDuration::from_secs(900),
            now: at(NOW),
        };
        change(&mut rollout);
        next(&rollout)
    }

    fn restart_of(step: &Step) -> Option<&str> {
        match step {
            Step::Restart { pod, .. } => Some(pod),
            _ => None,
        }
    }

    #[test]
    fn goes_from_the_highest_number_down_one_at_a_time() {
        let (old, new) = ("old", "new");
        let all_old = [server(0, old), server(1, old), server(2, old)];
        assert_eq!(restart_of(&decide(&all_old, |_| ())), Some("c-2"));
        let starting = Server { ready_since: None, ..server(2, new) };
        assert!(matches!(decide(&[server(0, old), server(1, old), starting], |_| ()), Step::Wait { .. }));
        assert_eq!(
            restart_of(&decide(&[server(0, old), server(1, old), server(2, new)], |_| ())),
            Some("c-1")
        );
        assert_eq!(decide(&[server(0, new), server(1, new), server(2, new)], |_| ()), Step::Done);
    }

    #[test]
    fn a_new_pod_must_settle_first() {
        let fresh = Server { ready_since: Some(at(NOW - 5)), ..server(2, "new") };
        let step = decide(&[server(0, "old"), server(1, "old"), fresh], |_| ());
        assert_eq!(step, Step::Wait { waiting_for: "c-2 to settle".to_owned() });
    }

    #[test]
    fn a_broken_image_stops_the_rollout_at_once_and_a_slow_start_after_the_timeout() {
        let broken =
            Server { ready_since: None, failure: Some("ErrImagePull".to_owned()), ..server(2, "new") };
        let servers = [server(0, "old"), server(1, "old"), broken];
        let expected = Step::Stalled { pod: "c-2".to_owned(), problem: "ErrImagePull".to_owned() };
        assert_eq!(decide(&servers, |_| ()), expected);

        let slow = Server { ready_since: None, created: Some(at(NOW - 901)), ..server(2, "new") };
        assert!(matches!(decide(&[server(0, "old"), server(1, "old"), slow], |_| ()), Step::Stalled { .. }));
    }

    #[test]
    fn a_corrected_spec_replaces_the_broken_pod_first() {
        let broken =
            Server { ready_since: None, failure: Some("ErrImagePull".to_owned()), ..server(1, "older") };
        let step = decide(&[server(0, "old"), broken, server(2, "old")], |_| ());
        assert_eq!(restart_of(&step), Some("c-1"));
    }

    #[test]
    fn waits_for_pods_that_are_missing_or_stopping() {
        assert!(matches!(decide(&[server(0, "old"), server(1, "old")], |_| ()), Step::Wait { .. }));
        let stopping = Server { stopping: true, ..server(2, "old") };
        assert!(matches!(decide(&[server(0, "old"), server(1, "old"), stopping], |_| ()), Step::Wait { .. }));
    }

    #[test]
    fn manual_waits_for_a_name_and_a_name_skips_the_gate() {
        let silent = Server { report: None, ..server(0, "old") };
        let servers = [silent, server(1, "old"), server(2, "old")];
        let manual = decide(&servers, |r| r.strategy = UpdateStrategy::Manual);
        assert_eq!(manual, Step::Approve { pod: "c-2".to_owned() });
        let forced = decide(&servers, |r| {
            r.strategy = UpdateStrategy::Manual;
            r.forced = Some("c-1");
        });
        assert_eq!(forced, Step::Restart { pod: "c-1".to_owned(), uid: "u-1".to_owned(), forced: true });
    }

    #[test]
    fn streams_must_be_there_again_before_the_next_server_goes() {
        let with = |jetstream: Option<JetStreamReport>| Server {
            report: Some(Report { jetstream, ..Report::default() }),
            ..server(2, "new")
        };
        let well = || Some(JetStreamReport::default());
        let ill = || {
            Some(JetStreamReport {
                trouble: Some("a stream is ill".to_owned()),
                ..JetStreamReport::default()
            })
        };
        let step = |fresh: Server| {
            decide(&[server(0, "old"), server(1, "old"), fresh], |rollout| rollout.jetstream = true)
        };
        assert_eq!(restart_of(&step(with(well()))), Some("c-1"));
        assert_eq!(step(with(None)), Step::Wait { waiting_for: "c-2 to recover its streams".to_owned() });
        let waiting_for = "the streams of c-2: a stream is ill".to_owned();
        assert_eq!(step(with(ill())), Step::Wait { waiting_for });
        // A single server has nobody behind it, and waiting would not heal it.
        let alone = |jetstream| {
            let servers = [with(jetstream)];
            decide(&servers, |rollout| {
                rollout.jetstream = true;
                rollout.expected = &rollout.expected[2..];
            })
        };
        assert_eq!(alone(ill()), Step::Done);
        assert!(matches!(alone(None), Step::Wait { .. }));
    }

    #[test]
    fn immediate_asks_nobody_but_still_takes_one_at_a_time() {
        let silent = Server { report: None, ready_since: None, ..server(0, "old") };
        let servers = [silent, server(1, "old"), server(2, "old")];
        assert_eq!(restart_of(&decide(&servers, |r| r.strategy = UpdateStrategy::Immediate)), Some("c-0"));
    }
}
