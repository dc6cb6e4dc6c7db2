//! Values combined with their predecessors by exclusive or, as in Gorilla.
//!
//! Of the combination only the bits between its leading and trailing zeros are written:
//!
//! ```text
//! 0                                             the same value again
//! 10 · bits                                     within the leading and trailing zeros of the last one
//! 11 · leading zeros, 5 bits · bits - 1, 6 bits · bits
//! ```
//!
//! The first value is combined with 0. Bits run from the lowest of a byte upwards.

use crate::bytes::{BitReader, BitWriter};

/// More leading zeros are not recorded.
const LEADING_MAX: u32 = 31;

/// Which bits of a combination are written.
#[derive(Clone, Copy)]
struct Window {
    leading: u32,
    bits: u32,
}

impl Window {
    fn trailing(self) -> u32 {
        64 - self.leading - self.bits
    }
}

pub(crate) fn write(values: &[f64], out: &mut Vec<u8>) {
    let mut writer = BitWriter::new(out);
    let (mut previous, mut window) = (0, None);
    for value in values {
        let combined = value.to_bits() ^ previous;
        previous = value.to_bits();
        if combined == 0 {
            writer.put(0, 1);
            continue;
        }
        let leading = combined.leading_zeros().min(LEADING_MAX);
        let trailing = combined.trailing_zeros();
        match window {
            Some(known @ Window { .. })
                if known.leading <= leading && known.trailing() <= trailing =>
            {
                writer.put(0b01, 2);
                writer.put(combined >> known.trailing(), known.bits);
            }
            _ => {
                let new = Window { leading, bits: 64 - leading - trailing };
                writer.put(0b11, 2);
                writer.put(u64::from(new.leading), 5);
                writer.put(u64::from(new.bits - 1), 6);
                writer.put(combined >> trailing, new.bits);
                window = Some(new);
            }
        }
    }
    writer.finish();
}

/// Reads `count` values; `None` when the bytes are invalid.
pub(crate) fn read(bytes: &[u8], count: usize, values: &mut Vec<f64>) -> Option<()> {
    let mut reader = BitReader::new(bytes);
    let (mut previous, mut window) = (0, Window { leading: 0, bits: 64 });
    for _ in 0..count {
        if reader.take(1) == 1 {
            if reader.take(1) == 1 {
                let leading = reader.take(5) as u32;
                window = Window { leading, bits: reader.take(6) as u32 + 1 };
                if window.leading + window.bits > 64 {
                    return None;
                }
            }
            previous ^= reader.take(window.bits) << window.trailing();
        }
        values.push(f64::from_bits(previous));
    }
    Some(())
}
