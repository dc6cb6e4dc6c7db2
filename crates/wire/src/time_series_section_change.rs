//! Changes of a part of the time series configuration in a database's record.

use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    stored_section::{SectionKind, StoredSection},
    time_series_configuration::{with_policy, with_value_names, without_policy},
};

/// A change of a part of the time series configuration. Whether it is possible depends on the rest.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeSeriesSectionChange {
    /// Adds a policy, or replaces the one of its name.
    PutPolicy {
        /// The collection.
        collection: String,
        /// The policy, as sent by the client.
        policy: Map<String, Value>,
    },
    /// Removes a policy.
    RemovePolicy {
        /// The collection.
        collection: String,
        /// The name of the policy.
        name: String,
    },
    /// Names the values of a series; the request of the client names the series.
    NameValues(Map<String, Value>),
}

impl TimeSeriesSectionChange {
    /// The section after the change; `None` if it changes nothing. `stored` is the section before it.
    ///
    /// # Errors
    /// The request is incomplete; the section would be invalid; the values have other names.
    pub fn apply(&self, stored: Option<&Value>) -> Result<Option<StoredSection>, ProtocolError> {
        let changed = match self {
            TimeSeriesSectionChange::PutPolicy { collection, policy } => {
                Some(with_policy(stored, collection, policy)?)
            }
            TimeSeriesSectionChange::RemovePolicy { collection, name } => {
                without_policy(stored, collection, name)?
            }
            TimeSeriesSectionChange::NameValues(sent) => with_value_names(stored, sent)?,
        };
        Ok(changed.map(|json| StoredSection::new(SectionKind::TimeSeries, json)))
    }
}
