//! The interface through which queries read stored time series.

use std::ops::RangeInclusive;

use timeseries::{Entry, Summary};

use crate::error::QueryError;

/// Summary of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesFacts {
    /// The moment of the first entry, in milliseconds since the year 1.
    pub(crate) first_ms: i64,
    /// The moment of the last entry.
    pub(crate) last_ms: i64,
    /// The number of entries.
    pub(crate) count: u64,
}

/// Receives the entries of a series in order.
pub(crate) trait SeriesVisitor {
    /// Called with a segment that lies entirely in the range: its first and last moment, the number
    /// of its entries and the summary of their values by position. Returning `false` requests the
    /// entries.
    fn segment(
        &mut self,
        moments: (i64, i64),
        entries: u64,
        summaries: &[Summary],
    ) -> Result<bool, QueryError>;

    /// Called with an entry.
    fn entry(&mut self, entry: Entry<'_>, is_rollup: bool) -> Result<(), QueryError>;
}

/// The time series of documents, in one snapshot.
pub(crate) trait SeriesReader {
    /// The summary of a series; `None` when it does not exist.
    fn facts(&self, id: &str, name: &str) -> Result<Option<SeriesFacts>, QueryError>;

    /// Visits the entries between two moments, in milliseconds since the year 1, both included.
    fn visit(
        &self,
        id: &str,
        name: &str,
        range: RangeInclusive<i64>,
        visitor: &mut dyn SeriesVisitor,
    ) -> Result<(), QueryError>;
}
