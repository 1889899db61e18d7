//! Passwords: from Secrets to bcrypt, the same bytes at every pass.
//!
//! A salt is derived from a secret seed of the cluster instead of drawn at random: a random one would change the
//! configuration, and with it reload every server, at every pass.

use std::collections::HashMap;

use parking_lot::Mutex;
use rand::Rng;
use rand::distr::Alphanumeric;
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Name of the operator's user in the system account.
pub const OPERATOR_USER: &str = "myelin-operator";
/// Characters of a generated password: more than 190 bits.
const GENERATED_LENGTH: usize = 32;
/// bcrypt looks at no more bytes than these.
const PASSWORD_LENGTH_MAX: usize = 72;
/// Hashes remembered. Above it the memory is dropped and built again.
const REMEMBERED_MAX: usize = 20_000;

/// Name of the operator's user in an account of the cluster.
#[must_use]
pub fn manager_user(account: &str) -> String {
    format!("{OPERATOR_USER}.{account}")
}

/// Its password, which follows from the operator's own one: nothing more has to be kept, and one account's says nothing of another's.
#[must_use]
pub fn manager_password(operator_password: &str, account: &str) -> String {
    let mut text = String::new();
    for byte in digest(&["manager", operator_password, account]) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// A random password of letters and digits.
#[must_use]
pub fn generate() -> String {
    rand::rng().sample_iter(Alphanumeric).take(GENERATED_LENGTH).map(char::from).collect()
}

/// Turns passwords into bcrypt, and remembers the results because each costs a tenth of a second.
#[derive(Default)]
pub struct Hasher {
    remembered: Mutex<HashMap<[u8; 32], String>>,
}

impl Hasher {
    /// The bcrypt of a password. A password that is bcrypt already passes through.
    ///
    /// # Errors
    /// When the password is empty or too long.
    pub fn hash(&self, seed: &str, user: &str, password: &str, cost: u32) -> Result<String, Error> {
        let refuse = |problem: &str| Error::Password { user: user.to_owned(), problem: problem.to_owned() };
        if is_bcrypt(password) {
            return Ok(password.to_owned());
        }
        if password.is_empty() {
            return Err(refuse("is empty: put a password into the secret"));
        }
        if password.len() > PASSWORD_LENGTH_MAX {
            return Err(refuse("is longer than 72 bytes, which is all that bcrypt compares"));
        }
        let key = digest(&[seed, user, password, &cost.to_string()]);
        if let Some(known) = self.remembered.lock().get(&key) {
            return Ok(known.clone());
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&digest(&["salt", seed, user, password])[..16]);
        let hashed = bcrypt::hash_with_salt(password, cost, salt)
            .map_err(|error| refuse(&format!("cannot be hashed: {error}")))?
            .format_for_version(bcrypt::Version::TwoA);
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(key, hashed.clone());
        Ok(hashed)
    }
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// Whether a text is a bcrypt hash: version, cost, and 53 characters of salt and hash.
fn is_bcrypt(text: &str) -> bool {
    let mut parts = text.split('$');
    let (Some(""), Some(version), Some(cost), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    matches!(version, "2a" | "2b" | "2x" | "2y") && cost.len() == 2 && rest.len() == 53
}

/// A password as people put it into a Secret: a line end at the end is not part of it.
#[must_use]
pub fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_password_always_gives_the_same_hash_and_verifies() {
        let hash = |seed, user| Hasher::default().hash(seed, user, "secret", 4).unwrap();
        assert_eq!(hash("s", "a"), hash("s", "a"));
        assert_ne!(hash("s", "a"), hash("s", "b"));
        assert_ne!(hash("s", "a"), hash("t", "a"));
        assert!(bcrypt::verify("secret", &hash("s", "a")).unwrap());
        assert!(hash("s", "a").starts_with("$2a$04$"));
    }

    #[test]
    fn managers_have_passwords_of_their_own() {
        assert_eq!(manager_password("p", "A"), manager_password("p", "A"));
        assert_ne!(manager_password("p", "A"), manager_password("p", "B"));
        assert_ne!(manager_password("p", "A"), manager_password("q", "A"));
        assert!(manager_password("p", "A").len() <= PASSWORD_LENGTH_MAX);
        assert!(manager_user("A").starts_with(crd::nats_cluster::validate::RESERVED_USER));
    }

    #[test]
    fn bcrypt_passes_through() {
        let hasher = Hasher::default();
        let hashed = hasher.hash("s", "a", "secret", 4).unwrap();
        assert_eq!(hasher.hash("s", "b", &hashed, 4).unwrap(), hashed);
    }

    #[test]
    fn passwords_have_bounds() {
        let hasher = Hasher::default();
        assert!(hasher.hash("s", "a", "", 4).is_err());
        assert!(hasher.hash("s", "a", &"x".repeat(PASSWORD_LENGTH_MAX), 4).is_ok());
        assert!(hasher.hash("s", "a", &"x".repeat(PASSWORD_LENGTH_MAX + 1), 4).is_err());
    }

    #[test]
    fn a_line_end_is_not_part_of_a_password() {
        for text in ["p", "p\n", "p\r\n"] {
            assert_eq!(without_line_end(text), "p");
        }
        assert_eq!(without_line_end("p\n\n"), "p\n");
    }
}
