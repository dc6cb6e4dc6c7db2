//! What a database says of its time series, as far as queries need it.

use documents::time_series::Frame;

/// A policy that makes a rollup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupPolicy {
    /// The name, the last part of that of the rollup.
    pub name: String,
    /// What is made one entry.
    pub frame: Frame,
}

/// What a database says of its time series.
pub trait SeriesSettings {
    /// The names of the values by position, for a series of the documents of a collection.
    fn value_names(&self, collection: &str, series: &str) -> Option<&[String]>;

    /// The policies of a collection that make rollups, the finest first.
    fn rollups(&self, collection: &str) -> Vec<RollupPolicy>;
}

/// Nothing is said.
pub(crate) struct NoSettings;

impl SeriesSettings for NoSettings {
    fn value_names(&self, _: &str, _: &str) -> Option<&[String]> {
        None
    }

    fn rollups(&self, _: &str) -> Vec<RollupPolicy> {
        Vec::new()
    }
}
