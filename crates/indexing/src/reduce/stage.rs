//! A batch of a map-reduce index: rows are gathered by document while the log is read, and then
//! become results and entries of their keys.
//!
//! Everything happens in the transaction of the batch if it fits. Otherwise it takes several, each
//! with all changes of some keys, and only the last one advances the progress of the index.
//! Repeating the others has no effect when the batch has to be restarted.

use std::collections::HashMap;

use search::{FieldSet, IndexBatch};
use storage::{StorageError, WriteTransaction};

use super::{MappedRow, MappedRows, Reducing, key_output::Output, row_changes::RowChanges};
use crate::{batch_memory::BatchMemory, error::IndexError};

/// See the module.
#[derive(Default)]
pub(crate) struct ReduceStage {
    /// The newest rows of each document, in the order in which it was first seen.
    documents: Vec<GatheredDocument>,
    by_id: HashMap<String, usize>,
    bytes: usize,
}

struct GatheredDocument {
    id: String,
    rows: Vec<MappedRow>,
}

/// The destination of a batch.
pub(crate) struct Staged<'a> {
    pub(crate) tx: WriteTransaction,
    pub(crate) fields: &'a mut FieldSet,
    /// The entries of results; applied early when they grow large.
    pub(crate) batch: &'a mut IndexBatch,
    /// Commits a part of the batch, and returns the transaction for the next.
    pub(crate) end_part:
        &'a mut dyn FnMut(WriteTransaction) -> Result<WriteTransaction, IndexError>,
}

/// The statistics of a batch.
#[derive(Default)]
pub(crate) struct Reduced {
    /// Rows that were reduced.
    pub(crate) attempts: u64,
    /// Those for which the reduce failed.
    pub(crate) errors: u64,
    /// The keys whose reduce failed, and why.
    pub(crate) failures: Vec<(String, String)>,
    /// Whether documents are pending for any key.
    pub(crate) has_pending_output: bool,
}

impl ReduceStage {
    pub(crate) fn clear(&mut self) {
        self.documents.clear();
        self.by_id.clear();
        self.bytes = 0;
    }

    /// The approximate memory of the gathered rows, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the rows of a document; none when it was deleted.
    pub(crate) fn put(&mut self, lower_id: &str, rows: &mut MappedRows) {
        let rows = std::mem::take(&mut rows.rows);
        let of_rows: usize = rows.iter().map(|row| size_of::<MappedRow>() + row.row.len()).sum();
        self.bytes += of_rows + 2 * lower_id.len() + size_of::<GatheredDocument>();
        match self.by_id.get(lower_id) {
            Some(at) => self.documents[*at].rows = rows,
            None => {
                self.by_id.insert(lower_id.to_owned(), self.documents.len());
                self.documents.push(GatheredDocument { id: lower_id.to_owned(), rows });
            }
        }
    }

    /// Writes the gathered rows, reduces the keys that they touch, and adds their entries to the
    /// batch; returns the transaction to commit with the progress of the index.
    ///
    /// # Errors
    ///
    /// [`StorageError::NoMemory`] among others: the rows that were gathered are in memory at once, and so
    /// is what one part of the batch changes.
    pub(crate) fn apply(
        &mut self,
        reducing: &Reducing<'_>,
        staged: Staged<'_>,
        memory: &mut BatchMemory,
    ) -> Result<(WriteTransaction, Reduced), IndexError> {
        let Staged { mut tx, fields, batch, end_part } = staged;
        let gathered = self.bytes;
        let mut changes = RowChanges::default();
        for document in self.documents.drain(..) {
            changes.add(&tx, document.id, document.rows)?;
            memory.hold(gathered + changes.memory_bytes()).map_err(StorageError::from)?;
        }
        self.clear();
        match memory.fits_one_part(changes.page_bytes()) {
            true => changes.sort(),
            false => changes.sort_by_key(),
        }
        let entries_bytes_max = memory.entries_bytes_max();
        let reduced = Reduced::default();
        let output_bytes_max = memory.output_bytes_max();
        let mut output =
            Output { reducing, fields, batch, entries_bytes_max, output_bytes_max, reduced };
        while let Some(mut touched) = changes.next_key(&tx)? {
            if touched.is_changed {
                touched.write(&mut tx)?;
                output.reduce_key(&mut tx, touched)?;
            }
            let part_bytes = tx.held_bytes() + output.batch.memory_bytes() as u64;
            if !changes.is_done() && memory.ends_part(part_bytes) {
                changes.write_places(&mut tx)?;
                output.write_entries(&mut tx)?;
                memory.part_was_written(tx.held_bytes());
                tx = end_part(tx)?;
            }
        }
        changes.write_places(&mut tx)?;
        Ok((tx, output.reduced))
    }
}

#[cfg(test)]
mod tests {
    use blittable::{BlittableBuf, Document, ObjectBuilder};
    use platform::Platform;
    use storage::{Environment, EnvironmentOptions, Transaction};

    use crate::map_context::MapContext;

    use super::*;
    use crate::{
        batch_memory::IndexingMemory,
        entry_writer::EntryWriter,
        mapper::MapError,
        reduce::{Reducer, format::keys_tree, key::ReduceKey},
        source::SourceItem,
    };

    /// Counts rows; fails on the third.
    struct Counting;

    impl Reducer for Counting {
        fn map_rows<'a>(
            &'a self,
            _: &'a SourceItem<'_>,
            _: MapContext<'a>,
            _: &mut MappedRows,
        ) -> Result<(), MapError> {
            Ok(())
        }

        fn reduce<'a>(
            &'a self,
            _: &Document<'a>,
            items: &[Document<'a>],
            results: &mut Vec<BlittableBuf>,
        ) -> Result<(), MapError> {
            let count: i64 =
                items.iter().map(|item| item.root().get_i64("N").unwrap().unwrap()).sum();
            if count == 3 {
                return Err(MapError::Document { message: "three".to_owned() });
            }
            results.push(row(count));
            Ok(())
        }

        fn key_text(&self, sample: &Document<'_>) -> Result<String, MapError> {
            Ok(String::from_utf8(sample.to_json().unwrap()).unwrap())
        }

        fn key_json(&self, sample: &Document<'_>) -> Result<Vec<u8>, MapError> {
            Ok(sample.to_json().unwrap())
        }

        fn write_entry(&self, _: &Document<'_>, _: &mut EntryWriter<'_>) -> Result<(), MapError> {
            Ok(())
        }
    }

    fn row(n: i64) -> BlittableBuf {
        let mut builder = ObjectBuilder::new();
        builder.put("N", n);
        builder.finish().unwrap()
    }

    fn key(number: i64) -> ReduceKey {
        ReduceKey::of([Some(blittable::Value::Integer(number))]).unwrap()
    }

    /// Applies a batch in which the document has a row in each of these keys.
    fn apply(
        environment: &std::sync::Arc<Environment>,
        document: &str,
        keys: &[i64],
        is_closing: bool,
    ) -> Result<Reduced, IndexError> {
        let (mut stage, mut rows) = (ReduceStage::default(), MappedRows::default());
        keys.iter().for_each(|number| rows.push(key(*number), row(1)).unwrap());
        stage.put(document, &mut rows);
        let tx = environment.write().unwrap();
        let (mut fields, mut batch) = (FieldSet::load(&tx).unwrap(), IndexBatch::new());
        let is_closing = || is_closing;
        let reducing = Reducing { reducer: &Counting, target: None, is_closing: &is_closing };
        let end_part = &mut |_| unreachable!("memory is not bounded");
        let staged = Staged { tx, fields: &mut fields, batch: &mut batch, end_part };
        let budget = storage::MemoryBudget::unlimited();
        let mut memory = BatchMemory::of(&IndexingMemory { budget, threads: 1 });
        let (mut tx, reduced) = stage.apply(&reducing, staged, &mut memory)?;
        batch.apply(&mut tx, &mut fields).unwrap();
        tx.commit().unwrap();
        Ok(reduced)
    }

    #[test]
    fn only_keys_that_a_document_touches_are_reduced() {
        let options = EnvironmentOptions::new("index");
        let environment = Environment::open(&Platform::memory(), options).unwrap();
        let counts = |document, keys| {
            let reduced = apply(&environment, document, keys, false).unwrap();
            (reduced.attempts, reduced.errors, reduced.failures.len())
        };
        assert_eq!(counts("a", &[1, 2]), (2, 0, 0));
        assert_eq!(counts("b", &[1]), (2, 0, 0));
        assert_eq!(counts("b", &[1]), (0, 0, 0), "an equal row changes nothing");
        assert_eq!(counts("c", &[1]), (3, 3, 1), "the third row is refused");
        assert_eq!(counts("c", &[]), (2, 0, 0), "and goes");
        assert_eq!(counts("d", &[]), (0, 0, 0), "a row that never existed touches nothing");
    }

    #[test]
    fn a_batch_ends_when_the_index_is_closed() {
        let options = EnvironmentOptions::new("index");
        let environment = Environment::open(&Platform::memory(), options).unwrap();
        let closed = apply(&environment, "a", &[1], true);
        assert!(matches!(closed, Err(IndexError::Closing)));
        let keys = environment.read();
        assert!(keys.tree(&keys_tree()).unwrap().is_empty(), "nothing of it is kept");
    }
}
