//! How a projected row is printed.
//!
//! It has its own `@metadata`, which marks it as a projection, so that clients do not mistake it
//! for the document.

use blittable::{BlittableBuf, Value, write_json, write_json_string};
use documents::{DocumentRow, FieldPath as DocumentPath, Found};
use model::date;
use storage::WorkingMemory;

use crate::error::QueryError;
use crate::exchange_value::{write_members, write_value};
use crate::loaded::Loaded;
use crate::projected_counter::write_counter;
use crate::projection::{ProjectedField, ProjectedValue, Projection};
use crate::row::Row;
use crate::row_document::{Marked, RowDocument, printed_bytes};
use crate::row_script::with_id;
use crate::stored_projection::{Lookup, Missing, write_stored};
use crate::time_series::{PlannedSeries, RowDocuments, SeriesForm, SeriesShown};

/// Documents of at least this many bytes are charged before they are printed.
const LARGE_BYTES: usize = 64 << 10;

impl Projection {
    /// The time series query that is the entire result.
    pub(crate) fn only_series(&self) -> Option<&PlannedSeries> {
        match self.fields.as_slice() {
            [ProjectedField { value: ProjectedValue::TimeSeries(series), .. }] => Some(series),
            _ => None,
        }
    }

    fn has_series(&self) -> bool {
        self.fields.iter().any(ProjectedField::is_series)
    }

    /// The names of the fields that are time series results; empty if one is the whole row; `None`
    /// when nothing of time series is returned.
    pub(crate) fn series_fields(&self) -> Option<Vec<&str>> {
        let fields = self.fields.iter().filter(|field| field.is_series() && !self.is_spread);
        self.has_series().then(|| fields.map(|field| field.name.as_str()).collect())
    }

    /// Appends the projected row as JSON; `loaded` is what was loaded. Where each entry of a time
    /// series is a row of the response, there are several, separated by `between`, or none.
    pub(crate) fn write_json(
        &self,
        row: &Row<'_>,
        loaded: &[Loaded<'_>],
        series: &SeriesShown<'_>,
        between: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if let ([ProjectedField { value: ProjectedValue::Exchange { at }, .. }], true) =
            (self.fields.as_slice(), self.is_spread)
        {
            out.push(b'{');
            write_members(loaded_value(loaded, *at), out)?;
            row.document.write_metadata(row.metadata(), Marked::FromDocument, out);
            out.push(b'}');
            return Ok(());
        }
        match (self.only_series(), series.form) {
            (Some(only), SeriesForm::Page) if self.is_spread => {
                return self.write_spread(only, row, loaded, series, out);
            }
            (Some(only), SeriesForm::Table) => {
                let documents = RowDocuments { row: &row.document, loaded };
                let mut metadata = Vec::new();
                row.document.write_metadata(row.metadata(), Marked::FromDocument, &mut metadata);
                metadata.push(b',');
                return series.write_rows(only, documents, &metadata, between, out);
            }
            (_, SeriesForm::Stream) if self.has_series() => {
                out.push(b'{');
                row.document.write_metadata(row.metadata(), Marked::FromDocument, out);
                out.push(b',');
                self.write_fields(row, loaded, series, out)?;
                out.pop();
                out.push(b'}');
                return Ok(());
            }
            _ => {}
        }
        out.push(b'{');
        let marked = match self.write_fields(row, loaded, series, out)? {
            true => Marked::FromDocument,
            false => Marked::FromIndexAlone,
        };
        row.document.write_metadata(row.metadata(), marked, out);
        out.push(b'}');
        Ok(())
    }

    /// Appends the members of a time series result as those of the row.
    fn write_spread(
        &self,
        only: &PlannedSeries,
        row: &Row<'_>,
        loaded: &[Loaded<'_>],
        series: &SeriesShown<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let documents = RowDocuments { row: &row.document, loaded };
        let mut names = Vec::new();
        series.write_names(only, documents, &mut names)?;
        out.push(b'{');
        series.write_members(only, documents, out)?;
        out.push(b',');
        row.document.write_metadata_with(row.metadata(), Marked::FromDocument, &names, out);
        out.push(b'}');
        Ok(())
    }

    /// Appends the content of the row: names and values, each followed by a comma. `false` when all
    /// of it was stored in an index, so that the document was not used.
    pub(crate) fn write_fields(
        &self,
        row: &Row<'_>,
        loaded: &[Loaded<'_>],
        series: &SeriesShown<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, QueryError> {
        let mut needs_document = !self.lookup.in_index;
        let (begin, mut counted) = (out.len(), 0);
        for (place, field) in self.fields.iter().enumerate() {
            let stored = row.stored.get(place).copied().flatten();
            needs_document |= field.write_json(row, stored, loaded, (&self.lookup, series), out)?;
            series.memory.grow(&mut counted, (out.len() - begin) as u64)?;
        }
        Ok(needs_document && self.lookup.in_document)
    }
}

/// Appends what a path finds in each of several loaded documents.
fn write_found_in_each(
    loaded: &[DocumentRow<'_>],
    path: &DocumentPath,
    memory: &WorkingMemory,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    out.push(b'[');
    let mut is_first = true;
    for document in loaded {
        let mut counted = 0;
        if LARGE_BYTES < document.body_bytes() {
            memory.grow(&mut counted, printed_bytes(&document.body()?)?)?;
        }
        let begin = out.len();
        let found = path.find(document.body()?.root())?;
        if found.is_missing() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        found.write_json(out)?;
        memory.grow(&mut counted, (out.len() - begin) as u64)?;
    }
    out.push(b']');
    Ok(())
}

/// The stored compare exchange value that was loaded for the row.
fn loaded_value<'b>(loaded: &'b [Loaded<'_>], at: usize) -> Option<&'b BlittableBuf> {
    match loaded.get(at) {
        Some(Loaded::Value(stored)) => stored.as_ref(),
        Some(Loaded::One(_) | Loaded::Many(_) | Loaded::Counter(_)) | None => None,
    }
}

/// The value of a field. A result of a reduce may have a field whose name is a path:
/// `Address.City`.
fn find_in<'t>(
    row: &'t RowDocument<'_>,
    name: &str,
    path: &DocumentPath,
) -> Result<Found<'t>, QueryError> {
    if let RowDocument::Result(result) = row
        && let Some(value) = result.root().get(name)?
    {
        return Ok(Found::One(value));
    }
    Ok(path.find(row.root()?)?)
}

fn write_group_key(
    row: &RowDocument<'_>,
    fields: &[String],
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    for (number, field) in fields.iter().enumerate() {
        out.push(if number == 0 { b'{' } else { b',' });
        write_json_string(field, out);
        out.push(b':');
        match row.root()?.get(field)? {
            Some(value) => write_json(&value, out)?,
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends a document as a value.
fn write_document(
    document: &DocumentRow<'_>,
    memory: &WorkingMemory,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    let (copy, mut printed) = (document.body_bytes() as u64, printed_bytes(&document.body()?)?);
    memory.take(copy + printed)?;
    let (body, begin) = (with_id(document)?, out.len());
    write_json(&Value::Object(body.as_view().root()), out)?;
    // The text of a small one may be longer than estimated.
    Ok(memory.grow(&mut printed, (out.len() - begin) as u64)?)
}

fn write_documents(
    documents: &[DocumentRow<'_>],
    memory: &WorkingMemory,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    out.push(b'[');
    for (number, document) in documents.iter().enumerate() {
        if 0 < number {
            out.push(b',');
        }
        write_document(document, memory, out)?;
    }
    out.push(b']');
    Ok(())
}

impl ProjectedField {
    /// Appends name, value and a comma. Returns whether the document was used.
    fn write_json(
        &self,
        row: &Row<'_>,
        stored: Option<&[u8]>,
        loaded: &[Loaded<'_>],
        (lookup, series): (&Lookup, &SeriesShown<'_>),
        out: &mut Vec<u8>,
    ) -> Result<bool, QueryError> {
        let (document, mark) = (&row.document, out.len());
        write_json_string(&self.name, out);
        out.push(b':');
        let mut looks_at_document = true;
        match &self.value {
            ProjectedValue::Id => match document.id() {
                Some(id) => write_json_string(id, out),
                None => out.extend_from_slice(b"null"),
            },
            ProjectedValue::Constant(json) => out.extend_from_slice(json),
            ProjectedValue::LastModified => match document.stored() {
                Some(document) => {
                    write_json_string(&date::format(document.last_modified_ticks()), out);
                }
                None => out.extend_from_slice(b"null"),
            },
            ProjectedValue::GroupKey(fields) => write_group_key(&row.document, fields, out)?,
            ProjectedValue::Distance(distance) => distance.write_json(document, out)?,
            ProjectedValue::TimeSeries(planned) => {
                series.write_value(planned, RowDocuments { row: document, loaded }, out)?;
            }
            ProjectedValue::Field { path, index_field, absent_when_missing } => {
                let found = match lookup.in_document {
                    true => find_in(document, index_field, path)?,
                    false => Found::Missing,
                };
                if let Some(stored) = stored {
                    looks_at_document = false;
                    write_stored(stored, out)?;
                } else if !found.is_missing() {
                    found.write_json(out)?;
                } else {
                    let has_stored = row.stored.iter().any(Option::is_some);
                    match lookup.missing {
                        Missing::NullUnlessStored if !has_stored && !absent_when_missing => {
                            out.extend_from_slice(b"null");
                        }
                        Missing::Null if !absent_when_missing => out.extend_from_slice(b"null"),
                        Missing::Null | Missing::NullUnlessStored | Missing::Absent => {
                            out.truncate(mark);
                            return Ok(looks_at_document);
                        }
                        Missing::Refused => return Err(lookup.refusal(index_field)),
                    }
                }
            }
            ProjectedValue::Counter { at, is_raw } => {
                let found = match loaded.get(*at) {
                    Some(Loaded::Counter(found)) => found.as_ref(),
                    Some(Loaded::One(_) | Loaded::Many(_) | Loaded::Value(_)) | None => None,
                };
                write_counter(found, *is_raw, out)?;
            }
            ProjectedValue::Exchange { at } => write_value(loaded_value(loaded, *at), out)?,
            ProjectedValue::LoadedId { at } => match loaded.get(*at) {
                Some(Loaded::One(Some(loaded))) => write_json_string(loaded.id(), out),
                _ => out.extend_from_slice(b"null"),
            },
            ProjectedValue::Document(None) => match document {
                RowDocument::Stored(document) => write_document(document, series.memory, out)?,
                RowDocument::Result(result) => result.write_json(out)?,
            },
            ProjectedValue::Document(Some(at)) => match loaded.get(*at) {
                Some(Loaded::One(Some(loaded))) => write_document(loaded, series.memory, out)?,
                Some(Loaded::Many(loaded)) => write_documents(loaded, series.memory, out)?,
                Some(Loaded::One(None) | Loaded::Counter(_) | Loaded::Value(_)) | None => {
                    out.truncate(mark);
                    return Ok(looks_at_document);
                }
            },
            ProjectedValue::Loaded { at, path } => {
                let found = match loaded.get(*at) {
                    Some(Loaded::One(Some(loaded))) => path.find(loaded.body()?.root())?,
                    Some(Loaded::Many(loaded)) => {
                        write_found_in_each(loaded, path, series.memory, out)?;
                        out.push(b',');
                        return Ok(looks_at_document);
                    }
                    _ => Found::Missing,
                };
                if found.is_missing() {
                    out.truncate(mark);
                    return Ok(looks_at_document);
                }
                found.write_json(out)?;
            }
        }
        out.push(b',');
        Ok(looks_at_document)
    }
}
