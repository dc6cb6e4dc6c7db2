//! The definition of an automatic index, as stored and shown in the database record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::index_definition::{
    FieldStorage, IndexDefinition, IndexPriority, IndexState, IndexType, or_default,
};

/// An automatic index.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutoIndexShape {
    /// The state per node in a database group. There are no groups yet, so this stays empty.
    pub cluster_state: Option<Value>,
    /// `AutoMap` or `AutoMapReduce`.
    #[serde(rename = "Type")]
    pub index_type: IndexType,
    /// The indexed collection.
    pub collection: String,
    /// Its fields by name.
    pub map_fields: BTreeMap<String, AutoIndexFieldShape>,
    /// The fields that it groups by.
    pub group_by_fields: BTreeMap<String, AutoIndexFieldShape>,
    /// Its name.
    pub name: String,
    /// Normal unless changed.
    pub priority: IndexPriority,
    /// `null` unless changed.
    pub state: Option<IndexState>,
}

/// A field of an automatic index.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutoIndexFieldShape {
    /// Whether values are stored: no.
    pub storage: FieldStorage,
    /// How values are indexed: `Default`, or a list such as `Search, Exact, Default`.
    pub indexing: String,
    /// How a group aggregates the values.
    pub aggregation: String,
    /// For spatial fields.
    pub spatial: Option<AutoSpatialShape>,
    /// Whether an array is grouped as a whole or by its elements.
    pub group_by_array_behavior: String,
    /// Whether queries may request suggestions.
    pub suggestions: bool,
    /// Whether queries quote the name.
    pub is_name_quoted: bool,
}

/// Where a document holds the value of a spatial field.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutoSpatialShape {
    /// `Point` or `Wkt`.
    pub method_type: String,
    /// The paths of the values.
    pub method_arguments: Vec<String>,
}

impl Default for AutoIndexShape {
    fn default() -> Self {
        Self {
            cluster_state: None,
            index_type: IndexType::AutoMap,
            collection: String::new(),
            map_fields: BTreeMap::new(),
            group_by_fields: BTreeMap::new(),
            name: String::new(),
            priority: IndexPriority::Normal,
            state: None,
        }
    }
}

impl Default for AutoIndexFieldShape {
    fn default() -> Self {
        Self {
            storage: FieldStorage::No,
            indexing: "Default".to_owned(),
            aggregation: "None".to_owned(),
            spatial: None,
            group_by_array_behavior: "NotApplicable".to_owned(),
            suggestions: false,
            is_name_quoted: false,
        }
    }
}

/// The indexes in a database record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RecordedIndexes {
    /// Indexes defined by applications, by name.
    #[serde(deserialize_with = "or_default")]
    pub indexes: BTreeMap<String, IndexDefinition>,
    /// Automatic indexes, by name.
    #[serde(deserialize_with = "or_default")]
    pub auto_indexes: BTreeMap<String, AutoIndexShape>,
}

impl RecordedIndexes {
    /// Reads them from the JSON of a database record.
    ///
    /// # Errors
    ///
    /// serde's error, if the record holds something else there.
    pub fn of_record(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_automatic_index_is_shown_as_clients_know_it() {
        let field =
            AutoIndexFieldShape { indexing: "Search, Default".to_owned(), ..Default::default() };
        let shape = AutoIndexShape {
            collection: "T".to_owned(),
            map_fields: [("B".to_owned(), field)].into(),
            name: "Auto/T/BySearch(B)".to_owned(),
            ..Default::default()
        };
        let expected = json!({
            "ClusterState": null, "Type": "AutoMap", "Collection": "T",
            "MapFields": {"B": {
                "Storage": "No", "Indexing": "Search, Default", "Aggregation": "None",
                "Spatial": null, "GroupByArrayBehavior": "NotApplicable", "Suggestions": false,
                "IsNameQuoted": false,
            }},
            "GroupByFields": {}, "Name": "Auto/T/BySearch(B)", "Priority": "Normal", "State": null,
        });
        assert_eq!(serde_json::to_value(&shape).unwrap(), expected);
        let record = json!({"DatabaseName": "x", "AutoIndexes": {"Auto/T/BySearch(B)": expected}});
        let read = RecordedIndexes::of_record(record.to_string().as_bytes()).unwrap();
        assert_eq!(
            read.auto_indexes["Auto/T/BySearch(B)"].map_fields["B"].indexing,
            "Search, Default"
        );
        assert!(read.indexes.is_empty());
    }

    #[test]
    fn sections_that_a_client_sends_as_null_hold_nothing() {
        let record = br#"{"DatabaseName":"x","Indexes":null,"AutoIndexes":null}"#;
        let read = RecordedIndexes::of_record(record).unwrap();
        assert!(read.indexes.is_empty() && read.auto_indexes.is_empty());
    }
}
