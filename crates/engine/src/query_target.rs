//! What runs a query: a scan of the documents, the index that it names, or an automatic one.

use std::{sync::Arc, time::Duration};

use blittable::Object;
use cluster_state::DatabaseValues;
use database::Database;
use indexing::{AutoChoice, AutoIndexDefinition, Index, IndexRecord};
use query::{Paging, Plan, QueryError};
use rql::{Query, SourceKind};

use crate::error::EngineError;

/// How long a query that creates its index waits for it.
pub const NEW_INDEX_WAIT: Duration = Duration::from_secs(15);

/// What runs a query.
pub enum QueryTarget {
    /// A scan of the documents, by this plan.
    Documents(Box<Plan>),
    /// An existing index, which may be stale.
    Index(Arc<Index>),
    /// An automatic index that must be created first: see [`crate::Engine::create_auto_index`].
    Missing(MissingIndex),
}

/// An automatic index that a query needs.
pub struct MissingIndex {
    pub(crate) definition: AutoIndexDefinition,
    /// The index that it supersedes.
    pub(crate) supersedes: Option<Arc<Index>>,
}

impl MissingIndex {
    /// The name that it will have.
    pub fn name(&self) -> String {
        self.definition.name()
    }
}

/// Determines what runs a query. Does not block.
///
/// # Errors
/// The query is invalid, or names an index that does not exist ([`QueryError::MissingIndex`]) or could not be
/// opened.
pub fn query_target(
    database: &Database,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<QueryTarget, EngineError> {
    if let SourceKind::Index(name) = &query.source.kind {
        return match database.indexes().get(name) {
            Some(index) => Ok(QueryTarget::Index(index)),
            None => Err(match database.indexes().faulty_named(name) {
                Some(faulty) => {
                    EngineError::IndexNotOpened { name: faulty.name, error: faulty.error }
                }
                None => QueryError::MissingIndex { name: name.to_string() }.into(),
            }),
        };
    }
    let needed = match needed_source(query, parameters, paging, Some(&database.values()))? {
        NeededSource::Documents(plan) => return Ok(QueryTarget::Documents(plan)),
        NeededSource::Index(needed) => needed,
    };
    Ok(match database.indexes().choose_auto(&needed) {
        AutoChoice::Answers(index) => QueryTarget::Index(index),
        AutoChoice::Wanted { definition, supersedes } => {
            QueryTarget::Missing(MissingIndex { definition, supersedes })
        }
    })
}

/// What a query that names no index needs.
pub enum NeededSource {
    /// A scan of the documents, by this plan.
    Documents(Box<Plan>),
    /// An automatic index with at least these fields.
    Index(AutoIndexDefinition),
}

/// Determines what a query that names no index needs. `values` are those of compare exchange, if it may
/// refer to them.
///
/// # Errors
/// The query is invalid.
pub fn needed_source(
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
    values: Option<&DatabaseValues>,
) -> Result<NeededSource, QueryError> {
    match query::plan(query, parameters, paging, values) {
        Ok(plan) => Ok(NeededSource::Documents(Box::new(plan))),
        Err(QueryError::NeedsIndex { .. }) => {
            query::needed_index(query, parameters).map(NeededSource::Index)
        }
        Err(error) => Err(error),
    }
}

/// Rejects queries on an index that has stopped, or that failed on too many documents.
///
/// # Errors
/// [`EngineError::IndexFailed`], [`EngineError::IndexErrored`].
pub fn check_index_answers(index: &Index) -> Result<(), EngineError> {
    if let Some(failure) = index.failure() {
        return Err(EngineError::IndexFailed { name: index.name().to_owned(), error: failure });
    }
    let record = index.record();
    if !record.has_failed {
        return Ok(());
    }
    let error_rate = error_rate_of(&record, index.has_reduce());
    Err(EngineError::IndexErrored { name: index.name().to_owned(), error_rate })
}

/// The share of an index's attempts that failed, in words.
fn error_rate_of(record: &IndexRecord, has_reduce: bool) -> String {
    let IndexRecord { map_attempts, map_errors, reduce_attempts, reduce_errors, .. } = *record;
    let (attempts, errors) = (map_attempts + reduce_attempts, map_errors + reduce_errors);
    // At most two decimals.
    let percent = (10_000.0 * errors as f64 / attempts.max(1) as f64).round() / 100.0;
    if has_reduce {
        return format!(
            "out of {map_attempts} map attempts and {reduce_attempts} reduce attempts, {map_errors} \
             and {reduce_errors} has failed respectively. Error rate of {percent}%"
        );
    }
    format!("out of {map_attempts} map attempts, {map_errors} has failed. Error rate of {percent}%")
}
