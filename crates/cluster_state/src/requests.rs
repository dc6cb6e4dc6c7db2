//! The requests that were answered last, so that one that a client repeats, because the answer was lost,
//! is answered again instead of done again.
//!
//! Invariant: a request stands in both trees or in neither.

use std::ops::Bound;

use model::DatabaseId;
use storage::{Transaction, WriteTransaction};

use crate::{
    command::Outcome,
    encoding::{Decoder, Encoder},
    error::ClusterError,
    schema,
};

/// Requests that are remembered; the oldest go first.
const REQUESTS_MAX: u64 = 4096;
/// A longer id is not remembered.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// A larger outcome is not remembered.
const OUTCOME_BYTES_MAX: usize = 64 << 10;

/// Where a request is remembered: ids of different databases have nothing to do with each other.
pub(crate) fn key(database: DatabaseId, id: &str) -> Option<Vec<u8>> {
    let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
    fits.then(|| schema::key_of(database, id.as_bytes()))
}

/// What the request with this key was answered.
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

/// Remembers what the request that made this change is answered.
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
