//! The JSON of the indexes in a database record: those that applications define, and the automatic ones.

use std::collections::BTreeMap;

use model::{
    AutoIndexFieldShape, AutoIndexShape, AutoSpatialShape, FieldStorage, IndexDefinition,
    IndexPriority, IndexState, IndexType, JsonText, RecordedIndexes,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json_form::{self, Json, mirrored};

/// Reads the indexes from the JSON of a database record.
///
/// # Errors
/// serde's error, if the record holds something else there. It names line and column, so the record is read from
/// its text.
pub(crate) fn indexes_of_record(json: &[u8]) -> Result<RecordedIndexes, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = RecordedIndexesMirror::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// The JSON of an automatic index.
pub(crate) fn auto_index_json(shape: &AutoIndexShape) -> Value {
    serde_json::to_value(Json(shape)).expect("its keys are texts and nothing in it can fail")
}

mirrored!(
    AutoIndexShape => AutoIndexMirror,
    AutoIndexFieldShape => AutoIndexFieldMirror,
    AutoSpatialShape => AutoSpatialMirror,
);

#[derive(Deserialize)]
#[serde(remote = "RecordedIndexes", rename_all = "PascalCase", default = "Default::default")]
struct RecordedIndexesMirror {
    #[serde(deserialize_with = "json_form::nullable_map::deserialize")]
    indexes: BTreeMap<String, IndexDefinition>,
    #[serde(deserialize_with = "json_form::nullable_map::deserialize")]
    auto_indexes: BTreeMap<String, AutoIndexShape>,
    #[serde(deserialize_with = "json_form::or_default")]
    index_numbers: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AutoIndexShape", rename_all = "PascalCase", default = "Default::default")]
struct AutoIndexMirror {
    #[serde(with = "json_form::option")]
    cluster_state: Option<JsonText>,
    #[serde(rename = "Type", with = "json_form::value")]
    index_type: IndexType,
    collection: String,
    #[serde(with = "json_form::map")]
    map_fields: BTreeMap<String, AutoIndexFieldShape>,
    #[serde(with = "json_form::map")]
    group_by_fields: BTreeMap<String, AutoIndexFieldShape>,
    name: String,
    #[serde(with = "json_form::value")]
    priority: IndexPriority,
    #[serde(with = "json_form::option")]
    state: Option<IndexState>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AutoIndexFieldShape", rename_all = "PascalCase", default = "Default::default")]
struct AutoIndexFieldMirror {
    #[serde(with = "json_form::value")]
    storage: FieldStorage,
    indexing: String,
    aggregation: String,
    #[serde(with = "json_form::option")]
    spatial: Option<AutoSpatialShape>,
    group_by_array_behavior: String,
    suggestions: bool,
    is_name_quoted: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AutoSpatialShape", rename_all = "PascalCase", default = "Default::default")]
struct AutoSpatialMirror {
    method_type: String,
    method_arguments: Vec<String>,
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
        assert_eq!(auto_index_json(&shape), expected);
        let record = json!({"DatabaseName": "x", "AutoIndexes": {"Auto/T/BySearch(B)": expected}});
        let read = indexes_of_record(record.to_string().as_bytes()).unwrap();
        assert_eq!(
            read.auto_indexes["Auto/T/BySearch(B)"].map_fields["B"].indexing,
            "Search, Default"
        );
        assert!(read.indexes.is_empty());
    }

    #[test]
    fn sections_that_a_client_sends_as_null_hold_nothing() {
        let record = br#"{"DatabaseName":"x","Indexes":null,"AutoIndexes":null}"#;
        let read = indexes_of_record(record).unwrap();
        assert!(read.indexes.is_empty() && read.auto_indexes.is_empty());
    }
}
