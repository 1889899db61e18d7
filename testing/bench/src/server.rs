//! A server process of our own: started on a free port, asked until it answers, ended in every case.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};
use crate::measure::Target;

/// Between two looks at a process that starts or stops.
const POLL: Duration = Duration::from_millis(2);
/// A large store may take so long to open or to close.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(300);
/// A port that was free may be taken before the server binds it.
const START_ATTEMPTS: usize = 3;
/// The end of the log that an error shows.
const LOG_TAIL_BYTES: usize = 2000;

/// Which core runs what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pinning {
    pub(crate) server: usize,
    pub(crate) generator: usize,
}

impl Pinning {
    /// The first two cores this process may use.
    pub(crate) fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot read the allowed cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        match (cores.next(), cores.next()) {
            (Some(server), Some(generator)) => Ok(Self { server, generator }),
            _ => bail!("pinning needs two cores, {} allowed", allowed.count()),
        }
    }

    /// Binds the calling thread, and with it all threads and processes that it starts from now on.
    pub(crate) fn bind(core: usize) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set).with_context(|| format!("cannot bind to core {core}"))
    }
}

/// What the configuration says besides the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Nothing.
    Plain,
    /// JetStream in a fresh directory, with the server's own default of when a message is acknowledged.
    JetStream,
    /// The same, and a message is acknowledged once it is on stable storage, whatever the default is.
    Synced,
}

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is asked to end.
    Clean,
    /// It has no say.
    Kill,
}

/// A running server. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    program: PathBuf,
    pinning: Option<Pinning>,
    /// Holds configuration, log and store as long as the process runs.
    directory: TempDir,
}

impl Server {
    /// Starts the program and waits until it answers PING.
    pub(crate) fn start(program: &Path, setup: Setup, pinning: Option<Pinning>) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::start_once(program, setup, pinning) {
                Err(error) if attempt == START_ATTEMPTS => {
                    return Err(error).with_context(|| format!("cannot start {}", program.display()));
                }
                Err(_) => attempt += 1,
                Ok(server) => return Ok(server),
            }
        }
    }

    fn start_once(program: &Path, setup: Setup, pinning: Option<Pinning>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut config = format!("host: \"{}\"\nport: {}\n", address.ip(), address.port());
        if setup != Setup::Plain {
            let store = directory.path().join("store");
            let sync = if setup == Setup::Synced { "sync_interval: always" } else { "" };
            config.push_str(&format!("jetstream {{\n  store_dir: {store:?}\n  {sync}\n}}\n"));
        }
        fs::write(directory.path().join("server.conf"), config)?;
        let child = spawn(program, directory.path(), pinning)?;
        let mut server = Self { child, address, program: program.to_owned(), pinning, directory };
        server.await_answer(PATIENCE)?;
        Ok(server)
    }

    /// Ends the process and starts another on the same configuration and store. Returns when that was started; it need not
    /// answer yet.
    pub(crate) fn restart(&mut self, stop: Stop) -> Result<Instant> {
        if stop == Stop::Clean {
            self.end(STORE_PATIENCE)?;
        } else {
            self.child.kill()?;
            self.child.wait()?;
        }
        let started = Instant::now();
        self.child = spawn(&self.program, self.directory.path(), self.pinning)?;
        Ok(started)
    }

    /// Waits until the process answers PING.
    pub(crate) fn await_answer(&mut self, patience: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status}; its log: {}", self.log_tail());
            }
            let Err(error) = Client::connect(self.address) else { return Ok(()) };
            if started.elapsed() > patience {
                return Err(error).with_context(|| format!("no answer; its log: {}", self.log_tail()));
            }
            thread::sleep(POLL);
        }
    }

    /// Where it listens and which process it is.
    pub(crate) fn target(&self) -> Target {
        Target { address: self.address, process: Some(self.child.id()) }
    }

    /// The last lines it wrote.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }

    /// Asks the process to end, and insists when it does not.
    fn end(&mut self, patience: Duration) -> Result<()> {
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM)?;
        }
        let started = Instant::now();
        while started.elapsed() < patience {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        bail!("process {} ignores the request to end", self.child.id())
    }
}

/// Starts the program with the configuration in a directory. Its words go to the log there, after those of its predecessors.
fn spawn(program: &Path, directory: &Path, pinning: Option<Pinning>) -> Result<Child> {
    let log = File::options().create(true).append(true).open(directory.join("log"))?;
    let mut command = ending_with_us(program);
    command.arg("-c").arg(directory.join("server.conf"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    if let Some(pinning) = pinning {
        Pinning::bind(pinning.server)?;
    }
    let spawned = command.spawn();
    if let Some(pinning) = pinning {
        Pinning::bind(pinning.generator)?;
    }
    Ok(spawned?)
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) || self.end(PATIENCE).is_ok() {
            return;
        }
        // Nothing is left to do when even this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command whose process the kernel ends when we die, where util-linux is there to arrange it.
fn ending_with_us(program: &Path) -> Command {
    let wrapper = ["--pdeathsig", "KILL", "--"];
    let works = Command::new("setpriv").args(wrapper).arg("true").stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(wrapper).arg(program);
    command
}

/// The first line of what the program says about its version.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned).with_context(|| format!("{} prints no version", program.display()))
}
