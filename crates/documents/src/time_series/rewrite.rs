//! Rewriting the segments of a part of a series.

use std::{borrow::Cow, ops::Range};

use timeseries::{ENTRIES_MAX, Entries, Entry};

use super::{read::add_values, requests::InvalidTimeSeries};

/// The maximum size of a segment, unless it has only one moment.
const SEGMENT_BYTES_MAX: usize = 2048;
/// A segment of this size is not extended any further.
const SEGMENT_BYTES_FULL: usize = SEGMENT_BYTES_MAX * 7 / 8;

/// How two entries of the same moment are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The later one wins.
    Replace,
    /// The later one of those of the same tag wins.
    ReplaceOfTag,
    /// Those of the same tag are added up.
    Add,
}

/// Whether a segment with this many entries and bytes is not extended at its end.
pub(super) fn is_full(entries: usize, bytes: usize) -> bool {
    ENTRIES_MAX <= entries || SEGMENT_BYTES_FULL <= bytes
}

/// Entries ordered by moment, and by tag where they are added up; entries of the same key are
/// combined.
pub(super) fn in_order(entries: &Entries, meeting: Meeting) -> Cow<'_, Entries> {
    // Usually they already are, each at a moment of its own.
    if entries.timestamps().is_sorted_by(|earlier, later| earlier < later) {
        return Cow::Borrowed(entries);
    }
    let mut positions: Vec<usize> = (0..entries.len()).collect();
    positions.sort_by_key(|position| key_of(entries.get(*position), meeting));
    let mut ordered = Entries::default();
    let mut values = Vec::new();
    let mut at = 0;
    while let Some(first) = positions.get(at).and_then(|position| entries.get(*position)) {
        let key = key_of(Some(first), meeting);
        let same =
            positions[at..].iter().take_while(|other| key_of(entries.get(**other), meeting) == key);
        let same = same.count();
        let all = positions[at..at + same].iter().filter_map(|position| entries.get(*position));
        push_met(&mut ordered, all, meeting, &mut values);
        at += same;
    }
    Cow::Owned(ordered)
}

/// The sort key of an entry.
fn key_of(entry: Option<Entry<'_>>, meeting: Meeting) -> Option<(i64, Option<&str>)> {
    entry.map(|entry| match meeting {
        Meeting::Replace => (entry.timestamp_ms, None),
        Meeting::ReplaceOfTag | Meeting::Add => (entry.timestamp_ms, entry.tag),
    })
}

/// Adds the combination of entries of the same key, older ones first.
fn push_met<'a>(
    into: &mut Entries,
    mut all: impl Iterator<Item = Entry<'a>>,
    meeting: Meeting,
    values: &mut Vec<f64>,
) {
    let Some(first) = all.next() else { return };
    match meeting {
        Meeting::Replace | Meeting::ReplaceOfTag => into.push(all.last().unwrap_or(first)),
        Meeting::Add => {
            values.clear();
            values.extend_from_slice(first.values);
            all.for_each(|entry| add_values(values, entry.values));
            into.push(Entry { values, ..first });
        }
    }
}

/// Merges two ordered lists.
pub(super) fn merged(
    old: &Entries,
    new: &Entries,
    new_range: Range<usize>,
    meeting: Meeting,
) -> Entries {
    // Usually all new ones are after the old ones.
    if old.timestamps().last() < new.timestamps()[new_range.clone()].first() {
        let mut result = old.clone();
        result.extend_from(new, new_range);
        return result;
    }
    let mut result = Entries::default();
    let mut values = Vec::new();
    let (mut old_at, mut new_at) = (0, new_range.start);
    loop {
        let old_entry = old.get(old_at);
        let new_entry = if new_at < new_range.end { new.get(new_at) } else { None };
        let (old_key, new_key) = (key_of(old_entry, meeting), key_of(new_entry, meeting));
        let takes_old = old_key.is_some() && new_key.is_none_or(|new| old_key <= Some(new));
        let takes_new = new_key.is_some() && old_key.is_none_or(|old| new_key <= Some(old));
        if !takes_old && !takes_new {
            return result;
        }
        let old_entry = old_entry.filter(|_| takes_old);
        let new_entry = new_entry.filter(|_| takes_new);
        push_met(&mut result, old_entry.into_iter().chain(new_entry), meeting, &mut values);
        old_at += usize::from(takes_old);
        new_at += usize::from(takes_new);
    }
}

/// The entries of a segment, and its bytes.
pub(super) type Piece = (Range<usize>, Vec<u8>);

/// Cuts entries into segments. At the end of a series they are as long as possible, since more
/// entries will follow; elsewhere they are about equally long, so that they can grow.
pub(super) fn cut(
    entries: &Entries,
    range: Range<usize>,
    is_at_end: bool,
) -> Result<Vec<Piece>, InvalidTimeSeries> {
    let mut pieces = Vec::new();
    let (mut at, mut most) = (range.start, ENTRIES_MAX);
    while at < range.end {
        let left = range.end - at;
        let wanted = match is_at_end {
            true => most.min(left),
            false => left.div_ceil(left.div_ceil(most)),
        };
        let end = end_of_piece(entries.timestamps(), at, at + wanted, range.end)?;
        let mut segment = Vec::new();
        timeseries::encode(entries, at..end, &mut segment);
        if segment.len() <= SEGMENT_BYTES_MAX || is_one_moment(entries.timestamps(), at..end) {
            most = (2 * most).min(ENTRIES_MAX).min(2 * (end - at).max(1));
            pieces.push((at..end, segment));
            at = end;
        } else {
            // Somewhat less than would fit if all entries were alike.
            most =
                ((end - at) * SEGMENT_BYTES_MAX / segment.len() * 15 / 16).clamp(1, end - at - 1);
        }
    }
    Ok(pieces)
}

fn is_one_moment(timestamps: &[i64], range: Range<usize>) -> bool {
    timestamps[range.start] == timestamps[range.end - 1]
}

/// The exact end of a piece that should end near a position: never between entries of the same
/// moment.
fn end_of_piece(
    timestamps: &[i64],
    start: usize,
    wanted: usize,
    last: usize,
) -> Result<usize, InvalidTimeSeries> {
    let is_between = |end: usize| end < last && timestamps[end - 1] == timestamps[end];
    let mut end = wanted;
    while is_between(end) && start < end - 1 {
        end -= 1;
    }
    while is_between(end) {
        end += 1;
    }
    if ENTRIES_MAX < end - start {
        return Err(InvalidTimeSeries::TooManyAtOneMoment);
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries_of(all: &[(i64, f64, &str)]) -> Entries {
        let mut entries = Entries::default();
        for (timestamp_ms, value, tag) in all {
            let tag = (!tag.is_empty()).then_some(*tag);
            entries.push(Entry { timestamp_ms: *timestamp_ms, values: &[*value], tag });
        }
        entries
    }

    fn shown(entries: &Entries) -> Vec<(i64, f64, &str)> {
        entries
            .iter()
            .map(|entry| (entry.timestamp_ms, entry.values[0], entry.tag.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn entries_that_meet_become_one() {
        let new = entries_of(&[(3, 1.0, "b"), (1, 2.0, ""), (3, 3.0, "a"), (3, 4.0, "b")]);
        let replaced = in_order(&new, Meeting::Replace);
        assert_eq!(shown(&replaced), [(1, 2.0, ""), (3, 4.0, "b")]);
        let added = in_order(&new, Meeting::Add);
        assert_eq!(shown(&added), [(1, 2.0, ""), (3, 3.0, "a"), (3, 5.0, "b")]);
        let old = entries_of(&[(0, 7.0, ""), (3, 8.0, "b"), (4, 9.0, "")]);
        let both = merged(&old, &replaced, 0..2, Meeting::Replace);
        assert_eq!(shown(&both), [(0, 7.0, ""), (1, 2.0, ""), (3, 4.0, "b"), (4, 9.0, "")]);
        let both = merged(&old, &added, 1..3, Meeting::Add);
        assert_eq!(shown(&both), [(0, 7.0, ""), (3, 3.0, "a"), (3, 13.0, "b"), (4, 9.0, "")]);
    }

    #[test]
    fn what_is_cut_at_the_end_is_long_and_elsewhere_equal() {
        let all: Vec<_> = (0..ENTRIES_MAX as i64 + 2).map(|i| (i, 1.0, "")).collect();
        let entries = entries_of(&all);
        let lengths = |is_at_end| {
            let pieces = cut(&entries, 0..entries.len(), is_at_end).unwrap();
            pieces.into_iter().map(|(range, _)| range.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(true), [ENTRIES_MAX, 2]);
        assert_eq!(lengths(false), [ENTRIES_MAX / 2 + 1, ENTRIES_MAX / 2 + 1]);
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_it_and_never_too_long(
            moments in proptest::collection::vec((0_i64..3, any::<u64>()), 1..2000),
            is_at_end: bool
        ) {
            let mut moment = 0;
            let all: Vec<_> = moments.iter().map(|(step, bits)| {
                moment += step;
                (moment, f64::from_bits(*bits), "")
            }).collect();
            let entries = entries_of(&all);
            let mut at = 0;
            for (range, segment) in cut(&entries, 0..all.len(), is_at_end).unwrap() {
                prop_assert_eq!(range.start, at);
                at = range.end;
                prop_assert!(at == all.len() || all[at - 1].0 != all[at].0);
                prop_assert!(
                    segment.len() <= SEGMENT_BYTES_MAX || all[range.start].0 == all[at - 1].0
                );
                let mut found = Entries::default();
                timeseries::decode(&segment, &mut found).unwrap();
                prop_assert_eq!(found.timestamps(), &entries.timestamps()[range]);
            }
            prop_assert_eq!(at, all.len());
        }
    }
}
