//! The keys of time series segments in an index.
//!
//! ```text
//! document id · 1e · name of the series · 1e · bytes of the id, 3 digits · first moment, 16 digits
//! ```
//!
//! Id and name are lower-cased, numbers are hexadecimal. So the keys of a series are in the order
//! of its segments. A name that is too long is truncated and followed by a hash.
//!
//! A segment whose start changes has another key, and nothing reports the old one. The log is still
//! sufficient, see `documents::time_series`: a key that no segment has any more is inside a segment
//! that was written later, or inside a range that was deleted later.

use std::borrow::Cow;

use documents::{
    DocumentError,
    time_series::{DeletedRangeRow, SegmentRow, segment_at, series_names},
};
use model::{DocumentId, TimeSeriesName};
use storage::Transaction;
use xxhash_rust::xxh3::xxh3_128;

const SEPARATOR: char = '\u{1e}';
/// Precedes the hash of a name.
const HASH: char = '\u{1f}';
const LENGTH_DIGITS: usize = 3;
const MOMENT_DIGITS: usize = 16;
/// Shorter names are not truncated.
const NAME_BYTES_MIN: usize = 350;

/// A range of keys of segments of one series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The keys after this one,
    pub(crate) after: String,
    /// up to this one.
    pub(crate) last: String,
}

impl KeyRange {
    /// The keys of segments that would begin inside a segment, after its start; `None` when it has
    /// no inside.
    pub(crate) fn inside_segment(row: &SegmentRow<'_>) -> Option<Self> {
        let (start, end) = (row.start_ms(), row.end_ms());
        let series = series_key(row.lower_document_id(), row.lower_name());
        (start < end).then(|| Self { after: key(&series, start), last: key(&series, end) })
    }

    /// Whether the range contains a key. Keys of one series are equally long, and others with the
    /// same prefix are not.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.after.as_str() < key && key <= self.last.as_str() && key.len() == self.last.len()
    }

    /// The keys of segments that began in a deleted range.
    pub(crate) fn of_deleted(row: &DeletedRangeRow<'_>) -> Self {
        let range = row.range();
        let series = series_key(row.lower_document_id(), row.lower_name());
        let last = key(&series, range.to);
        match range.from.checked_sub(1) {
            Some(before) if 0 <= before => Self { after: key(&series, before), last },
            Some(_) | None => Self { after: series, last },
        }
    }
}

/// The key of a segment.
pub(crate) fn of_segment(row: &SegmentRow<'_>) -> String {
    key(&series_key(row.lower_document_id(), row.lower_name()), row.start_ms())
}

/// The segment of a key, if it exists.
pub(crate) fn find<'t>(
    documents: &'t impl Transaction,
    key: &str,
) -> Result<Option<SegmentRow<'t>>, DocumentError> {
    let Some((id, name, moment)) = parts_of(key) else { return Ok(None) };
    let Ok(id) = DocumentId::new(id) else { return Ok(None) };
    let found = match name.contains(HASH) && NAME_BYTES_MIN <= name.len() {
        false => Some(name.to_owned()),
        true => name_of_hash(documents, &id, name)?,
    };
    match found.map(TimeSeriesName::new) {
        Some(Ok(name)) => segment_at(documents, &id, &name, moment),
        Some(Err(_)) | None => Ok(None),
    }
}

/// The name of a document's series whose truncated form is in keys.
fn name_of_hash(
    documents: &impl Transaction,
    id: &DocumentId,
    hashed: &str,
) -> Result<Option<String>, DocumentError> {
    for name in series_names(documents, id)? {
        let lower = model::lower_case(name?);
        if name_in_key(&lower) == hashed {
            return Ok(Some(lower.into_owned()));
        }
    }
    Ok(None)
}

/// The prefix of the keys of a series.
fn series_key(lower_id: &str, lower_name: &str) -> String {
    let name = name_in_key(lower_name);
    let length = lower_id.len();
    format!("{lower_id}{SEPARATOR}{name}{SEPARATOR}{length:0LENGTH_DIGITS$x}")
}

fn key(series: &str, moment: i64) -> String {
    format!("{series}{moment:0MOMENT_DIGITS$x}")
}

fn name_in_key(lower_name: &str) -> Cow<'_, str> {
    if lower_name.len() < NAME_BYTES_MIN {
        return Cow::Borrowed(lower_name);
    }
    let kept = &lower_name[..lower_name.floor_char_boundary(NAME_BYTES_MIN)];
    Cow::Owned(format!("{kept}{HASH}{:032x}", xxh3_128(lower_name.as_bytes())))
}

/// The id, the name as it is in the key, and the moment.
fn parts_of(key: &str) -> Option<(&str, &str, i64)> {
    let (series, moment) = key.split_at_checked(key.len().checked_sub(MOMENT_DIGITS)?)?;
    let (names, length) = series.split_at_checked(series.len().checked_sub(LENGTH_DIGITS)?)?;
    let length = usize::from_str_radix(length, 16).ok()?;
    let (id, name) = names.split_at_checked(length)?;
    let name = name.strip_prefix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    Some((id, name, i64::from_str_radix(moment, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_segment_of_one_series() {
        let long = "n".repeat(512);
        let names =
            [("u/1", "hr"), ("u/1\u{1e}a", "b"), ("u/1", "a\u{1e}b"), ("", ""), ("é", &long)];
        let mut keys = Vec::new();
        for (id, name) in names {
            for moment in [0, 1, 0x10, i64::from(u32::MAX), documents::time_series::MOMENT_MAX] {
                let key = key(&series_key(id, name), moment);
                let shown = name_in_key(name);
                assert_eq!(parts_of(&key), Some((id, &*shown, moment)));
                keys.push(key);
            }
            assert!(keys[keys.len() - 5..].is_sorted(), "in the order of moments");
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), names.len() * 5);
        let longest = series_key(&"i".repeat(512), &"é".repeat(256));
        assert!(key(&longest, 0).len() <= search::TERM_BYTES_MAX);
        for text in ["", "hr", "0000000000000000", "fff0000000000000000", "é00000000000000000000"]
        {
            assert_eq!(parts_of(text), None, "{text}");
        }
    }
}
