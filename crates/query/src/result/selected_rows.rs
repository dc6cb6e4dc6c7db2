//! The rows of the page: what the filter and `select distinct` leave, and how many they drop.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use search::SearchError;
use storage::Transaction;

use super::QueryResult;
use super::written_rows::{made_by, without_scripts};
use crate::counted_rows::CountedRows;
use crate::distinct::{Content, ContentOf, DistinctRows};
use crate::error::QueryError;
use crate::filtered_rows::FilteredRows;
use crate::made_object::MadeObject;
use crate::page_rows::PageRows;
use crate::paging::{UNKNOWN_TOTAL, as_long};
use crate::row::{Row, Rows};
use crate::row_counts::RowCounts;
use crate::row_script::{self, BoundScripts, RowHost, arguments_of, load_for_row, row_for_filter};
use crate::time_series::StoredSeries;

/// What a filter did on the way to the rows of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filtered {
    scanned: u64,
    skipped: u64,
}

impl<'t, T: Transaction> QueryResult<'t, T> {
    /// Runs the filter of the query, if there is one, so that it is known what it drops. Otherwise
    /// rows are filtered lazily.
    ///
    /// # Errors
    ///
    /// As [`QueryResult::next_row`]; after [`QueryError::Memory`] a repeated call resumes.
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
            self.counting = Some(counting).filter(|_| error.is_out_of_memory());
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

    /// The rows to count: those of the page, or all of them if the request is for zero rows.
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
    pub(super) fn page_rows(&self, counts: &Rc<RowCounts>) -> Result<Rows<'t>, QueryError> {
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
        // The filter has already skipped the rows before its page.
        Ok(Box::new(PageRows::new(distinct, if is_filtered { 0 } else { start }, page_size)))
    }

    /// The rows that pass the filter, from the start of the page on.
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
            row.charge_document(&memory)?;
            let _scope = memory.scope();
            let (id, root) = (row.document.id(), row.document.root()?);
            let loaded = load_for_row(sources, &loads, id, root, &memory)?;
            let row = row_for_filter(&row.document, &memory)?;
            let arguments = arguments_of(row, &loaded, &memory)?;
            let series = options.calls(functions, &stop, &memory);
            let (wanted, memory) = (&*wanted, &*memory);
            let mut host = RowHost { sources, wanted, series, memory, result_bytes: 0 };
            row_script::passes(filter, &arguments, &mut host)
        };
        let scanned_max = self.shown.filter_limit.unwrap_or(u64::MAX);
        Ok(Box::new(FilteredRows::new(rows, Box::new(passes), scanned_max, counts)))
    }

    /// What rows are compared by.
    fn content_of(&self) -> Result<ContentOf<'t>, QueryError> {
        let (sources, loads) = (self.sources, self.shown.loads.clone());
        let (options, stop) = (self.series, Arc::clone(&self.stop));
        let memory = Rc::clone(&self.memory);
        if let Some(projection) = self.shown.projection.clone() {
            return Ok(Box::new(move |row| {
                end_if_stopped(&stop)?;
                row.charge_document(&memory)?;
                let _scope = memory.scope();
                let (id, root) = (row.document.id(), row.document.root()?);
                let loaded = load_for_row(sources, &loads, id, root, &memory)?;
                let mut shown = Vec::new();
                let stored = StoredSeries::new(sources.documents, &stop);
                let series = options.shown(&stored, &memory);
                projection.write_fields(row, &loaded, &series, &mut shown)?;
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
            row.charge_document(&memory)?;
            let (scope, mut held) = (memory.scope(), memory.holding());
            let (id, root) = (row.document.id(), row.document.root()?);
            let loaded = load_for_row(sources, &loads, id, root, &memory)?;
            let arguments = arguments_of(stored.document_of(row, &memory)?, &loaded, &memory)?;
            let series = options.calls(functions, &stop, &memory);
            let (wanted, memory) = (&*wanted, &*memory);
            let mut host = RowHost { sources, wanted, series, memory, result_bytes: 0 };
            let replaced = stored.replaces(row).then(|| row.document.id()).flatten();
            let made = made_by(script, &arguments, &mut host, replaced)?;
            held.end(scope, made.iter().map(MadeObject::bytes).sum());
            Ok(Content::Made(made, held))
        }))
    }

    /// How many rows the filter scanned; none without a filter.
    pub fn scanned_results(&self) -> u64 {
        self.filtered.map_or(0, |filtered| filtered.scanned)
    }

    /// How many rows are dropped up to the end of the page: by a filter, by `select distinct`, and
    /// as repetitions where an index has several entries per document. Counting scans the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`], or too many distinct rows. After
    /// [`QueryError::Memory`] a repeated call resumes.
    pub fn skipped_results(&mut self) -> Result<u64, QueryError> {
        if let Some(filtered) = self.filtered {
            return Ok(filtered.skipped);
        }
        let window = &self.shown.window;
        if !self.shown.is_distinct {
            let start = usize::try_from(window.start).unwrap_or(usize::MAX);
            let page_size = usize::try_from(window.page_size).unwrap_or(usize::MAX);
            return self.source.repeated(start, page_size);
        }
        let (mut rows, counts) = match self.skipping.take() {
            Some(begun) => begun,
            None => {
                let counts = Rc::new(RowCounts::default());
                (self.page_rows(&counts)?, counts)
            }
        };
        while let Some(row) = rows.next() {
            if let Err(error) = row {
                self.skipping = Some((rows, counts)).filter(|_| error.is_out_of_memory());
                return Err(error);
            }
            self.counted_rows += 1;
        }
        Ok(counts.repeated())
    }

    /// The rows that were read to be counted so far: whether counting makes progress.
    pub fn counted_rows(&self) -> u64 {
        let counting = self.counting.as_ref().map_or(0, |counting| counting.counts.scanned());
        let skipping = self.skipping.as_ref().map_or(0, |(_, counts)| counts.repeated());
        counting + skipping + self.counted_rows
    }
}

fn end_if_stopped(stop: &AtomicBool) -> Result<(), QueryError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(SearchError::Interrupted.into()),
        false => Ok(()),
    }
}
