//! Removing tombstones that no reader needs, and recording which were removed.
//!
//! ```text
//! tree RemovedTombstones
//!   kind, collection number big-endian  -> etag of the last one that was removed, 64 bits little-endian
//! ```
//!
//! The kind is `d` for documents, `a` for attachments, `c` for counters and `t` for deleted ranges
//! of time series. Number 0 stands for all collections; attachments use only it.
//!
//! Which readers need which tombstones is known elsewhere; this module finds them, removes them by
//! a command, and records the removal in the same transaction. Invariant: a reader that has read a
//! log up to the recorded etag, or has read everything in a snapshot at least as new, finds every
//! later deletion.

use std::{collections::BTreeMap, ops::Bound};

use model::{CollectionName, Etag};
use storage::{TableSchema, Transaction, TreeName, WriteTransaction};

use crate::{
    DocumentWriter,
    attachments::ATTACHMENT_TOMBSTONES,
    collections::collection,
    counters::{self, COUNTERS},
    ensure::ensure,
    error::{DocumentError, corrupt},
    row,
    schema::DOCUMENTS,
    time_series::{self, DELETED_RANGES},
};

/// The maximum number of tombstones that one command removes.
pub const TOMBSTONES_PER_COMMAND_MAX: usize = 1024;
/// The number of tombstones that one snapshot is searched for.
const LOOKED_AT_MAX: usize = 64 * 1024;
/// Stands for all collections in the keys of the tree.
const ALL: u32 = 0;

/// The kind of data whose deletion a tombstone records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TombstoneKind {
    /// Documents, including those recreated in another collection.
    Documents,
    /// Attachments of documents.
    Attachments,
    /// Counters.
    Counters,
    /// Ranges of time series.
    TimeSeries,
}

/// The tombstones of one kind that a command is to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveTombstones {
    /// The kind of all of them.
    pub kind: TombstoneKind,
    /// Which; at most [`TOMBSTONES_PER_COMMAND_MAX`].
    pub rows: Vec<TombstoneAt>,
}

/// One tombstone; a different one under the same key is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneAt {
    key: Vec<u8>,
    etag: Etag,
}

/// The result of one search for tombstones.
#[derive(Clone, Debug, Default)]
pub struct FoundTombstones {
    /// Those that may be removed.
    pub rows: Vec<TombstoneAt>,
    /// Where to continue; `None` when there are no more.
    pub next: Option<Vec<u8>>,
}

/// How a table stores tombstones of a kind.
struct Place {
    schema: &'static TableSchema,
    /// All keys of tombstones are at or after this one, and no others.
    first: &'static [u8],
    collection_of: fn(&[u8]) -> u32,
}

impl TombstoneKind {
    /// Every kind of tombstone, once.
    pub const ALL: [Self; 4] =
        [Self::Documents, Self::Attachments, Self::Counters, Self::TimeSeries];

    fn place(self) -> Place {
        match self {
            Self::Documents => Place {
                schema: &DOCUMENTS,
                first: row::FIRST_TOMBSTONE_KEY,
                collection_of: row::collection_number_of,
            },
            Self::Attachments => {
                Place { schema: &ATTACHMENT_TOMBSTONES, first: b"", collection_of: |_| ALL }
            }
            Self::Counters => Place {
                schema: &COUNTERS,
                first: counters::FIRST_TOMBSTONE_KEY,
                collection_of: counters::collection_number_of,
            },
            Self::TimeSeries => Place {
                schema: &DELETED_RANGES,
                first: b"",
                collection_of: time_series::collection_number_of_deleted,
            },
        }
    }

    fn key(self, collection_number: u32) -> [u8; 5] {
        let kind = match self {
            Self::Documents => b'd',
            Self::Attachments => b'a',
            Self::Counters => b'c',
            Self::TimeSeries => b't',
        };
        let [a, b, c, d] = collection_number.to_be_bytes();
        [kind, a, b, c, d]
    }
}

impl Place {
    fn etag_of(&self, row: &[u8]) -> Etag {
        // The log of all rows is the first index of each of these tables.
        self.schema.fixed.first().map_or(Etag::ZERO, |log| Etag((log.key)(row)))
    }
}

impl RemoveTombstones {
    /// Approximate bytes that the command adds to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// Index entries that are removed with a row.
        const ROW_BYTES: usize = 64;
        self.rows.iter().map(|row| ROW_BYTES + row.key.len()).sum()
    }
}

fn removed() -> TreeName {
    TreeName::from("RemovedTombstones")
}

/// The etag of the last tombstone of a kind that was removed, in a collection or anywhere; zero
/// when none was. A reader that has read the log up to there finds every later deletion.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn last_removed_tombstone(
    tx: &impl Transaction,
    kind: TombstoneKind,
    name: Option<&CollectionName>,
) -> Result<Etag, DocumentError> {
    let number = match name {
        None => ALL,
        Some(name) => match collection(tx, name)? {
            Some(found) => found.number,
            None => return Ok(Etag::ZERO),
        },
    };
    read_removed(tx, kind, number)
}

fn read_removed(
    tx: &impl Transaction,
    kind: TombstoneKind,
    number: u32,
) -> Result<Etag, DocumentError> {
    let Some(bytes) = tx.tree(&removed())?.get(&kind.key(number))? else { return Ok(Etag::ZERO) };
    let bytes = bytes.try_into();
    let bytes = bytes.map_err(|_| corrupt("what is known of removed tombstones is damaged"))?;
    Ok(Etag(u64::from_le_bytes(bytes)))
}

/// Records that tombstones up to an etag were removed, in a collection and so overall.
fn note_removed(
    tx: &mut WriteTransaction,
    kind: TombstoneKind,
    number: u32,
    etag: Etag,
) -> Result<(), DocumentError> {
    for number in [number, ALL] {
        if read_removed(tx, kind, number)? < etag {
            tx.tree_mut(&removed())?.put(&kind.key(number), &etag.0.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Records that any tombstone of a collection up to an etag may be missing: the database was
/// salvaged.
pub(crate) fn note_all_removed(
    tx: &mut WriteTransaction,
    number: u32,
    etag: Etag,
) -> Result<(), DocumentError> {
    TombstoneKind::ALL.into_iter().try_for_each(|kind| note_removed(tx, kind, number, etag))
}

/// Checks that recorded etags are in the past.
pub(crate) fn check_removed(tx: &impl Transaction, last_etag: Etag) -> Result<(), DocumentError> {
    for kind in TombstoneKind::ALL {
        let mut newest = Etag::ZERO;
        for entry in tx.tree(&removed())?.range(Bound::Excluded(&kind.key(ALL)))? {
            let (key, _) = entry?;
            let Some(number) = key.strip_prefix(&kind.key(ALL)[..1]) else { break };
            let number = number.try_into().map(u32::from_be_bytes);
            let number = number.map_err(|_| corrupt("a key of removed tombstones is damaged"))?;
            newest = newest.max(read_removed(tx, kind, number)?);
        }
        let of_all = read_removed(tx, kind, ALL)?;
        ensure(
            newest <= of_all,
            "a collection knows of later removed tombstones than the database",
        )?;
        ensure(of_all <= last_etag, "a removed tombstone is newer than the last etag")?;
    }
    Ok(())
}

/// Finds tombstones, starting at a key, whose etags are at most the limit of their collection: as
/// many as one command removes.
///
/// # Errors
/// Storage errors.
pub fn removable_tombstones(
    tx: &impl Transaction,
    kind: TombstoneKind,
    from: Option<&[u8]>,
    limit_of: impl Fn(u32) -> Etag,
) -> Result<FoundTombstones, DocumentError> {
    let place = kind.place();
    let mut found = FoundTombstones::default();
    let rows = tx.table(place.schema).range(Bound::Included(from.unwrap_or(place.first)))?;
    for (looked_at, entry) in rows.enumerate() {
        let (key, row) = entry?;
        if found.rows.len() == TOMBSTONES_PER_COMMAND_MAX || looked_at == LOOKED_AT_MAX {
            found.next = Some(key);
            break;
        }
        let etag = place.etag_of(row);
        if etag <= limit_of((place.collection_of)(row)) {
            found.rows.push(TombstoneAt { key, etag });
        }
    }
    Ok(found)
}

/// The collections and etags of tombstones of a kind, as many as one search reads.
///
/// # Errors
/// Storage errors.
pub fn tombstone_positions(
    tx: &impl Transaction,
    kind: TombstoneKind,
) -> Result<Vec<(u32, Etag)>, DocumentError> {
    let place = kind.place();
    let rows = tx.table(place.schema).range(Bound::Included(place.first))?.take(LOOKED_AT_MAX);
    rows.map(|entry| {
        let (_, row) = entry?;
        Ok(((place.collection_of)(row), place.etag_of(row)))
    })
    .collect()
}

impl DocumentWriter<'_> {
    /// Removes tombstones and records the removal. Those already removed or replaced are skipped.
    /// Takes no etag: nothing changes for readers. Returns how many were removed.
    ///
    /// # Errors
    /// Storage errors; damaged records.
    pub fn remove_tombstones(&mut self, request: &RemoveTombstones) -> Result<u64, DocumentError> {
        let (kind, place) = (request.kind, request.kind.place());
        let mut last: BTreeMap<u32, (Etag, u64)> = BTreeMap::new();
        for TombstoneAt { key, etag } in &request.rows {
            if key.as_slice() < place.first {
                return Err(corrupt("something that is no tombstone was to be removed as one"));
            }
            let Some((_, found)) = self.tx.table(place.schema).get(key)? else { continue };
            if place.etag_of(found) != *etag {
                continue;
            }
            let number = (place.collection_of)(found);
            self.tx.table_mut(place.schema).delete(key)?;
            let (newest, count) = last.entry(number).or_default();
            (*newest, *count) = ((*newest).max(*etag), *count + 1);
        }
        for (number, (etag, count)) in &last {
            note_removed(self.tx, kind, *number, *etag)?;
            if kind == TombstoneKind::Documents {
                self.forget_tombstones(*number, *count)?;
            }
        }
        Ok(last.values().map(|(_, count)| count).sum())
    }
}
