//! Rows as JSON: whole documents, projections, and what scripts produce.

use std::borrow::Cow;

use blittable::{ParseLimits, parse_document, write_json};
use documents::DocumentRow;
use script::{Argument, BoundProjection};
use storage::{Transaction, WorkingMemory};

use super::QueryResult;
use crate::error::QueryError;
use crate::loaded::Loaded;
use crate::made_object::MadeObject;
use crate::row::Row;
use crate::row_document::{Marked, printed_bytes};
use crate::row_script::{self, BoundScripts, RowHost, arguments_of, load_for_row};
use crate::time_series::StoredSeries;

const METADATA: &str = "@metadata";

/// Never occurs in the printed JSON.
const LINE_BREAK: &[u8] = b"\n";

impl<'t, T: Transaction> QueryResult<'t, T> {
    /// Appends a row as JSON: the whole document or its projection. A script may produce several
    /// rows from it, separated by `between`, or none. Memory is charged to the scope that the
    /// caller has begun.
    ///
    /// # Errors
    ///
    /// [`QueryError::Documents`] when the document is damaged, [`QueryError::Memory`] when there is
    /// not enough memory: then the row may be written again later. On an error, `out` ends with a
    /// partial row.
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
        let loaded = load_for_row(self.sources, loads, id, root, &self.memory)?;
        if self.shown.is_script {
            return self.write_script_row(row, &loaded, between, out);
        }
        if let Some(at) = self.shown.shows_loaded {
            return write_loaded(row, loaded.get(at), &self.memory, out);
        }
        match &self.shown.projection {
            Some(projection) => {
                let stored = StoredSeries::new(self.sources.documents, &self.stop);
                let series = self.series.shown(&stored, &self.memory);
                projection.write_json(row, &loaded, &series, between, out)
            }
            None => {
                self.memory.take(printed_bytes(&row.document.body()?)?)?;
                row.document.write_json(row.metadata(), out)
            }
        }
    }

    /// The document that a row returns unchanged, with the additional properties of its metadata,
    /// each preceded by a comma: it may be printed in pieces, see
    /// [`documents::DocumentPrinter::found`].
    pub fn whole_document<'r>(&self, row: &'r Row<'t>) -> Option<(&'r DocumentRow<'t>, Vec<u8>)> {
        let document = row.document.stored().filter(|_| !self.is_projection())?;
        let mut more = Vec::new();
        row.metadata().write(&mut more);
        Some((document, more))
    }

    /// Appends only the metadata of a row, as it is returned with the row.
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
            return row.document.write_metadata_json(row.metadata(), out);
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
        loaded: &[Loaded<'t>],
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
                let arguments = arguments_of(document, loaded, memory)?;
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
}

/// Appends a loaded document in place of a row; nothing if it was not found.
fn write_loaded(
    row: &Row<'_>,
    loaded: Option<&Loaded<'_>>,
    memory: &WorkingMemory,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    if let Some(Loaded::One(Some(document))) = loaded {
        memory.take(printed_bytes(&document.body()?)?)?;
        let mut more = Vec::new();
        row.metadata().with_score().write(&mut more);
        return Ok(documents::write_found_document_json(document, &more, out)?);
    }
    out.push(b'{');
    row.document.write_metadata(row.metadata(), Marked::FromDocument, out);
    out.push(b'}');
    Ok(())
}

pub(super) fn without_scripts() -> QueryError {
    let message = "A part of this query is a script, but no script engine was supplied";
    QueryError::InvalidOperation { message: message.to_owned() }
}

/// The objects that a script produces from a row. `replaced` is the document that the script saw
/// with other content.
pub(super) fn made_by<T: Transaction>(
    script: &BoundProjection<'_>,
    arguments: &[Argument],
    host: &mut RowHost<'_, T>,
    replaced: Option<&str>,
) -> Result<Vec<MadeObject>, QueryError> {
    let values = row_script::run(script, arguments, host)?;
    // Twice as much while they are printed.
    host.memory.take(host.result_bytes)?;
    values.into_iter().map(|value| MadeObject::of(value, replaced)).collect()
}
