//! May a server restart now? Pure: the facts go in, the answer comes out with its reason.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::facts::Server;

/// What stands against a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Which pod is waited for.
    pub pod: String,
    /// What about it, as the end of "waiting for ...".
    pub waiting_for: String,
}

/// Checks that every other server can do without `candidate`: all are there, ready, answering, and have been so for
/// `settle`. A core cluster needs no more; a single server has no others.
///
/// # Errors
/// The first reason against it, in the order of the pods.
pub fn check(
    candidate: &str,
    expected: &[String],
    servers: &[Server],
    settle: SignedDuration,
    now: Timestamp,
) -> Result<(), Closed> {
    for name in expected.iter().filter(|name| *name != candidate) {
        let closed = |waiting_for: String| Closed { pod: name.clone(), waiting_for };
        let Some(server) = servers.iter().find(|server| server.pod == *name) else {
            return Err(closed(format!("{name} to be created")));
        };
        if server.stopping {
            return Err(closed(format!("{name} to stop and come back")));
        }
        let Some(ready_since) = server.ready_since else {
            return Err(closed(format!("{name} to become ready")));
        };
        if server.report.is_none() {
            return Err(closed(format!("{name} to answer")));
        }
        if ready_since + settle > now {
            return Err(closed(format!("{name} to settle")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::system::Report;

    fn now() -> Timestamp {
        Timestamp::from_second(1000).unwrap()
    }

    fn server(name: &str) -> Server {
        Server {
            pod: name.to_owned(),
            ready_since: Some(Timestamp::from_second(900).unwrap()),
            report: Some(Report::default()),
            ..Server::default()
        }
    }

    fn verdict(servers: &[Server]) -> Result<(), String> {
        let expected = ["c-0", "c-1", "c-2"].map(str::to_owned);
        check("c-2", &expected, servers, SignedDuration::from_secs(10), now())
            .map_err(|closed| closed.waiting_for)
    }

    #[test]
    fn opens_when_all_others_are_well_whatever_the_candidate_is_like() {
        assert_eq!(verdict(&[server("c-0"), server("c-1")]), Ok(()));
        let ill = Server { ready_since: None, report: None, ..server("c-2") };
        assert_eq!(verdict(&[server("c-0"), server("c-1"), ill]), Ok(()));
    }

    #[test]
    fn stays_closed_for_each_single_reason() {
        let with = |other: Server| verdict(&[server("c-0"), other]);
        assert_eq!(verdict(&[server("c-0")]), Err("c-1 to be created".to_owned()));
        assert_eq!(
            with(Server { stopping: true, ..server("c-1") }),
            Err("c-1 to stop and come back".to_owned())
        );
        assert_eq!(
            with(Server { ready_since: None, ..server("c-1") }),
            Err("c-1 to become ready".to_owned())
        );
        assert_eq!(with(Server { report: None, ..server("c-1") }), Err("c-1 to answer".to_owned()));
        let fresh = Timestamp::from_second(991).unwrap();
        assert_eq!(
            with(Server { ready_since: Some(fresh), ..server("c-1") }),
            Err("c-1 to settle".to_owned())
        );
        let settled = Timestamp::from_second(990).unwrap();
        assert_eq!(with(Server { ready_since: Some(settled), ..server("c-1") }), Ok(()));
    }

    #[test]
    fn never_two_servers_of_three_at_a_time() {
        // Every combination of health of the two others: the gate opens for one only.
        for bits in 0..16_u8 {
            let make = |name: &str, bits: u8| Server {
                ready_since: (bits & 1 == 1).then(|| Timestamp::from_second(0).unwrap()),
                report: (bits & 2 == 2).then(Report::default),
                ..server(name)
            };
            let servers = [make("c-0", bits & 3), make("c-1", bits >> 2)];
            assert_eq!(verdict(&servers).is_ok(), bits == 15, "{bits:04b}");
        }
    }
}
