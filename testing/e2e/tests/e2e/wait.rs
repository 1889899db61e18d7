//! Waiting for conditions, each within a limit.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Pause between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(200);

/// Repeats an attempt until it succeeds. After the limit the last failure is the error.
pub(crate) fn until<T>(what: &str, limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= deadline => {
                return Err(error).with_context(|| format!("{what}: not within {} s", limit.as_secs()));
            }
            Err(_) => pause(INTERVAL),
        }
    }
}

/// Gives way to others before the next look.
pub(crate) fn pause(interval: Duration) {
    thread::park_timeout(interval);
}
