//! What an index stores about itself in its own environment, next to its entries.
//!
//! ```text
//! tree `Index`
//!   Definition   whose files they are, see `index_files`
//!   LastQuery    when it was last asked, ticks; there when somebody wrote it down
//!   Replacement  empty; there while the index is to take the place of another
//!   BeganAt      the last etag of the database when the index began, u64; missing is 0
//!   Number       that of the index in the record of the database, u64; missing is 0
//!   Documents    what the entries were made of, see `ownership`
//!   Values       the same of compare exchange
//!   Begun        there while the first batch of a process is under way, see `begun_batch`
//!   Record       below
//! tree `Index/Errors`: number, upwards, u64 big-endian → an error, below
//!
//! record                                   error
//! offset bytes what                        offset bytes what
//!      0     1 version, 3                       0     8 when, ticks
//!      1     1 state: 0 normal, 1 error         8     1 action: 0 map, 1 write, 2 reduce
//!      2     8 last etag that is indexed        9     2 length of what it is about
//!     10     8 documents mapped                11     - document's id or reduce key, UTF-8, then the
//!                                                      message to the end
//!     18     8 documents that failed
//!     26     8 most entries of one document
//!     34     8 when it was created, ticks
//!     42     8 when it last indexed, ticks
//!     50     8 rows reduced
//!     58     8 rows whose reduce failed
//!     66     8 last change of compare
//!              exchange that is indexed
//! ```
//!
//! A record of version 1 ends before the rows, one of version 2 before compare exchange.
//!
//! Integers are little-endian. Record, errors and entries change in one transaction, so what is said
//! here is true of the entries after any crash.

use std::ops::Bound;

use model::Etag;
use storage::{StorageError, Transaction, TreeName, WriteTransaction};

use crate::{error::IndexError, position::Position};

const INDEX: &[u8] = b"Index";
const ERRORS: &[u8] = b"Index/Errors";
const DEFINITION: &[u8] = b"Definition";
const RECORD: &[u8] = b"Record";
const LAST_QUERY: &[u8] = b"LastQuery";
const REPLACEMENT: &[u8] = b"Replacement";
const BEGAN_AT: &[u8] = b"BeganAt";
const NUMBER: &[u8] = b"Number";
const VERSION: u8 = 3;
const RECORD_BYTES: usize = 74;
/// The version without compare exchange.
const VERSION_WITHOUT_VALUES: u8 = 2;
const BYTES_WITHOUT_VALUES: usize = 66;
/// The version without rows.
const VERSION_WITHOUT_ROWS: u8 = 1;
const BYTES_WITHOUT_ROWS: usize = 50;
const ERROR_HEADER_BYTES: usize = 11;

/// The maximum number of stored errors; the oldest are replaced.
pub const ERRORS_MAX: u64 = 500;
/// Longer messages are truncated.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The progress of an index, and its statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexRecord {
    /// Whether it stopped because too many documents failed.
    pub has_failed: bool,
    /// Every change up to this etag is in the entries.
    pub last_etag: u64,
    /// The number of mapped documents, including those that failed.
    pub map_attempts: u64,
    /// How many of them failed.
    pub map_errors: u64,
    /// The maximum number of entries of one document.
    pub outputs_max: u64,
    /// When the index was created, in ticks.
    pub created_ticks: i64,
    /// When it last indexed something, in ticks; 0 is never.
    pub last_indexing_ticks: i64,
    /// The number of reduced rows, including those that failed.
    pub reduce_attempts: u64,
    /// How many of them failed.
    pub reduce_errors: u64,
    /// Every change of compare exchange up to this index is in the entries, if it reads any.
    pub last_value: u64,
}

/// The step of indexing that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingAction {
    /// A document could not be mapped.
    Map,
    /// Entries could not be written.
    Write,
    /// The reduce failed on rows of a key.
    Reduce,
}

/// An error of indexing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexingError {
    /// The time, in ticks.
    pub ticks: i64,
    /// The step that failed.
    pub action: IndexingAction,
    /// The id of the document, or the text of the reduce key; empty when it concerns neither.
    pub document: String,
    /// The text of the error.
    pub message: String,
}

pub(crate) fn index_tree() -> TreeName {
    TreeName::of(&[INDEX])
}

fn errors_tree() -> TreeName {
    TreeName::of(&[ERRORS])
}

/// The definition that the files belong to; `None` in a new environment.
pub(crate) fn read_definition(tx: &impl Transaction) -> Result<Option<Vec<u8>>, StorageError> {
    Ok(tx.tree(&index_tree())?.get(DEFINITION)?.map(<[u8]>::to_vec))
}

/// Records the definition that the files belong to.
pub(crate) fn write_definition(tx: &mut WriteTransaction, json: &[u8]) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.put(DEFINITION, json).map(drop)
}

/// Whether the index is to replace another.
pub(crate) fn read_is_replacement(tx: &impl Transaction) -> Result<bool, StorageError> {
    Ok(tx.tree(&index_tree())?.get(REPLACEMENT)?.is_some())
}

/// Records whether the index is to replace another.
pub(crate) fn write_is_replacement(
    tx: &mut WriteTransaction,
    is_replacement: bool,
) -> Result<(), StorageError> {
    let mut tree = tx.tree_mut(&index_tree())?;
    match is_replacement {
        true => tree.put(REPLACEMENT, &[]).map(drop),
        false => tree.delete(REPLACEMENT).map(drop),
    }
}

/// When the index was last queried, in ticks; 0 when not recorded.
pub(crate) fn read_last_query(tx: &impl Transaction) -> Result<i64, IndexError> {
    let Some(bytes) = tx.tree(&index_tree())?.get(LAST_QUERY)? else { return Ok(0) };
    let bytes = bytes.try_into();
    bytes
        .map(i64::from_le_bytes)
        .map_err(|_| IndexError::corrupt("the time of the last query has an unknown format"))
}

/// Records when the index was last queried.
pub(crate) fn write_last_query(tx: &mut WriteTransaction, ticks: i64) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.put(LAST_QUERY, &ticks.to_le_bytes()).map(drop)
}

/// The last etag of the database when the index was created; 0 when not recorded.
pub(crate) fn read_began_at(tx: &impl Transaction) -> Result<Etag, IndexError> {
    let Some(bytes) = tx.tree(&index_tree())?.get(BEGAN_AT)? else { return Ok(Etag::ZERO) };
    let bytes = bytes.try_into();
    let bytes = bytes
        .map_err(|_| IndexError::corrupt("the position at which the index began is not an etag"))?;
    Ok(Etag(u64::from_le_bytes(bytes)))
}

/// Records where the index begins.
pub(crate) fn write_began_at(tx: &mut WriteTransaction, etag: Etag) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.put(BEGAN_AT, &etag.0.to_le_bytes()).map(drop)
}

/// The number of the index in the record of the database; 0 when not recorded.
pub(crate) fn read_number(tx: &impl Transaction) -> Result<u64, IndexError> {
    let Some(bytes) = tx.tree(&index_tree())?.get(NUMBER)? else { return Ok(0) };
    let bytes = bytes.try_into();
    bytes
        .map(u64::from_le_bytes)
        .map_err(|_| IndexError::corrupt("the number of the index has an unknown format"))
}

/// Records the number of the index.
pub(crate) fn write_number(tx: &mut WriteTransaction, number: u64) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.put(NUMBER, &number.to_le_bytes()).map(drop)
}

/// The stored record; that of a new index is empty.
pub(crate) fn read_record(tx: &impl Transaction) -> Result<IndexRecord, IndexError> {
    match tx.tree(&index_tree())?.get(RECORD)? {
        None => Ok(IndexRecord::default()),
        Some(bytes) => IndexRecord::read(bytes)
            .ok_or_else(|| IndexError::corrupt("the index's record has an unknown format")),
    }
}

/// Says how far the index is.
pub(crate) fn write_record(
    tx: &mut WriteTransaction,
    record: &IndexRecord,
) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.put(RECORD, &record.write()).map(drop)
}

impl IndexRecord {
    /// Whether every change up to the position is in the entries.
    pub fn has_reached(&self, position: Position) -> bool {
        self.position().covers(position)
    }

    /// The position up to which every change is in the entries.
    pub(crate) fn position(&self) -> Position {
        Position { etag: Etag(self.last_etag), value: self.last_value }
    }

    fn write(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.has_failed.into();
        let numbers = [
            self.last_etag,
            self.map_attempts,
            self.map_errors,
            self.outputs_max,
            self.created_ticks.cast_unsigned(),
            self.last_indexing_ticks.cast_unsigned(),
            self.reduce_attempts,
            self.reduce_errors,
            self.last_value,
        ];
        for (place, number) in bytes[2..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let known = [
            (VERSION, RECORD_BYTES),
            (VERSION_WITHOUT_VALUES, BYTES_WITHOUT_VALUES),
            (VERSION_WITHOUT_ROWS, BYTES_WITHOUT_ROWS),
        ];
        if !known.contains(&(*bytes.first()?, bytes.len())) || 1 < bytes[1] {
            return None;
        }
        let mut whole = [0; RECORD_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        let bytes = whole;
        let number = |at: usize| {
            let at = 2 + at * 8;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
        };
        Some(Self {
            has_failed: bytes[1] == 1,
            last_etag: number(0),
            map_attempts: number(1),
            map_errors: number(2),
            outputs_max: number(3),
            created_ticks: number(4).cast_signed(),
            last_indexing_ticks: number(5).cast_signed(),
            reduce_attempts: number(6),
            reduce_errors: number(7),
            last_value: number(8),
        })
    }
}

impl IndexingError {
    fn write(&self) -> Vec<u8> {
        let id_bytes = u16::try_from(self.document.len()).expect("an id has at most 512 bytes");
        let message = &self.message[..self.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        let mut bytes =
            Vec::with_capacity(ERROR_HEADER_BYTES + self.document.len() + message.len());
        bytes.extend_from_slice(&self.ticks.to_le_bytes());
        bytes.push(match self.action {
            IndexingAction::Map => 0,
            IndexingAction::Write => 1,
            IndexingAction::Reduce => 2,
        });
        bytes.extend_from_slice(&id_bytes.to_le_bytes());
        bytes.extend_from_slice(self.document.as_bytes());
        bytes.extend_from_slice(message.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (header, texts) = bytes.split_first_chunk::<ERROR_HEADER_BYTES>()?;
        let action = match header[8] {
            0 => IndexingAction::Map,
            1 => IndexingAction::Write,
            2 => IndexingAction::Reduce,
            _ => return None,
        };
        let id_bytes = usize::from(u16::from_le_bytes([header[9], header[10]]));
        let (document, message) = texts.split_at_checked(id_bytes)?;
        Some(Self {
            ticks: i64::from_le_bytes(header[..8].try_into().expect("eight bytes")),
            action,
            document: String::from_utf8(document.to_vec()).ok()?,
            message: String::from_utf8(message.to_vec()).ok()?,
        })
    }
}

/// The stored errors, oldest first.
pub(crate) fn errors(tx: &impl Transaction) -> Result<Vec<IndexingError>, IndexError> {
    let tree = tx.tree(&errors_tree())?;
    let entries = tree.range(Bound::Unbounded)?;
    entries
        .map(|entry| {
            IndexingError::read(entry?.1)
                .ok_or_else(|| IndexError::corrupt("an indexing error has an unknown format"))
        })
        .collect()
}

/// The number of stored errors.
pub(crate) fn error_count(tx: &impl Transaction) -> Result<u64, StorageError> {
    Ok(tx.tree(&errors_tree())?.len())
}

/// Stores an error; the oldest is removed when there are too many.
pub(crate) fn add_error(
    tx: &mut WriteTransaction,
    error: &IndexingError,
) -> Result<(), IndexError> {
    let (count, first, last) = {
        let tree = tx.tree(&errors_tree())?;
        let first = tree.range(Bound::Unbounded)?.next().transpose()?;
        let last = tree.range_back(Bound::Unbounded)?.next().transpose()?;
        (tree.len(), first.map(|entry| number_of(&entry.0)), last.map(|entry| number_of(&entry.0)))
    };
    let mut tree = tx.tree_mut(&errors_tree())?;
    if let Some(first) = first.transpose()?.filter(|_| ERRORS_MAX <= count) {
        tree.delete(&first.to_be_bytes())?;
    }
    let number = last.transpose()?.map_or(0, |last| last + 1);
    tree.put(&number.to_be_bytes(), &error.write())?;
    Ok(())
}

fn number_of(key: &[u8]) -> Result<u64, IndexError> {
    let bytes = key.try_into();
    bytes
        .map(u64::from_be_bytes)
        .map_err(|_| IndexError::corrupt("an indexing error has no number"))
}

/// Deletes all errors.
pub(crate) fn clear_errors(tx: &mut WriteTransaction) -> Result<(), StorageError> {
    tx.drop_tree(&errors_tree())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::Platform;
    use storage::{Environment, EnvironmentOptions};

    use super::*;

    fn environment() -> Arc<Environment> {
        Environment::open(&Platform::memory(), EnvironmentOptions::new("index")).unwrap()
    }

    fn error(number: usize) -> IndexingError {
        IndexingError {
            ticks: 7,
            action: IndexingAction::Map,
            document: format!("users/{number}"),
            message: "Attempted to divide by zero.".to_owned(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let environment = environment();
        assert_eq!(read_record(&environment.read()).unwrap(), IndexRecord::default());
        let record = IndexRecord {
            has_failed: true,
            last_etag: 1,
            map_attempts: 2,
            map_errors: 3,
            outputs_max: 4,
            created_ticks: 5,
            last_indexing_ticks: 6,
            reduce_attempts: 7,
            reduce_errors: 8,
            last_value: 9,
        };
        let mut tx = environment.write().unwrap();
        write_record(&mut tx, &record).unwrap();
        write_definition(&mut tx, b"{}").unwrap();
        tx.commit().unwrap();
        assert_eq!(read_record(&environment.read()).unwrap(), record);
        assert_eq!(read_definition(&environment.read()).unwrap().unwrap(), b"{}");
        assert_eq!(IndexRecord::read(&[0; RECORD_BYTES]), None, "there is no version 0");
        let mut older = record.write()[..BYTES_WITHOUT_VALUES].to_vec();
        older[0] = VERSION_WITHOUT_VALUES;
        assert_eq!(IndexRecord::read(&older), Some(IndexRecord { last_value: 0, ..record }));
        let mut older = record.write()[..BYTES_WITHOUT_ROWS].to_vec();
        older[0] = VERSION_WITHOUT_ROWS;
        let expected =
            IndexRecord { reduce_attempts: 0, reduce_errors: 0, last_value: 0, ..record };
        assert_eq!(IndexRecord::read(&older), Some(expected));
    }

    #[test]
    fn the_newest_errors_are_kept() {
        let environment = environment();
        let count = ERRORS_MAX as usize + 3;
        let mut tx = environment.write().unwrap();
        for number in 0..count {
            add_error(&mut tx, &error(number)).unwrap();
        }
        tx.commit().unwrap();
        let kept = errors(&environment.read()).unwrap();
        assert_eq!(kept.len() as u64, ERRORS_MAX);
        assert_eq!((&kept[0], kept.last().unwrap()), (&error(3), &error(count - 1)));
        let mut tx = environment.write().unwrap();
        clear_errors(&mut tx).unwrap();
        tx.commit().unwrap();
        assert_eq!(errors(&environment.read()).unwrap(), []);
    }
}
