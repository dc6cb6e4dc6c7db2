//! The thread that trains dictionaries for documents that are compressed.
//!
//! It reads a snapshot and computes; what it makes goes through the queue like everything else. It runs
//! only in a database that has compressed something.

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
        // A row that cannot be read is told to whoever needs it; here it only costs a dictionary, for
        // which the writer asks again.
        if let Ok(Some(trained)) = train_dictionary(&environment.read(), collection) {
            shared.push_own(Batch::one(Command::AddDictionary(trained)));
        }
    }
}
