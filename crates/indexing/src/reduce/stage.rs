//! A batch of a map-reduce index: rows are gathered by document while the log is read, and become
//! results and entries of their keys in the transaction of the batch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use search::{FieldSet, IndexBatch, SearchError};
use storage::{StorageError, Transaction, WriteTransaction};

use super::{
    MappedRow, MappedRows, Reducing,
    format::{Given, KeyRows, KeyState, RowPlace, documents_tree, keys_tree, row_key, rows_tree},
    key::ReduceKey,
    key_tree::{Counts, FANOUT, KeyResult, KeyTree, document_of, reduce_inline},
};
use crate::{
    batch_memory::BatchMemory,
    entry_writer::{Entries, EntryWriter},
    error::IndexError,
    mapper::MapError,
    output::{OutputTarget, note_owed},
};

/// What a touched key takes beside its rows, about.
const KEY_OVERHEAD_BYTES: usize = 256;
/// What a row takes beside its bytes while its key is at work, about.
const ROW_OVERHEAD_BYTES: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct ReduceStage {
    /// The newest rows of each document, in the order in which it was first met.
    documents: Vec<GatheredDocument>,
    by_id: HashMap<String, usize>,
    bytes: usize,
}

struct GatheredDocument {
    id: String,
    rows: Vec<MappedRow>,
}

/// Where a batch goes.
pub(crate) struct Staged<'a> {
    pub(crate) tx: &'a mut WriteTransaction,
    pub(crate) fields: &'a mut FieldSet,
    /// The entries of results; applied on the way when they grow large.
    pub(crate) batch: &'a mut IndexBatch,
}

/// What a batch came to.
#[derive(Default)]
pub(crate) struct Reduced {
    /// Rows that were reduced.
    pub(crate) attempts: u64,
    /// Those for which the reduce failed.
    pub(crate) errors: u64,
    /// The keys whose reduce failed, and why.
    pub(crate) failures: Vec<(String, String)>,
    /// Whether documents are owed for any key.
    pub(crate) owes_output: bool,
}

impl ReduceStage {
    pub(crate) fn clear(&mut self) {
        self.documents.clear();
        self.by_id.clear();
        self.bytes = 0;
    }

    /// Bytes of memory that the gathered rows take, nearly.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// These are the rows of the document from now on; none when it is gone.
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

    /// Writes what was gathered, reduces the keys that it touches, and puts their entries into the batch.
    ///
    /// # Errors
    ///
    /// [`StorageError::NoMemory`] among others: the rows of all keys that are touched are in memory at
    /// once, and counted.
    pub(crate) fn apply(
        &mut self,
        reducing: &Reducing<'_>,
        staged: Staged<'_>,
        memory: &mut BatchMemory,
    ) -> Result<Reduced, IndexError> {
        let Staged { tx, fields, batch } = staged;
        let mut touched = TouchedKeys::default();
        let mut places = BTreeMap::new();
        let gathered = self.bytes;
        for document in self.documents.drain(..) {
            let before = match tx.tree(&documents_tree())?.get(document.id.as_bytes())? {
                Some(bytes) => RowPlace::read_all(bytes)?,
                None => Vec::new(),
            };
            if before.is_empty() && document.rows.is_empty() {
                continue;
            }
            let now = touched.replace(tx, &before, document.rows)?;
            memory.hold(gathered + touched.bytes).map_err(StorageError::from)?;
            if now != before {
                places.insert(document.id, now);
            }
        }
        self.clear();
        write_places(tx, &places)?;
        touched.write(tx)?;
        let entries_bytes_max = memory.gathered_bytes_max();
        let reduced = Reduced::default();
        let mut output = Output { reducing, fields, batch, entries_bytes_max, reduced };
        for key in touched.keys.into_iter().filter(|touched| touched.is_changed) {
            output.reduce_key(tx, key)?;
        }
        Ok(output.reduced)
    }
}

fn write_places(
    tx: &mut WriteTransaction,
    places: &BTreeMap<String, Vec<RowPlace>>,
) -> Result<(), StorageError> {
    let mut tree = tx.tree_mut(&documents_tree())?;
    for (id, places) in places {
        match places.as_slice() {
            [] => tree.delete(id.as_bytes())?,
            places => tree.put(id.as_bytes(), &RowPlace::write_all(places))?,
        };
    }
    Ok(())
}

/// The keys that a batch touches.
#[derive(Default)]
struct TouchedKeys {
    /// In the order in which they were first touched.
    keys: Vec<TouchedKey>,
    places: HashMap<ReduceKey, usize>,
    /// Of memory, nearly, without the rows that came.
    bytes: usize,
}

struct TouchedKey {
    key: ReduceKey,
    state: KeyState,
    /// Whether any row came, changed or went.
    is_changed: bool,
    /// Nodes of level 0 that are to be computed again.
    changed: BTreeSet<u64>,
    /// Rows of a spread key to put, or to delete.
    rows: BTreeMap<u64, Option<Vec<u8>>>,
}

impl TouchedKeys {
    /// Replaces the rows of a document; gives the places of the new ones. A row takes the place of an
    /// old one of the same key, so that a document that changes moves nothing, and nothing happens to a
    /// key whose rows stay the same.
    fn replace(
        &mut self,
        tx: &WriteTransaction,
        before: &[RowPlace],
        rows: Vec<MappedRow>,
    ) -> Result<Vec<RowPlace>, IndexError> {
        let mut old: HashMap<ReduceKey, Vec<u64>> = HashMap::new();
        for place in before.iter().rev() {
            old.entry(place.key).or_default().push(place.number);
        }
        let mut now = Vec::with_capacity(rows.len());
        for MappedRow { key, row } in rows {
            let number = old.get_mut(&key).and_then(Vec::pop);
            self.bytes += ROW_OVERHEAD_BYTES;
            let touched = self.key(tx, key)?;
            let number = match number {
                Some(number) if touched.holds(tx, number, &row)? => number,
                Some(number) => touched.put(number, row),
                None => touched.add(row),
            };
            now.push(RowPlace { key, number });
        }
        // In the order of the old rows, so that the same batch does the same thing.
        for place in before {
            if old.get(&place.key).is_some_and(|numbers| numbers.contains(&place.number)) {
                self.key(tx, place.key)?.delete(place.number);
            }
        }
        Ok(now)
    }

    fn key(
        &mut self,
        tx: &WriteTransaction,
        key: ReduceKey,
    ) -> Result<&mut TouchedKey, IndexError> {
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                let stored = tx.tree(&keys_tree())?.get(key.bytes())?;
                self.bytes += KEY_OVERHEAD_BYTES + stored.map_or(0, |bytes| 2 * bytes.len());
                let state = match stored {
                    Some(bytes) => KeyState::read(bytes)?,
                    None => KeyState::default(),
                };
                let (is_changed, changed, rows) = Default::default();
                self.keys.push(TouchedKey { key, state, is_changed, changed, rows });
                self.places.insert(key, self.keys.len() - 1);
                self.keys.len() - 1
            }
        };
        Ok(&mut self.keys[at])
    }

    /// Writes rows and states, in the order of keys.
    fn write(&mut self, tx: &mut WriteTransaction) -> Result<(), IndexError> {
        let changed = self.keys.iter_mut().filter(|touched| touched.is_changed);
        let mut order: Vec<&mut TouchedKey> = changed.collect();
        order.sort_unstable_by_key(|touched| touched.key);
        let mut tree = tx.tree_mut(&rows_tree())?;
        for touched in &mut order {
            for (number, row) in std::mem::take(&mut touched.rows) {
                let place = row_key(&touched.key, number);
                match row {
                    Some(row) => tree.put(&place, &row)?,
                    None => tree.delete(&place)?,
                };
            }
        }
        let mut tree = tx.tree_mut(&keys_tree())?;
        for touched in &order {
            match touched.state.count {
                0 => tree.delete(touched.key.bytes())?,
                _ => tree.put(touched.key.bytes(), &touched.state.write())?,
            };
        }
        Ok(())
    }
}

impl TouchedKey {
    fn add(&mut self, row: Vec<u8>) -> u64 {
        let number = self.state.next;
        self.state.next += 1;
        self.state.count += 1;
        self.put(number, row)
    }

    /// Whether this is the row of that number already.
    fn holds(&self, tx: &WriteTransaction, number: u64, row: &[u8]) -> Result<bool, StorageError> {
        if let Some(pending) = self.rows.get(&number) {
            return Ok(pending.as_deref() == Some(row));
        }
        Ok(match &self.state.rows {
            KeyRows::Inline(rows) => rows.get(&number).is_some_and(|own| own == row),
            KeyRows::Spread => {
                tx.tree(&rows_tree())?.get(&row_key(&self.key, number))? == Some(row)
            }
        })
    }

    fn put(&mut self, number: u64, row: Vec<u8>) -> u64 {
        self.is_changed = true;
        match &mut self.state.rows {
            KeyRows::Inline(rows) => {
                rows.insert(number, row);
                if self.state.rows.is_too_long() {
                    self.spread();
                }
            }
            KeyRows::Spread => {
                self.rows.insert(number, Some(row));
                self.changed.insert(number / FANOUT);
            }
        }
        number
    }

    fn delete(&mut self, number: u64) {
        self.is_changed = true;
        self.state.count = self.state.count.saturating_sub(1);
        match &mut self.state.rows {
            KeyRows::Inline(rows) => drop(rows.remove(&number)),
            KeyRows::Spread => {
                self.rows.insert(number, None);
                self.changed.insert(number / FANOUT);
            }
        }
    }

    /// Gives rows that were inline a tree of their own.
    fn spread(&mut self) {
        let KeyRows::Inline(rows) = std::mem::replace(&mut self.state.rows, KeyRows::Spread) else {
            return;
        };
        for (number, row) in rows {
            self.rows.insert(number, Some(row));
            self.changed.insert(number / FANOUT);
        }
    }
}

/// Where results go.
struct Output<'a> {
    reducing: &'a Reducing<'a>,
    fields: &'a mut FieldSet,
    batch: &'a mut IndexBatch,
    /// Entries of results are written when they take that much memory.
    entries_bytes_max: usize,
    reduced: Reduced,
}

impl Output<'_> {
    fn reduce_key(
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
                Given::Results(results) if is_shown => results.as_slice(),
                Given::Results(_) | Given::Failed => &[],
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
            self.batch.apply(tx, self.fields)?;
            self.batch.clear();
        }
        Ok(())
    }

    /// Notes which documents the results of a key should have.
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
        self.reduced.owes_output = true;
        note_owed(tx, key, &wanted)
    }

    /// `false` when the results cannot be entries, and there are none.
    fn put_entries(
        &mut self,
        key: ReduceKey,
        result: &KeyResult,
        counts: &mut Counts,
    ) -> Result<bool, IndexError> {
        let results = match result {
            Given::Failed => {
                self.batch.delete(&key.name())?;
                return Ok(false);
            }
            Given::Results(results) => results,
        };
        let mut entries = Entries::default();
        let mut writer = EntryWriter::new(self.fields, &mut entries);
        let written = results.iter().try_for_each(|result| {
            let result = document_of(result)?;
            writer.begin_entry();
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

    /// Names a key for people.
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

#[cfg(test)]
mod tests {
    use blittable::{BlittableBuf, Document, ObjectBuilder};
    use platform::Platform;
    use storage::{Environment, EnvironmentOptions};

    use crate::beside::Beside;

    use super::*;
    use crate::{batch_memory::IndexingMemory, reduce::Reducer, source::SourceItem};

    /// Counts rows; refuses to count to three.
    struct Counting;

    impl Reducer for Counting {
        fn map_rows<'a>(
            &'a self,
            _: &'a SourceItem<'_>,
            _: Beside<'a>,
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
        keys.iter().for_each(|number| rows.push(key(*number), row(1)));
        stage.put(document, &mut rows);
        let mut tx = environment.write().unwrap();
        let (mut fields, mut batch) = (FieldSet::load(&tx).unwrap(), IndexBatch::new());
        let is_closing = || is_closing;
        let reducing = Reducing { reducer: &Counting, target: None, is_closing: &is_closing };
        let staged = Staged { tx: &mut tx, fields: &mut fields, batch: &mut batch };
        let budget = storage::MemoryBudget::unlimited();
        let mut memory = BatchMemory::of(&IndexingMemory { budget, threads: 1 });
        let reduced = stage.apply(&reducing, staged, &mut memory)?;
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
        assert_eq!(counts("d", &[]), (0, 0, 0), "what was never there touches nothing");
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
