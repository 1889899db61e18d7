//! Short names made from long ones, as the reference makes them: they are in stored headers, so both must agree.

use api::Time;
use sha2::{Digest, Sha256};
use store::Timestamp;

use super::ALPHABET;

/// Characters of a short name.
const LENGTH: usize = 8;

/// Eight characters that stand for a text.
pub(crate) fn short(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(LENGTH).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// What tells a stream from another one of the same name: it follows from when it was made.
#[must_use]
pub fn identity(created: Timestamp) -> String {
    short(&Time::from_unix_nanos(i128::from(created.0)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_those_of_the_reference() {
        assert_eq!(short("M $G"), "ih8eMwqr");
        assert_eq!(short(&short("S $G")), "N6lXlrSF");
        assert_eq!(identity(Timestamp(1_796_209_620_074_485_528)), "4zXHBLdM");
    }
}
