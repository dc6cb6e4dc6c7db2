//! Counters of a damaged database: of all rows of a counter that are found, the newest counts.
//!
//! A counter survives when its row and its document do. As with documents, one whose deletion was lost
//! comes back, and one whose last change was lost says what it said before.

use std::collections::BTreeMap;

use model::{ChangeVector, Etag};
use storage::{BulkWriter, RowId, Salvage};

use super::{
    read::{count_owners, write_counts},
    row,
    tables::COUNTERS,
};
use crate::error::DocumentError;

struct NewestRow {
    etag: u64,
    place: RowId,
    is_counter: bool,
}

/// What the scan of a damaged database found of its counters.
#[derive(Default)]
pub(crate) struct GatheredCounters {
    /// By primary key without its kind: the newer of a counter and its tombstone counts.
    rows: BTreeMap<Box<[u8]>, NewestRow>,
}

/// What of them was rebuilt.
#[derive(Default)]
pub(crate) struct SalvagedCounters {
    pub(crate) counters: u64,
    /// Primary keys of those of which nothing is left, or no document.
    pub(crate) lost: Vec<Box<[u8]>>,
    /// Primary keys of those that most likely say what they said before.
    pub(crate) older: Vec<Box<[u8]>>,
    /// Pages of keys that could not be read.
    pub(crate) unreadable_key_pages: u64,
    pub(crate) last_etag: Etag,
    pub(crate) change_vector: ChangeVector,
}

impl GatheredCounters {
    /// Takes a row that was found; `false` when it is none of a counter.
    pub(crate) fn add(&mut self, place: RowId, bytes: &[u8]) -> bool {
        if !row::is_row(bytes) {
            return false;
        }
        let is_counter = row::read(bytes).is_ok();
        if !is_counter && row::read_tombstone(bytes).is_err() {
            return true;
        }
        let (key, etag) = (&row::primary_key_of(bytes)[1..], row::etag_of(bytes));
        match self.rows.get_mut(key) {
            Some(known) if etag <= known.etag => {}
            Some(known) => *known = NewestRow { etag, place, is_counter },
            None => {
                self.rows.insert(key.into(), NewestRow { etag, place, is_counter });
            }
        }
        true
    }

    /// Copies what has a document among those that were found, in the collection that the document is
    /// in: `collection_of` tells it by the lower-cased id.
    pub(crate) fn rebuild(
        &self,
        salvage: &Salvage,
        writer: &mut BulkWriter<'_>,
        collection_of: &dyn Fn(&[u8]) -> Option<u32>,
    ) -> Result<SalvagedCounters, DocumentError> {
        let mut salvaged = SalvagedCounters::default();
        salvaged.unreadable_key_pages = salvage.table_keys(&COUNTERS, &mut |key, is_readable| {
            if is_readable || key.is_empty() {
                return;
            }
            match self.rows.get(&key[1..]).map(|row| row.is_counter) {
                Some(true) => salvaged.older.push(key.into()),
                None if row::is_counter_key(key) => salvaged.lost.push(key.into()),
                Some(false) | None => {}
            }
        });
        for newest in self.rows.values() {
            // It was read before; the disk may have got worse since.
            let Some(bytes) = salvage.row(newest.place) else { continue };
            let key = row::primary_key_of(&bytes);
            let (owner, _) = row::parts_of_key(key);
            let collection = collection_of(owner);
            if newest.is_counter && collection != Some(row::collection_number_of(&bytes)) {
                salvaged.lost.push(key.into());
                continue;
            }
            salvaged.note_version(&bytes);
            writer.transaction()?.table_mut(&COUNTERS).insert(&bytes)?;
            salvaged.counters += u64::from(newest.is_counter);
        }
        let owners = count_owners(writer.transaction()?)?;
        write_counts(writer.transaction()?, salvaged.counters, owners)?;
        Ok(salvaged)
    }
}

impl SalvagedCounters {
    fn note_version(&mut self, bytes: &[u8]) {
        self.last_etag = self.last_etag.max(Etag(row::etag_of(bytes)));
        let version = row::read_tombstone(bytes).ok().map(|row| row.change_vector());
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.change_vector = self.change_vector.merge(&version);
        }
    }
}
