//! Running a query: on which snapshots, and by which plan.
//!
//! A query is bound to its parameters ([`BoundQuery`]), its target is determined
//! ([`BoundQuery::target`]), then it runs on a [`QuerySnapshot`]. It can run again on the same
//! snapshot, on another thread, without the work of planning and counting ([`QueryPlan::Again`]).

use std::sync::{Arc, atomic::AtomicBool};

use blittable::{BlittableBuf, Object};
use cluster_state::DatabaseValues;
use database::{Database, DatabaseLease, HeldSnapshot};
use indexing::Index;
use query::{
    BoundScripts, IndexSnapshot, Paging, Plan, PlannedQuery, QueryError, QueryResult, QueryScripts,
    RowOptions,
};
use rql::Query;
use script::ScriptPool;
use storage::ReadTransaction;

use crate::{
    error::EngineError,
    query_target::{QueryTarget, check_index_answers, query_target},
    recorded_series::RecordedSeries,
};

/// A query and what it runs with.
pub struct BoundQuery {
    /// The query.
    pub query: Query,
    /// The values of its parameters: an object.
    pub parameters: Option<BlittableBuf>,
    /// The page that the request names, besides that of the query.
    pub paging: Paging,
    /// How rows are returned.
    pub rows: RowOptions,
    /// Determines the order of `random()`.
    pub seed: u64,
    /// Set when the query is to stop.
    pub stop: Arc<AtomicBool>,
}

/// By which plan a query runs.
pub enum QueryPlan {
    /// It is planned when it runs: on the index of the snapshot, or on the documents if there is none.
    Unplanned,
    /// By a scan of the documents.
    Documents(Arc<Plan>),
    /// As it ran before on the same snapshot, with what was found and counted then.
    Again(PlannedQuery),
}

impl BoundQuery {
    /// The values of the parameters.
    pub fn parameters(&self) -> Option<Object<'_>> {
        self.parameters.as_ref().map(|values| values.as_view().root())
    }

    /// Determines what runs the query. Does not block.
    ///
    /// # Errors
    /// The query is invalid, or names an index that does not exist ([`QueryError::MissingIndex`]) or
    /// could not be opened.
    pub fn target(&self, database: &Database) -> Result<QueryTarget, EngineError> {
        query_target(database, &self.query, self.parameters(), self.paging)
    }

    /// Compiles the scripts of the query; `None` if it has none.
    ///
    /// # Errors
    /// A script cannot be compiled.
    pub fn scripts(&self, pool: &ScriptPool) -> Result<Option<QueryScripts>, QueryError> {
        QueryScripts::of(&self.query, self.parameters(), pool)
    }

    /// Binds the scripts to the parameters.
    ///
    /// # Errors
    /// A parameter is missing, or a script cannot be run.
    pub fn bind<'s>(
        &self,
        scripts: Option<&'s QueryScripts>,
    ) -> Result<Option<BoundScripts<'s>>, QueryError> {
        scripts.map(|scripts| scripts.bind(&self.query, self.parameters())).transpose()
    }

    /// The entries of the snapshot, as this query reads them; `None` without an index.
    pub fn entries<'s>(
        &self,
        snapshot: &'s QuerySnapshot,
    ) -> Option<IndexSnapshot<'s, ReadTransaction>> {
        let (index, tx) = snapshot.index.as_ref()?;
        let (values, seed, stop) = (Some(&snapshot.values), self.seed, Arc::clone(&self.stop));
        Some(IndexSnapshot { index, tx, values, seed, stop })
    }

    /// Runs the query. Its rows are read while they are taken from the result.
    ///
    /// # Errors
    /// The query is invalid on this snapshot; storage errors; it was stopped.
    pub fn run<'s>(
        &self,
        snapshot: &'s QuerySnapshot,
        plan: &QueryPlan,
    ) -> Result<QueryResult<'s, ReadTransaction>, QueryError> {
        let (documents, values) = (&snapshot.documents, Some(&snapshot.values));
        let (query, parameters, paging) = (&self.query, self.parameters(), self.paging);
        let entries = self.entries(snapshot);
        let result = match (plan, &entries) {
            (QueryPlan::Again(planned), entries) => {
                planned.run(documents, entries.as_ref(), values)
            }
            (QueryPlan::Documents(plan), _) => {
                query::execute_plan(documents, Arc::clone(plan), values)
            }
            (QueryPlan::Unplanned, Some(entries)) => {
                let rows = self.rows;
                query::execute_on_index(documents, entries, query, parameters, paging, rows)
            }
            (QueryPlan::Unplanned, None) => {
                query::execute(documents, query, parameters, paging, values)
            }
        };
        Ok(result?.stopped_by(Arc::clone(&self.stop)))
    }
}

/// The snapshots that a query reads. That of the entries is older than that of the documents, so
/// the document of every entry exists, or was deleted since.
pub struct QuerySnapshot {
    index: Option<(Arc<Index>, ReadTransaction)>,
    documents: ReadTransaction,
    series: RecordedSeries,
    /// Compare exchange: always the newest, since it belongs to no snapshot of a database.
    values: DatabaseValues,
}

impl QuerySnapshot {
    /// The newest of both, or the held ones.
    ///
    /// # Errors
    /// The held snapshots do not include the index ([`EngineError::IndexNotInSnapshot`]).
    pub fn take(
        database: &DatabaseLease,
        index: Option<Arc<Index>>,
        held: Option<&HeldSnapshot>,
    ) -> Result<Self, EngineError> {
        let entries_of = |index: Arc<Index>| {
            let entries = match held {
                None => index.read(),
                Some(held) => held.entries(&index).cloned().ok_or_else(|| {
                    EngineError::IndexNotInSnapshot { name: index.name().to_owned() }
                })?,
            };
            Ok::<_, EngineError>((index, entries))
        };
        let index = index.map(entries_of).transpose()?;
        let documents = held.map_or_else(|| database.read(), |held| held.documents().clone());
        let (series, values) = (RecordedSeries::of(database), database.values());
        Ok(Self { index, documents, series, values })
    }

    /// The documents.
    pub fn documents(&self) -> &ReadTransaction {
        &self.documents
    }

    /// The index whose entries are read.
    pub fn index(&self) -> Option<&Arc<Index>> {
        self.index.as_ref().map(|(index, _)| index)
    }

    /// The time series settings of the database.
    pub fn series(&self) -> &RecordedSeries {
        &self.series
    }
}

/// The index that answers a query for which `index` was chosen: it may have been replaced while the
/// query waited for it.
///
/// # Errors
/// As [`check_index_answers`].
pub fn answering_index(database: &Database, index: Arc<Index>) -> Result<Arc<Index>, EngineError> {
    let index = database.indexes().current(index);
    check_index_answers(&index)?;
    Ok(index)
}
