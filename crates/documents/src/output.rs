//! Documents that indexes write: the results of a reduce, and documents that refer to them.
//!
//! They are marked `Artificial, FromIndex`, and an ordinary write removes these flags. Invariants:
//! repeating a change has no effect, so a caller that does not know whether it was applied applies
//! it again; a document without the flags is never deleted here.

use std::collections::HashSet;

use blittable::{BlittableBuf, ObjectBuilder};
use model::{CollectionName, DocumentFlags, DocumentId};

use crate::{
    error::DocumentError,
    metadata::{COLLECTION, METADATA},
    read,
    requests::{ExpectedVersion, RequestedId},
    row::DocumentRow,
    write::{DocumentWriter, Marks},
};

/// The property of a document that refers to outputs: their ids.
pub const REDUCE_OUTPUTS: &str = "ReduceOutputs";

/// One change of a document that an index writes.
#[derive(Clone, Debug)]
pub enum OutputChange {
    /// Store a result.
    Put {
        /// Its id.
        id: DocumentId,
        /// The result, with its `@metadata`.
        body: BlittableBuf,
    },
    /// Delete a result, unless it has been overwritten since.
    Delete {
        /// Its id.
        id: DocumentId,
    },
    /// Change the outputs that a document references.
    Refer(OutputReferences),
}

/// A change of the outputs that a document references. The first reference creates the document,
/// removing the last one deletes it.
#[derive(Clone, Debug)]
pub struct OutputReferences {
    /// The id of the document that lists the outputs.
    pub id: DocumentId,
    /// The collection of that document.
    pub collection: CollectionName,
    /// The ids of outputs that it no longer references.
    pub removed: Vec<String>,
    /// The ids of outputs that it references from now on.
    pub added: Vec<String>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputWritten {
    /// The documents are as they should be.
    Done,
    /// Nothing was done: the id belongs to a document that is not an output.
    InTheWay,
}

impl OutputChange {
    /// The document to change.
    pub fn id(&self) -> &DocumentId {
        match self {
            Self::Put { id, .. } | Self::Delete { id } => id,
            Self::Refer(references) => &references.id,
        }
    }

    /// Approximate bytes that the change adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Put { body, .. } => body.as_bytes().len(),
            Self::Delete { .. } => 0,
            Self::Refer(OutputReferences { removed, added, .. }) => {
                removed.iter().chain(added).map(String::len).sum()
            }
        }
    }
}

/// Whether a document was last written by an index.
pub fn is_output(document: &DocumentRow<'_>) -> bool {
    document.flags().contains(DocumentFlags::FROM_INDEX)
}

impl DocumentWriter<'_> {
    /// Applies a change of an index's output.
    ///
    /// # Errors
    /// A body that is too large; storage errors. The transaction has to be rolled back then.
    pub fn write_output(&mut self, change: &OutputChange) -> Result<OutputWritten, DocumentError> {
        match change {
            OutputChange::Put { id, body } => self.put_output(id, body),
            OutputChange::Delete { id } => self.delete_output(id),
            OutputChange::Refer(references) => self.refer_to_outputs(references),
        }
    }

    fn put_output(
        &mut self,
        id: &DocumentId,
        body: &BlittableBuf,
    ) -> Result<OutputWritten, DocumentError> {
        if let Some(known) = read::get(self.transaction(), id)? {
            if is_output(&known) && known.body()?.as_bytes() == body.as_bytes() {
                return Ok(OutputWritten::Done);
            }
            let metadata = body.as_view().root().get_object(METADATA)?;
            let collection = metadata.map(|metadata| metadata.get_str(COLLECTION)).transpose()?;
            let collection = collection.flatten().unwrap_or_default();
            if !known.collection()?.eq_ignore_ascii_case(&collection) {
                return Ok(OutputWritten::InTheWay);
            }
        }
        self.put_artificial(id, body)?;
        Ok(OutputWritten::Done)
    }

    fn put_artificial(
        &mut self,
        id: &DocumentId,
        body: &BlittableBuf,
    ) -> Result<(), DocumentError> {
        let marks = Marks::with(DocumentFlags::ARTIFICIAL | DocumentFlags::FROM_INDEX);
        let id = RequestedId::Exactly(id.clone());
        self.put_marked(&id, &ExpectedVersion::Any, body, marks).map(drop)
    }

    fn delete_output(&mut self, id: &DocumentId) -> Result<OutputWritten, DocumentError> {
        if read::get(self.transaction(), id)?.is_some_and(|known| is_output(&known)) {
            self.delete(id, &ExpectedVersion::Any)?;
        }
        Ok(OutputWritten::Done)
    }

    fn refer_to_outputs(
        &mut self,
        references: &OutputReferences,
    ) -> Result<OutputWritten, DocumentError> {
        let OutputReferences { id, collection, removed, added } = references;
        let known = match read::get(self.transaction(), id)? {
            None => None,
            Some(known) if is_output(&known) => Some(Referring::read(&known)?),
            Some(_) if added.is_empty() => return Ok(OutputWritten::Done),
            Some(_) => return Ok(OutputWritten::InTheWay),
        };
        let (is_known, before) = (known.is_some(), known.unwrap_or_default());
        let outputs = changed(&before.outputs, removed, added);
        // A document changes its collection only by being deleted and created again.
        let is_elsewhere = !before.collection.eq_ignore_ascii_case(collection.as_str());
        let moves = is_known && is_elsewhere && !added.is_empty();
        if outputs == before.outputs && !moves {
            return Ok(OutputWritten::Done);
        }
        if is_known && (outputs.is_empty() || moves) {
            self.delete(id, &ExpectedVersion::Any)?;
        }
        if !outputs.is_empty() {
            let collection =
                if added.is_empty() { &before.collection } else { collection.as_str() };
            self.put_artificial(id, &body_of(&outputs, collection)?)?;
        }
        Ok(OutputWritten::Done)
    }
}

/// The content of a document that references outputs.
#[derive(Default)]
struct Referring {
    collection: String,
    outputs: Vec<String>,
}

impl Referring {
    fn read(document: &DocumentRow<'_>) -> Result<Self, DocumentError> {
        let collection = document.collection()?.into_owned();
        let mut outputs = Vec::new();
        if let Some(listed) = document.body()?.root().get_array(REDUCE_OUTPUTS)? {
            for id in listed.iter() {
                if let Some(id) = id?.as_text() {
                    outputs.push(id.as_cow()?.into_owned());
                }
            }
        }
        Ok(Self { collection, outputs })
    }
}

/// `before` without `removed`, followed by the new ones of `added`.
fn changed(before: &[String], removed: &[String], added: &[String]) -> Vec<String> {
    let removed: HashSet<&str> = removed.iter().map(String::as_str).collect();
    let kept = before.iter().filter(|id| !removed.contains(id.as_str()));
    let mut seen = HashSet::new();
    kept.chain(added).filter(|id| seen.insert(id.as_str())).cloned().collect()
}

fn body_of(outputs: &[String], collection: &str) -> Result<BlittableBuf, DocumentError> {
    let mut builder = ObjectBuilder::new();
    builder.begin_array(REDUCE_OUTPUTS);
    for id in outputs {
        builder.push(id.as_str());
    }
    builder.end();
    builder.begin_object(METADATA).put(COLLECTION, collection).end();
    builder.finish().map_err(|reason| DocumentError::TooLarge { reason })
}
