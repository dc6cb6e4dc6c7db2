//! The bytes of an attachment and of its tombstone.
//!
//! ```text
//! attachment                                       tombstone
//!  0       0xa1: attachment, version 1              0       0xa5: tombstone of one, version 2
//!  1       not used, 0                              1       not used, 0
//!  2..4    length of the owner, O                   2..4    length of the owner, O
//!  4..6    length of the lower-cased name, L        4..6    length of the lower-cased name, L
//!  6..8    length of the name as written, N;        6..8    length of the change vector, C
//!          0 when it is the lower-cased one         8..16   etag of the deleted attachment
//!  8..10   length of the content type, T           16..24   etag
//! 10..12   length of the change vector, C          24..32   when, ticks of UTC, signed
//! 12..16   not used, 0                             32       kind of the owner, 'd'
//! 16..24   etag                                    33..     O bytes owner
//! 24..32   bytes of the content                             0xff
//! 32..64   hash of the content                              L bytes lower-cased name
//! 64       kind of the owner: 'd' or 'r'                    C bytes change vector
//! 65..     O bytes owner: a document's lower-cased id, or a revision's etag, 8 bytes big-endian
//!          0xff
//!          L bytes lower-cased name, N bytes name as written, T bytes content type,
//!          C bytes change vector
//! ```
//!
//! A generation says how often an attachment of that name was written or deleted before: the one that is written over
//! another one has a higher one. Rows of older versions, and those of revisions, have 0; tombstones of older versions, 0xa2,
//! have none, and the kind is in the place of the generation.
//!
//! All numbers are little-endian but for the revision's etag. From the kind to the end of the
//! lower-cased name is the primary key, one slice of the row. The first byte tells these rows from
//! those of documents, which begin with 1.

use std::{borrow::Cow, ops::Range};

use model::{ContentHash, Etag};

use crate::{
    error::{DocumentError, corrupt},
    row_bytes::{RowKind, length_at, u32_at, u64_at},
};

const ATTACHMENT_ROW: RowKind = RowKind {
    ends_early: "the row of an attachment ends too early",
    is_no_text: "an attachment has a text that is not UTF-8",
};
const ATTACHMENT: u8 = 0xa1;
const TOMBSTONE: u8 = 0xa5;
const TOMBSTONE_WITHOUT_GENERATION: u8 = 0xa2;
const KIND_AT: usize = 64;
const TOMBSTONE_KIND_AT: usize = 36;
const KIND_WITHOUT_GENERATION_AT: usize = 32;
const ETAG: Range<usize> = 16..24;
const HASH: Range<usize> = 32..64;
const GENERATION_AT: usize = 12;
const TOMBSTONE_GENERATION_AT: usize = 32;
const OF_DOCUMENT: u8 = b'd';
const OF_REVISION: u8 = b'r';
const END_OF_OWNER: u8 = 0xff;

/// Who holds an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// The document of this lower-cased id.
    Document(&'a str),
    /// The revision of this etag.
    Revision(Etag),
}

impl Owner<'_> {
    /// What the primary keys of all its attachments begin with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let mut key = Vec::new();
        match self {
            Owner::Document(lower_id) => {
                key.push(OF_DOCUMENT);
                key.extend_from_slice(lower_id.as_bytes());
            }
            Owner::Revision(etag) => {
                key.push(OF_REVISION);
                key.extend_from_slice(&etag.0.to_be_bytes());
            }
        }
        key.push(END_OF_OWNER);
        key
    }

    /// The primary key of one of its attachments.
    pub(crate) fn key(&self, lower_name: &str) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(lower_name.as_bytes());
        key
    }
}

/// The fields of an attachment's row.
pub(crate) struct AttachmentFields<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) lower_name: &'a str,
    pub(crate) name: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) change_vector: &'a str,
    pub(crate) etag: Etag,
    pub(crate) content_bytes: u64,
    pub(crate) hash: ContentHash,
    pub(crate) generation: u32,
}

/// The fields of a tombstone's row.
pub(crate) struct TombstoneFields<'a> {
    pub(crate) lower_id: &'a str,
    pub(crate) lower_name: &'a str,
    pub(crate) change_vector: &'a str,
    /// The etag of the deleted attachment.
    pub(crate) deleted: Etag,
    pub(crate) etag: Etag,
    pub(crate) deleted_at_ticks: i64,
    pub(crate) generation: u32,
}

/// A stored attachment, read in place.
#[derive(Clone, Copy)]
pub struct AttachmentRow<'a> {
    bytes: &'a [u8],
    owner: &'a [u8],
    lower_name: &'a str,
    name: &'a str,
    content_type: &'a str,
    change_vector: &'a str,
}

/// The tombstone of an attachment, read in place.
#[derive(Clone, Copy)]
pub struct AttachmentTombstoneRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    lower_name: &'a str,
    change_vector: &'a str,
}

/// The row of an attachment.
pub(crate) fn write(fields: &AttachmentFields<'_>) -> Result<Vec<u8>, DocumentError> {
    let key = fields.owner.key(fields.lower_name);
    let name = if fields.name == fields.lower_name { "" } else { fields.name };
    let texts = [name, fields.content_type, fields.change_vector];
    let owner_bytes = key.len() - 2 - fields.lower_name.len();
    let mut row = vec![ATTACHMENT, 0];
    for length in [owner_bytes, fields.lower_name.len()].into_iter().chain(texts.map(str::len)) {
        row.extend_from_slice(&length_bytes(length)?);
    }
    row.extend_from_slice(&fields.generation.to_le_bytes());
    row.extend_from_slice(&fields.etag.0.to_le_bytes());
    row.extend_from_slice(&fields.content_bytes.to_le_bytes());
    row.extend_from_slice(&fields.hash.0);
    row.extend_from_slice(&key);
    texts.iter().for_each(|text| row.extend_from_slice(text.as_bytes()));
    Ok(row)
}

/// The row of the tombstone of a document's attachment.
pub(crate) fn write_tombstone(fields: &TombstoneFields<'_>) -> Result<Vec<u8>, DocumentError> {
    let TombstoneFields { lower_id, lower_name, change_vector, .. } = *fields;
    let mut row = vec![TOMBSTONE, 0];
    for text in [lower_id, lower_name, change_vector] {
        row.extend_from_slice(&length_bytes(text.len())?);
    }
    row.extend_from_slice(&fields.deleted.0.to_le_bytes());
    row.extend_from_slice(&fields.etag.0.to_le_bytes());
    row.extend_from_slice(&fields.deleted_at_ticks.to_le_bytes());
    row.extend_from_slice(&fields.generation.to_le_bytes());
    row.extend_from_slice(&Owner::Document(lower_id).key(lower_name));
    row.extend_from_slice(change_vector.as_bytes());
    Ok(row)
}

fn length_bytes(length: usize) -> Result<[u8; 2], DocumentError> {
    let length = u16::try_from(length);
    Ok(length.map_err(|_| corrupt("a text of an attachment is longer than 64 KB"))?.to_le_bytes())
}

/// Reads the row of an attachment.
pub(crate) fn read(bytes: &[u8]) -> Result<AttachmentRow<'_>, DocumentError> {
    if bytes.len() <= KIND_AT || bytes[0] != ATTACHMENT {
        return Err(corrupt("a row is no attachment"));
    }
    let mut rest = &bytes[KIND_AT + 1..];
    let owner = ATTACHMENT_ROW.take(&mut rest, length_at(bytes, 2))?;
    if ATTACHMENT_ROW.take(&mut rest, 1)? != [END_OF_OWNER] {
        return Err(corrupt("the owner of an attachment does not end"));
    }
    let lower_name = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 4))?;
    let name = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 6))?;
    let content_type = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 8))?;
    let change_vector = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 10))?;
    let name = if name.is_empty() { lower_name } else { name };
    let row = AttachmentRow { bytes, owner, lower_name, name, content_type, change_vector };
    row.owner().map(|_| row)
}

/// Reads the row of a tombstone.
pub(crate) fn read_tombstone(bytes: &[u8]) -> Result<AttachmentTombstoneRow<'_>, DocumentError> {
    let kind_at = tombstone_kind_at(bytes);
    let is_tombstone = matches!(bytes.first(), Some(&(TOMBSTONE | TOMBSTONE_WITHOUT_GENERATION)));
    if bytes.len() <= kind_at || !is_tombstone {
        return Err(corrupt("a row is no tombstone of an attachment"));
    }
    let mut rest = &bytes[kind_at + 1..];
    let lower_id = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 2))?;
    ATTACHMENT_ROW.take(&mut rest, 1)?;
    let lower_name = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 4))?;
    let change_vector = ATTACHMENT_ROW.take_text(&mut rest, length_at(bytes, 6))?;
    Ok(AttachmentTombstoneRow { bytes, lower_id, lower_name, change_vector })
}

/// The primary key of an attachment's row; empty for an invalid row.
pub(crate) fn primary_key_of(row: &[u8]) -> &[u8] {
    key_at(row, KIND_AT)
}

/// The primary key of a tombstone's row; empty for an invalid row.
pub(crate) fn tombstone_key_of(row: &[u8]) -> &[u8] {
    key_at(row, tombstone_kind_at(row))
}

fn tombstone_kind_at(row: &[u8]) -> usize {
    match row.first() {
        Some(&TOMBSTONE_WITHOUT_GENERATION) => KIND_WITHOUT_GENERATION_AT,
        _ => TOMBSTONE_KIND_AT,
    }
}

fn key_at(row: &[u8], kind_at: usize) -> &[u8] {
    if row.len() <= kind_at {
        return &[];
    }
    let length = 2 + length_at(row, 2) + length_at(row, 4);
    row.get(kind_at..kind_at + length).unwrap_or_default()
}

/// The etag of either row; 0 for an invalid row.
pub(crate) fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, ETAG.start)
}

/// Sets the etag of a newly written row.
pub(crate) fn set_etag(row: &mut [u8], etag: Etag) {
    row[ETAG].copy_from_slice(&etag.0.to_le_bytes());
}

/// The key of an attachment in the index by hash.
pub(crate) fn hash_key_of(row: &[u8]) -> Cow<'_, [u8]> {
    let mut key = row.get(HASH).unwrap_or_default().to_vec();
    key.extend_from_slice(&etag_of(row).to_be_bytes());
    Cow::Owned(key)
}

impl<'a> AttachmentRow<'a> {
    /// The name in the spelling in which it was put.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The content type, as the client set it; may be empty.
    pub fn content_type(&self) -> &'a str {
        self.content_type
    }

    /// The version of the attachment, not of its document.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// The position in the log of attachments.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// How often an attachment of this name was written or deleted before; 0 if that is not known.
    pub fn generation(&self) -> u32 {
        u32_at(self.bytes, GENERATION_AT)
    }

    /// Bytes of the content.
    pub fn content_bytes(&self) -> u64 {
        u64_at(self.bytes, 24)
    }

    /// What identifies the content.
    pub fn hash(&self) -> ContentHash {
        let bytes = self.bytes.get(HASH).and_then(|bytes| bytes.first_chunk());
        ContentHash(bytes.copied().unwrap_or_default())
    }

    /// The lower-cased id of the document it belongs to; `None` for an attachment of a revision.
    pub fn lower_document_id(&self) -> Option<&'a str> {
        match self.owner() {
            Ok(Owner::Document(lower_id)) => Some(lower_id),
            Ok(Owner::Revision(_)) | Err(_) => None,
        }
    }

    /// The etag of the revision it belongs to; `None` for an attachment of a document.
    pub fn revision(&self) -> Option<Etag> {
        match self.owner() {
            Ok(Owner::Revision(revision)) => Some(revision),
            Ok(Owner::Document(_)) | Err(_) => None,
        }
    }

    pub(crate) fn owner(&self) -> Result<Owner<'a>, DocumentError> {
        match self.bytes[KIND_AT] {
            OF_DOCUMENT => match std::str::from_utf8(self.owner) {
                Ok(lower_id) => Ok(Owner::Document(lower_id)),
                Err(_) => Err(corrupt("the document of an attachment is not UTF-8")),
            },
            OF_REVISION => match <[u8; 8]>::try_from(self.owner) {
                Ok(etag) => Ok(Owner::Revision(Etag(u64::from_be_bytes(etag)))),
                Err(_) => Err(corrupt("the revision of an attachment is no etag")),
            },
            _ => Err(corrupt("an attachment has an owner of unknown kind")),
        }
    }

    pub(crate) fn primary_key(&self) -> &'a [u8] {
        primary_key_of(self.bytes)
    }
}

impl<'a> AttachmentTombstoneRow<'a> {
    /// As of an attachment.
    pub fn generation(&self) -> u32 {
        match self.bytes[0] {
            TOMBSTONE => u32_at(self.bytes, TOMBSTONE_GENERATION_AT),
            _ => 0,
        }
    }

    /// The lower-cased id of the document that had the attachment.
    pub fn lower_document_id(&self) -> &'a str {
        self.lower_id
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The version of the deletion.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// The position in the log of attachments.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The etag of the deleted attachment.
    pub fn deleted_etag(&self) -> Etag {
        Etag(u64_at(self.bytes, 8))
    }

    /// When it was deleted, in ticks of UTC.
    pub fn deleted_at_ticks(&self) -> i64 {
        u64_at(self.bytes, 24).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(owner: Owner<'a>, lower_name: &'a str, name: &'a str) -> AttachmentFields<'a> {
        AttachmentFields {
            owner,
            lower_name,
            name,
            content_type: "t/x",
            change_vector: "cv",
            etag: Etag(7),
            content_bytes: 5,
            hash: ContentHash([9; 32]),
            generation: 258,
        }
    }

    fn tombstone() -> Vec<u8> {
        let fields = TombstoneFields {
            lower_id: "u/1",
            lower_name: "a",
            change_vector: "cv",
            deleted: Etag(7),
            etag: Etag(8),
            deleted_at_ticks: 3,
            generation: 259,
        };
        write_tombstone(&fields).unwrap()
    }

    /// As older versions have written it.
    fn old_tombstone() -> Vec<u8> {
        let mut row = vec![0xa2, 0, 3, 0, 1, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        row.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        row.extend_from_slice(b"du/1\xffacv");
        row
    }

    #[test]
    fn the_rows_lie_where_the_drawings_say() {
        let row = write(&fields(Owner::Document("u/1"), "a", "A")).unwrap();
        let mut golden = vec![0xa1, 0, 3, 0, 1, 0, 1, 0, 3, 0, 2, 0, 2, 1, 0, 0];
        golden.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice(&[9; 32]);
        golden.extend_from_slice(b"du/1\xffaAt/xcv");
        assert_eq!(row, golden);
        assert_eq!(primary_key_of(&row), b"du/1\xffa");
        let tombstone = tombstone();
        let mut golden = vec![0xa5, 0, 3, 0, 1, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0]);
        golden.extend_from_slice(b"du/1\xffacv");
        assert_eq!(tombstone, golden);
        assert_eq!(tombstone_key_of(&tombstone), b"du/1\xffa");
    }

    #[test]
    fn what_is_written_is_read() {
        let owners = [Owner::Document("u/1"), Owner::Revision(Etag(u64::MAX - 1))];
        for (owner, (lower_name, name)) in
            owners.into_iter().flat_map(|owner| [("a", "A"), ("é", "é")].map(|name| (owner, name)))
        {
            let bytes = write(&fields(owner, lower_name, name)).unwrap();
            let row = read(&bytes).unwrap();
            assert_eq!(row.owner().unwrap(), owner);
            assert_eq!((row.name(), row.lower_name()), (name, lower_name));
            assert_eq!((row.content_type(), row.change_vector()), ("t/x", "cv"));
            assert_eq!((row.etag(), row.content_bytes()), (Etag(7), 5));
            assert_eq!(row.hash(), ContentHash([9; 32]));
            assert_eq!(row.primary_key(), owner.key(lower_name));
        }
        for (bytes, generation) in [(tombstone(), 259), (old_tombstone(), 0)] {
            let row = read_tombstone(&bytes).unwrap();
            assert_eq!((row.lower_document_id(), row.lower_name()), ("u/1", "a"));
            assert_eq!((row.deleted_etag(), row.etag()), (Etag(7), Etag(8)));
            assert_eq!((row.deleted_at_ticks(), row.generation()), (3, generation));
            assert_eq!(row.change_vector(), "cv");
            assert_eq!(tombstone_key_of(&bytes), b"du/1\xffa");
        }
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let attachment = write(&fields(Owner::Document("u/1"), "a", "A")).unwrap();
        for bytes in [attachment, tombstone(), old_tombstone()] {
            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                assert!(read(cut).is_err() && read_tombstone(cut).is_err(), "cut to {length}");
                let _ = (primary_key_of(cut), tombstone_key_of(cut), hash_key_of(cut));
            }
            for position in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[position] ^= 0xff;
                let _ = (read(&damaged).is_ok(), read_tombstone(&damaged).is_ok());
                let _ = (primary_key_of(&damaged), tombstone_key_of(&damaged));
            }
        }
    }
}
