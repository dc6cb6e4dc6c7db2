//! The server's own environment: the list of databases, and values that belong to the server.
//!
//! State shared by all nodes changes only through the [`Cluster`], which numbers every change; clients see
//! the number as the raft index and as the etags of records and topologies. State of this node alone, such as
//! its id and which files belong to which database, is written here directly.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use cluster::Cluster;
use cluster_state::{
    Command, DatabaseRecord, NewDatabase, Outcome, PendingRemoval, RecordChange, RecordCommand,
    RecordDraft, RecordOutcome, ServerValue, ServerValueCommand, end_removal, pending_removals,
};
use model::{DatabaseId, DatabaseName};
use platform::Platform;
use storage::{
    Environment, EnvironmentOptions, History, HistoryPoint, StorageError, Transaction, TreeName,
};

use crate::{
    error::{CatalogError, LoadError},
    foreign_product::foreign_product,
    standing::{self, CatalogWitness, known_point, known_points},
};

/// Values of this node alone, by name.
const NODE: &[u8] = b"Node";
const SERVER_ID: &str = "Server/Id";
const TOPOLOGY_ID: &str = "Cluster/TopologyId";

/// The databases of the server, and the server's own values.
pub struct ServerCatalog {
    platform: Platform,
    environment: Arc<Environment>,
    cluster: Arc<Cluster>,
    /// Held by [`ServerCatalog::update`], so that concurrent updates on this server do not have to be
    /// repeated. `put` and the removals do not take it: they carry the version that they expect, or none.
    changing: Mutex<()>,
    server_id: [u8; 16],
    topology_id: [u8; 16],
}

/// A database to create, or a new record for an existing one.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// Its name.
    pub name: DatabaseName,
    /// Whether it is disabled.
    pub disabled: bool,
    /// The JSON object that the client sent.
    pub body: Vec<u8>,
    /// The id of the request, if the client sent one.
    pub request_id: Option<String>,
    /// Whether a new database adopts the files left behind by a deleted database of the same name.
    pub takes_over_files: bool,
    /// Whether the new record changes the client configuration.
    pub changes_client: bool,
}

/// A deleted database whose files are to be removed.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The index of the deletion.
    pub index: u64,
    /// The record of the deleted database.
    pub record: Arc<DatabaseRecord>,
    /// The identity of its environment; `None` if it was never opened.
    pub environment_id: Option<u128>,
}

/// The result of writing a record.
#[derive(Clone, Debug)]
pub struct WrittenRecord {
    /// The current record.
    pub record: Arc<DatabaseRecord>,
    /// The index of the change made by the request.
    pub index: u64,
}

impl ServerCatalog {
    /// Opens the catalog in `directory`, or creates it there.
    pub fn open(platform: &Platform, directory: PathBuf) -> Result<ServerCatalog, CatalogError> {
        if let Some(product) = foreign_product(&*platform.disk, &directory) {
            return Err(CatalogError::Foreign { directory, product });
        }
        let options =
            EnvironmentOptions { history: History::Kept, ..EnvironmentOptions::new(directory) };
        let environment = Environment::open(platform, options)?;
        match environment.begin_writing() {
            // Without disk space, the history begins with the first change once there is room.
            Ok(()) | Err(StorageError::DiskFull { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let cluster = Cluster::start(Arc::clone(&environment), Arc::clone(&platform.clock))
            .map_err(CatalogError::Cluster)?;
        let server_id = own_id(platform, &environment, &cluster, SERVER_ID)?;
        let topology_id = own_id(platform, &environment, &cluster, TOPOLOGY_ID)?;
        Ok(ServerCatalog {
            platform: platform.clone(),
            environment,
            cluster: Arc::new(cluster),
            changing: Mutex::new(()),
            server_id,
            topology_id,
        })
    }

    /// The environment, to be flushed by the [`Flusher`](crate::Flusher).
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// The state shared by all nodes; it is stored in the same environment.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The id of this server, generated with its data directory.
    pub fn server_id(&self) -> [u8; 16] {
        self.server_id
    }

    /// The id of the cluster of which this server is the only node.
    pub fn topology_id(&self) -> [u8; 16] {
        self.topology_id
    }

    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.cluster.store().record(name)
    }

    /// All records, by lower-case name. Never blocks.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.cluster.store().records()
    }

    /// Creates a database, or replaces its record if `expected` is the record's version. A request that the
    /// record remembers changes nothing: it has been applied, and only its answer was lost. Blocks.
    ///
    /// # Errors
    /// The database exists, is missing, or has another version; files of a deleted database of that name
    /// still exist; cluster errors.
    pub fn put(
        &self,
        new: NewRecord,
        expected: Option<u64>,
    ) -> Result<WrittenRecord, CatalogError> {
        let change = match expected {
            Some(expected) => RecordChange::Replace {
                expected,
                draft: RecordDraft {
                    disabled: new.disabled,
                    body: new.body,
                    changes_topology: false,
                    changes_client: new.changes_client,
                },
            },
            None => RecordChange::Create(NewDatabase {
                disabled: new.disabled,
                keeps_files: new.takes_over_files,
                created_ticks: self.platform.clock.now().ticks(),
                topology_id: random_id(&self.platform),
                cluster_transaction_id: random_id(&self.platform),
                body: new.body,
            }),
        };
        let name = new.name.as_str().to_owned();
        let command = RecordCommand { name: new.name, request_id: new.request_id, change };
        match self.submit(command)?.1 {
            RecordOutcome::Stored { index } => self.written(name, index),
            RecordOutcome::AlreadyExists => Err(CatalogError::AlreadyExists { name }),
            RecordOutcome::BeingDeleted => Err(CatalogError::BeingDeleted { name }),
            RecordOutcome::Missing | RecordOutcome::Removed => Err(CatalogError::Missing { name }),
            RecordOutcome::OtherVersion { actual } => {
                let expected = expected.unwrap_or_default();
                Err(CatalogError::VersionMismatch { name, actual, expected })
            }
        }
    }

    /// Changes the record of an existing database; `None` if it does not exist. `change` is called with the
    /// record and a draft that changes nothing, and called again each time a concurrent change wins. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn update(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft),
    ) -> Result<Option<WrittenRecord>, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(record) = self.record(name) {
            let mut draft = RecordDraft::of(&record);
            change(&record, &mut draft);
            let change = RecordChange::Replace { expected: record.etag, draft };
            let name = record.name.clone();
            let command = RecordCommand { name, request_id: None, change };
            match self.submit(command)?.1 {
                RecordOutcome::Stored { index } => {
                    return self.written(record.name.as_str().to_owned(), index).map(Some);
                }
                RecordOutcome::OtherVersion { .. } => {}
                RecordOutcome::Missing
                | RecordOutcome::Removed
                | RecordOutcome::AlreadyExists
                | RecordOutcome::BeingDeleted => break,
            }
        }
        Ok(None)
    }

    /// Removes a database from the catalog but keeps its files and what is known about them, for a new
    /// database of that name that adopts them. Returns the index of the change; `None` if the database does
    /// not exist. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn remove(&self, name: &str) -> Result<Option<u64>, CatalogError> {
        let Some(record) = self.record(name) else { return Ok(None) };
        self.submit_removal(&record, false)
    }

    /// Removes a database from the catalog and, in the same transaction, records that its files are to be
    /// removed. `None` if the database does not exist. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn begin_deletion(&self, name: &str) -> Result<Option<Deletion>, CatalogError> {
        let Some(record) = self.record(name) else { return Ok(None) };
        let Some(index) = self.submit_removal(&record, true)? else { return Ok(None) };
        self.with_files(PendingRemoval { index, record }).map(Some)
    }

    /// Records that the files of a deleted database are gone, or do not belong to it.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub fn end_deletion(&self, index: u64) -> Result<(), CatalogError> {
        let mut tx = self.environment.write()?;
        end_removal(&mut tx, index).map_err(CatalogError::Cluster)?;
        Ok(tx.commit()?)
    }

    /// Deletions whose files have not been removed yet.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn deletions(&self) -> Result<Vec<Deletion>, CatalogError> {
        let pending = pending_removals(&self.environment.read()).map_err(CatalogError::Cluster)?;
        pending.into_iter().map(|removal| self.with_files(removal)).collect()
    }

    /// The identity of the environment that belongs to the database of this name, or that a deleted database
    /// of this name left behind; `None` if the database was never opened, or is in memory.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn environment_of(&self, name: &DatabaseName) -> Result<Option<u128>, CatalogError> {
        Ok(self.known_point(name.lower_cased())?.map(|point| point.environment))
    }

    /// Accepts the files that `options` name as those of a database that is not open, and makes the files
    /// accept this catalog and its cluster, whatever each side has recorded about another. Blocks.
    ///
    /// # Errors
    /// The database does not exist; the files or the catalog cannot be opened or written. It can be retried.
    pub fn adopt(&self, name: &DatabaseName, options: EnvironmentOptions) -> Result<(), LoadError> {
        let missing = || CatalogError::Missing { name: name.as_str().to_owned() };
        let record = self.record(name.as_str()).ok_or_else(missing)?;
        let witness = self.witness(name.lower_cased());
        standing::adopt(&self.platform, witness, self.cluster.store(), &record, options)
    }

    /// Another database that owns this environment.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn owner_of(&self, id: u128, but: &DatabaseName) -> Result<Option<String>, CatalogError> {
        for (key, point) in known_points(&self.environment.read())? {
            if point.environment == id
                && key != but.lower_cased()
                && let Some(record) = self.record(&key)
            {
                return Ok(Some(record.name.as_str().to_owned()));
            }
        }
        Ok(None)
    }

    /// The server value of this name, shared by all nodes.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn value(&self, name: &str) -> Result<Option<ServerValue>, CatalogError> {
        self.cluster.store().read().server_value(name).map_err(CatalogError::Cluster)
    }

    /// Stores a server value; returns the index of the change. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn put_value(&self, name: &str, bytes: &[u8]) -> Result<u64, CatalogError> {
        let value = ServerValueCommand { name: name.to_owned(), bytes: bytes.to_vec() };
        let applied = self.cluster.submit_and_wait(&Command::ServerValue(value));
        Ok(applied.map_err(CatalogError::Cluster)?.index)
    }

    /// The newest incarnation of a database that the server has been notified of; `None` if nothing has been
    /// written to the database since the server keeps track of this.
    pub(crate) fn known_point(&self, key: &str) -> Result<Option<HistoryPoint>, CatalogError> {
        known_point(&self.environment.read(), key)
    }

    /// The witness that is notified of new incarnations of a database on the catalog's disk.
    pub(crate) fn witness(&self, key: &str) -> CatalogWitness {
        CatalogWitness { environment: Arc::clone(&self.environment), key: key.to_owned() }
    }

    fn submit(&self, command: RecordCommand) -> Result<(u64, RecordOutcome), CatalogError> {
        let applied = self.cluster.submit_and_wait(&Command::Record(command));
        let applied = applied.map_err(CatalogError::Cluster)?;
        match applied.outcome {
            Outcome::Record(outcome) => Ok((applied.index, outcome)),
            other => unreachable!("a change of a record had the outcome {other:?}"),
        }
    }

    fn submit_removal(
        &self,
        record: &DatabaseRecord,
        removes_files: bool,
    ) -> Result<Option<u64>, CatalogError> {
        let change = RecordChange::Remove { removes_files };
        let name = record.name.clone();
        let (index, outcome) = self.submit(RecordCommand { name, request_id: None, change })?;
        Ok((outcome == RecordOutcome::Removed).then_some(index))
    }

    fn written(&self, name: String, index: u64) -> Result<WrittenRecord, CatalogError> {
        match self.record(&name) {
            Some(record) => Ok(WrittenRecord { record, index }),
            // The database has been deleted in the meantime.
            None => Err(CatalogError::Missing { name }),
        }
    }

    fn with_files(&self, removal: PendingRemoval) -> Result<Deletion, CatalogError> {
        let PendingRemoval { index, record } = removal;
        let environment_id = self.environment_of(&record.name)?;
        Ok(Deletion { index, record, environment_id })
    }
}

/// The id of this node under a name, generated if there is none. Earlier builds stored it among the shared
/// values.
fn own_id(
    platform: &Platform,
    environment: &Arc<Environment>,
    cluster: &Cluster,
    name: &str,
) -> Result<[u8; 16], CatalogError> {
    let node = TreeName::of(&[NODE]);
    let stored = environment.read().tree(&node)?.get(name.as_bytes())?.map(|bytes| bytes.to_vec());
    if let Some(id) = stored.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
        return Ok(id);
    }
    let earlier = cluster.store().read().server_value(name).map_err(CatalogError::Cluster)?;
    let earlier = earlier.and_then(|value| <[u8; 16]>::try_from(value.bytes).ok());
    let id = earlier.unwrap_or_else(|| random_id(platform).0);
    let mut tx = environment.write()?;
    tx.tree_mut(&node)?.put(name.as_bytes(), &id)?;
    tx.commit()?;
    Ok(id)
}

fn random_id(platform: &Platform) -> DatabaseId {
    let mut id = [0; 16];
    platform.entropy.fill(&mut id);
    DatabaseId(id)
}
