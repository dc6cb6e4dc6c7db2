//! Running a plan: rows one after the other, straight out of the transaction.
//!
//! Nothing is collected but the ids of included documents (and, for a descending order, the rows of
//! the page), so memory follows the page and not the collection.

use std::collections::{HashSet, VecDeque};

use blittable::Object;
use documents::{DocumentError, DocumentRow, LogEntry};
use model::{DocumentId, Etag};
use rql::Query;
use storage::Transaction;
use xxhash_rust::xxh3::xxh3_64;

use crate::distinct::DistinctRows;
use crate::error::QueryError;
use crate::id_selection::{IdList, IdSelection, IdSelector};
use crate::paging::{Paging, UNKNOWN_TOTAL, as_long};
use crate::plan::{Plan, RowOrder, SourceDocuments, plan};
use crate::projection::Projection;

type Row<'t> = Result<DocumentRow<'t>, DocumentError>;
type Rows<'t> = Box<dyn Iterator<Item = Row<'t>> + 't>;

/// The answer to a query: what is known before the first row, then the rows, then the includes.
pub struct QueryResult<'t, T> {
    tx: &'t T,
    rows: Box<dyn Iterator<Item = Result<DocumentRow<'t>, QueryError>> + 't>,
    plan: Plan,
    total_results: i64,
    result_etag: i64,
    included: Included,
}

/// The ids that included paths found, and the ids of the rows, which are not repeated.
#[derive(Default)]
struct Included {
    in_order: Vec<DocumentId>,
    met: HashSet<DocumentId>,
    rows: HashSet<DocumentId>,
}

/// Answers `query` from the documents that `tx` sees.
///
/// # Errors
///
/// Those of [`plan`], and [`QueryError::Documents`].
pub fn execute<'t, T: Transaction>(
    tx: &'t T,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<QueryResult<'t, T>, QueryError> {
    let plan = plan(query, parameters, paging)?;
    let scope = Scope::of(tx, &plan.source)?;
    let total = scope.total(&plan)?;
    let rows = scope.rows(&plan)?.map(|row| row.map_err(QueryError::from));
    let start = usize::try_from(plan.window.start).unwrap_or(usize::MAX);
    let page_size = usize::try_from(plan.window.page_size).unwrap_or(usize::MAX);
    Ok(QueryResult {
        tx,
        rows: match distinct_projection(&plan) {
            None => Box::new(rows.skip(start).take(page_size)),
            Some(projection) => {
                Box::new(DistinctRows::new(rows, projection.clone()).skip(start).take(page_size))
            }
        },
        total_results: total.map_or(UNKNOWN_TOTAL, as_long),
        result_etag: scope.result_etag(!plan.includes.is_empty())?,
        included: Included::default(),
        plan,
    })
}

fn distinct_projection(plan: &Plan) -> Option<&Projection> {
    plan.projection.as_ref().filter(|_| plan.is_distinct)
}

impl<'t, T: Transaction> QueryResult<'t, T> {
    /// How many documents the query chooses without paging; -1 when that is not counted.
    pub fn total_results(&self) -> i64 {
        self.total_results
    }

    /// How many rows the text's own `limit` and `offset` leave; absent without either.
    pub fn capped_max_results(&self) -> Option<i64> {
        self.plan.window.capped_max_results(u64::try_from(self.total_results).ok())
    }

    /// How many rows are left out as repetitions up to the end of the page. Only `select distinct`
    /// leaves out any; they are counted by going through the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`], and too many different rows.
    pub fn skipped_results(&self) -> Result<u64, QueryError> {
        let Some(projection) = distinct_projection(&self.plan) else { return Ok(0) };
        let rows = Scope::of(self.tx, &self.plan.source)?.rows(&self.plan)?;
        let rows = rows.map(|row| row.map_err(QueryError::from));
        let mut distinct = DistinctRows::new(rows, projection.clone());
        let window = &self.plan.window;
        let mut wanted = window.start.saturating_add(window.page_size);
        while 0 < wanted && distinct.next().transpose()?.is_some() {
            wanted -= 1;
        }
        Ok(distinct.skipped())
    }

    /// The name under which the answer says it was found.
    pub fn index_name(&self) -> &str {
        &self.plan.index_name
    }

    /// A number that changes when the answer may have: whenever a document that the query looks at
    /// is written or deleted. With includes that is any document.
    pub fn result_etag(&self) -> i64 {
        self.result_etag
    }

    /// The included paths as the answer repeats them; `None` without an `include` clause.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        match self.plan.includes.as_slice() {
            [] => None,
            includes => Some(includes.iter().map(|include| include.path.as_str()).collect()),
        }
    }

    /// Whether rows are projections instead of documents.
    pub fn is_projection(&self) -> bool {
        self.plan.projection.is_some()
    }

    /// The next row's document.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`]; the answer ends there.
    pub fn next_row(&mut self) -> Result<Option<DocumentRow<'t>>, QueryError> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        if !self.plan.includes.is_empty() {
            self.included.add(&row, &self.plan)?;
        }
        Ok(Some(row))
    }

    /// Appends a row as JSON: the whole document or its projection.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`] when the document is damaged; `out` then ends in the middle of it.
    pub fn write_row(&self, row: &DocumentRow<'_>, out: &mut Vec<u8>) -> Result<(), QueryError> {
        match &self.plan.projection {
            Some(projection) => projection.write_json(row, out),
            None => Ok(documents::write_document_json(row, out)?),
        }
    }

    /// The documents to give along with the rows that [`QueryResult::next_row`] has given, in the
    /// order in which they were met; rows themselves and missing documents are not among them.
    pub fn includes(&self) -> impl Iterator<Item = Row<'t>> + '_ {
        let ids = self.included.in_order.iter().filter(|id| !self.included.rows.contains(*id));
        ids.filter_map(|id| documents::get(self.tx, id).transpose())
    }
}

impl Included {
    fn add(&mut self, row: &DocumentRow<'_>, plan: &Plan) -> Result<(), QueryError> {
        if plan.projection.is_none() {
            self.rows.extend(DocumentId::new(row.id()).ok());
        }
        for path in plan.includes.iter().filter_map(|include| include.in_document.as_ref()) {
            path.ids(row.body().root(), &mut |id| {
                // A text that is too long for an id names no document.
                if let Ok(id) = DocumentId::new(id)
                    && self.met.insert(id.clone())
                {
                    self.in_order.push(id);
                }
            })?;
        }
        Ok(())
    }
}

/// The documents that a query looks at, inside a transaction.
struct Scope<'t, 's, T> {
    tx: &'t T,
    source: &'s SourceDocuments,
    /// How many live documents there are.
    documents: u64,
    /// The number of the collection; `None` for all documents.
    collection_number: Option<u32>,
}

impl<'t, 's, T: Transaction> Scope<'t, 's, T> {
    fn of(tx: &'t T, source: &'s SourceDocuments) -> Result<Scope<'t, 's, T>, QueryError> {
        let (documents, collection_number) = match source {
            SourceDocuments::All => (documents::progress(tx)?.documents, None),
            SourceDocuments::Collection(name) => match documents::collection(tx, name)? {
                Some(collection) => (collection.documents, Some(collection.number)),
                // No collection has this number: they begin with 1.
                None => (0, Some(0)),
            },
        };
        Ok(Scope { tx, source, documents, collection_number })
    }

    /// How many documents the plan chooses; `None` when they are not counted.
    fn total(&self, plan: &Plan) -> Result<Option<u64>, QueryError> {
        match &plan.ids {
            _ if self.documents == 0 => Ok(Some(0)),
            IdSelection::Everything => Ok(Some(self.documents)),
            IdSelection::Listed(_) if plan.is_total_unknown => Ok(None),
            IdSelection::Listed(list) => {
                let counted =
                    self.listed(list.clone()).try_fold(0, |count, row| row.map(|_| count + 1));
                Ok(Some(counted?))
            }
        }
    }

    fn rows(&self, plan: &Plan) -> Result<Rows<'t>, QueryError> {
        let listed = match (plan.order, &plan.ids) {
            _ if self.documents == 0 => return Ok(Box::new(std::iter::empty())),
            (RowOrder::Log, IdSelection::Everything) => return self.log(),
            (_, IdSelection::Listed(list)) => self.listed(list.clone()),
            (RowOrder::Id { .. }, IdSelection::Everything) => self.every_id(),
        };
        match plan.order {
            RowOrder::Log | RowOrder::Id { descending: false } => Ok(listed),
            RowOrder::Id { descending: true } => {
                let window = &plan.window;
                Ok(last_first(listed, window.start.saturating_add(window.page_size))?)
            }
        }
    }

    fn log(&self) -> Result<Rows<'t>, QueryError> {
        let document =
            |entry: Result<LogEntry<'t>, DocumentError>| entry.map(LogEntry::document).transpose();
        Ok(match self.source {
            SourceDocuments::All => {
                Box::new(documents::log(self.tx, Etag::ZERO)?.filter_map(document))
            }
            SourceDocuments::Collection(name) => {
                let log = documents::log_of_collection(self.tx, name, Etag::ZERO)?;
                Box::new(log.filter_map(document))
            }
        })
    }

    fn every_id(&self) -> Rows<'t> {
        self.selected(vec![IdSelector::Prefix(String::new())])
    }

    /// The listed documents in id order.
    fn listed(&self, list: IdList) -> Rows<'t> {
        self.selected(list.into_selectors())
    }

    fn selected(&self, selectors: Vec<IdSelector>) -> Rows<'t> {
        let (tx, collection_number) = (self.tx, self.collection_number);
        let rows = selectors.into_iter().flat_map(move |selector| rows_of(tx, &selector));
        Box::new(rows.filter(move |row| match (row, collection_number) {
            (Ok(row), Some(number)) => row.collection_number() == number,
            (Ok(_), None) | (Err(_), _) => true,
        }))
    }

    fn result_etag(&self, depends_on_all: bool) -> Result<i64, QueryError> {
        let mut seed = Vec::with_capacity(32);
        let number = self.collection_number.filter(|_| self.documents != 0);
        // The newest live document and the number of documents decide the content of a collection:
        // since that write documents can only have been deleted.
        match self.source {
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

fn rows_of<'t, T: Transaction>(tx: &'t T, selector: &IdSelector) -> Rows<'t> {
    match selector {
        IdSelector::Id(id) => match DocumentId::new(id.as_str()) {
            Ok(id) => Box::new(documents::get(tx, &id).transpose().into_iter()),
            // A text that is too long for an id names no document.
            Err(_) => Box::new(std::iter::empty()),
        },
        IdSelector::Prefix(prefix) => match documents::by_prefix(tx, prefix, None) {
            Ok(rows) => Box::new(rows),
            Err(error) => Box::new(std::iter::once(Err(error))),
        },
    }
}

/// The last `length` rows, the last one first. Ids are read upwards only, so the rows of the page
/// are kept until the end is reached.
fn last_first(rows: Rows<'_>, length: u64) -> Result<Rows<'_>, DocumentError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut last = VecDeque::new();
    for row in rows {
        last.push_back(row?);
        if length < last.len() {
            last.pop_front();
        }
    }
    Ok(Box::new(last.into_iter().rev().map(Ok)))
}
