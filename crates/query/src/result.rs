//! The answer to a query: what is known before the first row, then the rows, then the includes.
//!
//! Nothing is collected but the ids of included documents, so memory follows the page.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blittable::{ParseLimits, parse_document, write_json};
use cluster_state::DatabaseValues;
use documents::{DocumentError, DocumentRow};
use model::DocumentId;
use script::{Argument, BoundProjection};
use search::SearchError;
use storage::{Held, Transaction, WorkingMemory};

use crate::counted_rows::CountedRows;
use crate::counter_includes::IncludedCounters;
use crate::distinct::{Content, ContentOf, DistinctRows};
use crate::error::QueryError;
use crate::filtered_rows::FilteredRows;
use crate::included_documents::{Included, distinct};
use crate::included_values::IncludedValues;
use crate::loaded::Loaded;
use crate::made_object::MadeObject;
use crate::page_rows::PageRows;
use crate::paging::{UNKNOWN_TOTAL, as_long};
use crate::plan::ShownRows;
use crate::revision_includes::IncludedRevisions;
use crate::row::{Row, RowSource, Rows};
use crate::row_counts::RowCounts;
use crate::row_document::{Marked, printed_bytes};
use crate::row_notes::Notes;
use crate::row_script::{
    self, BoundScripts, RowHost, Sources, Wanted, arguments_of, load_for_row, row_for_filter,
};
use crate::series_includes::IncludedSeries;
use crate::time_series::{
    NoSettings, PlannedSeries, SeriesCalls, SeriesForm, SeriesSettings, SeriesShown, StoredSeries,
};

/// What the notes of a row are thought to take.
const NOTES_OF_ROW_BYTES: u64 = 384;
/// Notes are not thought to take more than this.
const NOTES_EXPECTED_BYTES_MAX: u64 = 8 << 20;
const METADATA: &str = "@metadata";
/// Printed JSON has none.
const LINE_BREAK: &[u8] = b"\n";

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
    sources: Sources<'t, T>,
    source: Box<dyn RowSource<'t> + 't>,
    /// `None` until the first one is asked for.
    rows: Option<Rows<'t>>,
    /// A row for which there was no room, and whether it is yet to be looked at for what is given along.
    waiting: Option<(Row<'t>, bool)>,
    /// The rows that are being counted, until that is done.
    counting: Option<CountedRows<'t>>,
    shown: ShownRows,
    scripts: Option<&'t BoundScripts<'t>>,
    series: SeriesOptions<'t>,
    /// Set when the query is to end without an answer.
    stop: Arc<AtomicBool>,
    /// What the filter did with the rows of the page, or `select distinct` without one, once it was
    /// counted.
    filtered: Option<Filtered>,
    facts: ResultFacts,
    included: Included,
    revisions: IncludedRevisions<'t>,
    counters: IncludedCounters,
    included_series: IncludedSeries,
    notes: Notes,
    /// What the notes, and the ids of what is given along, take until the last row is written.
    beside: Held,
    included_values: IncludedValues,
    /// What scripts wanted to be given along.
    wanted: Rc<RefCell<Wanted>>,
    /// Where what rows take while they are made is counted.
    memory: Rc<WorkingMemory>,
}

/// How time series are shown.
#[derive(Clone, Copy, Default)]
pub struct SeriesOptions<'n> {
    /// The form of the answer.
    pub form: SeriesForm,
    /// What the database says of them.
    pub settings: Option<&'n dyn SeriesSettings>,
    /// Whether the names of values are told beside them.
    pub tells_names: bool,
}

impl<'n> SeriesOptions<'n> {
    fn calls<'s>(
        &self,
        functions: &'s [PlannedSeries],
        stop: &'s AtomicBool,
        memory: &'s WorkingMemory,
    ) -> SeriesCalls<'s>
    where
        'n: 's,
    {
        SeriesCalls { functions, settings: self.settings, stop, memory }
    }

    fn shown<'s, T: Transaction>(
        &'s self,
        stored: &'s StoredSeries<'_, T>,
        memory: &'s WorkingMemory,
    ) -> SeriesShown<'s>
    where
        'n: 's,
    {
        SeriesShown {
            reader: stored,
            tags: stored,
            settings: self.settings.unwrap_or(&NoSettings),
            tells_names: self.tells_names,
            form: self.form,
            memory,
        }
    }
}

/// What a filter did on the way to the rows of a page.
#[derive(Clone, Copy, Debug)]
struct Filtered {
    scanned: u64,
    skipped: u64,
}

impl<'t, T: Transaction> QueryResult<'t, T> {
    pub(crate) fn new(
        (documents, values): (&'t T, Option<&'t DatabaseValues>),
        source: Box<dyn RowSource<'t> + 't>,
        shown: ShownRows,
        facts: ResultFacts,
    ) -> Result<Self, QueryError> {
        let memory: Rc<WorkingMemory> = Rc::default();
        let mut result = Self {
            sources: Sources { documents, values },
            source,
            rows: None,
            waiting: None,
            counting: None,
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
            beside: memory.holding(),
            included_values: IncludedValues::default(),
            wanted: Rc::default(),
            memory,
        };
        if !result.shown.needs_scripts() {
            result.rows = Some(result.page_rows(&Rc::default())?);
        }
        Ok(result)
    }

    /// The same result with the scripts that choose its rows and make them.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Option<&'t BoundScripts<'t>>) -> Self {
        self.scripts = scripts;
        self
    }

    /// The same result, ending with [`QueryError::Index`] soon after the flag is set while a filter or
    /// `select distinct` looks at rows.
    #[must_use]
    pub fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Runs the filter of the query, if there is one, so that it is known what it leaves out. Without
    /// that the rows are filtered as they are asked for.
    ///
    /// # Errors
    ///
    /// As [`QueryResult::next_row`]; after [`QueryError::Memory`] it goes on from where it is when it is called
    /// again.
    pub fn count_filtered(&mut self) -> Result<(), QueryError> {
        let counts_distinct = self.shown.is_distinct && self.shown.window.page_size == 0;
        let is_filter = counts_distinct || self.shown.filter_limit.is_some();
        if !is_filter || self.filtered.is_some() {
            return Ok(());
        }
        let mut counting = match self.counting.take() {
            Some(counting) => counting,
            None => self.begin_to_count(counts_distinct)?,
        };
        if let Err(error) = counting.count() {
            self.counting = Some(counting).filter(|_| error.is_for_want_of_memory());
            return Err(error);
        }
        let (counts, found) = (Rc::clone(&counting.counts), counting.found);
        let scanned = counts.scanned();
        if counts_distinct {
            self.facts.total_results = as_long(found);
            let skipped = counts.repeated() + scanned - counts.passed();
            self.filtered = Some(Filtered { scanned, skipped });
            self.rows = Some(Box::new(std::iter::empty()));
            return Ok(());
        }
        if self.facts.index.is_none() && self.facts.total_results != UNKNOWN_TOTAL {
            self.facts.total_results = as_long(counts.passed());
        }
        self.filtered = Some(Filtered { scanned, skipped: scanned.saturating_sub(found) });
        self.rows = match self.shown.window.page_size {
            0 => Some(Box::new(std::iter::empty())),
            _ => counting.into_kept(),
        };
        Ok(())
    }

    /// The rows to count: those of the page, or all of them for a client that asks for no rows and so wants to
    /// know how many there are.
    fn begin_to_count(&self, counts_distinct: bool) -> Result<CountedRows<'t>, QueryError> {
        let counts = Rc::new(RowCounts::default());
        let counts_all = self.facts.index.is_none() && self.shown.window.page_size == 0;
        let rows = match counts_distinct {
            true => {
                let rows = match self.shown.filter_limit.is_some() {
                    true => self.filtered_rows(&counts)?,
                    false => self.source.rows(0, usize::MAX)?,
                };
                Box::new(DistinctRows::new(rows, self.content_of()?, &counts, &self.memory))
            }
            false if counts_all => self.filtered_rows(&counts)?,
            false => self.page_rows(&counts)?,
        };
        let keeps = !counts_distinct && !counts_all;
        Ok(CountedRows::new(rows, counts, keeps, &self.memory))
    }

    /// The rows of the page.
    fn page_rows(&self, counts: &Rc<RowCounts>) -> Result<Rows<'t>, QueryError> {
        let start = usize::try_from(self.shown.window.start).unwrap_or(usize::MAX);
        let page_size = usize::try_from(self.shown.window.page_size).unwrap_or(usize::MAX);
        let is_filtered = self.shown.filter_limit.is_some();
        if !is_filtered && !self.shown.is_distinct {
            return self.source.rows(start, page_size);
        }
        let rows = match is_filtered {
            true => self.filtered_rows(counts)?,
            false => self.source.rows(0, usize::MAX)?,
        };
        if !self.shown.is_distinct {
            return Ok(Box::new(PageRows::new(rows, 0, page_size)));
        }
        let distinct = DistinctRows::new(rows, self.content_of()?, counts, &self.memory);
        // The filter has passed the beginning of its page already.
        Ok(Box::new(PageRows::new(distinct, if is_filtered { 0 } else { start }, page_size)))
    }

    /// The rows that the filter lets through, from the beginning of the page on.
    fn filtered_rows(&self, counts: &Rc<RowCounts>) -> Result<Rows<'t>, QueryError> {
        let Some(filter) = self.scripts.and_then(BoundScripts::filter) else {
            return Err(without_scripts());
        };
        let start = usize::try_from(self.shown.window.start).unwrap_or(usize::MAX);
        let rows = self.source.rows(start, usize::MAX)?;
        let (sources, wanted) = (self.sources, Rc::clone(&self.wanted));
        let (loads, stop) = (self.shown.loads.clone(), Arc::clone(&self.stop));
        let (options, functions) = (self.series, self.series_functions());
        let memory = Rc::clone(&self.memory);
        let passes = move |row: &mut Row<'t>| {
            end_if_stopped(&stop)?;
            row.count(&memory)?;
            let _scope = memory.scope();
            let (id, root) = (row.document.id(), row.document.root()?);
            let beside = load_for_row(sources, &loads, id, root, &memory)?;
            let row = row_for_filter(&row.document, &memory)?;
            let arguments = arguments_of(row, &beside, &memory)?;
            let series = options.calls(functions, &stop, &memory);
            let (wanted, memory) = (&*wanted, &*memory);
            let mut host = RowHost { sources, wanted, series, memory, result_bytes: 0 };
            row_script::passes(filter, &arguments, &mut host)
        };
        let scanned_max = self.shown.filter_limit.unwrap_or(u64::MAX);
        Ok(Box::new(FilteredRows::new(rows, Box::new(passes), scanned_max, counts)))
    }

    /// What rows show, for telling them apart.
    fn content_of(&self) -> Result<ContentOf<'t>, QueryError> {
        let (sources, loads) = (self.sources, self.shown.loads.clone());
        let (options, stop) = (self.series, Arc::clone(&self.stop));
        let memory = Rc::clone(&self.memory);
        if let Some(projection) = self.shown.projection.clone() {
            return Ok(Box::new(move |row| {
                end_if_stopped(&stop)?;
                row.count(&memory)?;
                let _scope = memory.scope();
                let (id, root) = (row.document.id(), row.document.root()?);
                let beside = load_for_row(sources, &loads, id, root, &memory)?;
                let mut shown = Vec::new();
                let stored = StoredSeries::new(sources.documents, &stop);
                let series = options.shown(&stored, &memory);
                projection.write_fields(row, &beside, &series, &mut shown)?;
                Ok(Content::Fields(shown))
            }));
        }
        let Some(script) = self.scripts.and_then(BoundScripts::rows) else {
            return Err(without_scripts());
        };
        let (wanted, stored) = (Rc::clone(&self.wanted), self.shown.script_fields.clone());
        let functions = self.series_functions();
        Ok(Box::new(move |row| {
            end_if_stopped(&stop)?;
            row.count(&memory)?;
            let (scope, mut held) = (memory.scope(), memory.holding());
            let (id, root) = (row.document.id(), row.document.root()?);
            let beside = load_for_row(sources, &loads, id, root, &memory)?;
            let arguments = arguments_of(stored.document_of(row, &memory)?, &beside, &memory)?;
            let series = options.calls(functions, &stop, &memory);
            let (wanted, memory) = (&*wanted, &*memory);
            let mut host = RowHost { sources, wanted, series, memory, result_bytes: 0 };
            let replaced = stored.replaces(row).then(|| row.document.id()).flatten();
            let made = made_by(script, &arguments, &mut host, replaced)?;
            held.end(scope, made.iter().map(MadeObject::bytes).sum());
            Ok(Content::Made(made, held))
        }))
    }

    /// The same result with time series shown in another way.
    #[must_use]
    pub fn with_series(mut self, series: SeriesOptions<'t>) -> Self {
        self.series = series;
        if self.shown.is_distinct {
            // Rows are told apart by what they show.
            self.rows = None;
        }
        self
    }

    fn series_functions(&self) -> &'t [PlannedSeries] {
        self.scripts.map(BoundScripts::series).unwrap_or_default()
    }

    /// The columns of a table in which each row is an entry or a group of a time series; `None` when
    /// something else is shown.
    pub fn series_columns(&self) -> Option<Vec<String>> {
        self.shown.projection.as_ref()?.only_series().map(|series| series.column_names())
    }

    /// The names of the fields of the rows that are results of time series, none where one is the whole
    /// row; `None` when nothing of time series is shown.
    pub fn series_fields(&self) -> Option<Vec<&str>> {
        self.shown.projection.as_ref()?.series_fields()
    }

    /// The documents that it was made from.
    pub fn documents(&self) -> &'t T {
        self.sources.documents
    }

    /// What is told of the result beside its rows.
    pub fn facts(&self) -> &ResultFacts {
        &self.facts
    }

    /// How many documents the query chooses without paging; -1 when that is not counted.
    pub fn total_results(&self) -> i64 {
        self.facts.total_results
    }

    /// How many rows are looked at for the page, at most; `None` when that is not counted. So much is
    /// still to be done.
    pub fn rows_max(&self) -> Option<u64> {
        let total = u64::try_from(self.facts.total_results).ok()?;
        match self.shown.walks_rows() {
            true => Some(total),
            false => Some(total.min(self.shown.window.page_size)),
        }
    }

    /// How many rows the text's own `limit` and `offset` leave; absent without either, and of an index
    /// when they leave none.
    pub fn capped_max_results(&self) -> Option<i64> {
        let total = u64::try_from(self.facts.total_results).ok();
        let capped = self.shown.window.capped_max_results(total);
        capped.filter(|capped| self.facts.index.is_none() || 0 < *capped)
    }

    /// How many rows the filter looked at; none without a filter.
    pub fn scanned_results(&self) -> u64 {
        self.filtered.map_or(0, |filtered| filtered.scanned)
    }

    /// How many rows are left out up to the end of the page: by a filter, by `select distinct`, and as
    /// repetitions where an index has several entries of one document. They are counted by going
    /// through the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`], and too many different rows.
    pub fn skipped_results(&self) -> Result<u64, QueryError> {
        if let Some(filtered) = self.filtered {
            return Ok(filtered.skipped);
        }
        let window = &self.shown.window;
        if !self.shown.is_distinct {
            let start = usize::try_from(window.start).unwrap_or(usize::MAX);
            let page_size = usize::try_from(window.page_size).unwrap_or(usize::MAX);
            return self.source.repeated(start, page_size);
        }
        let counts = Rc::new(RowCounts::default());
        for row in self.page_rows(&counts)? {
            row?;
        }
        Ok(counts.repeated())
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
        self.shown.projection.is_some() || self.shown.is_script || self.shown.shows_loaded.is_some()
    }

    /// The next row.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`]; the answer ends there. After [`QueryError::Memory`] the same row may be asked for
    /// again.
    pub fn next_row(&mut self) -> Result<Option<Row<'t>>, QueryError> {
        let (mut row, is_new) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.found_row()? {
                Some(row) => (row, true),
                None => return Ok(None),
            },
        };
        if let Err(error) = row.count(&self.memory) {
            self.waiting = Some((row, is_new));
            return Err(error);
        }
        if is_new {
            self.add_beside(&row)?;
        }
        if let Err(error) = self.beside.grow_to(self.beside_bytes()) {
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

    /// What is given along with all rows takes.
    fn beside_bytes(&self) -> u64 {
        self.notes.bytes() as u64 + self.included.bytes + self.wanted.borrow().bytes
    }

    /// Notes what is given along with a row.
    fn add_beside(&mut self, row: &Row<'t>) -> Result<(), QueryError> {
        if !self.shown.includes.is_empty() {
            self.included.add(&row.document, &self.shown)?;
        }
        if !self.shown.revisions.is_empty() {
            let document = &row.document;
            self.revisions.add(
                self.sources.documents,
                &self.shown.revisions,
                document.stored().map(|document| document.lower_id()),
                document.root()?,
            )?;
        }
        if !self.shown.series.is_empty() {
            let (id, root) = (row.document.id(), row.document.root()?);
            self.included_series.add(&self.shown.series, id, root)?;
        }
        if !self.shown.counters.is_empty() {
            let (documents, includes) = (self.sources.documents, &self.shown.counters);
            self.counters.add(documents, includes, row.document.id(), row.document.root()?)?;
        }
        for path in self.shown.values.iter().filter_map(|include| include.in_document.as_ref()) {
            self.included_values.add_found(path, row.document.root()?)?;
        }
        if !self.shown.notes.is_empty() {
            self.notes.add(&self.shown.notes, self.source.notes(row)?)?;
        }
        Ok(())
    }

    /// Whether older versions are to be given along.
    pub fn wants_revisions(&self) -> bool {
        !self.shown.revisions.is_empty()
    }

    /// The older versions to give along with the rows that [`QueryResult::next_row`] has given.
    pub fn revisions(&self) -> &IncludedRevisions<'t> {
        &self.revisions
    }

    /// The time series to give along with the rows that [`QueryResult::next_row`] has given; `None`
    /// when none are asked for.
    pub fn included_series(&self) -> Option<&IncludedSeries> {
        (!self.shown.series.is_empty()).then_some(&self.included_series)
    }

    /// What counters say, to give along with the rows that [`QueryResult::next_row`] has given; `None`
    /// when that is not asked for.
    pub fn counters(&self) -> Option<&IncludedCounters> {
        (!self.shown.counters.is_empty()).then_some(&self.counters)
    }

    /// Whether the query itself asks for values of compare exchange to be given along.
    pub fn wants_values(&self) -> bool {
        !self.shown.values.is_empty()
    }

    /// The values of compare exchange to give along with the rows that [`QueryResult::next_row`] has
    /// given: their keys, and where they are read.
    pub fn included_values(&self) -> Option<(IncludedValues, &'t DatabaseValues)> {
        let mut included = self.included_values.clone();
        self.wanted.borrow().values.keys().iter().for_each(|key| included.add(key));
        let values = self.sources.values?;
        (!included.keys().is_empty()).then_some((included, values))
    }

    /// What is told of the rows that [`QueryResult::next_row`] has given, beside them.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Counts what the notes of the rows are likely to take: they are in memory until the last row is written,
    /// and when some rows are on their way it is late to be refused. Without notes it counts nothing.
    ///
    /// # Errors
    ///
    /// [`QueryError::Memory`] when there is no room; it may be tried again.
    pub fn expect_notes(&mut self) -> Result<(), QueryError> {
        if self.shown.notes.is_empty() {
            return Ok(());
        }
        let rows = self.rows_max().unwrap_or(u64::MAX);
        let bytes = rows.saturating_mul(NOTES_OF_ROW_BYTES).min(NOTES_EXPECTED_BYTES_MAX);
        Ok(self.beside.grow_to(bytes)?)
    }

    /// Whether fragments of the rows are asked for.
    pub fn wants_highlights(&self) -> bool {
        !self.shown.notes.highlights.is_empty()
    }

    /// Whether the scores of the rows are to be explained.
    pub fn wants_explanations(&self) -> bool {
        self.shown.notes.explanations.is_some()
    }

    /// The same result, which counts there what rows take while they are made. What is already filtered is
    /// not filtered again.
    #[must_use]
    pub fn counted_in(mut self, memory: &Rc<WorkingMemory>) -> Self {
        if Rc::ptr_eq(&self.memory, memory) {
            return self;
        }
        self.memory = Rc::clone(memory);
        self.beside = memory.holding();
        if self.shown.is_distinct && self.filtered.is_none() {
            self.rows = None;
        }
        self
    }

    /// Appends a row as JSON: the whole document or its projection. A script may make several rows of
    /// it, which `between` keeps apart, or none. What that takes is counted in the scope that the caller has
    /// begun.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`] when the document is damaged, [`QueryError::Memory`] when there is no room
    /// for what it takes: then it may be written again later. `out` then ends in the middle of it.
    pub fn write_row(
        &self,
        row: &Row<'t>,
        between: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let loads = match self.is_projection() {
            true => self.shown.loads.as_slice(),
            false => &[],
        };
        let (id, root) = (row.document.id(), row.document.root()?);
        let beside = load_for_row(self.sources, loads, id, root, &self.memory)?;
        if self.shown.is_script {
            return self.write_script_row(row, &beside, between, out);
        }
        if let Some(at) = self.shown.shows_loaded {
            return write_loaded(row, beside.get(at), &self.memory, out);
        }
        match &self.shown.projection {
            Some(projection) => {
                let stored = StoredSeries::new(self.sources.documents, &self.stop);
                let series = self.series.shown(&stored, &self.memory);
                projection.write_json(row, &beside, &series, between, out)
            }
            None => {
                self.memory.take(printed_bytes(&row.document.body()?)?)?;
                row.document.write_json(row.told(), out)
            }
        }
    }

    /// The document that a row is as it is, with the further properties of its metadata, each with a comma
    /// before it: it may be printed in pieces, see [`documents::DocumentPrinter::found`].
    pub fn whole_document<'r>(&self, row: &'r Row<'t>) -> Option<(&'r DocumentRow<'t>, Vec<u8>)> {
        let document = row.document.stored().filter(|_| !self.is_projection())?;
        let mut beside = Vec::new();
        row.told().write(&mut beside);
        Some((document, beside))
    }

    /// Appends nothing but the metadata of a row, as it is shown with the row.
    ///
    /// # Errors
    ///
    /// As [`QueryResult::write_row`].
    pub fn write_row_metadata(
        &self,
        row: &Row<'t>,
        between: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if !self.is_projection() {
            return row.document.write_metadata_json(row.told(), out);
        }
        let mut rows = Vec::new();
        self.write_row(row, LINE_BREAK, &mut rows)?;
        self.memory.take(rows.len() as u64)?;
        let rows = rows.split(|byte| LINE_BREAK.contains(byte)).filter(|row| !row.is_empty());
        for (number, row) in rows.enumerate() {
            if 0 < number {
                out.extend_from_slice(between);
            }
            let row = parse_document(row, &ParseLimits::default()).map_err(|error| {
                let message = format!("A row cannot be shown without its fields: {error}");
                QueryError::InvalidOperation { message }
            })?;
            out.extend_from_slice(b"{\"@metadata\":");
            match row.as_view().root().get(METADATA)? {
                Some(metadata) => write_json(&metadata, out)?,
                None => out.extend_from_slice(b"{}"),
            }
            out.push(b'}');
        }
        Ok(())
    }

    fn write_script_row(
        &self,
        row: &Row<'t>,
        beside: &[Loaded<'t>],
        between: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let objects: Cow<'_, [MadeObject]> = match &row.made {
            Some(made) => Cow::Borrowed(made),
            None => {
                let script = self.scripts.and_then(BoundScripts::rows);
                let script = script.ok_or_else(without_scripts)?;
                let memory = &*self.memory;
                let document = self.shown.script_fields.document_of(row, memory)?;
                let arguments = arguments_of(document, beside, memory)?;
                let series = self.series.calls(self.series_functions(), &self.stop, memory);
                let (sources, wanted) = (self.sources, &*self.wanted);
                let mut host = RowHost { sources, wanted, series, memory, result_bytes: 0 };
                let replaced = self.shown.script_fields.replaces(row);
                let replaced = replaced.then(|| row.document.id()).flatten();
                Cow::Owned(made_by(script, &arguments, &mut host, replaced)?)
            }
        };
        for (number, object) in objects.iter().enumerate() {
            if 0 < number {
                out.extend_from_slice(between);
            }
            object.write(row, self.sources.documents, &self.memory, out)?;
        }
        Ok(())
    }

    /// The documents to give along with the rows that [`QueryResult::next_row`] has given, in the
    /// order in which they were met; rows themselves and missing documents are not among them.
    pub fn includes(&self) -> impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + '_ {
        let wanted: Vec<DocumentId> = self
            .wanted
            .borrow()
            .documents
            .iter()
            .filter_map(|id| DocumentId::new(id.as_str()).ok())
            .filter(|id| !self.included.met.contains(id))
            .collect();
        let ids = self.included.in_order.iter().filter(|id| !self.included.rows.contains(*id));
        let ids: Vec<_> = ids.cloned().chain(distinct(wanted)).collect();
        ids.into_iter().filter_map(|id| documents::get(self.sources.documents, &id).transpose())
    }
}

/// Appends a loaded document in the place of a row; what was not found shows nothing.
fn write_loaded(
    row: &Row<'_>,
    loaded: Option<&Loaded<'_>>,
    memory: &WorkingMemory,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    if let Some(Loaded::One(Some(document))) = loaded {
        memory.take(printed_bytes(&document.body()?)?)?;
        let mut beside_id = Vec::new();
        row.told().with_score().write(&mut beside_id);
        return Ok(documents::write_found_document_json(document, &beside_id, out)?);
    }
    out.push(b'{');
    row.document.write_metadata(row.told(), Marked::FromDocument, out);
    out.push(b'}');
    Ok(())
}

fn without_scripts() -> QueryError {
    let message = "A part of this query is a script, and nobody runs it";
    QueryError::InvalidOperation { message: message.to_owned() }
}

/// The objects that a script makes of a row. The document `replaced` is not what the script saw of it.
fn made_by<T: Transaction>(
    script: &BoundProjection<'_>,
    arguments: &[Argument],
    host: &mut RowHost<'_, T>,
    replaced: Option<&str>,
) -> Result<Vec<MadeObject>, QueryError> {
    let values = row_script::run(script, arguments, host)?;
    // As much again while they are printed.
    host.memory.take(host.result_bytes)?;
    values.into_iter().map(|value| MadeObject::of(value, replaced)).collect()
}

fn end_if_stopped(stop: &AtomicBool) -> Result<(), QueryError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(SearchError::Interrupted.into()),
        false => Ok(()),
    }
}
