//! The settings in the record of a database that affect how it runs.

use std::sync::Arc;

use cluster_state::DatabaseRecord;
use commands::CommitQueue;
use model::{DocumentsCompression, RevisionsConfiguration};
use wire::{RecordedIndexes, RetentionConfiguration, RetentionKind, TimeSeriesConfiguration};

use crate::error::LoadError;

pub(crate) fn recorded_indexes(record: &DatabaseRecord) -> Result<RecordedIndexes, LoadError> {
    RecordedIndexes::of_record(&record.body)
        .map_err(|error| LoadError::Settings { message: error.to_string() })
}

fn recorded_revisions(record: &DatabaseRecord) -> Result<Arc<RevisionsConfiguration>, LoadError> {
    let read = wire::revisions_of_record(&record.body);
    read.map(Arc::new).map_err(|error| LoadError::Settings { message: error.message })
}

pub(crate) fn recorded_time_series(
    record: &DatabaseRecord,
) -> Option<Arc<TimeSeriesConfiguration>> {
    TimeSeriesConfiguration::of_record(&record.body).map(Arc::new)
}

pub(crate) fn recorded_retention(
    record: &DatabaseRecord,
) -> [Option<RetentionConfiguration>; RetentionKind::ALL.len()] {
    RetentionConfiguration::of_record(&record.body)
}

fn recorded_compression(record: &DatabaseRecord) -> Result<DocumentsCompression, LoadError> {
    wire::compression_of_record(&record.body)
        .map_err(|error| LoadError::Settings { message: error.message })
}

/// Configures the commit queue when a database is opened.
pub(crate) fn set_queue(queue: &CommitQueue, record: &DatabaseRecord) -> Result<(), LoadError> {
    queue.set_revisions(recorded_revisions(record)?);
    queue.set_compression(recorded_compression(record)?);
    queue.set_id_separator(wire::id_separator_of_record(&record.body));
    Ok(())
}

/// The same after its record has changed: settings that cannot be read stay unchanged.
pub(crate) fn change_queue(queue: &CommitQueue, record: &DatabaseRecord) {
    if let Ok(revisions) = recorded_revisions(record) {
        queue.set_revisions(revisions);
    }
    if let Ok(compression) = recorded_compression(record) {
        queue.set_compression(compression);
    }
    queue.set_id_separator(wire::id_separator_of_record(&record.body));
}
