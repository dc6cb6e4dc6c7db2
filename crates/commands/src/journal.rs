//! Writes a transaction to disk and acknowledges its callers.
//!
//! Invariants: a caller is acknowledged only after its transaction is durable; listeners are notified
//! of transactions, and callers acknowledged, in their order.

use std::panic::{AssertUnwindSafe, catch_unwind};

use storage::{SealedTransaction, StorageError};

use crate::{
    error::CommandError,
    queue_state::{Handover, JournalTurn, Pending, Shared, thread_panicked},
};

/// Writes the transaction, by the thread that has the journal. The journal is free again before the
/// callers are acknowledged; the next transaction is on its way meanwhile, but its callers wait.
pub(crate) fn write(shared: &Shared, turn: JournalTurn<'_>, handover: Handover) {
    let Handover { sealed, mut pending } = handover;
    let written = make_durable(sealed);
    if written.is_ok() {
        notify_of(shared, &mut pending);
    }
    let _in_order = shared.begin_answers();
    turn.end(&written, pending.len());
    for pending in pending {
        // Not earlier: the sample is read from what is durable.
        if written.is_ok() && !pending.outcome.wanted_dictionaries.is_empty() {
            shared.train(&pending.outcome.wanted_dictionaries);
        }
        let result = match &written {
            Ok(()) => Ok(pending.outcome),
            Err(error) => Err(not_durable(error.clone())),
        };
        pending.reply.answer(result);
    }
}

/// Notifies the listeners of what is now durable. A panic of one cannot harm the queue, nor the other.
fn notify_of(shared: &Shared, pending: &mut [Pending]) {
    let _ = catch_unwind(AssertUnwindSafe(|| shared.count(pending)));
    let Some(listener) = shared.listener.get() else { return };
    let changes = pending.iter_mut().flat_map(|one| std::mem::take(&mut one.outcome.changes));
    let changes: Vec<_> = changes.collect();
    if !changes.is_empty() {
        let _ = catch_unwind(AssertUnwindSafe(|| listener.notify(changes)));
    }
}

/// A panic of the storage engine counts as a write whose outcome is unknown.
fn make_durable(sealed: SealedTransaction) -> Result<(), StorageError> {
    let call = AssertUnwindSafe(move || sealed.make_durable());
    catch_unwind(call).unwrap_or_else(|_| Err(thread_panicked()))
}

/// The error for a caller whose transaction was in flight when a write failed.
fn not_durable(error: StorageError) -> CommandError {
    match error {
        StorageError::Failed { .. } => CommandError::OutcomeUnknown(error),
        error => CommandError::NotWritten(error),
    }
}
