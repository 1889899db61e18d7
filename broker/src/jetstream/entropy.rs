//! Randomness for keys and stamps: the system's.

use store::crypt::Entropy;

/// The system's generator, as the `rand` crate serves it to this thread.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        rand::RngCore::fill_bytes(&mut rand::rng(), bytes);
    }
}
