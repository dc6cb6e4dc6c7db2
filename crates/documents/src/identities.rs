//! Identities: counters shared by all clients that use their name.

use std::ops::Bound;

use model::{DOCUMENT_ID_BYTES_MAX, DocumentIdTooLong, lower_case};
use storage::{Transaction, WriteTransaction};

use crate::{error::DocumentError, schema};

const SUFFIX: char = '|';

/// All identities, by name: the lower-cased name with its `|`, and the last value.
///
/// # Errors
/// Storage errors; a damaged value.
pub fn identities(tx: &impl Transaction) -> Result<Vec<(String, i64)>, DocumentError> {
    let mut found = Vec::new();
    for entry in tx.tree(&schema::identities())?.range(Bound::Unbounded)? {
        let (name, value) = entry?;
        let name = String::from_utf8_lossy(&name).into_owned();
        found.push((name, read_value(value)?));
    }
    Ok(found)
}

/// Takes the next value; the first is 1.
pub(crate) fn next(tx: &mut WriteTransaction, name: &str) -> Result<i64, DocumentError> {
    let key = key(name)?;
    let value = value(tx, &key)?.unwrap_or(0).saturating_add(1);
    tx.tree_mut(&schema::identities())?.put(&key, &value.to_le_bytes())?;
    Ok(value)
}

/// Sets the value unless it is smaller than the current one, or unconditionally when forced;
/// returns the resulting value.
pub(crate) fn seed(
    tx: &mut WriteTransaction,
    name: &str,
    wanted: i64,
    force: bool,
) -> Result<i64, DocumentError> {
    let key = key(name)?;
    let value = match value(tx, &key)? {
        Some(present) if !force => present.max(wanted),
        _ => wanted,
    };
    tx.tree_mut(&schema::identities())?.put(&key, &value.to_le_bytes())?;
    Ok(value)
}

fn value(tx: &impl Transaction, key: &[u8]) -> Result<Option<i64>, DocumentError> {
    tx.tree(&schema::identities())?.get(key)?.map(read_value).transpose()
}

fn read_value(bytes: &[u8]) -> Result<i64, DocumentError> {
    let value = <[u8; 8]>::try_from(bytes).map(i64::from_le_bytes);
    value.map_err(|_| DocumentError::Corrupt { detail: "an identity's value is damaged" })
}

fn key(name: &str) -> Result<Vec<u8>, DocumentError> {
    let mut key = lower_case(name).into_owned();
    if !key.ends_with(SUFFIX) {
        key.push(SUFFIX);
    }
    // Leaves room for the `|` after the longest id, so that the complete id is what is checked.
    if DOCUMENT_ID_BYTES_MAX + 1 < key.len() {
        let error = DocumentIdTooLong { id: name.to_owned(), bytes: key.len() - 1 };
        return Err(DocumentError::IdTooLong(error));
    }
    Ok(key.into_bytes())
}
