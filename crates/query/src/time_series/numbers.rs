//! Values of time series as JSON.

use std::io::Write;

/// Whole numbers below this are printed digit by digit, others with an exponent.
const PLAIN_BELOW: f64 = 1e17;
/// Fractions of at least this, and below the other bound, are printed without an exponent.
const FRACTIONS_FROM: f64 = 1e-4;
const FRACTIONS_BELOW: f64 = 1e15;

/// The format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `60.0`: as doubles.
    Doubles,
    /// `60`: whole numbers without a fraction.
    Short,
}

/// Appends a number as JSON to `out`.
pub fn write_number(number: f64, form: Numbers, out: &mut Vec<u8>) {
    let size = number.abs();
    // Writing to memory cannot fail.
    if number.fract() == 0.0 && size < PLAIN_BELOW {
        drop(write!(out, "{number}"));
        if form == Numbers::Doubles {
            out.extend_from_slice(b".0");
        }
    } else if (FRACTIONS_FROM..FRACTIONS_BELOW).contains(&size) {
        drop(write!(out, "{number}"));
    } else if number.is_finite() {
        out.extend_from_slice(script::double_text(number).as_bytes());
    } else {
        out.extend_from_slice(match number {
            f64::INFINITY => b"\"Infinity\"".as_slice(),
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ => b"\"NaN\"",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_the_protocol_has_them() {
        for (number, doubles, short) in [
            (60.0, "60.0", "60"),
            (-5.25, "-5.25", "-5.25"),
            (-0.0, "-0.0", "-0"),
            (0.1, "0.1", "0.1"),
            (0.0001, "0.0001", "0.0001"),
            (0.00012345, "0.00012345", "0.00012345"),
            (0.00001, "1E-05", "1E-05"),
            (1e-7, "1E-07", "1E-07"),
            (-1.5e-7, "-1.5E-07", "-1.5E-07"),
            (123_456_789_012_345.5, "123456789012345.5", "123456789012345.5"),
            (1e15, "1000000000000000.0", "1000000000000000"),
            (1e16, "10000000000000000.0", "10000000000000000"),
            (1e17, "1E+17", "1E+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17", "1.2345678901234568E+17"),
            (1e308, "1E+308", "1E+308"),
            (f64::NAN, "\"NaN\"", "\"NaN\""),
            (f64::INFINITY, "\"Infinity\"", "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\"", "\"-Infinity\""),
        ] {
            for (form, expected) in [(Numbers::Doubles, doubles), (Numbers::Short, short)] {
                let mut out = Vec::new();
                write_number(number, form, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }
}
