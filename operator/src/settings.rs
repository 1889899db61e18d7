//! Command line of the operator.

use std::net::SocketAddr;

/// bcrypt cost of passwords in server configurations; the reference server's own default.
const PASSWORD_COST_DEFAULT: u32 = 11;

/// What the person who installed the operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to look after; all when empty.
    pub watch_namespaces: Vec<String>,
    /// Image of servers whose cluster names none.
    pub nats_image: String,
    /// Objects with this class are ours; objects without one when empty.
    pub controller_class: String,
    /// Where metrics and health are served.
    pub metrics_addr: SocketAddr,
    /// Whether to wait for the lease before working.
    pub leader_elect: bool,
    /// DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
    /// Level or filter of log lines.
    pub log_level: String,
    /// bcrypt cost of passwords in server configurations.
    pub password_cost: u32,
    /// Name of this pod, for the lease and for events.
    pub pod_name: String,
    /// Namespace of this pod, where the lease lives.
    pub pod_namespace: String,
    /// Uid of this pod, which owns the lease.
    pub pod_uid: Option<String>,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Run the controllers.
    Run(Settings),
    /// Stop when clusters exist, or strip our finalizers from them.
    Uninstall {
        /// The same settings.
        settings: Settings,
        /// Strip instead of stopping.
        release_finalizers: bool,
    },
    /// Print the version.
    Version,
}

/// Why a command line cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Not an option of ours.
    #[error("unknown option `{0}`")]
    Unknown(String),
    /// An option without its value.
    #[error("option `{0}` needs a value")]
    Missing(String),
    /// A value that cannot be read.
    #[error("option `{name}`: `{value}` is not {expected}")]
    Invalid {
        /// Option name.
        name: String,
        /// Value as written.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl Settings {
    /// Defaults, with what the pod's environment says about itself.
    fn new(environment: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            watch_namespaces: Vec::new(),
            nats_image: format!("myelin/broker:{}", env!("CARGO_PKG_VERSION")),
            controller_class: String::new(),
            metrics_addr: SocketAddr::from(([0, 0, 0, 0], 9090)),
            leader_elect: false,
            cluster_domain: "cluster.local".to_owned(),
            log_level: "info".to_owned(),
            password_cost: PASSWORD_COST_DEFAULT,
            pod_name: environment("POD_NAME").unwrap_or_else(|| "myelin-operator".to_owned()),
            pod_namespace: environment("POD_NAMESPACE").unwrap_or_else(|| "default".to_owned()),
            pod_uid: environment("POD_UID"),
        }
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), UsageError> {
        match name {
            "--watch-namespaces" => {
                self.watch_namespaces =
                    value.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
            }
            "--nats-image" => self.nats_image = value,
            "--controller-class" => self.controller_class = value,
            "--metrics-addr" => self.metrics_addr = parsed(name, &value, "an address such as 0.0.0.0:9090")?,
            "--leader-elect" => self.leader_elect = parsed(name, &value, "true or false")?,
            "--cluster-domain" => self.cluster_domain = value,
            "--log-level" => self.log_level = value,
            _ => return Err(UsageError::Unknown(name.to_owned())),
        }
        Ok(())
    }
}

fn parsed<T: std::str::FromStr>(name: &str, value: &str, expected: &'static str) -> Result<T, UsageError> {
    value.parse().map_err(|_| UsageError::Invalid {
        name: name.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

/// Reads a command line: `--name=value`, `--name value`, and `--leader-elect` alone for true.
///
/// # Errors
/// When an option is unknown or its value cannot be read.
pub fn parse(
    arguments: impl IntoIterator<Item = String>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Command, UsageError> {
    let mut settings = Settings::new(environment);
    let mut uninstall = false;
    let mut release_finalizers = false;
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        if argument == "uninstall" {
            uninstall = true;
            continue;
        }
        if argument == "--version" {
            return Ok(Command::Version);
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (argument, rest.next_if(|next| !next.starts_with("--"))),
        };
        let is_flag = matches!(name.as_str(), "--leader-elect" | "--release-finalizers");
        let value = match value {
            Some(value) => value,
            None if is_flag => "true".to_owned(),
            None if name.starts_with("--") => return Err(UsageError::Missing(name)),
            None => return Err(UsageError::Unknown(name)),
        };
        if name == "--release-finalizers" {
            release_finalizers = parsed(&name, &value, "true or false")?;
        } else {
            settings.set(&name, value)?;
        }
    }
    if uninstall {
        return Ok(Command::Uninstall { settings, release_finalizers });
    }
    Ok(Command::Run(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(str::to_owned), |name| {
            (name == "POD_NAME").then(|| "pod-1".to_owned())
        })
    }

    #[test]
    fn options_come_in_both_forms() {
        let Ok(Command::Run(settings)) =
            read("--watch-namespaces=a,b --nats-image r/x:1 --leader-elect --metrics-addr 127.0.0.1:1")
        else {
            panic!("a run was asked for");
        };
        assert_eq!(settings.watch_namespaces, ["a", "b"]);
        assert_eq!(settings.nats_image, "r/x:1");
        assert!(settings.leader_elect);
        assert_eq!(settings.metrics_addr.port(), 1);
        assert_eq!(settings.pod_name, "pod-1");
    }

    #[test]
    fn uninstall_takes_its_own_flag() {
        let Ok(Command::Uninstall { release_finalizers, .. }) = read("uninstall --release-finalizers=true")
        else {
            panic!("an uninstall was asked for");
        };
        assert!(release_finalizers);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(read("--colour=red").unwrap_err(), UsageError::Unknown("--colour".to_owned()));
        assert_eq!(read("--nats-image").unwrap_err(), UsageError::Missing("--nats-image".to_owned()));
        assert_eq!(read("run").unwrap_err(), UsageError::Unknown("run".to_owned()));
        assert!(matches!(read("--metrics-addr=x").unwrap_err(), UsageError::Invalid { .. }));
    }
}
