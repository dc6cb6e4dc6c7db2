//! A series, and the rollups that continue it where its own entries were deleted by retention.
//!
//! Invariant: no moment belongs to two levels. A frame of a rollup is used if some of its finer
//! entries are gone; if all still exist, the finer entries are used. Comparing their counts tells
//! which.

use std::ops::RangeInclusive;

use documents::time_series::ROLLUP_VALUES;
use timeseries::{Entry, Summary};

use crate::error::QueryError;
use crate::time_series::reader::{SeriesReader, SeriesVisitor};
use crate::time_series::settings::RollupPolicy;

/// The part of one series that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) name: String,
    /// Moments in milliseconds since the year 1, both included.
    pub(crate) moments: RangeInclusive<i64>,
}

/// The levels of a series in chronological order; empty when there is no such series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(Vec<Level>);

impl Levels {
    /// Only the series itself.
    pub(crate) fn only(
        reader: &dyn SeriesReader,
        id: &str,
        name: &str,
    ) -> Result<Levels, QueryError> {
        let facts = reader.facts(id, name)?;
        let level = |moments| Level { name: name.to_owned(), moments };
        Ok(Levels(facts.map(|facts| level(facts.first_ms..=facts.last_ms)).into_iter().collect()))
    }

    /// The series with the rollups that policies (the finest first) created from it.
    pub(crate) fn with_rollups(
        reader: &dyn SeriesReader,
        id: &str,
        name: &str,
        policies: &[RollupPolicy],
    ) -> Result<Levels, QueryError> {
        let mut levels = Levels::only(reader, id, name)?;
        for policy in policies {
            levels.add_in_front(reader, id, format!("{name}@{}", policy.name), policy)?;
        }
        Ok(levels)
    }

    /// Adds the frames of a rollup that precede the levels so far.
    fn add_in_front(
        &mut self,
        reader: &dyn SeriesReader,
        id: &str,
        name: String,
        policy: &RollupPolicy,
    ) -> Result<(), QueryError> {
        let Some(facts) = reader.facts(id, &name)? else { return Ok(()) };
        let Some(finer) = self.0.first() else {
            self.0.push(Level { name, moments: facts.first_ms..=facts.last_ms });
            return Ok(());
        };
        let begin = *finer.moments.start();
        let frame = policy.frame.start(begin)..=policy.frame.next(begin) - 1;
        let count = |name: &str| count(reader, id, name, frame.clone());
        let is_whole = *frame.start() == begin || count(&name)? <= count(&finer.name)?;
        let behind = match is_whole {
            true => *frame.start(),
            false => *frame.end() + 1,
        };
        for level in &mut self.0 {
            level.moments = behind.max(*level.moments.start())..=*level.moments.end();
        }
        self.0.retain(|level| !level.moments.is_empty());
        if facts.first_ms < behind {
            self.0.insert(0, Level { name, moments: facts.first_ms..=behind - 1 });
        }
        Ok(())
    }

    /// The first and the last moment of a series that exists.
    pub(crate) fn ends(&self) -> Option<(i64, i64)> {
        Some((*self.0.first()?.moments.start(), *self.0.last()?.moments.end()))
    }

    /// Visits the entries between two moments, both included.
    pub(crate) fn visit(
        &self,
        reader: &dyn SeriesReader,
        id: &str,
        (from, to): (i64, i64),
        visitor: &mut dyn SeriesVisitor,
    ) -> Result<(), QueryError> {
        for Level { name, moments } in &self.0 {
            let range = from.max(*moments.start())..=to.min(*moments.end());
            if !range.is_empty() {
                reader.visit(id, name, range, visitor)?;
            }
        }
        Ok(())
    }
}

/// How many entries a series has in a range, or how many its rollup entries summarize.
fn count(
    reader: &dyn SeriesReader,
    id: &str,
    name: &str,
    range: RangeInclusive<i64>,
) -> Result<u64, QueryError> {
    let mut counted = Counted(0);
    reader.visit(id, name, range, &mut counted)?;
    Ok(counted.0)
}

struct Counted(u64);

impl SeriesVisitor for Counted {
    fn segment(&mut self, _: (i64, i64), entries: u64, _: &[Summary]) -> Result<bool, QueryError> {
        self.0 += entries;
        Ok(true)
    }

    fn entry(&mut self, entry: Entry<'_>, is_rollup: bool) -> Result<(), QueryError> {
        // The count is the last of the values that a rollup has for each value.
        let of_rollup = entry.values.get(ROLLUP_VALUES - 1).copied().unwrap_or_default();
        self.0 += if is_rollup { of_rollup as u64 } else { 1 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use documents::time_series::Frame;
    use proptest::prelude::*;

    use super::*;
    use crate::time_series::reader::SeriesFacts;

    /// Series by their names: moments and numbers of entries that one stands for.
    #[derive(Debug, Default)]
    struct Stored(BTreeMap<String, BTreeMap<i64, u64>>);

    impl SeriesReader for Stored {
        fn facts(&self, _: &str, name: &str) -> Result<Option<SeriesFacts>, QueryError> {
            let Some(entries) = self.0.get(name).filter(|entries| !entries.is_empty()) else {
                return Ok(None);
            };
            let ends = (entries.keys().next(), entries.keys().last());
            let (Some(&first_ms), Some(&last_ms)) = ends else { return Ok(None) };
            Ok(Some(SeriesFacts { first_ms, last_ms, count: entries.len() as u64 }))
        }

        fn visit(
            &self,
            _: &str,
            name: &str,
            range: RangeInclusive<i64>,
            visitor: &mut dyn SeriesVisitor,
        ) -> Result<(), QueryError> {
            let Some(entries) = self.0.get(name) else { return Ok(()) };
            for (&timestamp_ms, count) in entries.range(range) {
                let is_rollup = name.contains('@');
                let rollup = [1.0, 1.0, 1.0, 1.0, 1.0, *count as f64];
                let values = if is_rollup { &rollup[..] } else { &rollup[..1] };
                visitor.entry(Entry { timestamp_ms, values, tag: None }, is_rollup)?;
            }
            Ok(())
        }
    }

    const SECOND: i64 = 1000;

    /// Entries every ten seconds, by minutes and by five minutes, each kept from a second on.
    fn stored(seconds: std::ops::Range<i64>, kept_from: [i64; 3]) -> Stored {
        let raw: BTreeMap<i64, u64> =
            seconds.step_by(10).map(|second| (second * SECOND, 1)).collect();
        let rolled_up = |length: i64| {
            let mut frames = BTreeMap::new();
            for moment in raw.keys() {
                *frames.entry(moment - moment % (length * SECOND)).or_default() += 1;
            }
            frames
        };
        let series = [("HR", raw.clone()), ("HR@m", rolled_up(60)), ("HR@5m", rolled_up(300))];
        let kept = series.into_iter().zip(kept_from).map(|((name, mut entries), from)| {
            entries.retain(|moment, _| from * SECOND <= *moment);
            (name.to_owned(), entries)
        });
        Stored(kept.collect())
    }

    fn policies() -> [RollupPolicy; 2] {
        [("m", 60), ("5m", 300)].map(|(name, length)| RollupPolicy {
            name: name.to_owned(),
            frame: Frame::Seconds(length),
        })
    }

    fn levels(stored: &Stored) -> Levels {
        Levels::with_rollups(stored, "u/1", "HR", &policies()).unwrap()
    }

    fn shown(stored: &Stored) -> Vec<String> {
        let seconds = |level: &Level| {
            let (from, to) = (level.moments.start() / SECOND, level.moments.end() / SECOND);
            format!("{} {from}..{to}", level.name)
        };
        levels(stored).0.iter().map(seconds).collect()
    }

    #[test]
    fn rollups_go_on_where_finer_entries_are_gone() {
        for (kept_from, expected) in [
            ([0, 0, 0], &["HR 0..890"][..]),
            // Minutes of which entries are gone are those of the rollup.
            ([600, 0, 0], &["HR@m 0..599", "HR 600..890"]),
            ([610, 0, 0], &["HR@m 0..659", "HR 660..890"]),
            ([590, 300, 0], &["HR@5m 0..299", "HR@m 300..599", "HR 600..890"]),
            ([610, 360, 0], &["HR@5m 0..599", "HR@m 600..659", "HR 660..890"]),
            // Five minutes that reach behind the minutes.
            ([610, 660, 0], &["HR@5m 0..899"]),
            ([610, 600, 600], &["HR@m 600..659", "HR 660..890"]),
            ([900, 840, 0], &["HR@5m 0..899"]),
            ([900, 900, 0], &["HR@5m 0..600"]),
            ([900, 900, 900], &[]),
        ] {
            assert_eq!(shown(&stored(0..900, kept_from)), expected, "{kept_from:?}");
        }
    }

    proptest! {
        #[test]
        fn every_entry_is_counted_once(
            begin in 0i64..400, length in 1i64..2000, cuts in prop::array::uniform2(0i64..2500),
        ) {
            // The coarsest rollup has everything; the others are cut anywhere.
            let seconds = begin * 10..begin * 10 + length;
            let entries = seconds.clone().step_by(10).count() as u64;
            let stored = stored(seconds, [begin * 10 + cuts[0], begin * 10 + cuts[1], 0]);
            let mut counted = Counted(0);
            levels(&stored).visit(&stored, "u/1", (0, i64::MAX), &mut counted).unwrap();
            prop_assert_eq!(counted.0, entries);
        }
    }
}
