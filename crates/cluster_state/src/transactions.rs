//! Cluster-wide transactions: atomic changes of compare exchange values and documents.
//!
//! The state machine checks all expected versions and changes compare exchange at once. It stores the changes
//! of documents; the database executes them in index order and records its progress in the same transaction.
//! What all nodes of a database have executed is removed; see `executed`.
//!
//! ```text
//! tree Cluster/Transactions   database 16, index 8 BE -> version 1 (= 2), index before 8, ticks 8,
//!                             number of documents 4, for each: id, number 8, whether guarded 1,
//!                             whether there is a body 1, body, whether what it replaces is known 1,
//!                             its change vector
//! ```
//!
//! Version 1 does not say what is replaced.
//!
//! An *atomic guard* is a compare exchange value named after a document. Its index is that of the last
//! transaction that wrote the document. A client that writes the document again names the index it has seen.

use std::ops::Bound;

use blittable::{BlittableBuf, ParseLimits, Value};
use model::{ChangeVector, DatabaseId, lower_case};
use storage::{Transaction, WriteTransaction};

use crate::{
    applying::Applying,
    compare_exchange::{self, read_value},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, Counted, key_of},
};

/// The prefix of the keys of atomic guards.
pub const GUARD_PREFIX: &str = "rvn-atomic/";

const VERSION: u8 = 2;
const VERSION_WITHOUT_REPLACED: u8 = 1;
/// Added to the kind of the guard of an encoded change that says what it replaces.
const SAYS_REPLACED: u8 = 0x80;

/// The version that a violation reports for a missing value.
const MISSING: i64 = -1;

/// A cluster-wide transaction.
#[derive(Clone, Debug)]
pub struct ClusterTransaction {
    /// The topology id of its database.
    pub database: DatabaseId,
    /// Changes of compare exchange.
    pub values: Vec<ValueChange>,
    /// Changes of documents, in the order of the batch.
    pub documents: Vec<DocumentChange>,
    /// When it was made, in ticks; becomes the modification time of its documents.
    pub ticks: i64,
    /// The index up to which all nodes of the database have executed its stored transactions.
    pub executed: u64,
}

/// A change of a compare exchange value.
#[derive(Clone, Debug)]
pub struct ValueChange {
    /// The key, in any case.
    pub key: String,
    /// The expected version; 0 if the value must not exist.
    pub expected: u64,
    /// The new value; `None` removes it.
    pub value: Option<BlittableBuf>,
}

/// A change of a document.
#[derive(Clone, Debug)]
pub struct DocumentChange {
    /// The id of the document.
    pub id: String,
    /// The document; `None` deletes it.
    pub body: Option<BlittableBuf>,
    /// How its atomic guard is treated.
    pub guard: Guard,
    /// The version that the node which made the transaction replaces, as far as other nodes can write the document; empty
    /// if it had none. What a node has beyond that was written at the same time.
    pub replaces: Option<ChangeVector>,
}

/// How the atomic guard of a document is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The guard is neither checked nor written.
    Off,
    /// The guard is written or removed, whatever its version.
    Unchecked,
    /// The guard must have this version; 0 if it must not exist.
    Expected(u64),
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// It was committed. Its documents are numbered consecutively from here; the numbers count the documents
    /// of all transactions of the database.
    Committed {
        /// The number of the first document.
        first_number: u64,
    },
    /// Nothing was done, because of these violations.
    Violated(Vec<Violation>),
}

/// A value whose version is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its key, in its original case.
    pub key: String,
    /// The document, if the value is an atomic guard.
    pub document: Option<String>,
    /// Whether the transaction would have removed it.
    pub is_delete: bool,
    /// The version that was expected.
    pub expected: i64,
    /// The current version; -1 if there is no value.
    pub actual: i64,
}

/// The changes of documents of a transaction, to be executed by the database.
#[derive(Clone, Debug)]
pub struct StoredTransaction {
    /// The index of the transaction.
    pub index: u64,
    /// The index of the previous transaction with documents.
    pub before: u64,
    /// When it was made, in ticks.
    pub ticks: i64,
    /// The changes of documents, in order.
    pub documents: Vec<NumberedChange>,
}

/// A change of a document with its number.
#[derive(Clone, Debug)]
pub struct NumberedChange {
    /// The id of the document.
    pub id: String,
    /// Its number among the documents of the database's transactions.
    pub number: u64,
    /// Whether the document's change vector names the transaction, as its atomic guard requires.
    pub is_guarded: bool,
    /// The document; `None` deletes it.
    pub body: Option<BlittableBuf>,
    /// See [`DocumentChange::replaces`].
    pub replaces: Option<ChangeVector>,
}

impl ClusterTransaction {
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        self.values.iter().try_for_each(|change| compare_exchange::check_key(&change.key))?;
        let guarded = self.documents.iter().filter(|change| change.guard != Guard::Off);
        guarded
            .map(|change| guard_key(&change.id))
            .try_for_each(|key| compare_exchange::check_key(&key))
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.raw(&self.database.0);
        encoder.i64(self.ticks);
        encoder.u64(self.executed);
        encoder.list(&self.values, |encoder, change| {
            encoder.text(&change.key);
            encoder.u64(change.expected);
            encoder.optional(change.value.as_ref(), |encoder, value| {
                encoder.bytes(value.as_bytes());
            });
        });
        encoder.list(&self.documents, |encoder, change| {
            encoder.text(&change.id);
            encoder.optional(change.body.as_ref(), |encoder, body| encoder.bytes(body.as_bytes()));
            let says = if change.replaces.is_some() { SAYS_REPLACED } else { 0 };
            match change.guard {
                Guard::Off => encoder.byte(says),
                Guard::Unchecked => encoder.byte(says | 1),
                Guard::Expected(index) => {
                    encoder.byte(says | 2);
                    encoder.u64(index);
                }
            }
            if let Some(replaces) = &change.replaces {
                encoder.text(replaces.as_str());
            }
        });
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            database: DatabaseId(decoder.fixed()?),
            ticks: decoder.i64()?,
            executed: decoder.u64()?,
            values: decoder.list(|decoder| {
                Ok(ValueChange {
                    key: decoder.text()?.to_owned(),
                    expected: decoder.u64()?,
                    value: decoder.optional(read_value)?,
                })
            })?,
            documents: decoder.list(|decoder| {
                let (id, body) = (decoder.text()?.to_owned(), decoder.optional(read_value)?);
                let kind = decoder.byte()?;
                let guard = match kind & !SAYS_REPLACED {
                    0 => Guard::Off,
                    1 => Guard::Unchecked,
                    2 => Guard::Expected(decoder.u64()?),
                    _ => return Err(Malformed("a guard is of an unknown kind")),
                };
                let says = kind & SAYS_REPLACED != 0;
                let replaces = says.then(|| read_vector(decoder)).transpose()?;
                Ok(DocumentChange { id, body, guard, replaces })
            })?,
        })
    }

    pub(crate) fn apply(
        self,
        applying: &mut Applying<'_>,
    ) -> Result<TransactionOutcome, ClusterError> {
        forget_executed(applying.tx, self.database, self.executed)?;
        let violations = self.violations(applying.tx)?;
        if !violations.is_empty() {
            return Ok(TransactionOutcome::Violated(violations));
        }
        for change in &self.values {
            change_value(applying, self.database, &change.key, change.value.as_ref())?;
        }
        for change in self.documents.iter().filter(|change| change.guard != Guard::Off) {
            let body = change.body.as_ref();
            let value = body.map(|body| guard_value(&change.id, body)).transpose()?;
            change_value(applying, self.database, &guard_key(&change.id), value.as_ref())?;
        }
        self.store_documents(applying)
    }

    /// All violations, those of values before those of guards.
    fn violations(&self, tx: &impl Transaction) -> Result<Vec<Violation>, ClusterError> {
        let mut violations = Vec::new();
        let mut check = |key: &str, document: Option<&str>, is_delete: bool, expected: u64| {
            let present = compare_exchange::present(tx, self.database, &lower_case(key))?;
            let actual = present.map(|present| present.index);
            if actual.unwrap_or(0) != expected {
                violations.push(Violation {
                    key: key.to_owned(),
                    document: document.map(str::to_owned),
                    is_delete,
                    expected: expected.cast_signed(),
                    actual: actual.map_or(MISSING, u64::cast_signed),
                });
            }
            Ok::<(), ClusterError>(())
        };
        for change in &self.values {
            check(&change.key, None, change.value.is_none(), change.expected)?;
        }
        for change in &self.documents {
            if let Guard::Expected(expected) = change.guard {
                let key = guard_key(&change.id);
                check(&key, Some(&change.id), change.body.is_none(), expected)?;
            }
        }
        Ok(violations)
    }

    /// Numbers the documents and stores them for the database.
    fn store_documents(
        self,
        applying: &mut Applying<'_>,
    ) -> Result<TransactionOutcome, ClusterError> {
        let (tx, index, database) = (&mut *applying.tx, applying.index, self.database);
        applying.changes.transactions.push(database);
        let counted = |tx: &WriteTransaction, counted| {
            compare_exchange::counted_so_far(tx, database, counted)
        };
        let first_number = counted(tx, Counted::TransactionDocuments)? + 1;
        if self.documents.is_empty() {
            return Ok(TransactionOutcome::Committed { first_number });
        }
        let before = counted(tx, Counted::LastTransaction)?;
        let number = self.documents.len() as u64;
        let row = write_stored(before, self.ticks, first_number, &self.documents);
        let key = key_of(database, &index.to_be_bytes());
        tx.tree_mut(&schema::transactions())?.put(&key, &row)?;
        let mut note = |counted: Counted, value: u64| {
            let key = counted.key(database);
            tx.tree_mut(&schema::counts())?.put(&key, &value.to_le_bytes())
        };
        note(Counted::TransactionDocuments, first_number + number - 1)?;
        note(Counted::LastTransaction, index)?;
        Ok(TransactionOutcome::Committed { first_number })
    }
}

fn change_value(
    applying: &mut Applying<'_>,
    database: DatabaseId,
    key: &str,
    value: Option<&BlittableBuf>,
) -> Result<(), ClusterError> {
    let key = lower_case(key);
    match value {
        Some(value) => compare_exchange::put(applying, database, &key, value),
        None if compare_exchange::present(applying.tx, database, &key)?.is_some() => {
            compare_exchange::delete(applying, database, &key)
        }
        None => Ok(()),
    }
}

/// The key of the atomic guard of a document.
pub fn guard_key(id: &str) -> String {
    format!("{GUARD_PREFIX}{id}")
}

/// `{"Object": {"Id": "users/1"}}`. If the document expires, its guard does too: `@metadata` repeats
/// `@expires`.
fn guard_value(id: &str, body: &BlittableBuf) -> Result<BlittableBuf, ClusterError> {
    let mut json = b"{\"Object\":{\"Id\":".to_vec();
    blittable::write_json_string(id, &mut json);
    json.push(b'}');
    if let Some(Value::String(expires)) =
        body.as_view().root().get_path(&["@metadata", "@expires"])?
    {
        json.extend_from_slice(b",\"@metadata\":{\"@expires\":");
        blittable::write_json_string(&expires.as_cow()?, &mut json);
        json.push(b'}');
    }
    json.push(b'}');
    blittable::parse_document(&json, &ParseLimits::default()).map_err(|_| ClusterError::Corrupt {
        detail: "a document id cannot be stored in its guard",
    })
}

fn write_stored(
    before: u64,
    ticks: i64,
    first_number: u64,
    documents: &[DocumentChange],
) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(VERSION);
    encoder.u64(before);
    encoder.i64(ticks);
    let mut number = first_number;
    encoder.list(documents, |encoder, change| {
        encoder.text(&change.id);
        encoder.u64(number);
        encoder.flag(change.guard != Guard::Off);
        encoder.optional(change.body.as_ref(), |encoder, body| encoder.bytes(body.as_bytes()));
        encoder
            .optional(change.replaces.as_ref(), |encoder, version| encoder.text(version.as_str()));
        number += 1;
    });
    encoder.finish()
}

fn read_stored(index: u64, bytes: &[u8]) -> Result<StoredTransaction, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let says_replaced = match decoder.byte()? {
        VERSION => true,
        VERSION_WITHOUT_REPLACED => false,
        _ => return Err(Malformed("a stored transaction has an unknown version")),
    };
    let stored = StoredTransaction {
        index,
        before: decoder.u64()?,
        ticks: decoder.i64()?,
        documents: decoder.list(|decoder| {
            Ok(NumberedChange {
                id: decoder.text()?.to_owned(),
                number: decoder.u64()?,
                is_guarded: decoder.flag()?,
                body: decoder.optional(read_value)?,
                replaces: match says_replaced {
                    true => decoder.optional(read_vector)?,
                    false => None,
                },
            })
        })?,
    };
    decoder.end()?;
    Ok(stored)
}

fn read_vector(decoder: &mut Decoder<'_>) -> Result<ChangeVector, Malformed> {
    decoder.text()?.parse().map_err(|_| Malformed("a change vector cannot be read"))
}

/// The stored transactions of a database after an index, in order.
pub(crate) fn stored_after<'t, T: Transaction>(
    tx: &'t T,
    database: DatabaseId,
    index: u64,
) -> Result<impl Iterator<Item = Result<StoredTransaction, ClusterError>> + use<'t, T>, ClusterError>
{
    let from = key_of(database, &index.to_be_bytes());
    let rows = tx.tree(&schema::transactions())?.range(Bound::Excluded(&from))?;
    let is_own = move |row: &Result<(Vec<u8>, &[u8]), _>| {
        row.as_ref().map_or(true, |(key, _)| key.starts_with(&database.0))
    };
    Ok(rows.take_while(is_own).map(|row| {
        let (key, row) = row?;
        Ok(read_stored(index_in(&key)?, row)?)
    }))
}

fn index_in(key: &[u8]) -> Result<u64, Malformed> {
    let index = key.get(schema::DATABASE_BYTES..).and_then(|index| index.try_into().ok());
    index.map(u64::from_be_bytes).ok_or(Malformed("a stored transaction has no index"))
}

pub(crate) fn forget_executed(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    executed: u64,
) -> Result<(), ClusterError> {
    let mut keys = Vec::new();
    let rows = tx.tree(&schema::transactions())?.range(Bound::Included(&database.0))?;
    for row in rows {
        let (key, _) = row?;
        if !key.starts_with(&database.0) || executed < index_in(&key)? {
            break;
        }
        keys.push(key);
    }
    let mut tree = tx.tree_mut(&schema::transactions())?;
    for key in keys {
        tree.delete(&key)?;
    }
    Ok(())
}

impl TransactionOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Committed { first_number } => {
                encoder.byte(1);
                encoder.u64(*first_number);
            }
            Self::Violated(violations) => {
                encoder.byte(2);
                encoder.list(violations, |encoder, violation| {
                    encoder.text(&violation.key);
                    encoder.optional(violation.document.as_deref(), Encoder::text);
                    encoder.flag(violation.is_delete);
                    encoder.i64(violation.expected);
                    encoder.i64(violation.actual);
                });
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match decoder.byte()? {
            1 => Ok(Self::Committed { first_number: decoder.u64()? }),
            2 => Ok(Self::Violated(decoder.list(|decoder| {
                Ok(Violation {
                    key: decoder.text()?.to_owned(),
                    document: decoder.optional(|decoder| decoder.text().map(str::to_owned))?,
                    is_delete: decoder.flag()?,
                    expected: decoder.i64()?,
                    actual: decoder.i64()?,
                })
            })?)),
            _ => Err(Malformed("the outcome of a transaction is of an unknown kind")),
        }
    }
}
