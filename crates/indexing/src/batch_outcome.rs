//! What one batch of an index did beside its entries: progress, errors, references, and what it took.

use std::collections::HashSet;

use model::Etag;
use storage::invariant;

use crate::{
    batch_log::{BatchEnd, BatchTimes},
    error::IndexError,
    fan_out::FanOut,
    index_core::IndexCore,
    index_record::{IndexRecord, IndexingAction, IndexingError},
    references::{Looked, References},
};

/// Errors kept of one batch; the others are counted.
const BATCH_ERRORS_MAX: usize = 100;
/// What a remembered name takes beside its text, about.
const NAME_OVERHEAD_BYTES: usize = 128;

/// An index stops when more than this share of its documents failed …
const ERRORS_PERCENT_MAX: u64 = 15;
/// … of at least so many while there is more to do, …
const ATTEMPTS_MIN_WHILE_BEHIND: u64 = 100;
/// … or of so many when it has seen them all.
const ATTEMPTS_MIN: u64 = 6;

/// What one batch did beside its entries.
pub(crate) struct BatchOutcome {
    pub(crate) record: IndexRecord,
    pub(crate) errors: Vec<IndexingError>,
    /// What the mapped documents looked at.
    pub(crate) looked: Vec<Looked>,
    /// Whether results changed that go to documents.
    pub(crate) owes_output: bool,
    /// Documents that are in the batch already.
    pub(crate) mapped: HashSet<String>,
    pub(crate) changes: usize,
    /// Of `looked` and `mapped`, nearly.
    names_bytes: usize,
    /// Entries or rows that documents gave.
    pub(crate) outputs: u64,
    /// Documents that gave very many.
    pub(crate) fan_out: FanOut,
    pub(crate) times: BatchTimes,
    pub(crate) pages: u64,
    pub(crate) end: BatchEnd,
}

impl BatchOutcome {
    /// The batch contains the changes up to this one.
    pub(crate) fn advance_to(&mut self, etag: Etag) -> Result<(), IndexError> {
        invariant!(
            self.record.last_etag <= etag.0,
            "an index reads changes in the order of their etags, so that it skips none"
        );
        self.record.last_etag = etag.0;
        Ok(())
    }

    pub(crate) fn after(record: IndexRecord) -> Self {
        Self {
            record,
            errors: Vec::new(),
            looked: Vec::new(),
            owes_output: false,
            mapped: HashSet::new(),
            changes: 0,
            names_bytes: 0,
            outputs: 0,
            fan_out: FanOut::default(),
            times: BatchTimes::default(),
            pages: 0,
            end: BatchEnd::Finished,
        }
    }

    /// Notes how many entries or rows a document gave.
    pub(crate) fn note_outputs(&mut self, document: &str, outputs: usize, core: &IndexCore) {
        let outputs = outputs as u64;
        self.outputs += outputs;
        self.record.outputs_max = self.record.outputs_max.max(outputs);
        if core.outputs_noted < outputs {
            self.fan_out.add(document, outputs, core.now_ticks());
        }
    }

    /// Bytes of memory that it takes, nearly.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.names_bytes
    }

    /// What a document looked at while it was mapped.
    pub(crate) fn note_looked(&mut self, document: String, at: References) {
        self.names_bytes += NAME_OVERHEAD_BYTES + 2 * document.len() + at.memory_bytes();
        self.mapped.insert(document.clone());
        self.looked.push(Looked { document, at });
    }

    /// A document is gone, and what it looked at with it.
    pub(crate) fn forget(&mut self, document: &str) {
        self.names_bytes += NAME_OVERHEAD_BYTES + document.len();
        self.looked.push(Looked { document: document.to_owned(), at: References::default() });
    }

    pub(crate) fn note(&mut self, ticks: i64, document: &str, message: String) {
        self.note_failure(IndexingAction::Map, ticks, document, message);
    }

    /// Notes what went wrong with a document, or with a reduce key in its place.
    pub(crate) fn note_failure(
        &mut self,
        action: IndexingAction,
        ticks: i64,
        document: &str,
        message: String,
    ) {
        if self.errors.len() < BATCH_ERRORS_MAX {
            let document = document.to_owned();
            self.errors.push(IndexingError { ticks, action, document, message });
        }
    }
}

pub(crate) fn is_too_often_wrong(record: &IndexRecord, is_behind: bool) -> bool {
    let attempts = record.map_attempts + record.reduce_attempts;
    let errors = record.map_errors + record.reduce_errors;
    let attempts_min = if is_behind { ATTEMPTS_MIN_WHILE_BEHIND } else { ATTEMPTS_MIN };
    let is_all = !is_behind && 0 < errors && errors == attempts;
    let is_often = ERRORS_PERCENT_MAX * attempts < 100 * errors;
    is_all || (attempts_min <= attempts && is_often)
}
