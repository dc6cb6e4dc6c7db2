//! What is received.

use blittable::BlittableBuf;
use model::{ChangeVector, CollectionName, DocumentFlags, DocumentId};

/// A change that another database has sent.
#[derive(Clone, Debug)]
pub enum ReceivedItem {
    /// A document, or that it was deleted.
    Version(ReceivedVersion),
}

/// A version of a document.
#[derive(Clone, Debug)]
pub struct ReceivedVersion {
    /// The id in the spelling of that version.
    pub id: DocumentId,
    /// Its change vector.
    pub change_vector: ChangeVector,
    /// When it was written, in ticks of UTC.
    pub last_modified_ticks: i64,
    /// Its flags at the sender.
    pub flags: DocumentFlags,
    /// Its collection.
    pub collection: CollectionName,
    /// The document as it is stored there; `None` if it was deleted.
    pub body: Option<BlittableBuf>,
}

impl ReceivedItem {
    /// Approximate bytes that it adds to a transaction, besides a fixed part.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Version(version) => version.body.as_ref().map_or(0, |body| body.as_bytes().len()),
        }
    }

    /// Its change vector.
    pub fn change_vector(&self) -> &ChangeVector {
        match self {
            Self::Version(version) => &version.change_vector,
        }
    }
}
