//! The settings of a database for its time series, as far as queries need them.

use documents::time_series::Frame;

/// A policy that creates a rollup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupPolicy {
    /// The name, which is the last part of the rollup's name.
    pub name: String,
    /// The time that one entry summarizes.
    pub frame: Frame,
}

/// The settings of a database for its time series.
pub trait SeriesSettings {
    /// The names of the values by position, for a series of the documents of a collection.
    fn value_names(&self, collection: &str, series: &str) -> Option<&[String]>;

    /// The rollup policies of a collection, the finest first.
    fn rollups(&self, collection: &str) -> Vec<RollupPolicy>;
}

pub(crate) struct NoSettings;

impl SeriesSettings for NoSettings {
    fn value_names(&self, _: &str, _: &str) -> Option<&[String]> {
        None
    }

    fn rollups(&self, _: &str) -> Vec<RollupPolicy> {
        Vec::new()
    }
}
