//! The stored time series, and the documents whose ids are in tags.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use blittable::write_json_string;
use documents::time_series::{self, MomentRange};
use documents::{DocumentRow, FieldPath, Found};
use model::{DocumentId, TimeSeriesName};
use search::SearchError;
use storage::Transaction;
use timeseries::{Entry, Summary};

use crate::error::QueryError;
use crate::time_series::condition::{Cell, TagDocuments};
use crate::time_series::evaluation::{field_of, missing_field};
use crate::time_series::reader::{SeriesFacts, SeriesReader, SeriesVisitor};

/// What time series queries read, from one snapshot.
pub(crate) struct StoredSeries<'t, T> {
    documents: &'t T,
    /// Set when the query is canceled.
    stop: &'t AtomicBool,
    /// The last tag and its document: adjacent entries mostly have the same tag.
    last_tag: RefCell<Option<(String, Option<DocumentRow<'t>>)>>,
}

impl<'t, T: Transaction> StoredSeries<'t, T> {
    pub(crate) fn new(documents: &'t T, stop: &'t AtomicBool) -> Self {
        Self { documents, stop, last_tag: RefCell::default() }
    }

    /// Looks up the document of a tag; `None` without one.
    fn with_document<R>(
        &self,
        tag: &str,
        show: impl FnOnce(&DocumentRow<'t>) -> Result<R, QueryError>,
    ) -> Result<Option<R>, QueryError> {
        let mut last = self.last_tag.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| known != tag) {
            // A string that is too long for an id matches no document.
            let document = match DocumentId::new(tag) {
                Ok(id) => documents::get(self.documents, &id)?,
                Err(_) => None,
            };
            *last = Some((tag.to_owned(), document));
        }
        match last.as_ref() {
            Some((_, Some(document))) => show(document).map(Some),
            Some((_, None)) | None => Ok(None),
        }
    }
}

impl<T: Transaction> TagDocuments for StoredSeries<'_, T> {
    fn cell(&self, tag: &str, path: &FieldPath) -> Result<Option<Cell>, QueryError> {
        self.with_document(tag, |document| match path.steps() {
            [] => Ok(Cell::Text(document.id().to_owned())),
            _ => field_of(document, path)?.ok_or_else(|| missing_field(document.id(), path)),
        })
    }

    fn json(&self, tag: &str, path: &FieldPath) -> Result<Option<Vec<u8>>, QueryError> {
        self.with_document(tag, |document| {
            let mut json = Vec::new();
            if path.steps().is_empty() {
                write_json_string(document.id(), &mut json);
                return Ok(json);
            }
            match path.find(document.body()?.root())? {
                Found::Missing => Err(missing_field(document.id(), path)),
                found => {
                    found.write_json(&mut json)?;
                    Ok(json)
                }
            }
        })
    }
}

/// The keys under which a series is stored; `None` when a string is too long for one.
pub(crate) fn key_of(id: &str, name: &str) -> Option<(DocumentId, TimeSeriesName)> {
    Some((DocumentId::new(id).ok()?, TimeSeriesName::new(name).ok()?))
}

impl<T: Transaction> SeriesReader for StoredSeries<'_, T> {
    fn facts(&self, id: &str, name: &str) -> Result<Option<SeriesFacts>, QueryError> {
        let Some((id, name)) = key_of(id, name) else { return Ok(None) };
        let series = time_series::series(self.documents, &id, &name)?;
        Ok(series.map(|series| SeriesFacts {
            first_ms: series.start_ms,
            last_ms: series.end_ms,
            count: series.entries,
        }))
    }

    fn visit(
        &self,
        id: &str,
        name: &str,
        range: RangeInclusive<i64>,
        visitor: &mut dyn SeriesVisitor,
    ) -> Result<(), QueryError> {
        let Some((id, name)) = key_of(id, name) else { return Ok(()) };
        let range = MomentRange { from: *range.start(), to: *range.end() };
        let mut reader = time_series::SeriesReader::new(self.documents, &id, &name, range)?;
        let is_rollup = name.is_rollup();
        let mut known: Vec<Summary> = Vec::new();
        while let Some(segment) = reader.next_segment()? {
            if self.stop.load(Ordering::Relaxed) {
                return Err(SearchError::Interrupted.into());
            }
            if !is_rollup
                && segment.is_inside(&range)
                && let Some(summaries) = segment.summaries()
            {
                known.clear();
                known.extend(summaries);
                let moments = (segment.start_ms(), segment.end_ms());
                if visitor.segment(moments, segment.moments(), &known)? {
                    continue;
                }
            }
            reader.open(&segment)?;
            while let Some(entry) = reader.next_entry_of_segment() {
                let (timestamp_ms, values) = (entry.timestamp_ms, entry.values);
                let shown = Entry { timestamp_ms, values, tag: entry.tag };
                visitor.entry(shown, entry.is_rollup)?;
            }
        }
        Ok(())
    }
}
