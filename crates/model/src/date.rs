//! The text of moments: `2026-11-20T13:58:40.6927949Z`.
//!
//! A moment is a number of ticks, steps of 100 ns since 0001-01-01T00:00:00Z, in the calendar that
//! today's rules extend backwards. The last moment is the end of the year 9999.

use crate::ticks::{TICKS_MAX, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

const DAYS_PER_400_YEARS: i64 = 146_097;
const FRACTION_DIGITS: usize = 7;
const MONTHS_PER_YEAR: i64 = 12;
const YEAR_MAX: i64 = 9999;
/// `2026-11-20T13:58:40`, the shortest text.
const SECONDS_TEXT_BYTES: usize = 19;

/// The length of [`text`] in bytes.
pub const TEXT_BYTES: usize = 28;

/// The zone suffix of a parsed date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Nothing: a local time somewhere.
    Unspecified,
    /// `Z`.
    Utc,
    /// `+02:00`; minutes east of UTC.
    Offset(i16),
}

/// A date as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedDate {
    /// The digits as ticks, without regard to the zone.
    pub clock_ticks: i64,
    /// The zone suffix, which has not been applied.
    pub zone: Zone,
}

impl ParsedDate {
    /// Ticks of the moment in UTC; a date without a zone counts as UTC.
    pub fn utc_ticks(self) -> i64 {
        match self.zone {
            Zone::Unspecified | Zone::Utc => self.clock_ticks,
            Zone::Offset(minutes) => self.clock_ticks - i64::from(minutes) * TICKS_PER_MINUTE,
        }
    }
}

/// The moment as 28 bytes of ASCII, seven digits after the point and `Z` at the end. Ticks outside
/// the calendar are moved to its nearest end.
pub fn text(ticks: i64) -> [u8; TEXT_BYTES] {
    let ticks = ticks.clamp(0, TICKS_MAX);
    let (year, month, day) = calendar_date(ticks / TICKS_PER_DAY);
    let mut text = *b"0000-00-00T00:00:00.0000000Z";
    write_digits(&mut text[0..4], year);
    write_digits(&mut text[5..7], month);
    write_digits(&mut text[8..10], day);
    write_digits(&mut text[11..13], ticks / TICKS_PER_HOUR % 24);
    write_digits(&mut text[14..16], ticks / TICKS_PER_MINUTE % 60);
    write_digits(&mut text[17..19], ticks / TICKS_PER_SECOND % 60);
    write_digits(&mut text[20..27], ticks % TICKS_PER_SECOND);
    text
}

/// [`text`] as a `String`.
pub fn format(ticks: i64) -> String {
    String::from_utf8_lossy(&text(ticks)).into_owned()
}

/// `11/22/2026 01:51:36`: the format of .NET's invariant culture, for sentences of the protocol.
pub fn american(ticks: i64) -> String {
    let text = format(ticks);
    format!("{}/{}/{} {}", &text[5..7], &text[8..10], &text[0..4], &text[11..19])
}

/// The same time of day `months` later, or earlier if negative; days that a shorter month lacks
/// become its last day. The result is clamped to the calendar.
pub fn add_months(ticks: i64, months: i64) -> i64 {
    let ticks = ticks.clamp(0, TICKS_MAX);
    let (year, month, day) = calendar_date(ticks / TICKS_PER_DAY);
    let all = (year * MONTHS_PER_YEAR + month - 1).saturating_add(months);
    if all < MONTHS_PER_YEAR {
        return 0;
    }
    let (year, month) = (all / MONTHS_PER_YEAR, all % MONTHS_PER_YEAR + 1);
    if YEAR_MAX < year {
        return TICKS_MAX;
    }
    let days = days_before(year, month, day.min(days_in_month(year, month)));
    days.map_or(0, |days| days * TICKS_PER_DAY + ticks % TICKS_PER_DAY)
}

/// The start of the span of `months` that contains a moment; spans are counted from the year 0.
pub fn start_of_months(ticks: i64, months: i64) -> i64 {
    let (year, month) = year_and_month(ticks);
    let first = (year * MONTHS_PER_YEAR + month - 1) / months.max(1) * months.max(1);
    if first < MONTHS_PER_YEAR {
        return 0;
    }
    month_start(first / MONTHS_PER_YEAR, first % MONTHS_PER_YEAR + 1)
}

/// The year and the month of a moment, both from 1.
pub fn year_and_month(ticks: i64) -> (i64, i64) {
    let (year, month, _) = calendar_date(ticks.clamp(0, TICKS_MAX) / TICKS_PER_DAY);
    (year, month)
}

/// The beginning of a month, which is one of 1 to 12; years outside the calendar count as the nearest one.
pub fn month_start(year: i64, month: i64) -> i64 {
    days_before(year.clamp(1, YEAR_MAX), month, 1).map_or(0, |days| days * TICKS_PER_DAY)
}

/// Reads `yyyy-MM-ddTHH:mm:ss`, then optionally a point and one to seven digits, then nothing, `Z`,
/// or an offset `+hh:mm`. `None` for anything else, such as a date without a time.
pub fn parse(text: &str) -> Option<ParsedDate> {
    let bytes = text.as_bytes();
    let seconds = bytes.get(..SECONDS_TEXT_BYTES)?;
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|(position, separator)| seconds[*position] != *separator) {
        return None;
    }
    let days = days_before(digits(&bytes[0..4])?, digits(&bytes[5..7])?, digits(&bytes[8..10])?)?;
    let (hour, minute) = (below(&bytes[11..13], 24)?, below(&bytes[14..16], 60)?);
    let second = below(&bytes[17..19], 60)?;
    let (fraction, rest) = parse_fraction(&bytes[SECONDS_TEXT_BYTES..])?;
    let time = hour * TICKS_PER_HOUR + minute * TICKS_PER_MINUTE + second * TICKS_PER_SECOND;
    Some(ParsedDate {
        clock_ticks: days * TICKS_PER_DAY + time + fraction,
        zone: parse_zone(rest)?,
    })
}

fn parse_fraction(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let Some(bytes) = bytes.strip_prefix(b".") else {
        return Some((0, bytes));
    };
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || FRACTION_DIGITS < count {
        return None;
    }
    let scale = 10_i64.pow((FRACTION_DIGITS - count) as u32);
    Some((digits(&bytes[..count])? * scale, &bytes[count..]))
}

fn parse_zone(bytes: &[u8]) -> Option<Zone> {
    match bytes {
        [] => Some(Zone::Unspecified),
        b"Z" => Some(Zone::Utc),
        [sign @ (b'+' | b'-'), offset @ ..] if offset.len() == 5 && offset[2] == b':' => {
            let minutes = below(&offset[..2], 15)? * 60 + below(&offset[3..], 60)?;
            let minutes = i16::try_from(minutes).ok()?;
            Some(Zone::Offset(if *sign == b'-' { -minutes } else { minutes }))
        }
        _ => None,
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

fn below(bytes: &[u8], limit: i64) -> Option<i64> {
    digits(bytes).filter(|number| *number < limit)
}

fn write_digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Days between 0001-01-01 and a date of the calendar; `None` when there is no such date.
pub fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    if year < 1 || !(1..=12).contains(&month) || day < 1 || days_in_month(year, month) < day {
        return None;
    }
    // A year that starts in March has its leap day at its end.
    let (march_year, march_month) =
        if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let days_of_months = (153 * march_month + 2) / 5;
    const DAYS_FROM_MARCH_OF_YEAR_ZERO: i64 = 306;
    Some(march_year * 365 + leap_days + days_of_months + day - 1 - DAYS_FROM_MARCH_OF_YEAR_ZERO)
}

/// Whether the year has 366 days.
pub fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of days of a month, 28 to 31.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day of the date that is `days` (not negative) after 0001-01-01: the inverse of
/// [`days_before`].
pub fn calendar_date(days: i64) -> (i64, i64, i64) {
    let days = days + 306;
    let cycle = days / DAYS_PER_400_YEARS;
    let day_of_cycle = days % DAYS_PER_400_YEARS;
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = cycle * 400 + year_of_cycle + i64::from(month < 3);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ticks::UNIX_EPOCH_TICKS;

    #[test]
    fn sentences_have_american_dates() {
        assert_eq!(american(637_186_175_999_999_999), "02/29/2020 23:59:59");
    }

    #[test]
    fn known_moments_have_known_texts() {
        let cases = [
            (0, "0001-01-01T00:00:00.0000000Z"),
            (UNIX_EPOCH_TICKS, "1970-01-01T00:00:00.0000000Z"),
            (637_134_336_000_000_000, "2020-01-01T00:00:00.0000000Z"),
            (637_186_175_999_999_999, "2020-02-29T23:59:59.9999999Z"),
            (TICKS_MAX, "9999-12-31T23:59:59.9999999Z"),
        ];
        for (ticks, expected) in cases {
            assert_eq!(format(ticks), expected);
            let parsed = parse(expected).unwrap();
            assert_eq!(parsed, ParsedDate { clock_ticks: ticks, zone: Zone::Utc });
        }
        assert_eq!(format(-5), format(0));
        assert_eq!(format(i64::MAX), format(TICKS_MAX));
    }

    #[test]
    fn dates_come_with_and_without_fraction_and_zone() {
        let base = 637_134_336_000_000_000;
        let cases = [
            ("2020-01-01T00:00:00", base, Zone::Unspecified),
            ("2020-01-01T00:00:00Z", base, Zone::Utc),
            ("2020-01-01T00:00:00.5", base + 5_000_000, Zone::Unspecified),
            ("2020-01-01T00:00:00.123Z", base + 1_230_000, Zone::Utc),
            ("2020-01-01T00:00:00.0000001", base + 1, Zone::Unspecified),
            ("2020-01-01T00:00:00+02:00", base, Zone::Offset(120)),
            ("2020-01-01T00:00:00.0000000-00:30", base, Zone::Offset(-30)),
        ];
        for (text, clock_ticks, zone) in cases {
            assert_eq!(parse(text), Some(ParsedDate { clock_ticks, zone }), "{text}");
        }
        let offset = parse("2020-01-01T02:00:00+02:00").unwrap();
        assert_eq!(offset.utc_ticks(), base);
    }

    #[test]
    fn months_are_those_of_the_calendar() {
        let ticks = |text: &str| parse(text).unwrap().utc_ticks();
        let cases = [
            ("2020-01-31T05:00:00", 1, "2020-02-29T05:00:00"),
            ("2020-01-31T05:00:00", -2, "2019-11-30T05:00:00"),
            ("2020-12-15T00:00:00", 1, "2021-01-15T00:00:00"),
            ("2020-01-31T12:00:00", 13, "2021-02-28T12:00:00"),
            ("2020-12-31T00:00:00", 0, "2020-12-31T00:00:00"),
            ("0001-02-01T00:00:00", -1, "0001-01-01T00:00:00"),
            ("0001-02-01T00:00:00", -2, "0001-01-01T00:00:00"),
        ];
        for (from, months, expected) in cases {
            assert_eq!(format(add_months(ticks(from), months)), format(ticks(expected)), "{from}");
        }
        assert_eq!(add_months(TICKS_MAX, 1), TICKS_MAX);
        assert_eq!(add_months(5, i64::MIN), 0);
        assert_eq!(year_and_month(ticks("2020-12-31T23:59:59")), (2020, 12));
        assert_eq!(month_start(2020, 12), ticks("2020-12-01T00:00:00"));
        assert_eq!((month_start(0, 1), year_and_month(TICKS_MAX)), (0, (9999, 12)));
        for (from, months, expected) in [
            ("2020-05-31T05:00:00", 1, "2020-05-01T00:00:00"),
            ("2020-05-31T05:00:00", 3, "2020-04-01T00:00:00"),
            ("2020-05-31T05:00:00", 12, "2020-01-01T00:00:00"),
            ("0001-01-02T00:00:00", 24, "0001-01-01T00:00:00"),
        ] {
            assert_eq!(format(start_of_months(ticks(from), months)), format(ticks(expected)));
        }
    }

    #[test]
    fn other_texts_are_no_dates() {
        let refused = [
            "",
            "abc",
            "2020-01-01",
            "2020-01-01T00:00",
            "2020-01-01 00:00:00",
            "2020-13-01T00:00:00",
            "2020-02-30T00:00:00",
            "2021-02-29T00:00:00",
            "0000-01-01T00:00:00",
            "2020-01-01T24:00:00",
            "2020-01-01T00:60:00",
            "2020-01-01T00:00:00.",
            "2020-01-01T00:00:00.12345678",
            "2020-01-01T00:00:00z",
            "2020-01-01T00:00:00+0200",
            "2020-01-01T00:00:00Zé",
            "20é0-01-01T00:00:00",
        ];
        for text in refused {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_survives_its_text(ticks in 0..=TICKS_MAX) {
            prop_assert_eq!(parse(&format(ticks)).unwrap().utc_ticks(), ticks);
        }

        #[test]
        fn no_text_makes_parsing_panic(text in "\\PC{0,30}") {
            let _ = parse(&text);
        }
    }
}
