//! Compare exchange: values under keys. A value changes only if the writer names its newest version, which is
//! the index of the change that wrote it.
//!
//! Keys are case-insensitive and are stored in lower case.

use std::{fmt, ops::Bound};

use blittable::{BlittableBuf, Document, Value};
use model::{DatabaseId, date, lower_case};
use storage::{Transaction, WriteTransaction};

use crate::{
    applying::Applying,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, Counted, DATABASE_BYTES, key_of},
    value_log,
};

/// The longest key, in bytes of its lower-case form.
pub const COMPARE_EXCHANGE_KEY_BYTES_MAX: usize = 512;

/// Expired values removed by one command, which keeps the command short.
const EXPIRED_MAX: usize = 1000;
/// Deletions forgotten by one command.
pub const FORGOTTEN_MAX: usize = 1000;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const REMOVE_EXPIRED: u8 = 3;
const FORGET_DELETED: u8 = 4;

/// A change of compare exchange values.
#[derive(Clone, Debug)]
pub enum CompareExchangeCommand {
    /// Set a value.
    Put {
        /// The database.
        database: DatabaseId,
        /// The key, in any case.
        key: String,
        /// The version to replace. Any will do if there is no value.
        expected: u64,
        /// The value, with its metadata.
        value: BlittableBuf,
    },
    /// Remove a value; no error if it is missing.
    Delete {
        /// The database.
        database: DatabaseId,
        /// The key, in any case.
        key: String,
        /// The version to remove.
        expected: u64,
    },
    /// Remove some of the expired values, of all databases.
    RemoveExpired {
        /// Values that expire at or before this time are removed; in ticks of UTC.
        until_ticks: i64,
    },
    /// Forget up to [`FORGOTTEN_MAX`] deletions that no reader needs any more.
    ForgetDeleted {
        /// The database.
        database: DatabaseId,
        /// The index of the last deletion to forget.
        up_to: u64,
    },
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub struct CompareExchangeOutcome {
    /// Whether the change was made. If not, another writer has changed the value.
    pub is_successful: bool,
    /// The version of the value: the new one, or the current one if it was not the expected one.
    pub index: u64,
    /// The value that was put or removed, or the current one if its version was not the expected one.
    pub value: Option<BlittableBuf>,
    /// The number of values removed by [`CompareExchangeCommand::RemoveExpired`], or of deletions forgotten
    /// by [`CompareExchangeCommand::ForgetDeleted`].
    pub removed: usize,
}

/// A compare exchange value as stored, read from one snapshot.
#[derive(Clone, Debug)]
pub struct CompareExchangeEntry<'t> {
    /// Its key, in lower case.
    pub key: String,
    /// The index of the command that wrote it, which clients use as its version.
    pub index: u64,
    /// The value, with its metadata.
    pub value: Document<'t>,
}

/// `@expires` in the metadata of a value is not a date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExpiry {
    /// The text found there.
    pub text: String,
}

impl fmt::Display for InvalidExpiry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' is not a date at which a value can expire", self.text)
    }
}

impl std::error::Error for InvalidExpiry {}

/// When a value expires, in ticks of UTC: `@expires` in its `@metadata`.
///
/// # Errors
/// `@expires` is not a date.
pub fn expiry_ticks(value: &Document<'_>) -> Result<Option<i64>, InvalidExpiry> {
    let unreadable = |_| InvalidExpiry { text: String::new() };
    let found = value.root().get_path(&["@metadata", "@expires"]).map_err(unreadable)?;
    match found {
        None => Ok(None),
        Some(Value::String(text)) => {
            let text = text.as_cow().map_err(unreadable)?;
            match date::parse(&text) {
                Some(date) => Ok(Some(date.utc_ticks())),
                None => Err(InvalidExpiry { text: text.into_owned() }),
            }
        }
        Some(other) => Err(InvalidExpiry { text: format!("{other:?}") }),
    }
}

impl CompareExchangeCommand {
    pub(crate) fn database(&self) -> Option<DatabaseId> {
        match self {
            Self::Put { database, .. }
            | Self::Delete { database, .. }
            | Self::ForgetDeleted { database, .. } => Some(*database),
            Self::RemoveExpired { .. } => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        match self {
            Self::Put { key, .. } => check_key(key),
            // No value has a key that is too long, so there is nothing to delete.
            Self::Delete { .. } | Self::RemoveExpired { .. } | Self::ForgetDeleted { .. } => Ok(()),
        }
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Put { database, key, expected, value } => {
                encoder.byte(PUT);
                encoder.raw(&database.0);
                encoder.text(key);
                encoder.u64(*expected);
                encoder.bytes(value.as_bytes());
            }
            Self::Delete { database, key, expected } => {
                encoder.byte(DELETE);
                encoder.raw(&database.0);
                encoder.text(key);
                encoder.u64(*expected);
            }
            Self::RemoveExpired { until_ticks } => {
                encoder.byte(REMOVE_EXPIRED);
                encoder.i64(*until_ticks);
            }
            Self::ForgetDeleted { database, up_to } => {
                encoder.byte(FORGET_DELETED);
                encoder.raw(&database.0);
                encoder.u64(*up_to);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            PUT => Self::Put {
                database: DatabaseId(decoder.fixed()?),
                key: decoder.text()?.to_owned(),
                expected: decoder.u64()?,
                value: read_value(decoder)?,
            },
            DELETE => Self::Delete {
                database: DatabaseId(decoder.fixed()?),
                key: decoder.text()?.to_owned(),
                expected: decoder.u64()?,
            },
            REMOVE_EXPIRED => Self::RemoveExpired { until_ticks: decoder.i64()? },
            FORGET_DELETED => Self::ForgetDeleted {
                database: DatabaseId(decoder.fixed()?),
                up_to: decoder.u64()?,
            },
            _ => return Err(Malformed("a change of compare exchange is of an unknown kind")),
        })
    }

    pub(crate) fn apply(
        self,
        applying: &mut Applying<'_>,
    ) -> Result<CompareExchangeOutcome, ClusterError> {
        match self {
            Self::Put { database, key, expected, value } => {
                let key = lower_case(&key).into_owned();
                if let Some(present) = present(applying.tx, database, &key)?
                    && present.index != expected
                {
                    return Ok(refusal(&present));
                }
                put(applying, database, &key, &value)?;
                Ok(done(applying.index, Some(value)))
            }
            Self::Delete { database, key, expected } => {
                let key = lower_case(&key).into_owned();
                let removed = match present(applying.tx, database, &key)? {
                    None => return Ok(done(applying.index, None)),
                    Some(present) if present.index != expected => return Ok(refusal(&present)),
                    Some(present) => present.value.to_buf(),
                };
                delete(applying, database, &key)?;
                Ok(done(applying.index, Some(removed)))
            }
            Self::RemoveExpired { until_ticks } => {
                let removed = remove_expired(applying, until_ticks)?;
                Ok(CompareExchangeOutcome { removed, ..done(applying.index, None) })
            }
            Self::ForgetDeleted { database, up_to } => {
                let removed = forget_deleted(applying.tx, database, up_to)?;
                Ok(CompareExchangeOutcome { removed, ..done(applying.index, None) })
            }
        }
    }
}

/// Refuses a key that is too long.
pub(crate) fn check_key(key: &str) -> Result<(), ClusterError> {
    let bytes = lower_case(key).len();
    if bytes <= COMPARE_EXCHANGE_KEY_BYTES_MAX {
        return Ok(());
    }
    Err(ClusterError::KeyTooLong { key: key.to_owned(), bytes })
}

impl CompareExchangeOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.flag(self.is_successful);
        encoder.u64(self.index);
        encoder.optional(self.value.as_ref(), |encoder, value| encoder.bytes(value.as_bytes()));
        encoder.u64(self.removed as u64);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            is_successful: decoder.flag()?,
            index: decoder.u64()?,
            value: decoder.optional(read_value)?,
            removed: usize::try_from(decoder.u64()?)
                .map_err(|_| Malformed("a count is too large"))?,
        })
    }
}

pub(crate) fn read_value(decoder: &mut Decoder<'_>) -> Result<BlittableBuf, Malformed> {
    let bytes = decoder.bytes()?.to_vec();
    BlittableBuf::from_bytes(bytes).map_err(|_| Malformed("a value cannot be read"))
}

fn done(index: u64, value: Option<BlittableBuf>) -> CompareExchangeOutcome {
    CompareExchangeOutcome { is_successful: true, index, value, removed: 0 }
}

fn refusal(present: &CompareExchangeEntry<'_>) -> CompareExchangeOutcome {
    let value = Some(present.value.to_buf());
    CompareExchangeOutcome { is_successful: false, index: present.index, value, removed: 0 }
}

/// The value under a lower-case key.
pub(crate) fn present<'t>(
    tx: &'t impl Transaction,
    database: DatabaseId,
    lower_key: &str,
) -> Result<Option<CompareExchangeEntry<'t>>, ClusterError> {
    if COMPARE_EXCHANGE_KEY_BYTES_MAX < lower_key.len() {
        return Ok(None);
    }
    let stored = key_of(database, lower_key.as_bytes());
    let row = tx.tree(&schema::compare_exchange())?.get(&stored)?;
    row.map(|row| read_row(stored, row)).transpose()
}

/// The values whose keys start with a lower-case prefix, in byte order.
pub(crate) fn with_prefix<'t, T: Transaction>(
    tx: &'t T,
    database: DatabaseId,
    lower_prefix: &str,
    after: Option<&str>,
) -> Result<
    impl Iterator<Item = Result<CompareExchangeEntry<'t>, ClusterError>> + use<'t, T>,
    ClusterError,
> {
    let prefix = key_of(database, lower_prefix.as_bytes());
    let after = after.map(|key| key_of(database, lower_case(key).as_bytes()));
    let start = match &after {
        Some(key) if prefix < *key => Bound::Excluded(key.as_slice()),
        _ => Bound::Included(prefix.as_slice()),
    };
    let rows = tx.tree(&schema::compare_exchange())?.range(start)?;
    let is_within = move |row: &Result<(Vec<u8>, &[u8]), _>| {
        row.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix))
    };
    Ok(rows.take_while(is_within).map(|row| {
        let (key, row) = row?;
        read_row(key, row)
    }))
}

fn read_row(stored_key: Vec<u8>, row: &[u8]) -> Result<CompareExchangeEntry<'_>, ClusterError> {
    let (index, value) = row
        .split_first_chunk::<8>()
        .ok_or(ClusterError::Corrupt { detail: "a compare exchange value is truncated" })?;
    let key = stored_key.get(DATABASE_BYTES..).unwrap_or_default();
    Ok(CompareExchangeEntry {
        key: String::from_utf8_lossy(key).into_owned(),
        index: u64::from_le_bytes(*index),
        value: Document::new(value)?,
    })
}

/// Sets a value. The caller has checked its version.
pub(crate) fn put(
    applying: &mut Applying<'_>,
    database: DatabaseId,
    lower_key: &str,
    value: &BlittableBuf,
) -> Result<(), ClusterError> {
    forget(applying.tx, database, lower_key)?;
    let Applying { tx, index, .. } = applying;
    let key = key_of(database, lower_key.as_bytes());
    let row = [&index.to_le_bytes()[..], value.as_bytes()].concat();
    tx.tree_mut(&schema::compare_exchange())?.put(&key, &row)?;
    value_log::note(tx, database, *index, lower_key, false)?;
    if let Ok(Some(ticks)) = expiry_ticks(&value.as_view()) {
        tx.tree_mut(&schema::compare_exchange_due())?.put(&due_key(ticks, &key), &[])?;
    }
    count(tx, database, Counted::CompareExchange, 1)
}

/// Removes an existing value.
pub(crate) fn delete(
    applying: &mut Applying<'_>,
    database: DatabaseId,
    lower_key: &str,
) -> Result<(), ClusterError> {
    forget(applying.tx, database, lower_key)?;
    let Applying { tx, index, .. } = applying;
    let key = key_of(database, lower_key.as_bytes());
    tx.tree_mut(&schema::compare_exchange_deleted())?.put(&key, &index.to_le_bytes())?;
    value_log::note(tx, database, *index, lower_key, true)?;
    count(tx, database, Counted::CompareExchangeDeleted, 1)
}

/// Removes a value, or the trace of its deletion, with its entries in the log of changes and among due times.
fn forget(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    lower_key: &str,
) -> Result<(), ClusterError> {
    let key = key_of(database, lower_key.as_bytes());
    let old = present(tx, database, lower_key)?
        .map(|present| (present.index, expiry_ticks(&present.value).ok().flatten()));
    if let Some((index, due)) = old {
        tx.tree_mut(&schema::compare_exchange())?.delete(&key)?;
        value_log::forget(tx, database, index, lower_key)?;
        if let Some(ticks) = due {
            tx.tree_mut(&schema::compare_exchange_due())?.delete(&due_key(ticks, &key))?;
        }
        return count(tx, database, Counted::CompareExchange, -1);
    }
    let deleted = tx.tree(&schema::compare_exchange_deleted())?.get(&key)?;
    let Some(index) = deleted.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) else {
        return Ok(());
    };
    tx.tree_mut(&schema::compare_exchange_deleted())?.delete(&key)?;
    value_log::forget(tx, database, u64::from_le_bytes(index), lower_key)?;
    count(tx, database, Counted::CompareExchangeDeleted, -1)
}

/// The time zone can move a date to before the year 1; such a date counts as 0.
fn due_key(ticks: i64, key: &[u8]) -> Vec<u8> {
    [&ticks.max(0).to_be_bytes()[..], key].concat()
}

fn remove_expired(applying: &mut Applying<'_>, until_ticks: i64) -> Result<usize, ClusterError> {
    let due = due_keys(applying.tx, until_ticks)?;
    for due in &due {
        applying.tx.tree_mut(&schema::compare_exchange_due())?.delete(due)?;
        let (database, key) = due[8..]
            .split_first_chunk::<DATABASE_BYTES>()
            .ok_or(ClusterError::Corrupt { detail: "a due time names no database" })?;
        let (database, key) = (DatabaseId(*database), String::from_utf8_lossy(key).into_owned());
        if present(applying.tx, database, &key)?.is_some() {
            delete(applying, database, &key)?;
        }
    }
    Ok(due.len())
}

fn forget_deleted(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    up_to: u64,
) -> Result<usize, ClusterError> {
    let mut keys = Vec::new();
    let mut newest = counted_so_far(tx, database, Counted::ForgottenDeletion)?;
    let deleted = tx.tree(&schema::compare_exchange_deleted())?;
    for entry in deleted.range(Bound::Included(&database.0))? {
        let (key, index) = entry?;
        let Some(key) = key.strip_prefix(&database.0) else { break };
        let index = <[u8; 8]>::try_from(index).map(u64::from_le_bytes);
        if keys.len() == FORGOTTEN_MAX {
            break;
        }
        if let Ok(index) = index
            && index <= up_to
        {
            keys.push(String::from_utf8_lossy(key).into_owned());
            newest = newest.max(index);
        }
    }
    keys.iter().try_for_each(|key| forget(tx, database, key))?;
    if !keys.is_empty() {
        let key = Counted::ForgottenDeletion.key(database);
        tx.tree_mut(&schema::counts())?.put(&key, &newest.to_le_bytes())?;
    }
    Ok(keys.len())
}

fn due_keys(tx: &impl Transaction, until_ticks: i64) -> Result<Vec<Vec<u8>>, ClusterError> {
    let behind = until_ticks.saturating_add(1).max(0).to_be_bytes();
    let mut keys = Vec::new();
    let due = tx.tree(&schema::compare_exchange_due())?.range(Bound::Unbounded)?;
    for entry in due.take(EXPIRED_MAX) {
        let (key, _) = entry?;
        if key.as_slice() >= &behind[..] {
            break;
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Whether any value has expired.
pub fn is_any_due(tx: &impl Transaction, until_ticks: i64) -> Result<bool, ClusterError> {
    let due = tx.tree(&schema::compare_exchange_due())?.range(Bound::Unbounded)?.next();
    let Some(entry) = due else { return Ok(false) };
    let (key, _) = entry?;
    let ticks = key.first_chunk::<8>().map(|ticks| i64::from_be_bytes(*ticks));
    Ok(ticks.is_some_and(|ticks| ticks <= until_ticks))
}

fn count(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    counted: Counted,
    change: i64,
) -> Result<(), ClusterError> {
    let now = counted_so_far(tx, database, counted)?.saturating_add_signed(change);
    tx.tree_mut(&schema::counts())?.put(&counted.key(database), &now.to_le_bytes())?;
    Ok(())
}

/// The current count.
pub(crate) fn counted_so_far(
    tx: &impl Transaction,
    database: DatabaseId,
    counted: Counted,
) -> Result<u64, ClusterError> {
    let stored = tx.tree(&schema::counts())?.get(&counted.key(database))?;
    let Some(stored) = stored else { return Ok(0) };
    let number = <[u8; 8]>::try_from(stored);
    number
        .map(u64::from_le_bytes)
        .map_err(|_| ClusterError::Corrupt { detail: "a count is damaged" })
}
