//! `/healthz`: whether the server takes connections. There is nothing else yet that could be ill.

use api::monitor::{HealthErrorKind, HealthStatus, HealthzOptions};

use crate::server::{Life, Server};

/// The answer to a health check.
pub fn healthz(server: &Server, options: &HealthzOptions) -> HealthStatus {
    status(server.life(), options)
}

fn status(life: Life, options: &HealthzOptions) -> HealthStatus {
    if let Some(contradiction) = options.contradiction() {
        return contradiction;
    }
    let text = match life {
        Life::Running | Life::LameDuck => return HealthStatus::ok(),
        Life::Starting => "not ready for connections: the server is starting",
        Life::Stopping => "not ready for connections: the server is stopping",
    };
    HealthStatus::failed(500, HealthErrorKind::Connection, text, options.details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_serves_is_healthy() {
        let options = HealthzOptions::default();
        for (life, code) in
            [(Life::Starting, 500), (Life::Running, 200), (Life::LameDuck, 200), (Life::Stopping, 500)]
        {
            assert_eq!(status(life, &options).status_code, code, "{life:?}");
        }
    }

    #[test]
    fn a_question_without_sense_is_refused_first() {
        let options = HealthzOptions { stream: "s".to_owned(), ..HealthzOptions::default() };
        assert_eq!(status(Life::Starting, &options).status_code, 400);
    }
}
