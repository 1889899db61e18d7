//! How many replicas the StatefulSet gets next. Growing happens at once, shrinking one server at a time. Pure.

use super::facts::Server;

/// The next size, and whether that is not the wanted one yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Replicas to write now.
    pub replicas: i32,
    /// The server that is leaving, while there is one.
    pub leaving: Option<String>,
}

/// Decides the next size.
///
/// `current` is what the StatefulSet asks for today; `None` when there is none. A core cluster holds no data, so a
/// server that leaves only has to send its clients away, which lame duck does. One after another, because the clients
/// of all of them must find room on those that stay.
#[must_use]
pub fn next(name: &str, wanted: i32, current: Option<i32>, servers: &[Server]) -> Scale {
    let Some(current) = current else {
        return Scale { replicas: wanted, leaving: None };
    };
    let leaving = servers.iter().filter(|server| server.ordinal >= wanted).map(|server| server.ordinal).max();
    let leaving_name = leaving.map(|ordinal| format!("{name}-{ordinal}"));
    // Sleeping keeps everything but the processes: nobody has to stay reachable.
    if wanted == 0 || wanted >= current {
        return Scale { replicas: wanted, leaving: leaving_name };
    }
    let someone_on_the_way_out = servers.iter().any(|server| server.ordinal >= current || server.stopping);
    let replicas = if someone_on_the_way_out { current } else { current - 1 };
    Scale { replicas, leaving: leaving_name }
}

/// Servers that the configuration must know: those that should be there and those that have not left yet.
#[must_use]
pub fn known_servers(wanted: i32, current: Option<i32>, servers: &[Server]) -> i32 {
    let highest = servers.iter().map(|server| server.ordinal + 1).max().unwrap_or(0);
    // While a cluster sleeps its configuration stays as it will be when it wakes.
    wanted.max(current.unwrap_or(0)).max(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(ordinals: std::ops::Range<i32>) -> Vec<Server> {
        ordinals.map(|ordinal| Server { ordinal, pod: format!("c-{ordinal}"), ..Server::default() }).collect()
    }

    fn replicas(wanted: i32, current: Option<i32>, servers: &[Server]) -> i32 {
        next("c", wanted, current, servers).replicas
    }

    #[test]
    fn creates_and_grows_at_once() {
        assert_eq!(replicas(3, None, &[]), 3);
        assert_eq!(replicas(5, Some(3), &servers(0..3)), 5);
        assert_eq!(replicas(3, Some(3), &servers(0..3)), 3);
    }

    #[test]
    fn shrinks_one_at_a_time_and_waits_until_each_is_gone() {
        assert_eq!(replicas(3, Some(5), &servers(0..5)), 4);
        assert_eq!(replicas(3, Some(4), &servers(0..5)), 4);
        assert_eq!(replicas(3, Some(4), &servers(0..4)), 3);
        assert_eq!(next("c", 3, Some(3), &servers(0..4)).leaving.as_deref(), Some("c-3"));
        assert_eq!(next("c", 3, Some(3), &servers(0..3)).leaving, None);
    }

    #[test]
    fn a_change_of_mind_is_followed() {
        assert_eq!(replicas(5, Some(4), &servers(0..5)), 5);
    }

    #[test]
    fn sleeps_at_once() {
        assert_eq!(replicas(0, Some(3), &servers(0..3)), 0);
    }

    #[test]
    fn leaving_servers_stay_known_until_they_are_gone() {
        assert_eq!(known_servers(3, Some(4), &servers(0..5)), 5);
        assert_eq!(known_servers(3, Some(3), &servers(0..3)), 3);
        assert_eq!(known_servers(3, None, &[]), 3);
    }
}
