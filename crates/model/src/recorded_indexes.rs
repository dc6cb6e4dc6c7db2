//! The indexes in a database record: those that applications define, and the automatic ones.

use std::collections::BTreeMap;

use crate::{FieldStorage, IndexDefinition, IndexPriority, IndexState, IndexType, JsonText};

/// The indexes in a database record.
#[derive(Clone, Debug, Default)]
pub struct RecordedIndexes {
    /// Indexes defined by applications, by name.
    pub indexes: BTreeMap<String, IndexDefinition>,
    /// Automatic indexes, by name.
    pub auto_indexes: BTreeMap<String, AutoIndexShape>,
    /// The numbers of those that applications define, by name: an index that is deleted and defined again has another.
    /// Those that were defined before there were numbers have none.
    pub index_numbers: BTreeMap<String, u64>,
}

impl RecordedIndexes {
    /// The number of an index, whatever the case of its name; 0 if it has none.
    pub fn number_of(&self, name: &str) -> u64 {
        let mut numbers = self.index_numbers.iter();
        numbers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(0, |(_, number)| *number)
    }
}

/// An automatic index, as stored and shown in the database record.
#[derive(Clone, Debug)]
pub struct AutoIndexShape {
    /// The state per node in a database group. There are no groups yet, so this stays empty.
    pub cluster_state: Option<JsonText>,
    /// `AutoMap` or `AutoMapReduce`.
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
    /// `None` unless changed.
    pub state: Option<IndexState>,
}

/// A field of an automatic index.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug, Default)]
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
