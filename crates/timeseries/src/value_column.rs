//! The values of one position.
//!
//! ```text
//! kind                     one byte
//!   0 plain                8 bytes each
//!   1 decimals             scale, one byte · exceptions u16 · packed numbers · exceptions
//!   2 decimals that are
//!     near to each other   scale, one byte · exceptions u16 · first, signed, variable length ·
//!                          packed differences · exceptions
//!   3 combined             length u16 · see xor
//! exception                position u16 · value, 8 bytes
//! ```
//!
//! A decimal is the quotient of a whole number and ten to the power of the scale. Both are exact
//! below 2^53 and 10^22, and a quotient is rounded only once, so every decimal of up to fifteen
//! digits comes back as exactly the number of its text.

use crate::{
    bytes::{Damaged, damaged, put_signed, take, take_byte, take_signed, take_u16, take_u64},
    packed::{Packing, unpack},
    xor,
};

const PLAIN: u8 = 0;
const DECIMALS: u8 = 1;
const NEAR_DECIMALS: u8 = 2;
const COMBINED: u8 = 3;
/// Approximate extra cost of the first of the differences, in bytes.
const FIRST_BYTES: usize = 3;
const SCALES: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/// Whole numbers up to here are exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// The scale is chosen from this many values.
const SAMPLE: usize = 32;
/// One in this many values may not be a decimal of the scale.
const EXCEPTIONS_SHARE: usize = 8;

/// The whole number that a value is at a scale, if it is one, bit by bit.
fn whole(value: f64, scale: f64) -> Option<i64> {
    let scaled = (value * scale).round();
    if scaled.is_nan() || WHOLE_MAX < scaled.abs() {
        return None;
    }
    // Through the whole number and back, since that loses a negative zero.
    let number = scaled as i64;
    (number as f64 / scale).to_bits().eq(&value.to_bits()).then_some(number)
}

/// The values as whole numbers of a scale, and the exceptions, by position.
struct Decimals {
    scale: u8,
    numbers: Vec<i64>,
    exceptions: Vec<(u16, f64)>,
}

impl Decimals {
    fn of(values: &[f64]) -> Option<Self> {
        let step = values.len().div_ceil(SAMPLE).max(1);
        let fits = |scale: &f64| {
            values.iter().step_by(step).filter(|value| whole(**value, *scale).is_some()).count()
        };
        let all = values.len().div_ceil(step);
        // The smallest of the best scales; nothing is better than all.
        let (mut best, mut scale) = (0, 0);
        for (position, candidate) in SCALES.iter().enumerate() {
            let found = fits(candidate);
            if best < found {
                (best, scale) = (found, position);
            }
            if best == all {
                break;
            }
        }
        let allowed = values.len() / EXCEPTIONS_SHARE;
        let mut decimals = Self {
            scale: scale as u8,
            numbers: Vec::with_capacity(values.len()),
            exceptions: Vec::new(),
        };
        let mut previous = 0;
        for (position, value) in values.iter().enumerate() {
            match whole(*value, SCALES[scale]) {
                Some(number) => previous = number,
                None => decimals.exceptions.push((position as u16, *value)),
            }
            if allowed < decimals.exceptions.len() {
                return None;
            }
            decimals.numbers.push(previous);
        }
        Some(decimals)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let differences: Vec<i64> =
            self.numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        let (packing, near) = (Packing::of(&self.numbers), Packing::of(&differences));
        let is_near = near.bytes + FIRST_BYTES < packing.bytes;
        out.push(if is_near { NEAR_DECIMALS } else { DECIMALS });
        out.push(self.scale);
        out.extend_from_slice(&(self.exceptions.len() as u16).to_le_bytes());
        if is_near {
            put_signed(self.numbers.first().copied().unwrap_or_default(), out);
            near.write(&differences, out);
        } else {
            packing.write(&self.numbers, out);
        }
        for (position, value) in &self.exceptions {
            out.extend_from_slice(&position.to_le_bytes());
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
}

/// Appends a column of at most 65,535 values.
pub(crate) fn write(values: &[f64], out: &mut Vec<u8>) {
    let start = out.len();
    let plain = 1 + size_of_val(values);
    match Decimals::of(values) {
        Some(decimals) => decimals.write(out),
        None => {
            out.extend_from_slice(&[COMBINED, 0, 0]);
            xor::write(values, out);
            let bytes = out.len() - start - 3;
            match u16::try_from(bytes) {
                Ok(bytes) => out[start + 1..start + 3].copy_from_slice(&bytes.to_le_bytes()),
                Err(_) => out.resize(start + plain + 1, 0),
            }
        }
    }
    if out.len() - start > plain {
        out.truncate(start);
        out.push(PLAIN);
        values.iter().for_each(|value| out.extend_from_slice(&value.to_bits().to_le_bytes()));
    }
}

/// Takes a column of `count` values from the front of `bytes`; they replace what is in `values`.
/// `numbers` lends its memory.
pub(crate) fn read(
    bytes: &mut &[u8],
    count: usize,
    values: &mut Vec<f64>,
    numbers: &mut Vec<i64>,
) -> Result<(), Damaged> {
    values.clear();
    match take_byte(bytes)? {
        PLAIN => {
            let (plain, _) = take(bytes, count * size_of::<f64>())?.as_chunks();
            values.extend(plain.iter().map(|value| f64::from_bits(u64::from_le_bytes(*value))));
            Ok(())
        }
        kind @ (DECIMALS | NEAR_DECIMALS) => {
            let scale = SCALES.get(usize::from(take_byte(bytes)?));
            let scale = *scale.ok_or(damaged("its decimals have an unknown scale"))?;
            let exceptions = take_u16(bytes)?;
            if kind == DECIMALS {
                unpack(bytes, count, numbers)?;
                values.extend(numbers.iter().map(|number| *number as f64 / scale));
            } else {
                let mut number = take_signed(bytes)?;
                unpack(bytes, count.saturating_sub(1), numbers)?;
                values.extend((count != 0).then_some(number as f64 / scale));
                values.extend(numbers.iter().map(|difference| {
                    number = number.wrapping_add(*difference);
                    number as f64 / scale
                }));
            }
            for _ in 0..exceptions {
                let position = usize::from(take_u16(bytes)?);
                let value = values.get_mut(position);
                *value.ok_or(damaged("an exception has no place"))? =
                    f64::from_bits(take_u64(bytes)?);
            }
            Ok(())
        }
        COMBINED => {
            let length = usize::from(take_u16(bytes)?);
            let combined = take(bytes, length)?;
            xor::read(combined, count, values).ok_or(damaged("its combined values are too wide"))
        }
        _ => Err(damaged("its values have an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(values: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(values, &mut bytes);
        let (mut rest, mut found) = (bytes.as_slice(), vec![5.0]);
        read(&mut rest, values.len(), &mut found, &mut Vec::new()).unwrap();
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(values));
        assert!(rest.is_empty());
        bytes
    }

    #[test]
    fn a_walk_of_cents_takes_a_byte_or_so_for_a_value() {
        let mut cents = 10_000_i64;
        let values: Vec<f64> = (0..1000_i64)
            .map(|i| {
                cents += i * 7919 % 201 - 100;
                cents as f64 / 100.0
            })
            .collect();
        assert!(written(&values).len() < 1050);
    }

    #[test]
    fn every_kind_is_chosen_where_it_is_best() {
        let shares: Vec<f64> = (0..100).map(|i| f64::from(i) / 1_048_576.0).collect();
        let noise: Vec<f64> = (1..100_u64)
            .map(|i| f64::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2))
            .collect();
        assert_eq!(written(&[1.5, -3.0, 2.25])[0], DECIMALS);
        assert_eq!(written(&(0..100).map(f64::from).collect::<Vec<_>>())[0], NEAR_DECIMALS);
        assert_eq!(written(&shares)[0], COMBINED);
        assert_eq!(written(&noise)[0], PLAIN);
        // Of 17 digits, so that it is no decimal; the same value again takes a bit.
        let same = vec![0.1 + 0.2; 1000];
        assert_eq!(written(&same)[0], COMBINED);
        assert!(written(&same).len() < 140);
        written(&[]);
        written(&[f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MIN_POSITIVE, f64::MAX]);
        let mut mixed: Vec<f64> = (0..100).map(|i| f64::from(i) / 10.0).collect();
        mixed[50] = -0.0;
        mixed[51] = f64::INFINITY;
        assert_eq!(written(&mixed)[0], NEAR_DECIMALS);
    }

    #[test]
    fn a_negative_zero_stays_one() {
        written(&[-0.0]);
        written(&[-0.0, -0.0, -0.0]);
        written(&[
            -0.0, 1.0, 0.0, 2.5, -0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0,
            14.0,
        ]);
    }

    proptest! {
        #[test]
        fn all_values_come_back(
            values in prop_oneof![
                proptest::collection::vec(any::<u64>().prop_map(f64::from_bits), 0..100),
                proptest::collection::vec(any::<i16>().prop_map(|n| f64::from(n) / 100.0), 0..100),
                proptest::collection::vec(
                    prop_oneof![
                        9 => any::<i16>().prop_map(|n| f64::from(n) / 1000.0),
                        1 => any::<u64>().prop_map(f64::from_bits)
                    ],
                    0..100
                ),
            ]
        ) {
            written(&values);
        }
    }
}
