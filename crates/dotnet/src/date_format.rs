//! Moments as text: standard formats and custom ones.

use model::date;

use crate::culture::Culture;
use model::ticks::{TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

use crate::date::{Date, DateKind, OffsetDate};

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The zone suffix of a moment.
#[derive(Clone, Copy, Debug)]
enum Zone {
    Nothing,
    Utc,
    Offset(i16),
}

/// The name of a day of the week, 0 being Sunday.
pub fn day_name(day: i64) -> &'static str {
    usize::try_from(day).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default()
}

/// The number of a day of the week by its name.
pub fn day_number(name: &str) -> Option<i64> {
    DAYS.iter().position(|day| *day == name).map(|day| day as i64)
}

/// `2020-03-05T10:20:30.1230000`, with `Z` for UTC: how indexes write moments.
pub fn index_text(date: Date) -> String {
    let text = date::format(date.ticks);
    match date.kind {
        DateKind::Utc => text,
        DateKind::Unspecified => text.trim_end_matches('Z').to_owned(),
    }
}

/// The moment in `format`; `None` when the format is invalid.
pub fn format_date(date: Date, format: &str, culture: Culture) -> Option<String> {
    let zone = if date.kind == DateKind::Utc { Zone::Utc } else { Zone::Nothing };
    let format = if format.is_empty() { "G" } else { format };
    write(date, zone, standard(format, zone, culture)?)
}

/// The moment in `format` of the invariant culture; `None` when the format is invalid.
pub fn format_offset_date(date: OffsetDate, format: &str) -> Option<String> {
    let clock = Date { ticks: date.clock_ticks, kind: DateKind::Unspecified };
    let utc = Date { ticks: date.utc_ticks(), kind: DateKind::Utc };
    let zone = Zone::Offset(date.offset_minutes);
    let format = if format.is_empty() { "MM/dd/yyyy HH:mm:ss zzz" } else { format };
    let moment = if matches!(format, "r" | "R" | "u" | "U") { utc } else { clock };
    write(moment, zone, standard(format, zone, Culture::Invariant)?)
}

/// The custom format of a standard one, which is a single letter.
fn standard(format: &str, zone: Zone, culture: Culture) -> Option<&str> {
    let mut letters = format.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return Some(format) };
    match (letter, zone) {
        ('o' | 'O', Zone::Nothing) => Some("yyyy-MM-ddTHH:mm:ss.fffffff"),
        ('o' | 'O', Zone::Utc | Zone::Offset(_)) => Some("yyyy-MM-ddTHH:mm:ss.fffffffK"),
        ('r' | 'R', _) => Some("ddd, dd MMM yyyy HH:mm:ss 'GMT'"),
        ('s', _) => Some("yyyy-MM-ddTHH:mm:ss"),
        ('u', _) => Some("yyyy-MM-dd HH:mm:ss'Z'"),
        _ => culture.moment_format(letter),
    }
}

fn write(date: Date, zone: Zone, format: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next()?),
            '\'' | '"' => text.extend(characters.by_ref().take_while(|next| *next != character)),
            '%' => {}
            'd' | 'f' | 'F' | 'h' | 'H' | 'K' | 'm' | 'M' | 's' | 't' | 'y' | 'z' | 'g' => {
                let mut count = 1;
                while characters.next_if_eq(&character).is_some() {
                    count += 1;
                }
                push_part(date, zone, character, count, &mut text)?;
            }
            literal => text.push(literal),
        }
    }
    Some(text)
}

fn push_part(date: Date, zone: Zone, letter: char, count: usize, text: &mut String) -> Option<()> {
    let calendar = date.calendar();
    let hour = date.time_of_day() / TICKS_PER_HOUR;
    let padded = |value: i64| format!("{value:0width$}", width = count.min(2));
    let piece = match (letter, count) {
        ('d', 3) => day_name(date.day_of_week())[..3].to_owned(),
        ('d', 4..) => day_name(date.day_of_week()).to_owned(),
        ('d', _) => padded(calendar.day),
        ('M', 3) => MONTHS[calendar.month as usize - 1][..3].to_owned(),
        ('M', 4..) => MONTHS[calendar.month as usize - 1].to_owned(),
        ('M', _) => padded(calendar.month),
        ('y', 1..=2) => padded(calendar.year % 100),
        ('y', width) => format!("{:0width$}", calendar.year),
        ('H', _) => padded(hour),
        ('h', _) => padded(if hour % 12 == 0 { 12 } else { hour % 12 }),
        ('m', _) => padded(date.time_of_day() / TICKS_PER_MINUTE % 60),
        ('s', _) => padded(date.time_of_day() / TICKS_PER_SECOND % 60),
        ('t', 1) => if hour < 12 { "A" } else { "P" }.to_owned(),
        ('t', _) => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        ('f' | 'F', 1..=7) => {
            let fraction = format!("{:07}", date.ticks % TICKS_PER_SECOND);
            let digits = &fraction[..count];
            if letter == 'F' { digits.trim_end_matches('0').to_owned() } else { digits.to_owned() }
        }
        ('g', _) => "A.D.".to_owned(),
        ('K', _) => zone_text(zone, 3, true),
        ('z', width) => zone_text(zone, width, false),
        _ => return None,
    };
    text.push_str(&piece);
    Some(())
}

fn zone_text(zone: Zone, width: usize, is_kind: bool) -> String {
    let minutes = match zone {
        Zone::Nothing if is_kind => return String::new(),
        Zone::Utc if is_kind => return "Z".to_owned(),
        Zone::Nothing | Zone::Utc => 0,
        Zone::Offset(minutes) => minutes,
    };
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, rest) = (minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60);
    match width {
        1 => format!("{sign}{hours}"),
        2 => format!("{sign}{hours:02}"),
        _ => format!("{sign}{hours:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_formats() {
        let ticks = date::parse("2020-03-05T10:20:30.1230000Z").unwrap().clock_ticks;
        let moment = Date { ticks, kind: DateKind::Utc };
        let cases = [
            ("", "03/05/2020 10:20:30"),
            ("d", "03/05/2020"),
            ("o", "2020-03-05T10:20:30.1230000Z"),
            ("s", "2020-03-05T10:20:30"),
            ("u", "2020-03-05 10:20:30Z"),
            ("R", "Thu, 05 Mar 2020 10:20:30 GMT"),
            ("yyyy-MM", "2020-03"),
            ("dddd, MMMM d, yyyy h:mm tt", "Thursday, March 5, 2020 10:20 AM"),
            ("yy M %d \\y 'yy' FFF ff", "20 3 5 y yy 123 12"),
            ("HH:mm:ss.fffffffK", "10:20:30.1230000Z"),
        ];
        for (format, expected) in cases {
            assert_eq!(
                format_date(moment, format, Culture::Invariant).as_deref(),
                Some(expected),
                "{format}"
            );
        }
        let american = [
            ("", "3/5/2020 10:20:30\u{202f}AM"),
            ("d", "3/5/2020"),
            ("D", "Thursday, March 5, 2020"),
            ("g", "3/5/2020 10:20\u{202f}AM"),
            ("y", "March 2020"),
            ("s", "2020-03-05T10:20:30"),
            ("MMM ddd", "Mar Thu"),
        ];
        for (format, expected) in american {
            let text = format_date(moment, format, Culture::EnglishUs);
            assert_eq!(text.as_deref(), Some(expected), "{format}");
        }
        let offset = OffsetDate { clock_ticks: ticks, offset_minutes: -150 };
        assert_eq!(format_offset_date(offset, "").unwrap(), "03/05/2020 10:20:30 -02:30");
        assert_eq!(format_offset_date(offset, "u").unwrap(), "2020-03-05 12:50:30Z");
        assert_eq!(format_date(moment, "x", Culture::Invariant), None);
        assert_eq!(
            index_text(Date { kind: DateKind::Unspecified, ..moment }),
            "2020-03-05T10:20:30.1230000"
        );
    }
}
