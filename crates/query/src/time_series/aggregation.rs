//! Aggregations of the values of a group, position by position.

use timeseries::Summary;

use crate::error::QueryError;

/// Maximum number of values that a group keeps for percentiles.
const VALUES_KEPT_MAX: usize = 1 << 24;

/// Number of values in a rollup entry for one position of the entries that it summarizes.
const ROLLUP_VALUES: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aggregation {
    First,
    Last,
    Min,
    Max,
    Sum,
    Count,
    Average,
    /// The difference between the last and the first value, divided by the group's length in
    /// milliseconds.
    Slope,
    StandardDeviation,
    Percentile(f64),
}

/// What a group without `select` returns, in this order.
pub(crate) const ALL: [Aggregation; 7] = [
    Aggregation::First,
    Aggregation::Last,
    Aggregation::Min,
    Aggregation::Max,
    Aggregation::Sum,
    Aggregation::Count,
    Aggregation::Average,
];

impl Aggregation {
    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Aggregation::First => "First",
            Aggregation::Last => "Last",
            Aggregation::Min => "Min",
            Aggregation::Max => "Max",
            Aggregation::Sum => "Sum",
            Aggregation::Count => "Count",
            Aggregation::Average => "Average",
            Aggregation::Slope => "Slope",
            Aggregation::StandardDeviation => "StandardDeviation",
            Aggregation::Percentile(_) => "Percentile",
        }
    }

    /// Whether it needs the values themselves: the summary of a whole segment, or of the entries of
    /// a rollup, is not enough.
    pub(crate) fn needs_values(self) -> bool {
        matches!(self, Aggregation::StandardDeviation | Aggregation::Percentile(_))
    }
}

/// Which details a group keeps besides its summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) deviations: bool,
    pub(crate) values: bool,
}

impl Details {
    pub(crate) fn of(aggregations: impl Iterator<Item = Aggregation>) -> Details {
        let mut details = Details::default();
        for aggregation in aggregations {
            details.deviations |= aggregation == Aggregation::StandardDeviation;
            details.values |= matches!(aggregation, Aggregation::Percentile(_));
        }
        details
    }

    fn are_none(self) -> bool {
        self == Details::default()
    }
}

/// Running mean and sum of squared distances from it (Welford 1962).
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    mean: f64,
    squares: f64,
}

/// A group while its entries are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupState {
    positions: Vec<Summary>,
    deviations: Vec<Deviation>,
    values: Vec<Vec<f64>>,
    values_kept: usize,
}

impl GroupState {
    /// The number of values of the widest entry.
    pub(crate) fn width(&self) -> usize {
        self.positions.len()
    }

    /// Adds the values of one entry, each at its position.
    pub(crate) fn add(&mut self, values: &[f64], details: Details) -> Result<(), QueryError> {
        let known = self.positions.len();
        for (summary, value) in self.positions.iter_mut().zip(values) {
            summary.add(*value);
        }
        if known < values.len() {
            self.positions.extend(values[known..].iter().map(|value| Summary::of(*value)));
        }
        if details.are_none() {
            return Ok(());
        }
        self.keep(values, details)
    }

    fn keep(&mut self, values: &[f64], details: Details) -> Result<(), QueryError> {
        let width = self.positions.len();
        if details.deviations {
            self.deviations.resize(width, Deviation::default());
            let known = self.deviations.iter_mut().zip(&self.positions).zip(values);
            for ((deviation, summary), value) in known {
                let distance = value - deviation.mean;
                deviation.mean += distance / summary.count as f64;
                deviation.squares += distance * (value - deviation.mean);
            }
        }
        if details.values {
            self.values.resize(width, Vec::new());
            for (kept, value) in self.values.iter_mut().zip(values) {
                kept.push(*value);
            }
            self.values_kept += values.len();
            if VALUES_KEPT_MAX < self.values_kept {
                let message = format!(
                    "percentile() is limited to groups of at most {VALUES_KEPT_MAX} values; \
                     group by a shorter time"
                );
                return Err(QueryError::InvalidOperation { message });
            }
        }
        Ok(())
    }

    /// Adds the summary of several entries, position by position.
    pub(crate) fn add_summaries(&mut self, summaries: impl Iterator<Item = Summary>) {
        for (position, summary) in summaries.enumerate() {
            match self.positions.get_mut(position) {
                Some(known) => known.merge(&summary),
                None => self.positions.push(summary),
            }
        }
    }

    /// Adds an entry of a rollup, which has first, last, minimum, maximum, sum and count of the
    /// values at each position of the entries that it summarizes.
    pub(crate) fn add_rollup(&mut self, values: &[f64]) {
        self.add_summaries(values.chunks_exact(ROLLUP_VALUES).map(|known| Summary {
            first: known[0],
            last: known[1],
            min: known[2],
            max: known[3],
            sum: known[4],
            count: known[5].max(0.0) as u64,
        }));
    }

    /// The result of an aggregation at each position, for a group that spans this many
    /// milliseconds.
    pub(crate) fn finish(
        &mut self,
        aggregation: Aggregation,
        milliseconds: f64,
        out: &mut Vec<f64>,
    ) {
        if let Aggregation::Percentile(_) = aggregation {
            self.values.iter_mut().for_each(|values| values.sort_unstable_by(f64::total_cmp));
        }
        for (position, summary) in self.positions.iter().enumerate() {
            out.push(match aggregation {
                Aggregation::First => summary.first,
                Aggregation::Last => summary.last,
                Aggregation::Min => summary.min,
                Aggregation::Max => summary.max,
                Aggregation::Sum => summary.sum,
                Aggregation::Count => summary.count as f64,
                Aggregation::Average => summary.sum / summary.count as f64,
                Aggregation::Slope => (summary.last - summary.first) / milliseconds,
                Aggregation::StandardDeviation => {
                    let squares = self.deviations.get(position).map_or(0.0, |known| known.squares);
                    (squares / (summary.count as f64 - 1.0)).sqrt()
                }
                Aggregation::Percentile(percent) => {
                    let values = self.values.get(position).map_or(&[][..], Vec::as_slice);
                    percentile(values, percent)
                }
            });
        }
    }
}

/// The value below which `percent` of the sorted values lie; interpolated between two values.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = percent / 100.0 * (sorted.len() as f64 + 1.0);
    let below = rank.floor();
    let index = below as usize;
    match (sorted.first(), sorted.last()) {
        (Some(first), _) if index < 1 => *first,
        (_, Some(last)) if sorted.len() <= index => *last,
        (None, _) | (_, None) => f64::NAN,
        _ => sorted[index - 1] + (rank - below) * (sorted[index] - sorted[index - 1]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(entries: &[&[f64]], aggregations: &[Aggregation]) -> Vec<Vec<f64>> {
        let details = Details::of(aggregations.iter().copied());
        let mut state = GroupState::default();
        entries.iter().for_each(|values| state.add(values, details).unwrap());
        let result = |aggregation: &Aggregation| {
            let mut out = Vec::new();
            state.finish(*aggregation, 43_200_000.0, &mut out);
            out
        };
        aggregations.iter().map(result).collect()
    }

    /// What the real server returned.
    #[test]
    fn aggregations_of_a_group() {
        let entries: [&[f64]; 4] = [&[1.0, 10.0], &[6.0, 20.0], &[8.0, 22.0], &[0.0, 0.0]];
        for (aggregation, expected) in [
            (Aggregation::First, [1.0, 10.0]),
            (Aggregation::Last, [0.0, 0.0]),
            (Aggregation::Min, [0.0, 0.0]),
            (Aggregation::Max, [8.0, 22.0]),
            (Aggregation::Sum, [15.0, 52.0]),
            (Aggregation::Count, [4.0, 4.0]),
            (Aggregation::Average, [3.75, 13.0]),
            (Aggregation::Slope, [-2.3148148148148148e-08, -2.3148148148148148e-07]),
            (Aggregation::StandardDeviation, [3.8622100754188224, 10.132456102380443]),
            (Aggregation::Percentile(10.0), [0.0, 0.0]),
            (Aggregation::Percentile(25.0), [0.25, 2.5]),
            (Aggregation::Percentile(50.0), [3.5, 15.0]),
            (Aggregation::Percentile(75.0), [7.5, 21.5]),
            (Aggregation::Percentile(90.0), [8.0, 22.0]),
            (Aggregation::Percentile(100.0), [8.0, 22.0]),
        ] {
            assert_eq!(results(&entries, &[aggregation]), [expected], "{aggregation:?}");
        }
    }

    #[test]
    fn entries_may_have_different_numbers_of_values() {
        let entries: [&[f64]; 3] = [&[1.0], &[2.0, 5.0, 7.0], &[3.0, 6.0]];
        assert_eq!(
            results(&entries, &[Aggregation::Count, Aggregation::First, Aggregation::Average]),
            [vec![3.0, 2.0, 1.0], vec![1.0, 5.0, 7.0], vec![2.0, 5.5, 7.0]]
        );
        let alone = results(&entries[..1], &[Aggregation::StandardDeviation]);
        assert!(alone[0][0].is_nan());
    }

    #[test]
    fn a_rollup_stands_for_the_entries_behind_it() {
        let mut state = GroupState::default();
        state.add_rollup(&[1.0, 3.0, 1.0, 4.0, 8.0, 3.0, 10.0, 10.0, 10.0, 10.0, 20.0, 2.0]);
        state.add(&[9.0], Details::default()).unwrap();
        let mut out = Vec::new();
        for aggregation in ALL {
            state.finish(aggregation, 1.0, &mut out);
        }
        let expected = [
            [1.0, 10.0],
            [9.0, 10.0],
            [1.0, 10.0],
            [9.0, 10.0],
            [17.0, 20.0],
            [4.0, 2.0],
            [4.25, 10.0],
        ];
        assert_eq!(out, expected.concat());
    }
}
