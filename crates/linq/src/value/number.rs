//! Numbers: the digits of documents, decimals, and how .NET writes doubles.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// The decimal that a document's digits name, scale kept; `None` when there is none that large.
pub(crate) fn decimal_of_digits(digits: &str) -> Option<Decimal> {
    if digits.bytes().any(|byte| matches!(byte, b'e' | b'E')) {
        return Decimal::from_scientific(digits).ok();
    }
    digits.parse().ok()
}

/// The double that a document's digits name.
pub(crate) fn double_of_digits(digits: &str) -> f64 {
    digits.parse().unwrap_or(f64::NAN)
}

/// The integer that remains of a document's digits without their fraction; `None` when 64 bits do
/// not hold it.
pub(crate) fn integer_of_digits(digits: &str) -> Option<i64> {
    match decimal_of_digits(digits) {
        Some(decimal) => decimal.trunc().to_i64(),
        None => integer_of_double(double_of_digits(digits)),
    }
}

/// The integer that remains of a double without its fraction.
pub(crate) fn integer_of_double(double: f64) -> Option<i64> {
    let whole = double.trunc();
    // Both bounds are exact doubles; the upper one is the first that does not fit.
    (whole >= i64::MIN as f64 && whole < i64::MAX as f64).then_some(whole as i64)
}

/// The decimal nearest to a double, of 15 significant digits as .NET converts.
pub(crate) fn decimal_of_double(double: f64) -> Option<Decimal> {
    if !double.is_finite() {
        return None;
    }
    let rounded = format!("{double:.14e}");
    let decimal = Decimal::from_scientific(&rounded).ok()?;
    Some(decimal.normalize())
}

/// The nearest double of a decimal.
pub(crate) fn double_of_decimal(decimal: &Decimal) -> f64 {
    decimal.to_string().parse().unwrap_or(f64::NAN)
}

/// A double as .NET writes it: the shortest digits that read back, `1E+16`, `1E-05`, `NaN`, `∞`.
pub(crate) fn double_text(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..15).contains(&exponent) {
        return format!("{double}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}E{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_dotnet_writes_them() {
        let cases = [
            (1.0, "1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e14, "100000000000000"),
            (1e15, "1E+15"),
            (1e16, "1E+16"),
            (123456789012345678.0, "1.2345678901234568E+17"),
            (0.0001, "0.0001"),
            (0.00001, "1E-05"),
            (-0.0, "-0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5E-324"),
        ];
        for (double, expected) in cases {
            assert_eq!(double_text(double), expected);
        }
    }

    #[test]
    fn digits_become_numbers_of_other_kinds() {
        assert_eq!(decimal_of_digits("10.10").unwrap().to_string(), "10.10");
        assert_eq!(decimal_of_digits("1e3").unwrap().to_string(), "1000");
        assert_eq!(integer_of_digits("-7.25"), Some(-7));
        assert_eq!(integer_of_digits("123456789012345678901234567890"), None);
        assert_eq!(integer_of_digits("1e300"), None);
        assert_eq!(decimal_of_double(2.675).unwrap().to_string(), "2.675");
        assert_eq!(decimal_of_double(0.1 + 0.2).unwrap().to_string(), "0.3");
        assert_eq!(decimal_of_double(f64::NAN), None);
        assert_eq!(integer_of_double(9.3e18), None);
        let long = "1234567890".repeat(200);
        for digits in [
            "1e300",
            "-1.5E-300",
            "1e-400",
            "0e999999999999",
            "1e99999999999",
            long.as_str(),
            "-0.0",
            "1.00000000000000000000000000000000001",
        ] {
            let _ =
                (decimal_of_digits(digits), integer_of_digits(digits), double_of_digits(digits));
        }
        for double in [f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, 7.9e28, 8e28] {
            let _ = decimal_of_double(double);
        }
    }
}
