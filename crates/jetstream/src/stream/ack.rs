//! Acknowledgements of publishes, written by hand: their bytes are part of the contract and there is one for each message.

use api::ApiError;
use bytes::{BufMut, Bytes, BytesMut};

use super::facts::Identity;
use super::flight::Detailed;

/// Memory taken at once for acknowledgements, so that one allocation serves many.
const CHUNK: usize = 8 * 1024;

/// Longest number.
const NUMBER: usize = 20;

/// Writes the acknowledgements of one stream.
#[derive(Debug)]
pub(crate) struct PubAcks {
    /// Up to the sequence.
    start: Box<[u8]>,
    /// `,"stream":<name>,"seq":0}`, the end of a refusal.
    refusal: Box<[u8]>,
    chunk: BytesMut,
}

impl PubAcks {
    pub(crate) fn new(identity: &Identity) -> Self {
        let name = quoted(&identity.name);
        let domain = match &identity.domain {
            Some(domain) => format!("\"domain\":{},", quoted(domain)),
            None => String::new(),
        };
        Self {
            start: format!("{{\"stream\":{name},{domain}\"seq\":").into_bytes().into(),
            refusal: refusal_end(&name).into_bytes().into(),
            chunk: BytesMut::new(),
        }
    }

    fn begin(&mut self, sequence: u64, more: usize) {
        let needed = self.start.len() + NUMBER + 1 + more;
        if self.chunk.capacity() < needed {
            self.chunk.reserve(needed.max(CHUNK));
        }
        self.chunk.put_slice(&self.start);
        self.chunk.put_slice(itoa::Buffer::new().format(sequence).as_bytes());
    }

    /// It is stored.
    pub(crate) fn stored(&mut self, sequence: u64) -> Bytes {
        self.begin(sequence, 0);
        self.chunk.put_u8(b'}');
        self.chunk.split().freeze()
    }

    /// It is stored, and more.
    pub(crate) fn detailed(&mut self, sequence: u64, detailed: &Detailed) -> Bytes {
        let mut more = String::new();
        if let Some(value) = &detailed.value {
            more.push_str(",\"val\":");
            more.push_str(&quoted(value));
        }
        if let Some((id, count)) = &detailed.batch {
            more.push_str(",\"batch\":");
            more.push_str(&quoted(&String::from_utf8_lossy(id)));
            more.push_str(",\"count\":");
            more.push_str(itoa::Buffer::new().format(*count));
        }
        self.begin(sequence, more.len());
        self.chunk.put_slice(more.as_bytes());
        self.chunk.put_u8(b'}');
        self.chunk.split().freeze()
    }

    /// It was there already.
    pub(crate) fn duplicate(&mut self, sequence: u64) -> Bytes {
        const DUPLICATE: &[u8] = b",\"duplicate\": true}";
        self.begin(sequence, DUPLICATE.len());
        self.chunk.put_slice(DUPLICATE);
        self.chunk.split().freeze()
    }

    /// It was refused.
    pub(crate) fn refused(&self, error: &ApiError) -> Bytes {
        refusal(error, &self.refusal)
    }
}

/// What a publisher hears whose message a stream of this name did not take.
pub fn publish_error(stream: &str, error: &ApiError) -> Bytes {
    refusal(error, refusal_end(&quoted(stream)).as_bytes())
}

fn refusal_end(quoted_name: &str) -> String {
    format!(",\"stream\":{quoted_name},\"seq\":0}}")
}

fn refusal(error: &ApiError, end: &[u8]) -> Bytes {
    let description = quoted(&error.description);
    let (code, number) = (error.code, error.err_code);
    let start =
        format!("{{\"error\":{{\"code\":{code},\"err_code\":{number},\"description\":{description}}}");
    [start.as_bytes(), end].concat().into()
}

/// A JSON string as the reference writes it.
pub(crate) fn quoted(text: &str) -> String {
    match api::json::to_vec(text) {
        Ok(json) => String::from_utf8_lossy(&json).into_owned(),
        // A string always has a JSON form.
        Err(_) => String::from("\"\""),
    }
}

#[cfg(test)]
mod tests {
    use api::error::jetstream::ErrorCode;
    use store::Timestamp;

    use super::*;

    fn acks(domain: Option<&str>) -> PubAcks {
        PubAcks::new(&Identity {
            account: "A".into(),
            name: "S".into(),
            group: 1,
            domain: domain.map(Into::into),
            created: Timestamp(0),
        })
    }

    #[test]
    fn bytes_are_those_of_the_reference() {
        let mut acks = acks(None);
        assert_eq!(acks.stored(1), &br#"{"stream":"S","seq":1}"#[..]);
        assert_eq!(
            acks.duplicate(u64::MAX),
            &br#"{"stream":"S","seq":18446744073709551615,"duplicate": true}"#[..]
        );
        let batch = Detailed { reply: Bytes::new(), value: None, batch: Some((Bytes::from_static(b"i"), 3)) };
        assert_eq!(acks.detailed(7, &batch), &br#"{"stream":"S","seq":7,"batch":"i","count":3}"#[..]);
        let counter = Detailed { reply: Bytes::new(), value: Some("-2".into()), batch: None };
        assert_eq!(acks.detailed(7, &counter), &br#"{"stream":"S","seq":7,"val":"-2"}"#[..]);
        let refused = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 2"},"stream":"S","seq":0}"#;
        assert_eq!(acks.refused(&ErrorCode::STREAM_WRONG_LAST_SEQUENCE.because(2)), refused.as_bytes());
        assert_eq!(self::acks(Some("D")).stored(1), &br#"{"stream":"S","domain":"D","seq":1}"#[..]);
    }
}
