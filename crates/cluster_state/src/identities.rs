//! Identities: named counters shared by all clients of a database.
//!
//! Names are case-insensitive and end with `|`.

use std::ops::Bound;

use model::{DOCUMENT_ID_BYTES_MAX, DatabaseId, lower_case};
use storage::{Transaction, WriteTransaction};

use crate::{
    applying::Applying,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
};

const SUFFIX: char = '|';
/// The longest document id, plus the `|`.
const NAME_BYTES_MAX: usize = DOCUMENT_ID_BYTES_MAX + 1;

/// The largest value an identity should be set to. The rest of the range is for counting up, so that no
/// number is ever handed out twice.
pub const IDENTITY_MAX: i64 = i64::MAX / 2;

const NEXT: u8 = 1;
const SEED: u8 = 2;

/// A change of identities. The outcome lists the value of each name, in order.
#[derive(Clone, Debug)]
pub enum IdentityCommand {
    /// Increment each name and return its value; the first is 1.
    Next {
        /// The database.
        database: DatabaseId,
        /// The names; a missing `|` is appended.
        names: Vec<String>,
    },
    /// Set values.
    Seed {
        /// The database.
        database: DatabaseId,
        /// Names and their values.
        values: Vec<(String, i64)>,
        /// Whether to set a value that is smaller than the current one.
        force: bool,
    },
}

impl IdentityCommand {
    pub(crate) fn database(&self) -> DatabaseId {
        match self {
            Self::Next { database, .. } | Self::Seed { database, .. } => *database,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let check = |name: &String| match key(name).len() {
            0..=NAME_BYTES_MAX => Ok(()),
            bytes => Err(ClusterError::NameTooLong { name: name.clone(), bytes }),
        };
        match self {
            Self::Next { names, .. } => names.iter().try_for_each(check),
            Self::Seed { values, .. } => values.iter().map(|(name, _)| name).try_for_each(check),
        }
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Next { database, names } => {
                encoder.byte(NEXT);
                encoder.raw(&database.0);
                encoder.list(names, |encoder, name| encoder.text(name));
            }
            Self::Seed { database, values, force } => {
                encoder.byte(SEED);
                encoder.raw(&database.0);
                encoder.flag(*force);
                encoder.list(values, |encoder, (name, value)| {
                    encoder.text(name);
                    encoder.i64(*value);
                });
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = decoder.byte()?;
        let database = DatabaseId(decoder.fixed()?);
        match kind {
            NEXT => {
                let names = decoder.list(|decoder| decoder.text().map(str::to_owned))?;
                Ok(Self::Next { database, names })
            }
            SEED => {
                let force = decoder.flag()?;
                let values =
                    decoder.list(|decoder| Ok((decoder.text()?.to_owned(), decoder.i64()?)))?;
                Ok(Self::Seed { database, values, force })
            }
            _ => Err(Malformed("a change of identities is of an unknown kind")),
        }
    }

    pub(crate) fn apply(self, applying: &mut Applying<'_>) -> Result<Vec<i64>, ClusterError> {
        let tx = &mut *applying.tx;
        match self {
            Self::Next { database, names } => names
                .iter()
                .map(|name| {
                    let next = stored(tx, database, name)?.unwrap_or(0).saturating_add(1);
                    store(tx, database, name, next)
                })
                .collect(),
            Self::Seed { database, values, force } => values
                .iter()
                .map(|(name, wanted)| {
                    let value = match stored(tx, database, name)? {
                        Some(present) if !force => present.max(*wanted),
                        _ => *wanted,
                    };
                    store(tx, database, name, value)
                })
                .collect(),
        }
    }
}

/// All identities of a database: the lower-case name with its `|`, and the last value.
pub(crate) fn all(
    tx: &impl Transaction,
    database: DatabaseId,
) -> Result<Vec<(String, i64)>, ClusterError> {
    let mut found = Vec::new();
    for entry in tx.tree(&schema::identities())?.range(Bound::Included(&database.0))? {
        let (key, value) = entry?;
        if !key.starts_with(&database.0) {
            break;
        }
        let name = String::from_utf8_lossy(&key[DATABASE_BYTES..]).into_owned();
        found.push((name, read_value(value)?));
    }
    Ok(found)
}

fn key(name: &str) -> String {
    let mut key = lower_case(name).into_owned();
    if !key.ends_with(SUFFIX) {
        key.push(SUFFIX);
    }
    key
}

fn stored(
    tx: &impl Transaction,
    database: DatabaseId,
    name: &str,
) -> Result<Option<i64>, ClusterError> {
    let key = key_of(database, key(name).as_bytes());
    tx.tree(&schema::identities())?.get(&key)?.map(read_value).transpose()
}

fn store(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    name: &str,
    value: i64,
) -> Result<i64, ClusterError> {
    let key = key_of(database, key(name).as_bytes());
    tx.tree_mut(&schema::identities())?.put(&key, &value.to_le_bytes())?;
    Ok(value)
}

fn read_value(bytes: &[u8]) -> Result<i64, ClusterError> {
    let value = <[u8; 8]>::try_from(bytes).map(i64::from_le_bytes);
    value.map_err(|_| ClusterError::Corrupt { detail: "an identity's value is damaged" })
}
