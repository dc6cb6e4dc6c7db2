//! Numbers in human-readable form.

/// Three significant digits: `41,234`, `412`, `41.2`, `4.12`, `0.041`.
pub(crate) fn readable(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => with_separators(value.round() as i64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn with_separators(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0.00"),
            (0.0414, "0.041"),
            (4.126, "4.13"),
            (41.26, "41.3"),
            (412.6, "413"),
            (41_234.4, "41,234"),
            (1_234_567.0, "1,234,567"),
            (-1_234.0, "-1,234"),
        ];
        for (value, expected) in cases {
            assert_eq!(readable(value), expected);
        }
    }
}
