//! The source of a row: a document, or a result of a reduce, which has neither an id nor a history.

use blittable::{BlittableBuf, Document, Object, Value, prints_within, write_json_string};
use documents::DocumentRow;
use model::date;

use crate::error::QueryError;
use crate::row_metadata::RowMetadata;

/// The source of a row: a document, or a result that an index stored.
pub enum RowDocument<'t> {
    /// A document of the database.
    Stored(DocumentRow<'t>),
    /// A result stored in an index.
    Result(Document<'t>),
}

/// Documents with fewer stored bytes are not measured.
const SMALL_BYTES: usize = 1 << 10;
/// Minimum charge for a larger one.
const STEP_BYTES: u64 = 16 << 10;

/// Approximate printed size of a document, which may be much more than what is stored: long strings
/// are compressed. For a large document it is never too low.
pub(crate) fn printed_bytes(body: &Document<'_>) -> Result<u64, QueryError> {
    let stored_bytes = body.as_bytes().len();
    if stored_bytes < SMALL_BYTES {
        return Ok(stored_bytes as u64);
    }
    let (root, mut bytes) = (Value::Object(body.root()), STEP_BYTES);
    while !prints_within(&root, bytes)? {
        bytes = bytes.saturating_add(bytes / 2);
    }
    Ok(bytes)
}

/// Memory that a document takes once it is accessed; zero where it is read in place.
pub(crate) fn decompressed_bytes(document: &DocumentRow<'_>) -> u64 {
    if document.is_compressed() { document.body_bytes() as u64 } else { 0 }
}

impl<'t> RowDocument<'t> {
    /// The stored document; `None` for a result.
    pub fn stored(&self) -> Option<&DocumentRow<'t>> {
        match self {
            Self::Stored(document) => Some(document),
            Self::Result(_) => None,
        }
    }

    /// The id; `None` for a result.
    pub fn id(&self) -> Option<&str> {
        self.stored().map(DocumentRow::id)
    }

    /// # Errors
    ///
    /// [`QueryError::Documents`] when the document is damaged.
    pub(crate) fn body(&self) -> Result<Document<'_>, QueryError> {
        match self {
            Self::Stored(document) => Ok(document.body()?),
            Self::Result(result) => Ok(*result),
        }
    }

    pub(crate) fn root(&self) -> Result<Object<'_>, QueryError> {
        Ok(self.body()?.root())
    }

    pub(crate) fn to_buf(&self) -> Result<BlittableBuf, QueryError> {
        Ok(self.body()?.to_buf())
    }

    /// Appends the whole of it as JSON.
    pub(crate) fn write_json(
        &self,
        metadata: RowMetadata,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        match self {
            Self::Stored(document) => {
                let mut more = Vec::new();
                metadata.write(&mut more);
                Ok(documents::write_found_document_json(document, &more, out)?)
            }
            Self::Result(result) => {
                result.write_json(out)?;
                // The metadata goes before the closing brace.
                out.truncate(out.len() - 1);
                if !result.root().is_empty() {
                    out.push(b',');
                }
                self.write_metadata(metadata, Marked::No, out);
                out.push(b'}');
                Ok(())
            }
        }
    }

    /// Appends an object that contains only the metadata.
    pub(crate) fn write_metadata_json(
        &self,
        metadata: RowMetadata,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        match self {
            Self::Stored(document) => {
                let mut more = Vec::new();
                metadata.write(&mut more);
                let (shows, prints) =
                    (|_: &str| false, |_: &str, _: &Value<'_>, _: &mut _| Ok(false));
                Ok(documents::write_part_of_document_json(document, shows, &more, prints, out)?)
            }
            Self::Result(_) => {
                out.push(b'{');
                self.write_metadata(metadata, Marked::No, out);
                out.push(b'}');
                Ok(())
            }
        }
    }

    /// Appends the property `@metadata` of a row that shows parts of a document or result.
    pub(crate) fn write_metadata(&self, metadata: RowMetadata, marked: Marked, out: &mut Vec<u8>) {
        self.write_metadata_with(metadata, marked, b"", out);
    }

    /// The same with other properties first, each followed by a comma.
    pub(crate) fn write_metadata_with(
        &self,
        metadata: RowMetadata,
        marked: Marked,
        others: &[u8],
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"\"@metadata\":{");
        if marked != Marked::No {
            out.extend_from_slice(b"\"@projection\":true,");
        }
        out.extend_from_slice(others);
        out.extend_from_slice(b"\"@change-vector\":");
        let shown = self.stored().filter(|_| marked != Marked::FromIndexAlone);
        match shown {
            Some(document) => write_json_string(document.change_vector(), out),
            None => out.extend_from_slice(b"null"),
        }
        if let Some(document) = shown
            && !document.flags().is_empty()
        {
            out.extend_from_slice(b",\"@flags\":");
            write_json_string(&document.flags().to_string(), out);
        }
        if let Some(id) = self.id() {
            out.extend_from_slice(b",\"@id\":");
            write_json_string(id, out);
        }
        metadata.with_score().write(out);
        if let Some(document) = shown {
            out.extend_from_slice(b",\"@last-modified\":");
            write_json_string(&date::format(document.last_modified_ticks()), out);
        }
        out.push(b'}');
    }
}

/// Whether a row is marked as a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// It is not.
    No,
    /// It contains parts of the document.
    FromDocument,
    /// Everything in it was stored in an index, so nothing of the document is reported.
    FromIndexAlone,
}
