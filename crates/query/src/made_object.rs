//! One object that a script produced from a row, and its metadata.
//!
//! A document that the script returned unchanged, the row's or one that it loaded, is returned as
//! that document. Anything else is a projection; where the script set metadata that the row has
//! too, those of the row take precedence.

use blittable::write_json_string;
use documents::DocumentRow;
use model::DocumentId;
use script::ScriptValue;
use storage::{Transaction, WorkingMemory};

use crate::error::QueryError;
use crate::row::Row;
use crate::row_document::{Marked, decompressed_bytes, printed_bytes};

const METADATA: &str = "@metadata";
/// Approximate size of the metadata, besides what a script set.
const METADATA_BYTES: usize = 1 << 10;
/// A longer string is large.
const LARGE_BYTES: usize = 64 << 10;
/// The properties that the metadata of every row has.
const OF_THE_ROW: [&str; 7] = [
    "@projection",
    "@change-vector",
    "@flags",
    "@id",
    "@index-score",
    "@spatial",
    "@last-modified",
];

/// One object that a script produced from a row, as JSON, with its metadata.
#[derive(Clone, Debug)]
pub(crate) struct MadeObject {
    /// JSON, without its metadata.
    json: Vec<u8>,
    /// Further properties of its metadata, as JSON, each followed by a comma.
    metadata: Vec<u8>,
    /// The document that it equals.
    whole: Option<DocumentId>,
}

impl MadeObject {
    /// What a script produced from a row. `replaced` is the document that the script saw with other
    /// content.
    ///
    /// # Errors
    ///
    /// [`QueryError::InvalidOperation`] for anything but an object.
    pub(crate) fn of(value: ScriptValue, replaced: Option<&str>) -> Result<MadeObject, QueryError> {
        let (mut properties, whole) = match value {
            ScriptValue::Object(properties) => (properties, None),
            ScriptValue::Stored(stored) => {
                let id =
                    stored.document_id().filter(|id| stored.is_root() && Some(*id) != replaced);
                (stored.properties()?, id.and_then(|id| DocumentId::new(id).ok()))
            }
            other => return refuse(&other),
        };
        let (mut json, mut metadata) = (Vec::new(), Vec::new());
        if let Some(at) = properties.iter().position(|(name, _)| &**name == METADATA) {
            let (_, metadata_value) = properties.remove(at);
            for (name, value) in metadata_value.into_properties()?.unwrap_or_default() {
                if whole.is_some() || !OF_THE_ROW.contains(&&*name) {
                    write_json_string(&name, &mut metadata);
                    metadata.push(b':');
                    value.write_json(&mut metadata)?;
                    metadata.push(b',');
                }
            }
        }
        ScriptValue::Object(properties).write_json(&mut json)?;
        Ok(MadeObject { json, metadata, whole })
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.json.capacity() + self.metadata.capacity()) as u64
    }

    /// What rows are compared by: all that it contains.
    pub(crate) fn identity(&self) -> Vec<u8> {
        [self.json.as_slice(), &self.metadata].concat()
    }

    /// Appends it as the result, or one of the results, of `row`.
    pub(crate) fn write(
        &self,
        row: &Row<'_>,
        documents: &impl Transaction,
        memory: &WorkingMemory,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if let Some(id) = &self.whole {
            let found: Option<DocumentRow<'_>> = documents::get(documents, id)?;
            if let Some(document) = found {
                memory.take(decompressed_bytes(&document))?;
                memory.take(printed_bytes(&document.body()?)?)?;
                let mut more = Vec::new();
                row.metadata().with_score().write(&mut more);
                return Ok(documents::write_found_document_json(&document, &more, out)?);
            }
        }
        // The metadata goes before the closing brace.
        memory.take(self.json.len() as u64)?;
        reserve(out, self.json.len());
        out.extend_from_slice(&self.json[..self.json.len() - 1]);
        if 2 < self.json.len() {
            out.push(b',');
        }
        row.document.write_metadata_with(row.metadata(), Marked::FromDocument, &self.metadata, out);
        out.push(b'}');
        Ok(())
    }
}

/// Reserves for a large text exactly, not in doubling steps.
fn reserve(out: &mut Vec<u8>, bytes: usize) {
    if LARGE_BYTES < bytes {
        out.reserve_exact(bytes + METADATA_BYTES);
    }
}

fn refuse(value: &ScriptValue) -> Result<MadeObject, QueryError> {
    let mut shown = Vec::new();
    value.write_json(&mut shown)?;
    let shown = String::from_utf8_lossy(&shown);
    let message = format!(
        "Query returning a single function call result must return an object, but got: {shown}"
    );
    Err(QueryError::InvalidOperation { message })
}
