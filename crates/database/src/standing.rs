//! Whether the server's own environment and the files of a database belong together.
//!
//! Each records the other: the server's environment stores the newest incarnation of each database; a
//! database stores the point in the history of the server's environment at which that incarnation began, and
//! the point of the last cluster-wide transaction it executed. Files that are missing, belong to another
//! database, or are older than the server knows are therefore not opened; and if the server's environment is
//! older than a database knows, it does no cluster-wide work for that database.
//!
//! ```text
//! tree "Environments" of the server's environment: lower-cased name → point of the newest incarnation, 32
//! ```
//!
//! A row exists from the first write to the database until its files are deleted. Its identity alone decides
//! whose files these are.
//!
//! See `docs/internals/history.md`.

use std::{ops::Bound, sync::Arc};

use cluster_state::{ClusterStore, environments};
use documents::ExecutedTransactions;
use model::DatabaseRecord;
use platform::Platform;
use storage::{
    Environment, EnvironmentOptions, History, HistoryMismatch, HistoryPoint, IncarnationWitness,
    ReadTransaction, StorageError, Transaction,
};

use crate::error::{CatalogError, LoadError};

/// The newest known incarnation of the database with this key.
pub(crate) fn known_point(
    tx: &impl Transaction,
    key: &str,
) -> Result<Option<HistoryPoint>, CatalogError> {
    let tree = tx.tree(&environments())?;
    tree.get(key.as_bytes())?.map(|value| read_point(key, value)).transpose()
}

/// All known incarnations, by key.
pub(crate) fn known_points(
    read: &ReadTransaction,
) -> Result<Vec<(String, HistoryPoint)>, CatalogError> {
    let tree = read.tree(&environments())?;
    let mut points = Vec::new();
    for row in tree.range(Bound::Unbounded)? {
        let (key, value) = row?;
        let key = String::from_utf8_lossy(&key).into_owned();
        let point = read_point(&key, value)?;
        points.push((key, point));
    }
    Ok(points)
}

fn read_point(key: &str, value: &[u8]) -> Result<HistoryPoint, CatalogError> {
    let damaged = || CatalogError::CorruptRecord { key: key.to_owned() };
    HistoryPoint::from_bytes(value).ok_or_else(damaged)
}

/// The server's environment, as a witness of the history of a database.
pub(crate) struct CatalogWitness {
    pub(crate) environment: Arc<Environment>,
    /// The lower-cased name of the database.
    pub(crate) key: String,
}

impl IncarnationWitness for CatalogWitness {
    fn above(&self, before: Option<HistoryPoint>) -> Result<Option<HistoryPoint>, StorageError> {
        match before {
            // Otherwise a single write would hide that they do not belong together.
            Some(before) if self.environment.vouches_for(&before)?.is_err() => Ok(Some(before)),
            Some(_) | None => self.environment.point_of(&self.environment.read()),
        }
    }

    fn began(&self, point: HistoryPoint) -> Result<(), StorageError> {
        let mut tx = self.environment.write()?;
        tx.tree_mut(&environments())?.put(self.key.as_bytes(), &point.to_bytes())?;
        tx.commit()
    }
}

/// The server's environment, as accepted by an operator: what a database recorded about another one is
/// discarded.
struct AdoptingWitness(CatalogWitness);

impl IncarnationWitness for AdoptingWitness {
    fn above(&self, _before: Option<HistoryPoint>) -> Result<Option<HistoryPoint>, StorageError> {
        self.0.above(None)
    }

    fn began(&self, point: HistoryPoint) -> Result<(), StorageError> {
        self.0.began(point)
    }
}

/// Makes the server's environment and the files of a database accept each other in their current state.
/// Cluster-wide transactions stored for the database and not executed are dropped.
///
/// # Errors
/// The files cannot be opened or written. A retry repeats the steps done so far.
pub(crate) fn adopt(
    platform: &Platform,
    witness: CatalogWitness,
    cluster: &ClusterStore,
    record: &DatabaseRecord,
    options: EnvironmentOptions,
) -> Result<(), LoadError> {
    let history = History::Witnessed(Arc::new(AdoptingWitness(witness)));
    let environment = Environment::open(platform, EnvironmentOptions { history, ..options })?;
    let state = cluster.read();
    let executed = ExecutedTransactions {
        index: state.last_index().map_err(LoadError::Cluster)?,
        read_at: cluster.point_of(&state)?,
    };
    let mut tx = environment.write()?;
    documents::set_executed_transactions(&mut tx, record.topology_id, executed)?;
    tx.commit()?;
    cluster.refuse(record.topology_id, None);
    Ok(environment.close()?)
}

/// Refuses files that are older than the server knows.
pub(crate) fn check_history(
    environment: &Environment,
    known: Option<&HistoryPoint>,
) -> Result<(), LoadError> {
    let Some(known) = known else { return Ok(()) };
    let directory = environment.options().directory.clone();
    let vouched = environment.vouches_for(known)?;
    vouched.map_err(|mismatch| LoadError::OtherFiles { directory, mismatch })
}

/// Why cluster-wide work is refused for a database: it has seen a later state of the server's environment
/// than the present one, or lacks a cluster-wide transaction that it has executed. `None` if it is not refused.
pub(crate) fn check_cluster(
    cluster: &ClusterStore,
    (environment, is_in_memory): (&Environment, bool),
    record: &DatabaseRecord,
) -> Result<Option<String>, LoadError> {
    let executed = documents::executed_transactions(&environment.read(), record.topology_id)?;
    let seen = [environment.point_above()?, executed.read_at];
    let mut reason = None;
    for point in seen.iter().flatten() {
        if let Err(mismatch) = cluster.vouches_for(point)? {
            reason = Some(refusal(record.name.as_str(), mismatch));
        }
    }
    // A database in memory begins without documents each time, and misses nothing.
    if reason.is_none() && !is_in_memory {
        let state = cluster.read();
        let next = state.first_transaction_after(record.topology_id, executed.index);
        // The state forgets a transaction only when the database has executed it durably.
        let missing = next.map_err(LoadError::Cluster)?.map(|next| next.before);
        let missing = missing.filter(|missing| executed.index < *missing);
        reason = missing.map(|missing| refusal_of_older_files(record.name.as_str(), missing));
    }
    cluster.refuse(record.topology_id, reason.as_deref());
    Ok(reason)
}

fn refusal_of_older_files(database: &str, missing: u64) -> String {
    format!(
        "The files of the database '{database}' lack the cluster-wide transaction {missing}, which the \
         database has executed: they are an older copy, or lost their newest transactions. Compare \
         exchange, identities and cluster-wide transactions of this database are refused, because they \
         would follow on documents that are missing; everything else continues to work. Put the right \
         files back, or stop the server and declare these files the current ones: corvus offline adopt \
         <data directory> {database}"
    )
}

fn refusal(database: &str, mismatch: HistoryMismatch) -> String {
    format!(
        "The server's own environment (System) does not belong to the database '{database}': {mismatch}. \
         Compare exchange, identities and cluster-wide transactions of this database are refused, \
         because they would repeat or lose what was done before; everything else continues to work. Put \
         the right System directory back, or stop the server and declare this one the current one: \
         corvus offline adopt <data directory> {database}"
    )
}
