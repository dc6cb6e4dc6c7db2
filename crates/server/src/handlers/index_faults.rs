//! Indexes that could not be opened, listed among the others.

use std::sync::Arc;

use indexing::{FaultyIndex, Index, IndexKind, IndexSet};
use model::{
    IndexDefinition, IndexLockMode, IndexPriority, IndexSourceType, IndexState, IndexType, date,
};
use serde_json::{Value, json};
use wire::index_shapes::IndexStatistics;

use crate::api_error::ApiError;

/// An index of the database, whether or not it could be opened.
pub(crate) enum Known {
    Open(Arc<Index>),
    /// It could not be opened.
    Faulty(Box<FaultyIndex>),
}

impl Known {
    pub(crate) fn name(&self) -> &str {
        match self {
            Known::Open(index) => index.name(),
            Known::Faulty(faulty) => &faulty.name,
        }
    }

    /// How many errors it has: one, if it could not be opened.
    pub(crate) fn error_count(&self) -> Result<u64, ApiError> {
        match self {
            Known::Open(index) => index.error_count().map_err(ApiError::from),
            Known::Faulty(_) => Ok(1),
        }
    }

    /// Its definition in the protocol's form.
    pub(crate) fn definition(&self) -> IndexDefinition {
        match self {
            Known::Open(index) => index.shown_definition(),
            Known::Faulty(faulty) => definition_of(faulty),
        }
    }
}

/// The index of that name.
pub(crate) fn known(indexes: &IndexSet, name: &str) -> Option<Known> {
    let faulty = || indexes.faulty_named(name).map(|faulty| Known::Faulty(Box::new(faulty)));
    indexes.get(name).map(Known::Open).or_else(faulty)
}

/// All indexes, by name.
pub(crate) fn all_known(indexes: &IndexSet) -> Vec<Known> {
    let open = indexes.all().into_iter().map(Known::Open);
    let faulty = indexes.faulty().into_iter().map(|faulty| Known::Faulty(Box::new(faulty)));
    let mut known: Vec<_> = open.chain(faulty).collect();
    known.sort_by_cached_key(|index| index.name().to_lowercase());
    known
}

fn definition_of(faulty: &FaultyIndex) -> IndexDefinition {
    let name = faulty.name.clone();
    let state = Some(IndexState::Error);
    match &faulty.kind {
        IndexKind::Static(definition) => {
            IndexDefinition { name, state, ..definition.with_defaults() }
        }
        IndexKind::Auto(_) => {
            IndexDefinition { name, state, ..IndexDefinition::default() }.with_defaults()
        }
    }
}

/// The statistics of an index that could not be opened.
pub(crate) fn statistics_of_faulty(faulty: &FaultyIndex) -> IndexStatistics {
    let definition = definition_of(faulty);
    IndexStatistics {
        name: faulty.name.clone(),
        map_attempts: 0,
        map_errors: 0,
        reduce_attempts: 0,
        reduce_errors: 0,
        outputs_max: 0,
        collections: Vec::new(),
        last_querying_time: None,
        last_indexing_time: None,
        created: date::format(0),
        state: IndexState::Error,
        priority: definition.priority.unwrap_or(IndexPriority::Normal),
        lock_mode: definition.lock_mode.unwrap_or(IndexLockMode::Unlock),
        index_type: IndexType::Faulty,
        source_type: definition.source_type.unwrap_or(IndexSourceType::Documents),
        status: "Paused",
        is_stale: true,
        is_invalid: true,
        entries: 0,
        errors: 1,
        disk_bytes: 0,
        mapped_per_second: 0.0,
        reduced_per_second: 0.0,
        last_batch: None,
        search_engine: definition.search_engine(),
        output_collection: None,
        output_pattern: None,
        references_collection: None,
    }
}

/// The errors of an index that could not be opened: the reason.
pub(crate) fn errors_of_faulty(faulty: &FaultyIndex, now_ticks: i64) -> Value {
    let error = json!({
        "Timestamp": date::format(now_ticks), "Document": null, "Action": "Open",
        "Error": faulty.error.to_string()
    });
    json!({"Name": faulty.name, "Errors": [error]})
}
