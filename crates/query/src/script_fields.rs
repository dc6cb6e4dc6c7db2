//! A row as a script sees it: the document, with the values that an index stored in place of its
//! own.

use blittable::{
    BlittableBuf, Edit, Item, JsonKind, JsonReader, ParseError, ParseLimits, modify,
    parse_document, write_json_string,
};
use script::ScriptDocument;
use search::SearchError;
use storage::WorkingMemory;

use crate::error::QueryError;
use crate::row::Row;
use crate::row_script::{info_of, row_for_projection};

/// Maximum nesting of stored arrays; anything deeper is passed on unchanged.
const NESTED_ARRAYS_MAX: u32 = 64;

const METADATA: &str = "@metadata";

/// The stored fields that a script sees, in the order of the row's stored values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScriptFields {
    pub(crate) names: Vec<String>,
    /// Whether it sees nothing else.
    pub(crate) are_alone: bool,
}

impl ScriptFields {
    /// Whether a script sees anything but the row's document.
    pub(crate) fn replaces(&self, row: &Row<'_>) -> bool {
        let has_stored = row.stored.iter().any(Option::is_some);
        self.are_alone || (!self.names.is_empty() && has_stored)
    }

    /// The row as the script sees it.
    pub(crate) fn document_of(
        &self,
        row: &Row<'_>,
        memory: &WorkingMemory,
    ) -> Result<ScriptDocument, QueryError> {
        if !self.replaces(row) {
            return row_for_projection(&row.document, memory);
        }
        let stored_bytes: usize = row.stored.iter().flatten().map(|stored| stored.len()).sum();
        memory.take(4 * stored_bytes as u64)?;
        if !self.are_alone {
            memory.take(row.document.body()?.as_bytes().len() as u64)?;
        }
        let damaged = |_| SearchError::Corrupt { detail: "a stored value is no JSON" };
        let mut json = vec![b'{'];
        for (name, stored) in self.names.iter().zip(&row.stored) {
            let Some(stored) = stored else { continue };
            if 1 < json.len() {
                json.push(b',');
            }
            write_json_string(name, &mut json);
            json.push(b':');
            write_value(&mut JsonReader::new(stored), 0, &mut json).map_err(damaged)?;
        }
        json.push(b'}');
        let stored = parse_document(&json, &ParseLimits::default()).map_err(damaged)?;
        let seen = |body| match row.document.stored() {
            Some(document) => ScriptDocument::new(body, info_of(document)),
            None => ScriptDocument::unstored(body),
        };
        if self.are_alone {
            return Ok(seen(with_metadata_of(row, stored)?));
        }
        let members: Vec<_> = stored.as_view().root().iter().collect::<Result<_, _>>()?;
        let paths: Vec<[&str; 1]> = members.iter().map(|(name, _)| [&**name]).collect();
        let edits: Vec<Edit<'_>> = members
            .iter()
            .zip(&paths)
            .map(|((_, value), path)| Edit::Set { path, item: Item::Copy(*value) })
            .collect();
        let body = modify(&row.document.body()?, &edits).map_err(|error| {
            let message = format!("A row with its stored values is too large: {error}");
            QueryError::InvalidOperation { message }
        })?;
        Ok(seen(body))
    }
}

/// What an index stored, with the metadata of the row's document.
fn with_metadata_of(row: &Row<'_>, stored: BlittableBuf) -> Result<BlittableBuf, QueryError> {
    let metadata = match row.document.stored() {
        Some(_) => row.document.root()?.get(METADATA)?,
        None => None,
    };
    let Some(metadata) = metadata else { return Ok(stored) };
    let edit = Edit::Set { path: &[METADATA], item: Item::Copy(metadata) };
    modify(&stored.as_view(), &[edit]).map_err(|error| {
        let message = format!("A row with its metadata is too large: {error}");
        QueryError::InvalidOperation { message }
    })
}

/// Appends a stored value in the form that scripts expect: numbers are numbers, `true` and `false`
/// are strings.
fn write_value(
    reader: &mut JsonReader<'_>,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), ParseError> {
    match reader.peek()? {
        JsonKind::Bool => write_json_string(reader.read_raw()?, out),
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
        JsonKind::Null
        | JsonKind::Number
        | JsonKind::String
        | JsonKind::Array
        | JsonKind::Object => {
            out.extend_from_slice(reader.read_raw()?.as_bytes());
        }
    }
    Ok(())
}
