//! One batch inside a write transaction.
//!
//! Invariant: a batch that fails leaves the transaction as it was, except that the values it took
//! from identities stay taken: a number is never used twice, so that a caller that collided with an
//! existing document gets past it by retrying.

use documents::{
    DocumentError, DocumentWriter, ExpectedVersion, IdentityName, RequestedId, WriteContext,
    WriteTally,
};
use storage::WriteTransaction;

use crate::{
    command::{Batch, BatchOutcome, Command, CommandResult},
    error::CommandError,
    patch::Patcher,
};

/// Executes a batch; the transaction stays open and can take more batches. This is all that the
/// commit queue does with a batch, without threads: the same transaction, the same batch and the
/// same context always produce the same pages.
///
/// # Errors
/// Those of [`DocumentWriter`], and scripts that fail; nothing of the batch is kept in that case.
/// After an error of kind [`documents::ErrorKind::Ours`] the transaction must be dropped.
pub fn execute_batch(
    tx: &mut WriteTransaction,
    batch: &Batch,
    context: WriteContext<'_>,
    patcher: &mut Patcher,
) -> Result<BatchOutcome, CommandError> {
    if batch.is_dry_run() {
        return dry_run(tx, batch, context, patcher);
    }
    let savepoint = tx.savepoint();
    let numbers = match take_identities(tx, batch, context) {
        Ok(numbers) => numbers,
        Err(error) => {
            tx.roll_back_to(savepoint);
            return Err(error.into());
        }
    };
    let savepoint = tx.savepoint();
    tx.exceed_memory(is_agreed_on(batch));
    let outcome = execute(tx, batch, numbers, context, patcher);
    if outcome.is_err() {
        tx.roll_back_to(savepoint);
    }
    tx.exceed_memory(false);
    outcome
}

/// Whether the cluster has committed the batch, so that it is executed even if memory is short.
fn is_agreed_on(batch: &Batch) -> bool {
    batch.commands.iter().any(|command| matches!(command, Command::ClusterDocuments(_)))
}

/// Executes a batch and rolls it back.
fn dry_run(
    tx: &mut WriteTransaction,
    batch: &Batch,
    context: WriteContext<'_>,
    patcher: &mut Patcher,
) -> Result<BatchOutcome, CommandError> {
    let last_etag = documents::progress(tx)?.last_etag;
    let savepoint = tx.savepoint();
    let numbers = take_identities(tx, batch, context)?;
    let outcome = execute(tx, batch, numbers, context, patcher);
    tx.roll_back_to(savepoint);
    let BatchOutcome { results, held, .. } = outcome?;
    Ok(BatchOutcome {
        results,
        last_etag,
        collections: Vec::new(),
        has_leftover_contents: false,
        wanted_dictionaries: Vec::new(),
        changes: Vec::new(),
        tally: WriteTally::default(),
        held,
    })
}

/// One value for each put whose id is an identity, in order.
fn take_identities(
    tx: &mut WriteTransaction,
    batch: &Batch,
    context: WriteContext<'_>,
) -> Result<Vec<i64>, DocumentError> {
    let names = batch.commands.iter().filter_map(|command| match command {
        Command::Put(put) => match &put.id {
            RequestedId::Identity(identity) => Some(&identity.name),
            RequestedId::Exactly(_) | RequestedId::Random | RequestedId::Numbered(_) => None,
        },
        _ => None,
    });
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut writer = DocumentWriter::open(tx, context)?;
    names.map(|name| writer.next_identity(name)).collect()
}

fn execute(
    tx: &mut WriteTransaction,
    batch: &Batch,
    numbers: Vec<i64>,
    context: WriteContext<'_>,
    patcher: &mut Patcher,
) -> Result<BatchOutcome, CommandError> {
    let mut writer = DocumentWriter::open(tx, context)?;
    patcher.begin_batch();
    let mut numbers = numbers.into_iter();
    let mut results = Vec::with_capacity(batch.commands.len());
    for command in &batch.commands {
        results.push(execute_command(&mut writer, command, &mut numbers, patcher)?);
    }
    writer.settle()?;
    for result in &mut results {
        report_document_versions(&writer, result)?;
    }
    let collections = writer.changed_collections();
    let has_leftover_contents = writer.has_leftover_contents();
    let wanted_dictionaries = writer.wanted_dictionaries();
    let changes = writer.take_changes();
    let tally = writer.tally();
    let last_etag = writer.finish()?;
    Ok(BatchOutcome {
        results,
        last_etag,
        collections,
        has_leftover_contents,
        wanted_dictionaries,
        changes,
        tally,
        held: patcher.take_results(),
    })
}

/// Documents whose attachments or counters changed get their final version at the end of the batch.
fn report_document_versions(
    writer: &DocumentWriter<'_>,
    result: &mut CommandResult,
) -> Result<(), DocumentError> {
    let (stored, deleted) = match result {
        CommandResult::TimeSeriesWritten(written) => {
            if written.is_document_touched {
                written.change_vector = writer.version_of(&written.id)?;
            }
            return Ok(());
        }
        CommandResult::AttachmentPut(stored) => (Some(&mut **stored), None),
        CommandResult::AttachmentCopied(copied) => (Some(&mut copied.stored), None),
        CommandResult::AttachmentMoved(moved) => {
            (Some(&mut moved.stored), Some(&mut moved.deleted))
        }
        CommandResult::AttachmentDeleted(deleted) => (None, Some(&mut **deleted)),
        CommandResult::CountersChanged(changed) => {
            if changed.touches_document {
                changed.document_change_vector = writer.version_of(&changed.id)?;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    if let Some(stored) = stored {
        stored.document_change_vector = writer.version_of(&stored.id)?;
    }
    if let Some(deleted) = deleted {
        deleted.document_change_vector = writer.version_of(&deleted.id)?;
    }
    Ok(())
}

fn execute_command(
    writer: &mut DocumentWriter<'_>,
    command: &Command,
    numbers: &mut impl Iterator<Item = i64>,
    patcher: &mut Patcher,
) -> Result<CommandResult, CommandError> {
    Ok(match command {
        Command::Put(put) => CommandResult::Put(match &put.id {
            RequestedId::Identity(identity) => {
                let number = numbers.next();
                let number = number.expect("one value was taken for each identity");
                let (id, expected) = identity_id(identity, number, &put.expected)?;
                writer.put(&id, &expected, &put.body)?
            }
            id => writer.put(id, &put.expected, &put.body)?,
        }),
        Command::Delete { id, expected } => {
            let deleted = writer.delete(id, expected)?;
            CommandResult::Deleted { id: id.clone(), deleted }
        }
        Command::DeletePrefix { prefix } => {
            let deleted = writer.delete_prefix(prefix)?;
            CommandResult::DeletedPrefix { prefix: prefix.clone(), deleted }
        }
        Command::Patch(patch) => CommandResult::Patched(Box::new(patcher.patch(writer, patch)?)),
        Command::PatchEach(patch) => CommandResult::PatchedEach(patcher.patch_each(writer, patch)?),
        Command::HiLoNext(request) => CommandResult::HiLoRange(writer.next_hilo_range(request)?),
        Command::HiLoReturn { tag, end, last } => {
            writer.return_hilo_range(tag, *end, *last)?;
            CommandResult::HiLoReturned
        }
        Command::IdentityNext { name } => CommandResult::Identity(writer.next_identity(name)?),
        Command::IdentitySeed { name, value, force } => {
            CommandResult::Identity(writer.seed_identity(name, *value, *force)?)
        }
        Command::ForgetIdentities => {
            writer.forget_identities()?;
            CommandResult::IdentitiesForgotten
        }
        Command::ForceRevision { id, version } => {
            CommandResult::ForcedRevision(writer.force_revision(id, *version)?)
        }
        Command::RemoveRevisions { id, what } => {
            CommandResult::RemovedRevisions(writer.remove_revisions(id, *what)?)
        }
        Command::RemoveTombstones(request) => {
            CommandResult::TombstonesRemoved(writer.remove_tombstones(request)?)
        }
        Command::ForgetTransactions(from) => {
            CommandResult::TransactionsForgotten(writer.forget_transactions(*from)?)
        }
        Command::DoWhenDue { id, action } => {
            CommandResult::DoneWhenDue(writer.apply_due_action(id, *action)?)
        }
        Command::RevertDocument { id, ticks } => {
            CommandResult::Reverted(writer.revert_document(id, *ticks)?)
        }
        Command::RestoreRevision { id, change_vector } => {
            CommandResult::Reverted(writer.restore_revision(id, change_vector)?)
        }
        Command::PutAttachment(put) => {
            CommandResult::AttachmentPut(Box::new(writer.put_attachment(put)?))
        }
        Command::DeleteAttachment(delete) => {
            CommandResult::AttachmentDeleted(Box::new(writer.delete_attachment(delete)?))
        }
        Command::CopyAttachment(transfer) => {
            CommandResult::AttachmentCopied(Box::new(writer.copy_attachment(transfer)?))
        }
        Command::MoveAttachment(transfer) => {
            CommandResult::AttachmentMoved(Box::new(writer.move_attachment(transfer)?))
        }
        Command::ChangeCounters(request) => {
            CommandResult::CountersChanged(Box::new(writer.change_counters(request)?))
        }
        Command::StageContent { number, index, bytes } => {
            CommandResult::ContentStaged(writer.stage_content(*number, *index, bytes)?)
        }
        Command::DiscardContent(number) => {
            writer.discard_staged_content(*number)?;
            CommandResult::ContentsRemoved
        }
        Command::DiscardAllContents => {
            writer.discard_all_staged_contents()?;
            CommandResult::ContentsRemoved
        }
        Command::RemoveLeftoverContents => {
            writer.remove_leftover_contents();
            CommandResult::ContentsRemoved
        }
        Command::ChangeTimeSeries(change) => {
            CommandResult::TimeSeriesWritten(writer.change_time_series(change)?)
        }
        Command::CopyTimeSeries(copy) => {
            CommandResult::TimeSeriesWritten(writer.copy_time_series(copy)?)
        }
        Command::ClusterDocuments(documents) => {
            CommandResult::ClusterDocuments(writer.execute_cluster_documents(documents)?)
        }
        Command::Output(change) => CommandResult::Output(writer.write_output(change)?),
        Command::Import(import) => CommandResult::Imported(writer.import(import)?),
        Command::ResolveConflict { id, versions, resolution } => {
            let resolved = writer.resolve_conflict(id, versions, resolution)?;
            CommandResult::ConflictResolved(resolved)
        }
        Command::Receive(batch) => CommandResult::Received(writer.receive(batch)?),
        Command::AddDictionary(trained) => {
            writer.add_dictionary(trained)?;
            CommandResult::DictionaryAdded
        }
    })
}

/// The id from an identity, and the version expected under it: none.
fn identity_id(
    identity: &IdentityName,
    number: i64,
    expected: &ExpectedVersion,
) -> Result<(RequestedId, ExpectedVersion), DocumentError> {
    let id = identity.numbered(number)?;
    if let ExpectedVersion::Exactly(expected) = expected {
        let expected = expected.clone();
        return Err(DocumentError::VersionOfIdentity { id: id.to_string(), expected });
    }
    Ok((RequestedId::Exactly(id), ExpectedVersion::New))
}
