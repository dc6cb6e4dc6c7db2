//! The configuration of the time series of a database: policies, and names of values.

use std::collections::HashMap;

use crate::CollectionPolicies;

/// The property of a database record that holds the configuration.
pub const TIME_SERIES_PROPERTY: &str = "TimeSeries";

/// The policies of the time series of a database, and the names of their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesConfiguration {
    /// Collections that have enabled policies.
    pub collections: Vec<CollectionPolicies>,
    /// Seconds between two runs; at least 1.
    pub check_seconds: u64,
    /// The names of the values by collection and series, both in lower case.
    value_names: HashMap<String, HashMap<String, Vec<String>>>,
}

impl TimeSeriesConfiguration {
    /// From its parts. `value_names` are the names of the values by collection and series, both in lower case.
    pub fn new(
        collections: Vec<CollectionPolicies>,
        check_seconds: u64,
        value_names: HashMap<String, HashMap<String, Vec<String>>>,
    ) -> Self {
        Self { collections, check_seconds, value_names }
    }

    /// The names of the values of a series in a collection, by position.
    pub fn value_names(&self, collection: &str, series: &str) -> Option<&[String]> {
        let of_collection = self.value_names.get(&collection.to_lowercase())?;
        of_collection.get(&series.to_lowercase()).map(Vec::as_slice)
    }

    /// The policies of a collection.
    pub fn policies_of(&self, collection: &str) -> Option<&CollectionPolicies> {
        let is_named = |policies: &&CollectionPolicies| {
            policies.collection.to_lowercase() == collection.to_lowercase()
        };
        self.collections.iter().find(is_named)
    }
}
