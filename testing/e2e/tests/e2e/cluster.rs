//! One NatsCluster as the tests see it: its object, its pods, its servers.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{self, Background, Finished};
use crate::kubernetes::Kubernetes;
use crate::wait;

/// A bound for one call of the `nats` program.
const NATS_LIMIT: Duration = Duration::from_secs(30);

/// A cluster and who connects to it.
pub(crate) struct NatsCluster<'a> {
    pub(crate) kubernetes: &'a Kubernetes,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    /// A user that may do everything in its account.
    pub(crate) user: String,
    pub(crate) password: String,
}

/// What identifies a process of a pod: a restart of any kind changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) started: String,
    pub(crate) restarts: i64,
    pub(crate) image: String,
    pub(crate) ready: bool,
}

impl NatsCluster<'_> {
    /// A kubectl command on the namespace of the cluster.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.try_kubectl(arguments)?.success()
    }

    /// A kubectl command that may fail.
    pub(crate) fn try_kubectl(&self, arguments: &[&str]) -> Result<Finished> {
        let namespace = ["--namespace", self.namespace];
        self.kubernetes.try_kubectl(&[&namespace, arguments].concat(), "")
    }

    /// The object as the API server has it.
    pub(crate) fn object(&self) -> Result<Value> {
        self.kubernetes.json(&["get", "natscluster", self.name, "--namespace", self.namespace])
    }

    /// Changes the spec by a merge patch.
    pub(crate) fn patch(&self, spec: &Value) -> Result<()> {
        let patch = serde_json::json!({"spec": spec}).to_string();
        self.kubectl(&["patch", "natscluster", self.name, "--type=merge", "--patch", &patch])?;
        Ok(())
    }

    /// Waits until the operator has acted on the present spec and the cluster of this size is ready.
    pub(crate) fn await_ready(&self, replicas: i64, limit: Duration) -> Result<()> {
        let what = format!("{} is ready with {replicas} servers", self.name);
        wait::until(&what, limit, || {
            let object = self.object()?;
            let seen = &object["status"]["observedGeneration"];
            ensure!(*seen == object["metadata"]["generation"], "the operator has seen generation {seen}");
            let (status, _, message) = condition(&object, "Ready")?;
            ensure!(status == "True", "{message}");
            let ready = &object["status"]["readyReplicas"];
            ensure!(*ready == replicas, "{ready} servers are ready");
            let pods = self.pods()?.len();
            ensure!(i64::try_from(pods)? == replicas, "there are {pods} pods");
            Ok(())
        })
    }

    /// The pods, by number.
    pub(crate) fn pods(&self) -> Result<Vec<Pod>> {
        let selector = format!("app.kubernetes.io/instance={}", self.name);
        let list =
            self.kubernetes.json(&["get", "pods", "--namespace", self.namespace, "--selector", &selector])?;
        let pods = list["items"].as_array().context("kubectl listed no pods")?;
        Ok(pods.iter().map(pod).collect())
    }

    /// Complete name of a server in the DNS of the cluster.
    pub(crate) fn host(&self, ordinal: usize) -> String {
        format!("{0}-{ordinal}.{0}-headless.{1}.svc.cluster.local", self.name, self.namespace)
    }

    /// Complete name of the service in front of all servers.
    pub(crate) fn service(&self) -> String {
        format!("{}.{}.svc.cluster.local", self.name, self.namespace)
    }

    /// A document of a server's monitoring port.
    pub(crate) fn monitoring(&self, ordinal: usize, path: &str) -> Result<Value> {
        let url =
            format!("/api/v1/namespaces/{}/pods/{}-{ordinal}:8222/proxy/{path}", self.namespace, self.name);
        let text = self.kubernetes.kubectl(&["get", "--raw", &url])?;
        serde_json::from_str(&text).with_context(|| format!("{path} is no JSON: {text}"))
    }

    /// Checks that each of so many servers has routes to all others and to nobody else.
    pub(crate) fn check_mesh(&self, servers: usize) -> Result<()> {
        let all: BTreeSet<String> = (0..servers).map(|ordinal| format!("{}-{ordinal}", self.name)).collect();
        for ordinal in 0..servers {
            let own = format!("{}-{ordinal}", self.name);
            let routez = self.monitoring(ordinal, "routez")?;
            let routes = routez["routes"].as_array().context("routez without routes")?;
            let mut peers: BTreeSet<String> =
                routes.iter().filter_map(|route| route["remote_name"].as_str()).map(str::to_owned).collect();
            ensure!(!peers.contains(&own), "{own} has a route to itself");
            peers.insert(own.clone());
            ensure!(peers == all, "{own} knows {peers:?} instead of {all:?}");
        }
        Ok(())
    }

    /// The official client as this cluster's user, connected to an address.
    pub(crate) fn nats_at(&self, host: &str, arguments: &[&str]) -> Command {
        self.nats_as(host, &self.user, &self.password, arguments)
    }

    /// The official client as any user. Passwords go by the environment.
    pub(crate) fn nats_as(&self, host: &str, user: &str, password: &str, arguments: &[&str]) -> Command {
        let mut command = self.kubernetes.nats();
        command.env("NATS_URL", format!("nats://{host}:4222"));
        command.env("NATS_USER", user).env("NATS_PASSWORD", password).args(arguments);
        command
    }

    /// Runs the official client against one server.
    pub(crate) fn nats(&self, ordinal: usize, arguments: &[&str]) -> Result<String> {
        self.try_nats(ordinal, arguments)?.success()
    }

    /// Runs the official client against one server, for all that it has to say.
    pub(crate) fn try_nats(&self, ordinal: usize, arguments: &[&str]) -> Result<Finished> {
        command::run(&mut self.nats_at(&self.host(ordinal), arguments), "", NATS_LIMIT)
    }

    /// Runs the official client against one server as another user.
    pub(crate) fn try_login(&self, ordinal: usize, user: &str, password: &str) -> Result<Finished> {
        let arguments = ["publish", "login.attempt", "hello"];
        command::run(&mut self.nats_as(&self.host(ordinal), user, password, &arguments), "", NATS_LIMIT)
    }

    /// Starts the official client against one server.
    pub(crate) fn start_nats(&self, ordinal: usize, arguments: &[&str]) -> Result<Background> {
        Background::start(&mut self.nats_at(&self.host(ordinal), arguments))
    }

    /// Publishes through one server until a subscriber at another one has it. The first messages may come before the
    /// subscriber's interest has travelled.
    pub(crate) fn send_across(&self, from: usize, to: usize) -> Result<()> {
        let subject = format!("across.from-{from}.to-{to}");
        let subscriber = self.start_nats(to, &["subscribe", &subject, "--raw"])?;
        let text = format!("through {from} to {to}");
        wait::until("a message crosses over", Duration::from_secs(30), || {
            self.nats(from, &["publish", &subject, &text])?;
            wait::until("it arrives", Duration::from_secs(1), || {
                let lines = subscriber.lines();
                ensure!(lines.contains(&text), "the subscriber has {lines:?}");
                Ok(())
            })
        })
    }

    /// The loopback addresses behind which the client ports of the servers, or of the service, are.
    pub(crate) fn forward_clients(&self, hosts: &[String]) -> Result<(Background, Vec<String>)> {
        let targets: Vec<String> = hosts.iter().map(|host| format!("{host}:4222")).collect();
        self.kubernetes.forward(&targets)
    }
}

fn pod(object: &Value) -> Pod {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let container = &object["status"]["containerStatuses"][0];
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
    Pod {
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        started: text("/status/containerStatuses/0/state/running/startedAt"),
        restarts: container["restartCount"].as_i64().unwrap_or(0),
        image: text("/spec/containers/0/image"),
        ready: ready.is_some_and(|condition| condition["status"] == "True"),
    }
}

/// Status, reason and message of a condition.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Result<(&'a str, &'a str, &'a str)> {
    let conditions = object["status"]["conditions"].as_array().context("there is no condition yet")?;
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let found = found.with_context(|| format!("there is no condition {type_}"))?;
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    Ok((text("status"), text("reason"), text("message")))
}
