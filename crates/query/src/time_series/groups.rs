//! Assigns entries to groups: by periods of time, and within one by a key; gaps between two groups
//! are interpolated on request.
//!
//! One period is open at a time, so memory use depends on the number of its keys, and with
//! interpolation on the number of all keys.

use std::collections::HashMap;

use model::ticks::TICKS_PER_MILLISECOND;
use timeseries::Summary;

use crate::error::QueryError;
use crate::time_series::aggregation::{Aggregation, Details, GroupState};
use crate::time_series::periods::{Periods, Stretch};

/// Maximum number of keys of the groups of one series.
const KEYS_MAX: usize = 1 << 20;

/// How gaps are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpolation {
    /// Linearly between the neighboring groups.
    Linear,
    /// With the nearer group; the earlier one if both are equally near.
    Nearest,
    /// With the previous group.
    Last,
    /// With the next group.
    Next,
}

/// What entries are grouped by, and the aggregations.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// `None`: all entries are one group.
    pub(crate) periods: Option<Periods>,
    pub(crate) interpolation: Option<Interpolation>,
    pub(crate) aggregations: Vec<Aggregation>,
    /// The end of the range if all entries are one group. An entry exactly there starts a group of
    /// its own.
    pub(crate) end: Option<i64>,
}

/// A group whose last entry has been read, with the results of its aggregations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// `None` when entries are not grouped by time.
    pub(crate) stretch: Option<Stretch>,
    /// The key as JSON.
    pub(crate) key: Box<[u8]>,
    /// How many results each aggregation has.
    pub(crate) width: usize,
    /// The results of the first aggregation at each position, then those of the second…
    pub(crate) results: Vec<f64>,
}

impl Group {
    /// The results of the aggregation at `place`, position by position.
    pub(crate) fn results_of(&self, place: usize) -> &[f64] {
        &self.results[place * self.width..(place + 1) * self.width]
    }
}

/// Receives each group as soon as it is finished.
pub(crate) type Taker<'t> = &'t mut dyn FnMut(&Group) -> Result<(), QueryError>;

/// The groups of one series while it is read.
pub(crate) struct Groups<'g> {
    grouping: &'g Grouping,
    details: Details,
    stretch: Option<Stretch>,
    keys: HashMap<Box<[u8]>, usize>,
    /// The groups of the open period, in the order in which their keys appeared.
    open: Vec<(Box<[u8]>, GroupState)>,
    /// The last finished group of each key, for interpolation.
    finished: HashMap<Box<[u8]>, Group>,
    filled: f64,
}

impl<'g> Groups<'g> {
    pub(crate) fn new(grouping: &'g Grouping) -> Groups<'g> {
        Groups {
            grouping,
            details: Details::of(grouping.aggregations.iter().copied()),
            stretch: None,
            keys: HashMap::new(),
            open: Vec::new(),
            finished: HashMap::new(),
            filled: 0.0,
        }
    }

    /// How many entries the interpolated groups stand for.
    pub(crate) fn filled(&self) -> u64 {
        self.filled.round() as u64
    }

    /// Adds an entry, which must not be earlier than the previous ones.
    pub(crate) fn add(
        &mut self,
        moment: i64,
        key: &[u8],
        values: &[f64],
        is_rollup: bool,
        take: Taker<'_>,
    ) -> Result<(), QueryError> {
        self.advance(moment, take)?;
        let details = self.details;
        let group = self.group(key)?;
        if is_rollup {
            group.add_rollup(values);
            return Ok(());
        }
        group.add(values, details)
    }

    /// Adds the summary of all entries from `first` to `last`; returns `false` and does nothing
    /// unless they all belong to one group without a key.
    pub(crate) fn add_segment(
        &mut self,
        (first, last): (i64, i64),
        summaries: impl Iterator<Item = Summary>,
        take: Taker<'_>,
    ) -> Result<bool, QueryError> {
        if self.details != Details::default() {
            return Ok(false);
        }
        let is_one_group = match (self.grouping.periods, self.grouping.end) {
            (Some(periods), _) => self.stretch_of(&periods, first).contains(last),
            (None, Some(end)) => last < end,
            (None, None) => true,
        };
        if is_one_group {
            self.advance(first, take)?;
            self.group(b"null")?.add_summaries(summaries);
        }
        Ok(is_one_group)
    }

    fn stretch_of(&self, periods: &Periods, moment: i64) -> Stretch {
        match self.stretch {
            Some(open) if open.contains(moment) => open,
            _ => periods.around(moment),
        }
    }

    /// Finishes what ends before `moment`.
    fn advance(&mut self, moment: i64, take: Taker<'_>) -> Result<(), QueryError> {
        match self.grouping.periods {
            Some(periods) => {
                if self.stretch.is_none_or(|open| !open.contains(moment)) {
                    self.finish(take)?;
                    self.stretch = Some(periods.around(moment));
                }
                Ok(())
            }
            None if self.grouping.end.is_some_and(|end| end <= moment) => self.finish(take),
            None => Ok(()),
        }
    }

    #[inline]
    fn group(&mut self, key: &[u8]) -> Result<&mut GroupState, QueryError> {
        let place = match self.open.first() {
            Some((first, _)) if **first == *key => 0,
            _ => self.place_of(key)?,
        };
        Ok(&mut self.open[place].1)
    }

    fn place_of(&mut self, key: &[u8]) -> Result<usize, QueryError> {
        if let Some(place) = self.keys.get(key) {
            return Ok(*place);
        }
        if KEYS_MAX <= self.open.len().max(self.finished.len()) {
            let message = format!("A series has at most {KEYS_MAX} groups at one time");
            return Err(QueryError::InvalidOperation { message });
        }
        self.keys.insert(key.into(), self.open.len());
        self.open.push((key.into(), GroupState::default()));
        Ok(self.open.len() - 1)
    }

    /// Finishes the open groups.
    pub(crate) fn finish(&mut self, take: Taker<'_>) -> Result<(), QueryError> {
        self.keys.clear();
        for (key, mut state) in std::mem::take(&mut self.open) {
            let group = self.finished_group(key, &mut state);
            if let Some(interpolation) = self.grouping.interpolation {
                if let Some(before) = self.finished.get(&group.key) {
                    let made_up = self.fill(before, &group, interpolation, take)?;
                    self.filled += made_up;
                }
                take(&group)?;
                self.finished.insert(group.key.clone(), group);
            } else {
                take(&group)?;
            }
        }
        Ok(())
    }

    fn finished_group(&self, key: Box<[u8]>, state: &mut GroupState) -> Group {
        let milliseconds = self.stretch.map_or(f64::NAN, |stretch| {
            (stretch.end - stretch.start) as f64 / TICKS_PER_MILLISECOND as f64
        });
        let width = state.width();
        let mut results = Vec::with_capacity(width * self.grouping.aggregations.len());
        for aggregation in &self.grouping.aggregations {
            state.finish(*aggregation, milliseconds, &mut results);
        }
        Group { stretch: self.stretch, key, width, results }
    }

    /// Interpolates the groups between two; returns how many entries they stand for.
    fn fill(
        &self,
        before: &Group,
        behind: &Group,
        interpolation: Interpolation,
        take: Taker<'_>,
    ) -> Result<f64, QueryError> {
        let (Some(periods), Some(first), Some(last)) =
            (self.grouping.periods, before.stretch, behind.stretch)
        else {
            return Ok(0.0);
        };
        let aggregations = &self.grouping.aggregations;
        let count = aggregations.iter().position(|one| *one == Aggregation::Count);
        let mut filled = 0.0;
        let mut stretch = periods.behind(first);
        while stretch.start < last.start && stretch.start < stretch.end {
            let (since, until) = (stretch.start - first.start, last.start - stretch.start);
            let made_up = match interpolation {
                Interpolation::Linear => {
                    between(before, behind, since as f64 / (since + until) as f64)
                }
                Interpolation::Nearest if until < since => behind.clone(),
                Interpolation::Nearest | Interpolation::Last => before.clone(),
                Interpolation::Next => behind.clone(),
            };
            filled += count.and_then(|place| made_up.results_of(place).first()).unwrap_or(&0.0);
            take(&Group { stretch: Some(stretch), ..made_up })?;
            stretch = periods.behind(stretch);
        }
        Ok(filled)
    }
}

/// The group at a fraction of the distance between two, with the positions that both have.
fn between(before: &Group, behind: &Group, part: f64) -> Group {
    let width = before.width.min(behind.width);
    let aggregations = before.results.len().checked_div(before.width).unwrap_or(0);
    let mut results = Vec::with_capacity(width * aggregations);
    for place in 0..aggregations {
        let pairs = before.results_of(place).iter().zip(behind.results_of(place));
        results.extend(pairs.map(|(from, to)| from + (to - from) * part));
    }
    Group { stretch: None, key: before.key.clone(), width, results }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time_series::length::TimeLength;

    const MINUTE: i64 = 60 * 1_000 * TICKS_PER_MILLISECOND;
    /// The beginning of the year 2020.
    const BEGIN: i64 = 637_134_336_000_000_000;

    #[derive(Clone, Debug)]
    struct Entry {
        moment: i64,
        key: &'static [u8],
        values: Vec<f64>,
    }

    fn grouping(
        length: Option<&str>,
        interpolation: Option<Interpolation>,
        percent: bool,
    ) -> Grouping {
        let mut aggregations = super::super::aggregation::ALL.to_vec();
        aggregations.push(Aggregation::Slope);
        if percent {
            aggregations.extend([Aggregation::Percentile(30.0), Aggregation::StandardDeviation]);
        }
        let periods =
            length.map(|text| Periods::new(TimeLength::parse(text).unwrap(), Some(BEGIN)));
        Grouping { periods, interpolation, aggregations, end: None }
    }

    /// The groups, from segments of so many entries each; whole ones where that is possible.
    fn groups(grouping: &Grouping, entries: &[Entry], segment_entries: usize) -> (Vec<Group>, u64) {
        let (mut groups, mut taken) = (Groups::new(grouping), Vec::new());
        let mut take = |group: &Group| {
            taken.push(group.clone());
            Ok(())
        };
        for segment in entries.chunks(segment_entries) {
            let mut known = GroupState::default();
            let mut summaries = Vec::<Summary>::new();
            for entry in segment {
                known.add(&entry.values, Details::default()).unwrap();
                for (position, value) in entry.values.iter().enumerate() {
                    match summaries.get_mut(position) {
                        Some(summary) => summary.add(*value),
                        None => summaries.push(Summary::of(*value)),
                    }
                }
            }
            let moments = (segment[0].moment, segment[segment.len() - 1].moment);
            let is_plain = segment_entries > 1 && segment.iter().all(|entry| entry.key == b"null");
            if is_plain && groups.add_segment(moments, summaries.into_iter(), &mut take).unwrap() {
                continue;
            }
            for entry in segment {
                groups.add(entry.moment, entry.key, &entry.values, false, &mut take).unwrap();
            }
        }
        groups.finish(&mut take).unwrap();
        let filled = groups.filled();
        (taken, filled)
    }

    /// The groups as one would write them down by hand, without interpolation.
    fn naive(grouping: &Grouping, entries: &[Entry]) -> Vec<Group> {
        let mut members: Vec<(Option<Stretch>, &[u8], Vec<&Entry>)> = Vec::new();
        for entry in entries {
            let stretch = grouping.periods.map(|periods| periods.around(entry.moment));
            let known = members.iter_mut().find(|(at, key, _)| *at == stretch && *key == entry.key);
            match known {
                Some((_, _, entries)) => entries.push(entry),
                None => members.push((stretch, entry.key, vec![entry])),
            }
        }
        members
            .into_iter()
            .map(|(stretch, key, entries)| {
                let width = entries.iter().map(|entry| entry.values.len()).max().unwrap();
                let at = |position: usize| -> Vec<f64> {
                    entries.iter().filter_map(|entry| entry.values.get(position).copied()).collect()
                };
                let results = grouping
                    .aggregations
                    .iter()
                    .flat_map(|aggregation| {
                        (0..width).map(|position| naive_result(*aggregation, at(position), stretch))
                    })
                    .collect();
                Group { stretch, key: key.into(), width, results }
            })
            .collect()
    }

    fn naive_result(
        aggregation: Aggregation,
        mut values: Vec<f64>,
        stretch: Option<Stretch>,
    ) -> f64 {
        let (first, last) = (values[0], values[values.len() - 1]);
        let count = values.len() as f64;
        let sum = values.iter().sum::<f64>();
        let by_size = {
            values.sort_by(f64::total_cmp);
            values
        };
        match aggregation {
            Aggregation::First => first,
            Aggregation::Last => last,
            Aggregation::Min => by_size[0],
            Aggregation::Max => by_size[by_size.len() - 1],
            Aggregation::Sum => sum,
            Aggregation::Count => count,
            Aggregation::Average => sum / count,
            Aggregation::Slope => {
                let ticks =
                    stretch.map_or(f64::NAN, |stretch| (stretch.end - stretch.start) as f64);
                (last - first) / (ticks / TICKS_PER_MILLISECOND as f64)
            }
            Aggregation::StandardDeviation => {
                let squares = by_size.iter().map(|value| (value - sum / count).powi(2));
                (squares.sum::<f64>() / (count - 1.0)).sqrt()
            }
            Aggregation::Percentile(percent) => {
                let place = percent / 100.0 * (count + 1.0);
                let value = |place: f64| by_size[(place.max(1.0).min(count) - 1.0) as usize];
                let part = place - place.floor();
                value(place.floor()) + part * (value(place.floor() + 1.0) - value(place.floor()))
            }
        }
    }

    fn are_same(left: &[Group], right: &[Group]) -> bool {
        let close = |left: &f64, right: &f64| {
            left.is_nan() && right.is_nan() || (left - right).abs() <= 1e-9 * left.abs().max(1.0)
        };
        left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| {
                (left.stretch, &left.key, left.width) == (right.stretch, &right.key, right.width)
                    && left
                        .results
                        .iter()
                        .zip(&right.results)
                        .all(|(left, right)| close(left, right))
            })
    }

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let entry = (
            0..90_i64,
            prop::sample::select(vec![&b"null"[..], b"null", b"\"a\"", b"\"b\""]),
            prop::collection::vec(-50..50_i32, 1..4),
        );
        prop::collection::vec(entry, 0..60).prop_map(|steps| {
            let mut moment = BEGIN;
            let entry = |(minutes, key, values): (i64, &'static [u8], Vec<i32>)| {
                // Mostly close together, sometimes far apart.
                moment += minutes * minutes / 20 * MINUTE;
                Entry { moment, key, values: values.into_iter().map(f64::from).collect() }
            };
            steps.into_iter().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn groups_are_those_that_one_would_write_down_by_hand(
            entries in entries(),
            length in prop::sample::select(vec![
                None, Some("1h"), Some("7h"), Some("90 min"), Some("1d"), Some("1 month"), Some("1q"),
            ]),
            segment_entries in 1_usize..12,
            percent in any::<bool>(),
            has_keys in any::<bool>(),
        ) {
            let entries: Vec<Entry> = match has_keys {
                true => entries,
                false => entries.into_iter().map(|entry| Entry { key: b"null", ..entry }).collect(),
            };
            let grouping = grouping(length, None, percent);
            let (found, filled) = groups(&grouping, &entries, segment_entries);
            let expected = naive(&grouping, &entries);
            prop_assert!(are_same(&found, &expected), "{found:#?}\n{expected:#?}");
            prop_assert_eq!(filled, 0);
        }

        #[test]
        fn interpolation_leaves_no_stretch_out(
            entries in entries(),
            kind in prop::sample::select(vec![
                Interpolation::Linear, Interpolation::Nearest, Interpolation::Last, Interpolation::Next,
            ]),
        ) {
            let grouping = grouping(Some("1h"), Some(kind), false);
            let plain = Grouping { interpolation: None, ..grouping.clone() };
            let (found, filled) = groups(&grouping, &entries, 1);
            let expected = naive(&plain, &entries);
            let place = grouping.aggregations.iter().position(|one| *one == Aggregation::Count);
            let count = |groups: &[Group]| -> f64 {
                groups.iter().map(|group| group.results_of(place.unwrap())[0]).sum()
            };
            prop_assert!((count(&found) - count(&expected) - filled as f64).abs() < 0.501);
            for key in [&b"null"[..], b"\"a\"", b"\"b\""] {
                let of_key = |groups: &[Group]| -> Vec<Group> {
                    groups.iter().filter(|group| *group.key == *key).cloned().collect()
                };
                let (found, real) = (of_key(&found), of_key(&expected));
                let follow = found.windows(2).all(|pair| {
                    pair[0].stretch.unwrap().end == pair[1].stretch.unwrap().start
                });
                prop_assert!(follow);
                let is_real = |group: &&Group| real.iter().any(|one| one.stretch == group.stretch);
                prop_assert!(are_same(&found.iter().filter(is_real).cloned().collect::<Vec<_>>(), &real));
                for made_up in found.iter().filter(|group| !is_real(group)) {
                    let at = made_up.stretch.unwrap().start;
                    let before = real.iter().rfind(|one| one.stretch.unwrap().start < at).unwrap();
                    let behind = real.iter().find(|one| at < one.stretch.unwrap().start).unwrap();
                    let (since, until) = (
                        at - before.stretch.unwrap().start,
                        behind.stretch.unwrap().start - at,
                    );
                    let expected = match kind {
                        Interpolation::Last => before.clone(),
                        Interpolation::Next => behind.clone(),
                        Interpolation::Nearest if until < since => behind.clone(),
                        Interpolation::Nearest => before.clone(),
                        Interpolation::Linear => {
                            let low = before.results[0].min(behind.results[0]);
                            let high = before.results[0].max(behind.results[0]);
                            prop_assert!((low - 1e-9..=high + 1e-9).contains(&made_up.results[0]));
                            made_up.clone()
                        }
                    };
                    prop_assert_eq!(&made_up.results, &expected.results);
                }
            }
        }
    }

    #[test]
    fn an_entry_at_the_end_of_the_range_is_a_group_of_its_own() {
        let grouping = Grouping { end: Some(BEGIN + MINUTE), ..grouping(None, None, false) };
        let entry = |moment| Entry { moment, key: b"null", values: vec![1.0] };
        let entries = [entry(BEGIN), entry(BEGIN + 1), entry(BEGIN + MINUTE)];
        for segment_entries in [1, 3] {
            let (found, _) = groups(&grouping, &entries, segment_entries);
            let counts: Vec<f64> = found.iter().map(|group| group.results_of(5)[0]).collect();
            assert_eq!(counts, [2.0, 1.0]);
        }
    }
}
