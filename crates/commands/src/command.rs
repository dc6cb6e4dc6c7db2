//! Commands, batches of them, and their results.

use std::sync::Arc;

use documents::{
    AttachmentTransfer, Change, ChangeCounters, ClusterDocuments, ConflictResolution,
    ConflictResolved, ContentNumber, CopiedAttachment, CountersChanged, DeleteAttachment,
    DeletedAttachment, DeletedDocument, DueAction, ExpectedVersion, HiLoRange, HiLoRequest, Import,
    Imported, MovedAttachment, NewContent, OutputChange, OutputWritten, PutAttachment, PutDocument,
    Received, ReceivedBatch, RemoveTombstones, RemovedRevisions, Reversion, RevisedVersion,
    RevisionsToRemove, StoredAttachment, StoredDocument, TrainedDictionary, WriteTally,
    time_series::{CopyTimeSeries, TimeSeriesChange, TimeSeriesWritten},
};
use model::{CollectionName, DocumentId, Etag};
use storage::MemoryShare;

use crate::patch_command::{PatchCommand, PatchEach, PatchOutcome, PatchedEach};

/// One change that a caller requests.
#[derive(Clone, Debug)]
pub enum Command {
    /// Store a document.
    Put(PutDocument),
    /// Delete a document; a missing one is no error unless a version is expected.
    Delete {
        /// The document's id. The empty id names no document.
        id: DocumentId,
        /// The version to delete.
        expected: ExpectedVersion,
    },
    /// Delete every document whose id starts with the prefix, without regard to case.
    DeletePrefix {
        /// The prefix; the empty one means all documents.
        prefix: String,
    },
    /// Change a document by a script.
    Patch(Box<PatchCommand>),
    /// Change documents by one script, as many of them as there is time for.
    PatchEach(PatchEach),
    /// Reserve a range of numbers for a client.
    HiLoNext(HiLoRequest),
    /// Return the unused end of a range.
    HiLoReturn {
        /// The prefix of the ids.
        tag: String,
        /// The end of the range.
        end: i64,
        /// The last number in use.
        last: i64,
    },
    /// Take the next value of an identity.
    IdentityNext {
        /// Its name; a trailing `|` is added when missing.
        name: String,
    },
    /// Set an identity.
    IdentitySeed {
        /// Its name; a trailing `|` is added when missing.
        name: String,
        /// The value to set.
        value: i64,
        /// Whether a smaller value than the current one is accepted.
        force: bool,
    },
    /// Remove the identities that older versions stored here, after they were moved.
    ForgetIdentities,
    /// Store a revision of a document, regardless of the configuration.
    ForceRevision {
        /// The document.
        id: DocumentId,
        /// The version.
        version: RevisedVersion,
    },
    /// Remove revisions of a document, one step of them.
    RemoveRevisions {
        /// The document.
        id: DocumentId,
        /// The revisions to remove.
        what: RevisionsToRemove,
    },
    /// Remove tombstones that no reader of the log needs.
    RemoveTombstones(RemoveTombstones),
    /// Forget notes of transactions that say nothing any more, from an etag on.
    ForgetTransactions(Etag),
    /// Perform the scheduled action on a document, if it is still due.
    DoWhenDue {
        /// The document.
        id: DocumentId,
        /// The action.
        action: DueAction,
    },
    /// Revert a document to its content at a moment.
    RevertDocument {
        /// The document.
        id: DocumentId,
        /// The moment, in ticks of UTC.
        ticks: i64,
    },
    /// Revert a document to one of its revisions.
    RestoreRevision {
        /// The document.
        id: DocumentId,
        /// The change vector of the revision.
        change_vector: String,
    },
    /// Store an attachment.
    PutAttachment(PutAttachment),
    /// Delete an attachment; a missing one is no error unless a version is expected.
    DeleteAttachment(DeleteAttachment),
    /// Copy an attachment to another document or another name.
    CopyAttachment(AttachmentTransfer),
    /// Move an attachment to another document or another name.
    MoveAttachment(AttachmentTransfer),
    /// Change or read counters of a document.
    ChangeCounters(ChangeCounters),
    /// Store a chunk of an attachment's content.
    StageContent {
        /// The content's number; a new one when `None`.
        number: Option<ContentNumber>,
        /// The chunk's index, from 0.
        index: u32,
        /// The chunk; all but the last have `CONTENT_CHUNK_BYTES`. Shared with the thread that
        /// computes the hash.
        bytes: Arc<Vec<u8>>,
    },
    /// Discard a staged content that no attachment will use.
    DiscardContent(ContentNumber),
    /// Discard all staged contents. The queue does this when it starts.
    DiscardAllContents,
    /// Remove some unreferenced contents. The queue does this by itself.
    RemoveLeftoverContents,
    /// Change a time series.
    ChangeTimeSeries(Box<TimeSeriesChange>),
    /// Copy entries of a time series to another.
    CopyTimeSeries(Box<CopyTimeSeries>),
    /// Execute the documents of a cluster-wide transaction, unless that has already been done.
    ClusterDocuments(ClusterDocuments),
    /// Change a document that an index writes.
    Output(OutputChange),
    /// Store one thing of a dump.
    Import(Box<Import>),
    /// Resolve the conflict between versions of a document, unless there are others by now.
    ResolveConflict {
        /// The document.
        id: DocumentId,
        /// The change vectors of the versions that the resolution was decided on.
        versions: Vec<String>,
        /// The resolution.
        resolution: ConflictResolution,
    },
    /// Store a part of the log of another database, unless that has already been done. Submitted alone.
    Receive(Box<ReceivedBatch>),
    /// Use a dictionary for all further compression. The queue does this by itself.
    AddDictionary(TrainedDictionary),
}

impl Command {
    /// Approximate bytes that the command adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// Ids, row headers and index entries, approximately.
        const OVERHEAD_BYTES: usize = 256;
        match self {
            Self::Put(put) => OVERHEAD_BYTES + put.body.as_bytes().len(),
            Self::Patch(patch) => OVERHEAD_BYTES + patch.size_bytes(),
            Self::PatchEach(patch) => OVERHEAD_BYTES * patch.ids.len() + patch.script.size_bytes(),
            Self::ClusterDocuments(documents) => OVERHEAD_BYTES + documents.size_bytes(),
            Self::Output(change) => OVERHEAD_BYTES + change.size_bytes(),
            Self::Import(import) => OVERHEAD_BYTES + import.size_bytes(),
            Self::Receive(batch) => OVERHEAD_BYTES + batch.size_bytes(),
            Self::ResolveConflict { resolution: ConflictResolution::Document(body), .. } => {
                OVERHEAD_BYTES + body.as_bytes().len()
            }
            Self::ChangeTimeSeries(change) => OVERHEAD_BYTES + change.size_bytes(),
            Self::ChangeCounters(request) => OVERHEAD_BYTES * (1 + request.steps.len()),
            Self::AddDictionary(trained) => OVERHEAD_BYTES + 2 * trained.size_bytes(),
            Self::PutAttachment(PutAttachment {
                content: NewContent::Bytes { bytes, .. }, ..
            }) => OVERHEAD_BYTES + bytes.len(),
            Self::StageContent { bytes, .. } => OVERHEAD_BYTES + bytes.len(),
            Self::RemoveTombstones(request) => OVERHEAD_BYTES + request.size_bytes(),
            Self::PutAttachment(_)
            | Self::DeleteAttachment(_)
            | Self::CopyAttachment(_)
            | Self::CopyTimeSeries(_)
            | Self::MoveAttachment(_)
            | Self::DiscardContent(_)
            | Self::DiscardAllContents
            | Self::RemoveLeftoverContents
            | Self::Delete { .. }
            | Self::DeletePrefix { .. }
            | Self::HiLoNext(_)
            | Self::HiLoReturn { .. }
            | Self::IdentityNext { .. }
            | Self::ForgetIdentities
            | Self::IdentitySeed { .. }
            | Self::ForceRevision { .. }
            | Self::RemoveRevisions { .. }
            | Self::ForgetTransactions(_)
            | Self::DoWhenDue { .. }
            | Self::RestoreRevision { .. }
            | Self::ResolveConflict { .. }
            | Self::RevertDocument { .. } => OVERHEAD_BYTES,
        }
    }
}

/// Commands that are executed atomically and in order; later ones see the effects of earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The commands, in the order of execution.
    pub commands: Vec<Command>,
}

impl Batch {
    /// A batch of one command.
    pub fn one(command: Command) -> Self {
        Self { commands: vec![command] }
    }

    /// Whether everything is rolled back after execution: the caller wants to know what a patch
    /// would do, or whether there is memory for a cluster-wide transaction. Such a command also
    /// undoes the others in its batch, so it is submitted alone.
    pub fn is_dry_run(&self) -> bool {
        self.commands.iter().any(|command| match command {
            Command::Patch(patch) => patch.is_test,
            Command::ClusterDocuments(documents) => documents.is_dry_run,
            _ => false,
        })
    }

    /// Whether executing it may run scripts.
    pub(crate) fn has_scripts(&self) -> bool {
        let is_patch =
            |command: &Command| matches!(command, Command::Patch(_) | Command::PatchEach(_));
        self.commands.iter().any(is_patch)
    }

    /// Removes its first commands: as many as add at most this many bytes, but at least one.
    #[must_use]
    pub fn split_first(&mut self, bytes_max: usize) -> Batch {
        let mut bytes = 0;
        let mut fits = |command: &&Command| {
            bytes += command.size_bytes();
            bytes <= bytes_max
        };
        let count = self
            .commands
            .iter()
            .take_while(|command| fits(command))
            .count()
            .max(1)
            .min(self.commands.len());
        Batch { commands: self.commands.drain(..count).collect() }
    }

    /// Approximate bytes that the batch adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        self.commands.iter().map(Command::size_bytes).sum()
    }
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// Of [`Command::Put`].
    Put(StoredDocument),
    /// Of [`Command::Delete`].
    Deleted {
        /// The id of the request.
        id: DocumentId,
        /// The deleted document; `None` when there was no such document.
        deleted: Option<DeletedDocument>,
    },
    /// Of [`Command::DeletePrefix`].
    DeletedPrefix {
        /// The prefix of the request.
        prefix: String,
        /// How many documents were deleted.
        deleted: u64,
    },
    /// Of [`Command::Patch`].
    Patched(Box<PatchOutcome>),
    /// Of [`Command::PatchEach`].
    PatchedEach(PatchedEach),
    /// Of [`Command::HiLoNext`].
    HiLoRange(HiLoRange),
    /// Of [`Command::HiLoReturn`].
    HiLoReturned,
    /// Of [`Command::IdentityNext`] and [`Command::IdentitySeed`]: the resulting value.
    Identity(i64),
    /// Of [`Command::ForgetIdentities`].
    IdentitiesForgotten,
    /// Of [`Command::ForceRevision`]: the document whose version is now stored as a revision;
    /// `None` when it already was.
    ForcedRevision(Option<StoredDocument>),
    /// Of [`Command::RemoveRevisions`].
    RemovedRevisions(RemovedRevisions),
    /// Of [`Command::RemoveTombstones`]: how many were removed.
    TombstonesRemoved(u64),
    /// Of [`Command::ForgetTransactions`]: where to go on.
    TransactionsForgotten(Option<Etag>),
    /// Of [`Command::DoWhenDue`]: whether the action was due.
    DoneWhenDue(bool),
    /// Of [`Command::RevertDocument`] and [`Command::RestoreRevision`].
    Reverted(Reversion),
    /// Of [`Command::PutAttachment`].
    AttachmentPut(Box<StoredAttachment>),
    /// Of [`Command::DeleteAttachment`].
    AttachmentDeleted(Box<DeletedAttachment>),
    /// Of [`Command::CopyAttachment`].
    AttachmentCopied(Box<CopiedAttachment>),
    /// Of [`Command::MoveAttachment`].
    AttachmentMoved(Box<MovedAttachment>),
    /// Of [`Command::ChangeCounters`].
    CountersChanged(Box<CountersChanged>),
    /// Of [`Command::StageContent`]: the content's number.
    ContentStaged(ContentNumber),
    /// Of the commands that remove contents.
    ContentsRemoved,
    /// Of [`Command::ChangeTimeSeries`] and [`Command::CopyTimeSeries`].
    TimeSeriesWritten(TimeSeriesWritten),
    /// Of [`Command::ClusterDocuments`]: whether it was executed now.
    ClusterDocuments(bool),
    /// Of [`Command::Output`].
    Output(OutputWritten),
    /// Of [`Command::Import`].
    Imported(Imported),
    /// Of [`Command::ResolveConflict`].
    ConflictResolved(ConflictResolved),
    /// Of [`Command::Receive`].
    Received(Received),
    /// Of [`Command::AddDictionary`].
    DictionaryAdded,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// One result for each command, in order.
    pub results: Vec<CommandResult>,
    /// The last etag of the database after the batch.
    pub last_etag: Etag,
    /// The collections in which documents were stored or deleted, without duplicates.
    pub collections: Vec<CollectionName>,
    /// Whether unreferenced contents of attachments remain for another batch to remove.
    pub has_leftover_contents: bool,
    /// Collections, by their numbers, that need a new dictionary.
    pub wanted_dictionaries: Vec<u32>,
    /// Every change, in order, if there was a listener when the batch was executed.
    pub changes: Vec<Change>,
    /// Items and bytes that it stored, for metrics.
    pub tally: WriteTally,
    /// Accounts for the documents and notes in `results` until it is dropped.
    pub held: HeldResults,
}

/// The share of the transactions' memory budget that a batch's results take; none when they are
/// small. All values compare equal, because it is no part of the result.
#[derive(Clone, Debug, Default)]
pub struct HeldResults(Option<Arc<MemoryShare>>);

impl HeldResults {
    pub(crate) fn new(share: MemoryShare) -> HeldResults {
        HeldResults((0 < share.bytes()).then(|| Arc::new(share)))
    }

    /// The accounted bytes; 0 if nothing is held.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |share| share.bytes())
    }
}

impl PartialEq for HeldResults {
    fn eq(&self, _: &HeldResults) -> bool {
        true
    }
}

impl Eq for HeldResults {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_commands_of_a_batch_are_taken_away_in_order_and_never_none() {
        let delete = |number: usize| Command::Delete {
            id: DocumentId::new(format!("d/{number}")).unwrap(),
            expected: ExpectedVersion::Any,
        };
        let ids = |batch: &Batch| -> Vec<String> {
            let id = |command: &Command| match command {
                Command::Delete { id, .. } => id.as_str().to_owned(),
                other => format!("{other:?}"),
            };
            batch.commands.iter().map(id).collect()
        };
        let mut batch = Batch { commands: (0..5).map(delete).collect() };
        let of_one = batch.size_bytes() / 5;
        for (bytes_max, expected) in [(2 * of_one + 1, 2), (1, 1), (1 << 20, 2), (1 << 20, 0)] {
            let left = ids(&batch);
            let first = batch.split_first(bytes_max);
            assert_eq!(
                (ids(&first), ids(&batch)),
                (left[..expected].to_vec(), left[expected..].to_vec())
            );
        }
    }
}
