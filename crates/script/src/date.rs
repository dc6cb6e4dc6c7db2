//! Dates of scripts as text: seven digits of a second, always UTC.

const MILLIS_PER_DAY: i64 = 86_400_000;

/// `millis` since 1970 as `yyyy-MM-ddTHH:mm:ss.fffffffZ`; NaN gives the first moment of 1970.
pub fn date_text(millis: f64) -> String {
    let millis = millis as i64;
    let (year, month, day) = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}0000Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
