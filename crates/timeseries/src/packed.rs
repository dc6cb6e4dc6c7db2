//! Whole numbers in as few bits as most of them need.
//!
//! ```text
//! width, 0 to 64           one byte
//! exceptions               u16
//! base                     signed, variable length
//! fields                   one of `width` bits for each number: how far it lies above the base
//! exceptions               position u16 · distance from the base u64
//! ```
//!
//! The distance of an exception does not fit into its field; it may be that of a number below the base,
//! around the end of the 64 bits.

use crate::bytes::{
    BitReader, BitWriter, Damaged, bytes_of_bits, damaged, put_signed, take, take_byte,
    take_signed, take_u16, take_u64,
};

const HEADER_BYTES: usize = 3;
const EXCEPTION_BYTES: usize = 10;
/// One in this many numbers may be below the second base that is tried.
const LOW_NUMBERS: usize = 64;

/// How a column of numbers is best packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    base: i64,
    width: u32,
    exceptions: usize,
    /// Approximate size in bytes.
    pub(crate) bytes: usize,
}

impl Packing {
    /// The best packing of at most 65,535 numbers.
    pub(crate) fn of(numbers: &[i64]) -> Self {
        let lowest = numbers.iter().copied().min().unwrap_or(0);
        let best = Self::from_base(numbers, lowest);
        if best.width == 0 || numbers.len() < LOW_NUMBERS {
            return best;
        }
        // A few numbers far below the others would make all fields wide.
        let mut sorted = numbers.to_vec();
        let (_, low, _) = sorted.select_nth_unstable(numbers.len() / LOW_NUMBERS);
        let other = Self::from_base(numbers, *low);
        if other.bytes < best.bytes { other } else { best }
    }

    fn from_base(numbers: &[i64], base: i64) -> Self {
        let mut of_width = [0_usize; 65];
        for number in numbers {
            of_width[(64 - distance(*number, base).leading_zeros()) as usize] += 1;
        }
        let mut best = Self { base, width: 64, exceptions: 0, bytes: usize::MAX };
        let mut exceptions = 0;
        for width in (0..=64_u32).rev() {
            let bytes = HEADER_BYTES
                + size_of::<i64>()
                + bytes_of_bits(numbers.len() * width as usize)
                + exceptions * EXCEPTION_BYTES;
            if bytes <= best.bytes {
                best = Self { base, width, exceptions, bytes };
            }
            exceptions += of_width[width as usize];
        }
        best
    }

    pub(crate) fn write(&self, numbers: &[i64], out: &mut Vec<u8>) {
        out.push(self.width as u8);
        out.extend_from_slice(&(self.exceptions as u16).to_le_bytes());
        put_signed(self.base, out);
        let mut writer = BitWriter::new(out);
        numbers.iter().for_each(|number| writer.put(distance(*number, self.base), self.width));
        writer.finish();
        for (position, number) in numbers.iter().enumerate() {
            let distance = distance(*number, self.base);
            if self.width < 64 - distance.leading_zeros() {
                out.extend_from_slice(&(position as u16).to_le_bytes());
                out.extend_from_slice(&distance.to_le_bytes());
            }
        }
    }
}

fn distance(number: i64, base: i64) -> u64 {
    number.wrapping_sub(base).cast_unsigned()
}

/// Appends numbers in their best packing.
pub(crate) fn pack(numbers: &[i64], out: &mut Vec<u8>) {
    Packing::of(numbers).write(numbers, out);
}

/// Takes `count` numbers from the front of `bytes`; they replace what is in `numbers`.
pub(crate) fn unpack(
    bytes: &mut &[u8],
    count: usize,
    numbers: &mut Vec<i64>,
) -> Result<(), Damaged> {
    let width = u32::from(take_byte(bytes)?);
    if width > 64 {
        return Err(damaged("its numbers are too wide"));
    }
    let exceptions = take_u16(bytes)?;
    let base = take_signed(bytes)?;
    let mut reader = BitReader::new(take(bytes, bytes_of_bits(count * width as usize))?);
    numbers.clear();
    match width {
        0 => numbers.resize(count, base),
        _ => {
            numbers.extend((0..count).map(|_| base.wrapping_add(reader.take(width).cast_signed())))
        }
    }
    for _ in 0..exceptions {
        let position = usize::from(take_u16(bytes)?);
        let distance = take_u64(bytes)?;
        let number = numbers.get_mut(position).ok_or(damaged("an exception has no place"))?;
        *number = base.wrapping_add(distance.cast_signed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(numbers: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        pack(numbers, &mut bytes);
        let (mut rest, mut found) = (bytes.as_slice(), Vec::new());
        unpack(&mut rest, numbers.len(), &mut found).unwrap();
        assert_eq!(found, numbers);
        assert!(rest.is_empty());
        bytes
    }

    #[test]
    fn equal_numbers_need_no_fields_and_outliers_do_not_widen_the_others() {
        assert_eq!(packed(&[]).len(), 4);
        assert_eq!(packed(&[1000; 500]).len(), HEADER_BYTES + 2);
        let small = |i: i64| 100_000 + i * 7 % 16;
        let mut numbers: Vec<i64> = (0..640).map(small).collect();
        let plain = packed(&numbers).len();
        assert_eq!(plain, HEADER_BYTES + 3 + 320);
        for outlier in [i64::MAX, i64::MIN, 0] {
            numbers[77] = outlier;
            assert!(packed(&numbers).len() <= plain + EXCEPTION_BYTES, "{outlier}");
        }
    }

    proptest! {
        #[test]
        fn all_numbers_come_back(
            numbers in prop_oneof![
                proptest::collection::vec(any::<i64>(), 0..200),
                proptest::collection::vec(-5_i64..5, 0..200),
                proptest::collection::vec(
                    prop_oneof![9 => -50_i64..50, 1 => any::<i64>()], 0..300
                ),
            ]
        ) {
            packed(&numbers);
        }

        #[test]
        fn other_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0_usize..1024
        ) {
            let mut numbers = Vec::new();
            if unpack(&mut bytes.as_slice(), count, &mut numbers).is_ok() {
                prop_assert_eq!(numbers.len(), count);
            }
        }
    }
}
