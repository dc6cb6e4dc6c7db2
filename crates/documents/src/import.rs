//! Storing what a dump contains: documents, revisions, counters and time series of another database, with the
//! versions and times that they had there.
//!
//! An import overwrites what is there under the same ids. It creates no history of its own: a
//! document that only gets a list of what else was imported for it keeps its time, and no revision
//! is created for that. What cannot be stored is refused, one thing at a time, before anything of it
//! is written, so that the rest of a batch is stored.

use blittable::BlittableBuf;
use model::{
    AttachmentName, ChangeVector, CollectionName, ContentHash, CounterName, DocumentFlags,
    DocumentId,
};
use platform::Timestamp;

use crate::{
    attachments::{NewContent, content},
    counters::CounterValue,
    error::{DocumentError, ErrorKind},
    import_deletions::ImportedDeletion,
    metadata::{self, AcceptedDocument},
    read,
    requests::{ExpectedVersion, RequestedId},
    time_series::TimeSeriesChange,
    write::{DocumentWriter, Marks},
};

/// Flags of a document in a dump that stay.
const KEPT_FLAGS: DocumentFlags = DocumentFlags::ARTIFICIAL
    .with(DocumentFlags::FROM_INDEX)
    .with(DocumentFlags::RESOLVED)
    .with(DocumentFlags::FROM_CLUSTER_TRANSACTION)
    .with(DocumentFlags::REVERTED)
    .with(DocumentFlags::ARCHIVED);

/// As long as what a numbered id has behind its prefix.
const LONGEST_NUMBER: &str = "0000000000000000000-00000000-0000-0000-0000-000000000000";

/// One thing of a dump.
#[derive(Clone, Debug)]
pub enum Import {
    /// A document.
    Document(ImportedVersion),
    /// A revision.
    Revision(ImportedVersion),
    /// Counters of a document.
    Counters(ImportedCounters),
    /// Entries of a time series, or ranges of it to delete.
    TimeSeries(Box<TimeSeriesChange>),
    /// Something that was deleted.
    Deletion(ImportedDeletion),
    /// A document that has no id.
    NewDocument {
        /// Its id is this and the next number.
        prefix: DocumentId,
        /// The document, with its metadata.
        body: BlittableBuf,
    },
}

/// What a thing of a dump is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportKind {
    /// A document.
    Document,
    /// A revision.
    Revision,
    /// Counters of a document.
    Counters,
    /// Entries of a time series.
    TimeSeries,
    /// A deletion.
    Deletion,
}

/// A document or a revision of a dump.
#[derive(Clone, Debug)]
pub struct ImportedVersion {
    /// The id.
    pub id: DocumentId,
    /// The version that it had; a new one is made when it has none.
    pub change_vector: Option<ChangeVector>,
    /// When it was last modified, in ticks of UTC; now if that is not known.
    pub last_modified_ticks: Option<i64>,
    /// Its flags in the dump.
    pub flags: DocumentFlags,
    /// As the dump has it, with its metadata.
    pub body: BlittableBuf,
    /// Its attachments.
    pub attachments: Vec<ImportedAttachment>,
    /// Contents that came with the dump and that may not be stored yet.
    pub contents: Vec<NewContent>,
    /// Of a document: whether a revision is made of it, if the database keeps revisions.
    pub is_revised: bool,
}

/// An attachment of a document or a revision.
#[derive(Clone, Debug)]
pub struct ImportedAttachment {
    /// Its name.
    pub name: AttachmentName,
    /// The type of its content; may be empty.
    pub content_type: String,
    /// What identifies the content.
    pub hash: ContentHash,
}

/// Counters of one document.
#[derive(Clone, Debug)]
pub struct ImportedCounters {
    /// The document.
    pub id: DocumentId,
    /// Each counter, and what each database has counted.
    pub counters: Vec<(CounterName, Vec<CounterValue>)>,
    /// Whether this is all that these counters are, instead of being merged with what is stored of them.
    pub replaces: bool,
}

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is stored.
    Stored,
    /// It is stored, except for attachments whose contents are neither in the dump nor here.
    WithoutAttachments {
        /// What it is.
        kind: ImportKind,
        /// The document.
        id: DocumentId,
        /// The names of the attachments.
        names: Vec<String>,
    },
    /// It cannot be stored.
    Refused {
        /// What it is.
        kind: ImportKind,
        /// The document.
        id: DocumentId,
        /// Why.
        reason: String,
    },
}

impl Import {
    /// Approximate bytes that it adds to a transaction, besides a fixed part.
    pub fn size_bytes(&self) -> usize {
        /// Of an attachment or a counter.
        const ROW_BYTES: usize = 256;
        match self {
            Self::Document(version) | Self::Revision(version) => {
                let contents = version.contents.iter().map(|content| match content {
                    NewContent::Bytes { bytes, .. } => bytes.len(),
                    NewContent::Staged { .. } => 0,
                });
                version.body.as_bytes().len()
                    + ROW_BYTES * version.attachments.len()
                    + contents.sum::<usize>()
            }
            Self::Counters(counters) => ROW_BYTES * counters.counters.len(),
            Self::TimeSeries(change) => change.size_bytes(),
            Self::Deletion(_) => ROW_BYTES,
            Self::NewDocument { body, .. } => body.as_bytes().len(),
        }
    }

    fn kind(&self) -> ImportKind {
        match self {
            Self::Document(_) | Self::NewDocument { .. } => ImportKind::Document,
            Self::Revision(_) => ImportKind::Revision,
            Self::Counters(_) => ImportKind::Counters,
            Self::TimeSeries(_) => ImportKind::TimeSeries,
            Self::Deletion(_) => ImportKind::Deletion,
        }
    }

    fn id(&self) -> &DocumentId {
        match self {
            Self::Document(version) | Self::Revision(version) => &version.id,
            Self::Counters(counters) => &counters.id,
            Self::TimeSeries(change) => &change.id,
            Self::Deletion(deletion) => &deletion.id,
            Self::NewDocument { prefix, .. } => prefix,
        }
    }
}

impl DocumentWriter<'_> {
    /// Stores one thing of a dump.
    ///
    /// # Errors
    /// Storage errors. The transaction has to be rolled back then.
    pub fn import(&mut self, import: &Import) -> Result<Imported, DocumentError> {
        self.is_import = true;
        let accepted = match self.accepted(import) {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::Caller => {
                let (kind, id, reason) = (import.kind(), import.id().clone(), error.to_string());
                return Ok(Imported::Refused { kind, id, reason });
            }
            Err(error) => return Err(error),
        };
        match import {
            Import::Document(document) => self.import_document(document, accepted.as_ref()),
            Import::Revision(revision) => self.import_revision(revision),
            Import::Counters(counters) => self.import_counters(counters),
            Import::TimeSeries(change)
                if change.imported.is_empty()
                    && read::get(self.transaction(), &change.id)?.is_none() =>
            {
                Ok(Imported::Stored)
            }
            Import::TimeSeries(change) => {
                self.change_time_series(change)?;
                Ok(Imported::Stored)
            }
            Import::Deletion(deletion) => self.import_deletion(deletion),
            Import::NewDocument { prefix, body } => {
                let body = accepted.as_ref().map_or(body, |accepted| &*accepted.body);
                let id = RequestedId::Numbered(prefix.as_str().to_owned());
                let marks = Marks::with(DocumentFlags::NONE);
                self.put_marked(&id, &ExpectedVersion::Any, body, marks)?;
                Ok(Imported::Stored)
            }
        }
    }

    /// Checks all that may refuse it, whatever the state of the machine: nothing is refused later. Of a document or
    /// revision, what is stored of it without its lists.
    fn accepted<'i>(
        &self,
        import: &'i Import,
    ) -> Result<Option<AcceptedDocument<'i>>, DocumentError> {
        match import {
            Import::Document(version) | Import::Revision(version) => {
                let (body, id) = (&version.body, version.id.as_str());
                self.check_size(body)?;
                metadata::accept(body, None, id, self.now_ticks()).map(Some)
            }
            Import::NewDocument { prefix, body } => {
                self.check_size(body)?;
                DocumentId::new(format!("{prefix}{LONGEST_NUMBER}"))?;
                metadata::accept(body, None, prefix.as_str(), self.now_ticks()).map(Some)
            }
            Import::Counters(counters) => self.owner_of_counters(&counters.id).map(|_| None),
            Import::Deletion(_) => Ok(None),
            Import::TimeSeries(change) => {
                change.check()?;
                // Without a document there is nothing to delete.
                let is_possible = change.imported.is_empty()
                    || read::get(self.transaction(), &change.id)?.is_some();
                match is_possible {
                    true => Ok(None),
                    false => Err(DocumentError::DocumentMissing {
                        message: format!("Document '{}' does not exist", change.id),
                    }),
                }
            }
        }
    }

    fn import_document(
        &mut self,
        document: &ImportedVersion,
        accepted: Option<&AcceptedDocument<'_>>,
    ) -> Result<Imported, DocumentError> {
        let id = &document.id;
        let body = accepted.map_or(&document.body, |accepted| &*accepted.body);
        if let Some(accepted) = accepted {
            self.leave_other_collection(id, &accepted.collection)?;
        }
        let attachments = self.import_contents(document)?;
        for (attachment, content_bytes) in &attachments.stored {
            self.import_attachment(id, attachment, *content_bytes)?;
        }
        let marks = Marks {
            change_vector: self.imported_version(document),
            is_unrevised: !document.is_revised,
            ..Marks::with(flags_in(KEPT_FLAGS, document.flags))
        };
        let then = document.last_modified_ticks.map(Timestamp::from_ticks);
        let now = then.map(|then| self.set_now(then));
        let requested = RequestedId::Exactly(id.clone());
        let stored = self.put_marked(&requested, &ExpectedVersion::Any, body, marks);
        if let Some(now) = now {
            self.set_now(now);
        }
        stored?;
        Ok(attachments.outcome(ImportKind::Document, id))
    }

    /// A document of the same id in another collection is deleted first.
    fn leave_other_collection(
        &mut self,
        id: &DocumentId,
        collection: &CollectionName,
    ) -> Result<(), DocumentError> {
        let Some(stored) = read::get(self.transaction(), id)? else { return Ok(()) };
        let number = stored.collection_number();
        if self.collections.numbered(self.tx, number)?.name != *collection {
            self.delete(id, &ExpectedVersion::Any)?;
        }
        Ok(())
    }

    /// The version of a document or revision: the one that it had, unless this database wrote it, which may have
    /// written it again since.
    fn imported_version(&self, version: &ImportedVersion) -> Option<ChangeVector> {
        let own = self.database_id();
        let is_own = |given: &ChangeVector| given.entries().any(|entry| entry.database_id == own);
        version.change_vector.clone().filter(|given| !is_own(given))
    }

    /// Stores the contents of a version, each of which one of its attachments must have.
    pub(crate) fn import_contents<'v>(
        &mut self,
        version: &'v ImportedVersion,
    ) -> Result<ImportedAttachments<'v>, DocumentError> {
        let mut attachments = ImportedAttachments::default();
        for content in &version.contents {
            self.link(content)?;
        }
        for attachment in &version.attachments {
            match content(self.transaction(), &attachment.hash)? {
                Some(content) => attachments.stored.push((attachment, content.bytes())),
                None => attachments.missing.push(attachment.name.as_str().to_owned()),
            }
        }
        Ok(attachments)
    }
}

/// The attachments of a version, by whether their contents are stored.
#[derive(Default)]
pub(crate) struct ImportedAttachments<'v> {
    /// Each with the length of its content.
    pub(crate) stored: Vec<(&'v ImportedAttachment, u64)>,
    missing: Vec<String>,
}

impl ImportedAttachments<'_> {
    pub(crate) fn outcome(self, kind: ImportKind, id: &DocumentId) -> Imported {
        match self.missing.is_empty() {
            true => Imported::Stored,
            false => Imported::WithoutAttachments { kind, id: id.clone(), names: self.missing },
        }
    }
}

/// The flags that are in both sets.
pub(crate) fn flags_in(allowed: DocumentFlags, flags: DocumentFlags) -> DocumentFlags {
    flags.without(flags.without(allowed))
}
