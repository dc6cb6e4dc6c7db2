//! Records of databases: creating, replacing and removing them.
//!
//! ```text
//! fields    kind 1, name, optional request id, then by kind
//! create    disabled 1, keeps files 1, ticks of the creation 8, topology id 16,
//!           cluster transaction id 16, configuration
//! replace   disabled 1, expected etag 8, changes the topology 1, the client configuration 1, configuration
//! remove    removes files 1
//! ```
//!
//! A change of a configuration is computed by the client of this crate from the record it has read, and takes
//! effect only if that is still the current record. The state never interprets a configuration, so nodes of
//! different versions agree on it. Only what depends on the index of the change is kept outside of the
//! configuration.

use std::{ops::Bound, sync::Arc};

use model::{DatabaseId, DatabaseName};
use storage::{Transaction, WriteTransaction};

use crate::{
    applying::Applying,
    database_record::{DatabaseRecord, read_record, write_record},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    records::ChangedRecord,
    schema,
};

const CREATE: u8 = 1;
const REPLACE: u8 = 2;
const REMOVE: u8 = 3;

/// A change of the record of a database.
#[derive(Clone, Debug)]
pub struct RecordCommand {
    /// The name of the database, in any case.
    pub name: DatabaseName,
    /// The id of the request, if the client sent one. The record remembers it.
    pub request_id: Option<String>,
    /// The change.
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
    /// Delete the database.
    Remove {
        /// Whether to remove its files, which each node does on its own.
        removes_files: bool,
    },
}

/// A database to create.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Whether the database is disabled.
    pub disabled: bool,
    /// Whether it adopts the files left behind by a deleted database of the same name.
    pub keeps_files: bool,
    /// The time of creation, in ticks.
    pub created_ticks: i64,
    /// The id of its database group, never used before.
    pub topology_id: DatabaseId,
    /// The id of its cluster transactions, never used before.
    pub cluster_transaction_id: DatabaseId,
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
    /// Whether the nodes of the database, or their order, change.
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
    Removed,
    /// Nothing was done: there is no such database.
    Missing,
    /// Nothing was done: a database of that name exists.
    AlreadyExists,
    /// Nothing was done: the record has another etag.
    OtherVersion {
        /// Its current etag.
        actual: u64,
    },
    /// Nothing was done: files of a deleted database of that name still exist.
    BeingDeleted,
}

/// A deleted database whose files are to be removed from this node.
#[derive(Clone, Debug)]
pub struct PendingRemoval {
    /// The index of the deletion.
    pub index: u64,
    /// The record of the deleted database.
    pub record: Arc<DatabaseRecord>,
}

impl RecordDraft {
    /// A draft that changes nothing.
    pub fn of(record: &DatabaseRecord) -> Self {
        Self {
            disabled: record.disabled,
            body: record.body.clone(),
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
                head(CREATE);
                encoder.flag(new.disabled);
                encoder.flag(new.keeps_files);
                encoder.i64(new.created_ticks);
                encoder.raw(&new.topology_id.0);
                encoder.raw(&new.cluster_transaction_id.0);
                encoder.bytes(&new.body);
            }
            RecordChange::Replace { expected, draft } => {
                head(REPLACE);
                encoder.flag(draft.disabled);
                encoder.u64(*expected);
                encoder.flag(draft.changes_topology);
                encoder.flag(draft.changes_client);
                encoder.bytes(&draft.body);
            }
            RecordChange::Remove { removes_files } => {
                head(REMOVE);
                encoder.flag(*removes_files);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = decoder.byte()?;
        let name = DatabaseName::new(decoder.text()?)
            .map_err(|_| Malformed("a record has an invalid database name"))?;
        let request_id = decoder.optional(Decoder::text)?.map(str::to_owned);
        let change = match kind {
            CREATE => RecordChange::Create(NewDatabase {
                disabled: decoder.flag()?,
                keeps_files: decoder.flag()?,
                created_ticks: decoder.i64()?,
                topology_id: DatabaseId(decoder.fixed()?),
                cluster_transaction_id: DatabaseId(decoder.fixed()?),
                body: decoder.bytes()?.to_vec(),
            }),
            REPLACE => {
                let disabled = decoder.flag()?;
                let expected = decoder.u64()?;
                let draft = RecordDraft {
                    disabled,
                    changes_topology: decoder.flag()?,
                    changes_client: decoder.flag()?,
                    body: decoder.bytes()?.to_vec(),
                };
                RecordChange::Replace { expected, draft }
            }
            REMOVE => RecordChange::Remove { removes_files: decoder.flag()? },
            _ => return Err(Malformed("a change of a record is of an unknown kind")),
        };
        Ok(Self { name, request_id, change })
    }

    pub(crate) fn apply(self, applying: &mut Applying<'_>) -> Result<RecordOutcome, ClusterError> {
        let existing = read(applying.tx, self.name.lower_cased())?;
        let repeated = existing.as_ref().zip(self.request_id.as_deref());
        if let Some(index) = repeated.and_then(|(record, id)| record.index_of(id)) {
            return Ok(RecordOutcome::Stored { index });
        }
        let index = applying.index;
        let mut record = match (self.change, existing) {
            (RecordChange::Remove { removes_files }, Some(record)) => {
                remove(applying, record, removes_files)?;
                return Ok(RecordOutcome::Removed);
            }
            (RecordChange::Remove { .. } | RecordChange::Replace { .. }, None) => {
                return Ok(RecordOutcome::Missing);
            }
            (RecordChange::Create(_), Some(_)) => return Ok(RecordOutcome::AlreadyExists),
            (RecordChange::Replace { expected, .. }, Some(record)) if record.etag != expected => {
                return Ok(RecordOutcome::OtherVersion { actual: record.etag });
            }
            (RecordChange::Replace { draft, .. }, Some(record)) => DatabaseRecord {
                disabled: draft.disabled,
                body: draft.body,
                topology_index: if draft.changes_topology { index } else { record.topology_index },
                client_index: if draft.changes_client { index } else { record.client_index },
                ..record
            },
            (RecordChange::Create(new), None) => {
                if is_being_removed(applying.tx, &self.name)? {
                    return Ok(RecordOutcome::BeingDeleted);
                }
                if !new.keeps_files {
                    forget_files(applying.tx, &self.name)?;
                }
                DatabaseRecord {
                    name: self.name,
                    disabled: new.disabled,
                    etag: index,
                    topology_index: index,
                    client_index: index,
                    created_ticks: new.created_ticks,
                    topology_id: new.topology_id,
                    cluster_transaction_id: new.cluster_transaction_id,
                    requests: Vec::new(),
                    body: new.body,
                }
            }
        };
        record.etag = index;
        record.remember(self.request_id.as_deref(), index);
        store(applying, record)?;
        Ok(RecordOutcome::Stored { index })
    }
}

impl RecordOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        let (kind, number) = match self {
            Self::Stored { index } => (0, *index),
            Self::Removed => (1, 0),
            Self::Missing => (2, 0),
            Self::AlreadyExists => (3, 0),
            Self::OtherVersion { actual } => (4, *actual),
            Self::BeingDeleted => (5, 0),
        };
        encoder.byte(kind);
        encoder.u64(number);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (kind, number) = (decoder.byte()?, decoder.u64()?);
        Ok(match kind {
            0 => Self::Stored { index: number },
            1 => Self::Removed,
            2 => Self::Missing,
            3 => Self::AlreadyExists,
            4 => Self::OtherVersion { actual: number },
            5 => Self::BeingDeleted,
            _ => return Err(Malformed("an outcome of a record is of an unknown kind")),
        })
    }
}

fn store(applying: &mut Applying<'_>, record: DatabaseRecord) -> Result<(), ClusterError> {
    let key = record.name.lower_cased().to_owned();
    applying.tx.tree_mut(&schema::databases())?.put(key.as_bytes(), &write_record(&record))?;
    applying.records.push((key, Some(Arc::new(record))));
    Ok(())
}

fn remove(
    applying: &mut Applying<'_>,
    record: DatabaseRecord,
    removes_files: bool,
) -> Result<(), ClusterError> {
    let key = record.name.lower_cased().to_owned();
    applying.tx.tree_mut(&schema::databases())?.delete(key.as_bytes())?;
    if removes_files {
        let removal = applying.index.to_be_bytes();
        applying.tx.tree_mut(&schema::removals())?.put(&removal, &write_record(&record))?;
    }
    applying.records.push((key, None));
    Ok(())
}

fn read(tx: &impl Transaction, key: &str) -> Result<Option<DatabaseRecord>, ClusterError> {
    let Some(row) = tx.tree(&schema::databases())?.get(key.as_bytes())? else { return Ok(None) };
    Ok(Some(read_record(row).ok_or(UNREADABLE)?))
}

const UNREADABLE: ClusterError =
    ClusterError::Corrupt { detail: "the record of a database cannot be read" };

/// All records, by lower-case name.
pub(crate) fn all(tx: &impl Transaction) -> Result<Vec<ChangedRecord>, ClusterError> {
    let mut records = Vec::new();
    for row in tx.tree(&schema::databases())?.range(Bound::Unbounded)? {
        let (key, row) = row?;
        let record = read_record(row).ok_or(UNREADABLE)?;
        records.push((String::from_utf8_lossy(&key).into_owned(), Some(Arc::new(record))));
    }
    Ok(records)
}

/// The deleted databases whose files are still to be removed from this node, oldest first.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn pending_removals(tx: &impl Transaction) -> Result<Vec<PendingRemoval>, ClusterError> {
    let mut removals = Vec::new();
    for row in tx.tree(&schema::removals())?.range(Bound::Unbounded)? {
        let (key, row) = row?;
        let index = <[u8; 8]>::try_from(&key[..]).map(u64::from_be_bytes);
        let index = index.map_err(|_| Malformed("a removal has no index"))?;
        let record = Arc::new(read_record(row).ok_or(UNREADABLE)?);
        removals.push(PendingRemoval { index, record });
    }
    Ok(removals)
}

/// Records that the files of a deleted database are gone from this node, or never were here.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn end_removal(tx: &mut WriteTransaction, index: u64) -> Result<(), ClusterError> {
    let ended = pending_removals(tx)?.into_iter().find(|removal| removal.index == index);
    tx.tree_mut(&schema::removals())?.delete(&index.to_be_bytes())?;
    match ended {
        Some(ended) => forget_files(tx, &ended.record.name),
        None => Ok(()),
    }
}

fn is_being_removed(tx: &impl Transaction, name: &DatabaseName) -> Result<bool, ClusterError> {
    let is_it = |removal: &PendingRemoval| removal.record.name == *name;
    Ok(pending_removals(tx)?.iter().any(is_it))
}

/// Forgets which files belong to a database, so that another can use its name.
fn forget_files(tx: &mut WriteTransaction, name: &DatabaseName) -> Result<(), ClusterError> {
    tx.tree_mut(&schema::environments())?.delete(name.lower_cased().as_bytes())?;
    Ok(())
}
