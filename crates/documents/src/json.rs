//! A document as the protocol returns it.
//!
//! The properties in their order, then `@metadata` last: what is stored of it, then what the server
//! adds: `@change-vector`, `@flags` when there are any, `@id`, the score of a query's result,
//! `@last-modified`. This is the path of every read, so nothing is allocated except the output.

use blittable::{
    Corrupt, Document, Handled, MemberPrinter, Value, write_json_string, write_members_with,
};
use model::{DocumentFlags, date};

use crate::{error::DocumentError, metadata::METADATA, revisions::RevisionRow, row::DocumentRow};

/// The parts that documents and revisions have in common.
struct Shown<'a> {
    body: Document<'a>,
    id: &'a str,
    change_vector: &'a str,
    flags: DocumentFlags,
    last_modified_ticks: i64,
    /// Further properties of the metadata, each with a comma before it.
    extra_metadata: &'a [u8],
}

/// Appends the whole document.
///
/// # Errors
/// When the stored document is damaged; `out` then ends in the middle of it.
pub fn write_document_json(row: &DocumentRow<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    write_found_document_json(row, &[], out)
}

/// Prints a large document or revision in pieces.
pub struct DocumentPrinter<'a> {
    shown: Shown<'a>,
    members: MemberPrinter<'a>,
    has_begun: bool,
}

impl<'a> DocumentPrinter<'a> {
    /// For the text that [`write_document_json`] appends.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn new(row: &'a DocumentRow<'_>) -> Result<Self, DocumentError> {
        Self::found(row, &[])
    }

    /// For the text that [`write_found_document_json`] appends.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn found(
        row: &'a DocumentRow<'_>,
        extra_metadata: &'a [u8],
    ) -> Result<Self, DocumentError> {
        Self::of(Shown::of_document(row, extra_metadata)?)
    }

    /// For the text that [`write_revision_json`] appends.
    ///
    /// # Errors
    /// When the stored revision is damaged.
    pub fn revision(row: &'a RevisionRow<'_>) -> Result<Self, DocumentError> {
        Self::of(Shown::of_revision(row)?)
    }

    fn of(shown: Shown<'a>) -> Result<Self, DocumentError> {
        let members = MemberPrinter::new(&shown.body.root())?;
        Ok(Self { shown, members, has_begun: false })
    }

    /// Appends to `out` until it has `length` bytes, or some more, see [`MemberPrinter::print_to`];
    /// `true` when everything is printed. The metadata is printed in one piece.
    ///
    /// # Errors
    /// When the stored document is damaged; `out` then ends in the middle of it.
    pub fn print_to(&mut self, out: &mut Vec<u8>, length: usize) -> Result<bool, DocumentError> {
        if !self.has_begun {
            self.has_begun = true;
            out.push(b'{');
        }
        if !self.members.print_to(out, length, |name| name == METADATA)? {
            return Ok(false);
        }
        if self.members.has_printed() {
            out.push(b',');
        }
        write_metadata_property(&self.shown, out)?;
        out.push(b'}');
        Ok(true)
    }
}

/// Appends the whole document as the result of a query. `extra_metadata` are further properties of its
/// metadata, each with a comma before it.
///
/// # Errors
/// When the stored document is damaged; `out` then ends in the middle of it.
pub fn write_found_document_json(
    row: &DocumentRow<'_>,
    extra_metadata: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    write_whole(&Shown::of_document(row, extra_metadata)?, out)
}

/// Appends the document with only those of its properties that `is_shown` names, and its metadata.
/// `write` may write the value of the named property differently, and returns whether it did.
/// `extra_metadata` are further properties of its metadata, each with a comma before it.
///
/// # Errors
/// When the stored document is damaged; `out` then ends in the middle of it.
pub fn write_part_of_document_json(
    row: &DocumentRow<'_>,
    is_shown: impl Fn(&str) -> bool,
    extra_metadata: &[u8],
    write: impl Fn(&str, &Value<'_>, &mut Vec<u8>) -> Result<bool, Corrupt>,
    out: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    let shown = Shown::of_document(row, extra_metadata)?;
    out.push(b'{');
    let any = write_members_with(&shown.body.root(), out, |name, value, out| {
        if name == METADATA || !is_shown(name) {
            return Ok(Handled::Omitted);
        }
        Ok(if write(name, &value, out)? { Handled::Printed } else { Handled::No })
    })?;
    if any {
        out.push(b',');
    }
    write_metadata_property(&shown, out)?;
    out.push(b'}');
    Ok(())
}

/// Appends an object with nothing but the document's `@metadata`.
///
/// # Errors
/// When the stored document is damaged; `out` then ends in the middle of it.
pub fn write_metadata_json(row: &DocumentRow<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    write_metadata_alone(&Shown::of_document(row, &[])?, out)
}

/// Appends the whole document as it was in a revision.
///
/// # Errors
/// When the stored revision is damaged; `out` then ends in the middle of it.
pub fn write_revision_json(row: &RevisionRow<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    write_whole(&Shown::of_revision(row)?, out)
}

/// Appends an object with nothing but the `@metadata` of a revision.
///
/// # Errors
/// When the stored revision is damaged; `out` then ends in the middle of it.
pub fn write_revision_metadata_json(
    row: &RevisionRow<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    write_metadata_alone(&Shown::of_revision(row)?, out)
}

impl<'a> Shown<'a> {
    fn of_document(
        row: &'a DocumentRow<'_>,
        extra_metadata: &'a [u8],
    ) -> Result<Self, DocumentError> {
        Ok(Self {
            body: row.body()?,
            id: row.id(),
            change_vector: row.change_vector(),
            flags: row.flags(),
            last_modified_ticks: row.last_modified_ticks(),
            extra_metadata,
        })
    }

    fn of_revision(row: &'a RevisionRow<'_>) -> Result<Self, DocumentError> {
        Ok(Self {
            body: row.body()?,
            id: row.id(),
            change_vector: row.change_vector(),
            flags: row.flags(),
            last_modified_ticks: row.last_modified_ticks(),
            extra_metadata: &[],
        })
    }
}

fn write_whole(shown: &Shown<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    out.push(b'{');
    let any = write_members_with(&shown.body.root(), out, |name, _, _| {
        Ok(if name == METADATA { Handled::Omitted } else { Handled::No })
    })?;
    if any {
        out.push(b',');
    }
    write_metadata_property(shown, out)?;
    out.push(b'}');
    Ok(())
}

fn write_metadata_alone(shown: &Shown<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    out.push(b'{');
    write_metadata_property(shown, out)?;
    out.push(b'}');
    Ok(())
}

fn write_metadata_property(shown: &Shown<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    out.extend_from_slice(b"\"@metadata\":{");
    if let Some(metadata) = shown.body.root().get_object(METADATA)?
        && write_members_with(&metadata, out, |_, _, _| Ok(Handled::No))?
    {
        out.push(b',');
    }
    write_added_metadata(shown, out);
    out.push(b'}');
    Ok(())
}

fn write_added_metadata(shown: &Shown<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"@change-vector\":\"");
    // A change vector consists of letters, digits and `:-, +/`: nothing to escape.
    out.extend_from_slice(shown.change_vector.as_bytes());
    out.extend_from_slice(b"\",");
    if !shown.flags.is_empty() {
        out.extend_from_slice(b"\"@flags\":\"");
        shown.flags.write_text(out);
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"\"@id\":");
    write_json_string(shown.id, out);
    out.extend_from_slice(shown.extra_metadata);
    out.extend_from_slice(b",\"@last-modified\":\"");
    out.extend_from_slice(&date::text(shown.last_modified_ticks));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};
    use model::Etag;

    use super::*;
    use crate::{
        compression::body::StoredBody,
        row::{RowFields, read_document, write_document},
    };

    fn printed(json: &str, id: &str, flags: DocumentFlags) -> (String, String) {
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let fields = RowFields {
            lower_id: &id.to_lowercase(),
            id,
            change_vector: "A:1-AAAAAAAAAAAAAAAAAAAAAA",
            flags,
            collection_number: 1,
            etag: Etag(1),
            last_modified_ticks: 0,
        };
        let (mut row, mut whole, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        write_document(&mut row, &fields, StoredBody::Plain(body.as_bytes())).unwrap();
        let row = read_document(&row, &|_| None).unwrap();
        write_document_json(&row, &mut whole).unwrap();
        let (mut printer, mut pieces) = (DocumentPrinter::new(&row).unwrap(), Vec::new());
        while !printer.print_to(&mut pieces, whole.len() / 2).unwrap() {
            pieces.reserve(1);
            let length = pieces.len() + 1;
            if printer.print_to(&mut pieces, length).unwrap() {
                break;
            }
        }
        assert_eq!(pieces, whole);
        write_metadata_json(&row, &mut metadata).unwrap();
        (String::from_utf8(whole).unwrap(), String::from_utf8(metadata).unwrap())
    }

    #[test]
    fn metadata_comes_last_with_what_the_server_adds() {
        let added = r#""@change-vector":"A:1-AAAAAAAAAAAAAAAAAAAAAA","@id":"U/1","@last-modified":"0001-01-01T00:00:00.0000000Z""#;
        let cases = [
            ("{}", format!(r#"{{"@metadata":{{{added}}}}}"#)),
            (r#"{"A":1}"#, format!(r#"{{"A":1,"@metadata":{{{added}}}}}"#)),
            (
                r#"{"A":1,"@metadata":{"@collection":"Users","z":{"y":[]}},"B":2}"#,
                format!(
                    r#"{{"A":1,"B":2,"@metadata":{{"@collection":"Users","z":{{"y":[]}},{added}}}}}"#
                ),
            ),
            (r#"{"@metadata":{},"A":1}"#, format!(r#"{{"A":1,"@metadata":{{{added}}}}}"#)),
        ];
        for (json, expected) in cases {
            assert_eq!(printed(json, "U/1", DocumentFlags::NONE).0, expected);
        }
    }

    #[test]
    fn flags_and_escapes_are_shown() {
        let flags = DocumentFlags::HAS_REVISIONS | DocumentFlags::HAS_COUNTERS;
        let (_, metadata) = printed(r#"{"A":1}"#, "a\"b\n", flags);
        let expected = r#"{"@metadata":{"@change-vector":"A:1-AAAAAAAAAAAAAAAAAAAAAA","@flags":"HasRevisions, HasCounters","@id":"a\"b\n","@last-modified":"0001-01-01T00:00:00.0000000Z"}}"#;
        assert_eq!(metadata, expected);
    }
}
