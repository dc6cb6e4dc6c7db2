//! Moments: calendar arithmetic and which texts of a document are moments or durations.
//!
//! Ticks are steps of 100 ns since 0001-01-01T00:00:00.

use model::date::{self, Zone, days_before, days_in_month};
use model::ticks::{TICKS_MAX, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

/// `hh:mm:ss`, the shortest duration that is recognised.
const SPAN_BYTES_MIN: usize = 8;
/// `yyyy-MM-ddTHH:mm:ss`, the shortest moment.
const DATE_BYTES_MIN: usize = 19;

/// Of which zone a moment speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DateKind {
    /// Not specified.
    Unspecified,
    /// UTC.
    Utc,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Ticks, as the clock showed them.
    pub ticks: i64,
    /// Of which zone.
    pub kind: DateKind,
}

/// A moment with its distance from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetDate {
    /// Ticks, as the clock showed them.
    pub clock_ticks: i64,
    /// Minutes east of UTC.
    pub offset_minutes: i16,
}

impl OffsetDate {
    /// The moment as indexes write it: in UTC, with `Z`.
    pub fn index_text(self) -> String {
        Date { ticks: self.utc_ticks(), kind: DateKind::Utc }.index_text()
    }

    /// Ticks of the moment in UTC.
    pub fn utc_ticks(self) -> i64 {
        self.clock_ticks - i64::from(self.offset_minutes) * TICKS_PER_MINUTE
    }
}

/// Year, month and day, each from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// 1 to 9999.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Date {
    /// The first moment of the calendar, the default of .NET for a date that is not there.
    pub const MIN: Date = Date { ticks: 0, kind: DateKind::Unspecified };
    /// The last moment of the calendar.
    pub const MAX: Date = Date { ticks: TICKS_MAX, kind: DateKind::Unspecified };

    /// The moment as indexes write it: `2020-03-05T10:20:30.1230000`, with `Z` for UTC.
    pub fn index_text(self) -> String {
        crate::date_format::index_text(self)
    }

    /// The day on which the moment is.
    pub fn calendar(self) -> Calendar {
        let (year, month, day) = date::calendar_date((self.ticks / TICKS_PER_DAY).max(0));
        Calendar { year, month, day }
    }

    /// Day of the year, from 1.
    pub fn day_of_year(self) -> i64 {
        let start = days_before(self.calendar().year, 1, 1).unwrap_or_default();
        self.ticks / TICKS_PER_DAY - start + 1
    }

    /// 0 is Sunday.
    pub fn day_of_week(self) -> i64 {
        (self.ticks / TICKS_PER_DAY + 1) % 7
    }

    /// Ticks since midnight.
    pub fn time_of_day(self) -> i64 {
        self.ticks % TICKS_PER_DAY
    }

    /// The moment `ticks` later; `None` outside the calendar.
    pub fn plus(self, ticks: i64) -> Option<Date> {
        let ticks = self.ticks.checked_add(ticks)?;
        (0..=TICKS_MAX).contains(&ticks).then_some(Date { ticks, ..self })
    }

    /// The same day and time `months` later, or the last day of that month.
    pub fn plus_months(self, months: i64) -> Option<Date> {
        let from = self.calendar();
        let total = (from.year * 12 + from.month - 1).checked_add(months)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        if !(1..=9999).contains(&year) {
            return None;
        }
        let day = from.day.min(days_in_month(year, month));
        let ticks = days_before(year, month, day)? * TICKS_PER_DAY + self.time_of_day();
        Some(Date { ticks, ..self })
    }

    /// A date and time of the calendar; `None` when they do not exist.
    pub fn from_parts(date: [i64; 3], time: [i64; 3], kind: DateKind) -> Option<Date> {
        let [year, month, day] = date;
        let [hour, minute, second] = time;
        let inside = (1..=9999).contains(&year)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second);
        let days = days_before(year, month, day).filter(|_| inside)?;
        let time = hour * TICKS_PER_HOUR + minute * TICKS_PER_MINUTE + second * TICKS_PER_SECOND;
        Some(Date { ticks: days * TICKS_PER_DAY + time, kind })
    }
}

/// A document's text, recognized as a moment or duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recognised {
    /// `2020-03-05T10:20:30`, with or without `Z`.
    Date(Date),
    /// `2020-03-05T10:20:30+02:00`.
    OffsetDate(OffsetDate),
    /// `1.02:03:04.5`, in ticks.
    Span(i64),
}

/// How RavenDB interprets a document's text; `None` for nearly all texts, after checking a few
/// bytes.
#[inline]
pub fn recognise(text: &str) -> Option<Recognised> {
    let bytes = text.as_bytes();
    let first = *bytes.first()?;
    if bytes.len() < SPAN_BYTES_MIN || !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    if DATE_BYTES_MIN <= bytes.len() && bytes[10] == b'T' && bytes[4] == b'-' {
        return recognise_date(text);
    }
    parse_span(bytes).map(Recognised::Span)
}

fn recognise_date(text: &str) -> Option<Recognised> {
    let parsed = date::parse(text)?;
    let ticks = parsed.clock_ticks;
    Some(match parsed.zone {
        Zone::Unspecified => Recognised::Date(Date { ticks, kind: DateKind::Unspecified }),
        Zone::Utc => Recognised::Date(Date { ticks, kind: DateKind::Utc }),
        // With an offset the fraction has all seven digits or is not there.
        Zone::Offset(_) if !matches!(text.len(), 25 | 33) => return None,
        Zone::Offset(offset_minutes) => {
            Recognised::OffsetDate(OffsetDate { clock_ticks: ticks, offset_minutes })
        }
    })
}

/// `[-][d.]hh:mm:ss[.fffffff]`; hours, minutes and seconds have two digits and may run over.
fn parse_span(bytes: &[u8]) -> Option<i64> {
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (days, hours) = match bytes[..colon].iter().position(|byte| *byte == b'.') {
        Some(point) => (digits(&bytes[..point], 1..=8)?, &bytes[point + 1..colon]),
        None => (0, &bytes[..colon]),
    };
    let rest = &bytes[colon + 1..];
    if rest.len() < 5 || rest[2] != b':' {
        return None;
    }
    let (minutes, seconds) = (digits(&rest[..2], 2..=2)?, digits(&rest[3..5], 2..=2)?);
    let fraction = match &rest[5..] {
        [] => 0,
        [b'.', fraction @ ..] => {
            digits(fraction, 1..=7)? * 10_i64.pow(7 - fraction.len().min(7) as u32)
        }
        _ => return None,
    };
    let time = digits(hours, 2..=2)? * TICKS_PER_HOUR
        + minutes * TICKS_PER_MINUTE
        + seconds * TICKS_PER_SECOND
        + fraction;
    let ticks = days.checked_mul(TICKS_PER_DAY)?.checked_add(time)?;
    Some(if negative { -ticks } else { ticks })
}

fn digits(bytes: &[u8], lengths: std::ops::RangeInclusive<usize>) -> Option<i64> {
    if !lengths.contains(&bytes.len()) {
        return None;
    }
    bytes.iter().try_fold(0_i64, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

/// What `DateTime.Parse` reads in the invariant culture: the forms of ISO 8601, and
/// `MM/dd/yyyy[ HH:mm[:ss]]`.
pub fn parse_date(text: &str) -> Option<Recognised> {
    let text = text.trim();
    if let Some(date) = recognise_any_offset(text) {
        return Some(date);
    }
    let (day, time) = match text.split_once([' ', 'T']) {
        Some((day, time)) => (day, time.trim()),
        None => (text, ""),
    };
    let numbers = |separator: char| -> Option<Vec<i64>> {
        day.split(separator).map(|part| digits(part.as_bytes(), 1..=4)).collect()
    };
    let date = match (numbers('-').as_deref(), numbers('/').as_deref()) {
        (Some([year, month, day]), _) | (_, Some([month, day, year])) => [*year, *month, *day],
        _ => return None,
    };
    let (time, kind) = match time.strip_suffix('Z') {
        Some(time) => (time, DateKind::Utc),
        None => (time, DateKind::Unspecified),
    };
    let mut parts = [0; 3];
    if !time.is_empty() {
        for (index, part) in time.split(':').enumerate() {
            *parts.get_mut(index)? = digits(part.as_bytes(), 1..=2)?;
        }
    }
    Date::from_parts(date, parts, kind).map(Recognised::Date)
}

fn recognise_any_offset(text: &str) -> Option<Recognised> {
    let parsed = date::parse(text)?;
    let Zone::Offset(offset_minutes) = parsed.zone else { return recognise_date(text) };
    Some(Recognised::OffsetDate(OffsetDate { clock_ticks: parsed.clock_ticks, offset_minutes }))
}

/// Reads a text in exactly that custom format, which may hold `y M d H h m s f t` and literal
/// characters.
pub fn parse_exact(text: &str, format: &str) -> Option<Date> {
    let mut parts = ExactParts { date: [1, 1, 1], time: [0; 3], fraction: 0, is_afternoon: None };
    let mut rest = text;
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            'y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 'f' | 't' => {
                let mut count = 1;
                while letters.next_if_eq(&letter).is_some() {
                    count += 1;
                }
                rest = parts.read(letter, count, rest)?;
            }
            '\\' => rest = rest.strip_prefix(letters.next()?)?,
            '\'' | '"' => {
                for quoted in letters.by_ref().take_while(|next| *next != letter) {
                    rest = rest.strip_prefix(quoted)?;
                }
            }
            literal => rest = rest.strip_prefix(literal)?,
        }
    }
    if rest.is_empty() { parts.date() } else { None }
}

struct ExactParts {
    date: [i64; 3],
    time: [i64; 3],
    fraction: i64,
    is_afternoon: Option<bool>,
}

impl ExactParts {
    /// Reads one part; returns the text after it.
    fn read<'t>(&mut self, letter: char, count: usize, rest: &'t str) -> Option<&'t str> {
        if letter == 't' {
            let (word, behind) = rest.split_at_checked(count.min(2))?;
            self.is_afternoon = Some(matches!(word, "P" | "PM" | "p" | "pm"));
            return Some(behind);
        }
        let available = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = match (letter, count) {
            // One letter matches one or two digits.
            (_, 1) if letter != 'f' => available.min(2),
            (_, count) => count,
        };
        let (number, behind) = rest.split_at_checked(length)?;
        let value = digits(number.as_bytes(), 1..=7)?;
        match letter {
            'y' if count <= 2 => {
                self.date[0] = if value < 50 { 2000 + value } else { 1900 + value }
            }
            'y' => self.date[0] = value,
            'M' => self.date[1] = value,
            'd' => self.date[2] = value,
            'H' | 'h' => self.time[0] = value,
            'm' => self.time[1] = value,
            's' => self.time[2] = value,
            _ => self.fraction = value * 10_i64.pow(7 - length.min(7) as u32),
        }
        Some(behind)
    }

    fn date(mut self) -> Option<Date> {
        if let Some(is_afternoon) = self.is_afternoon {
            self.time[0] = self.time[0] % 12 + if is_afternoon { 12 } else { 0 };
        }
        Date::from_parts(self.date, self.time, DateKind::Unspecified)?.plus(self.fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Option<String> {
        match recognise(text)? {
            Recognised::Date(Date { ticks, kind }) => {
                Some(format!("{kind:?} {}", date::format(ticks)))
            }
            Recognised::OffsetDate(date) => {
                Some(format!("offset {}", date::format(date.utc_ticks())))
            }
            Recognised::Span(ticks) => Some(model::TimeSpan { ticks }.to_string()),
        }
    }

    #[test]
    fn texts_that_read_as_moments_or_durations_are_recognised() {
        let cases = [
            ("2020-03-05T10:20:30", Some("Unspecified 2020-03-05T10:20:30.0000000Z")),
            ("2020-03-05T10:20:30.5", Some("Unspecified 2020-03-05T10:20:30.5000000Z")),
            ("2020-03-05T10:20:30.123Z", Some("Utc 2020-03-05T10:20:30.1230000Z")),
            ("2020-03-05T10:20:30+02:00", Some("offset 2020-03-05T08:20:30.0000000Z")),
            ("2020-03-05T10:20:30.1234567+02:00", Some("offset 2020-03-05T08:20:30.1234567Z")),
            ("2020-03-05T10:20:30.5+02:00", None),
            ("2020-03-05 10:20:30", None),
            ("2020-03-05", None),
            ("01:02:03", Some("01:02:03")),
            ("-1.02:03:04.5", Some("-1.02:03:04.5000000")),
            ("25:00:00", Some("1.01:00:00")),
            ("123.01:02:03", Some("123.01:02:03")),
            ("1:02:03", None),
            ("12:30", None),
            ("01:02:03x", None),
            ("", None),
            ("12345678", None),
        ];
        for (text, expected) in cases {
            assert_eq!(utc(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn months_keep_to_the_end_of_the_month() {
        let date = Date::from_parts([2020, 1, 31], [1, 2, 3], DateKind::Utc).unwrap();
        let later = date.plus_months(1).unwrap().calendar();
        assert_eq!(later, Calendar { year: 2020, month: 2, day: 29 });
        assert_eq!(date.plus_months(-12 * 2020), None);
        assert_eq!((date.day_of_year(), date.day_of_week()), (31, 5));
    }
}
