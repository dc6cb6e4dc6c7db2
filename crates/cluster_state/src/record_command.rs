//! Records of databases: creating, replacing and removing them.
//!
//! ```text
//! fields    kind 1, name, optional request id, then by kind
//! create    disabled 1, adopts files 1, ticks of the creation 8, topology id 16,
//!           cluster transaction id 16, configuration
//! replace   disabled 1, expected etag 8, changes the topology 1, the client configuration 1, configuration
//! delete    removes files 1, expected etag 8; kind 3, of builds before format 4, has no etag
//! ```
//!
//! A change is decided by the client of this crate on the record it has read, and takes effect only if that is
//! still the current record: its etag is unique, so no other database of the name has it either. The state never
//! interprets a configuration, so nodes of different versions agree on it. Only what depends on the index of the
//! change is kept outside of the configuration.
//!
//! Invariant: the outcome depends on the shared state and the command alone. What is true of one node, such as
//! files that still have to be removed there, is checked before a command is submitted.

use std::{ops::Bound, sync::Arc};

use model::{
    DatabaseId, DatabaseName, DatabaseRecord, DatabaseTopology, NodeTag, RecordConfiguration,
};
use storage::Transaction;

use crate::{
    applying::Applying,
    database_nodes::{read_nodes, write_nodes},
    database_record::{index_of, read_record, remember, write_record},
    deletions,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    records::ChangedRecord,
    schema,
};

const CREATE: u8 = 1;
const REPLACE: u8 = 2;
const DELETE_ANY: u8 = 3;
const DELETE: u8 = 4;
const CREATE_ON: u8 = 5;
const REPLACE_WITH_NODES: u8 = 6;
const LEAVE: u8 = 7;

/// A change of the record of a database.
#[derive(Clone, Debug)]
pub struct RecordCommand {
    /// The name of the database, in any case.
    pub name: DatabaseName,
    /// The id of the request, if the client sent one. The record remembers it.
    pub request_id: Option<String>,
    /// The change to apply to the record.
    pub change: RecordChange,
}

/// A change of a record.
#[derive(Clone, Debug)]
pub enum RecordChange {
    /// Create it.
    Create(NewDatabase),
    /// Replace it, if it still has the expected etag.
    Replace {
        /// The expected etag.
        expected: u64,
        /// The new content.
        draft: RecordDraft,
    },
    /// Delete the database, if its record still has the expected etag.
    Delete {
        /// The expected etag; `None` in logs of builds before format 4, which deleted any.
        expected: Option<u64>,
        /// Whether to remove its files, which each node does on its own.
        removes_files: bool,
    },
    /// Take the database from a node, if its record still has the expected etag.
    Leave {
        /// The expected etag.
        expected: u64,
        /// The node.
        node: NodeTag,
        /// Whether the node is to remove its files.
        removes_files: bool,
    },
}

/// A database to create.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Whether the database is disabled.
    pub disabled: bool,
    /// Whether it adopts the files left behind by a deleted database of the same name.
    pub adopts_files: bool,
    /// The time of creation, in ticks.
    pub created_ticks: i64,
    /// The id of its database group, never used before.
    pub topology_id: DatabaseId,
    /// The id of its cluster transactions, never used before.
    pub cluster_transaction_id: DatabaseId,
    /// The nodes that have it; `None` in logs of builds before format 6: node A.
    pub topology: Option<DatabaseTopology>,
    /// Its configuration: a JSON object.
    pub body: Vec<u8>,
}

/// The new content of a record.
#[derive(Clone, Debug)]
pub struct RecordDraft {
    /// Whether the database is disabled.
    pub disabled: bool,
    /// Its configuration: a JSON object.
    pub body: Vec<u8>,
    /// The new nodes; `None` if they stay the same.
    pub topology: Option<DatabaseTopology>,
    /// Whether clients have to learn a new order of the nodes; new nodes they always learn.
    pub changes_topology: bool,
    /// Whether the client configuration changes.
    pub changes_client: bool,
}

/// The outcome of a change of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOutcome {
    /// The record was stored. A repeated request returns the index of the first time.
    Stored {
        /// The index of the change.
        index: u64,
    },
    /// The database was deleted.
    Deleted,
    /// Nothing was done: there is no such database.
    Missing,
    /// Nothing was done: a database of that name exists.
    AlreadyExists,
    /// Nothing was done: the record has another etag.
    OtherVersion {
        /// Its current etag.
        actual: u64,
    },
}

impl RecordDraft {
    /// A draft that changes nothing.
    pub fn of(record: &DatabaseRecord) -> Self {
        Self {
            disabled: record.disabled,
            body: record.configuration.json().to_vec(),
            topology: None,
            changes_topology: false,
            changes_client: false,
        }
    }
}

impl RecordCommand {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        let mut head = |kind| {
            encoder.byte(kind);
            encoder.text(self.name.as_str());
            encoder.optional(self.request_id.as_deref(), Encoder::text);
        };
        match &self.change {
            RecordChange::Create(new) => {
                head(if new.topology.is_some() { CREATE_ON } else { CREATE });
                if let Some(topology) = &new.topology {
                    write_nodes(topology, encoder);
                }
                encoder.flag(new.disabled);
                encoder.flag(new.adopts_files);
                encoder.i64(new.created_ticks);
                encoder.raw(&new.topology_id.0);
                encoder.raw(&new.cluster_transaction_id.0);
                encoder.bytes(&new.body);
            }
            RecordChange::Replace { expected, draft } => {
                head(if draft.topology.is_some() { REPLACE_WITH_NODES } else { REPLACE });
                if let Some(topology) = &draft.topology {
                    write_nodes(topology, encoder);
                }
                encoder.flag(draft.disabled);
                encoder.u64(*expected);
                encoder.flag(draft.changes_topology);
                encoder.flag(draft.changes_client);
                encoder.bytes(&draft.body);
            }
            RecordChange::Delete { expected: None, removes_files } => {
                head(DELETE_ANY);
                encoder.flag(*removes_files);
            }
            RecordChange::Delete { expected: Some(expected), removes_files } => {
                head(DELETE);
                encoder.flag(*removes_files);
                encoder.u64(*expected);
            }
            RecordChange::Leave { expected, node, removes_files } => {
                head(LEAVE);
                encoder.flag(*removes_files);
                encoder.u64(*expected);
                encoder.text(node.as_str());
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = decoder.byte()?;
        let name = DatabaseName::new(decoder.text()?)
            .map_err(|_| Malformed("a record has an invalid database name"))?;
        let request_id = decoder.optional(Decoder::text)?.map(str::to_owned);
        let change = match kind {
            CREATE | CREATE_ON => RecordChange::Create(NewDatabase {
                topology: if kind == CREATE { None } else { Some(read_nodes(decoder)?) },
                disabled: decoder.flag()?,
                adopts_files: decoder.flag()?,
                created_ticks: decoder.i64()?,
                topology_id: DatabaseId(decoder.fixed()?),
                cluster_transaction_id: DatabaseId(decoder.fixed()?),
                body: decoder.bytes()?.to_vec(),
            }),
            REPLACE | REPLACE_WITH_NODES => {
                let topology = if kind == REPLACE { None } else { Some(read_nodes(decoder)?) };
                let disabled = decoder.flag()?;
                let expected = decoder.u64()?;
                let draft = RecordDraft {
                    disabled,
                    topology,
                    changes_topology: decoder.flag()?,
                    changes_client: decoder.flag()?,
                    body: decoder.bytes()?.to_vec(),
                };
                RecordChange::Replace { expected, draft }
            }
            DELETE_ANY => RecordChange::Delete { expected: None, removes_files: decoder.flag()? },
            DELETE => {
                let removes_files = decoder.flag()?;
                RecordChange::Delete { expected: Some(decoder.u64()?), removes_files }
            }
            LEAVE => RecordChange::Leave {
                removes_files: decoder.flag()?,
                expected: decoder.u64()?,
                node: decoder
                    .text()?
                    .parse()
                    .map_err(|_| Malformed("a node without a tag leaves a database"))?,
            },
            _ => return Err(Malformed("a change of a record is of an unknown kind")),
        };
        Ok(Self { name, request_id, change })
    }

    pub(crate) fn apply(self, applying: &mut Applying<'_>) -> Result<RecordOutcome, ClusterError> {
        let existing = read(applying.tx, self.name.lower_cased())?;
        let repeated = existing.as_ref().zip(self.request_id.as_deref());
        if let Some(index) = repeated.and_then(|(record, id)| index_of(record, id)) {
            return Ok(RecordOutcome::Stored { index });
        }
        let Self { name, request_id, change } = self;
        let record = match (change, existing) {
            (RecordChange::Create(_), Some(_)) => return Ok(RecordOutcome::AlreadyExists),
            (RecordChange::Create(new), None) => create(applying, name, new)?,
            (_, None) => return Ok(RecordOutcome::Missing),
            (
                RecordChange::Replace { expected, .. }
                | RecordChange::Delete { expected: Some(expected), .. }
                | RecordChange::Leave { expected, .. },
                Some(record),
            ) if record.etag != expected => {
                return Ok(RecordOutcome::OtherVersion { actual: record.etag });
            }
            (RecordChange::Replace { draft, .. }, Some(record)) => {
                replace(record, draft, applying.index)
            }
            (RecordChange::Leave { node, removes_files, .. }, Some(record)) => {
                leave(applying, record, node, removes_files)?
            }
            (RecordChange::Delete { removes_files, .. }, Some(record)) => {
                delete(applying, &record, removes_files)?;
                return Ok(RecordOutcome::Deleted);
            }
        };
        store(applying, record, request_id.as_deref())
    }
}

impl RecordOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        let (kind, number) = match self {
            Self::Stored { index } => (0, *index),
            Self::Deleted => (1, 0),
            Self::Missing => (2, 0),
            Self::AlreadyExists => (3, 0),
            Self::OtherVersion { actual } => (4, *actual),
        };
        encoder.byte(kind);
        encoder.u64(number);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (kind, number) = (decoder.byte()?, decoder.u64()?);
        Ok(match kind {
            0 => Self::Stored { index: number },
            1 => Self::Deleted,
            2 => Self::Missing,
            3 => Self::AlreadyExists,
            4 => Self::OtherVersion { actual: number },
            _ => return Err(Malformed("an outcome of a record is of an unknown kind")),
        })
    }
}

fn create(
    applying: &mut Applying<'_>,
    name: DatabaseName,
    new: NewDatabase,
) -> Result<DatabaseRecord, ClusterError> {
    if !new.adopts_files {
        deletions::forget_files(applying.tx, name.lower_cased())?;
    }
    let index = applying.index;
    Ok(DatabaseRecord {
        name,
        disabled: new.disabled,
        etag: index,
        topology: new.topology.unwrap_or_else(|| DatabaseTopology::only(NodeTag::A)),
        topology_index: index,
        client_index: index,
        is_client_changed: false,
        created_ticks: new.created_ticks,
        topology_id: new.topology_id,
        cluster_transaction_id: new.cluster_transaction_id,
        requests: Vec::new(),
        configuration: RecordConfiguration::new(&new.body),
    })
}

fn replace(record: DatabaseRecord, draft: RecordDraft, index: u64) -> DatabaseRecord {
    let topology = draft.topology.unwrap_or_else(|| record.topology.clone());
    let changes_topology = draft.changes_topology || topology != record.topology;
    DatabaseRecord {
        topology,
        disabled: draft.disabled,
        configuration: RecordConfiguration::new(&draft.body),
        topology_index: if changes_topology { index } else { record.topology_index },
        // From the first change by this build on, the index is kept here.
        client_index: match draft.changes_client || record.client_index == 0 {
            true => index,
            false => record.client_index,
        },
        is_client_changed: record.is_client_changed || draft.changes_client,
        ..record
    }
}

fn delete(
    applying: &mut Applying<'_>,
    record: &DatabaseRecord,
    removes_files: bool,
) -> Result<(), ClusterError> {
    let key = record.name.lower_cased().to_owned();
    applying.tx.tree_mut(&schema::databases())?.delete(key.as_bytes())?;
    deletions::begin(applying, record, removes_files)?;
    applying.changes.records.push(ChangedRecord { key, index: applying.index, record: None });
    Ok(())
}

/// Takes a database from a node. That node notes that its files are to be removed.
fn leave(
    applying: &mut Applying<'_>,
    mut record: DatabaseRecord,
    node: NodeTag,
    removes_files: bool,
) -> Result<DatabaseRecord, ClusterError> {
    if record.topology.has(node) {
        record.topology.remove(node);
        record.topology_index = applying.index;
        if removes_files && applying.node == node {
            deletions::note_files_under(applying.tx, applying.index, &record)?;
        }
    }
    Ok(record)
}

fn store(
    applying: &mut Applying<'_>,
    mut record: DatabaseRecord,
    request_id: Option<&str>,
) -> Result<RecordOutcome, ClusterError> {
    let index = applying.index;
    record.etag = index;
    remember(&mut record, request_id, index);
    let key = record.name.lower_cased().to_owned();
    applying.tx.tree_mut(&schema::databases())?.put(key.as_bytes(), &write_record(&record))?;
    applying.changes.records.push(ChangedRecord { key, index, record: Some(Arc::new(record)) });
    Ok(RecordOutcome::Stored { index })
}

fn read(tx: &impl Transaction, key: &str) -> Result<Option<DatabaseRecord>, ClusterError> {
    let Some(row) = tx.tree(&schema::databases())?.get(key.as_bytes())? else { return Ok(None) };
    Ok(Some(read_record(row).ok_or_else(|| unreadable(key))?))
}

fn unreadable(key: &str) -> ClusterError {
    ClusterError::CorruptRow { tree: "Databases", key: key.to_owned() }
}

/// Which nodes have the database with this key, a name in lower case; `None` if there is none.
///
/// # Errors
/// Storage errors; a damaged record.
pub fn topology_of(
    tx: &impl Transaction,
    key: &str,
) -> Result<Option<(DatabaseId, DatabaseTopology)>, ClusterError> {
    Ok(read(tx, key)?.map(|record| (record.topology_id, record.topology)))
}

/// All records.
pub(crate) fn all(tx: &impl Transaction) -> Result<Vec<ChangedRecord>, ClusterError> {
    let mut records = Vec::new();
    for row in tx.tree(&schema::databases())?.range(Bound::Unbounded)? {
        let (key, row) = row?;
        let key = String::from_utf8_lossy(&key).into_owned();
        let record = read_record(row).ok_or_else(|| unreadable(&key))?;
        records.push(ChangedRecord { key, index: record.etag, record: Some(Arc::new(record)) });
    }
    Ok(records)
}
