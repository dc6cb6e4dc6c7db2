//! The result of one batch, except its entries: progress, errors, references and statistics.

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

/// The number of errors kept of one batch; further ones are only counted.
const BATCH_ERRORS_MAX: usize = 100;
/// The approximate overhead of a recorded name.
const NAME_OVERHEAD_BYTES: usize = 128;

/// An index stops when more than this share of its documents failed …
const ERRORS_PERCENT_MAX: u64 = 15;
/// … of at least this many while more are pending, …
const ATTEMPTS_MIN_WHILE_BEHIND: u64 = 100;
/// … or of this many when all were mapped.
const ATTEMPTS_MIN: u64 = 6;

/// The result of one batch, except its entries.
pub(crate) struct BatchOutcome {
    pub(crate) record: IndexRecord,
    pub(crate) errors: Vec<IndexingError>,
    /// What the mapped documents read.
    pub(crate) looked: Vec<Looked>,
    /// Whether results changed that are written as documents.
    pub(crate) has_pending_output: bool,
    /// Documents that the batch has already mapped.
    pub(crate) mapped: HashSet<String>,
    pub(crate) changes: usize,
    /// Approximately, of `looked` and `mapped`.
    names_bytes: usize,
    /// Entries or rows that the maps returned.
    pub(crate) outputs: u64,
    /// Documents with very many entries.
    pub(crate) fan_out: FanOut,
    pub(crate) times: BatchTimes,
    pub(crate) pages: u64,
    pub(crate) end: BatchEnd,
}

impl BatchOutcome {
    /// The batch contains the changes up to this etag.
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
            has_pending_output: false,
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

    /// Records the number of entries or rows of a document.
    pub(crate) fn note_outputs(&mut self, document: &str, outputs: usize, core: &IndexCore) {
        let outputs = outputs as u64;
        self.outputs += outputs;
        self.record.outputs_max = self.record.outputs_max.max(outputs);
        if core.outputs_noted < outputs {
            self.fan_out.add(document, outputs, core.now_ticks());
        }
    }

    /// The approximate memory use in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.names_bytes
    }

    /// Records what a document read while it was mapped.
    pub(crate) fn note_looked(&mut self, document: String, at: References) {
        self.names_bytes += NAME_OVERHEAD_BYTES + 2 * document.len() + at.memory_bytes();
        self.mapped.insert(document.clone());
        self.looked.push(Looked { document, at });
    }

    /// A document was deleted, and its references with it.
    pub(crate) fn forget(&mut self, document: &str) {
        self.names_bytes += NAME_OVERHEAD_BYTES + document.len();
        self.looked.push(Looked { document: document.to_owned(), at: References::default() });
    }

    pub(crate) fn note(&mut self, ticks: i64, document: &str, message: String) {
        self.note_failure(IndexingAction::Map, ticks, document, message);
    }

    /// Records the failure of a document or of a reduce key.
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
