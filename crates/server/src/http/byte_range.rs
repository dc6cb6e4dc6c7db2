//! The header `Range`: which part of a body a client wants.

use std::ops::Range;

/// What part of a body is sent to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it. Also for a range that cannot be parsed, and for several ranges.
    Whole,
    /// These bytes, which all exist.
    Part(Range<u64>),
    /// Nothing: the range starts after the end.
    Nothing,
}

impl Wanted {
    /// Parses the header for a body of that length.
    pub(crate) fn of(header: Option<&str>, length: u64) -> Wanted {
        let range = header.and_then(|header| header.trim().strip_prefix("bytes="));
        let range = range.filter(|range| !range.contains(','));
        let Some((from, to)) = range.and_then(|range| range.trim().split_once('-')) else {
            return Wanted::Whole;
        };
        let range = match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => from..to.saturating_add(1).min(length),
            (Some(from), None) if to.is_empty() => from..length,
            (None, Some(last)) if from.is_empty() => length.saturating_sub(last)..length,
            _ => return Wanted::Whole,
        };
        if range.is_empty() { Wanted::Nothing } else { Wanted::Part(range) }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // An overflowing number is a position after every end.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let part = Wanted::Part;
        for (header, wanted) in [
            ("bytes=0-0", part(0..1)),
            ("bytes=1-2", part(1..3)),
            ("bytes=1-", part(1..10)),
            ("bytes=8-100", part(8..10)),
            ("bytes=-3", part(7..10)),
            ("bytes=-30", part(0..10)),
            (" bytes= 2-3", part(2..4)),
            ("bytes=9-99999999999999999999999", part(9..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(Wanted::of(Some(header), 10), wanted, "{header}");
        }
        assert_eq!(Wanted::of(None, 10), Wanted::Whole);
        assert_eq!(Wanted::of(Some("bytes=0-"), 0), Wanted::Nothing);
    }
}
