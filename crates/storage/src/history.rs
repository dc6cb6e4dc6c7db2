//! Identifies the history that an environment's transactions belong to, so that data derived from
//! one history is never mistaken for data of another.
//!
//! An environment has an identity, created once, and incarnations: each time it is opened and
//! written, a random number is stored with the first transaction of that opening. A point in the
//! history is (identity, incarnation, transaction). Anything that depends on an environment (an
//! index, the progress of a database in the server's own environment) keeps the newest point that
//! it has seen, and checks later whether the environment [vouches](Environment::vouches_for) for
//! it. An older copy of the files does not, whatever was written to it since: it lacks the
//! incarnation, or ended it earlier.
//!
//! ```text
//! tree "Storage/Incarnations": first transaction u64 →
//!   0 incarnation u64 · 8 point of the environment above (identity u128, 0 when there is none ·
//!   24 incarnation u64 · 32 transaction u64)
//! ```
//!
//! The incarnation is stored in a separate transaction before any other of an opening; then the
//! environment above is notified, and only then is anything else written. So the environment above
//! never knows an incarnation that a power cut undid, and knows every one with user data.
//!
//! Compaction copies the tree and begins an incarnation for its own transactions. See
//! `docs/internals/history.md`.

use std::{fmt, sync::Arc};

use crate::{
    environment::{Environment, lock},
    error::StorageError,
    format::{PageNumber, read_u64, read_u128, write_u64, write_u128},
    transaction::{ReadTransaction, Transaction},
    tree_name::TreeName,
};

/// Incarnations kept; an environment no longer vouches for points of older ones.
const INCARNATIONS_MAX: u64 = 100_000;
pub(crate) const VALUE_BYTES: usize = 40;

/// A moment in the history of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPoint {
    /// The identity of the environment.
    pub environment: u128,
    /// The number of the incarnation at that moment.
    pub incarnation: u64,
    /// The newest durable transaction at that moment.
    pub transaction: u64,
}

impl HistoryPoint {
    /// Length of [`HistoryPoint::to_bytes`], in bytes.
    pub const BYTES: usize = 32;

    /// Identity u128 · incarnation u64 · transaction u64, little-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        write_u128(&mut bytes, 0, self.environment);
        write_u64(&mut bytes, 16, self.incarnation);
        write_u64(&mut bytes, 24, self.transaction);
        bytes
    }

    /// Reads [`HistoryPoint::to_bytes`]; `None` when there are fewer bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<HistoryPoint> {
        let bytes = bytes.get(..Self::BYTES)?;
        Some(HistoryPoint {
            environment: read_u128(bytes, 0),
            incarnation: read_u64(bytes, 16),
            transaction: read_u64(bytes, 24),
        })
    }
}

/// Why an environment does not vouch for a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryMismatch {
    /// The point belongs to another environment.
    OtherEnvironment,
    /// The environment has diverged from the one that the point was taken from: it is an older
    /// copy, or was rebuilt.
    OtherIncarnation,
    /// The incarnation is known and ended before the point.
    Ahead,
}

impl fmt::Display for HistoryMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HistoryMismatch::OtherEnvironment => "it is another environment",
            HistoryMismatch::OtherIncarnation => "it is an older copy, or was rebuilt since",
            HistoryMismatch::Ahead => "it is an older copy, or lost its newest transactions",
        })
    }
}

/// The environment above one: it is notified of incarnations, and the environment below remembers
/// what it saw of it.
pub trait IncarnationWitness: Send + Sync {
    /// The point of the environment above that is stored with the incarnation that begins: its newest,
    /// or `before`, that of the incarnation before, for as long as it does not vouch for that.
    ///
    /// # Errors
    /// Errors of reading it; nothing is written in that case.
    fn above(&self, before: Option<HistoryPoint>) -> Result<Option<HistoryPoint>, StorageError>;

    /// An incarnation has durably begun. Nothing else is written to the environment before this
    /// returns; when it fails, writes are refused with its error, and the next write calls it
    /// again.
    ///
    /// # Errors
    /// Errors of storing it.
    fn began(&self, point: HistoryPoint) -> Result<(), StorageError>;
}

/// Whether the incarnations of an environment are kept.
#[derive(Clone, Default)]
pub enum History {
    /// Nothing depends on it: an index, a copy under construction.
    #[default]
    NotKept,
    /// They are kept.
    Kept,
    /// They are kept, and another environment vouches for them.
    Witnessed(Arc<dyn IncarnationWitness>),
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            History::NotKept => "NotKept",
            History::Kept => "Kept",
            History::Witnessed(_) => "Witnessed",
        })
    }
}

struct Incarnation {
    number: u64,
    first_transaction: u64,
    above: Option<HistoryPoint>,
}

impl Incarnation {
    fn to_value(&self) -> [u8; VALUE_BYTES] {
        let mut value = [0; VALUE_BYTES];
        write_u64(&mut value, 0, self.number);
        if let Some(above) = self.above {
            value[8..].copy_from_slice(&above.to_bytes());
        }
        value
    }

    fn read(first_transaction: u64, value: &[u8]) -> Result<Self, StorageError> {
        let detail = "a row of the incarnations has another length";
        let damaged = || StorageError::structure(PageNumber(0), detail);
        let (number, above) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let above = HistoryPoint::from_bytes(above).ok_or_else(damaged)?;
        let above = (above.environment != 0).then_some(above);
        Ok(Self { number: u64::from_le_bytes(*number), first_transaction, above })
    }
}

/// The tree that holds the incarnations.
pub(crate) fn tree() -> TreeName {
    TreeName::from("Storage/Incarnations")
}

/// The newest incarnation that a snapshot has.
fn newest(read: &ReadTransaction) -> Result<Option<Incarnation>, StorageError> {
    let last = read.fixed_tree(&tree())?.last()?;
    last.map(|(first, value)| Incarnation::read(first, value)).transpose()
}

impl Environment {
    /// The identity of the environment, chosen when it was created.
    pub fn id(&self) -> u128 {
        self.journal.environment_id()
    }

    /// The point in the history that a snapshot of this environment shows; `None` when nothing has
    /// been written since its history began to be kept.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn point_of(&self, read: &ReadTransaction) -> Result<Option<HistoryPoint>, StorageError> {
        let point = |newest: Incarnation| HistoryPoint {
            environment: self.id(),
            incarnation: newest.number,
            transaction: read.id(),
        };
        Ok(newest(read)?.map(point))
    }

    /// The newest point of the environment above that this one has seen when it began an incarnation.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn point_above(&self) -> Result<Option<HistoryPoint>, StorageError> {
        Ok(newest(&self.read())?.and_then(|newest| newest.above))
    }

    /// Whether the point lies in the history of this environment.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn vouches_for(
        &self,
        point: &HistoryPoint,
    ) -> Result<Result<(), HistoryMismatch>, StorageError> {
        if point.environment != self.id() {
            return Ok(Err(HistoryMismatch::OtherEnvironment));
        }
        let read = self.read();
        // Points are usually recent, so the search starts from the newest incarnation.
        let mut end = read.id();
        for row in read.fixed_tree(&tree())?.range_back(u64::MAX)? {
            let (first, value) = row?;
            if Incarnation::read(first, value)?.number == point.incarnation {
                let is_inside = (first..=end).contains(&point.transaction);
                return Ok(if is_inside { Ok(()) } else { Err(HistoryMismatch::Ahead) });
            }
            end = first.saturating_sub(1);
        }
        Ok(Err(HistoryMismatch::OtherIncarnation))
    }

    /// Begins to write, once per opening: the first journal file is created and named in the
    /// header, the incarnation is stored, and the environment above is notified. Called before
    /// every transaction.
    ///
    /// # Errors
    /// Errors of writing and of the environment above. The next transaction tries again.
    pub fn begin_writing(self: &Arc<Self>) -> Result<(), StorageError> {
        if self.has_begun() {
            return Ok(());
        }
        let mut begun = lock(self.begun());
        if *begun {
            return Ok(());
        }
        self.check_failure()?;
        let outcome = self.begin_incarnation();
        self.note_full_disk(&outcome);
        outcome?;
        *begun = true;
        self.set_begun();
        Ok(())
    }

    fn begin_incarnation(self: &Arc<Self>) -> Result<(), StorageError> {
        self.name_first_journal()?;
        match &self.options.history {
            History::NotKept => Ok(()),
            History::Kept => self.store_incarnation(None).map(drop),
            History::Witnessed(witness) => {
                let point = self.store_incarnation(Some(&**witness))?;
                witness.began(point).map_err(unwitnessed)
            }
        }
    }

    /// Ends the newest incarnation of a copy where it ended in the original, whose newest
    /// transaction was `last`. Otherwise the transactions of the copying would pass for
    /// transactions of the original that were lost.
    pub(crate) fn end_copied_incarnation(self: &Arc<Self>, last: u64) -> Result<(), StorageError> {
        let Some(copied) = newest(&self.read())? else { return Ok(()) };
        let (number, first_transaction) = (self.incarnation(), last + 1);
        let next = Incarnation { number, first_transaction, above: copied.above };
        let mut tx = self.write()?;
        tx.fixed_tree_mut(&tree(), VALUE_BYTES as u16)?.put(first_transaction, &next.to_value())?;
        tx.commit()
    }

    fn store_incarnation(
        self: &Arc<Self>,
        witness: Option<&dyn IncarnationWitness>,
    ) -> Result<HistoryPoint, StorageError> {
        let number = self.incarnation();
        let before = newest(&self.read())?;
        if before.as_ref().is_none_or(|before| before.number != number) {
            let before = before.and_then(|before| before.above);
            let above = witness.map(|witness| witness.above(before)).transpose();
            let above = above.map_err(unwitnessed)?.flatten();
            let mut tx = self.write_unbegun()?;
            let incarnation = Incarnation { number, first_transaction: tx.id(), above };
            let mut rows = tx.fixed_tree_mut(&tree(), VALUE_BYTES as u16)?;
            rows.put(incarnation.first_transaction, &incarnation.to_value())?;
            if let Some(oldest) = oldest_beyond(&tx)? {
                tx.fixed_tree_mut(&tree(), VALUE_BYTES as u16)?.delete(oldest)?;
            }
            tx.commit()?;
        }
        let transaction = self.read().id();
        Ok(HistoryPoint { environment: self.id(), incarnation: number, transaction })
    }
}

fn unwitnessed(error: StorageError) -> StorageError {
    match error {
        StorageError::DiskFull { .. } => error,
        reason => StorageError::Unwitnessed { reason: Arc::new(reason) },
    }
}

/// The oldest row when there is one too many.
fn oldest_beyond(tx: &impl Transaction) -> Result<Option<u64>, StorageError> {
    let rows = tx.fixed_tree(&tree())?;
    if rows.len() <= INCARNATIONS_MAX {
        return Ok(None);
    }
    Ok(rows.first()?.map(|(first, _)| first))
}
