//! Durations as text: `c`, `g`, `G` and custom formats.

use model::ticks::{TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

/// The duration in `format`; `None` when the format is invalid.
pub fn format_span(ticks: i64, format: &str) -> Option<String> {
    let constant = || model::TimeSpan { ticks }.to_string();
    match format {
        "" | "c" | "t" | "T" => Some(constant()),
        "g" => Some(general(ticks, false)),
        "G" => Some(general(ticks, true)),
        custom if custom.chars().count() > 1 => self::custom(ticks, custom),
        _ => None,
    }
}

fn part(ticks: i64, unit: i64, modulus: u64) -> u64 {
    ticks.unsigned_abs() / unit.unsigned_abs() % modulus
}

fn general(ticks: i64, long: bool) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let days = part(ticks, TICKS_PER_DAY, u64::MAX);
    let (hours, minutes) = (part(ticks, TICKS_PER_HOUR, 24), part(ticks, TICKS_PER_MINUTE, 60));
    let seconds = part(ticks, TICKS_PER_SECOND, 60);
    let fraction = part(ticks, 1, TICKS_PER_SECOND.unsigned_abs());
    if long {
        return format!("{sign}{days}:{hours:02}:{minutes:02}:{seconds:02}.{fraction:07}");
    }
    let days = if days == 0 { String::new() } else { format!("{days}:") };
    let fraction = match fraction {
        0 => String::new(),
        fraction => format!(".{fraction:07}").trim_end_matches('0').to_owned(),
    };
    format!("{sign}{days}{hours}:{minutes:02}:{seconds:02}{fraction}")
}

fn custom(ticks: i64, format: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next()?),
            '\'' | '"' => text.extend(characters.by_ref().take_while(|next| *next != character)),
            '%' => {}
            'd' | 'h' | 'm' | 's' | 'f' | 'F' => {
                let mut count = 1;
                while characters.next_if_eq(&character).is_some() {
                    count += 1;
                }
                push_part(ticks, character, count, &mut text)?;
            }
            _ => return None,
        }
    }
    Some(text)
}

fn push_part(ticks: i64, letter: char, count: usize, text: &mut String) -> Option<()> {
    let value = match letter {
        'd' if count <= 8 => part(ticks, TICKS_PER_DAY, u64::MAX),
        'h' if count <= 2 => part(ticks, TICKS_PER_HOUR, 24),
        'm' if count <= 2 => part(ticks, TICKS_PER_MINUTE, 60),
        's' if count <= 2 => part(ticks, TICKS_PER_SECOND, 60),
        'f' | 'F' if count <= 7 => {
            let fraction = format!("{:07}", part(ticks, 1, TICKS_PER_SECOND.unsigned_abs()));
            let digits = &fraction[..count];
            text.push_str(if letter == 'F' { digits.trim_end_matches('0') } else { digits });
            return Some(());
        }
        _ => return None,
    };
    text.push_str(&format!("{value:0count$}"));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_formats() {
        let ticks = -(TICKS_PER_DAY + 2 * TICKS_PER_HOUR + 3 * TICKS_PER_MINUTE + 45_000_000);
        let cases = [
            ("", Some("-1.02:03:04.5000000")),
            ("c", Some("-1.02:03:04.5000000")),
            ("g", Some("-1:2:03:04.5")),
            ("G", Some("-1:02:03:04.5000000")),
            (r"hh\:mm\:ss", Some("02:03:04")),
            (r"%d", Some("1")),
            (r"d' days 'h\.ff", Some("1 days 2.50")),
            ("x", None),
            ("hhhh", None),
            ("h:m", None),
        ];
        for (format, expected) in cases {
            assert_eq!(format_span(ticks, format).as_deref(), expected, "{format}");
        }
    }
}
