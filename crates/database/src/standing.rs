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

use cluster_state::{ClusterError, ClusterStore, environments, topology_of};
use documents::ExecutedTransactions;
use model::{DatabaseId, DatabaseRecord, NodeTag};
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
    /// The id of its topology.
    pub(crate) database: DatabaseId,
    /// This node.
    pub(crate) node_tag: NodeTag,
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
        // It may have been deleted here since it was opened. Its files would be taken for those of the next one of its name.
        let topology = topology_of(&tx, &self.key).map_err(|error| match error {
            ClusterError::Storage(error) => error,
            _ => StorageError::Closed,
        })?;
        let is_here = topology.is_some_and(|(database, topology)| {
            database == self.database && topology.has(self.node_tag)
        });
        if !is_here {
            return Err(StorageError::Closed);
        }
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

#[cfg(test)]
mod tests {
    use model::DatabaseName;

    use super::*;
    use crate::{DeletedFiles, NewDatabase, ServerCatalog};

    /// As when another node deletes it while it is being opened here: it is closed a moment later.
    #[test]
    fn files_of_a_deleted_database_are_not_those_of_the_next_one_of_its_name() {
        let catalog = ServerCatalog::open(&Platform::memory(), "/data/System".into()).unwrap();
        let new = || NewDatabase {
            name: DatabaseName::new("a").unwrap(),
            disabled: false,
            topology: None,
            body: b"{}".to_vec(),
            request_id: None,
        };
        let point =
            |environment: u128| HistoryPoint { environment, incarnation: 1, transaction: 1 };
        let first = catalog.create(new()).unwrap().record;
        let witness = catalog.witness(&first);
        witness.began(point(1)).unwrap();
        assert_eq!(catalog.known_point("a").unwrap(), Some(point(1)));
        catalog.delete("a", |_| Some(DeletedFiles::Removed)).unwrap();
        assert!(witness.began(point(1)).is_err());
        assert_eq!(catalog.known_point("a").unwrap(), None);
        let deletion = catalog.pending_deletions().unwrap().pop().unwrap().unwrap();
        catalog.end_deletion(&deletion).unwrap();
        let second = catalog.create(new()).unwrap().record;
        assert!(witness.began(point(1)).is_err());
        catalog.witness(&second).began(point(2)).unwrap();
        assert_eq!(catalog.known_point("a").unwrap(), Some(point(2)));
    }
}
