//! JSON written by hand, for responses that are frequent or contain documents.

use blittable::write_json_string;
use documents::{DocumentPrinter, DocumentRow, RevisionRow};

use crate::{
    answers::{long_answer::Sink, piece_sender::PIECE_BYTES},
    api_error::ApiError,
};

/// Writes a comma before every element but the first: for lists whose elements are not all written
/// into one buffer. All others are a [`JsonArray`] or a [`JsonObject`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commas {
    is_after_first: bool,
}

impl Commas {
    /// To be called before each element.
    pub(crate) fn before_next(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_after_first, true) {
            out.push(b',');
        }
    }
}

/// An object under construction. [`JsonObject::end`] closes it.
pub(crate) struct JsonObject<'o> {
    out: &'o mut Vec<u8>,
    commas: Commas,
}

impl<'o> JsonObject<'o> {
    /// Begins an object at the end of `out`.
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> JsonObject<'o> {
        out.push(b'{');
        JsonObject { out, commas: Commas::default() }
    }

    /// Continues an object that has properties and whose last value is complete.
    pub(crate) fn resume(out: &'o mut Vec<u8>) -> JsonObject<'o> {
        JsonObject { out, commas: Commas { is_after_first: true } }
    }

    /// Writes a name; the value follows into the buffer that is returned. Names need no escaping.
    pub(crate) fn name(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.commas.before_next(self.out);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a name that is data, escaped; the value follows into the buffer that is returned.
    pub(crate) fn key(&mut self, name: &str) -> &mut Vec<u8> {
        self.commas.before_next(self.out);
        write_json_string(name, self.out);
        self.out.push(b':');
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

/// An array under construction. [`JsonArray::end`] closes it.
pub(crate) struct JsonArray<'o> {
    out: &'o mut Vec<u8>,
    commas: Commas,
}

impl<'o> JsonArray<'o> {
    /// Begins an array at the end of `out`.
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> JsonArray<'o> {
        out.push(b'[');
        JsonArray { out, commas: Commas::default() }
    }

    /// The next element follows into the buffer that is returned.
    pub(crate) fn element(&mut self) -> &mut Vec<u8> {
        self.commas.before_next(self.out);
        self.out
    }

    /// The buffer, to send or to undo what was written.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    pub(crate) fn end(self) {
        self.out.push(b']');
    }
}

/// Writes an array of strings.
pub(crate) fn write_texts(texts: impl IntoIterator<Item: AsRef<str>>, out: &mut Vec<u8>) {
    let mut array = JsonArray::begin(out);
    for text in texts {
        write_json_string(text.as_ref(), array.element());
    }
    array.end();
}

/// Writes an array of elements that are JSON already.
pub(crate) fn write_elements(elements: impl IntoIterator<Item: AsRef<[u8]>>, out: &mut Vec<u8>) {
    let mut array = JsonArray::begin(out);
    for element in elements {
        array.element().extend_from_slice(element.as_ref());
    }
    array.end();
}

/// Appends a document in the protocol's form.
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

/// The text of a smaller stored document fits into a piece or two, however often it repeats its names and however
/// well its strings are packed.
pub(crate) const SMALL_ROW_BYTES: usize = 256;

/// Whether the text of a document may be so long that it should not be in memory as a whole.
pub(crate) fn is_large(row: &DocumentRow<'_>) -> bool {
    SMALL_ROW_BYTES < row.body_bytes()
}

/// Appends a document in the protocol's form, and flushes to the sink what has accumulated, even
/// within a large one. `false` when the sink requests to stop. What is decompressed is in memory
/// only temporarily, and charged.
pub(crate) async fn write_row_to(
    sink: Sink<'_>,
    row: &DocumentRow<'_>,
    metadata_only: bool,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let row = row.unread();
    let _held = sink.hold(row.is_compressed().then(|| row.body_bytes() as u64)).await?;
    if metadata_only || !is_large(&row) {
        write_row(&row, metadata_only, out)?;
        return Ok(sink.take(out).await);
    }
    write_large_to(sink, &row, &[], out).await
}

/// Appends a large document like [`write_row_to`]; `beside_id` are further properties of its
/// metadata, each preceded by a comma.
pub(crate) async fn write_large_to(
    sink: Sink<'_>,
    row: &DocumentRow<'_>,
    beside_id: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    print_to(sink, DocumentPrinter::found(row, beside_id)?, out).await
}

/// The same for a revision, however large.
pub(crate) async fn write_revision_to(
    sink: Sink<'_>,
    row: &RevisionRow<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let decompressed = row.is_compressed().then(|| row.uncompressed_bytes() as u64);
    let _held = sink.hold(decompressed).await?;
    print_to(sink, DocumentPrinter::revision(row)?, out).await
}

async fn print_to(
    sink: Sink<'_>,
    mut printer: DocumentPrinter<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    loop {
        let is_done = printer.print_to(out, out.len() + PIECE_BYTES)?;
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

    #[test]
    fn an_array_is_written_element_by_element() {
        let mut out = Vec::new();
        let mut array = JsonArray::begin(&mut out);
        JsonArray::begin(array.element()).end();
        write_texts(["a", "\""], array.element());
        write_elements([b"1", b"2"], array.element());
        array.end();
        assert_eq!(out, br#"[[],["a","\""],[1,2]]"#);
    }

    #[test]
    fn an_object_is_continued_after_an_array() {
        let mut out = Vec::new();
        let mut object = JsonObject::begin(&mut out);
        JsonArray::begin(object.key("a\"")).end();
        let mut object = JsonObject::resume(&mut out);
        object.number("B", 1);
        object.end();
        assert_eq!(out, br#"{"a\"":[],"B":1}"#);
    }
}
