//! What queries read of stored time series.

use std::ops::RangeInclusive;

use timeseries::{Entry, Summary};

use crate::error::QueryError;

/// What is known of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesFacts {
    /// The moment of the first entry, in milliseconds since the year 1.
    pub(crate) first_ms: i64,
    /// That of the last one.
    pub(crate) last_ms: i64,
    /// How many entries there are.
    pub(crate) count: u64,
}

/// Takes the entries of a series in their order.
pub(crate) trait SeriesVisitor {
    /// Shown a segment whose entries all lie in the range: its first and last moment, the number of its
    /// entries and what is known of their values by position. `false` asks for the entries.
    fn segment(
        &mut self,
        moments: (i64, i64),
        entries: u64,
        summaries: &[Summary],
    ) -> Result<bool, QueryError>;

    /// Shown an entry.
    fn entry(&mut self, entry: Entry<'_>, is_rollup: bool) -> Result<(), QueryError>;
}

/// The time series of documents, at one moment.
pub(crate) trait SeriesReader {
    /// What is known of a series; `None` when there is no such one.
    fn facts(&self, id: &str, name: &str) -> Result<Option<SeriesFacts>, QueryError>;

    /// Shows the entries from a moment to another, in milliseconds since the year 1.
    fn visit(
        &self,
        id: &str,
        name: &str,
        range: RangeInclusive<i64>,
        visitor: &mut dyn SeriesVisitor,
    ) -> Result<(), QueryError>;
}
