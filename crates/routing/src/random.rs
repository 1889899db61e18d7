//! A small seeded generator for fair choices; not for secrets.

/// Marsaglia's xorshift with the starred multiplier: one multiplication and three shifts per number.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Zero is the one state the generator cannot leave.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, which must not be zero.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "a choice among nothing");
        // The high half carries the better bits; the multiplication maps it to the range without a division.
        ((self.next_u64() >> 32).wrapping_mul(u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_even_within_two_percent() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 5];
        for _ in 0..100_000 {
            counts[random.below(5) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (19_600..20_400).contains(c)), "{counts:?}");
    }

    #[test]
    fn seed_zero_still_moves() {
        let mut random = Random::new(0);
        assert_ne!(random.next_u64(), random.next_u64());
    }
}
