//! What a caller requests of attachments, and the results.

use model::{AttachmentName, ChangeVector, ContentHash, DocumentId, Etag};

use super::content_row::ContentNumber;
use crate::requests::ExpectedVersion;

/// The content of an attachment that is put.
#[derive(Clone, Debug)]
pub enum NewContent {
    /// All of it; for small contents.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// Their hash.
        hash: ContentHash,
    },
    /// Content staged earlier.
    Staged {
        /// The number it was staged under.
        number: ContentNumber,
        /// Its length in bytes.
        bytes: u64,
        /// Its hash.
        hash: ContentHash,
    },
}

impl NewContent {
    /// The hash of the content.
    pub fn hash(&self) -> &ContentHash {
        match self {
            Self::Bytes { hash, .. } | Self::Staged { hash, .. } => hash,
        }
    }

    /// The length of the content, in bytes.
    pub fn content_bytes(&self) -> u64 {
        match self {
            Self::Bytes { bytes, .. } => bytes.len() as u64,
            Self::Staged { bytes, .. } => *bytes,
        }
    }
}

/// An attachment to put.
#[derive(Clone, Debug)]
pub struct PutAttachment {
    /// The document, which must exist.
    pub id: DocumentId,
    /// Its name; one of the same name is replaced.
    pub name: AttachmentName,
    /// The type of the content; may be empty.
    pub content_type: String,
    /// The version to replace.
    pub expected: ExpectedVersion,
    /// The content: its bytes, or content staged earlier.
    pub content: NewContent,
}

/// An attachment to delete.
#[derive(Clone, Debug)]
pub struct DeleteAttachment {
    /// The id of its document.
    pub id: DocumentId,
    /// The name of the attachment.
    pub name: AttachmentName,
    /// The version to delete.
    pub expected: ExpectedVersion,
}

/// An attachment to copy or to move.
#[derive(Clone, Debug)]
pub struct AttachmentTransfer {
    /// The document that has it.
    pub id: DocumentId,
    /// The name of the attachment in that document.
    pub name: AttachmentName,
    /// The document that receives it, which must exist.
    pub destination_id: DocumentId,
    /// Its name there, which must be free.
    pub destination_name: AttachmentName,
    /// For a move: the version to move.
    pub expected: ExpectedVersion,
}

/// The outcome of an attachment that was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAttachment {
    /// The document, as the request writes its id.
    pub id: DocumentId,
    /// The name of the attachment.
    pub name: AttachmentName,
    /// The type of the content.
    pub content_type: String,
    /// What identifies the content.
    pub hash: ContentHash,
    /// The length of the content, in bytes.
    pub content_bytes: u64,
    /// The position in the log of attachments.
    pub etag: Etag,
    /// The version of the attachment, not of its document.
    pub change_vector: ChangeVector,
    /// The version of the document after the batch; absent when the batch deleted it.
    pub document_change_vector: Option<ChangeVector>,
}

/// The outcome of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedAttachment {
    /// The document, as the request writes its id.
    pub id: DocumentId,
    /// The name of the request.
    pub name: AttachmentName,
    /// Whether there was such an attachment.
    pub deleted: bool,
    /// The version of the document after the batch; absent when there is no document.
    pub document_change_vector: Option<ChangeVector>,
}

/// The outcome of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedAttachment {
    /// The attachment at the destination.
    pub stored: StoredAttachment,
}

/// The outcome of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedAttachment {
    /// The attachment at the destination.
    pub stored: StoredAttachment,
    /// The attachment removed from the source.
    pub deleted: DeletedAttachment,
}
