//! A server process: started with a configuration in its own directory, stopped when dropped.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::certs::Identity;
use crate::http::{self, Response};
use crate::target::Target;
use crate::wait::{eventually, eventually_ok, within};

/// Name of the configuration file inside the server's directory.
const CONFIG_FILE: &str = "server.conf";
/// Bound for a process that was told to end.
const EXIT_WITHIN: Duration = Duration::from_secs(30);
/// Log lines that end a reload.
const RELOAD_DONE: &str = "Reloaded server configuration";
const RELOAD_FAILED: &str = "Failed to reload server configuration: ";

/// How a server is to be started.
///
/// In the configuration text and the arguments, `%DIR%` stands for the server's directory, `%CLUSTER_PORT%` for its
/// route port: random at first, the same one again after a restart.
pub struct Builder {
    target: Target,
    config: Option<String>,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    files: Vec<(String, String)>,
    client_port: bool,
    monitoring: bool,
    obeys_modes: bool,
}

/// A program that ran to its end.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// A running server.
pub struct Server {
    start: Builder,
    child: Child,
    dir: TempDir,
    ports: Ports,
    runs: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ports {
    client: Option<SocketAddr>,
    monitoring: Option<SocketAddr>,
    cluster: Option<SocketAddr>,
}

impl Builder {
    /// A server of this kind, on random ports of the loopback address.
    pub fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            config: None,
            args: Vec::new(),
            envs: Vec::new(),
            files: Vec::new(),
            client_port: true,
            monitoring: false,
            obeys_modes: false,
        }
    }

    /// With this configuration.
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
        self
    }

    /// With more arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another file in its directory.
    pub fn file(mut self, name: &str, text: impl Into<String>) -> Self {
        self.files.push((name.to_owned(), text.into()));
        self
    }

    /// With an identity in its directory, as `<name>-cert.pem` and `<name>-key.pem`.
    pub fn identity(self, name: &str, identity: &Identity) -> Self {
        self.file(&format!("{name}-cert.pem"), identity.pem())
            .file(&format!("{name}-key.pem"), identity.key_pem())
    }

    /// With the monitoring port.
    pub fn monitoring(mut self) -> Self {
        self.monitoring = true;
        self
    }

    /// As a process that may read and write only what the modes of files say, as root too.
    pub fn obeys_modes(mut self) -> Self {
        self.obeys_modes = true;
        self
    }

    /// Leaves host and port to the configuration or the arguments.
    pub fn own_listen(mut self) -> Self {
        self.client_port = false;
        self
    }

    /// Starts it and waits until it takes connections.
    pub async fn start(self) -> Server {
        let dir = temp_dir();
        self.write_files(&dir);
        let child = self.spawn(&dir, &Ports::default(), 0);
        let mut server = Server { start: self, child, dir, ports: Ports::default(), runs: 1 };
        server.await_ready().await;
        server
    }

    /// Runs the program until it ends by itself.
    pub async fn run(self) -> Finished {
        let dir = temp_dir();
        self.write_files(&dir);
        self.run_in(&dir).await
    }

    async fn run_in(&self, dir: &TempDir) -> Finished {
        let mut command =
            tokio::process::Command::from(self.command(dir, &Ports::default(), self.client_port));
        command.kill_on_drop(true).stdin(Stdio::null());
        match within(EXIT_WITHIN, "the program ends", command.output()).await {
            Ok(output) => Finished {
                code: output.status.code(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            },
            Err(error) => panic!("run {}: {error}", self.target.binary.display()),
        }
    }

    fn write_files(&self, dir: &TempDir) {
        for (name, text) in &self.files {
            write(&dir.path().join(name), &fill(text, dir, &Ports::default()));
        }
        if let Some(config) = &self.config {
            write(&dir.path().join(CONFIG_FILE), &fill(config, dir, &Ports::default()));
        }
    }

    fn command(&self, dir: &TempDir, ports: &Ports, listen: bool) -> Command {
        let mut command = if self.obeys_modes && rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", "-dac_override,-dac_read_search"]).arg(&self.target.binary);
            command
        } else {
            Command::new(&self.target.binary)
        };
        command.current_dir(dir.path());
        if self.config.is_some() {
            command.arg("-c").arg(dir.path().join(CONFIG_FILE));
        }
        if listen {
            let port = ports.client.map_or_else(|| "-1".to_owned(), |address| address.port().to_string());
            command.args(["-a", "127.0.0.1", "-p", &port]);
        }
        if self.monitoring {
            let port = ports.monitoring.map_or_else(|| "-1".to_owned(), |address| address.port().to_string());
            command.args(["-m", &port]);
        }
        command.args(self.args.iter().map(|arg| fill(arg, dir, ports)));
        command.envs(self.envs.iter().map(|(name, value)| (name, value)));
        command
    }

    fn spawn(&self, dir: &TempDir, ports: &Ports, run: usize) -> Child {
        let log = match File::create(log_path(dir, run)) {
            Ok(log) => log,
            Err(error) => panic!("create log: {error}"),
        };
        let errors = match log.try_clone() {
            Ok(errors) => errors,
            Err(error) => panic!("clone log handle: {error}"),
        };
        let mut command = self.command(dir, ports, self.client_port);
        command.arg("--ports_file_dir").arg(dir.path());
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("start {}: {error}", self.target.binary.display()),
        }
    }
}

impl Server {
    /// A server of this kind with this configuration.
    pub async fn start(target: &Target, config: &str) -> Self {
        Builder::new(target).config(config).start().await
    }

    /// Where clients connect.
    pub fn client_addr(&self) -> SocketAddr {
        known(self.ports.client, "client")
    }

    /// Where monitoring answers.
    pub fn monitoring_addr(&self) -> SocketAddr {
        known(self.ports.monitoring, "monitoring")
    }

    /// Where routes connect.
    pub fn cluster_addr(&self) -> SocketAddr {
        known(self.ports.cluster, "cluster")
    }

    /// The server's own directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Which server this is.
    pub fn target(&self) -> &Target {
        &self.start.target
    }

    /// GET from the monitoring port.
    pub async fn get(&self, path: &str) -> Response {
        http::get(self.monitoring_addr(), path).await
    }

    /// GET that must give JSON with status 200.
    pub async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "GET {path}: {}", response.body);
        response.json()
    }

    /// Waits until a monitoring document satisfies a condition, and returns it.
    pub async fn await_json(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually_ok(what, async || {
            let document = self.get_json(path).await;
            if holds(&document) { Ok(document) } else { Err(document) }
        })
        .await
    }

    /// All that this run wrote to standard output and standard error.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(log_path(&self.dir, self.runs - 1)).unwrap_or_default())
            .into_owned()
    }

    /// Waits until the log holds this text.
    pub async fn await_log(&self, text: &str) {
        eventually_ok(&format!("the log shows {text:?}"), async || {
            let log = self.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
        .await;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { panic!("process id {} is out of range", self.child.id()) };
        if let Err(error) = kill_process(pid, signal) {
            panic!("signal {signal:?} to {pid:?}: {error}; log: {}", self.log());
        }
    }

    /// Replaces a file in the server's directory, with the same placeholders as the configuration.
    pub fn write_file(&self, name: &str, text: &str) {
        write(&self.dir.path().join(name), &fill(text, &self.dir, &self.ports));
    }

    /// Replaces the configuration without telling the server.
    pub fn write_config(&mut self, text: &str) {
        self.start.config = Some(text.to_owned());
        self.write_file(CONFIG_FILE, text);
    }

    /// Replaces the configuration, asks for a reload and returns what came of it: `Err` with the reason.
    pub async fn reload(&mut self, text: &str) -> Result<(), String> {
        self.write_config(text);
        self.reload_as_is().await
    }

    /// Asks for a reload of what is in the file, and returns what came of it.
    pub async fn reload_as_is(&self) -> Result<(), String> {
        let before = outcomes(&self.log()).len();
        self.signal(Signal::HUP);
        eventually("the reload ends", async || outcomes(&self.log()).into_iter().nth(before)).await
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to end.
    pub async fn await_exit(&mut self) -> ExitStatus {
        eventually("the server exits", async || self.child.try_wait().ok().flatten()).await
    }

    /// Asks the server to end and waits for it.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.await_exit().await
    }

    /// Kills the server and waits for it.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.await_exit().await;
    }

    /// Starts a stopped server again, on the ports that it had.
    pub async fn restart(&mut self) {
        assert!(!self.is_running(), "restart of a running server");
        if let Some(config) = &self.start.config {
            self.write_file(CONFIG_FILE, &config.clone());
        }
        self.child = self.start.spawn(&self.dir, &self.ports, self.runs);
        self.runs += 1;
        self.await_ready().await;
    }

    /// Starts a stopped server again that is to end by itself.
    pub async fn restart_in_vain(&mut self) -> Finished {
        assert!(!self.is_running(), "restart of a running server");
        self.start.run_in(&self.dir).await
    }

    async fn await_ready(&mut self) {
        let ports = eventually_ok("the ports file", async || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the server ended at start with {status}; log: {}", self.log());
            }
            self.read_ports().ok_or_else(|| self.log())
        })
        .await;
        // No trial connection: it would show in the counters that tests look at. Servers write the ports file when they listen.
        self.ports = ports;
    }

    fn read_ports(&self) -> Option<Ports> {
        let program = self.start.target.binary.file_name()?.to_str()?;
        let path = self.dir.path().join(format!("{program}_{}.ports", self.child.id()));
        let document: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let first = |key: &str| {
            let url = document.get(key)?.get(0)?.as_str()?;
            let (_, address) = url.split_once("://")?;
            let port: u16 = address.rsplit_once(':')?.1.trim_end_matches('/').parse().ok()?;
            Some(SocketAddr::from(([127, 0, 0, 1], port)))
        };
        let ports =
            Ports { client: first("nats"), monitoring: first("monitoring"), cluster: first("cluster") };
        ports.client.is_some().then_some(ports)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The results of all reloads that a log shows, in order.
fn outcomes(log: &str) -> Vec<Result<(), String>> {
    log.lines()
        .filter_map(|line| match line.split_once(RELOAD_FAILED) {
            Some((_, reason)) => Some(Err(reason.to_owned())),
            None => line.contains(RELOAD_DONE).then_some(Ok(())),
        })
        .collect()
}

fn fill(text: &str, dir: &TempDir, ports: &Ports) -> String {
    let cluster = ports.cluster.map_or_else(|| "-1".to_owned(), |address| address.port().to_string());
    text.replace("%DIR%", &dir.path().to_string_lossy()).replace("%CLUSTER_PORT%", &cluster)
}

fn known(address: Option<SocketAddr>, what: &str) -> SocketAddr {
    match address {
        Some(address) => address,
        None => panic!("the server has no {what} port"),
    }
}

fn log_path(dir: &TempDir, run: usize) -> PathBuf {
    dir.path().join(format!("run-{run}.log"))
}

fn temp_dir() -> TempDir {
    match tempfile::Builder::new().prefix("testkit-").tempdir() {
        Ok(dir) => dir,
        Err(error) => panic!("temporary directory: {error}"),
    }
}

fn write(path: &Path, text: &str) {
    if let Err(error) = fs::write(path, text) {
        panic!("write {}: {error}", path.display());
    }
}
