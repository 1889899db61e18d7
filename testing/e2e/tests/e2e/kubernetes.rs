//! The one-node Kubernetes that all scenarios share, and the programs that work on it.
//!
//! It lives in a directory of its own, so it runs beside a demonstration or another run of these tests. A guardian
//! process holds the other end of a pipe and ends the cluster when this process ends, in whichever way.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{self, Background, Finished};

/// A bound for every single call of kubectl.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(150);
/// A bound for the start of the cluster.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Where the container runtime listens, as seen inside.
const CONTAINERD: &str = "/run/containerd/containerd.sock";
/// The images: what is tested, and what the workers of the examples run.
const ARCHIVES: [&str; 3] = ["broker.tar", "operator.tar", "nats.tar"];
/// Where relative paths of kubectl's arguments begin: those of the documentation are.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Waits until its input ends, then removes the cluster and its directory. Signals of a terminal are not for it.
const GUARDIAN: &str = r#"trap '' INT TERM HUP
cat > /dev/null
"$0" down -dir "$1/cluster" > /dev/null && rm -rf "$1""#;

/// The programs that the tests drive, and the images they install.
pub(crate) struct Programs {
    kubenode: PathBuf,
    kubectl: PathBuf,
    helm: PathBuf,
    nats: PathBuf,
    images: PathBuf,
}

impl Programs {
    /// Finds all of them by environment variables; a missing one is an error that says how to get it.
    pub(crate) fn find() -> Result<Self> {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let kubenode = variable("MYELIN_KUBENODE").context(
            "set MYELIN_KUBENODE to the program `kubenode` in the directory that testing/kubernetes/build.sh prints",
        )?;
        let tools = variable("MYELIN_TOOLS");
        let tool = |name: &str, own: &str| {
            variable(own).or_else(|| tools.as_ref().map(|tools| tools.join(name))).with_context(|| {
                format!("set MYELIN_TOOLS to the directory that testing/tools/build.sh prints, or {own} to the program")
            })
        };
        let images = variable("MYELIN_IMAGES")
            .context("set MYELIN_IMAGES to the directory with the archives that `make image` writes")?;
        let programs = Self {
            // The one beside kubenode has the version of the API server.
            kubectl: variable("MYELIN_KUBECTL").unwrap_or_else(|| kubenode.with_file_name("kubectl")),
            helm: tool("helm", "MYELIN_HELM")?,
            nats: tool("nats", "MYELIN_NATS")?,
            kubenode,
            images,
        };
        let archives = ARCHIVES.map(|name| programs.images.join(name));
        for path in [&programs.kubenode, &programs.kubectl, &programs.helm, &programs.nats]
            .into_iter()
            .chain(&archives)
        {
            ensure!(path.is_file(), "{} is missing; `make e2e` builds everything first", path.display());
        }
        Ok(programs)
    }
}

/// A running cluster.
pub(crate) struct Kubernetes {
    programs: Programs,
    directory: PathBuf,
    guardian: Child,
}

impl Kubernetes {
    /// Starts a cluster with all images in it.
    pub(crate) fn start(programs: Programs) -> Result<Self> {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("e2e-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN])
            .args([&programs.kubenode, &directory])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let kubernetes = Self { programs, directory, guardian };
        kubernetes.kubenode("up", START_LIMIT, &[])?;
        let images = ARCHIVES.map(|name| kubernetes.programs.images.join(name));
        kubernetes.kubenode("load-image", CALL_LIMIT, &images)?;
        Ok(kubernetes)
    }

    /// Ends the cluster and everything in it.
    pub(crate) fn stop(mut self) -> Result<()> {
        drop(self.guardian.stdin.take());
        let status = self.guardian.wait()?;
        ensure!(status.success(), "the cluster in {} could not be removed", self.directory.display());
        Ok(())
    }

    fn kubenode(&self, subcommand: &str, limit: Duration, rest: &[PathBuf]) -> Result<String> {
        let mut command = Command::new(&self.programs.kubenode);
        command.arg(subcommand).arg("-dir").arg(self.directory.join("cluster")).args(rest);
        command::run(&mut command, "", limit)?.success()
    }

    /// A command that runs inside the cluster's network, where pods have addresses and names.
    fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.programs.kubenode);
        command.arg("exec").arg("-dir").arg(self.directory.join("cluster")).arg(program);
        command
    }

    /// The official command line client, inside the cluster's network.
    pub(crate) fn nats(&self) -> Command {
        let mut command = self.inside(&self.programs.nats);
        command.arg("--no-context");
        command
    }

    /// Gives an image of the cluster another name.
    pub(crate) fn tag_image(&self, from: &str, to: &str) -> Result<()> {
        let mut command = self.inside(Path::new("ctr"));
        command.args(["--address", CONTAINERD, "--namespace", "k8s.io", "images", "tag", "--force"]);
        command.args([format!("docker.io/{from}"), format!("docker.io/{to}")]);
        command::run(&mut command, "", CALL_LIMIT)?.success()?;
        Ok(())
    }

    /// Carries loopback ports into the cluster, one for each target `host:port`, as long as the result lives.
    pub(crate) fn forward(&self, targets: &[String]) -> Result<(Background, Vec<String>)> {
        let mut command = Command::new(&self.programs.kubenode);
        command.arg("forward").arg("-dir").arg(self.directory.join("cluster"));
        command.args(targets.iter().map(|target| format!("0={target}")));
        let mut forward = Background::start(&mut command)?;
        let addresses = crate::wait::until("ports are forwarded", Duration::from_secs(20), || {
            forward.check_running()?;
            let lines = forward.lines();
            let address = |target: &String| {
                let line = lines.iter().find_map(|line| line.strip_suffix(&format!("={target}")));
                line.map(str::to_owned).with_context(|| format!("no port for {target} in {lines:?}"))
            };
            targets.iter().map(address).collect::<Result<Vec<String>>>()
        })?;
        Ok((forward, addresses))
    }

    /// A kubectl command without arguments.
    pub(crate) fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.programs.kubectl);
        command.current_dir(ROOT).env("KUBECONFIG", self.directory.join("cluster/kubeconfig"));
        command
    }

    /// Runs kubectl, with something on its standard input.
    pub(crate) fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<Finished> {
        command::run(self.kubectl_command().args(arguments), input, CALL_LIMIT)
    }

    /// What kubectl wrote; a failure is an error.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.try_kubectl(arguments, "")?.success()
    }

    /// What kubectl wrote, as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[arguments, &["--output=json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("kubectl {arguments:?} wrote no JSON: {text}"))
    }

    /// Applies an object.
    pub(crate) fn apply(&self, namespace: &str, object: &Value) -> Result<String> {
        self.try_apply(namespace, object)?.success()
    }

    /// Applies an object that may be refused.
    pub(crate) fn try_apply(&self, namespace: &str, object: &Value) -> Result<Finished> {
        self.try_kubectl(&["apply", "--namespace", namespace, "--filename=-"], &object.to_string())
    }

    /// Runs helm.
    pub(crate) fn helm(&self, arguments: &[&str]) -> Result<Finished> {
        let mut command = Command::new(&self.programs.helm);
        command.args(arguments).env("KUBECONFIG", self.directory.join("cluster/kubeconfig"));
        // Nothing of the person who runs the tests is read or written.
        for (name, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(name, self.directory.join("helm").join(folder));
        }
        command::run(&mut command, "", CALL_LIMIT)
    }

    /// Makes a namespace that admits restricted pods only, unless it is there already.
    pub(crate) fn create_namespace(&self, name: &str) -> Result<()> {
        let labels = serde_json::json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        });
        self.apply("default", &namespace)?;
        Ok(())
    }

    /// Prints what helps to understand a failure.
    pub(crate) fn explain(&self) {
        let ours = "natsclusters,streams,consumers,keyvalues,objectstores,natsautoscalers";
        let everything = format!("{ours},statefulsets,pods,deployments,jobs,leases");
        for arguments in [
            &["get", &everything, "--all-namespaces", "--output=wide"][..],
            &["describe", ours, "--all-namespaces"],
            &["get", "events", "--all-namespaces", "--sort-by=.metadata.creationTimestamp"],
            &[
                "logs",
                "--namespace=myelin-system",
                "--selector=app.kubernetes.io/name=myelin-operator",
                "--tail=80",
            ],
        ] {
            let output = self.try_kubectl(arguments, "");
            let text = output.and_then(Finished::success).unwrap_or_else(|error| format!("{error:#}"));
            eprintln!("--- kubectl {}\n{}", arguments.join(" "), text.trim_end());
        }
    }
}
