//! An entry as it is in the index.

use spatial::Coordinate;

use crate::{
    error::SearchError,
    ids::FieldId,
    place,
    record::RecordReader,
    term::{TermKind, TermValue},
};

/// An entry's terms, read in place.
#[derive(Clone, Copy)]
pub struct EntryView<'t> {
    record: RecordReader<'t>,
}

/// The terms that an entry has in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldTerms {
    /// The number of the field.
    pub field: FieldId,
    /// Its different terms: null, texts, longs, doubles, ascending.
    pub terms: Vec<TermValue>,
    /// Its places, except for shapes.
    pub places: Vec<Coordinate>,
}

impl<'t> EntryView<'t> {
    pub(crate) fn new(record: RecordReader<'t>) -> Self {
        Self { record }
    }

    /// The lower-cased id of the document that the entry comes from.
    pub fn document_id(&self) -> Result<&'t str, SearchError> {
        let section = self.record.field(FieldId::DOCUMENT_ID)?;
        let term = section.map(|mut section| section.next_term()).transpose()?.flatten();
        term.ok_or_else(|| SearchError::corrupt("an entry does not name its document"))?.text()
    }

    /// The terms of every field, by number, without `id()`.
    pub fn fields(&self) -> Result<Vec<FieldTerms>, SearchError> {
        let mut record = self.record;
        let mut fields = Vec::new();
        while let Some((field, mut section)) = record.next_field()? {
            if field == FieldId::DOCUMENT_ID {
                continue;
            }
            let mut terms = Vec::new();
            let mut places = Vec::new();
            while let Some(term) = section.next_term()? {
                match term.kind {
                    TermKind::Point => places.push(place::place_of(term.bytes())?),
                    kind if kind.is_value() => terms.push(term.value()?),
                    _ => {}
                }
            }
            fields.push(FieldTerms { field, terms, places });
        }
        Ok(fields)
    }

    /// The terms of one field.
    pub fn terms(&self, field: FieldId) -> Result<Vec<TermValue>, SearchError> {
        let mut terms = Vec::new();
        if let Some(mut section) = self.record.field(field)? {
            while let Some(term) = section.next_term()? {
                if term.kind.is_value() {
                    terms.push(term.value()?);
                }
            }
        }
        Ok(terms)
    }

    /// The texts of a field, ascending, and how often the entry has each; once in fields that are not of
    /// words.
    pub fn frequencies(&self, field: FieldId) -> Result<Vec<(&'t str, u64)>, SearchError> {
        let mut frequencies = Vec::new();
        if let Some(mut section) = self.record.field(field)? {
            while let Some(term) = section.next_term()? {
                if term.kind == TermKind::Text {
                    frequencies.push((term.text()?, term.frequency));
                }
            }
        }
        Ok(frequencies)
    }
}
