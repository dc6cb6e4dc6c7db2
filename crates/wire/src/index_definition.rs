//! The JSON of index definitions, as sent by clients, shown by the server, and stored in database records and in the
//! files of indexes.
//!
//! Clients omit properties or send `null` for defaults. Enumeration names are case-insensitive.

use std::collections::BTreeMap;

use model::{
    ArchivedDataProcessingBehavior, FieldIndexing, FieldStorage, IndexDefinition,
    IndexFieldOptions, IndexLockMode, IndexPriority, IndexSourceType, IndexState, IndexType,
    JsonText, SpatialOptions, TermVector,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    json_form::{self, Json, mirrored, named, or_default},
};

/// Reads a definition that a client sent.
///
/// # Errors
/// [`ErrorKind::InvalidData`] with serde's message if it is not a definition.
pub fn read_index_definition(sent: Value) -> Result<IndexDefinition, ProtocolError> {
    let read: Result<Json<IndexDefinition>, _> = serde_json::from_value(sent);
    read.map(|Json(definition)| definition)
        .map_err(|error| ProtocolError::new(ErrorKind::InvalidData, error.to_string()))
}

/// The JSON of a definition.
pub fn index_definition_json(definition: &IndexDefinition) -> Value {
    serde_json::to_value(Json(definition)).expect("its keys are texts and nothing in it can fail")
}

/// The JSON of a definition as text, for storage.
pub fn index_definition_text(definition: &IndexDefinition) -> String {
    serde_json::to_string(&Json(definition)).expect("its keys are texts and nothing in it can fail")
}

/// Reads the text written by [`index_definition_text`]; `None` if it is not a definition.
pub fn index_definition_of_text(text: &str) -> Option<IndexDefinition> {
    serde_json::from_str(text).ok().map(|Json(definition)| definition)
}

named!(
    ArchivedDataProcessingBehavior,
    FieldIndexing,
    FieldStorage,
    IndexLockMode,
    IndexPriority,
    IndexSourceType,
    IndexState,
    IndexType,
    TermVector,
);

mirrored!(IndexDefinition => DefinitionMirror, IndexFieldOptions => FieldOptionsMirror);

#[derive(Serialize, Deserialize)]
#[serde(remote = "IndexFieldOptions", rename_all = "PascalCase", default = "Default::default")]
struct FieldOptionsMirror {
    analyzer: Option<String>,
    #[serde(with = "json_form::option")]
    indexing: Option<FieldIndexing>,
    #[serde(with = "json_form::option")]
    storage: Option<FieldStorage>,
    suggestions: Option<bool>,
    #[serde(with = "json_form::option")]
    term_vector: Option<TermVector>,
    #[serde(with = "json_form::option")]
    spatial: Option<SpatialOptions>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "IndexDefinition", rename_all = "PascalCase", default = "Default::default")]
struct DefinitionMirror {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(with = "json_form::option")]
    source_type: Option<IndexSourceType>,
    #[serde(rename = "Type", with = "json_form::option")]
    index_type: Option<IndexType>,
    #[serde(with = "json_form::option")]
    lock_mode: Option<IndexLockMode>,
    #[serde(with = "json_form::option")]
    priority: Option<IndexPriority>,
    #[serde(with = "json_form::option")]
    state: Option<IndexState>,
    #[serde(with = "json_form::option", skip_serializing_if = "Option::is_none")]
    archived_data_processing_behavior: Option<ArchivedDataProcessingBehavior>,
    output_reduce_to_collection: Option<String>,
    #[serde(with = "json_form::option")]
    deployment_mode: Option<JsonText>,
    reduce_output_index: Option<i64>,
    pattern_for_output_reduce_to_collection_references: Option<String>,
    pattern_references_collection_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    configuration: BTreeMap<String, Option<String>>,
    #[serde(deserialize_with = "or_default")]
    additional_sources: BTreeMap<String, String>,
    #[serde(with = "json_form::list")]
    additional_assemblies: Vec<JsonText>,
    reduce: Option<String>,
    #[serde(deserialize_with = "or_default")]
    maps: Vec<String>,
    #[serde(with = "json_form::nullable_map")]
    fields: BTreeMap<String, IndexFieldOptions>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_or_null_is_the_default() {
        let sent = json!({
            "Name": "Users/ByName", "Maps": ["from u in docs.Users select new { u.Name }"],
            "Fields": {"Name": {"Indexing": "search", "Storage": "YES", "Analyzer": null}},
            "Configuration": null, "Reduce": null, "IndexType": "Map", "Priority": null,
        });
        let definition = read_index_definition(sent).unwrap();
        let field = &definition.fields["Name"];
        assert_eq!(field.indexing, Some(FieldIndexing::Search));
        assert_eq!(field.storage, Some(FieldStorage::Yes));
        assert_eq!((field.analyzer.as_deref(), definition.priority), (None, None));
        assert!(definition.configuration.is_empty());
        let shown = index_definition_json(&definition.with_defaults());
        assert_eq!(shown["Priority"], "Normal");
        assert_eq!(shown["Fields"]["Name"]["Indexing"], "Search");
        assert_eq!(shown["Fields"]["Name"]["Spatial"], Value::Null);
    }

    #[test]
    fn an_unknown_name_of_an_enumeration_is_reported() {
        let sent = json!({"Name": "x", "Fields": {"A": {"Indexing": "Highlighting"}}});
        let error = read_index_definition(sent).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidData);
        assert!(error.message.contains("Could not convert 'Highlighting' to FieldIndexing"));
    }

    /// This text is stored in the files of indexes, which are rebuilt if it changes.
    #[test]
    fn the_stored_text_keeps_every_property_in_its_place() {
        let stored = concat!(
            r#"{"Name":"A","SourceType":null,"Type":"MapReduce","LockMode":null,"Priority":null,"#,
            r#""State":null,"ArchivedDataProcessingBehavior":"ArchivedOnly","#,
            r#""OutputReduceToCollection":"C","DeploymentMode":{"b":1.0,"a":[null,"é"]},"#,
            r#""ReduceOutputIndex":7,"PatternForOutputReduceToCollectionReferences":null,"#,
            r#""PatternReferencesCollectionName":null,"Configuration":{"x":null,"y":"1"},"#,
            r#""AdditionalSources":{"s":"t"},"AdditionalAssemblies":[{"z":1,"y":2},"w"],"#,
            r#""Reduce":"r","Maps":["m"],"Fields":{"__all_fields":{"Analyzer":null,"Indexing":"No","#,
            r#""Storage":null,"Suggestions":true,"TermVector":"WithOffsets","Spatial":null}}}"#
        );
        let definition = index_definition_of_text(stored).unwrap();
        assert_eq!(index_definition_text(&definition), stored);
        assert_eq!(index_definition_json(&definition).to_string(), stored);
        assert_eq!(index_definition_of_text("auto x"), None);
    }
}
