//! Comparing a secret with what a client presents.

use config::Secret;

/// Longest password that is hashed; bcrypt itself looks at 72 bytes.
const PASSWORD_MAX: usize = 1024;

/// Is `candidate` the secret, or does the secret's hash stem from it? Hashing is slow on purpose, so it runs aside.
pub(super) async fn matches(secret: &Secret, candidate: Secret) -> bool {
    if !secret.is_bcrypt() {
        return secret.matches(candidate.expose().as_bytes());
    }
    if candidate.expose().len() > PASSWORD_MAX {
        return false;
    }
    let hash = secret.clone();
    let verified = tokio::task::spawn_blocking(move || bcrypt::verify(candidate.expose(), hash.expose()));
    matches!(verified.await, Ok(Ok(true)))
}
