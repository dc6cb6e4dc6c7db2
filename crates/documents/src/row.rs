//! The bytes of a document and of a tombstone.
//!
//! ```text
//!  0        version: 1; 2 where the body is compressed
//!  1        not used, 0
//!  2..4     length of the lower-cased id, L
//!  4..6     length of the id as written, I; 0 when it is the same as the lower-cased one
//!  6..8     length of the change vector, C
//!  8..12    document flags
//! 12..16    number of the collection
//! 16..24    etag
//! 24..32    last modified, ticks of UTC, signed
//! 32..40    document: 0; tombstone: etag of the document that was deleted
//! 40        kind: 'd' document, 't' tombstone, 'm' tombstone of a document that moved
//! 41..      L bytes lower-cased id; of kind 'm' with the number of the collection, 8 hexadecimal digits
//!           I bytes id as written
//!           C bytes change vector
//!           document: the body, up to the end of the row; see compression::body
//! ```
//!
//! All numbers are little-endian. The kind stands directly before the lower-cased id so that both
//! together, the primary key of the table, are one slice of the row: a live document and a
//! tombstone of the same id are two rows. When a deleted document is recreated in another
//! collection, its tombstone is kept for readers of the first one, under a key that leaves room for
//! more of them. Pages carry checksums, so the row has none of its own; the reader still validates
//! every length.

use std::borrow::Cow;

use blittable::Document;
use model::{DocumentFlags, EMPTY_COLLECTION, Etag};

use crate::{
    compression::body::{Body, FindDictionary, StoredBody},
    error::{DocumentError, corrupt},
    row_bytes::{RowKind, length_at, u32_at, u64_at},
};

const ROW: RowKind = RowKind {
    ends_early: "a row ends inside its texts",
    is_no_text: "a row has a text that is not UTF-8",
};
const VERSION: u8 = 1;
const VERSION_COMPRESSED: u8 = 2;
const HEADER_BYTES: usize = 41;
const KIND_AT: usize = HEADER_BYTES - 1;
const DOCUMENT: u8 = b'd';
const TOMBSTONE: u8 = b't';
const MOVED: u8 = b'm';
/// All keys of documents are before this one; all keys of tombstones are at or after it.
pub(crate) const FIRST_TOMBSTONE_KEY: &[u8] = &[MOVED];
/// The digits after the id in the key of a tombstone of a document that moved.
const MOVED_DIGITS: usize = 8;

/// The fields of a row.
pub(crate) struct RowFields<'a> {
    pub(crate) lower_id: &'a str,
    pub(crate) id: &'a str,
    pub(crate) change_vector: &'a str,
    pub(crate) flags: DocumentFlags,
    pub(crate) collection_number: u32,
    pub(crate) etag: Etag,
    pub(crate) last_modified_ticks: i64,
}

/// A stored document, read in place.
pub struct DocumentRow<'a> {
    row: Row<'a>,
    body: Body<'a>,
}

/// A copy of a stored document, which outlives the snapshot that it was read from.
pub struct DetachedDocument(Vec<u8>);

impl DetachedDocument {
    /// The document, as it was.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn row(&self) -> Result<DocumentRow<'_>, DocumentError> {
        read_document(&self.0, &|_| None)
    }
}

/// A stored tombstone, read in place.
#[derive(Clone, Copy)]
pub struct TombstoneRow<'a> {
    row: Row<'a>,
}

/// The parts common to both.
#[derive(Clone, Copy)]
struct Row<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    id: &'a str,
    change_vector: &'a str,
}

/// A row of either kind.
pub(crate) enum AnyRow<'a> {
    Document(DocumentRow<'a>),
    Tombstone(TombstoneRow<'a>),
}

/// Replaces `out` with the row of a document.
pub(crate) fn write_document(
    out: &mut Vec<u8>,
    fields: &RowFields<'_>,
    body: StoredBody<'_>,
) -> Result<(), DocumentError> {
    write_header(out, fields, DOCUMENT, Etag::ZERO)?;
    if body.is_compressed() {
        out[0] = VERSION_COMPRESSED;
    }
    body.write(out);
    Ok(())
}

/// Replaces `out` with the row of a tombstone.
pub(crate) fn write_tombstone(
    out: &mut Vec<u8>,
    fields: &RowFields<'_>,
    deleted: Etag,
) -> Result<(), DocumentError> {
    write_header(out, fields, TOMBSTONE, deleted)
}

/// Replaces `out` with the row of a tombstone whose document was recreated in another collection.
pub(crate) fn write_moved(
    out: &mut Vec<u8>,
    tombstone: &TombstoneRow<'_>,
) -> Result<(), DocumentError> {
    let number = tombstone.collection_number();
    let fields = RowFields {
        lower_id: &moved_id(tombstone.lower_id(), number),
        id: tombstone.id(),
        change_vector: tombstone.change_vector(),
        flags: tombstone.flags(),
        collection_number: number,
        etag: tombstone.etag(),
        last_modified_ticks: tombstone.last_modified_ticks(),
    };
    write_header(out, &fields, MOVED, tombstone.deleted_etag())
}

fn moved_id(lower_id: &str, collection_number: u32) -> String {
    format!("{lower_id}{collection_number:0MOVED_DIGITS$x}")
}

fn write_header(
    out: &mut Vec<u8>,
    fields: &RowFields<'_>,
    kind: u8,
    deleted: Etag,
) -> Result<(), DocumentError> {
    let id = if fields.id == fields.lower_id { "" } else { fields.id };
    out.clear();
    out.extend_from_slice(&[VERSION, 0]);
    for text in [fields.lower_id, id, fields.change_vector] {
        let length = u16::try_from(text.len());
        let length = length.map_err(|_| corrupt("an id or change vector of more than 64 KB"))?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&fields.flags.bits().to_le_bytes());
    out.extend_from_slice(&fields.collection_number.to_le_bytes());
    out.extend_from_slice(&fields.etag.0.to_le_bytes());
    out.extend_from_slice(&fields.last_modified_ticks.to_le_bytes());
    out.extend_from_slice(&deleted.0.to_le_bytes());
    out.push(kind);
    for text in [fields.lower_id, id, fields.change_vector] {
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// Reads a row.
pub(crate) fn read<'a>(
    bytes: &'a [u8],
    find: FindDictionary<'_, 'a>,
) -> Result<AnyRow<'a>, DocumentError> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("a row is shorter than its header"));
    };
    if !matches!(header[0], VERSION | VERSION_COMPRESSED) {
        return Err(corrupt("a row has an unknown version"));
    }
    let mut rest = &bytes[HEADER_BYTES..];
    let mut lower_id = ROW.take_text(&mut rest, length_at(bytes, 2))?;
    if header[KIND_AT] == MOVED {
        let end = lower_id.len().checked_sub(MOVED_DIGITS);
        lower_id = end
            .and_then(|end| lower_id.get(..end))
            .ok_or(corrupt("a tombstone has no number of a collection"))?;
    }
    let id = ROW.take_text(&mut rest, length_at(bytes, 4))?;
    let change_vector = ROW.take_text(&mut rest, length_at(bytes, 6))?;
    let id = if id.is_empty() { lower_id } else { id };
    let row = Row { bytes, lower_id, id, change_vector };
    match header[KIND_AT] {
        DOCUMENT => {
            let body = match header[0] {
                VERSION => Body::plain(rest)?,
                _ => Body::compressed(rest, collection_number_of(bytes), find)?,
            };
            Ok(AnyRow::Document(DocumentRow { row, body }))
        }
        TOMBSTONE | MOVED => Ok(AnyRow::Tombstone(TombstoneRow { row })),
        _ => Err(corrupt("a row is of an unknown kind")),
    }
}

/// Reads the row of a document.
pub(crate) fn read_document<'a>(
    bytes: &'a [u8],
    find: FindDictionary<'_, 'a>,
) -> Result<DocumentRow<'a>, DocumentError> {
    match read(bytes, find)? {
        AnyRow::Document(document) => Ok(document),
        AnyRow::Tombstone(_) => Err(corrupt("a tombstone stands where a document should")),
    }
}

/// Reads the row of a tombstone.
pub(crate) fn read_tombstone(bytes: &[u8]) -> Result<TombstoneRow<'_>, DocumentError> {
    match read(bytes, &|_| None)? {
        AnyRow::Tombstone(tombstone) => Ok(tombstone),
        AnyRow::Document(_) => Err(corrupt("a document stands where a tombstone should")),
    }
}

/// The primary key of a row: its kind and its lower-cased id. Empty for an invalid row, which
/// reading it will tell.
pub(crate) fn primary_key_of(row: &[u8]) -> &[u8] {
    let length = row.get(2..4).map_or(0, |_| length_at(row, 2));
    row.get(KIND_AT..HEADER_BYTES + length).unwrap_or_default()
}

/// Whether a row is that of a tombstone; `None` for a damaged row.
pub(crate) fn is_tombstone(row: &[u8]) -> Option<bool> {
    match *row.get(KIND_AT)? {
        DOCUMENT => Some(false),
        TOMBSTONE | MOVED => Some(true),
        _ => None,
    }
}

/// The etag of a row; 0 for an invalid row.
pub(crate) fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, 16)
}

/// The number of the collection of a row; 0 for an invalid row.
pub(crate) fn collection_number_of(row: &[u8]) -> u32 {
    u32_at(row, 12)
}

/// The primary key of the live document of a lower-cased id.
pub(crate) fn document_key(lower_id: &str) -> Vec<u8> {
    key(DOCUMENT, lower_id)
}

/// The primary key of the tombstone of a lower-cased id.
pub(crate) fn tombstone_key(lower_id: &str) -> Vec<u8> {
    key(TOMBSTONE, lower_id)
}

/// The primary key of the tombstone of a lower-cased id in a collection that it has left.
pub(crate) fn moved_key(lower_id: &str, collection_number: u32) -> Vec<u8> {
    key(MOVED, &moved_id(lower_id, collection_number))
}

/// Whether a primary key is that of a tombstone whose document was recreated in another collection.
pub(crate) fn is_moved_key(key: &[u8]) -> bool {
    key.first() == Some(&MOVED)
}

/// Whether a primary key is that of a live document.
pub(crate) fn is_document_key(key: &[u8]) -> bool {
    key.first() == Some(&DOCUMENT)
}

fn key(kind: u8, lower_id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + lower_id.len());
    key.push(kind);
    key.extend_from_slice(lower_id.as_bytes());
    key
}

impl Row<'_> {
    fn flags(&self) -> DocumentFlags {
        DocumentFlags::from_bits(u32_at(self.bytes, 8))
    }

    fn last_modified_ticks(&self) -> i64 {
        u64_at(self.bytes, 24).cast_signed()
    }
}

impl<'a> DocumentRow<'a> {
    /// The id in the spelling of the last write.
    pub fn id(&self) -> &'a str {
        self.row.id
    }

    /// The id lower-cased.
    pub fn lower_id(&self) -> &'a str {
        self.row.lower_id
    }

    /// The position of the last write in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.row.bytes))
    }

    /// The version of the document.
    pub fn change_vector(&self) -> &'a str {
        self.row.change_vector
    }

    /// When it was last written, in ticks of UTC.
    pub fn last_modified_ticks(&self) -> i64 {
        self.row.last_modified_ticks()
    }

    /// What the document has, such as revisions or attachments.
    pub fn flags(&self) -> DocumentFlags {
        self.row.flags()
    }

    /// The number under which its collection is known in this database.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.row.bytes)
    }

    /// Its collection in the spelling of its own metadata.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn collection(&self) -> Result<Cow<'_, str>, DocumentError> {
        let metadata = self.body()?.root().get_object("@metadata")?;
        let name = metadata.map(|metadata| metadata.get_str("@collection")).transpose()?;
        Ok(name.flatten().unwrap_or(Cow::Borrowed(EMPTY_COLLECTION)))
    }

    /// The document as it is stored: `@metadata` holds only what the client sent and may keep.
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn body(&self) -> Result<Document<'_>, DocumentError> {
        self.body.document()
    }

    /// The same document, of whose body nothing is decompressed.
    #[must_use]
    pub fn unread(&self) -> DocumentRow<'a> {
        DocumentRow { row: self.row, body: self.body.unread() }
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> usize {
        self.body.document_bytes()
    }

    /// Whether the body is stored compressed.
    pub fn is_compressed(&self) -> bool {
        self.body.is_compressed()
    }

    /// The size of the row with its body uncompressed.
    pub fn uncompressed_bytes(&self) -> usize {
        self.size_bytes() - self.body.stored_bytes() + self.body.document_bytes()
    }

    /// A copy of as many bytes as [`DocumentRow::uncompressed_bytes`].
    ///
    /// # Errors
    /// When the stored document is damaged.
    pub fn detach(&self) -> Result<DetachedDocument, DocumentError> {
        self.to_plain().map(DetachedDocument)
    }

    /// The row with its body uncompressed.
    pub(crate) fn to_plain(&self) -> Result<Vec<u8>, DocumentError> {
        let mut row = Vec::with_capacity(self.uncompressed_bytes());
        let header_bytes = self.size_bytes() - self.body.stored_bytes();
        row.extend_from_slice(&self.row.bytes[..header_bytes]);
        row[0] = VERSION;
        row.extend_from_slice(self.body()?.as_bytes());
        Ok(row)
    }

    /// Bytes of the row.
    pub fn size_bytes(&self) -> usize {
        self.row.bytes.len()
    }
}

impl<'a> TombstoneRow<'a> {
    /// Whether it only marks for readers of the log that the document is in conflict.
    pub fn is_of_conflict(&self) -> bool {
        self.flags().contains(DocumentFlags::CONFLICTED)
    }

    /// Whether the document was recreated in another collection.
    pub(crate) fn is_moved(&self) -> bool {
        is_moved_key(primary_key_of(self.row.bytes))
    }

    /// The primary key of the row.
    pub(crate) fn primary_key(&self) -> &'a [u8] {
        primary_key_of(self.row.bytes)
    }

    /// Bytes of the row.
    pub fn size_bytes(&self) -> usize {
        self.row.bytes.len()
    }

    /// The id of the deleted document in the spelling in which it was stored.
    pub fn id(&self) -> &'a str {
        self.row.id
    }

    /// The id lower-cased.
    pub fn lower_id(&self) -> &'a str {
        self.row.lower_id
    }

    /// The position of the deletion in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.row.bytes))
    }

    /// The etag of the deleted document.
    pub fn deleted_etag(&self) -> Etag {
        Etag(u64_at(self.row.bytes, 32))
    }

    /// The version of the deletion.
    pub fn change_vector(&self) -> &'a str {
        self.row.change_vector
    }

    /// When the document was deleted, in ticks of UTC.
    pub fn last_modified_ticks(&self) -> i64 {
        self.row.last_modified_ticks()
    }

    /// The flags of the deleted document.
    pub fn flags(&self) -> DocumentFlags {
        self.row.flags()
    }

    /// The number under which the collection of the deleted document is known in this database.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.row.bytes)
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn fields<'a>(lower_id: &'a str, id: &'a str) -> RowFields<'a> {
        RowFields {
            lower_id,
            id,
            change_vector: "A:7-AAAAAAAAAAAAAAAAAAAAAA",
            flags: DocumentFlags::HAS_REVISIONS,
            collection_number: 3,
            etag: Etag(7),
            last_modified_ticks: 637_134_336_000_000_000,
        }
    }

    #[test]
    fn the_header_lies_where_the_drawing_says() {
        let mut row = Vec::new();
        let mut fields = fields("é", "É");
        fields.change_vector = "cv";
        write_tombstone(&mut row, &fields, Etag(5)).unwrap();
        let mut golden =
            vec![1, 0, 2, 0, 2, 0, 2, 0, 2, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&637_134_336_000_000_000_i64.to_le_bytes());
        golden.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, b't']);
        golden.extend_from_slice("éÉcv".as_bytes());
        assert_eq!(row, golden);
        assert_eq!(primary_key_of(&row), tombstone_key("é"));
        assert_eq!((etag_of(&row), collection_number_of(&row)), (7, 3));
    }

    #[test]
    fn a_document_survives_its_row() {
        let json = br#"{"A":1,"@metadata":{"@collection":"Users"}}"#;
        let body = parse_document(json, &ParseLimits::default()).unwrap();
        let mut bytes = Vec::new();
        for (lower_id, id) in [("users/1", "Users/1"), ("users/1", "users/1")] {
            let plain = StoredBody::Plain(body.as_bytes());
            write_document(&mut bytes, &fields(lower_id, id), plain).unwrap();
            let row = read_document(&bytes, &|_| None).unwrap();
            assert_eq!((row.id(), row.lower_id()), (id, lower_id));
            assert_eq!(row.change_vector(), "A:7-AAAAAAAAAAAAAAAAAAAAAA");
            assert_eq!(row.flags(), DocumentFlags::HAS_REVISIONS);
            assert_eq!((row.etag(), row.collection_number()), (Etag(7), 3));
            assert_eq!(row.collection().unwrap(), "Users");
            assert_eq!(row.body().unwrap().to_json().unwrap(), json);
            assert_eq!(primary_key_of(&bytes), document_key(lower_id));
            assert!(read_tombstone(&bytes).is_err());
        }
    }

    #[test]
    fn tombstones_of_documents_that_moved_tell_the_same() {
        for (lower_id, id) in [("users/1", "Users/1"), ("users/1", "users/1"), ("é", "É")] {
            let (mut bytes, mut moved) = (Vec::new(), Vec::new());
            write_tombstone(&mut bytes, &fields(lower_id, id), Etag(5)).unwrap();
            let tombstone = read_tombstone(&bytes).unwrap();
            assert!(!tombstone.is_moved());
            write_moved(&mut moved, &tombstone).unwrap();
            let row = read_tombstone(&moved).unwrap();
            assert!(row.is_moved());
            assert_eq!((row.id(), row.lower_id()), (id, lower_id));
            assert_eq!(row.change_vector(), tombstone.change_vector());
            assert_eq!((row.etag(), row.deleted_etag()), (Etag(7), Etag(5)));
            assert_eq!((row.flags(), row.collection_number()), (tombstone.flags(), 3));
            assert_eq!(row.last_modified_ticks(), tombstone.last_modified_ticks());
            assert_eq!(row.primary_key(), moved_key(lower_id, 3));
            assert_eq!(row.primary_key(), format!("m{lower_id}00000003").as_bytes());
            moved[2] = 3;
            assert!(read_tombstone(&moved).is_err());
        }
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let body = parse_document(br#"{"A":1}"#, &ParseLimits::default()).unwrap();
        let mut bytes = Vec::new();
        let plain = StoredBody::Plain(body.as_bytes());
        write_document(&mut bytes, &fields("users/1", "Users/1"), plain).unwrap();
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            assert!(read(cut, &|_| None).is_err(), "cut to {length}");
            let _ = (primary_key_of(cut), etag_of(cut), collection_number_of(cut));
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0xff;
            let _ = read(&damaged, &|_| None).map(|row| match row {
                AnyRow::Document(document) => document.collection().map(|name| name.len()).ok(),
                AnyRow::Tombstone(_) => None,
            });
            let _ = primary_key_of(&damaged);
        }
    }
}
