//! Keys and values by number: 16-byte keys in random order or in that of their numbers, values that
//! compress about two to one.

/// A key.
pub(crate) type Key = [u8; 16];

/// What a commit writes.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'v> {
    pub(crate) key: Key,
    pub(crate) value: &'v [u8],
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The key of that number; different numbers have different keys.
pub(crate) fn key(number: u64) -> Key {
    // Each step can be undone, so nothing collides.
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    std::array::from_fn(|index| DIGITS[(mixed >> (4 * index)) as usize & 15])
}

/// Another key for that number: the next number has the next key.
pub(crate) fn ordered_key(number: u64) -> Key {
    std::array::from_fn(|index| DIGITS[(number >> (4 * (15 - index))) as usize & 15])
}

/// Values are cut out of this text.
pub(crate) struct Values {
    text: Vec<u8>,
    bytes: usize,
}

impl Values {
    const TEXT_BYTES: usize = 1 << 20;

    /// Values of that many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let text = (0..(Self::TEXT_BYTES as u64).div_ceil(16)).flat_map(key).collect();
        Self { text, bytes }
    }

    pub(crate) fn value(&self, number: u64) -> &[u8] {
        let begin = (number.wrapping_mul(7_919) as usize) % (Self::TEXT_BYTES - self.bytes);
        &self.text[begin..begin + self.bytes]
    }

    pub(crate) fn entry(&self, number: u64) -> Entry<'_> {
        Entry { key: key(number), value: self.value(number) }
    }

    pub(crate) fn ordered_entry(&self, number: u64) -> Entry<'_> {
        Entry { key: ordered_key(number), value: self.value(number) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_and_are_in_no_order() {
        let keys: Vec<Key> = (0..10_000).map(key).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4_000..6_000).contains(&ascents), "{ascents}");
    }

    #[test]
    fn ordered_keys_ascend() {
        let numbers = [0, 1, 15, 16, 999_999, 1_000_000, u64::MAX];
        assert!(numbers.map(ordered_key).is_sorted_by(|one, next| one < next));
        assert_eq!(&ordered_key(0xbeef), b"000000000000beef");
    }

    #[test]
    fn values_have_their_length() {
        let values = Values::new(300);
        for number in [0, 1, u64::MAX] {
            assert_eq!(values.entry(number).value.len(), 300);
        }
    }
}
