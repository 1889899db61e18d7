//! `--signal`: sends a signal to another process of this program (config, section 13).

use std::fs;
use std::path::Path;

use config::flags::SignalCommand;
use rustix::process::{Pid, Signal, kill_process};

/// Why no signal was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No process, or no single one.
    #[error("{0}")]
    Target(String),
    /// The system refuses.
    #[error("signalling process {pid}: {source}")]
    Refused {
        /// Process.
        pid: i32,
        /// Why.
        source: rustix::io::Errno,
    },
}

/// Sends `command` to the process that `target` names: a number (a trailing `*` matches any that begin so), a file that holds
/// one, or, when absent, the one process of the name `program`.
pub fn send(command: SignalCommand, target: Option<&str>, program: &str) -> Result<(), SendError> {
    let signal = match command {
        SignalCommand::Stop => Signal::KILL,
        SignalCommand::Quit => Signal::INT,
        SignalCommand::Term => Signal::TERM,
        SignalCommand::Reopen => Signal::USR1,
        SignalCommand::Reload => Signal::HUP,
        SignalCommand::LameDuck => Signal::USR2,
    };
    for number in find(target, program)? {
        let Some(pid) = Pid::from_raw(number) else { continue };
        kill_process(pid, signal).map_err(|source| SendError::Refused { pid: number, source })?;
    }
    Ok(())
}

fn find(target: Option<&str>, program: &str) -> Result<Vec<i32>, SendError> {
    match target {
        None => match running(program).as_slice() {
            [] => Err(SendError::Target(format!("no {program} processes running"))),
            [one] => Ok(vec![*one]),
            many => Err(SendError::Target(format!("multiple {program} processes running:\n{}", list(many)))),
        },
        Some(text) => match text.strip_suffix('*') {
            Some(prefix) => {
                let found: Vec<i32> =
                    running(program).into_iter().filter(|pid| pid.to_string().starts_with(prefix)).collect();
                if found.is_empty() {
                    return Err(SendError::Target(format!("no {program} processes matching {text:?}")));
                }
                Ok(found)
            }
            None => number(text).map(|pid| vec![pid]),
        },
    }
}

/// A process id, given as such or as a file that holds it.
fn number(text: &str) -> Result<i32, SendError> {
    if let Ok(pid) = text.parse::<i32>() {
        return Ok(pid);
    }
    let content = fs::read_to_string(text).map_err(|e| SendError::Target(format!("{text:?}: {e}")))?;
    let parsed = content.trim().parse();
    parsed.map_err(|_| SendError::Target(format!("{text:?} holds no process id")))
}

/// Other processes of that name.
fn running(program: &str) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != own && is_named(*pid, program)).collect()
}

fn is_named(pid: i32, program: &str) -> bool {
    let Ok(arguments) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    Path::new(&*first).file_name().is_some_and(|name| name.to_string_lossy() == program)
}

fn list(pids: &[i32]) -> String {
    pids.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_number_or_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        fs::write(&path, "4711\n").unwrap();
        assert_eq!(number("12").unwrap(), 12);
        assert_eq!(number(path.to_str().unwrap()).unwrap(), 4711);
        fs::write(&path, "none").unwrap();
        assert!(number(path.to_str().unwrap()).unwrap_err().to_string().contains("holds no process id"));
    }

    #[test]
    fn mistakes_are_named() {
        let none = send(SignalCommand::Reload, None, "no-such-program").unwrap_err();
        assert_eq!(none.to_string(), "no no-such-program processes running");
    }
}
