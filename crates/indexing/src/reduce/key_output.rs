//! From touched keys to their results: the entries of the index, and the pending documents.

use search::{FieldSet, IndexBatch, SearchError};
use storage::WriteTransaction;

use super::{
    Reducing,
    format::{KeyRows, KeyState, NodeResult},
    key::ReduceKey,
    key_tree::{Counts, KeyResult, KeyTree, document_of, reduce_inline},
    stage::Reduced,
    touched_key::TouchedKey,
};
use crate::{
    entry_writer::{Entries, EntryWriter},
    error::IndexError,
    mapper::MapError,
    output::{OutputTarget, add_pending},
    output_room::OutputRoom,
};

/// The destination of results.
pub(super) struct Output<'a> {
    pub(super) reducing: &'a Reducing<'a>,
    pub(super) fields: &'a mut FieldSet,
    pub(super) batch: &'a mut IndexBatch,
    /// Entries of results are written when they take this much memory.
    pub(super) entries_bytes_max: usize,
    /// The entries of one key may take this much memory.
    pub(super) output_bytes_max: u64,
    pub(super) reduced: Reduced,
}

impl Output<'_> {
    /// Reduces what changed of a key, whose rows are written, and buffers its entries.
    pub(super) fn reduce_key(
        &mut self,
        tx: &mut WriteTransaction,
        touched: TouchedKey,
    ) -> Result<(), IndexError> {
        let TouchedKey { key, state, changed, .. } = touched;
        let mut counts = Counts::default();
        let result = match &state.rows {
            KeyRows::Inline(rows) => reduce_inline(self.reducing, rows, &mut counts)?,
            KeyRows::Spread => {
                let mut tree = KeyTree { tx, reducing: self.reducing, key, next: state.next };
                tree.reduce(changed, &mut counts)?
            }
        };
        let is_shown = self.put_entries(key, &result, &mut counts)?;
        if let Some(target) = self.reducing.target {
            let results = match &result {
                NodeResult::Results(results) if is_shown => results.as_slice(),
                NodeResult::Results(_) | NodeResult::Failed => &[],
            };
            self.note_output(tx, target, key, results, &mut counts)?;
        }
        self.reduced.attempts += counts.attempts;
        self.reduced.errors += counts.errors;
        if let Some(failure) = counts.failure {
            let text = self.text_of(tx, key, &state)?;
            self.reduced.failures.push((text, failure));
        }
        if self.entries_bytes_max < self.batch.memory_bytes() {
            self.write_entries(tx)?;
        }
        Ok(())
    }

    /// Writes the buffered entries.
    pub(super) fn write_entries(&mut self, tx: &mut WriteTransaction) -> Result<(), IndexError> {
        self.batch.apply(tx, self.fields)?;
        self.batch.clear();
        Ok(())
    }

    /// Records the documents that the results of a key should have.
    fn note_output(
        &mut self,
        tx: &mut WriteTransaction,
        target: &OutputTarget,
        key: ReduceKey,
        results: &[Vec<u8>],
        counts: &mut Counts,
    ) -> Result<(), IndexError> {
        let results = results.iter().map(|result| document_of(result));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        let wanted = target.outputs_of(&results, |message| counts.failure = Some(message))?;
        self.reduced.has_pending_output = true;
        add_pending(tx, key, &wanted)
    }

    /// Adds the entries; `false` when the results cannot be entries.
    fn put_entries(
        &mut self,
        key: ReduceKey,
        result: &KeyResult,
        counts: &mut Counts,
    ) -> Result<bool, IndexError> {
        let results = match result {
            NodeResult::Failed => {
                self.batch.delete(&key.name())?;
                return Ok(false);
            }
            NodeResult::Results(results) => results,
        };
        let mut entries = Entries::within(OutputRoom::up_to(self.output_bytes_max));
        let mut writer = EntryWriter::new(self.fields, &mut entries);
        let written = results.iter().try_for_each(|result| {
            let result = document_of(result)?;
            writer.begin_entry()?;
            self.reducing.reducer.write_entry(&result, &mut writer)
        });
        let put = written.and_then(|()| {
            self.batch.put(&key.name(), entries.as_slice()).map_err(|error| match error {
                error @ SearchError::EntryTooLong { .. } => {
                    MapError::Document { message: error.to_string() }
                }
                error => MapError::Index(error.into()),
            })
        });
        match put {
            Ok(()) => Ok(true),
            Err(MapError::Index(error)) => Err(error),
            Err(MapError::Document { message }) => {
                counts.errors += 1;
                counts.failure = Some(message);
                self.batch.delete(&key.name())?;
                Ok(false)
            }
        }
    }

    /// The text of a key, for messages.
    fn text_of(
        &self,
        tx: &mut WriteTransaction,
        key: ReduceKey,
        state: &KeyState,
    ) -> Result<String, IndexError> {
        let sample = match &state.rows {
            KeyRows::Inline(rows) => match rows.values().next() {
                Some(row) => Some(
                    blittable::BlittableBuf::from_bytes(row.clone())
                        .map_err(documents::DocumentError::from)?,
                ),
                None => None,
            },
            KeyRows::Spread => {
                KeyTree { tx, reducing: self.reducing, key, next: state.next }.sample()?
            }
        };
        let Some(sample) = sample else { return Ok(String::new()) };
        self.reducing.reducer.key_text(&sample.as_view()).map_err(|error| match error {
            MapError::Index(error) => error,
            MapError::Document { message } => IndexError::Definition { message },
        })
    }
}
