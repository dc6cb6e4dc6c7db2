//! What is collected from the rows: notes, and the ids of what is included with them.

use cluster_state::DatabaseValues;
use documents::{DocumentError, DocumentRow};
use model::DocumentId;
use storage::Transaction;

use super::QueryResult;
use crate::counter_includes::IncludedCounters;
use crate::error::QueryError;
use crate::included_documents::distinct;
use crate::included_values::IncludedValues;
use crate::revision_includes::IncludedRevisions;
use crate::row::Row;
use crate::row_notes::Notes;
use crate::series_includes::IncludedSeries;

/// Estimated memory of the notes of a row.
const NOTES_OF_ROW_BYTES: u64 = 384;

/// The estimate is capped at this.
const NOTES_EXPECTED_BYTES_MAX: u64 = 8 << 20;

impl<'t, T: Transaction> QueryResult<'t, T> {
    /// Memory of what is included with all rows, in bytes.
    pub(super) fn collected_bytes(&self) -> u64 {
        self.notes.bytes() as u64
            + self.included.bytes
            + self.wanted.borrow().bytes
            + self.counters.bytes()
    }

    /// Collects what is included with a row.
    pub(super) fn collect_includes(&mut self, row: &Row<'t>) -> Result<(), QueryError> {
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

    /// Whether revisions are to be included.
    pub fn wants_revisions(&self) -> bool {
        !self.shown.revisions.is_empty()
    }

    /// The revisions to include with the rows that [`QueryResult::next_row`] has returned.
    pub fn revisions(&self) -> &IncludedRevisions<'t> {
        &self.revisions
    }

    /// The time series to include with the rows returned so far; `None` when none are requested.
    pub fn included_series(&self) -> Option<&IncludedSeries> {
        (!self.shown.series.is_empty()).then_some(&self.included_series)
    }

    /// The counters to include with the rows returned so far; `None` when none are requested.
    pub fn counters(&self) -> Option<&IncludedCounters> {
        (!self.shown.counters.is_empty()).then_some(&self.counters)
    }

    /// Whether the query itself requests compare exchange values.
    pub fn wants_values(&self) -> bool {
        !self.shown.values.is_empty()
    }

    /// The compare exchange values to include with the rows that [`QueryResult::next_row`] has
    /// returned: their keys, and where to read them.
    pub fn included_values(&self) -> Option<(IncludedValues, &'t DatabaseValues)> {
        let mut included = self.included_values.clone();
        self.wanted.borrow().values.keys().iter().for_each(|key| included.add(key));
        let values = self.sources.values?;
        (!included.keys().is_empty()).then_some((included, values))
    }

    /// The included paths as the response repeats them; `None` without an `include` clause.
    pub fn included_paths(&self) -> Option<Vec<&str>> {
        match self.shown.includes.as_slice() {
            [] => None,
            includes => Some(includes.iter().map(|include| include.path.as_str()).collect()),
        }
    }

    /// The notes of the rows that [`QueryResult::next_row`] has returned.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Charges the estimated memory of the notes of all rows up front: notes stay in memory until
    /// the last row is written, and once rows have been sent it is too late to reject the query.
    /// Without notes nothing is charged.
    ///
    /// # Errors
    ///
    /// [`QueryError::Memory`] when there is not enough memory; the call may be repeated.
    pub fn expect_notes(&mut self) -> Result<(), QueryError> {
        if self.shown.notes.is_empty() {
            return Ok(());
        }
        let rows = self.rows_max().unwrap_or(u64::MAX);
        let bytes = rows.saturating_mul(NOTES_OF_ROW_BYTES).min(NOTES_EXPECTED_BYTES_MAX);
        Ok(self.collected.grow_to(bytes)?)
    }

    /// Whether fragments are requested.
    pub fn wants_highlights(&self) -> bool {
        !self.shown.notes.highlights.is_empty()
    }

    /// Whether explanations of the scores are requested.
    pub fn wants_explanations(&self) -> bool {
        self.shown.notes.explanations.is_some()
    }

    /// The documents to include with the rows that [`QueryResult::next_row`] has returned, in the
    /// order in which they were first encountered; rows themselves and missing documents are not
    /// among them.
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
