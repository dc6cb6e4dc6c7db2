//! Numbers of scripts as JSON text, in the form that the protocol's other speakers print.
//!
//! A number without fraction inside of 64 bits is an integer, `-0` is 0; other doubles have the
//! shortest digits that read back as the double, with an exponent like `E+21` or `E-07` when they are large or
//! small.

/// The integer that `value` is, if it is one of 64 bits.
pub fn whole(value: f64) -> Option<i64> {
    // A script sees the largest integer, which many documents use for "no limit", as 2^63: the cast
    // restores it.
    let fits = (-9_223_372_036_854_775_808.0..=9_223_372_036_854_775_808.0).contains(&value);
    (fits && value.fract() == 0.0).then_some(value as i64)
}

/// The JSON text of a finite double that is not a 64-bit integer; check `whole` first.
pub use dotnet::number::double_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_the_protocol_prints_them() {
        for (value, text) in [
            (0.1 + 0.2, "0.30000000000000004"),
            (1e21, "1E+21"),
            (1e-7, "1E-07"),
            (1e300, "1E+300"),
            (0.0001, "0.0001"),
            (0.00001, "1E-05"),
            (1.2345678901234567e19, "1.2345678901234567E+19"),
            (123456789012345680000.0, "1.2345678901234568E+20"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (1.0 / 3.0, "0.3333333333333333"),
            (99999999999999.5, "99999999999999.5"),
            (1234567890123456.7, "1234567890123456.8"),
            (-1.5e-9, "-1.5E-09"),
        ] {
            assert_eq!(whole(value), None, "{value}");
            assert_eq!(double_text(value), text);
        }
    }

    #[test]
    fn whole_doubles_are_integers_while_they_fit() {
        for (value, integer) in [
            (3.0, Some(3)),
            (-0.0, Some(0)),
            (1e16, Some(10_000_000_000_000_000)),
            (-(2f64.powi(63)), Some(i64::MIN)),
            (2f64.powi(63), Some(i64::MAX)),
            (1.5e19, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (0.5, None),
        ] {
            assert_eq!(whole(value), integer, "{value}");
        }
    }
}
