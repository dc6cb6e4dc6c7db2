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

use cluster::{Cluster, take_index};
use model::{DatabaseId, DatabaseName};
use platform::Platform;
use storage::{
    Environment, EnvironmentOptions, History, HistoryPoint, StorageError, Transaction, TreeName,
};

use crate::{
    error::CatalogError,
    record_format::{DatabaseRecord, read_record, write_record},
    standing::{CatalogWitness, forget_point, known_point},
};

const DATABASES: &[u8] = b"Databases";
const VALUES: &[u8] = b"Values";
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
        let options =
            EnvironmentOptions { history: History::Kept, ..EnvironmentOptions::new(directory) };
        let environment = Environment::open(platform, options)?;
        match environment.begin_writing() {
            // It begins with the first change once there is room.
            Ok(()) | Err(StorageError::DiskFull { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let records = read_records(&environment)?;
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
        let record = self.change_record(|index, platform| {
            let mut record = match existing {
                Some(existing) => DatabaseRecord {
                    disabled: new.disabled,
                    etag: index,
                    body: new.body,
                    ..DatabaseRecord::clone(&existing)
                },
                None => DatabaseRecord {
                    name: new.name,
                    disabled: new.disabled,
                    etag: index,
                    topology_index: index,
                    created: platform.clock.now(),
                    topology_id: random_id(platform),
                    cluster_transaction_id: random_id(platform),
                    requests: Vec::new(),
                    body: new.body,
                },
            };
            record.remember(request_id, index);
            record
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
        self.change_record(|index, _| {
            record.etag = index;
            change(&mut record, index);
            record
        })
        .map(Some)
    }

    /// Forgets a database. The index of the change; `None` when there is no such database.
    pub fn remove(&self, name: &str) -> Result<Option<u64>, CatalogError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(existing) = self.record(name) else { return Ok(None) };
        let key = existing.name.lower_cased();
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        tx.tree_mut(&tree(DATABASES))?.delete(key.as_bytes())?;
        forget_point(&mut tx, key)?;
        tx.commit()?;
        self.records.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(Some(index))
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
    pub(crate) fn known_point(&self, key: &str) -> Result<Option<HistoryPoint>, StorageError> {
        known_point(&self.environment.read(), key)
    }

    /// Who is notified of the incarnations of a database; `None` when it is on another disk, which
    /// does not last as long as this one.
    pub(crate) fn witness(&self, platform: &Platform, key: &str) -> Option<CatalogWitness> {
        Arc::ptr_eq(&self.platform.disk, &platform.disk).then(|| CatalogWitness {
            environment: Arc::clone(&self.environment),
            key: key.to_owned(),
        })
    }

    fn change_record(
        &self,
        make: impl FnOnce(u64, &Platform) -> DatabaseRecord,
    ) -> Result<Arc<DatabaseRecord>, CatalogError> {
        let mut tx = self.environment.write()?;
        let index = take_index(&mut tx)?;
        let record = Arc::new(make(index, &self.platform));
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
