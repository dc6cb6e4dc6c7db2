//! Entries in memory, in columns.

use std::ops::Range;

use crate::{Summary, VALUES_MAX};

/// One entry of a time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The moment, in milliseconds since 0001-01-01T00:00:00Z.
    pub timestamp_ms: i64,
    /// The values; at least one.
    pub values: &'a [f64],
    /// The tag, if the entry has one.
    pub tag: Option<&'a str>,
}

/// Entries in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    timestamps: Vec<i64>,
    values: Vec<f64>,
    /// Where the values of each entry end.
    value_ends: Vec<u32>,
    /// Number of the tag, counted from 1; 0 for none.
    tags: Vec<u32>,
    tag_text: String,
    /// Where the text of each tag ends.
    tag_ends: Vec<u32>,
}

impl Entries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.timestamps.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Removes all; the memory is kept.
    pub fn clear(&mut self) {
        self.timestamps.clear();
        self.values.clear();
        self.value_ends.clear();
        self.tags.clear();
        self.tag_text.clear();
        self.tag_ends.clear();
    }

    /// Appends an entry after the last one; the order is not checked.
    pub fn push(&mut self, entry: Entry<'_>) {
        self.timestamps.push(entry.timestamp_ms);
        self.values.extend_from_slice(entry.values);
        self.value_ends.push(self.values.len() as u32);
        // Neighbours mostly have the same tag.
        let tag = entry.tag.map(|tag| match self.tag_of(self.tags.len().wrapping_sub(1)) {
            Some(known) if known == tag => self.tags[self.tags.len() - 1],
            Some(_) | None => self.add_tag(tag),
        });
        self.push_tag(tag);
    }

    /// Appends entries of `others`.
    pub fn extend_from(&mut self, others: &Entries, range: Range<usize>) {
        if others.tags[range.clone()].iter().any(|tag| *tag != 0) {
            return range
                .filter_map(|position| others.get(position))
                .for_each(|one| self.push(one));
        }
        let values = others.values_before(range.start)..others.values_before(range.end);
        let (own, theirs) = (self.values.len() as u32, values.start as u32);
        self.timestamps.extend_from_slice(&others.timestamps[range.clone()]);
        self.values.extend_from_slice(&others.values[values]);
        let ends = others.value_ends[range.clone()].iter();
        self.value_ends.extend(ends.map(|end| end - theirs + own));
        self.push_no_tags(range.len());
    }

    /// An entry; `None` after the last one.
    pub fn get(&self, position: usize) -> Option<Entry<'_>> {
        let timestamp_ms = *self.timestamps.get(position)?;
        Some(Entry { timestamp_ms, values: self.values_of(position), tag: self.tag_of(position) })
    }

    /// All entries, in the order in which they were appended.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry<'_>> + DoubleEndedIterator {
        (0..self.len()).map(|position| Entry {
            timestamp_ms: self.timestamps[position],
            values: self.values_of(position),
            tag: self.tag_of(position),
        })
    }

    /// The moments of all entries.
    pub fn timestamps(&self) -> &[i64] {
        &self.timestamps
    }

    /// The values of all entries, concatenated, when each entry has the same number of values.
    pub fn values_of_equal_number(&self) -> Option<(usize, &[f64])> {
        let (first, last) = (*self.value_ends.first()? as usize, self.value_ends.len());
        (first * last == self.values.len()
            && self.value_ends.iter().enumerate().all(|(i, end)| *end as usize == (i + 1) * first))
        .then_some((first, self.values.as_slice()))
    }

    /// Summaries of the values of the entries in the range, by position.
    pub fn summaries(&self, range: Range<usize>) -> Vec<Summary> {
        let mut summaries: Vec<Summary> = Vec::new();
        for entry in range {
            for (position, value) in self.values_of(entry).iter().enumerate() {
                match summaries.get_mut(position) {
                    Some(summary) => summary.add(*value),
                    None => summaries.push(Summary::of(*value)),
                }
            }
        }
        summaries
    }

    pub(crate) fn values_of(&self, position: usize) -> &[f64] {
        &self.values[self.values_before(position)..self.value_ends[position] as usize]
    }

    /// How many values the entries before this position have.
    fn values_before(&self, position: usize) -> usize {
        match position {
            0 => 0,
            position => self.value_ends[position - 1] as usize,
        }
    }

    pub(crate) fn tag_of(&self, position: usize) -> Option<&str> {
        let number = *self.tags.get(position)? as usize;
        let end = *self.tag_ends.get(number.checked_sub(1)?)? as usize;
        let start = if number == 1 { 0 } else { self.tag_ends[number - 2] as usize };
        self.tag_text.get(start..end)
    }

    pub(crate) fn push_timestamp(&mut self, timestamp_ms: i64) {
        self.timestamps.push(timestamp_ms);
    }

    pub(crate) fn add_tag(&mut self, text: &str) -> u32 {
        self.tag_text.push_str(text);
        self.tag_ends.push(self.tag_text.len() as u32);
        self.tag_ends.len() as u32
    }

    pub(crate) fn push_tag(&mut self, number: Option<u32>) {
        self.tags.push(number.unwrap_or(0));
    }

    pub(crate) fn push_no_tags(&mut self, count: usize) {
        self.tags.resize(self.tags.len() + count, 0);
    }

    /// Adds values of entries, with `counts` values each; returns where those of each position are.
    pub(crate) fn extend_values(&mut self, counts: impl Iterator<Item = usize>) -> usize {
        let start = self.values.len();
        let mut end = start;
        for count in counts {
            end += count.min(VALUES_MAX);
            self.value_ends.push(end as u32);
        }
        self.values.resize(end, 0.0);
        start
    }

    pub(crate) fn values_from(&mut self, start: usize) -> &mut [f64] {
        &mut self.values[start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_was_added() {
        let all = [
            Entry { timestamp_ms: 5, values: &[1.0], tag: Some("a") },
            Entry { timestamp_ms: 6, values: &[2.0, 3.0], tag: None },
            Entry { timestamp_ms: 6, values: &[4.0], tag: Some("a") },
            Entry { timestamp_ms: 7, values: &[5.0], tag: Some("") },
            Entry { timestamp_ms: 8, values: &[6.0], tag: Some("") },
            Entry { timestamp_ms: 9, values: &[7.0], tag: Some("b") },
        ];
        let mut entries = Entries::default();
        all.into_iter().for_each(|entry| entries.push(entry));
        assert_eq!(entries.iter().collect::<Vec<_>>(), all);
        assert_eq!(entries.get(1), Some(all[1]));
        assert_eq!(entries.get(6), None);
        assert_eq!(entries.values_of_equal_number(), None);
        let [first, second] = entries.summaries(0..6)[..] else { panic!("two positions") };
        let expected = Summary { count: 6, first: 1.0, last: 7.0, min: 1.0, max: 7.0, sum: 25.0 };
        assert_eq!(first, expected);
        assert_eq!(second, Summary::of(3.0));
        for range in [0..6, 1..2, 2..5, 6..6] {
            for tagged in [true, false] {
                let all = all.map(|one| Entry { tag: one.tag.filter(|_| tagged), ..one });
                let mut others = Entries::default();
                all.into_iter().for_each(|entry| others.push(entry));
                let (mut pushed, mut extended) = (entries.clone(), entries.clone());
                all[range.clone()].iter().for_each(|entry| pushed.push(*entry));
                extended.extend_from(&others, range.clone());
                assert_eq!(extended.iter().collect::<Vec<_>>(), pushed.iter().collect::<Vec<_>>());
            }
        }
        entries.clear();
        assert!(entries.is_empty() && entries.summaries(0..0).is_empty());
        entries.push(all[0]);
        entries.push(all[0]);
        assert_eq!(entries.values_of_equal_number(), Some((1, [1.0, 1.0].as_slice())));
    }
}
