//! The thread that writes transactions to disk and acknowledges their callers.
//!
//! Invariant: a caller is acknowledged only after its transaction is durable.

use std::{io, path::PathBuf, sync::Arc};

use storage::{SealedTransaction, StorageError};

use crate::{
    error::CommandError,
    queue_state::{Handover, Journal, Pending, Rest, Shared, answer},
};

/// Runs until the writer has ended and its last transaction is on the disk.
pub(crate) fn run(shared: &Shared, mut rest: Rest) {
    while let Some(Handover { sealed, mut pending }) = next_handover(shared, &mut rest) {
        rest.worked();
        let written = write(sealed);
        settle(shared, &written, pending.len());
        if written.is_ok() {
            shared.count(&pending);
            notify_changes(shared, &mut pending);
        }
        // The writer continues while the callers are acknowledged.
        for pending in pending {
            // Not earlier: the sample is read from what is durable.
            if written.is_ok() && !pending.outcome.wanted_dictionaries.is_empty() {
                shared.train(&pending.outcome.wanted_dictionaries);
            }
            let result = match &written {
                Ok(()) => Ok(pending.outcome),
                Err(error) => Err(not_durable(error.clone())),
            };
            answer(pending.reply, result);
        }
    }
}

fn next_handover(shared: &Shared, rest: &mut Rest) -> Option<Handover> {
    let mut state = shared.lock();
    loop {
        match std::mem::replace(&mut state.journal, Journal::Idle) {
            Journal::Waiting(handover) => {
                state.journal = Journal::Writing;
                return Some(handover);
            }
            Journal::Idle if state.writer_ended => return None,
            Journal::Idle | Journal::Writing => state = shared.rest_as_journal(state, rest),
        }
    }
}

/// Notifies the listener of what is now durable. A panic of the listener cannot harm the queue.
fn notify_changes(shared: &Shared, pending: &mut [Pending]) {
    let Some(listener) = shared.listener.get() else { return };
    let changes = pending.iter_mut().flat_map(|one| std::mem::take(&mut one.outcome.changes));
    let changes: Vec<_> = changes.collect();
    if !changes.is_empty() {
        let call = std::panic::AssertUnwindSafe(|| listener.notify(changes));
        drop(std::panic::catch_unwind(call));
    }
}

/// A panic of the storage engine counts as a write whose outcome is unknown.
fn write(sealed: SealedTransaction) -> Result<(), StorageError> {
    let call = std::panic::AssertUnwindSafe(move || sealed.make_durable());
    std::panic::catch_unwind(call).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> StorageError {
    let source = Arc::new(io::Error::other("the journal thread panicked"));
    let reason = StorageError::Io { path: PathBuf::new(), operation: "write the journal", source };
    StorageError::Failed { reason: Arc::new(reason) }
}

fn settle(shared: &Shared, written: &Result<(), StorageError>, batches: usize) {
    let mut state = shared.lock();
    state.journal = Journal::Idle;
    match written {
        Ok(()) => {
            state.statistics.transactions += 1;
            state.statistics.batches += batches as u64;
        }
        Err(error) => state.lost = Some(error.clone()),
    }
    shared.wake_writer(state);
}

/// The error for a caller whose transaction was in flight when a write failed.
fn not_durable(error: StorageError) -> CommandError {
    match error {
        StorageError::Failed { .. } => CommandError::OutcomeUnknown(error),
        error => CommandError::NotWritten(error),
    }
}
