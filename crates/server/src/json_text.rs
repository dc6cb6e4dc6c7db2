//! JSON written by hand, for answers that are made often or hold documents.

use blittable::write_json_string;
use documents::{DocumentPrinter, DocumentRow};

use crate::{api_error::ApiError, long_answer::Sink, piece_sender::PIECE_BYTES};

/// An object under construction. [`JsonObject::end`] closes it.
pub(crate) struct JsonObject<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> JsonObject<'o> {
    /// Begins an object.
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> JsonObject<'o> {
        out.push(b'{');
        JsonObject { out, is_empty: true }
    }

    /// Writes a name; the value follows into the buffer that is returned. Names need no escaping.
    pub(crate) fn name(&mut self, name: &'static str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        write_json_string(text, self.name(name));
    }

    pub(crate) fn optional_text(&mut self, name: &'static str, text: Option<&str>) {
        match text {
            Some(text) => self.text(name, text),
            None => self.name(name).extend_from_slice(b"null"),
        }
    }

    pub(crate) fn number(&mut self, name: &'static str, number: impl ToString) {
        self.name(name).extend_from_slice(number.to_string().as_bytes());
    }

    pub(crate) fn flag(&mut self, name: &'static str, flag: bool) {
        self.name(name).extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Appends a document as the protocol shows it.
pub(crate) fn write_row(
    row: &DocumentRow<'_>,
    metadata_only: bool,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let written = match metadata_only {
        true => documents::write_metadata_json(row, out),
        false => documents::write_document_json(row, out),
    };
    written.map_err(ApiError::from)
}

/// Stored in fewer bytes, no document has a text that is worth printing in pieces.
const SMALL_ROW_BYTES: usize = 4 << 10;

/// Whether the text of a document may be so long that it should not be in memory as a whole.
pub(crate) fn is_large(row: &DocumentRow<'_>) -> bool {
    SMALL_ROW_BYTES < row.body_bytes()
}

/// Appends a document as the protocol shows it, and hands the sink what has gathered, also in the middle
/// of a large one. `false` when the sink said that the answer must not go on. What is decompressed of it is in
/// memory only meanwhile, and counted.
pub(crate) async fn write_row_to(
    sink: Sink<'_>,
    row: &DocumentRow<'_>,
    metadata_only: bool,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let row = row.unread();
    let _held = sink.hold(&row).await?;
    if metadata_only || !is_large(&row) {
        write_row(&row, metadata_only, out)?;
        return Ok(sink.take(out).await);
    }
    write_large_to(sink, &row, &[], out).await
}

/// Appends a large document as [`write_row_to`] does; `beside_id` are further properties of its metadata, each
/// with a comma before it.
pub(crate) async fn write_large_to(
    sink: Sink<'_>,
    row: &DocumentRow<'_>,
    beside_id: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let damaged = |error| ApiError::from(error);
    let mut printer = DocumentPrinter::found(row, beside_id).map_err(damaged)?;
    loop {
        let is_done = printer.print_to(out, out.len() + PIECE_BYTES).map_err(damaged)?;
        if !sink.take(out).await {
            return Ok(false);
        }
        if is_done {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_property_by_property() {
        let mut out = Vec::new();
        let mut object = JsonObject::begin(&mut out);
        object.text("A", "x\"y");
        object.optional_text("B", None);
        object.number("C", -5);
        object.flag("D", true);
        object.end();
        assert_eq!(out, br#"{"A":"x\"y","B":null,"C":-5,"D":true}"#);
    }
}
