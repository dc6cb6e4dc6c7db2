//! Collection queries: rows are read one at a time, directly from the transaction.
//!
//! Nothing is buffered: memory use depends neither on the page nor on the size of the collection.

use std::sync::Arc;

use blittable::Object;
use cluster_state::DatabaseValues;
use documents::{
    DocumentError, DocumentRow,
    log::{self, EntryKind, LogEntry, Selection},
};
use model::{DocumentId, Etag};
use rql::Query;
use storage::{Transaction, pass_over};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;
use crate::id_selection::{IdList, IdSelection, IdSelector};
use crate::paging::{Paging, UNKNOWN_TOTAL, as_long};
use crate::plan::{Plan, RowOrder, SourceDocuments};
use crate::planned_source::PlannedSource;
use crate::result::{QueryResult, ResultFacts};
use crate::row::{Row, RowSource};

type DocumentResult<'t> = Result<DocumentRow<'t>, DocumentError>;
type Documents<'t> = Box<dyn Iterator<Item = DocumentResult<'t>> + 't>;

/// Runs `query` against the documents that `tx` sees, and `values`.
///
/// # Errors
///
/// Those of [`crate::plan()`], and [`QueryError::Documents`].
pub fn execute<'t, T: Transaction>(
    tx: &'t T,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
    values: Option<&'t DatabaseValues>,
) -> Result<QueryResult<'t, T>, QueryError> {
    let plan = crate::plan::plan(query, parameters, paging, values)?;
    execute_plan(tx, Arc::new(plan), values)
}

/// Runs a plan against the documents that `tx` sees, and `values`.
///
/// # Errors
///
/// [`QueryError::Documents`].
pub fn execute_plan<'t, T: Transaction>(
    tx: &'t T,
    plan: Arc<Plan>,
    values: Option<&'t DatabaseValues>,
) -> Result<QueryResult<'t, T>, QueryError> {
    let scope = Scope::of(tx, &plan.source)?;
    let total = scope.total(&plan)?;
    let facts = ResultFacts {
        index_name: plan.index_name.clone(),
        total_results: total.map_or(UNKNOWN_TOTAL, as_long),
        result_etag: scope.result_etag(plan.shown.shows_others(), plan.version_of_values)?,
        index: None,
    };
    let shown = Arc::clone(&plan.shown);
    let planned = PlannedSource::Documents(Arc::clone(&plan));
    let rows = Box::new(CollectionRows { scope, plan });
    QueryResult::new((tx, values), (rows, planned), shown, facts)
}

/// The rows of a plan that was made before.
pub(crate) fn rows_of_plan<'t, T: Transaction>(
    tx: &'t T,
    plan: &Arc<Plan>,
) -> Result<Box<dyn RowSource<'t> + 't>, QueryError> {
    let scope = Scope::of(tx, &plan.source)?;
    Ok(Box::new(CollectionRows { scope, plan: Arc::clone(plan) }))
}

/// The rows of a plan.
struct CollectionRows<'t, T> {
    scope: Scope<'t, T>,
    plan: Arc<Plan>,
}

impl<'t, T: Transaction> RowSource<'t> for CollectionRows<'t, T> {
    fn rows(
        &self,
        first: usize,
        count: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<Row<'t>, QueryError>> + 't>, QueryError> {
        let rows = self.scope.rows(&self.plan)?.skip_while(pass_over(first)).take(count);
        Ok(Box::new(rows.map(|row| match row {
            Ok(document) => Ok(Row::of_document(document)),
            Err(error) => Err(error.into()),
        })))
    }
}

/// The documents that a query scans, in one transaction.
struct Scope<'t, T> {
    tx: &'t T,
    source: SourceDocuments,
    /// How many live documents it contains.
    documents: u64,
    /// The number of the collection; `None` for all documents.
    collection_number: Option<u32>,
}

impl<'t, T: Transaction> Scope<'t, T> {
    fn of(tx: &'t T, source: &SourceDocuments) -> Result<Self, QueryError> {
        let (documents, collection_number) = match source {
            SourceDocuments::All => (documents::progress(tx)?.documents, None),
            SourceDocuments::Collection(name) => match documents::collection(tx, name)? {
                Some(collection) => (collection.documents, Some(collection.number)),
                // No collection has this number: numbering starts at 1.
                None => (0, Some(0)),
            },
        };
        Ok(Scope { tx, source: source.clone(), documents, collection_number })
    }

    /// How many documents the plan selects; `None` when there are some and they are not counted.
    fn total(&self, plan: &Plan) -> Result<Option<u64>, QueryError> {
        match &plan.ids {
            _ if self.documents == 0 => Ok(Some(0)),
            IdSelection::Everything => Ok(Some(self.documents)),
            // Whether there is any document at all is known without counting.
            IdSelection::Listed(list) if plan.is_total_unknown => {
                let first = self.listed(list.clone(), false).next().transpose()?;
                Ok(if first.is_some() { None } else { Some(0) })
            }
            IdSelection::Listed(list) => {
                let counted = self
                    .listed(list.clone(), false)
                    .try_fold(0, |count, row| row.map(|_| count + 1));
                Ok(Some(counted?))
            }
        }
    }

    fn rows(&self, plan: &Plan) -> Result<Documents<'t>, QueryError> {
        let descending = plan.order == (RowOrder::Id { descending: true });
        Ok(match (plan.order, &plan.ids) {
            _ if self.documents == 0 => Box::new(std::iter::empty()),
            (RowOrder::Log, IdSelection::Everything) => return self.log(),
            (_, IdSelection::Listed(list)) => self.listed(list.clone(), descending),
            (RowOrder::Id { .. }, IdSelection::Everything) => {
                self.selected(vec![IdSelector::Prefix(String::new())], descending)
            }
        })
    }

    fn log(&self) -> Result<Documents<'t>, QueryError> {
        let documents = match &self.source {
            SourceDocuments::All => Selection::all(EntryKind::Document),
            SourceDocuments::Collection(name) => {
                Selection::of_collection(EntryKind::Document, name)
            }
        };
        let log = log::read(self.tx, &[documents], Etag::ZERO)?;
        Ok(Box::new(log.filter_map(|entry| entry.map(LogEntry::document).transpose())))
    }

    /// The listed documents in id order.
    fn listed(&self, list: IdList, descending: bool) -> Documents<'t> {
        self.selected(list.into_selectors(), descending)
    }

    fn selected(&self, mut selectors: Vec<IdSelector>, descending: bool) -> Documents<'t> {
        if descending {
            selectors.reverse();
        }
        let (tx, collection_number) = (self.tx, self.collection_number);
        let rows =
            selectors.into_iter().flat_map(move |selector| rows_of(tx, &selector, descending));
        Box::new(rows.filter(move |row| match (row, collection_number) {
            (Ok(row), Some(number)) => row.collection_number() == number,
            (Ok(_), None) | (Err(_), _) => true,
        }))
    }

    fn result_etag(
        &self,
        depends_on_all: bool,
        version_of_values: Option<u64>,
    ) -> Result<i64, QueryError> {
        let mut seed = Vec::with_capacity(32);
        seed.extend(version_of_values.into_iter().flat_map(u64::to_le_bytes));
        let number = self.collection_number.filter(|_| self.documents != 0);
        // The newest live document and the document count determine the content of a collection:
        // after that write, documents can only have been deleted.
        match &self.source {
            SourceDocuments::Collection(name) if !depends_on_all => {
                let newest = documents::newest_first_of_collection(self.tx, name)?.next();
                let etag = newest.transpose()?.map_or(Etag::ZERO, |row| row.etag());
                seed.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
                seed.extend_from_slice(&etag.0.to_le_bytes());
                seed.extend_from_slice(&self.documents.to_le_bytes());
            }
            SourceDocuments::Collection(_) | SourceDocuments::All => {
                let last = documents::progress(self.tx)?.last_etag;
                seed.extend_from_slice(&last.0.to_le_bytes());
            }
        }
        Ok(xxh3_64(&seed).cast_signed())
    }
}

fn rows_of<'t, T: Transaction>(
    tx: &'t T,
    selector: &IdSelector,
    descending: bool,
) -> Documents<'t> {
    fn boxed<'t>(
        rows: Result<impl Iterator<Item = DocumentResult<'t>> + 't, DocumentError>,
    ) -> Documents<'t> {
        match rows {
            Ok(rows) => Box::new(rows),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
    match selector {
        IdSelector::Id(id) => match DocumentId::new(id.as_str()) {
            Ok(id) => Box::new(documents::get(tx, &id).transpose().into_iter()),
            // A string that is too long for an id matches no document.
            Err(_) => Box::new(std::iter::empty()),
        },
        IdSelector::Prefix(prefix) => match descending {
            false => boxed(documents::by_prefix(tx, prefix, None)),
            true => boxed(documents::by_prefix_descending(tx, prefix)),
        },
    }
}
