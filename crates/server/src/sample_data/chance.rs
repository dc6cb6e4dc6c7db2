//! Pseudo-random numbers for the sample data, the same each time.

/// Draws numbers. Two of the same name draw the same.
pub(super) struct Chance(u64);

impl Chance {
    /// The draws for one thing, such as an order.
    pub(super) fn of(kind: &str, number: usize) -> Chance {
        let begin = kind.bytes().fold(number as u64, |state, byte| mix(state ^ u64::from(byte)));
        Chance(begin)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = mix(self.0);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }

    /// An item of a list, which must not be empty.
    pub(super) fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A string of `count` decimal digits.
    pub(super) fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b"0123456789"[self.below(10)])).collect()
    }
}

/// A bijection that spreads each bit over all (splitmix64).
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}
