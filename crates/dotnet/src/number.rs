//! Numbers: the digits of documents, decimals, and how .NET writes doubles.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// A decimal has at most this many digits before or after its point, give or take one.
const DECIMAL_DIGITS_MAX: i32 = 29;

/// The decimal nearest to what a document's digits name, scale kept: excess digits after the point
/// are rounded. `None` when no decimal is that large.
pub fn decimal_of_digits(digits: &str) -> Option<Decimal> {
    match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => plain_digits(mantissa, exponent)?.parse().ok(),
        None => digits.parse().ok(),
    }
}

/// The digits without an exponent; `None` when no decimal is that large.
fn plain_digits(mantissa: &str, exponent: &str) -> Option<String> {
    let (sign, magnitude) = match mantissa.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", mantissa),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    if whole.bytes().chain(fraction.bytes()).all(|digit| digit == b'0') {
        return Some(mantissa.to_owned());
    }
    // What does not fit the exponent's type is no decimal, or rounds to zero.
    let is_small = exponent.starts_with('-');
    let exponent = exponent.parse().unwrap_or(if is_small { i32::MIN } else { i32::MAX });
    let point = i32::try_from(whole.len()).ok()?.saturating_add(exponent);
    let digits = format!("{whole}{fraction}");
    match usize::try_from(point) {
        _ if point < -DECIMAL_DIGITS_MAX => Some("0.0000000000000000000000000000".to_owned()),
        Err(_) | Ok(0) => {
            let zeros = "0".repeat(usize::try_from(point.unsigned_abs()).ok()?);
            Some(format!("{sign}0.{zeros}{digits}"))
        }
        Ok(point) if point < digits.len() => {
            Some(format!("{sign}{}.{}", &digits[..point], &digits[point..]))
        }
        Ok(point) => {
            let leading_zeros = digits.bytes().take_while(|digit| *digit == b'0').count();
            let is_too_large = DECIMAL_DIGITS_MAX as usize + leading_zeros < point;
            (!is_too_large).then(|| format!("{sign}{digits:0<point$}"))
        }
    }
}

/// The double that a document's digits name.
pub fn double_of_digits(digits: &str) -> f64 {
    digits.parse().unwrap_or(f64::NAN)
}

/// The integer that remains of a document's digits without their fraction; `None` when 64 bits do
/// not hold it.
pub fn integer_of_digits(digits: &str) -> Option<i64> {
    match decimal_of_digits(digits) {
        Some(decimal) => decimal.trunc().to_i64(),
        None => integer_of_double(double_of_digits(digits)),
    }
}

/// The integer that remains of a double without its fraction.
pub fn integer_of_double(double: f64) -> Option<i64> {
    let whole = double.trunc();
    // Both bounds are exact doubles; the upper one is the first that does not fit.
    (whole >= i64::MIN as f64 && whole < i64::MAX as f64).then_some(whole as i64)
}

/// The decimal nearest to a double, of 15 significant digits as .NET converts.
pub fn decimal_of_double(double: f64) -> Option<Decimal> {
    if !double.is_finite() {
        return None;
    }
    let rounded = format!("{double:.14e}");
    let decimal = Decimal::from_scientific(&rounded).ok()?;
    Some(decimal.normalize())
}

/// The nearest double of a decimal.
pub fn double_of_decimal(decimal: &Decimal) -> f64 {
    decimal.to_string().parse().unwrap_or(f64::NAN)
}

/// Doubles above this power of ten are written with an exponent.
const PLAIN_EXPONENT_MAX: i32 = 16;
/// Doubles below this power of ten are written with an exponent.
const PLAIN_EXPONENT_MIN: i32 = -4;

/// A double as .NET 9 writes it: the shortest digits that read back, `1E+17`, `1E-05`, `NaN`, `Infinity`.
pub fn double_text(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (PLAIN_EXPONENT_MIN..=PLAIN_EXPONENT_MAX).contains(&exponent) {
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
            (1e15 + 0.5, "1000000000000000.5"),
            (1e16, "10000000000000000"),
            (99999999999999984.0, "99999999999999980"),
            (1e17, "1E+17"),
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
        let with_exponents = [
            ("1e3", "1000"),
            ("-1.50E+2", "-150"),
            ("1.2345e2", "123.45"),
            ("1.20e-2", "0.0120"),
            ("0.001e2", "0.1"),
            ("5.551115123125783e-17", "0.0000000000000000555111512313"),
            ("-2.77e-17", "-0.0000000000000000277"),
            ("1e-29", "0.0000000000000000000000000000"),
            ("1e-99999999999", "0.0000000000000000000000000000"),
            ("7e28", "70000000000000000000000000000"),
            ("0e99999999999", "0"),
        ];
        for (digits, expected) in with_exponents {
            let decimal = decimal_of_digits(digits).unwrap();
            assert_eq!(decimal.to_string(), expected, "{digits}");
        }
        assert_eq!(decimal_of_digits("1e29"), None);
        assert_eq!(decimal_of_digits("1e99999999999"), None);
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
