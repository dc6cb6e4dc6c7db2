//! The thread that trains dictionaries for documents that are compressed.
//!
//! It reads a snapshot and computes; its dictionaries go through the queue like any other change.
//! It runs only in a database that has compressed something.

use std::sync::Arc;

use documents::train_dictionary;
use storage::Environment;

use crate::{
    command::{Batch, Command},
    queue_state::Shared,
};

/// Runs until the queue is closed.
pub(crate) fn run(shared: &Shared, environment: &Arc<Environment>) {
    while let Some(collection) = shared.wait_as_trainer() {
        // An unreadable row is reported to any caller that needs it; here it only costs a
        // dictionary, which the writer will request again.
        if let Ok(Some(trained)) = train_dictionary(&environment.read(), collection) {
            shared.push_own(Batch::one(Command::AddDictionary(trained)));
        }
    }
}
