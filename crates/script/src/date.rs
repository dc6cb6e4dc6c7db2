//! Dates of scripts as text: seven digits of a second, always UTC.

use model::ticks::{TICKS_MAX, TICKS_PER_MILLISECOND, UNIX_EPOCH_TICKS};

/// `millis` since 1970 as `yyyy-MM-ddTHH:mm:ss.fffffffZ`: the nearest moment of the years 1 to 9999, of
/// NaN the first of 1970.
pub fn date_text(millis: f64) -> String {
    let ticks = (millis as i64).saturating_mul(TICKS_PER_MILLISECOND);
    model::date::format(ticks.saturating_add(UNIX_EPOCH_TICKS).clamp(0, TICKS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_seven_digits_and_a_zone() {
        for (millis, text) in [
            (0.0, "1970-01-01T00:00:00.0000000Z"),
            (1_583_403_630_123.0, "2020-03-05T10:20:30.1230000Z"),
            (951_782_400_000.0, "2000-02-29T00:00:00.0000000Z"),
            (-1.0, "1969-12-31T23:59:59.9990000Z"),
            (-62_135_596_800_000.0, "0001-01-01T00:00:00.0000000Z"),
            (253_402_300_799_999.0, "9999-12-31T23:59:59.9990000Z"),
        ] {
            assert_eq!(date_text(millis), text);
        }
    }
}
