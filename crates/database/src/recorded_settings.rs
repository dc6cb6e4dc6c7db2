//! The settings in the record of a database that affect how it runs.

use std::sync::Arc;

use commands::CommitQueue;
use model::{DatabaseRecord, UnreadableSection};
use wire::{RecordedIndexes, TimeSeriesConfiguration};

use crate::error::LoadError;

pub(crate) fn recorded_indexes(record: &DatabaseRecord) -> Result<RecordedIndexes, LoadError> {
    RecordedIndexes::of_record(record.configuration.json())
        .map_err(|error| LoadError::Settings { message: error.to_string() })
}

pub(crate) fn recorded_time_series(
    record: &DatabaseRecord,
) -> Option<Arc<TimeSeriesConfiguration>> {
    TimeSeriesConfiguration::of_record(record.configuration.json()).map(Arc::new)
}

/// Configures the commit queue when a database is opened.
pub(crate) fn set_queue(queue: &CommitQueue, record: &DatabaseRecord) -> Result<(), LoadError> {
    let sections = wire::sections_of(record);
    queue.set_revisions(readable(&sections.revisions)?);
    queue.set_compression(readable(&sections.compression)?);
    queue.set_id_separator(sections.id_separator);
    Ok(())
}

fn readable<T: Clone>(section: &Result<T, UnreadableSection>) -> Result<T, LoadError> {
    section.clone().map_err(|unreadable| LoadError::Settings { message: unreadable.message })
}

/// The same after its record has changed: settings that cannot be read stay unchanged.
pub(crate) fn change_queue(queue: &CommitQueue, record: &DatabaseRecord) {
    let sections = wire::sections_of(record);
    if let Ok(revisions) = &sections.revisions {
        queue.set_revisions(Arc::clone(revisions));
    }
    if let Ok(compression) = &sections.compression {
        queue.set_compression(compression.clone());
    }
    queue.set_id_separator(sections.id_separator);
}
