//! Command line of the operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crd::common::Duration as Span;
use crd::jetstream::options::DeletionPolicy;

/// bcrypt cost of passwords in server configurations; the reference server's own default.
const PASSWORD_COST_DEFAULT: u32 = 11;
/// Pause between looks at a stream or consumer that is as it should be.
const SYNC_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);

/// Shortest pause between looks.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Where external metrics are served; nowhere when unset.
    pub external_metrics_addr: Option<SocketAddr>,
    /// Name of the Service that leads there, and of the Secret with its certificate, in the namespace of this pod.
    pub external_metrics_service: String,
    /// Whether to wait for the lease before working.
    pub leader_elect: bool,
    /// DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
    /// Level or filter of log lines.
    pub log_level: String,
    /// bcrypt cost of passwords in server configurations.
    pub password_cost: u32,
    /// Whether to look after streams, consumers and buckets.
    pub jetstream_kinds: bool,
    /// Namespace and name of the Account that objects use which name none, if it allows their namespace.
    pub default_account: Option<(String, String)>,
    /// Folders with a folder for each namespace whose files its objects may name.
    pub credential_roots: Vec<PathBuf>,
    /// What happens on the server when an object is deleted that does not say.
    pub default_deletion_policy: DeletionPolicy,
    /// Pause between looks at a stream or consumer that is as it should be.
    pub sync_interval: Duration,
    /// Whether streams and consumers carry the mark of the object that manages them.
    pub owner_mark: bool,
    /// How long the end of an object waits for a server that does not answer; zero for ever.
    pub finalizer_timeout: Duration,
    /// Identity of the Kubernetes cluster in marks; read from it when unset.
    pub cluster_id: Option<String>,
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
            external_metrics_addr: None,
            external_metrics_service: "myelin-external-metrics".to_owned(),
            leader_elect: false,
            cluster_domain: "cluster.local".to_owned(),
            log_level: "info".to_owned(),
            password_cost: PASSWORD_COST_DEFAULT,
            jetstream_kinds: true,
            default_account: None,
            credential_roots: Vec::new(),
            default_deletion_policy: DeletionPolicy::Delete,
            sync_interval: SYNC_INTERVAL_DEFAULT,
            owner_mark: true,
            finalizer_timeout: Duration::ZERO,
            cluster_id: None,
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
            "--external-metrics-addr" => {
                self.external_metrics_addr = Some(parsed(name, &value, "an address such as 0.0.0.0:6443")?);
            }
            "--external-metrics-service" => self.external_metrics_service = value,
            "--leader-elect" => self.leader_elect = parsed(name, &value, "true or false")?,
            "--cluster-domain" => self.cluster_domain = value,
            "--log-level" => self.log_level = value,
            _ => return self.set_jetstream(name, value),
        }
        Ok(())
    }

    fn set_jetstream(&mut self, name: &str, value: String) -> Result<(), UsageError> {
        let invalid = |value: &str, expected| UsageError::Invalid {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        };
        match name {
            "--jetstream-kinds" => self.jetstream_kinds = parsed(name, &value, "true or false")?,
            "--owner-mark" => self.owner_mark = parsed(name, &value, "true or false")?,
            "--default-account" => {
                let (namespace, account) = value.split_once('/').ok_or_else(|| {
                    invalid(&value, "the namespace and name of an Account with `/` between")
                })?;
                self.default_account = Some((namespace.to_owned(), account.to_owned()));
            }
            "--credential-roots" => {
                self.credential_roots = value
                    .split(',')
                    .map(str::trim)
                    .filter(|path| !path.is_empty())
                    .map(PathBuf::from)
                    .collect();
            }
            "--default-deletion-policy" => {
                self.default_deletion_policy = match value.as_str() {
                    "Delete" => DeletionPolicy::Delete,
                    "Retain" => DeletionPolicy::Retain,
                    _ => return Err(invalid(&value, "Delete or Retain")),
                };
            }
            "--sync-interval" => {
                let interval =
                    Span(value.clone()).parse().ok().filter(|interval| *interval >= SHORTEST_INTERVAL);
                self.sync_interval = interval.ok_or_else(|| invalid(&value, "a duration of 1s or more"))?;
            }
            "--finalizer-timeout" => {
                self.finalizer_timeout =
                    Span(value.clone()).parse().map_err(|_| invalid(&value, "a duration such as 30m"))?;
            }
            "--cluster-id" => {
                let is_name =
                    !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                if !is_name {
                    return Err(invalid(&value, "a name of letters, digits and dashes"));
                }
                self.cluster_id = Some(value);
            }
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
        let is_flag = matches!(
            name.as_str(),
            "--leader-elect" | "--release-finalizers" | "--jetstream-kinds" | "--owner-mark"
        );
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
        assert_eq!(settings.external_metrics_addr, None, "off unless it is asked for");
        let Ok(Command::Run(settings)) =
            read("--external-metrics-addr=0.0.0.0:6443 --external-metrics-service=m")
        else {
            panic!("a run was asked for");
        };
        assert_eq!(settings.external_metrics_addr.map(|address| address.port()), Some(6443));
        assert_eq!(settings.external_metrics_service, "m");
    }

    #[test]
    fn streams_are_looked_after_as_the_installer_says() {
        let Ok(Command::Run(settings)) = read(
            "--jetstream-kinds=false --owner-mark=false --default-account=nats/main --credential-roots=/a,/b \
             --default-deletion-policy=Retain --sync-interval=5s --finalizer-timeout=30m --cluster-id=prod-1",
        ) else {
            panic!("a run was asked for");
        };
        assert!(!settings.jetstream_kinds && !settings.owner_mark);
        assert_eq!(settings.default_account, Some(("nats".to_owned(), "main".to_owned())));
        assert_eq!(settings.credential_roots.len(), 2);
        assert_eq!(settings.default_deletion_policy, DeletionPolicy::Retain);
        assert_eq!(settings.sync_interval, Duration::from_secs(5));
        assert_eq!(settings.finalizer_timeout, Duration::from_secs(1800));
        assert_eq!(settings.cluster_id.as_deref(), Some("prod-1"));
        for wrong in [
            "--default-account=main",
            "--default-deletion-policy=Keep",
            "--sync-interval=1ms",
            "--finalizer-timeout=soon",
            "--cluster-id=a/b",
        ] {
            assert!(matches!(read(wrong), Err(UsageError::Invalid { .. })), "{wrong}");
        }
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
