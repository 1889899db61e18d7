//! Header blocks of messages: the names a stream knows, and blocks with lines added and left out.
//!
//! A block is `NATS/1.0`, lines of name and value, and an empty line. Names are compared byte for byte; of equal names the first counts. A block
//! that is not well formed holds what can be found in it.

const VERSION: &[u8] = b"NATS/1.0\r\n";
const END: &[u8] = b"\r\n";

/// What a stream looks for. `None` is absent or without value.
#[derive(Debug, Clone)]
pub(crate) struct Known<'a> {
    pub(crate) message_id: Option<&'a [u8]>,
    pub(crate) expected_stream: Option<&'a [u8]>,
    pub(crate) expected_last: Option<&'a [u8]>,
    pub(crate) expected_last_subject: Option<&'a [u8]>,
    pub(crate) expected_last_subject_filter: Option<&'a [u8]>,
    pub(crate) expected_last_id: Option<&'a [u8]>,
    pub(crate) rollup: Option<&'a [u8]>,
    pub(crate) ttl: Option<&'a [u8]>,
    pub(crate) increment: Option<&'a [u8]>,
    pub(crate) batch_id: Option<&'a [u8]>,
    pub(crate) batch_sequence: Option<&'a [u8]>,
    pub(crate) batch_commit: Option<&'a [u8]>,
    pub(crate) schedule: Option<&'a [u8]>,
    pub(crate) schedule_target: Option<&'a [u8]>,
    pub(crate) schedule_source: Option<&'a [u8]>,
    pub(crate) schedule_ttl: Option<&'a [u8]>,
    pub(crate) schedule_rollup: Option<&'a [u8]>,
    pub(crate) schedule_time_zone: Option<&'a [u8]>,
    /// A time zone was named, even if it is empty.
    pub(crate) has_time_zone: bool,
    pub(crate) schedule_next: Option<&'a [u8]>,
    pub(crate) scheduler: Option<&'a [u8]>,
    pub(crate) source: Option<&'a [u8]>,
    pub(crate) api_level: Option<&'a [u8]>,
    pub(crate) marker_reason: Option<&'a [u8]>,
    pub(crate) kv_operation: Option<&'a [u8]>,
}

pub(crate) const MESSAGE_ID: &[u8] = b"Nats-Msg-Id";
pub(crate) const EXPECTED_PREFIX: &[u8] = b"Nats-Expected-";
pub(crate) const EXPECTED_LAST_ID: &[u8] = b"Nats-Expected-Last-Msg-Id";
pub(crate) const ROLLUP: &[u8] = b"Nats-Rollup";
pub(crate) const TTL: &[u8] = b"Nats-TTL";
pub(crate) const BATCH_COMMIT: &[u8] = b"Nats-Batch-Commit";
pub(crate) const SCHEDULE_PREFIX: &[u8] = b"Nats-Schedule";
pub(crate) const SCHEDULER: &[u8] = b"Nats-Scheduler";
pub(crate) const SCHEDULE_NEXT: &[u8] = b"Nats-Schedule-Next";
pub(crate) const MARKER_REASON: &[u8] = b"Nats-Marker-Reason";

impl<'a> Known<'a> {
    /// Of a message without headers.
    pub(crate) const NONE: Self = Self {
        message_id: None,
        expected_stream: None,
        expected_last: None,
        expected_last_subject: None,
        expected_last_subject_filter: None,
        expected_last_id: None,
        rollup: None,
        ttl: None,
        increment: None,
        batch_id: None,
        batch_sequence: None,
        batch_commit: None,
        schedule: None,
        schedule_target: None,
        schedule_source: None,
        schedule_ttl: None,
        schedule_rollup: None,
        schedule_time_zone: None,
        has_time_zone: false,
        schedule_next: None,
        scheduler: None,
        source: None,
        api_level: None,
        marker_reason: None,
        kv_operation: None,
    };

    /// Reads a block.
    pub(crate) fn parse(block: &'a [u8]) -> Self {
        let mut known = Self::NONE;
        for (name, value) in lines(block) {
            known.take(name, value);
        }
        known
    }

    fn take(&mut self, name: &[u8], value: &'a [u8]) {
        let place = match name {
            b"Nats-Msg-Id" => &mut self.message_id,
            b"Nats-Expected-Stream" => &mut self.expected_stream,
            b"Nats-Expected-Last-Sequence" => &mut self.expected_last,
            b"Nats-Expected-Last-Subject-Sequence" => &mut self.expected_last_subject,
            b"Nats-Expected-Last-Subject-Sequence-Subject" => &mut self.expected_last_subject_filter,
            b"Nats-Expected-Last-Msg-Id" => &mut self.expected_last_id,
            b"Nats-Rollup" => &mut self.rollup,
            b"Nats-TTL" => &mut self.ttl,
            b"Nats-Incr" => &mut self.increment,
            b"Nats-Batch-Id" => &mut self.batch_id,
            b"Nats-Batch-Sequence" => &mut self.batch_sequence,
            b"Nats-Batch-Commit" => &mut self.batch_commit,
            b"Nats-Schedule" => &mut self.schedule,
            b"Nats-Schedule-Target" => &mut self.schedule_target,
            b"Nats-Schedule-Source" => &mut self.schedule_source,
            b"Nats-Schedule-TTL" => &mut self.schedule_ttl,
            b"Nats-Schedule-Rollup" => &mut self.schedule_rollup,
            b"Nats-Schedule-Time-Zone" => {
                self.has_time_zone = true;
                &mut self.schedule_time_zone
            }
            b"Nats-Schedule-Next" => &mut self.schedule_next,
            b"Nats-Scheduler" => &mut self.scheduler,
            b"Nats-Stream-Source" => &mut self.source,
            b"Nats-Required-Api-Level" => &mut self.api_level,
            b"Nats-Marker-Reason" => &mut self.marker_reason,
            b"KV-Operation" => &mut self.kv_operation,
            _ => return,
        };
        if place.is_none() && !value.is_empty() {
            *place = Some(value);
        }
    }
}

/// Names and values of a block, in order. Spaces before a value are not part of it.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let first = memchr::memmem::find(block, END).map_or(block.len(), |at| at + END.len());
    let mut rest = &block[first..];
    std::iter::from_fn(move || {
        loop {
            let end = memchr::memmem::find(rest, END)?;
            let line = &rest[..end];
            rest = &rest[end + END.len()..];
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let value = &line[colon + 1..];
            let spaces = value.iter().take_while(|byte| **byte == b' ').count();
            return Some((&line[..colon], &value[spaces..]));
        }
    })
}

/// The value of one name.
pub(crate) fn find<'a>(block: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    lines(block).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Builds a block.
#[derive(Debug)]
pub(crate) struct Builder {
    block: Vec<u8>,
}

impl Builder {
    /// A block without lines; `size` is what it may become.
    pub(crate) fn new(size: usize) -> Self {
        let mut block = Vec::with_capacity(size + VERSION.len() + END.len());
        block.extend_from_slice(VERSION);
        Self { block }
    }

    /// A block with those lines of another that `keep` lets through by their name, as they are.
    pub(crate) fn filtered(block: &[u8], more: usize, mut keep: impl FnMut(&[u8]) -> bool) -> Self {
        let mut built = Self::new(block.len() + more);
        for (name, value) in lines(block).filter(|(name, _)| keep(name)) {
            built.line(name, value);
        }
        built
    }

    /// A block with all lines of another.
    pub(crate) fn from(block: &[u8], more: usize) -> Self {
        if !block.starts_with(VERSION) || !block.ends_with(END) {
            return Self::filtered(block, more, |_| true);
        }
        let mut built = Vec::with_capacity(block.len() + more);
        built.extend_from_slice(&block[..block.len() - END.len()]);
        Self { block: built }
    }

    /// A block with all lines of another, of which one has this value; it is added if there is none.
    pub(crate) fn with(block: &[u8], name: &[u8], value: &[u8]) -> Self {
        let mut built = Self::new(block.len() + name.len() + value.len() + 4);
        let mut found = false;
        for (known, before) in lines(block) {
            let first = known == name && !found;
            found |= first;
            built.line(known, if first { value } else { before });
        }
        if !found {
            built.line(name, value);
        }
        built
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        self.block.extend_from_slice(name);
        self.block.extend_from_slice(b": ");
        self.block.extend_from_slice(value);
        self.block.extend_from_slice(END);
        self
    }

    /// Adds a line with a number.
    pub(crate) fn number(&mut self, name: &[u8], value: u64) -> &mut Self {
        self.line(name, itoa::Buffer::new().format(value).as_bytes())
    }

    /// The block. Empty if it has no lines, which is how a message without headers is kept.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.block.len() == VERSION.len() {
            return Vec::new();
        }
        self.block.extend_from_slice(END);
        self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_and_first_values_count() {
        let block = b"NATS/1.0\r\nX-Nats-Msg-Id: a\r\nNats-Msg-Id-X: c\r\nnats-msg-id: d\r\nNats-Msg-Id:  b\r\nNats-Msg-Id: e\r\n\r\n";
        assert_eq!(Known::parse(block).message_id, Some(&b"b"[..]));
        assert_eq!(find(block, b"X-Nats-Msg-Id"), Some(&b"a"[..]));
    }

    #[test]
    fn empty_value_is_absent_but_an_empty_zone_is_noticed() {
        let known = Known::parse(b"NATS/1.0\r\nNats-TTL: \r\nNats-Schedule-Time-Zone:\r\n\r\n");
        assert_eq!((known.ttl, known.schedule_time_zone, known.has_time_zone), (None, None, true));
    }

    #[test]
    fn status_line_and_broken_blocks_are_survived() {
        assert_eq!(lines(b"").count() + lines(b"NATS/1.0").count() + lines(b"NATS/1.0\r\nabc").count(), 0);
        assert_eq!(find(b"NATS/1.0 503\r\nA: 1\r\n\r\n", b"A"), Some(&b"1"[..]));
        assert_eq!(find(b"NATS/1.0\r\nno colon\r\nA:1\r\n", b"A"), Some(&b"1"[..]));
    }

    #[test]
    fn built_block_has_lines_in_order() {
        let mut built = Builder::filtered(b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n", 10, |name| name != b"A");
        built.number(b"C", 3);
        assert_eq!(built.finish(), b"NATS/1.0\r\nB: 2\r\nC: 3\r\n\r\n");
        let mut built = Builder::from(b"NATS/1.0\r\nA:1\r\n\r\n", 10);
        built.line(b"B", b"x");
        assert_eq!(built.finish(), b"NATS/1.0\r\nA:1\r\nB: x\r\n\r\n");
        assert_eq!(Builder::new(0).finish(), b"");
        let with = |block: &[u8]| Builder::with(block, b"A", b"9").finish();
        assert_eq!(
            with(b"NATS/1.0\r\nB: 1\r\nA: 2\r\nA: 3\r\n\r\n"),
            b"NATS/1.0\r\nB: 1\r\nA: 9\r\nA: 3\r\n\r\n"
        );
        assert_eq!(with(b""), b"NATS/1.0\r\nA: 9\r\n\r\n");
    }
}
