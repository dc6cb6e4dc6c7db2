//! The notes of the rows of a query on an index: highlighted fragments, explanations.

use std::collections::HashSet;

use blittable::{JsonKind, JsonReader, ParseError};
use search::analysis::Analyzer;
use search::{EntryId, FieldId, IndexReader, Query, SearchError};
use storage::Transaction;

use crate::error::QueryError;
use crate::highlight::MarkedParts;
use crate::requested_notes::{RequestedHighlight, RequestedNotes};
use crate::term_text::term_text;

/// Maximum size of the notes of one response, in bytes.
const NOTES_BYTES_MAX: usize = 64 << 20;
/// Memory of a note or a fragment besides its texts.
const NOTE_BYTES: usize = 64;
/// Maximum nesting of stored arrays; deeper elements are skipped.
const NESTED_ARRAYS_MAX: u32 = 64;

/// A field of an index whose stored values can be highlighted.
#[derive(Clone, Debug)]
pub(crate) struct HighlightedField {
    pub(crate) number: FieldId,
    /// Its name in the index.
    pub(crate) name: String,
    pub(crate) analyzer: Analyzer,
    /// Whether values are stored as JSON rather than as plain text.
    pub(crate) is_json: bool,
}

/// A field that names the rows in the notes.
#[derive(Clone, Debug)]
pub(crate) struct GroupKeyField {
    pub(crate) name: String,
    /// `None` when the index stores no values of it.
    pub(crate) number: Option<FieldId>,
}

/// Produces the notes of rows.
#[derive(Debug, Default)]
pub(crate) struct RowNotes {
    parts: MarkedParts,
    highlights: Vec<(RequestedHighlight, Option<HighlightedField>, Option<GroupKeyField>)>,
    explanations: Option<Option<GroupKeyField>>,
}

/// The notes of one row.
#[derive(Debug, Default)]
pub(crate) struct NotesOfRow {
    /// Key and fragments, by highlighted field; `None` where nothing was found.
    highlights: Vec<Option<(String, Vec<String>)>>,
    explanation: Option<(String, String)>,
}

impl RowNotes {
    /// Prepares the requested notes; `field` and `key` look up fields of the index.
    pub(crate) fn new(
        requested: &RequestedNotes,
        condition: &Query,
        field: &dyn Fn(&str) -> Result<Option<HighlightedField>, QueryError>,
        key: &dyn Fn(&str) -> Result<Option<FieldId>, QueryError>,
    ) -> Result<RowNotes, QueryError> {
        let key_field = |name: &Option<String>| {
            let field = name.as_ref().map(|name| {
                Ok::<_, QueryError>(GroupKeyField { name: name.clone(), number: key(name)? })
            });
            field.transpose()
        };
        let parts = MarkedParts::of(condition);
        let mut highlights = Vec::with_capacity(requested.highlights.len());
        for highlight in &requested.highlights {
            let known = field(&highlight.field)?.filter(|known| parts.has_field(&known.name));
            highlights.push((highlight.clone(), known, key_field(&highlight.group_key)?));
        }
        let explanations = match &requested.explanations {
            None => None,
            Some(explanations) => Some(key_field(&explanations.group_key)?),
        };
        Ok(RowNotes { parts, highlights, explanations })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.highlights.is_empty() && self.explanations.is_none()
    }

    /// The notes of an entry whose row is named `id`.
    pub(crate) fn of_entry<I: Transaction>(
        &self,
        reader: &IndexReader<'_, I>,
        condition: &Query,
        entry: EntryId,
        id: &str,
    ) -> Result<NotesOfRow, QueryError> {
        let mut notes = NotesOfRow::default();
        for (highlight, field, key) in &self.highlights {
            let fragments = match field {
                None => Vec::new(),
                Some(field) => match stored_text(reader, entry, field.number, field.is_json)? {
                    None => Vec::new(),
                    Some(text) => self.parts.fragments(
                        &field.name,
                        &field.analyzer,
                        &text,
                        (highlight.length, highlight.count),
                        &highlight.tags,
                    ),
                },
            };
            notes.highlights.push(match fragments.is_empty() {
                true => None,
                false => Some((key_of(reader, entry, key.as_ref(), id)?, fragments)),
            });
        }
        if let Some(key) = &self.explanations
            && let Some(explanation) = reader.explain(condition, entry)?
        {
            let key = key_of(reader, entry, key.as_ref(), id)?;
            notes.explanation = Some((key, explanation.to_string()));
        }
        Ok(notes)
    }
}

/// The name of a row in the notes: its id, or the value of a field.
fn key_of<I: Transaction>(
    reader: &IndexReader<'_, I>,
    entry: EntryId,
    key: Option<&GroupKeyField>,
    id: &str,
) -> Result<String, QueryError> {
    let Some(key) = key else { return Ok(id.to_owned()) };
    let stored = match key.number {
        None => None,
        Some(number) => {
            reader.stored(entry)?.map(|values| values.get(number)).transpose()?.flatten()
        }
    };
    if stored == Some(b"null".as_slice()) {
        return Ok(term_text(search::TermValue::Null).unwrap_or_default());
    }
    match stored.map(text_of_json).transpose()? {
        Some(text) => Ok(text),
        None => {
            let name = &key.name;
            let message = format!(
                "The field '{name}' cannot be the GroupKey, because the index does not store a \
                 value of it for '{id}'"
            );
            Err(QueryError::Argument { message })
        }
    }
}

fn stored_text<I: Transaction>(
    reader: &IndexReader<'_, I>,
    entry: EntryId,
    field: FieldId,
    is_json: bool,
) -> Result<Option<String>, QueryError> {
    let Some(values) = reader.stored(entry)? else { return Ok(None) };
    match values.get(field)? {
        None => Ok(None),
        Some(json) if is_json => Ok(Some(text_of_json(json)?)),
        Some(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
    }
}

/// The strings in a stored value, separated by blanks.
fn text_of_json(json: &[u8]) -> Result<String, SearchError> {
    let mut text = String::new();
    let damaged = |_| SearchError::Corrupt { detail: "a stored value is no JSON" };
    add_texts(&mut JsonReader::new(json), 0, &mut text).map_err(damaged)?;
    Ok(text)
}

fn add_texts(reader: &mut JsonReader<'_>, depth: u32, out: &mut String) -> Result<(), ParseError> {
    let mut add = |text: &str| {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(text);
    };
    match reader.peek()? {
        JsonKind::Null => {
            reader.read_raw()?;
        }
        JsonKind::String => add(&reader.read_str()?),
        JsonKind::Array if depth < NESTED_ARRAYS_MAX => {
            reader.begin_array()?;
            while reader.next_element()? {
                add_texts(reader, depth + 1, out)?;
            }
        }
        JsonKind::Bool | JsonKind::Number | JsonKind::Array | JsonKind::Object => {
            add(reader.read_raw()?);
        }
    }
    Ok(())
}

/// Fragments of one field.
#[derive(Debug)]
pub struct FieldFragments {
    /// The field, as named in the query.
    pub field: String,
    /// The name of a row, and its fragments.
    pub rows: Vec<(String, Vec<String>)>,
}

/// The notes of the rows returned so far.
#[derive(Debug, Default)]
pub struct Notes {
    /// Fragments by field; `None` when none were requested.
    pub highlights: Option<Vec<FieldFragments>>,
    /// Texts by row name; `None` when none were requested.
    pub explanations: Option<Vec<(String, String)>>,
    bytes: usize,
    keys: HashSet<(usize, String)>,
}

impl Notes {
    /// Their approximate memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds those of a row. Of rows with the same name, those of the first are kept.
    pub(crate) fn add(
        &mut self,
        requested: &RequestedNotes,
        row: NotesOfRow,
    ) -> Result<(), QueryError> {
        if !requested.highlights.is_empty() {
            let fields = self.highlights.get_or_insert_with(|| {
                let names = requested.highlights.iter().map(|highlight| highlight.field.clone());
                names.map(|field| FieldFragments { field, rows: Vec::new() }).collect()
            });
            for (place, (field, found)) in fields.iter_mut().zip(row.highlights).enumerate() {
                let Some((key, fragments)) = found else { continue };
                if self.keys.insert((place, key.clone())) {
                    self.bytes += NOTE_BYTES + 2 * key.len();
                    self.bytes +=
                        fragments.iter().map(|text| NOTE_BYTES + text.len()).sum::<usize>();
                    field.rows.push((key, fragments));
                }
            }
        }
        if requested.explanations.is_some() {
            let explanations = self.explanations.get_or_insert_default();
            if let Some((key, text)) = row.explanation
                && self.keys.insert((usize::MAX, key.clone()))
            {
                self.bytes += NOTE_BYTES + 2 * key.len() + text.len();
                explanations.push((key, text));
            }
        }
        if NOTES_BYTES_MAX < self.bytes {
            let message = format!(
                "Highlightings and explanations of the rows have more than {NOTES_BYTES_MAX} bytes; \
                 ask for fewer rows"
            );
            return Err(QueryError::InvalidOperation { message });
        }
        Ok(())
    }
}
