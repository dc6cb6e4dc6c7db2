//! The answer to a query: what is known before the first row, then the rows, then the includes.
//!
//! Nothing is collected but the ids of included documents, so memory follows the page.

use std::cell::RefCell;
use std::collections::HashSet;

use documents::{DocumentError, DocumentRow};
use model::DocumentId;
use script::BoundProjection;
use storage::Transaction;

use crate::distinct::DistinctRows;
use crate::error::QueryError;
use crate::plan::ShownRows;
use crate::projection::write_projection_metadata;
use crate::row_script::{self, Beside, RowHost, arguments_of, load_beside};

/// One row on its way out.
pub struct Row<'t> {
    /// The document that it shows, or shows something of.
    pub document: DocumentRow<'t>,
    /// What an index gave it; none without an index.
    pub score: Option<f32>,
    /// What an index stored of it, JSON, by projected field; empty when nothing is taken from there.
    pub(crate) stored: Vec<Option<&'t [u8]>>,
}

/// Rows one after the other.
pub(crate) type Rows<'t> = Box<dyn Iterator<Item = Result<Row<'t>, QueryError>> + 't>;

/// Where the rows of a query come from.
pub(crate) trait RowSource<'t> {
    /// The rows in the order of the query: `count` of them, the first `first` left out.
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError>;

    /// How many rows of [`RowSource::rows`] are left out because they repeat a document.
    fn repeated(&self, _first: usize, _count: usize) -> Result<u64, QueryError> {
        Ok(0)
    }
}

/// What is told of a result beside its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFacts {
    /// The name under which the answer says it was found.
    pub index_name: String,
    /// How many documents the query chooses without paging; -1 when that is not counted.
    pub total_results: i64,
    /// A number that changes when the answer may have.
    pub result_etag: i64,
    /// Of the index; `None` for a collection, which is never stale.
    pub index: Option<IndexFacts>,
}

/// What is told of the index that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// Whether changes that were there before the query are missing in the answer.
    pub is_stale: bool,
    /// When it last indexed, in ticks.
    pub timestamp_ticks: i64,
    /// When it was last asked, in ticks.
    pub last_query_ticks: i64,
}

/// See the module.
pub struct QueryResult<'t, T> {
    documents: &'t T,
    source: Box<dyn RowSource<'t> + 't>,
    rows: Rows<'t>,
    shown: ShownRows,
    script: Option<&'t BoundProjection<'t>>,
    facts: ResultFacts,
    included: Included,
    /// Ids that scripts wanted to be given along.
    wanted: RefCell<Vec<String>>,
}

/// The ids that included paths found, and the ids of the rows, which are not repeated.
#[derive(Default)]
struct Included {
    in_order: Vec<DocumentId>,
    met: HashSet<DocumentId>,
    rows: HashSet<DocumentId>,
}

impl<'t, T: Transaction> QueryResult<'t, T> {
    pub(crate) fn new(
        documents: &'t T,
        source: Box<dyn RowSource<'t> + 't>,
        shown: ShownRows,
        facts: ResultFacts,
    ) -> Result<Self, QueryError> {
        let start = usize::try_from(shown.window.start).unwrap_or(usize::MAX);
        let page_size = usize::try_from(shown.window.page_size).unwrap_or(usize::MAX);
        let rows: Rows<'t> = match shown.distinct_projection() {
            None => source.rows(start, page_size)?,
            Some(projection) => {
                let rows = source.rows(0, usize::MAX)?;
                Box::new(DistinctRows::new(rows, projection.clone()).skip(start).take(page_size))
            }
        };
        let included = Included::default();
        let wanted = RefCell::default();
        Ok(Self { documents, source, rows, shown, script: None, facts, included, wanted })
    }

    /// The same result with the script that makes its rows; see [`crate::RowScript`].
    #[must_use]
    pub fn with_script(mut self, script: Option<&'t BoundProjection<'t>>) -> Self {
        self.script = script;
        self
    }

    /// What is told of the result beside its rows.
    pub fn facts(&self) -> &ResultFacts {
        &self.facts
    }

    /// How many documents the query chooses without paging; -1 when that is not counted.
    pub fn total_results(&self) -> i64 {
        self.facts.total_results
    }

    /// How many rows the text's own `limit` and `offset` leave; absent without either.
    pub fn capped_max_results(&self) -> Option<i64> {
        self.shown.window.capped_max_results(u64::try_from(self.facts.total_results).ok())
    }

    /// How many rows are left out as repetitions up to the end of the page: by `select distinct`, and
    /// where an index has several entries of one document. They are counted by going through the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`], and too many different rows.
    pub fn skipped_results(&self) -> Result<u64, QueryError> {
        let window = &self.shown.window;
        let Some(projection) = self.shown.distinct_projection() else {
            let start = usize::try_from(window.start).unwrap_or(usize::MAX);
            let page_size = usize::try_from(window.page_size).unwrap_or(usize::MAX);
            return self.source.repeated(start, page_size);
        };
        let rows = self.source.rows(0, usize::MAX)?;
        let mut distinct = DistinctRows::new(rows, projection.clone());
        let mut wanted = window.start.saturating_add(window.page_size);
        while 0 < wanted && distinct.next().transpose()?.is_some() {
            wanted -= 1;
        }
        Ok(distinct.skipped())
    }

    /// The name under which the answer says it was found.
    pub fn index_name(&self) -> &str {
        &self.facts.index_name
    }

    /// A number that changes when the answer may have: whenever a document that the query looks at
    /// is written or deleted. With includes that is any document.
    pub fn result_etag(&self) -> i64 {
        self.facts.result_etag
    }

    /// The included paths as the answer repeats them; `None` without an `include` clause.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        match self.shown.includes.as_slice() {
            [] => None,
            includes => Some(includes.iter().map(|include| include.path.as_str()).collect()),
        }
    }

    /// Whether rows are projections instead of documents.
    pub fn is_projection(&self) -> bool {
        self.shown.projection.is_some() || self.shown.is_script
    }

    /// The next row.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`]; the answer ends there.
    pub fn next_row(&mut self) -> Result<Option<Row<'t>>, QueryError> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        if !self.shown.includes.is_empty() {
            self.included.add(&row.document, &self.shown)?;
        }
        Ok(Some(row))
    }

    /// Appends a row as JSON: the whole document or its projection.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`] when the document is damaged; `out` then ends in the middle of it.
    pub fn write_row(&self, row: &Row<'t>, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let loads = match self.is_projection() {
            true => self.shown.loads.as_slice(),
            false => &[],
        };
        let beside = load_beside(self.documents, loads, &row.document)?;
        if self.shown.is_script {
            return self.write_script_row(row, &beside, out);
        }
        match &self.shown.projection {
            Some(projection) => projection.write_json(row, &beside, out),
            None => Ok(documents::write_found_document_json(&row.document, row.score, out)?),
        }
    }

    fn write_script_row(
        &self,
        row: &Row<'t>,
        beside: &[Beside<'t>],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let Some(script) = self.script else {
            let message = "The rows of this query are made by a script, and nobody runs it";
            return Err(QueryError::InvalidOperation { message: message.to_owned() });
        };
        let mut host = RowHost { documents: self.documents, included: &self.wanted };
        let arguments = arguments_of(&row.document, beside)?;
        for (number, value) in row_script::run(script, &arguments, &mut host)?.iter().enumerate() {
            if 0 < number {
                out.push(b',');
            }
            let mark = out.len();
            value.write_json(out)?;
            // The row's own metadata goes in front of the closing brace.
            out.truncate(out.len() - 1);
            if mark + 1 < out.len() {
                out.push(b',');
            }
            write_projection_metadata(row, true, out);
            out.push(b'}');
        }
        Ok(())
    }

    /// The documents to give along with the rows that [`QueryResult::next_row`] has given, in the
    /// order in which they were met; rows themselves and missing documents are not among them.
    pub fn includes(&self) -> impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + '_ {
        let wanted: Vec<DocumentId> = self
            .wanted
            .borrow()
            .iter()
            .filter_map(|id| DocumentId::new(id.as_str()).ok())
            .filter(|id| !self.included.met.contains(id))
            .collect();
        let ids = self.included.in_order.iter().filter(|id| !self.included.rows.contains(*id));
        let ids: Vec<_> = ids.cloned().chain(distinct(wanted)).collect();
        ids.into_iter().filter_map(|id| documents::get(self.documents, &id).transpose())
    }
}

fn distinct(ids: Vec<DocumentId>) -> impl Iterator<Item = DocumentId> {
    let mut met = HashSet::new();
    ids.into_iter().filter(move |id| met.insert(id.clone()))
}

impl Included {
    fn add(&mut self, row: &DocumentRow<'_>, shown: &ShownRows) -> Result<(), QueryError> {
        if shown.projection.is_none() {
            self.rows.extend(DocumentId::new(row.id()).ok());
        }
        for path in shown.includes.iter().filter_map(|include| include.in_document.as_ref()) {
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
