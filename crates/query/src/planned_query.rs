//! A query that was planned, and whose rows were found and counted as far as it was needed, without the snapshots.
//!
//! A result belongs to one thread and borrows its snapshots. What it took to plan and to find it does not: another
//! thread can run the query again on the same snapshots without doing that work twice.

use std::sync::Arc;

use cluster_state::DatabaseValues;
use storage::Transaction;

use crate::collection_execution;
use crate::error::QueryError;
use crate::index_execution::{self, IndexSnapshot};
use crate::plan::ShownRows;
use crate::planned_source::PlannedSource;
use crate::result::{Filtered, QueryResult, ResultFacts};

/// A query that was planned and whose rows were found, without the snapshots that it was run on.
#[derive(Clone)]
pub struct PlannedQuery {
    source: PlannedSource,
    shown: Arc<ShownRows>,
    facts: ResultFacts,
    /// What the filter did, if its rows were counted.
    filtered: Option<Filtered>,
}

impl<T: Transaction> QueryResult<'_, T> {
    /// The query as it was planned, with what was found and counted so far, to be run again on the same snapshots
    /// without doing that work again.
    pub fn planned(&self) -> PlannedQuery {
        let (source, shown, facts, filtered) = self.work_done();
        let (source, shown, facts) = (source.clone(), Arc::clone(shown), facts.clone());
        PlannedQuery { source, shown, facts, filtered }
    }
}

impl PlannedQuery {
    /// Runs the query on the snapshots on which it was planned. `entries` are those of the index, `None` without one.
    ///
    /// # Errors
    ///
    /// As [`crate::execute`] and [`crate::execute_on_index`], and if `entries` are missing.
    pub fn run<'t, D: Transaction, I: Transaction>(
        &self,
        documents: &'t D,
        entries: Option<&IndexSnapshot<'t, I>>,
        values: Option<&'t DatabaseValues>,
    ) -> Result<QueryResult<'t, D>, QueryError> {
        let rows = match (&self.source, entries) {
            (PlannedSource::Documents(plan), _) => {
                collection_execution::rows_of_plan(documents, plan)?
            }
            (PlannedSource::Index(plan, page), Some(entries)) => {
                index_execution::rows_of_plan(documents, entries, plan, page.as_ref())?
            }
            (PlannedSource::Index(..), None) => {
                let message = "The query was planned on an index, whose entries are missing";
                return Err(QueryError::InvalidOperation { message: message.to_owned() });
            }
        };
        let (shown, facts) = (Arc::clone(&self.shown), self.facts.clone());
        let result =
            QueryResult::new((documents, values), (rows, self.source.clone()), shown, facts)?;
        Ok(result.with_counts(self.filtered))
    }
}
