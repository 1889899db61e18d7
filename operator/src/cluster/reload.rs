//! Bringing a changed configuration into running servers, one after another, with proof from each.

use super::facts::Server;

/// What the servers say about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every server that can be asked proved that it runs the configuration.
    Applied,
    /// This server runs another one and can take the new one without a restart.
    Reload {
        /// Name of its pod.
        pod: String,
    },
    /// These servers need a new process; the rollout will give them one.
    Restart {
        /// Names of their pods.
        pods: Vec<String>,
    },
    /// These servers did not answer.
    Silent {
        /// Names of their pods.
        pods: Vec<String>,
    },
}

/// Compares the servers with the wanted configuration. Pure.
///
/// A server is reloaded only if its process was made for the same restart hash: a server refuses a file whole when
/// one option in it needs a restart.
#[must_use]
pub fn next(servers: &[Server], hash: &str, restart_hash: &str) -> Progress {
    let staying = || servers.iter().filter(|server| !server.stopping);
    let names = |wanted: &dyn Fn(&&Server) -> bool| {
        staying().filter(wanted).map(|server| server.pod.clone()).collect::<Vec<_>>()
    };
    let reloadable = |server: &&Server| {
        server.report.is_some() && server.restart_hash == restart_hash && server.config_hash() != Some(hash)
    };
    if let Some(server) = staying().find(reloadable) {
        return Progress::Reload { pod: server.pod.clone() };
    }
    let outdated = names(&|server| server.restart_hash != restart_hash);
    if !outdated.is_empty() {
        return Progress::Restart { pods: outdated };
    }
    let silent = names(&|server| server.report.is_none());
    if silent.is_empty() { Progress::Applied } else { Progress::Silent { pods: silent } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::system::Report;

    fn server(pod: &str, hash: Option<&str>, restart_hash: &str) -> Server {
        Server {
            pod: pod.to_owned(),
            restart_hash: restart_hash.to_owned(),
            report: hash.map(|hash| Report { config_hash: Some(hash.to_owned()), ..Report::default() }),
            ..Server::default()
        }
    }

    #[test]
    fn servers_are_reloaded_in_order_until_all_have_proved_it() {
        let step = |hashes: [&str; 2]| {
            next(&[server("a", Some(hashes[0]), "r"), server("b", Some(hashes[1]), "r")], "new", "r")
        };
        assert_eq!(step(["old", "old"]), Progress::Reload { pod: "a".to_owned() });
        assert_eq!(step(["new", "old"]), Progress::Reload { pod: "b".to_owned() });
        assert_eq!(step(["new", "new"]), Progress::Applied);
    }

    #[test]
    fn a_server_of_another_restart_hash_is_never_reloaded() {
        let step = next(&[server("a", Some("old"), "r0"), server("b", Some("new"), "r1")], "new", "r1");
        assert_eq!(step, Progress::Restart { pods: vec!["a".to_owned()] });
    }

    #[test]
    fn a_silent_server_has_proved_nothing() {
        let step = next(&[server("a", Some("new"), "r"), server("b", None, "r")], "new", "r");
        assert_eq!(step, Progress::Silent { pods: vec!["b".to_owned()] });
    }
}
