//! The seeded generator behind every choice of a simulated disk (SplitMix64).

/// The same seed gives the same choices.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a choice among nothing");
        (self.next() % bound as u64) as usize
    }

    /// True in half of the cases.
    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}
