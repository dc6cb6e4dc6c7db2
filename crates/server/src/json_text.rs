//! JSON written by hand, for answers that are made often or hold documents.

use blittable::write_json_string;
use documents::DocumentRow;
use wire::ProtocolError;

use crate::error_mapping::document_error;

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
) -> Result<(), ProtocolError> {
    let written = match metadata_only {
        true => documents::write_metadata_json(row, out),
        false => documents::write_document_json(row, out),
    };
    written.map_err(|error| document_error(&error))
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
