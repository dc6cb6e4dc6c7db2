//! The server's own small environment: which databases there are, and what the server keeps beside.
//!
//! Every change takes the next index of one counter that never goes back, shared with the cluster's
//! state; clients know it as the raft index and as the etags of records and topologies. Records are also held in memory, because
//! every request asks for one. Invariant: memory changes only after the change is durable.

use std::{
    collections::BTreeMap,
    ops::Bound,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use cluster::Cluster;
use cluster_state::take_index;
use model::{DatabaseId, DatabaseName};
use platform::Platform;
use storage::{
    Environment, EnvironmentOptions, History, HistoryPoint, StorageError, Transaction, TreeName,
    WriteTransaction,
};

use crate::{
    error::{CatalogError, LoadError},
    files::foreign_product,
    record_format::{DatabaseRecord, read_record, write_record},
    standing::{self, CatalogWitness, forget_point, known_point, known_points},
};

const DATABASES: &[u8] = b"Databases";
const VALUES: &[u8] = b"Values";
/// Index of the deletion → the record of a database whose files are to be removed.
const DELETIONS: &[u8] = b"Deletions";
const SERVER_ID: &str = "Server/Id";
const TOPOLOGY_ID: &str = "Cluster/TopologyId";

/// The databases of the server, and values of its own.
pub struct ServerCatalog {
    platform: Platform,
    environment: Arc<Environment>,
    cluster: Arc<Cluster>,
    /// Held through a change, so that memory follows the disk in the same order.
    changing: Mutex<()>,
    records: RwLock<BTreeMap<String, Arc<DatabaseRecord>>>,
    deletions: Mutex<Vec<Deletion>>,
    server_id: [u8; 16],
    topology_id: [u8; 16],
}

/// A database to create, or a new record for one.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// Its name.
    pub name: DatabaseName,
    /// Whether it is switched off.
    pub disabled: bool,
    /// The JSON object that the client sent.
    pub body: Vec<u8>,
    /// The id of the request, if the client gave it one.
    pub request_id: Option<String>,
    /// Whether one that is created takes over the files that a deleted database of its name left.
    pub takes_over_files: bool,
}

/// A database that was deleted, and whose files are to be removed.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The index of the deletion.
    pub index: u64,
    /// What the database was.
    pub record: Arc<DatabaseRecord>,
    /// The identity of its environment; `None` when it was never opened.
    pub environment_id: Option<u128>,
}

/// A record that was put.
#[derive(Clone, Debug)]
pub struct PutRecord {
    /// The record as it is now.
    pub record: Arc<DatabaseRecord>,
    /// The index of the change that the request made.
    pub index: u64,
}

/// A value that the server keeps under a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerValue {
    /// The index of the change that wrote it.
    pub index: u64,
    /// What was written.
    pub bytes: Vec<u8>,
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
            // It begins with the first change once there is room.
            Ok(()) | Err(StorageError::DiskFull { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let records = read_records(&environment)?;
        let deletions = read_deletions(&environment)?;
        let cluster = Cluster::start(Arc::clone(&environment), Arc::clone(&platform.clock))
            .map_err(CatalogError::Cluster)?;
        let server_id = stored_id(platform, &environment, SERVER_ID)?;
        let topology_id = stored_id(platform, &environment, TOPOLOGY_ID)?;
        Ok(ServerCatalog {
            platform: platform.clone(),
            environment,
            cluster: Arc::new(cluster),
            changing: Mutex::new(()),
            records: RwLock::new(records),
            deletions: Mutex::new(deletions),
            server_id,
            topology_id,
        })
    }

    /// The environment, for whoever flushes it.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// What all nodes agree on; it lives in the same environment.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The id of this server, made when its data directory was.
    pub fn server_id(&self) -> [u8; 16] {
        self.server_id
    }

    /// The id of the cluster of which this server is the only node.
    pub fn topology_id(&self) -> [u8; 16] {
        self.topology_id
    }

    /// The record of a database, whatever the case of the name.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        let records = self.records.read().unwrap_or_else(PoisonError::into_inner);
        records.get(model::lower_case(name).as_ref()).cloned()
    }

    /// All records, by lower-cased name.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        let records = self.records.read().unwrap_or_else(PoisonError::into_inner);
        records.values().cloned().collect()
    }

    /// Creates a database, or replaces its record when `expected` names the record's version. A
    /// request that the record remembers changes nothing: it has been done, and only its answer was
    /// lost on the way.
    pub fn put(&self, new: NewRecord, expected: Option<u64>) -> Result<PutRecord, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let existing = self.record(new.name.as_str());
        let request_id = new.request_id.as_deref();
        if let (Some(record), Some(request_id)) = (&existing, request_id)
            && let Some(index) = record.index_of(request_id)
        {
            return Ok(PutRecord { record: Arc::clone(record), index });
        }
        check_expectation(new.name.as_str(), existing.as_deref(), expected)?;
        let is_deleted = |deletion: &Deletion| deletion.record.name == new.name;
        if existing.is_none() && self.deletions().iter().any(is_deleted) {
            return Err(CatalogError::BeingDeleted { name: new.name.as_str().to_owned() });
        }
        let record = self.change_record(|tx, index| {
            let mut record = match existing {
                Some(existing) => DatabaseRecord {
                    disabled: new.disabled,
                    etag: index,
                    body: new.body,
                    ..DatabaseRecord::clone(&existing)
                },
                None => {
                    if !new.takes_over_files {
                        forget_point(tx, new.name.lower_cased())?;
                    }
                    DatabaseRecord {
                        name: new.name,
                        disabled: new.disabled,
                        etag: index,
                        topology_index: index,
                        created: self.platform.clock.now(),
                        topology_id: random_id(&self.platform),
                        cluster_transaction_id: random_id(&self.platform),
                        requests: Vec::new(),
                        body: new.body,
                    }
                }
            };
            record.remember(request_id, index);
            Ok(record)
        })?;
        Ok(PutRecord { index: record.etag, record })
    }

    /// Changes the record of an existing database; `None` when there is none.
    pub fn update(
        &self,
        name: &str,
        change: impl FnOnce(&mut DatabaseRecord, u64),
    ) -> Result<Option<Arc<DatabaseRecord>>, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(existing) = self.record(name) else { return Ok(None) };
        let mut record = DatabaseRecord::clone(&existing);
        self.change_record(|_, index| {
            record.etag = index;
            change(&mut record, index);
            Ok(record)
        })
        .map(Some)
    }

    /// Forgets a database, whose files stay: what is known of them does, too, for a database of that name
    /// that takes them over. The index of the change; `None` when there is no such database.
    pub fn remove(&self, name: &str) -> Result<Option<u64>, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(existing) = self.record(name) else { return Ok(None) };
        let key = existing.name.lower_cased();
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        tx.tree_mut(&tree(DATABASES))?.delete(key.as_bytes())?;
        tx.commit()?;
        self.records.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(Some(index))
    }

    /// Forgets a database and remembers, durably and in the same step, that its files are to be removed.
    /// `None` when there is no such database.
    pub fn begin_deletion(&self, name: &str) -> Result<Option<Deletion>, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = self.record(name) else { return Ok(None) };
        let key = record.name.lower_cased().to_owned();
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        tx.tree_mut(&tree(DATABASES))?.delete(key.as_bytes())?;
        tx.tree_mut(&tree(DELETIONS))?.put(&index.to_be_bytes(), &write_record(&record))?;
        let environment_id = known_point(&tx, &key)?.map(|point| point.environment);
        tx.commit()?;
        let deletion = Deletion { index, record, environment_id };
        self.deletions.lock().unwrap_or_else(PoisonError::into_inner).push(deletion.clone());
        self.records.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        Ok(Some(deletion))
    }

    /// Says that the files of a deleted database are gone, or are none of its.
    pub fn end_deletion(&self, index: u64) -> Result<(), CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ended = |deletion: &Deletion| deletion.index == index;
        let mut tx = self.environment.write()?;
        tx.tree_mut(&tree(DELETIONS))?.delete(&index.to_be_bytes())?;
        if let Some(deletion) = self.deletions().into_iter().find(is_ended) {
            forget_point(&mut tx, deletion.record.name.lower_cased())?;
        }
        tx.commit()?;
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        deletions.retain(|deletion| !is_ended(deletion));
        Ok(())
    }

    /// The deletions that were begun and have not ended.
    pub fn deletions(&self) -> Vec<Deletion> {
        self.deletions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The identity of the environment that the database of this name has, or a deleted one of this name
    /// left where it was; `None` when it was never opened, or lives in memory.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn environment_of(&self, name: &DatabaseName) -> Result<Option<u128>, CatalogError> {
        Ok(self.known_point(name.lower_cased())?.map(|point| point.environment))
    }

    /// Takes the files that `options` name, as they are, for those of a database that is not open, and
    /// this catalog and its cluster for those of the files, whatever each knew of others. Blocks.
    ///
    /// # Errors
    /// When there is no such database, and those of opening and writing the files and the catalog. It can
    /// be tried again.
    pub fn adopt(&self, name: &DatabaseName, options: EnvironmentOptions) -> Result<(), LoadError> {
        let missing = || CatalogError::Missing { name: name.as_str().to_owned() };
        let record = self.record(name.as_str()).ok_or_else(missing)?;
        let witness = self.witness(name.lower_cased());
        standing::adopt(&self.platform, witness, self.cluster.store(), &record, options)
    }

    /// The other database that is known to have this environment.
    ///
    /// # Errors
    /// Those of reading the catalog.
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

    /// The value under a name.
    pub fn value(&self, name: &str) -> Result<Option<ServerValue>, CatalogError> {
        let tx = self.environment.read();
        let tree = tx.tree(&tree(VALUES))?;
        Ok(tree.get(name.as_bytes())?.and_then(read_value))
    }

    /// Stores a value under a name and gives the index of the change.
    pub fn put_value(&self, name: &str, bytes: &[u8]) -> Result<u64, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        tx.tree_mut(&tree(VALUES))?.put(name.as_bytes(), &write_value(index, bytes))?;
        tx.commit()?;
        Ok(index)
    }

    /// The newest incarnation of a database of which the server was notified; `None` when it was not
    /// written to since the server keeps that.
    pub(crate) fn known_point(&self, key: &str) -> Result<Option<HistoryPoint>, CatalogError> {
        known_point(&self.environment.read(), key)
    }

    /// Who is notified of the incarnations of a database on the catalog's disk.
    pub(crate) fn witness(&self, key: &str) -> CatalogWitness {
        CatalogWitness { environment: Arc::clone(&self.environment), key: key.to_owned() }
    }

    fn change_record(
        &self,
        make: impl FnOnce(&mut WriteTransaction, u64) -> Result<DatabaseRecord, StorageError>,
    ) -> Result<Arc<DatabaseRecord>, CatalogError> {
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        let record = Arc::new(make(&mut tx, index)?);
        let key = record.name.lower_cased().to_owned();
        tx.tree_mut(&tree(DATABASES))?.put(key.as_bytes(), &write_record(&record))?;
        tx.commit()?;
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        records.insert(key, Arc::clone(&record));
        Ok(record)
    }
}

fn check_expectation(
    name: &str,
    existing: Option<&DatabaseRecord>,
    expected: Option<u64>,
) -> Result<(), CatalogError> {
    let name = name.to_owned();
    match (existing, expected) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(CatalogError::Missing { name }),
        (Some(_), None) => Err(CatalogError::AlreadyExists { name }),
        (Some(record), Some(expected)) if record.etag == expected => Ok(()),
        (Some(record), Some(expected)) => {
            Err(CatalogError::VersionMismatch { name, actual: record.etag, expected })
        }
    }
}

fn read_records(
    environment: &Arc<Environment>,
) -> Result<BTreeMap<String, Arc<DatabaseRecord>>, CatalogError> {
    let tx = environment.read();
    let tree = tx.tree(&tree(DATABASES))?;
    let mut records = BTreeMap::new();
    for entry in tree.range(Bound::Unbounded)? {
        let (key, value) = entry?;
        let key = String::from_utf8_lossy(&key).into_owned();
        let Some(record) = read_record(value) else {
            return Err(CatalogError::CorruptRecord { key });
        };
        records.insert(key, Arc::new(record));
    }
    Ok(records)
}

fn read_deletions(environment: &Arc<Environment>) -> Result<Vec<Deletion>, CatalogError> {
    let tx = environment.read();
    let tree = tx.tree(&tree(DELETIONS))?;
    let mut deletions = Vec::new();
    for entry in tree.range(Bound::Unbounded)? {
        let (key, value) = entry?;
        let index = <[u8; 8]>::try_from(&key[..]).ok().map(u64::from_be_bytes);
        let (Some(index), Some(record)) = (index, read_record(value)) else {
            return Err(CatalogError::CorruptRecord { key: String::from_utf8_lossy(&key).into() });
        };
        let environment_id = known_point(&tx, record.name.lower_cased())?;
        let environment_id = environment_id.map(|point| point.environment);
        deletions.push(Deletion { index, record: Arc::new(record), environment_id });
    }
    Ok(deletions)
}

/// The id under this name, made now if there is none.
fn stored_id(
    platform: &Platform,
    environment: &Arc<Environment>,
    name: &str,
) -> Result<[u8; 16], CatalogError> {
    let snapshot = environment.read();
    let stored = snapshot.tree(&tree(VALUES))?.get(name.as_bytes())?.and_then(read_value);
    if let Some(id) = stored.and_then(|value| <[u8; 16]>::try_from(value.bytes.as_slice()).ok()) {
        return Ok(id);
    }
    let id = random_id(platform).0;
    let mut tx = environment.write()?;
    let index = take_index(&mut tx)?;
    tx.tree_mut(&tree(VALUES))?.put(name.as_bytes(), &write_value(index, &id))?;
    tx.commit()?;
    Ok(id)
}

fn random_id(platform: &Platform) -> DatabaseId {
    let mut id = [0; 16];
    platform.entropy.fill(&mut id);
    DatabaseId(id)
}

fn tree(name: &[u8]) -> TreeName {
    TreeName::of(&[name])
}

/// Eight bytes of index, then the value.
fn write_value(index: u64, bytes: &[u8]) -> Vec<u8> {
    [&index.to_le_bytes()[..], bytes].concat()
}

fn read_value(stored: &[u8]) -> Option<ServerValue> {
    let (index, bytes) = stored.split_first_chunk::<8>()?;
    Some(ServerValue { index: u64::from_le_bytes(*index), bytes: bytes.to_vec() })
}
