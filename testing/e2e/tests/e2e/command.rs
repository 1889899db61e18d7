//! Programs that run beside the tests: to their end within a limit, or in the background.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

use crate::wait;

/// How long the rest of the output may take after a program ended.
const OUTPUT_LIMIT: Duration = Duration::from_secs(5);
/// How long a background program may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A program that came to its end.
pub(crate) struct Finished {
    line: String,
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Finished {
    /// What it wrote, if it succeeded.
    pub(crate) fn success(self) -> Result<String> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        bail!("`{}` failed ({}): {}{}", self.line, self.status, self.stdout, self.stderr.trim())
    }

    /// All that it wrote, if it succeeded.
    pub(crate) fn whole_success(self) -> Result<String> {
        let complaints = self.stderr.clone();
        Ok(self.success()? + &complaints)
    }

    /// What it complained about, if it failed.
    pub(crate) fn failure(self) -> Result<String> {
        if !self.status.success() {
            return Ok(self.stdout + &self.stderr);
        }
        bail!("`{}` succeeded: {}{}", self.line, self.stdout, self.stderr.trim())
    }
}

/// Runs a program to its end; one that exceeds the limit is killed.
pub(crate) fn run(command: &mut Command, input: &str, limit: Duration) -> Result<Finished> {
    let line = describe(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).with_context(|| format!("cannot write to `{line}`"))?;
    }
    let status = await_end(&mut child, limit)?;
    let text = |output: Option<Receiver<String>>| {
        output.and_then(|output| output.recv_timeout(OUTPUT_LIMIT).ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    match status {
        Some(status) => Ok(Finished { line, status, stdout, stderr }),
        None => bail!("`{line}` did not end within {} s: {stdout}{stderr}", limit.as_secs()),
    }
}

/// The exit status, or none when the limit was exceeded and the program was killed.
fn await_end(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        wait::pause(Duration::from_millis(10));
    }
}

/// Reads a pipe to its end in a thread of its own, so that no program waits for a reader.
fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What arrived before a broken pipe is still worth reading.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// A program that runs until it is dropped.
pub(crate) struct Background {
    line: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Background {
    /// Starts the program.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let line = describe(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        if let Some(stdout) = child.stdout.take() {
            collect(stdout, Arc::clone(&lines));
        }
        if let Some(stderr) = child.stderr.take() {
            collect(stderr, Arc::clone(&lines));
        }
        Ok(Self { line, child, lines })
    }

    /// Everything it has written so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An error if it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("`{}` ended ({status}): {}", self.line, self.lines().join("\n")),
        }
    }
}

fn collect(pipe: impl Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
}

impl Drop for Background {
    fn drop(&mut self) {
        // A polite end first: what runs inside the cluster is told by the program that brought it there.
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(process, Signal::TERM);
        }
        let _ = await_end(&mut self.child, END_LIMIT);
    }
}
