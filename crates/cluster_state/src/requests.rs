//! The most recently answered requests. A client repeats a request if the answer was lost; it is then
//! answered from here instead of being applied again.
//!
//! Invariant: a request is in both trees or in neither.

use std::ops::Bound;

use model::DatabaseId;
use storage::{Transaction, WriteTransaction};

use crate::{
    command::Outcome,
    encoding::{Decoder, Encoder},
    error::ClusterError,
    schema,
};

/// Remembered requests; the oldest are dropped first.
const REQUESTS_MAX: u64 = 4096;
/// Longer ids are not remembered.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Larger outcomes are not remembered.
pub(crate) const OUTCOME_BYTES_MAX: usize = 64 << 10;

/// The key of a request. Ids are scoped to a database.
pub(crate) fn key(database: DatabaseId, id: &str) -> Option<Vec<u8>> {
    let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
    fits.then(|| schema::key_of(database, id.as_bytes()))
}

/// The index and outcome of the request with this key.
pub(crate) fn find(
    tx: &impl Transaction,
    key: &[u8],
) -> Result<Option<(u64, Outcome)>, ClusterError> {
    let Some(bytes) = tx.tree(&schema::requests())?.get(key)? else { return Ok(None) };
    let mut decoder = Decoder::new(bytes);
    let index = decoder.u64()?;
    let outcome = Outcome::decode(&mut decoder)?;
    decoder.end()?;
    Ok(Some((index, outcome)))
}

/// Remembers the outcome of the request that made this change.
pub(crate) fn remember(
    tx: &mut WriteTransaction,
    key: &[u8],
    index: u64,
    outcome: &Outcome,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    encoder.u64(index);
    outcome.encode(&mut encoder);
    if OUTCOME_BYTES_MAX < encoder.bytes_written() {
        return Ok(());
    }
    tx.tree_mut(&schema::requests())?.put(key, &encoder.finish())?;
    tx.tree_mut(&schema::requests_by_index())?.put(&index.to_be_bytes(), key)?;
    if REQUESTS_MAX < tx.tree(&schema::requests_by_index())?.len() {
        forget_oldest(tx)?;
    }
    Ok(())
}

fn forget_oldest(tx: &mut WriteTransaction) -> Result<(), ClusterError> {
    let oldest = tx.tree(&schema::requests_by_index())?.range(Bound::Unbounded)?.next();
    let Some(oldest) = oldest.transpose()? else { return Ok(()) };
    let (index, key) = (oldest.0, oldest.1.to_vec());
    tx.tree_mut(&schema::requests_by_index())?.delete(&index)?;
    tx.tree_mut(&schema::requests())?.delete(&key)?;
    Ok(())
}
