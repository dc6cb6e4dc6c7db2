//! A small generator of pseudo-random numbers (splitmix64). Repeatable, not secret.

/// The same seed yields the same numbers, on every machine and in every version.
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator; every seed is as good as any other.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// When `limit` is zero.
    pub const fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product spreads evenly enough for limits far below 2^64.
        ((self.next_u64() as u128 * limit_above_zero(limit) as u128) >> 64) as u64
    }

    /// `true` or `false` with equal probability.
    pub const fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }
}

const fn limit_above_zero(limit: u64) -> u64 {
    assert!(limit > 0, "there is no number below zero");
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next_u64());
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn every_number_below_the_limit_comes_up() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 150), "{seen:?}");
    }
}
