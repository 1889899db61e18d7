//! Frames to publish, built before the clock starts, and the check of frames that come back.
//!
//! All frames of one load have the same length, so a subscriber counts them by stepping from start to start.

use anyhow::{Context, Result, ensure};

/// Bytes handed to one write: large enough that the system call costs little per message, small enough to stay in cache.
pub(crate) const WRITE_BYTES: usize = 64 * 1024;

/// A payload without line ends and capital letters, so that a frame out of step is never taken for a frame.
pub(crate) fn payload(size: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(size).collect()
}

/// One `PUB` frame.
pub(crate) fn publish(subject: &str, reply: Option<&str>, payload: &[u8]) -> Vec<u8> {
    let mut frame = match reply {
        Some(reply) => format!("PUB {subject} {reply} {}\r\n", payload.len()),
        None => format!("PUB {subject} {}\r\n", payload.len()),
    }
    .into_bytes();
    frame.extend_from_slice(payload);
    frame.extend_from_slice(b"\r\n");
    frame
}

/// `PUB` frames ready to be written again and again.
pub(crate) struct Load {
    bytes: Vec<u8>,
    frame: usize,
}

impl Load {
    /// One write full of the same frame.
    pub(crate) fn repeated(subject: &str, size: usize) -> Self {
        let frame = publish(subject, None, &payload(size));
        let count = (WRITE_BYTES / frame.len()).max(1);
        Self { bytes: frame.repeat(count), frame: frame.len() }
    }

    /// One frame per subject, in the given order. The subjects must have one length.
    pub(crate) fn each(subjects: impl Iterator<Item = String>, size: usize) -> Result<Self> {
        let payload = payload(size);
        let mut load = Self { bytes: Vec::new(), frame: 0 };
        for subject in subjects {
            let frame = publish(&subject, None, &payload);
            ensure!(load.frame == 0 || load.frame == frame.len(), "subject {subject} differs in length");
            load.frame = frame.len();
            load.bytes.extend_from_slice(&frame);
        }
        ensure!(load.frame > 0, "a load needs at least one subject");
        Ok(load)
    }

    /// The writes of this load, round and round, each with the number of its frames.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let whole = (WRITE_BYTES / self.frame).max(1) * self.frame;
        self.bytes.chunks(whole).cycle().map(|bytes| (bytes, (bytes.len() / self.frame) as u64))
    }
}

/// What every `MSG` frame of one subscriber looks like: only the bytes between prefix and suffix may vary.
pub(crate) struct Expected {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    length: usize,
}

/// What was found in one read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes that are dealt with; the rest is the start of a frame.
    pub(crate) consumed: usize,
    /// Whole messages.
    pub(crate) messages: u64,
    /// `PING` lines that want an answer.
    pub(crate) pings: u32,
}

impl Expected {
    /// Frames of one subject and one subscription.
    pub(crate) fn one(subject: &str, sid: &str, size: usize) -> Self {
        Self::varying(&format!("MSG {subject} {sid}"), 0, size)
    }

    /// Frames that begin with `start`, go on with `varying` unchecked bytes, and end with the payload.
    pub(crate) fn varying(start: &str, varying: usize, size: usize) -> Self {
        let mut suffix = format!(" {size}\r\n").into_bytes();
        suffix.extend(payload(size));
        suffix.extend_from_slice(b"\r\n");
        let prefix = start.as_bytes().to_vec();
        let length = prefix.len() + varying + suffix.len();
        Self { prefix, suffix, length }
    }

    /// Bytes of one frame.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Counts the messages at the front of `buffer`, and compares the first and the last of them byte by byte.
    pub(crate) fn scan(&self, buffer: &[u8]) -> Result<Found> {
        let mut found = Found::default();
        let mut last = None;
        while let Some(&first) = buffer.get(found.consumed) {
            let rest = &buffer[found.consumed..];
            if first == b'M' {
                let Some(frame) = rest.get(..self.length) else { break };
                if found.messages == 0 {
                    self.verify(frame)?;
                }
                last = Some(frame);
                found.messages += 1;
                found.consumed += self.length;
            } else {
                let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
                let line = &rest[..end];
                ensure!(
                    line.starts_with(b"PING") || line.starts_with(b"INFO "),
                    "unexpected line between messages: {}",
                    String::from_utf8_lossy(&line[..line.len().min(200)])
                );
                found.pings += u32::from(line.starts_with(b"PING"));
                found.consumed += end + 1;
            }
        }
        last.map_or(Ok(()), |frame| self.verify(frame))?;
        Ok(found)
    }

    fn verify(&self, frame: &[u8]) -> Result<()> {
        let intact = frame.starts_with(&self.prefix) && frame.ends_with(&self.suffix);
        intact.then_some(()).with_context(|| {
            format!("damaged message: {}", String::from_utf8_lossy(&frame[..frame.len().min(200)]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, size: usize) -> Vec<u8> {
        [format!("MSG {subject} 1 {size}\r\n").as_bytes(), &payload(size), b"\r\n"].concat()
    }

    #[test]
    fn publish_frame_has_the_wire_form() {
        assert_eq!(publish("a.b", None, b"xyz"), b"PUB a.b 3\r\nxyz\r\n");
        assert_eq!(publish("a.b", Some("_INBOX.x.1"), b""), b"PUB a.b _INBOX.x.1 0\r\n\r\n");
    }

    #[test]
    fn writes_hold_whole_frames_and_stay_in_bounds() {
        for size in [16, 128, 1024, 2 * WRITE_BYTES] {
            let load = Load::repeated("bench.sensor.42", size);
            for (bytes, count) in load.writes().take(3) {
                assert_eq!(bytes.len() as u64, count * load.frame as u64);
                assert!(bytes.len() <= WRITE_BYTES || count == 1);
                assert!(bytes.starts_with(b"PUB bench.sensor.42 ") && bytes.ends_with(b"\r\n"));
            }
        }
    }

    #[test]
    fn load_of_many_subjects_is_written_in_order_and_begins_again() {
        let subjects: Vec<String> = (1000..9000).map(|number| format!("bench.{number}")).collect();
        let load = Load::each(subjects.iter().cloned(), 16).unwrap();
        let mut total = 0;
        let writes: Vec<_> =
            load.writes().take_while(|(_, count)| (total < 8000, total += count).0).collect();
        assert_eq!(writes.iter().map(|(_, count)| count).sum::<u64>(), 8000);
        let whole: Vec<u8> = writes.iter().flat_map(|(bytes, _)| bytes.to_vec()).collect();
        assert_eq!(whole, load.bytes);
        assert!(Load::each(["a".into(), "bb".into()].into_iter(), 1).is_err());
    }

    #[test]
    fn frames_are_counted_wherever_the_read_ends() {
        let expected = Expected::one("bench.sensor.42", "1", 16);
        let one = message("bench.sensor.42", 16);
        assert_eq!(one.len(), expected.length());
        let stream = [&one[..], b"PING\r\n", &one, b"INFO {}\r\n", &one].concat();
        for split in 0..=stream.len() {
            let first = expected.scan(&stream[..split]).unwrap();
            let second = expected.scan(&stream[first.consumed..]).unwrap();
            assert_eq!(first.messages + second.messages, 3, "split at {split}");
            assert_eq!(first.pings + second.pings, 1, "split at {split}");
            assert_eq!(first.consumed + second.consumed, stream.len(), "split at {split}");
        }
    }

    #[test]
    fn damage_and_errors_are_reported() {
        let expected = Expected::one("bench.sensor.42", "1", 16);
        let mut stream = message("bench.sensor.42", 16);
        *stream.iter_mut().rev().nth(4).unwrap() = b'?';
        assert!(expected.scan(&stream).unwrap_err().to_string().contains("damaged message"));
        assert!(expected.scan(&message("bench.sensor.43", 16)).is_err());
        let longer = [message("bench.sensor.42", 16), message("bench.sensor.42", 17)].concat();
        assert!(expected.scan(&[longer, message("bench.sensor.42", 16)].concat()).is_err());
        let error = expected.scan(b"-ERR 'Stale Connection'\r\n").unwrap_err();
        assert!(error.to_string().contains("Stale Connection"), "{error}");
    }

    #[test]
    fn varying_part_is_skipped_and_the_rest_is_checked() {
        let expected = Expected::varying("MSG bench.unit.", 8, 16);
        let frame = [b"MSG bench.unit.123 1234 16\r\n".as_slice(), &payload(16), b"\r\n"].concat();
        assert_eq!(expected.scan(&frame).unwrap().messages, 1);
    }
}
