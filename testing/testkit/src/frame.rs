//! What a server sends, cut into protocol units without interpreting more than needed.

use std::fmt;

/// One unit of the protocol: a line, with the payload that belongs to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes as they came, line ends included.
    pub bytes: Vec<u8>,
    line_len: usize,
}

/// A message delivered to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Subject it was published on.
    pub subject: String,
    /// Subscription id that it was delivered to.
    pub sid: String,
    /// Reply subject.
    pub reply: Option<String>,
    /// Header block, empty without headers.
    pub headers: String,
    /// Payload as text.
    pub payload: String,
}

impl Frame {
    /// Length of the payload that follows this line (without its line end), if one follows.
    pub(crate) fn payload_len(line: &[u8]) -> Option<usize> {
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.split_ascii_whitespace();
        match words.next()?.to_ascii_uppercase().as_str() {
            "MSG" | "HMSG" | "RMSG" | "LMSG" => words.next_back()?.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn new(bytes: Vec<u8>, line_len: usize) -> Self {
        Self { bytes, line_len }
    }

    /// The line without its end.
    pub fn line(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.line_len]).trim_end_matches(['\r', '\n']).to_owned()
    }

    /// First word of the line.
    pub fn verb(&self) -> String {
        self.line().split_ascii_whitespace().next().unwrap_or_default().to_owned()
    }

    /// The payload, header block included.
    pub fn payload(&self) -> &[u8] {
        self.bytes[self.line_len..].strip_suffix(b"\r\n").unwrap_or_default()
    }

    /// Whether this is a message for a client.
    pub(crate) fn is_message(&self) -> bool {
        self.bytes.starts_with(b"MSG ") || self.bytes.starts_with(b"HMSG ")
    }

    /// The payload of a message without its header block.
    pub(crate) fn body(&self) -> &[u8] {
        let payload = self.payload();
        if !self.bytes.starts_with(b"H") {
            return payload;
        }
        let line = self.line();
        let header_len = line.rsplit(' ').nth(1).map_or(0, number);
        payload.get(header_len..).unwrap_or_default()
    }

    /// Everything as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The frame as a message for a client (`MSG` or `HMSG`).
    pub fn message(&self) -> Message {
        let line = self.line();
        let words: Vec<&str> = line.split(' ').collect();
        let payload = String::from_utf8_lossy(self.payload()).into_owned();
        let (subject, sid, reply, header_len) = match words.as_slice() {
            ["MSG", subject, sid, _] => (subject, sid, None, 0),
            ["MSG", subject, sid, reply, _] => (subject, sid, Some(reply), 0),
            ["HMSG", subject, sid, size, _] => (subject, sid, None, number(size)),
            ["HMSG", subject, sid, reply, size, _] => (subject, sid, Some(reply), number(size)),
            _ => panic!("not a message for a client: {line:?}"),
        };
        Message {
            subject: (*subject).to_owned(),
            sid: (*sid).to_owned(),
            reply: reply.map(|reply| (*reply).to_owned()),
            headers: payload[..header_len].to_owned(),
            payload: payload[header_len..].to_owned(),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

fn number(text: &str) -> usize {
    match text.parse() {
        Ok(number) => number,
        Err(error) => panic!("size {text:?}: {error}"),
    }
}
