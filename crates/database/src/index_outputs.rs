//! Writes the documents that indexes produce, as batches of the commit queue.

use std::sync::Arc;

use commands::{Batch, Command, CommandError, CommandResult, CommitQueue};
use documents::{ErrorKind, OutputChange, OutputWritten};
use indexing::{OutputError, OutputQueue};

/// See the module documentation.
pub(crate) struct IndexOutputs {
    pub(crate) queue: Arc<CommitQueue>,
}

impl OutputQueue for IndexOutputs {
    fn commit(&self, changes: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError> {
        let batch = Batch { commands: changes.into_iter().map(Command::Output).collect() };
        let submitted = self.queue.submit_and_wait(batch);
        let outcome =
            submitted.map_err(|error| OutputError::Later { message: error.to_string() })?;
        match outcome {
            Ok(outcome) => Ok(outcome.results.iter().map(written).collect()),
            Err(CommandError::Document(error)) if error.kind() == ErrorKind::Caller => {
                Err(OutputError::Refused { message: error.to_string() })
            }
            Err(error) => Err(OutputError::Later { message: error.to_string() }),
        }
    }
}

fn written(result: &CommandResult) -> OutputWritten {
    match result {
        CommandResult::Output(written) => *written,
        _ => unreachable!("each command has its own kind of result"),
    }
}
