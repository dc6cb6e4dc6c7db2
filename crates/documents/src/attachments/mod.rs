//! Attachments: named contents of documents and of their revisions.
//!
//! An attachment is a row: whose it is, its name, its type, and the hash of its content. Contents
//! are kept once, however many attachments have them, in chunks; deleting the last of them deletes
//! the content. A large content is written in transactions of its own before anything refers to it;
//! until then it is *staged*. Content that is still staged when a database is opened is discarded.
//!
//! Invariants: every row's content is stored and complete; every content is referred to by a row,
//! staged, or being removed; the metadata of a live document names exactly the attachments it has.
//!
//! | file | what |
//! |---|---|
//! | `row`, `content_row` | what is on disk, byte by byte |
//! | `tables` | the tables and trees, drawn |
//! | `content_hasher` | the hash of a content that comes in pieces |
//! | `read` | attachments of a document or revision, counts |
//! | `content` | a content, chunk by chunk |
//! | `write`, `requests` | putting, deleting, copying, moving |
//! | `receive` | attachments that another database has sent |
//! | `of_revision` | attachments that revisions hold |
//! | `staging` | contents before the first and after the last reference |
//! | `listing` | `@attachments` in the metadata of documents |
//! | `check`, `salvage` | whether all of this agrees; rebuilding it |

mod check;
mod content;
mod content_hasher;
mod content_row;
mod listing;
mod of_revision;
mod read;
mod receive;
mod requests;
pub(crate) mod row;
mod salvage;
mod staging;
pub(crate) mod tables;
mod write;

pub use content::{Content, content};
pub use content_hasher::{ContentHasher, hash_of};
pub use content_row::{CONTENT_CHUNK_BYTES, ContentNumber};
pub use read::{
    AttachmentCounts, attachment, attachment_counts, attachments_of, attachments_of_revision,
    references_of,
};
pub use requests::{
    AttachmentTransfer, CopiedAttachment, DeleteAttachment, DeletedAttachment, MovedAttachment,
    NewContent, PutAttachment, StoredAttachment,
};
pub use row::{AttachmentRow, AttachmentTombstoneRow};
pub use staging::has_leftover_contents;

pub(crate) use check::{check_attachments, document_of_key, read_whole};
pub(crate) use listing::add_listing;
pub(crate) use row::Owner;
pub(crate) use salvage::GatheredAttachments;
pub(crate) use staging::Leftovers;
pub(crate) use tables::{ATTACHMENT_TOMBSTONES, ATTACHMENTS, CONTENT_CHUNKS, CONTENTS, leftovers};
