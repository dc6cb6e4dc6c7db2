//! The definition of an index by an application, as it is sent, stored and returned. `wire` reads and prints its JSON.

use std::collections::BTreeMap;

use crate::{
    ArchivedDataProcessingBehavior, FieldIndexing, FieldStorage, IndexLockMode, IndexPriority,
    IndexSourceType, IndexState, IndexType, JsonText, SpatialOptions, TermVector,
};

/// The key of [`IndexDefinition::fields`] whose options apply to every field.
pub const ALL_FIELDS: &str = "__all_fields";

/// How one field is indexed. Missing options are taken from [`ALL_FIELDS`], then from the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexDefinition {
    /// Unique among the indexes of a database, in any case.
    pub name: String,
    /// What it reads; determined by the server.
    pub source_type: Option<IndexSourceType>,
    /// Its type; determined by the server.
    pub index_type: Option<IndexType>,
    /// Unlocked by default.
    pub lock_mode: Option<IndexLockMode>,
    /// Normal by default.
    pub priority: Option<IndexPriority>,
    /// Normal by default.
    pub state: Option<IndexState>,
    /// How it treats archived documents. If `None`, clients are not shown the property, which those older than
    /// archiving do not know.
    pub archived_data_processing_behavior: Option<ArchivedDataProcessingBehavior>,
    /// The collection to which results of the reduce are written.
    pub output_reduce_to_collection: Option<String>,
    /// How the nodes of a database group deploy it; stored and shown only.
    pub deployment_mode: Option<JsonText>,
    /// The index of the change that created the output collection.
    pub reduce_output_index: Option<i64>,
    /// The id pattern of documents that refer to the output.
    pub pattern_for_output_reduce_to_collection_references: Option<String>,
    /// The collection of those documents.
    pub pattern_references_collection_name: Option<String>,
    /// Settings of this index.
    pub configuration: BTreeMap<String, Option<String>>,
    /// Code used by maps and reduce, by name.
    pub additional_sources: BTreeMap<String, String>,
    /// .NET libraries; stored, but the index is refused if there are any.
    pub additional_assemblies: Vec<JsonText>,
    /// The text of the reduce.
    pub reduce: Option<String>,
    /// The texts of the maps.
    pub maps: Vec<String>,
    /// Options by field, and those of [`ALL_FIELDS`].
    pub fields: BTreeMap<String, IndexFieldOptions>,
}

impl IndexDefinition {
    /// The definition with the values that count where it names none: of a document index with a map in C# that is
    /// neither locked, prioritised nor disabled. Two definitions are the same if they are equal in this form, which
    /// is also the one that clients are shown.
    pub fn with_defaults(&self) -> Self {
        Self {
            source_type: Some(self.source_type.unwrap_or(IndexSourceType::Documents)),
            index_type: Some(self.index_type.unwrap_or(IndexType::Map)),
            lock_mode: Some(self.lock_mode.unwrap_or(IndexLockMode::Unlock)),
            priority: Some(self.priority.unwrap_or(IndexPriority::Normal)),
            state: Some(self.state.unwrap_or(IndexState::Normal)),
            ..self.clone()
        }
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
    use super::*;

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

    #[test]
    fn defaults_count_where_a_definition_names_nothing() {
        let plain = IndexDefinition::default();
        let complete = IndexDefinition {
            priority: Some(IndexPriority::Low),
            archived_data_processing_behavior: None,
            ..plain.with_defaults()
        };
        assert_eq!(complete.lock_mode, Some(IndexLockMode::Unlock));
        assert_eq!(complete.with_defaults(), complete);
        assert_ne!(complete, plain.with_defaults());
        assert_eq!(plain.archived_documents(), ArchivedDataProcessingBehavior::ExcludeArchived);
    }

    #[test]
    fn only_a_reduce_has_an_output() {
        let output = |reduce: Option<&str>, collection: &str| IndexDefinition {
            reduce: reduce.map(str::to_owned),
            output_reduce_to_collection: Some(collection.to_owned()),
            ..IndexDefinition::default()
        };
        assert!(output(Some("reduce"), "Totals").has_output());
        assert!(!output(Some("reduce"), " ").has_output());
        assert!(!output(None, "Totals").has_output());
    }
}
