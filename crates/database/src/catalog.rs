//! The server's own environment: the list of databases, and values that belong to the server.
//!
//! State shared by all nodes changes only through the [`Cluster`], which numbers every change; clients see
//! the number as the raft index and as the etags of records and topologies. State of this node alone, such as
//! its id and which files belong to which database, is written here directly.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use cluster::{Cluster, ClusterOptions, Limits, NoPeers, Peers};
use cluster_state::{
    Command, Outcome, PendingDeletion, RecordChange, RecordCommand, RecordDraft, RecordOutcome,
    ServerValue, ServerValueCommand, end_deletion, pending_deletions, read_server_value,
};
use model::{DatabaseId, DatabaseName, DatabaseRecord, DatabaseTopology, NodeTag};
use platform::Platform;
use storage::{
    Environment, EnvironmentOptions, History, HistoryPoint, StorageError, Transaction, TreeName,
};

use crate::{
    error::{CatalogError, LoadError},
    foreign_product::foreign_product,
    name_locks::NameLocks,
    standing::{self, CatalogWitness, known_point, known_points},
};

/// Values of this node alone, by name.
const NODE: &[u8] = b"Node";
const SERVER_ID: &str = "Server/Id";
const TOPOLOGY_ID: &str = "Cluster/TopologyId";

/// What becomes of the files of a database that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedFiles {
    /// They remain for a new database of that name.
    Kept,
    /// They are removed.
    Removed,
}

/// The databases of the server, and the server's own values.
pub struct ServerCatalog {
    platform: Platform,
    environment: Arc<Environment>,
    cluster: Arc<Cluster>,
    /// Held while a record is changed, so that concurrent changes of one record on this server do not have to be
    /// repeated, and what is checked of this node's state before a command stays true until it is applied.
    changing: NameLocks,
    record_bytes_max: OnceLock<usize>,
    server_id: [u8; 16],
}

/// A database to create.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// The name of the new database.
    pub name: DatabaseName,
    /// Whether it is disabled.
    pub disabled: bool,
    /// The nodes that are to have it; `None`: this node alone.
    pub topology: Option<DatabaseTopology>,
    /// The JSON object that the client sent.
    pub body: Vec<u8>,
    /// The id of the request, if the client sent one.
    pub request_id: Option<String>,
}

/// A record that replaces that of an existing database as a whole.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The name of the database.
    pub name: DatabaseName,
    /// The version of the record to replace.
    pub expected: u64,
    /// Whether the database is disabled.
    pub disabled: bool,
    /// The JSON object that the client sent.
    pub body: Vec<u8>,
    /// The id of the request, if the client sent one.
    pub request_id: Option<String>,
}

/// What a change decided after it looked at the current record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The draft replaces the record.
    Replace,
    /// The record stays as it is.
    Keep,
}

/// The result of changing a record.
#[derive(Clone, Debug)]
pub struct WrittenRecord {
    /// The record after the change, or the current one if nothing was changed.
    pub record: Arc<DatabaseRecord>,
    /// The index of the change made by the request; that of the record if nothing was changed.
    pub index: u64,
}

impl ServerCatalog {
    /// Opens the catalog in `directory`, or creates it there, without a limit on memory and without a way to other
    /// nodes.
    ///
    /// # Errors
    /// Those of [`ServerCatalog::open_with`].
    pub fn open(platform: &Platform, directory: PathBuf) -> Result<ServerCatalog, CatalogError> {
        Self::open_with(platform, EnvironmentOptions::new(directory), Arc::new(NoPeers))
    }

    /// Opens the catalog in the directory of these options, or creates it there.
    ///
    /// # Errors
    /// The directory is that of another product; storage and cluster errors.
    pub fn open_with(
        platform: &Platform,
        options: EnvironmentOptions,
        peers: Arc<dyn Peers>,
    ) -> Result<ServerCatalog, CatalogError> {
        let directory = options.directory.clone();
        if let Some(product) = foreign_product(&*platform.disk, &directory) {
            return Err(CatalogError::Foreign { directory, product });
        }
        let options = EnvironmentOptions { history: History::Kept, ..options };
        let environment = Environment::open(platform, options)?;
        match environment.begin_writing() {
            // Without disk space, the history begins with the first change once there is room.
            Ok(()) | Err(StorageError::DiskFull { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let id = |name| -> Result<[u8; 16], CatalogError> {
            Ok(stored_id(&environment, name)?.unwrap_or_else(|| random_id(platform).0))
        };
        let (server_id, cluster_id) = (id(SERVER_ID)?, id(TOPOLOGY_ID)?);
        let options = ClusterOptions {
            environment: Arc::clone(&environment),
            clock: Arc::clone(&platform.clock),
            entropy: Arc::clone(&platform.entropy),
            peers,
            cluster: cluster_id,
            limits: Limits::default(),
        };
        let cluster = Cluster::start(options).map_err(CatalogError::Cluster)?;
        store_ids(&environment, &[(SERVER_ID, server_id), (TOPOLOGY_ID, cluster_id)])?;
        Ok(ServerCatalog {
            platform: platform.clone(),
            environment,
            cluster: Arc::new(cluster),
            changing: NameLocks::default(),
            record_bytes_max: OnceLock::new(),
            server_id,
        })
    }

    /// Limits the records of databases to this many bytes; without a call there is no limit. A record that is
    /// larger already may become smaller.
    pub fn limit_records(&self, bytes_max: usize) {
        self.record_bytes_max.get_or_init(|| bytes_max);
    }

    fn check_size(&self, name: &str, body: &[u8]) -> Result<(), CatalogError> {
        let bytes_max = self.record_bytes_max.get().copied().unwrap_or(usize::MAX);
        let present = self.record(name).map_or(0, |record| record.configuration.json().len());
        if body.len() <= bytes_max.max(present) {
            return Ok(());
        }
        let (name, bytes) = (name.to_owned(), body.len());
        Err(CatalogError::RecordTooLarge { name, bytes, bytes_max })
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

    /// The tag of this node in its cluster.
    pub fn node_tag(&self) -> NodeTag {
        self.cluster.node_tag()
    }

    /// The id of the cluster.
    pub fn topology_id(&self) -> [u8; 16] {
        self.cluster.id()
    }

    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.cluster.store().record(name)
    }

    /// All records, by lower-case name. Never blocks.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.cluster.store().records()
    }

    /// Creates a database in empty directories. A request that the record remembers changes nothing: it has been applied, and only its
    /// answer was lost. Blocks.
    ///
    /// # Errors
    /// The database exists; files of a deleted database of that name still exist on this node; cluster errors.
    pub fn create(&self, new: NewDatabase) -> Result<WrittenRecord, CatalogError> {
        self.create_checked(new, || Ok(false))
    }

    /// As [`Self::create`], but `adopts_files` decides whether the database adopts files, or refuses. It is called
    /// while the name is locked and no database has it, so that no deletion comes between.
    ///
    /// # Errors
    /// Those of [`Self::create`] and of `adopts_files`.
    pub fn create_checked<E: From<CatalogError>>(
        &self,
        new: NewDatabase,
        adopts_files: impl FnOnce() -> Result<bool, E>,
    ) -> Result<WrittenRecord, E> {
        let _changing = self.changing.lock(&new.name);
        if self.is_being_deleted(&new.name)? {
            let name = new.name.as_str().to_owned();
            return Err(CatalogError::BeingDeleted { name }.into());
        }
        // Otherwise the command is only submitted because the request may be a repeated one.
        let is_new = self.record(new.name.as_str()).is_none();
        let adopts_files = is_new && adopts_files()?;
        Ok(self.submit_new(new, adopts_files)?)
    }

    fn submit_new(
        &self,
        new: NewDatabase,
        adopts_files: bool,
    ) -> Result<WrittenRecord, CatalogError> {
        self.check_size(new.name.as_str(), &new.body)?;
        let change = RecordChange::Create(cluster_state::NewDatabase {
            disabled: new.disabled,
            adopts_files,
            created_ticks: self.platform.clock.now().ticks(),
            topology_id: random_id(&self.platform),
            cluster_transaction_id: random_id(&self.platform),
            topology: Some(new.topology.unwrap_or_else(|| DatabaseTopology::only(self.node_tag()))),
            body: new.body,
        });
        let name = new.name.as_str().to_owned();
        let command = RecordCommand { name: new.name, request_id: new.request_id, change };
        match self.submit(command)?.1 {
            RecordOutcome::Stored { index } => self.written(name, index),
            RecordOutcome::AlreadyExists
            | RecordOutcome::OtherVersion { .. }
            | RecordOutcome::Missing
            | RecordOutcome::Deleted => Err(CatalogError::AlreadyExists { name }),
        }
    }

    /// Replaces the record of a database, if it has the expected version. `changes_client` decides on the record
    /// that is replaced whether the client configuration changes. A repeated request is treated as by
    /// [`Self::create`]. Blocks.
    ///
    /// # Errors
    /// The database is missing, or its record has another version; the new record is too large; cluster errors.
    pub fn replace(
        &self,
        replacement: Replacement,
        changes_client: impl FnOnce(&DatabaseRecord) -> bool,
    ) -> Result<WrittenRecord, CatalogError> {
        let Replacement { name, expected, disabled, body, request_id } = replacement;
        self.check_size(name.as_str(), &body)?;
        let _changing = self.changing.lock(&name);
        let present = self.record(name.as_str());
        let replaced = present.filter(|record| record.etag == expected);
        // Otherwise the command is only submitted because the request may be a repeated one.
        let changes_client = replaced.is_none_or(|record| changes_client(&record));
        let draft =
            RecordDraft { disabled, body, topology: None, changes_topology: false, changes_client };
        let change = RecordChange::Replace { expected, draft };
        let owned = name.as_str().to_owned();
        match self.submit(RecordCommand { name, request_id, change })?.1 {
            RecordOutcome::Stored { index } => self.written(owned, index),
            RecordOutcome::OtherVersion { actual } => {
                Err(CatalogError::VersionMismatch { name: owned, actual, expected })
            }
            RecordOutcome::Missing | RecordOutcome::AlreadyExists | RecordOutcome::Deleted => {
                Err(CatalogError::Missing { name: owned })
            }
        }
    }

    /// Changes the record of an existing database; `None` if it does not exist. `change` is called with the
    /// record and a draft that changes nothing, and called again each time a concurrent change wins: what it
    /// decides is decided on the record that is replaced. Blocks.
    ///
    /// # Errors
    /// The new record is too large; cluster errors.
    pub fn update(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Decision,
    ) -> Result<Option<WrittenRecord>, CatalogError> {
        let Some(record) = self.record(name) else { return Ok(None) };
        let _changing = self.changing.lock(&record.name);
        while let Some(record) = self.record(name) {
            let mut draft = RecordDraft::of(&record);
            if change(&record, &mut draft) == Decision::Keep {
                let index = record.etag;
                return Ok(Some(WrittenRecord { record, index }));
            }
            self.check_size(name, &draft.body)?;
            let change = RecordChange::Replace { expected: record.etag, draft };
            let name = record.name.clone();
            let command = RecordCommand { name, request_id: None, change };
            match self.submit(command)?.1 {
                RecordOutcome::Stored { index } => {
                    return self.written(record.name.as_str().to_owned(), index).map(Some);
                }
                RecordOutcome::OtherVersion { .. } => {}
                RecordOutcome::Missing | RecordOutcome::Deleted | RecordOutcome::AlreadyExists => {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Deletes a database, if `decide` agrees on the record that is deleted, and says what becomes of its files;
    /// returns the index of the change. `None` if the database does not exist, or `decide` did not agree. In the same
    /// transaction, what is to be removed of it is noted: its entries in the shared state
    /// ([`ClusterState::deleted_databases`]), and its files
    /// ([`Self::pending_deletions`]) unless they are to be kept for a new database of that name. Blocks.
    ///
    /// [`ClusterState::deleted_databases`]: cluster_state::ClusterState::deleted_databases
    ///
    /// # Errors
    /// Cluster errors.
    pub fn delete(
        &self,
        name: &str,
        mut decide: impl FnMut(&DatabaseRecord) -> Option<DeletedFiles>,
    ) -> Result<Option<u64>, CatalogError> {
        let Some(record) = self.record(name) else { return Ok(None) };
        let _changing = self.changing.lock(&record.name);
        while let Some(record) = self.record(name) {
            let Some(files) = decide(&record) else { break };
            let removes_files = files == DeletedFiles::Removed;
            let change = RecordChange::Delete { expected: Some(record.etag), removes_files };
            let name = record.name.clone();
            match self.submit(RecordCommand { name, request_id: None, change })? {
                (index, RecordOutcome::Deleted) => return Ok(Some(index)),
                (_, RecordOutcome::OtherVersion { .. }) => {}
                (
                    _,
                    RecordOutcome::Missing
                    | RecordOutcome::Stored { .. }
                    | RecordOutcome::AlreadyExists,
                ) => break,
            }
        }
        Ok(None)
    }

    /// Takes a database from a node that has it and is not the only one, unless its record has changed; returns the index of
    /// the change if it was made. The node removes its files, or keeps them. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn take_from(
        &self,
        record: &DatabaseRecord,
        node: NodeTag,
        removes_files: bool,
    ) -> Result<Option<u64>, CatalogError> {
        let change = RecordChange::Leave { expected: record.etag, node, removes_files };
        let command = RecordCommand { name: record.name.clone(), request_id: None, change };
        Ok(match self.submit(command)? {
            (_, RecordOutcome::Stored { index }) => Some(index),
            (
                _,
                RecordOutcome::OtherVersion { .. }
                | RecordOutcome::Missing
                | RecordOutcome::Deleted
                | RecordOutcome::AlreadyExists,
            ) => None,
        })
    }

    /// Notes that the files of a deleted database are gone, or do not belong to it.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub fn end_deletion(&self, deletion: &PendingDeletion) -> Result<(), CatalogError> {
        let mut tx = self.environment.write()?;
        end_deletion(&mut tx, deletion).map_err(CatalogError::Cluster)?;
        Ok(tx.commit()?)
    }

    /// Deletions whose files have not been removed yet, oldest first. One that cannot be read is an error of its
    /// own.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn pending_deletions(
        &self,
    ) -> Result<Vec<Result<PendingDeletion, CatalogError>>, CatalogError> {
        let pending = pending_deletions(&self.environment.read()).map_err(CatalogError::Cluster)?;
        let deletions = pending.into_iter();
        Ok(deletions.map(|deletion| deletion.map_err(CatalogError::Cluster)).collect())
    }

    /// Whether files of a deleted database of this name are to be removed from this node. Until they are, no
    /// database of the name is created or opened here. A deletion that cannot be read removes no files, so it is
    /// not in the way.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn is_being_deleted(&self, name: &DatabaseName) -> Result<bool, CatalogError> {
        let is_it = |deletion: PendingDeletion| deletion.record.name == *name;
        Ok(self.pending_deletions()?.into_iter().flatten().any(is_it))
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
        let witness = self.witness(&record);
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

    /// Stores a server value, or removes it if it is empty; returns the index of the change. Blocks.
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
    pub(crate) fn witness(&self, record: &DatabaseRecord) -> CatalogWitness {
        CatalogWitness {
            environment: Arc::clone(&self.environment),
            key: record.name.lower_cased().to_owned(),
            database: record.topology_id,
            node_tag: self.node_tag(),
        }
    }

    fn submit(&self, command: RecordCommand) -> Result<(u64, RecordOutcome), CatalogError> {
        let applied = self.cluster.submit_and_wait(&Command::Record(command));
        let applied = applied.map_err(CatalogError::Cluster)?;
        match applied.outcome {
            Outcome::Record(outcome) => Ok((applied.index, outcome)),
            other => unreachable!("a change of a record had the outcome {other:?}"),
        }
    }

    fn written(&self, name: String, index: u64) -> Result<WrittenRecord, CatalogError> {
        match self.record(&name) {
            Some(record) => Ok(WrittenRecord { record, index }),
            // The database has been deleted in the meantime.
            None => Err(CatalogError::Missing { name }),
        }
    }
}

/// The id of this node under a name. Earlier builds stored it among the shared values.
///
/// # Errors
/// The stored id does not have 16 bytes: another one must not silently take its place.
fn stored_id(environment: &Environment, name: &str) -> Result<Option<[u8; 16]>, CatalogError> {
    let read = |bytes: &[u8]| {
        <[u8; 16]>::try_from(bytes)
            .map_err(|_| CatalogError::CorruptNodeValue { name: name.to_owned() })
    };
    let tx = environment.read();
    if let Some(id) = tx.tree(&TreeName::of(&[NODE]))?.get(name.as_bytes())? {
        return read(id).map(Some);
    }
    let earlier = read_server_value(&tx, name).map_err(CatalogError::Cluster)?;
    earlier.map(|value| read(&value.bytes)).transpose()
}

/// Stores the ids that are not stored yet.
fn store_ids(environment: &Arc<Environment>, ids: &[(&str, [u8; 16])]) -> Result<(), CatalogError> {
    let node = TreeName::of(&[NODE]);
    let is_stored = |name: &str| -> Result<bool, StorageError> {
        Ok(environment.read().tree(&node)?.get(name.as_bytes())?.is_some())
    };
    for (name, id) in ids {
        if !is_stored(name)? {
            let mut tx = environment.write()?;
            tx.tree_mut(&node)?.put(name.as_bytes(), id)?;
            tx.commit()?;
        }
    }
    Ok(())
}

fn random_id(platform: &Platform) -> DatabaseId {
    let mut id = [0; 16];
    platform.entropy.fill(&mut id);
    DatabaseId(id)
}
