//! Passwords and tokens: never printed, compared in constant time.

use std::fmt;

/// A password or token of the configuration. `Debug` prints nothing of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for a bcrypt check or for the CONNECT of an outgoing link.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if nothing was configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the text is a bcrypt hash (`$2a$`, `$2b$`, `$2x$`, `$2y$` and a two-digit cost), which
    /// [`Self::matches`] does not verify: hashing takes long and belongs to a pool of the broker.
    pub fn is_bcrypt(&self) -> bool {
        let text = self.0.as_bytes();
        text.len() >= 7
            && &text[..2] == b"$2"
            && matches!(text[2], b'a' | b'b' | b'x' | b'y')
            && text[3] == b'$'
            && text[4].is_ascii_digit()
            && text[5].is_ascii_digit()
            && text[6] == b'$'
    }

    /// Compares with what a client sent. The time depends on the length of the candidate only.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let mut difference = u8::from(own.len() != candidate.len());
        for (index, byte) in candidate.iter().enumerate() {
            // Reading a wrapped position keeps the work equal when the lengths differ.
            let other = if own.is_empty() { 0 } else { own[index % own.len()] };
            difference = std::hint::black_box(difference | (byte ^ other));
        }
        difference == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[REDACTED]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_match() {
        let secret = Secret::new("s3cret");
        assert!(secret.matches(b"s3cret"));
        for other in ["", "s3cre", "s3creT", "s3cret ", "s3crets3cret"] {
            assert!(!secret.matches(other.as_bytes()), "{other:?} matched");
        }
        assert!(Secret::default().matches(b""));
        assert!(!Secret::default().matches(b"\0"));
    }

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Secret::new("visible")), "[REDACTED]");
    }

    #[test]
    fn bcrypt_hashes_are_recognised_by_their_prefix() {
        assert!(Secret::new("$2a$11$V1qrpBVkmN1").is_bcrypt());
        assert!(Secret::new("$2y$05$x").is_bcrypt());
        for plain in ["$2a$", "$2c$11$x", "$2a$1x$x", "2a$11$", ""] {
            assert!(!Secret::new(plain).is_bcrypt(), "{plain:?} taken for bcrypt");
        }
    }
}
