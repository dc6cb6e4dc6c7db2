//! The settings in the record of a database that affect how it runs.

use std::sync::Arc;

use commands::CommitQueue;
use model::{DatabaseRecord, RecordedIndexes, UnreadableSection};

use crate::error::LoadError;

/// The definitions of its indexes.
pub(crate) fn recorded_indexes(record: &DatabaseRecord) -> Result<&RecordedIndexes, LoadError> {
    wire::sections_of(&record.configuration).indexes.as_ref().map_err(unreadable)
}

/// Configures the commit queue when a database is opened.
pub(crate) fn set_queue(queue: &CommitQueue, record: &DatabaseRecord) -> Result<(), LoadError> {
    let sections = wire::sections_of(&record.configuration);
    queue.set_revisions(readable(&sections.revisions)?);
    queue.set_compression(readable(&sections.compression)?);
    queue.set_id_separator(sections.id_separator);
    Ok(())
}

fn readable<T: Clone>(section: &Result<T, UnreadableSection>) -> Result<T, LoadError> {
    section.clone().map_err(|error| unreadable(&error))
}

fn unreadable(section: &UnreadableSection) -> LoadError {
    LoadError::Settings { message: section.message.clone() }
}

/// The same after its record has changed: settings that cannot be read stay unchanged.
pub(crate) fn change_queue(queue: &CommitQueue, record: &DatabaseRecord) {
    let sections = wire::sections_of(&record.configuration);
    if let Ok(revisions) = &sections.revisions {
        queue.set_revisions(Arc::clone(revisions));
    }
    if let Ok(compression) = &sections.compression {
        queue.set_compression(compression.clone());
    }
    queue.set_id_separator(sections.id_separator);
}
