//! Counters of a damaged database: of all rows found for a counter, the newest is used.
//!
//! A counter survives when its row and its document do. As with documents, one whose deletion was
//! lost reappears, and one whose last change was lost has its previous value.

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
    /// By primary key without its kind: the newer of a counter and its tombstone wins.
    rows: BTreeMap<Box<[u8]>, NewestRow>,
}

/// The counters that were rebuilt.
#[derive(Default)]
pub(crate) struct SalvagedCounters {
    pub(crate) counters: u64,
    /// Primary keys of counters of which nothing is left, or no document.
    pub(crate) lost: Vec<Box<[u8]>>,
    /// Primary keys of counters that most likely have an older value.
    pub(crate) older: Vec<Box<[u8]>>,
    /// Pages of keys that could not be read.
    pub(crate) unreadable_key_pages: u64,
    pub(crate) last_etag: Etag,
    pub(crate) change_vector: ChangeVector,
}

impl GatheredCounters {
    /// Adds a row found by the scan; `false` when it is not a counter's.
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

    /// Copies counters whose document was found, into that document's collection: `collection_of`
    /// returns it by lower-cased id.
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
            // It was readable before; the disk may have deteriorated since.
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
