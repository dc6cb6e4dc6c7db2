//! What the record of a database says of time series, for queries.

use std::sync::Arc;

use database::Database;
use query::SeriesSettings;
use wire::TimeSeriesConfiguration;

/// What a database says of its time series at one moment.
pub(crate) struct RecordedSeries(Option<Arc<TimeSeriesConfiguration>>);

impl RecordedSeries {
    pub(crate) fn of(database: &Database) -> Self {
        Self(database.time_series())
    }
}

impl SeriesSettings for RecordedSeries {
    fn value_names(&self, collection: &str, series: &str) -> Option<&[String]> {
        self.0.as_ref()?.value_names(collection, series)
    }
}
