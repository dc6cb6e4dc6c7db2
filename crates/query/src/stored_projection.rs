//! Values stored in an index, in the rows of a projection: when they take precedence over those of
//! the document, and how they are written.
//!
//! Clients know a stored value as its term, so a number is `"5"`; arrays are arrays of such
//! strings. A projection that takes anything from the index omits fields that are found nowhere.

use std::borrow::Cow;

use blittable::{JsonKind, JsonReader, ParseError, write_json_string};
use documents::{FieldPath as DocumentPath, FieldStep};
use indexing::IndexValue;
use search::{FieldId, SearchError};

use crate::error::QueryError;
use crate::index_fields::StoredField;
use crate::parameters::QueryContext;
use crate::projection::{ProjectedField, ProjectedValue, Projection};
use crate::script_fields::ScriptFields;

/// Maximum nesting of stored arrays; anything deeper is written unchanged.
const NESTED_ARRAYS_MAX: u32 = 64;

/// Where the values of a projection come from, as requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectionBehavior {
    /// From the index; what it does not store, from the document.
    #[default]
    Default,
    /// From the index only.
    FromIndex,
    /// From the index only; what it does not store is an error.
    FromIndexOrThrow,
    /// From the document only.
    FromDocument,
    /// From the document only; what it does not have is an error.
    FromDocumentOrThrow,
}

impl ProjectionBehavior {
    /// Parses the protocol's name of a behavior.
    pub fn parse(name: &str) -> Option<Self> {
        [
            ("Default", Self::Default),
            ("FromIndex", Self::FromIndex),
            ("FromIndexOrThrow", Self::FromIndexOrThrow),
            ("FromDocument", Self::FromDocument),
            ("FromDocumentOrThrow", Self::FromDocumentOrThrow),
        ]
        .into_iter()
        .find_map(|(known, behavior)| known.eq_ignore_ascii_case(name).then_some(behavior))
    }
}

impl ProjectionBehavior {
    /// Rejects behaviors that read documents where there are none.
    pub(crate) fn refuse_on_results(self, context: &QueryContext<'_>) -> Result<(), QueryError> {
        match self {
            Self::Default | Self::FromIndex | Self::FromIndexOrThrow => Ok(()),
            Self::FromDocument | Self::FromDocumentOrThrow => Err(context.invalid(format!(
                "Invalid projection behavior '{self:?}'. You can only extract values from index."
            ))),
        }
    }
}

/// Where the values of a projection are looked up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lookup {
    pub(crate) in_index: bool,
    pub(crate) in_document: bool,
    pub(crate) missing: Missing,
    /// The index, for the error about what it does not store.
    index_name: String,
    query: String,
}

/// What is written for a value that is found nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// `null`, unless the field says otherwise.
    Null,
    /// `null` in a row of which nothing is stored.
    NullUnlessStored,
    Absent,
    Refused,
}

impl Default for Lookup {
    fn default() -> Self {
        Self {
            in_index: false,
            in_document: true,
            missing: Missing::Null,
            index_name: String::new(),
            query: String::new(),
        }
    }
}

impl Lookup {
    /// The error for a field that is not where it has to be.
    pub(crate) fn refusal(&self, field: &str) -> QueryError {
        let message = match self.in_index {
            true => format!(
                "Could not extract field '{field}' from index '{}', because index does not contain \
                 such a field or field value is not stored within index.",
                self.index_name
            ),
            false => format!(
                "Could not extract field '{field}' from document, because document does not \
                 contain such a field."
            ),
        };
        QueryError::Invalid { message, query: self.query.clone(), parameters: None }
    }
}

impl Projection {
    /// Plans where values are looked up on an index, and returns the number of the stored field for
    /// each projected one. `stored` returns the number of a stored field.
    pub(crate) fn look_in_index(
        &mut self,
        context: &QueryContext<'_>,
        index_name: &str,
        behavior: ProjectionBehavior,
        stored: &dyn Fn(&str) -> Result<Option<StoredField>, QueryError>,
    ) -> Result<Vec<Option<FieldId>>, QueryError> {
        let mut found = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            found.push(match &field.value {
                ProjectedValue::Field { index_field, .. } => stored(index_field)?,
                _ => None,
            });
        }
        let takes_from_index = found.iter().flatten().any(|field| field.is_declared)
            || self.fields.iter().any(|field| field.value == ProjectedValue::Id);
        let numbers = found.iter().map(|field| field.map(|field| field.number)).collect();
        let (in_index, in_document, missing) = match behavior {
            ProjectionBehavior::Default if takes_from_index => (true, true, Missing::Absent),
            ProjectionBehavior::Default => (true, true, Missing::NullUnlessStored),
            ProjectionBehavior::FromIndex => (true, false, Missing::Absent),
            ProjectionBehavior::FromIndexOrThrow => (true, false, Missing::Refused),
            ProjectionBehavior::FromDocument => (false, true, Missing::Null),
            ProjectionBehavior::FromDocumentOrThrow => (false, true, Missing::Refused),
        };
        let (index_name, query) = (index_name.to_owned(), context.query.text.as_str().to_owned());
        self.lookup = Lookup { in_index, in_document, missing, index_name, query };
        Ok(if in_index { numbers } else { Vec::new() })
    }
}

/// The field name in `select` that requests everything that an index stored.
const ALL_STORED_FIELDS: &str = "__all_stored_fields";

impl Projection {
    /// Whether everything that an index stored is requested.
    pub(crate) fn is_all_stored_fields(&self) -> bool {
        let is_that = |field: &ProjectedField| {
            matches!(&field.value, ProjectedValue::Field { index_field, .. }
                if index_field == ALL_STORED_FIELDS)
        };
        matches!(self.fields.as_slice(), [field] if is_that(field))
    }

    /// Everything that an index stored, ordered by name.
    pub(crate) fn of_stored<'n>(names: impl Iterator<Item = &'n str>) -> Projection {
        let field = |name: &str| ProjectedField {
            name: name.to_owned(),
            value: ProjectedValue::Field {
                path: DocumentPath::new(vec![FieldStep::Member(name.to_owned())]),
                index_field: name.to_owned(),
                absent_when_missing: true,
            },
        };
        let fields = names.map(field).collect();
        Projection { fields, lookup: Lookup::default(), is_spread: false }
    }
}

impl QueryContext<'_> {
    /// The stored fields of an index that a script sees.
    pub(crate) fn script_fields(
        &self,
        stored: &[(String, FieldId)],
        behavior: ProjectionBehavior,
    ) -> Result<ScriptFields, QueryError> {
        let names = || stored.iter().map(|(name, _)| name.clone()).collect();
        match behavior {
            ProjectionBehavior::Default => Ok(ScriptFields { names: names(), are_alone: false }),
            ProjectionBehavior::FromIndex => Ok(ScriptFields { names: names(), are_alone: true }),
            ProjectionBehavior::FromDocument => Ok(ScriptFields::default()),
            ProjectionBehavior::FromIndexOrThrow | ProjectionBehavior::FromDocumentOrThrow => {
                Err(self.not_yet("a script and a ProjectionBehavior that throws", None))
            }
        }
    }
}

/// Appends a stored value, which is JSON, in the form that clients know.
pub(crate) fn write_stored(json: &[u8], out: &mut Vec<u8>) -> Result<(), QueryError> {
    let mut reader = JsonReader::new(json);
    let damaged = |_| SearchError::Corrupt { detail: "a stored value is no JSON" };
    Ok(write_value(&mut reader, 0, out).map_err(damaged)?)
}

/// Whether a stored value counts as present: an empty array does not.
pub(crate) fn is_value(json: &[u8]) -> bool {
    json != b"[]"
}

fn write_value(
    reader: &mut JsonReader<'_>,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), ParseError> {
    match reader.peek()? {
        JsonKind::Null => out.extend_from_slice(reader.read_raw()?.as_bytes()),
        JsonKind::Bool => write_json_string(reader.read_raw()?, out),
        JsonKind::Number => {
            let digits = reader.read_number()?;
            let value = IndexValue::of_digits(digits);
            write_json_string(value.as_ref().map_or(digits, |value| text_of(value)), out);
        }
        JsonKind::String => {
            let text = reader.read_str()?;
            let value = IndexValue::of_text(Cow::Borrowed(&text));
            write_json_string(text_of(&value), out);
        }
        JsonKind::Array if depth < NESTED_ARRAYS_MAX => {
            reader.begin_array()?;
            out.push(b'[');
            let mut is_first = true;
            while reader.next_element()? {
                if !std::mem::take(&mut is_first) {
                    out.push(b',');
                }
                write_value(reader, depth + 1, out)?;
            }
            out.push(b']');
        }
        JsonKind::Array | JsonKind::Object => {
            out.extend_from_slice(reader.read_raw()?.as_bytes());
        }
    }
    Ok(())
}

fn text_of<'v>(value: &'v IndexValue<'_>) -> &'v str {
    match value {
        IndexValue::Null => "null",
        IndexValue::Text(text)
        | IndexValue::Number { text, .. }
        | IndexValue::Time { text, .. } => text,
        IndexValue::Word(word) => word,
        IndexValue::Object(json) => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_are_the_texts_that_they_are_found_by() {
        for (stored, expected) in [
            ("5", r#""5""#),
            ("1.50", r#""1.5""#),
            ("true", r#""true""#),
            ("null", "null"),
            (r#""""#, r#""""#),
            (r#""Ann""#, r#""Ann""#),
            (r#""2020-01-02T03:04:05Z""#, r#""2020-01-02T03:04:05.0000000Z""#),
            (r#"[1,"x",null,[true]]"#, r#"["1","x",null,["true"]]"#),
            (r#"{"A":[1,2.0]}"#, r#"{"A":[1,2.0]}"#),
        ] {
            let mut out = Vec::new();
            write_stored(stored.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{stored}");
        }
        assert!(is_value(b"[1]") && !is_value(b"[]"));
    }
}
