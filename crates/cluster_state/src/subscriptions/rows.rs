//! Subscriptions as rows: settings, progress, and names.

use std::ops::Bound;

use model::{DatabaseId, lower_case};
use storage::{Transaction, WriteTransaction};

use crate::{
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, key_of},
    subscriptions::SubscriptionRecord,
};

pub(super) fn put_record(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    record: &SubscriptionRecord,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    record.encode_settings(&mut encoder);
    let id = record.id.to_be_bytes();
    let name = key_of(database, lower_case(&record.name).as_bytes());
    tx.tree_mut(&schema::subscriptions())?.put(&key_of(database, &id), &encoder.finish())?;
    tx.tree_mut(&schema::subscription_names())?.put(&name, &id)?;
    Ok(())
}

pub(super) fn put_progress(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    record: &SubscriptionRecord,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    record.encode_progress(&mut encoder);
    let key = key_of(database, &record.id.to_be_bytes());
    tx.tree_mut(&schema::subscription_progress())?.put(&key, &encoder.finish())?;
    Ok(())
}

/// The subscription with this name, in any case.
pub(crate) fn by_name(
    tx: &impl Transaction,
    database: DatabaseId,
    name: &str,
) -> Result<Option<SubscriptionRecord>, ClusterError> {
    let key = key_of(database, lower_case(name).as_bytes());
    let Some(id) = tx.tree(&schema::subscription_names())?.get(&key)? else { return Ok(None) };
    by_id(tx, database, id_of(id)?)
}

/// The subscription with this id.
pub(crate) fn by_id(
    tx: &impl Transaction,
    database: DatabaseId,
    id: u64,
) -> Result<Option<SubscriptionRecord>, ClusterError> {
    let key = key_of(database, &id.to_be_bytes());
    let Some(row) = tx.tree(&schema::subscriptions())?.get(&key)? else { return Ok(None) };
    let progress = tx.tree(&schema::subscription_progress())?.get(&key)?.unwrap_or_default();
    Ok(Some(read_record(id, row, progress)?))
}

fn read_record(id: u64, row: &[u8], progress: &[u8]) -> Result<SubscriptionRecord, Malformed> {
    let (mut row, mut progress) = (Decoder::new(row), Decoder::new(progress));
    let record = SubscriptionRecord::decode(id, &mut row, Some(&mut progress))?;
    row.end()?;
    progress.end()?;
    Ok(record)
}

fn id_of(bytes: &[u8]) -> Result<u64, ClusterError> {
    let id = <[u8; 8]>::try_from(bytes);
    id.map(u64::from_be_bytes).map_err(|_| ClusterError::Corrupt {
        detail: "the name of a subscription has a malformed id",
    })
}

/// The subscriptions of a database, ordered by lower-case name.
pub(crate) fn all<'t, T: Transaction>(
    tx: &'t T,
    database: DatabaseId,
) -> Result<impl Iterator<Item = Result<SubscriptionRecord, ClusterError>> + use<'t, T>, ClusterError>
{
    let names = tx.tree(&schema::subscription_names())?.range(Bound::Included(&database.0))?;
    let is_within = move |entry: &Result<(Vec<u8>, &[u8]), _>| {
        entry.as_ref().map_or(true, |(key, _)| key.starts_with(&database.0))
    };
    Ok(names.take_while(is_within).map(move |entry| {
        let missing = ClusterError::Corrupt { detail: "a named subscription is missing" };
        by_id(tx, database, id_of(entry?.1)?)?.ok_or(missing)
    }))
}
