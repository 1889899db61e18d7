//! What clients are sent.

use crate::info::Info;

/// Asks for a sign of life.
pub const PING: &[u8] = b"PING\r\n";
/// Answers PING.
pub const PONG: &[u8] = b"PONG\r\n";
/// Answers an operation in verbose mode.
pub const OK: &[u8] = b"+OK\r\n";

/// Longest number in a header line and the blank before it.
const NUMBER_LEN: usize = 21;

/// Appends the line before a payload of `total_len` bytes: HMSG if `header_len` is given, MSG otherwise.
#[inline]
pub fn msg_header(
    out: &mut Vec<u8>,
    subject: &[u8],
    sid: &[u8],
    reply: Option<&[u8]>,
    header_len: Option<usize>,
    total_len: usize,
) {
    let reply_len = reply.map_or(0, |reply| reply.len() + 1);
    out.reserve(b"HMSG ".len() + subject.len() + 1 + sid.len() + reply_len + 2 * NUMBER_LEN + 2);
    out.extend_from_slice(if header_len.is_some() { b"HMSG " } else { b"MSG " });
    out.extend_from_slice(subject);
    out.push(b' ');
    out.extend_from_slice(sid);
    if let Some(reply) = reply {
        out.push(b' ');
        out.extend_from_slice(reply);
    }
    if let Some(header_len) = header_len {
        number(out, header_len);
    }
    number(out, total_len);
    out.extend_from_slice(b"\r\n");
}

/// Appends a blank and a number.
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, value: usize) {
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An INFO line.
pub fn info(info: &Info) -> Vec<u8> {
    let mut line = b"INFO ".to_vec();
    json(&mut line, info);
    // The reference server has this blank too, and some clients cut at it.
    line.extend_from_slice(b" \r\n");
    line
}

/// Appends a document that is made of plain fields only.
pub(crate) fn json(out: &mut Vec<u8>, document: &impl serde::Serialize) {
    let written = serde_json::to_writer(&mut *out, document);
    assert!(written.is_ok(), "plain fields serialise: {written:?}");
}

/// An `-ERR` line.
pub fn err(text: &str) -> Vec<u8> {
    [b"-ERR '", text.as_bytes(), b"'\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_are_exact() {
        let line = |reply, header_len, total_len| {
            let mut out = Vec::new();
            msg_header(&mut out, b"a.b", b"9", reply, header_len, total_len);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(None, None, 0), "MSG a.b 9 0\r\n");
        assert_eq!(line(Some(&b"r"[..]), None, 12), "MSG a.b 9 r 12\r\n");
        assert_eq!(line(None, Some(12), 1_048_576), "HMSG a.b 9 12 1048576\r\n");
        assert_eq!(line(Some(&b"r"[..]), Some(0), 1), "HMSG a.b 9 r 0 1\r\n");
    }

    #[test]
    fn error_line_is_quoted() {
        assert_eq!(err("Stale Connection"), b"-ERR 'Stale Connection'\r\n");
    }

    #[test]
    fn info_line_ends_with_a_blank() {
        let line = info(&Info::default());
        assert!(line.starts_with(b"INFO {") && line.ends_with(b"} \r\n"), "{line:?}");
    }
}
