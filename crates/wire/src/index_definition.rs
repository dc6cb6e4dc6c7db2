//! The definition of an index, as sent by clients, shown by the server, and stored in the database record.
//!
//! Clients omit properties or send `null` for defaults. Enumeration names are case-insensitive.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::spatial_options::SpatialOptions;

/// The key of [`IndexDefinition::fields`] whose options apply to every field.
pub const ALL_FIELDS: &str = "__all_fields";

/// Defines an enumeration of the protocol with its names, parser and printer.
macro_rules! protocol_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$variant_about:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name { $($(#[$variant_about])* $variant),+ }

        impl $name {
            /// The value with this name, in any case.
            pub fn named(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case(stringify!($variant)) { return Some(Self::$variant); })+
                None
            }

            /// Its name in the protocol.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::named(&text).ok_or_else(|| {
                    de::Error::custom(format_args!(
                        concat!("Could not convert '{}' to ", stringify!($name)), text
                    ))
                })
            }
        }
    };
}

pub(crate) use protocol_enum;

protocol_enum! {
    /// How the values of a field become terms.
    FieldIndexing {
        /// Not indexed.
        No,
        /// Analysed into words.
        Search,
        /// As one term, unchanged.
        Exact,
        /// As one term, in lower case.
        Default,
    }
}

protocol_enum! {
    /// Whether an index stores the values of a field.
    FieldStorage {
        /// Stored.
        Yes,
        /// Not stored.
        No,
    }
}

protocol_enum! {
    /// Which term vectors an index stores for a field.
    TermVector {
        /// None.
        No,
        /// The terms of each entry.
        Yes,
        /// The terms with their positions.
        WithPositions,
        /// The terms with their offsets in the text.
        WithOffsets,
        /// The terms with both.
        WithPositionsAndOffsets,
    }
}

protocol_enum! {
    /// Whether a definition can be changed.
    IndexLockMode {
        /// It can.
        Unlock,
        /// Changes are silently ignored.
        LockedIgnore,
        /// Changes are refused with an error.
        LockedError,
    }
}

protocol_enum! {
    /// How an index treats archived documents.
    ArchivedDataProcessingBehavior {
        /// They are not indexed: the default.
        ExcludeArchived,
        /// They are indexed like others.
        IncludeArchived,
        /// Only they are indexed.
        ArchivedOnly,
    }
}

protocol_enum! {
    /// The share of the machine that an index takes under load.
    IndexPriority {
        /// Less than requests.
        Low,
        /// The default: less than requests.
        Normal,
        /// As much as requests.
        High,
    }
}

protocol_enum! {
    /// The state of an index.
    IndexState {
        /// It follows the documents.
        Normal,
        /// It is disabled.
        Disabled,
        /// An automatic index that has not been queried for a long time.
        Idle,
        /// Too many of its documents failed, or its files are damaged.
        Error,
    }
}

protocol_enum! {
    /// The type of an index.
    IndexType {
        /// Not determined yet.
        None,
        /// Created for queries.
        AutoMap,
        /// Created for queries with `group by`.
        AutoMapReduce,
        /// A map in C#.
        Map,
        /// A map and a reduce in C#.
        MapReduce,
        /// It cannot be opened.
        Faulty,
        /// A map in JavaScript.
        JavaScriptMap,
        /// A map and a reduce in JavaScript.
        JavaScriptMapReduce,
    }
}

protocol_enum! {
    /// What an index reads.
    IndexSourceType {
        /// Not determined yet.
        None,
        /// Documents.
        Documents,
        /// Time series.
        TimeSeries,
        /// Counters.
        Counters,
    }
}

/// How one field is indexed. Missing options are taken from [`ALL_FIELDS`], then from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IndexFieldOptions {
    /// The name of its analyzer.
    pub analyzer: Option<String>,
    /// How values become terms.
    pub indexing: Option<FieldIndexing>,
    /// Whether values are stored.
    pub storage: Option<FieldStorage>,
    /// Whether queries may request suggestions.
    pub suggestions: Option<bool>,
    /// The term vectors stored for highlighting.
    pub term_vector: Option<TermVector>,
    /// For spatial fields.
    pub spatial: Option<SpatialOptions>,
}

/// The definition of an index by an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IndexDefinition {
    /// Unique among the indexes of a database, in any case.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// What it reads; determined by the server.
    pub source_type: Option<IndexSourceType>,
    /// Its type; determined by the server.
    #[serde(rename = "Type")]
    pub index_type: Option<IndexType>,
    /// Unlocked by default.
    pub lock_mode: Option<IndexLockMode>,
    /// Normal by default.
    pub priority: Option<IndexPriority>,
    /// Normal by default.
    pub state: Option<IndexState>,
    /// How it treats archived documents. Not shown to clients older than archiving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_data_processing_behavior: Option<ArchivedDataProcessingBehavior>,
    /// The collection to which results of the reduce are written.
    pub output_reduce_to_collection: Option<String>,
    /// How the nodes of a database group deploy it; stored and shown only.
    pub deployment_mode: Option<Value>,
    /// The index of the change that created the output collection.
    pub reduce_output_index: Option<i64>,
    /// The id pattern of documents that refer to the output.
    pub pattern_for_output_reduce_to_collection_references: Option<String>,
    /// The collection of those documents.
    pub pattern_references_collection_name: Option<String>,
    /// Settings of this index.
    #[serde(deserialize_with = "or_default")]
    pub configuration: BTreeMap<String, Option<String>>,
    /// Code used by maps and reduce, by name.
    #[serde(deserialize_with = "or_default")]
    pub additional_sources: BTreeMap<String, String>,
    /// .NET libraries; stored, but the index is refused if there are any.
    #[serde(deserialize_with = "or_default")]
    pub additional_assemblies: Vec<Value>,
    /// The text of the reduce.
    pub reduce: Option<String>,
    /// The texts of the maps.
    #[serde(deserialize_with = "or_default")]
    pub maps: Vec<String>,
    /// Options by field, and those of [`ALL_FIELDS`].
    #[serde(deserialize_with = "or_default")]
    pub fields: BTreeMap<String, IndexFieldOptions>,
}

/// Reads `null` as the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl IndexDefinition {
    /// The definition in the protocol's shape: enumerations have their values, not `null`.
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        shown.source_type = Some(self.source_type.unwrap_or(IndexSourceType::Documents));
        shown.index_type = Some(self.index_type.unwrap_or(IndexType::Map));
        shown.lock_mode = Some(self.lock_mode.unwrap_or(IndexLockMode::Unlock));
        shown.priority = Some(self.priority.unwrap_or(IndexPriority::Normal));
        shown.state = Some(self.state.unwrap_or(IndexState::Normal));
        shown
    }

    /// Whether entries made for `other` are valid for this definition too: the two differ only in properties
    /// that do not affect entries (lock, priority, state).
    pub fn has_the_same_entries_as(&self, other: &Self) -> bool {
        self.maps == other.maps
            && self.reduce == other.reduce
            && self.fields == other.fields
            && self.archived_documents() == other.archived_documents()
            && self.configuration == other.configuration
            && self.additional_sources == other.additional_sources
            && self.additional_assemblies == other.additional_assemblies
            && self.output_reduce_to_collection == other.output_reduce_to_collection
            && self.pattern_for_output_reduce_to_collection_references
                == other.pattern_for_output_reduce_to_collection_references
            && self.pattern_references_collection_name == other.pattern_references_collection_name
    }

    /// How it treats archived documents.
    pub fn archived_documents(&self) -> ArchivedDataProcessingBehavior {
        self.archived_data_processing_behavior
            .unwrap_or(ArchivedDataProcessingBehavior::ExcludeArchived)
    }

    /// The search engine it requests, which clients display. There is only one engine, whatever is requested.
    pub fn search_engine(&self) -> &'static str {
        let asked = self.configuration.get("Indexing.Static.SearchEngineType");
        let asked = asked.and_then(Option::as_deref);
        match asked.is_some_and(|asked| asked.eq_ignore_ascii_case("corax")) {
            true => "Corax",
            false => "Lucene",
        }
    }

    /// Whether results of its reduce are written as documents.
    pub fn has_output(&self) -> bool {
        let collection = self.output_reduce_to_collection.as_deref().unwrap_or_default();
        self.reduce.is_some() && !collection.trim().is_empty()
    }

    /// The definition as JSON text, for storage.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("its keys are texts and nothing in it can fail")
    }

    /// Reads the text written by [`IndexDefinition::to_json`]; `None` if it is not a definition.
    pub fn of_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The options of a field: its own, completed by those of all fields.
    pub fn field(&self, name: &str) -> IndexFieldOptions {
        let all = self.fields.get(ALL_FIELDS).cloned().unwrap_or_default();
        let Some(own) = self.fields.get(name) else { return all };
        IndexFieldOptions {
            analyzer: own.analyzer.clone().or(all.analyzer),
            indexing: own.indexing.or(all.indexing),
            storage: own.storage.or(all.storage),
            suggestions: own.suggestions.or(all.suggestions),
            term_vector: own.term_vector.or(all.term_vector),
            spatial: own.spatial.clone().or(all.spatial),
        }
    }
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
        let definition: IndexDefinition = serde_json::from_value(sent).unwrap();
        let field = &definition.fields["Name"];
        assert_eq!(field.indexing, Some(FieldIndexing::Search));
        assert_eq!(field.storage, Some(FieldStorage::Yes));
        assert_eq!((field.analyzer.as_deref(), definition.priority), (None, None));
        assert!(definition.configuration.is_empty());
        let shown = serde_json::to_value(definition.shown()).unwrap();
        assert_eq!(shown["Priority"], "Normal");
        assert_eq!(shown["Fields"]["Name"]["Indexing"], "Search");
        assert_eq!(shown["Fields"]["Name"]["Spatial"], Value::Null);
    }

    #[test]
    fn an_unknown_name_of_an_enumeration_is_reported() {
        let sent = json!({"Name": "x", "Fields": {"A": {"Indexing": "Highlighting"}}});
        let error = serde_json::from_value::<IndexDefinition>(sent).unwrap_err();
        assert!(error.to_string().contains("Could not convert 'Highlighting' to FieldIndexing"));
    }

    #[test]
    fn options_of_all_fields_count_where_a_field_says_nothing() {
        let mut definition = IndexDefinition::default();
        let stored = IndexFieldOptions { storage: Some(FieldStorage::Yes), ..Default::default() };
        definition.fields.insert(ALL_FIELDS.to_owned(), stored);
        let exact =
            IndexFieldOptions { indexing: Some(FieldIndexing::Exact), ..Default::default() };
        definition.fields.insert("Code".to_owned(), exact);
        let code = definition.field("Code");
        assert_eq!(code.storage, Some(FieldStorage::Yes));
        assert_eq!(code.indexing, Some(FieldIndexing::Exact));
        assert_eq!(definition.field("Other").storage, Some(FieldStorage::Yes));
    }

    #[test]
    fn locks_and_priorities_do_not_decide_entries() {
        let mut left = IndexDefinition { maps: vec!["map".to_owned()], ..Default::default() };
        let mut right = left.clone();
        right.lock_mode = Some(IndexLockMode::LockedError);
        right.priority = Some(IndexPriority::High);
        assert!(left.has_the_same_entries_as(&right));
        left.reduce = Some("reduce".to_owned());
        assert!(!left.has_the_same_entries_as(&right));
    }
}
