//! The bytes of a revision.
//!
//! ```text
//!  0        'R'
//!  1        version: 1; 2 where the body is compressed
//!  2..4     length of the lower-cased id, L
//!  4..6     length of the id as written, I; 0 when it is the same as the lower-cased one
//!  6..8     length of the change vector, C
//!  8..12    document flags
//! 12..16    number of the collection
//! 16..24    last modified, ticks of UTC, signed
//! 24..      L bytes lower-cased id
//!           255
//!           8 bytes etag, big-endian
//!           I bytes id as written
//!           C bytes change vector
//!           the body, up to the end of the row; see compression::body
//! ```
//!
//! All other numbers are little-endian. Id, separator and etag are adjacent because they are the
//! primary key of the table. The first byte tells a revision from a document, for code that finds a
//! row without knowing its table, such as salvage. The revision of a deletion has a body with
//! nothing but the collection in its metadata.

use blittable::Document;
use model::{DocumentFlags, Etag};

use crate::{
    compression::body::{Body, FindDictionary, StoredBody},
    error::{DocumentError, corrupt},
    row_bytes::{RowKind, length_at, u32_at},
};

const REVISION_ROW: RowKind = RowKind {
    ends_early: "a revision ends inside its texts",
    is_no_text: "a revision has a text that is not UTF-8",
};
const KIND: u8 = b'R';
const VERSION: u8 = 1;
const VERSION_COMPRESSED: u8 = 2;
const HEADER_BYTES: usize = 24;
const ETAG_BYTES: usize = 8;
/// Follows the id in a primary key; does not occur in UTF-8 text.
pub(crate) const BEHIND_ID: u8 = 255;

/// The fields of a revision's row.
#[derive(Clone, Copy)]
pub(crate) struct RevisionFields<'a> {
    pub(crate) lower_id: &'a str,
    pub(crate) id: &'a str,
    pub(crate) change_vector: &'a str,
    pub(crate) flags: DocumentFlags,
    pub(crate) collection_number: u32,
    pub(crate) last_modified_ticks: i64,
}

/// A stored revision, read in place.
pub struct RevisionRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    id: &'a str,
    change_vector: &'a str,
    body: Body<'a>,
}

/// Replaces `out` with the row of a revision.
pub(crate) fn write(
    out: &mut Vec<u8>,
    fields: &RevisionFields<'_>,
    etag: Etag,
    body: StoredBody<'_>,
) -> Result<(), DocumentError> {
    let id = if fields.id == fields.lower_id { "" } else { fields.id };
    out.clear();
    out.extend_from_slice(&[KIND, if body.is_compressed() { VERSION_COMPRESSED } else { VERSION }]);
    for text in [fields.lower_id, id, fields.change_vector] {
        let length = u16::try_from(text.len());
        let length = length.map_err(|_| corrupt("an id or change vector of more than 64 KB"))?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&fields.flags.bits().to_le_bytes());
    out.extend_from_slice(&fields.collection_number.to_le_bytes());
    out.extend_from_slice(&fields.last_modified_ticks.to_le_bytes());
    out.extend_from_slice(fields.lower_id.as_bytes());
    out.push(BEHIND_ID);
    out.extend_from_slice(&etag.0.to_be_bytes());
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(fields.change_vector.as_bytes());
    body.write(out);
    Ok(())
}

/// Reads a row.
pub(crate) fn read<'a>(
    bytes: &'a [u8],
    find: FindDictionary<'_, 'a>,
) -> Result<RevisionRow<'a>, DocumentError> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("a revision is shorter than its header"));
    };
    if header[0] != KIND || !matches!(header[1], VERSION | VERSION_COMPRESSED) {
        return Err(corrupt("a revision has an unknown version"));
    }
    let mut rest = &bytes[HEADER_BYTES..];
    let lower_id = REVISION_ROW.take_text(&mut rest, length_at(bytes, 2))?;
    let key_end = REVISION_ROW.take(&mut rest, 1 + ETAG_BYTES)?;
    if key_end[0] != BEHIND_ID {
        return Err(corrupt("a revision's id does not end where it should"));
    }
    let id = REVISION_ROW.take_text(&mut rest, length_at(bytes, 4))?;
    let change_vector = REVISION_ROW.take_text(&mut rest, length_at(bytes, 6))?;
    let id = if id.is_empty() { lower_id } else { id };
    let body = match header[1] {
        VERSION => Body::plain(rest)?,
        _ => Body::compressed(rest, collection_number_of(bytes), find)?,
    };
    Ok(RevisionRow { bytes, lower_id, id, change_vector, body })
}

/// The primary key of a row. Empty for an invalid row; reading it reports the damage.
pub(crate) fn primary_key_of(row: &[u8]) -> &[u8] {
    let length = row.get(2..4).map_or(0, |_| length_at(row, 2));
    row.get(HEADER_BYTES..HEADER_BYTES + length + 1 + ETAG_BYTES).unwrap_or_default()
}

/// The etag of a row; 0 for an invalid row.
pub(crate) fn etag_of(row: &[u8]) -> u64 {
    etag_of_key(primary_key_of(row))
}

/// The etag in a primary key; 0 if there is none.
pub(crate) fn etag_of_key(key: &[u8]) -> u64 {
    key.last_chunk::<ETAG_BYTES>().map_or(0, |etag| u64::from_be_bytes(*etag))
}

/// The lower-cased id in a primary key.
pub(crate) fn id_of_key(key: &[u8]) -> &[u8] {
    key.get(..key.len().saturating_sub(1 + ETAG_BYTES)).unwrap_or_default()
}

/// The number of the collection of a row; 0 for an invalid row.
pub(crate) fn collection_number_of(row: &[u8]) -> u32 {
    u32_at(row, 12)
}

/// The change vector of a row. Empty for an invalid row.
pub(crate) fn change_vector_of(row: &[u8]) -> &[u8] {
    let Some(lengths) = row.get(2..8) else { return &[] };
    let [lower_id, id, change_vector] =
        [0, 2, 4].map(|at| usize::from(u16::from_le_bytes([lengths[at], lengths[at + 1]])));
    let from = HEADER_BYTES + lower_id + 1 + ETAG_BYTES + id;
    row.get(from..from + change_vector).unwrap_or_default()
}

impl<'a> RevisionRow<'a> {
    /// The document's id in the spelling of that version.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// The id lower-cased.
    pub fn lower_id(&self) -> &'a str {
        self.lower_id
    }

    /// The position of the revision in the log of revisions.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The version of the document that this revision keeps.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// When that version was written, in ticks of UTC.
    pub fn last_modified_ticks(&self) -> i64 {
        self.bytes[16..].first_chunk().map_or(0, |ticks| i64::from_le_bytes(*ticks))
    }

    /// The flags of the document at that version, and the marks of the revision.
    pub fn flags(&self) -> DocumentFlags {
        let flags = self.bytes[8..].first_chunk().map_or(0, |flags| u32::from_le_bytes(*flags));
        DocumentFlags::from_bits(flags)
    }

    /// Whether it records that the document was deleted.
    pub fn is_deletion(&self) -> bool {
        self.flags().contains(DocumentFlags::DELETE_REVISION)
    }

    /// The number of the document's collection.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.bytes)
    }

    /// The document as it was stored.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn body(&self) -> Result<Document<'_>, DocumentError> {
        self.body.document()
    }

    /// Bytes of the row.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the body is stored compressed.
    pub fn is_compressed(&self) -> bool {
        self.body.is_compressed()
    }

    /// The size of the row with its body uncompressed.
    pub fn uncompressed_bytes(&self) -> usize {
        self.size_bytes() - self.body.stored_bytes() + self.body.document_bytes()
    }

    pub(crate) fn primary_key(&self) -> &'a [u8] {
        primary_key_of(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn a_revision_lies_where_the_drawing_says() {
        let body = parse_document(b"{\"A\":1}", &ParseLimits::default()).unwrap();
        let fields = RevisionFields {
            lower_id: "u/1",
            id: "U/1",
            change_vector: "A:7-AAAAAAAAAAAAAAAAAAAAAA",
            flags: DocumentFlags::REVISION | DocumentFlags::HAS_REVISIONS,
            collection_number: 258,
            last_modified_ticks: 3,
        };
        let mut bytes = Vec::new();
        let plain = StoredBody::Plain(body.as_bytes());
        write(&mut bytes, &fields, Etag(0x0102), plain).unwrap();
        let golden = b"R\x01\x03\0\x03\0\x1a\0\x22\0\0\0\x02\x01\0\0\x03\0\0\0\0\0\0\0u/1\xff\
                       \0\0\0\0\0\0\x01\x02U/1A:7-AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(&bytes[..golden.len()], golden);
        let row = read(&bytes, &|_| None).unwrap();
        assert_eq!((row.id(), row.lower_id(), row.etag()), ("U/1", "u/1", Etag(0x0102)));
        assert_eq!((row.flags(), row.last_modified_ticks()), (fields.flags, 3));
        assert_eq!(row.change_vector(), fields.change_vector);
        assert_eq!(change_vector_of(&bytes), fields.change_vector.as_bytes());
        assert_eq!(row.collection_number(), 258);
        assert_eq!(row.body().unwrap().to_json().unwrap(), b"{\"A\":1}");
        assert_eq!(id_of_key(row.primary_key()), b"u/1");
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            assert!(read(cut, &|_| None).is_err(), "{length}");
            let _ = (primary_key_of(cut), change_vector_of(cut), collection_number_of(cut));
        }
    }
}
