//! The thread of an index: reads the document log where it stopped, maps, and commits entries,
//! progress and errors in one transaction.
//!
//! Documents of several collections are taken in the order of their etags, so that entries come in
//! the order in which documents were last written, however often the thread was interrupted.

use std::{iter::Peekable, sync::Arc};

use documents::{DocumentError, DocumentRow, LogEntry};
use model::{CollectionName, Etag};
use search::{FieldSet, IndexBatch};
use storage::ReadTransaction;

use crate::{
    entry_writer::{Entries, EntryWriter},
    error::IndexError,
    index::{IndexCore, Turn},
    index_record::{self, IndexRecord, IndexingAction, IndexingError},
    mapper::MapError,
};

/// A batch ends after that many changes.
const BATCH_CHANGES_MAX: usize = 16 * 1024;
/// A batch ends when its entries take that much memory.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// Errors kept of one batch; the others are counted.
const BATCH_ERRORS_MAX: usize = 100;

/// An index stops when more than this share of its documents failed …
const ERRORS_PERCENT_MAX: u64 = 15;
/// … of at least so many while there is more to do, …
const ATTEMPTS_MIN_WHILE_BEHIND: u64 = 100;
/// … or of so many when it has seen them all.
const ATTEMPTS_MIN: u64 = 6;

/// See the module.
pub(crate) struct Indexer {
    core: Arc<IndexCore>,
    fields: FieldSet,
    batch: IndexBatch,
    entries: Entries,
}

/// What one batch did beside its entries.
struct BatchOutcome {
    record: IndexRecord,
    errors: Vec<IndexingError>,
    has_more: bool,
}

impl Indexer {
    pub(crate) fn new(core: Arc<IndexCore>, fields: FieldSet) -> Self {
        Self { core, fields, batch: IndexBatch::new(), entries: Entries::default() }
    }

    pub(crate) fn run(mut self) {
        while self.core.next_turn() == Turn::Index {
            match self.index_batch() {
                Ok(()) => {}
                Err(error) if may_be_retried(&error) => self.core.rest_after(error),
                Err(error) => return self.core.fail(error),
            }
        }
    }

    fn index_batch(&mut self) -> Result<(), IndexError> {
        let documents = self.core.documents.read();
        let before = self.core.record();
        if self.core.last_etag_in(&documents)?.0 <= before.last_etag {
            return Ok(());
        }
        let outcome = self.gather(&documents, before)?;
        self.write(&outcome)?;
        self.core.advance(outcome.record, outcome.has_more);
        Ok(())
    }

    /// Maps changes after the record's etag into the batch.
    fn gather(
        &mut self,
        documents: &ReadTransaction,
        before: IndexRecord,
    ) -> Result<BatchOutcome, IndexError> {
        self.batch.clear();
        let mut outcome = BatchOutcome { record: before, errors: Vec::new(), has_more: false };
        let core = Arc::clone(&self.core);
        let after = Etag(before.last_etag);
        let mut changes = Changes::after(documents, core.mapper.collections(), after)?;
        let mut count = 0;
        while let Some(change) = changes.next().transpose()? {
            outcome.record.last_etag = change.etag().0;
            match change {
                LogEntry::Document(document) => self.map(&document, &mut outcome)?,
                LogEntry::Tombstone(tombstone) => self.batch.delete(tombstone.lower_id())?,
            }
            count += 1;
            let is_full =
                count == BATCH_CHANGES_MAX || BATCH_BYTES_MAX <= self.batch.memory_bytes();
            if is_full || core.is_closing() {
                outcome.has_more = true;
                break;
            }
        }
        outcome.record.last_indexing_ticks = core.now_ticks();
        outcome.record.has_failed = is_too_often_wrong(&outcome.record, outcome.has_more);
        Ok(outcome)
    }

    fn map(
        &mut self,
        document: &DocumentRow<'_>,
        outcome: &mut BatchOutcome,
    ) -> Result<(), IndexError> {
        self.entries.clear();
        let mut writer = EntryWriter::new(&mut self.fields, &mut self.entries);
        outcome.record.map_attempts += 1;
        let mapped = self.core.mapper.map(document, &mut writer);
        let entries = match mapped {
            Ok(()) => self.entries.as_slice(),
            Err(MapError::Index(error)) => return Err(error),
            Err(MapError::Document { message }) => {
                outcome.record.map_errors += 1;
                outcome.note(self.core.now_ticks(), document.id(), message);
                &[]
            }
        };
        outcome.record.outputs_max = outcome.record.outputs_max.max(entries.len() as u64);
        Ok(self.batch.put(document.lower_id(), entries)?)
    }

    fn write(&mut self, outcome: &BatchOutcome) -> Result<(), IndexError> {
        let mut tx = self.core.environment.write()?;
        self.batch.apply(&mut tx, &mut self.fields)?;
        for error in &outcome.errors {
            index_record::add_error(&mut tx, error)?;
        }
        index_record::write_record(&mut tx, &outcome.record)?;
        Ok(tx.commit()?)
    }
}

impl BatchOutcome {
    fn note(&mut self, ticks: i64, document: &str, message: String) {
        if self.errors.len() < BATCH_ERRORS_MAX {
            let (action, document) = (IndexingAction::Map, document.to_owned());
            self.errors.push(IndexingError { ticks, action, document, message });
        }
    }
}

fn is_too_often_wrong(record: &IndexRecord, is_behind: bool) -> bool {
    let IndexRecord { map_attempts, map_errors, .. } = *record;
    let attempts_min = if is_behind { ATTEMPTS_MIN_WHILE_BEHIND } else { ATTEMPTS_MIN };
    let is_all = !is_behind && 0 < map_errors && map_errors == map_attempts;
    let is_often = ERRORS_PERCENT_MAX * map_attempts < 100 * map_errors;
    is_all || (attempts_min <= map_attempts && is_often)
}

type Change<'t> = Result<LogEntry<'t>, DocumentError>;
type Log<'t> = Peekable<Box<dyn Iterator<Item = Change<'t>> + 't>>;

/// The logs of several collections as one, in the order of etags.
struct Changes<'t> {
    logs: Vec<Log<'t>>,
}

impl<'t> Changes<'t> {
    fn after(
        documents: &'t ReadTransaction,
        collections: &[CollectionName],
        after: Etag,
    ) -> Result<Self, DocumentError> {
        let boxed = |log: Box<dyn Iterator<Item = Change<'t>> + 't>| log.peekable();
        let logs = match collections {
            [] => vec![boxed(Box::new(documents::log(documents, after)?))],
            names => names
                .iter()
                .map(|name| {
                    let log = documents::log_of_collection(documents, name, after)?;
                    Ok(boxed(Box::new(log)))
                })
                .collect::<Result<_, DocumentError>>()?,
        };
        Ok(Self { logs })
    }
}

impl<'t> Iterator for Changes<'t> {
    type Item = Change<'t>;

    fn next(&mut self) -> Option<Change<'t>> {
        // An error comes first: nothing behind it may be taken for indexed.
        let etag = |change: &Change<'t>| change.as_ref().map_or(Etag::ZERO, LogEntry::etag);
        let first = self
            .logs
            .iter_mut()
            .enumerate()
            .filter_map(|(at, log)| log.peek().map(|change| (etag(change), at)))
            .min()?;
        self.logs[first.1].next()
    }
}

/// Whether the disk may have room again later.
fn may_be_retried(error: &IndexError) -> bool {
    matches!(error, IndexError::Storage(error) if error.is_retryable())
}
