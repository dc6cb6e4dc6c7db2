//! The time series settings in the record of a database, for queries and for writers of rollups.

use std::sync::Arc;

use database::{Database, frame_of};
use documents::time_series::RollupRight;
use model::{CollectionName, CollectionPolicies, TimeSeriesConfiguration, TimeSeriesName};
use query::{RollupPolicy, SeriesSettings};

/// The time series settings of a database at one moment.
pub struct RecordedSeries(Option<Arc<TimeSeriesConfiguration>>);

impl RecordedSeries {
    /// Those of the present record.
    pub fn of(database: &Database) -> Self {
        Self(database.time_series())
    }

    /// Whether a client may write a series with this name: if it is a rollup, only documents of
    /// collections that have the policy may have it.
    pub fn rollup_right(&self, name: &TimeSeriesName) -> RollupRight {
        let Some((_, policy)) = name.rollup_parts() else { return RollupRight::None };
        let has_policy = |of_collection: &&CollectionPolicies| {
            let policies = &of_collection.policies;
            policies.iter().any(|known| known.name.eq_ignore_ascii_case(policy))
        };
        let collections = self.0.iter().flat_map(|configuration| &configuration.collections);
        let names = collections.filter(has_policy).map(|found| found.collection.as_str());
        let names: Vec<_> = names.filter_map(|name| CollectionName::new(name).ok()).collect();
        match names.is_empty() {
            true => RollupRight::None,
            false => RollupRight::OfCollections(names),
        }
    }
}

impl SeriesSettings for RecordedSeries {
    fn value_names(&self, collection: &str, series: &str) -> Option<&[String]> {
        self.0.as_ref()?.value_names(collection, series)
    }

    fn rollups(&self, collection: &str) -> Vec<RollupPolicy> {
        let policies = self.0.as_ref().and_then(|known| known.policies_of(collection));
        let policies = policies.into_iter().flat_map(|known| &known.policies);
        policies
            .filter_map(|policy| {
                let frame = frame_of(policy.aggregation)?;
                Some(RollupPolicy { name: policy.name.clone(), frame })
            })
            .collect()
    }
}
