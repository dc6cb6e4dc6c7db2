//! The result of a query: what is known before the first row, then the rows, then the includes.
//!
//! Only the ids of included documents are collected, so memory use depends on the page size.

mod collected;
mod selected_rows;
mod series_options;
mod written_rows;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cluster_state::DatabaseValues;
use storage::{Held, Transaction, WorkingMemory};

use crate::counted_rows::CountedRows;
use crate::counter_includes::IncludedCounters;
use crate::error::QueryError;
use crate::included_documents::Included;
use crate::included_values::IncludedValues;
use crate::plan::ShownRows;
use crate::planned_source::PlannedSource;
use crate::revision_includes::IncludedRevisions;
use crate::row::{Row, RowSource, Rows};
use crate::row_counts::RowCounts;
use crate::row_notes::Notes;
use crate::row_script::{BoundScripts, Sources, Wanted};
use crate::series_includes::IncludedSeries;
use crate::time_series::PlannedSeries;

pub(crate) use self::selected_rows::Filtered;
pub use self::series_options::SeriesOptions;

/// Facts about a result, reported with its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFacts {
    /// The index name that the response reports.
    pub index_name: String,
    /// How many documents the query selects without paging; -1 when they are not counted.
    pub total_results: i64,
    /// A number that changes whenever the response may have changed.
    pub result_etag: i64,
    /// Facts about the index; `None` for a collection, which is never stale.
    pub index: Option<IndexFacts>,
}

/// Facts about the index that ran the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// Whether changes made before the query are missing from the result.
    pub is_stale: bool,
    /// When it last indexed, in ticks.
    pub timestamp_ticks: i64,
    /// When it was last queried, in ticks.
    pub last_query_ticks: i64,
}

/// The result of a query on one snapshot; it belongs to one thread.
pub struct QueryResult<'t, T> {
    sources: Sources<'t, T>,
    source: Box<dyn RowSource<'t> + 't>,
    planned: PlannedSource,
    /// `None` until the first one is requested.
    rows: Option<Rows<'t>>,
    /// A row for which there was no memory, and whether its includes are still to be collected.
    waiting: Option<(Row<'t>, bool)>,
    /// The rows that are being counted, until that is complete.
    counting: Option<CountedRows<'t>>,
    /// What is skipped, as far as it is counted, while that waits for memory.
    skipping: Option<(Rows<'t>, Rc<RowCounts>)>,
    /// Rows of the page that were counted.
    counted_rows: u64,
    shown: Arc<ShownRows>,
    scripts: Option<&'t BoundScripts<'t>>,
    series: SeriesOptions<'t>,
    /// Set when the query is canceled.
    stop: Arc<AtomicBool>,
    /// Counts of the filter, or of `select distinct` without one, once the rows are counted.
    filtered: Option<Filtered>,
    facts: ResultFacts,
    included: Included,
    revisions: IncludedRevisions<'t>,
    counters: IncludedCounters,
    included_series: IncludedSeries,
    notes: Notes,
    /// Memory of the notes and of the ids to include, held until the last row is written.
    collected: Held,
    included_values: IncludedValues,
    /// The includes that scripts requested.
    wanted: Rc<RefCell<Wanted>>,
    /// Where the memory of a row is charged while it is produced.
    memory: Rc<WorkingMemory>,
}

impl<'t, T: Transaction> QueryResult<'t, T> {
    pub(crate) fn new(
        (documents, values): (&'t T, Option<&'t DatabaseValues>),
        (source, planned): (Box<dyn RowSource<'t> + 't>, PlannedSource),
        shown: Arc<ShownRows>,
        facts: ResultFacts,
    ) -> Result<Self, QueryError> {
        let memory: Rc<WorkingMemory> = Rc::default();
        let mut result = Self {
            sources: Sources { documents, values },
            source,
            planned,
            rows: None,
            waiting: None,
            counting: None,
            skipping: None,
            counted_rows: 0,
            shown,
            scripts: None,
            series: SeriesOptions::default(),
            stop: Arc::default(),
            filtered: None,
            facts,
            included: Included::default(),
            revisions: IncludedRevisions::default(),
            counters: IncludedCounters::default(),
            included_series: IncludedSeries::default(),
            notes: Notes::default(),
            collected: memory.holding(),
            included_values: IncludedValues::default(),
            wanted: Rc::default(),
            memory,
        };
        if !result.shown.needs_scripts() {
            result.rows = Some(result.page_rows(&Rc::default())?);
        }
        Ok(result)
    }

    /// What was planned, found and counted so far.
    pub(crate) fn work_done(
        &self,
    ) -> (&PlannedSource, &Arc<ShownRows>, &ResultFacts, Option<Filtered>) {
        // Without a page, what scripts include is known from counting alone.
        let filtered = self.filtered.filter(|_| self.shown.window.page_size != 0);
        (&self.planned, &self.shown, &self.facts, filtered)
    }

    /// The same result, whose filtered rows were counted before.
    pub(crate) fn with_counts(mut self, filtered: Option<Filtered>) -> Self {
        self.filtered = filtered;
        self
    }

    /// The same result with the scripts that select and produce its rows.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Option<&'t BoundScripts<'t>>) -> Self {
        self.scripts = scripts;
        self
    }

    /// The same result, which ends with [`QueryError::Index`] soon after the flag is set while a
    /// filter or `select distinct` scans rows.
    #[must_use]
    pub fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// The same result with time series returned in another way.
    #[must_use]
    pub fn with_series(mut self, series: SeriesOptions<'t>) -> Self {
        self.series = series;
        if self.shown.is_distinct {
            // Rows are compared by what they show.
            self.rows = None;
        }
        self
    }

    fn series_functions(&self) -> &'t [PlannedSeries] {
        self.scripts.map(BoundScripts::series).unwrap_or_default()
    }

    /// The columns of a table of the entries or groups of a time series; `None` for other results.
    pub fn series_columns(&self) -> Option<Vec<String>> {
        self.shown.projection.as_ref()?.only_series().map(|series| series.column_names())
    }

    /// The names of the fields that are time series results; empty if one is the whole row; `None`
    /// when nothing of time series is returned.
    pub fn series_fields(&self) -> Option<Vec<&str>> {
        self.shown.projection.as_ref()?.series_fields()
    }

    /// The snapshot that it reads documents from.
    pub fn documents(&self) -> &'t T {
        self.sources.documents
    }

    /// Facts about the result.
    pub fn facts(&self) -> &ResultFacts {
        &self.facts
    }

    /// How many documents the query selects without paging; -1 when they are not counted.
    pub fn total_results(&self) -> i64 {
        self.facts.total_results
    }

    /// Maximum number of rows scanned for the page, as a measure of the remaining work; `None` when
    /// that is not counted.
    pub fn rows_max(&self) -> Option<u64> {
        let total = u64::try_from(self.facts.total_results).ok()?;
        match self.shown.walks_rows() && self.filtered.is_none() {
            true => Some(total),
            false => Some(total.min(self.shown.window.page_size)),
        }
    }

    /// How many rows the text's own `limit` and `offset` leave; absent without either, and, with an
    /// index, when they leave none.
    pub fn capped_max_results(&self) -> Option<i64> {
        let total = u64::try_from(self.facts.total_results).ok();
        let capped = self.shown.window.capped_max_results(total);
        capped.filter(|capped| self.facts.index.is_none() || 0 < *capped)
    }

    /// The index name that the response reports.
    pub fn index_name(&self) -> &str {
        &self.facts.index_name
    }

    /// A number that changes whenever the response may have changed: when any document that the
    /// query reads is written or deleted; with includes, when any document of the database is.
    pub fn result_etag(&self) -> i64 {
        self.facts.result_etag
    }

    /// Whether rows are projections instead of documents.
    pub fn is_projection(&self) -> bool {
        self.shown.projection.is_some() || self.shown.is_script || self.shown.shows_loaded.is_some()
    }

    /// The next row.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`]; the response ends there. After [`QueryError::Memory`] the same
    /// row may be requested again.
    pub fn next_row(&mut self) -> Result<Option<Row<'t>>, QueryError> {
        let (mut row, is_new) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.found_row()? {
                Some(row) => (row, true),
                None => return Ok(None),
            },
        };
        if let Err(error) = row.charge_document(&self.memory) {
            self.waiting = Some((row, is_new));
            return Err(error);
        }
        if is_new {
            self.collect_includes(&row)?;
        }
        if let Err(error) = self.collected.grow_to(self.collected_bytes()) {
            self.waiting = Some((row, false));
            return Err(error.into());
        }
        Ok(Some(row))
    }

    fn found_row(&mut self) -> Result<Option<Row<'t>>, QueryError> {
        if self.rows.is_none() {
            self.rows = Some(self.page_rows(&Rc::default())?);
        }
        self.rows.as_mut().and_then(Iterator::next).transpose()
    }

    /// The same result, which charges the rows' memory to `memory` while they are produced. What is
    /// already filtered is not filtered again.
    #[must_use]
    pub fn counted_in(mut self, memory: &Rc<WorkingMemory>) -> Self {
        if Rc::ptr_eq(&self.memory, memory) {
            return self;
        }
        self.memory = Rc::clone(memory);
        self.collected = memory.holding();
        if self.shown.is_distinct && self.filtered.is_none() {
            self.rows = None;
        }
        self
    }
}
