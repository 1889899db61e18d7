//! The protocol trace (`trace: true`, `-V`): every operation as a line of the log, secrets left out.

use super::client::Client;

/// Members of CONNECT that prove an identity.
const SECRETS: [&str; 5] = ["pass", "auth_token", "jwt", "sig", "proxy_sig"];

/// Is the trace on? One atomic load, so it may be asked for every operation.
#[inline]
pub fn is_on() -> bool {
    tracing::enabled!(tracing::Level::TRACE)
}

/// An operation that came in: `bytes` is all of it, with the payload. At most `payload_max` bytes of that are shown; zero is all.
pub fn received(client: &Client, bytes: &[u8], payload_max: usize) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = String::from_utf8_lossy(&bytes[..end]);
    let line = without_secrets(line.trim_end());
    tracing::trace!("{} - cid:{} - <<- [{line}]", client.peer, client.id);
    let payload = bytes.get(end + 1..).unwrap_or_default();
    let payload = payload.strip_suffix(b"\r\n").unwrap_or(payload);
    if !payload.is_empty() {
        let shown = if payload_max == 0 { payload } else { &payload[..payload.len().min(payload_max)] };
        let rest = if shown.len() < payload.len() { "..." } else { "" };
        let text = String::from_utf8_lossy(shown);
        tracing::trace!("{} - cid:{} - <<- MSG_PAYLOAD: [{text:?}{rest}]", client.peer, client.id);
    }
}

/// A message that goes out to a client.
pub fn sent(client: &Client, subject: &[u8], sid: &[u8], reply: Option<&[u8]>, size: usize) {
    let text = String::from_utf8_lossy;
    let reply = reply.map(|reply| format!(" {}", text(reply))).unwrap_or_default();
    let (subject, sid) = (text(subject), text(sid));
    tracing::trace!("{} - cid:{} - ->> [MSG {subject} {sid}{reply} {size}]", client.peer, client.id);
}

fn without_secrets(line: &str) -> String {
    let Some((verb, json)) = line.split_once(' ').filter(|(verb, _)| verb.eq_ignore_ascii_case("connect"))
    else {
        return line.to_owned();
    };
    let Ok(mut connect) = serde_json::from_str::<serde_json::Value>(json) else {
        return format!("{verb} [not JSON]");
    };
    if let Some(members) = connect.as_object_mut() {
        for (name, value) in members.iter_mut() {
            // The reader takes names in any case, so the trace must too.
            if SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
                *value = "[REDACTED]".into();
            }
        }
    }
    format!("{verb} {connect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_whatever_their_case() {
        let line =
            without_secrets(r#"CONNECT {"user":"u","Pass":"hush","auth_token":"hush","verbose":false}"#);
        assert!(!line.contains("hush"), "{line}");
        assert!(line.contains(r#""user":"u""#), "{line}");
        assert_eq!(without_secrets("connect hush"), "connect [not JSON]");
        assert_eq!(without_secrets("PUB foo 5"), "PUB foo 5");
    }
}
