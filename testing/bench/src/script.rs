//! Requests built beforehand, sent with a bounded number of them unanswered.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::frames::publish;
use crate::session::{Frame, Session};

/// Frames in the order in which they are sent; after the last comes the first again.
#[derive(Default)]
pub(crate) struct Script {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// When to stop sending.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// After this time, or this number if it comes first.
    Time(Duration, u64),
    /// After this number.
    Count(u64),
}

/// What a run did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Requests sent and answered.
    pub(crate) count: u64,
    /// Nanoseconds of each request, where only one was on its way at a time.
    pub(crate) latencies: Vec<u64>,
}

impl Script {
    /// Appends a request whose reply subject is a token of its own below the inbox.
    pub(crate) fn push(&mut self, inbox: &str, subject: &str, payload: &[u8]) {
        let reply = format!("{inbox}.{:08}", self.ends.len());
        self.bytes.extend_from_slice(&publish(subject, Some(&reply), payload));
        self.ends.push(self.bytes.len());
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn slice(&self, from: usize, count: usize) -> &[u8] {
        let start = from.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[from + count - 1]]
    }

    /// Sends until the goal with at most `window` unanswered, then waits for the last answers. Each must be `intact`.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        window: usize,
        goal: Goal,
        intact: impl Fn(&Frame<'_>) -> bool,
    ) -> Result<Ran> {
        ensure!(self.len() > 0 && window > 0, "nothing to send");
        let started = Instant::now();
        let mut ran = Ran { count: 0, latencies: Vec::new() };
        let (mut sent, mut at) = (0, 0);
        loop {
            let mut room = goal.left(started, sent).min(window as u64 - (sent - ran.count)) as usize;
            if room == 0 && sent == ran.count {
                return Ok(ran);
            }
            let before = (window == 1).then(Instant::now);
            while room > 0 {
                let count = room.min(self.len() - at);
                session.send(self.slice(at, count))?;
                room -= count;
                sent += count as u64;
                at = (at + count) % self.len();
            }
            ran.count += session.read(|frame| {
                ensure!(intact(&frame), "answer {}", printable(&frame));
                Ok(())
            })?;
            ensure!(ran.count <= sent, "{} answers to {sent} requests", ran.count);
            if let Some(before) = before {
                ran.latencies.push(u64::try_from(before.elapsed().as_nanos())?);
            }
        }
    }
}

impl Goal {
    fn left(self, started: Instant, sent: u64) -> u64 {
        match self {
            Self::Time(duration, _) if started.elapsed() >= duration => 0,
            Self::Time(_, most) | Self::Count(most) => most - sent,
        }
    }
}

/// A message for an error text.
pub(crate) fn printable(frame: &Frame<'_>) -> String {
    let payload = String::from_utf8_lossy(&frame.payload[..frame.payload.len().min(300)]);
    format!(
        "on {}: {}{payload}",
        String::from_utf8_lossy(frame.subject),
        String::from_utf8_lossy(frame.headers)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_whole_frames() {
        let mut script = Script::default();
        for (subject, payload) in [("a", "1"), ("bb", "22"), ("c", "")] {
            script.push("_INBOX.x", subject, payload.as_bytes());
        }
        assert_eq!(script.slice(0, 1), b"PUB a _INBOX.x.00000000 1\r\n1\r\n");
        assert_eq!(
            script.slice(1, 2),
            b"PUB bb _INBOX.x.00000001 2\r\n22\r\nPUB c _INBOX.x.00000002 0\r\n\r\n"
        );
    }

    #[test]
    fn goals_end() {
        let now = Instant::now();
        assert_eq!(Goal::Count(5).left(now, 3), 2);
        assert_eq!(Goal::Time(Duration::from_secs(60), 5).left(now, 5), 0);
        assert_eq!(Goal::Time(Duration::ZERO, 5).left(now, 1), 0);
    }
}
