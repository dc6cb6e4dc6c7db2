//! Subscriptions: their settings and their progress.
//!
//! Progress changes with every batch and is stored apart from the settings. Names are case-insensitive.
//! Positions only advance, except when an operator sets them. Each such change starts a new *version*, and
//! acknowledgements of an older version are ignored.

mod encoding;
mod rows;

use model::{ChangeVector, DatabaseId, Etag, lower_case};
use storage::{HistoryPoint, KEY_BYTES_MAX, StorageError, WriteTransaction};

pub(crate) use self::rows::{all, by_id, by_name};
use self::rows::{put_progress, put_record};
use crate::{
    applying::Applying,
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
};

/// The progress of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPosition {
    /// The log of the database has been read up to here.
    pub cursor: Etag,
    /// The change vector at the cursor; empty at the beginning.
    pub change_vector: String,
    /// Changes at or before the cursor that no worker has acknowledged, in ascending order.
    pub unsettled: Vec<Etag>,
    /// The point in the history of the database at which the cursor was read; `None` if the database keeps no
    /// history, or an older build stored the position.
    pub read_at: Option<HistoryPoint>,
    /// Where another node continues; `None` if an older build stored the position, or at the beginning.
    pub handover: Option<Handover>,
}

/// What a position says to other nodes, whose etags are others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The database whose etags the position names.
    pub reader: DatabaseId,
    /// Every change up to this vector was passed, or replaced by one that is not, which all members have.
    pub passed: ChangeVector,
    /// Changes up to this vector were passed on another node before, and are not sent again.
    pub passed_elsewhere: ChangeVector,
}

impl SubscriptionPosition {
    /// The position for the database of a node: its own, or that at which it takes over from another one.
    pub fn on(&self, database: DatabaseId) -> SubscriptionPosition {
        match &self.handover {
            Some(handover) if handover.reader != database => SubscriptionPosition {
                cursor: handover.passed.etag_of(database),
                change_vector: self.change_vector.clone(),
                unsettled: Vec::new(),
                read_at: None,
                handover: Some(Handover {
                    reader: database,
                    passed: handover.passed.clone(),
                    passed_elsewhere: handover.passed.clone(),
                }),
            },
            Some(_) | None => self.clone(),
        }
    }
}

/// The settings of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionSettings {
    /// The text of its RQL query.
    pub query: String,
    /// The tag of the node that should serve it; `None` for any.
    pub mentor_node: Option<String>,
    /// Whether no other node may serve it.
    pub is_pinned: bool,
    /// Whether workers are refused.
    pub is_disabled: bool,
}

/// A subscription as all nodes know it, without its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionRecord {
    /// Its number within the database.
    pub id: u64,
    /// Its name, in its original case.
    pub name: String,
    /// The settings that clients and operators change.
    pub settings: SubscriptionSettings,
    /// The index of the last change of the settings.
    pub index: u64,
    /// The index of the last change of the query, or of the position by an operator.
    pub version: u64,
    /// How far it has come.
    pub position: SubscriptionPosition,
    /// When a batch was last acknowledged, in ticks of UTC.
    pub last_acknowledged_ticks: Option<i64>,
    /// When a worker last connected, in ticks of UTC.
    pub last_connected_ticks: Option<i64>,
    /// The node it connected to.
    pub node_tag: Option<String>,
}

/// A change of a subscription.
#[derive(Clone, Debug)]
pub enum SubscriptionCommand {
    /// Create one.
    Create {
        /// The database.
        database: DatabaseId,
        /// Its number; by default the index of the command.
        id: Option<u64>,
        /// Its name; by default its number.
        name: Option<String>,
        /// Its settings.
        settings: SubscriptionSettings,
        /// Where it starts.
        position: SubscriptionPosition,
    },
    /// Change the settings. All of them are passed, including unchanged ones, so they are decided on a record.
    Update {
        /// The database.
        database: DatabaseId,
        /// Its number.
        id: u64,
        /// The index of the record that they were decided on; `None` in logs of older builds: any.
        expected: Option<u64>,
        /// Its new name.
        name: String,
        /// Its settings.
        settings: SubscriptionSettings,
        /// The new position; `None` leaves it unchanged.
        position: Option<SubscriptionPosition>,
    },
    /// Delete one; no error if it is missing.
    Delete {
        /// The database.
        database: DatabaseId,
        /// Its name, in any case.
        name: String,
    },
    /// Refuse workers, or accept them again.
    Disable {
        /// The database.
        database: DatabaseId,
        /// Its number.
        id: u64,
        /// Whether workers are refused.
        is_disabled: bool,
    },
    /// A worker has connected.
    Connect {
        /// The database.
        database: DatabaseId,
        /// Its number.
        id: u64,
        /// The node it connected to.
        node_tag: String,
        /// When, in ticks of UTC.
        ticks: i64,
    },
    /// Its position advances.
    Advance {
        /// The database.
        database: DatabaseId,
        /// Its number.
        id: u64,
        /// The version known to the worker.
        version: u64,
        /// The node of the worker; `None` in logs of older builds: any.
        node_tag: Option<String>,
        /// The new position.
        position: SubscriptionPosition,
        /// When a batch was acknowledged, in ticks of UTC; `None` when there was nothing to send.
        acknowledged_ticks: Option<i64>,
    },
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionOutcome {
    /// The change was made; the subscription after it.
    Done(Box<SubscriptionRecord>),
    /// It was deleted, and had this number; `None` if it did not exist.
    Deleted(Option<u64>),
    /// Another subscription has the name.
    NameTaken,
    /// There is no such subscription.
    Missing,
    /// Its settings were changed after the record that the command was decided on. Nothing was done; the caller
    /// decides again on the present record.
    OtherVersion,
    /// Its query or position has been set in the meantime, so the acknowledgement is ignored.
    Outdated,
    /// A worker has connected to another node in the meantime, so the acknowledgement is ignored.
    OtherNode,
}

impl SubscriptionCommand {
    pub(crate) fn database(&self) -> DatabaseId {
        match self {
            Self::Create { database, .. }
            | Self::Update { database, .. }
            | Self::Delete { database, .. }
            | Self::Disable { database, .. }
            | Self::Connect { database, .. }
            | Self::Advance { database, .. } => *database,
        }
    }

    /// Refuses a name that is too long for a key.
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let name = match self {
            Self::Create { name, .. } => name.as_deref().unwrap_or_default(),
            Self::Update { name, .. } => name,
            Self::Delete { .. }
            | Self::Disable { .. }
            | Self::Connect { .. }
            | Self::Advance { .. } => return Ok(()),
        };
        let bytes = DATABASE_BYTES + lower_case(name).len();
        match bytes <= KEY_BYTES_MAX {
            true => Ok(()),
            false => Err(StorageError::KeyTooLong { bytes }.into()),
        }
    }

    pub(crate) fn apply(
        self,
        applying: &mut Applying<'_>,
    ) -> Result<SubscriptionOutcome, ClusterError> {
        match self {
            Self::Create { database, id, name, settings, position } => {
                create(applying, database, (id, name), settings, position)
            }
            Self::Update { database, id, expected, name, settings, position } => {
                update(applying, database, (id, expected), (name, settings), position)
            }
            Self::Delete { database, name } => delete(applying.tx, database, &name),
            Self::Disable { database, id, is_disabled } => {
                let Some(mut record) = by_id(applying.tx, database, id)? else {
                    return Ok(SubscriptionOutcome::Missing);
                };
                record.settings.is_disabled = is_disabled;
                record.index = applying.index;
                put_record(applying.tx, database, &record)?;
                Ok(done(record))
            }
            Self::Connect { database, id, node_tag, ticks } => {
                let Some(mut record) = by_id(applying.tx, database, id)? else {
                    return Ok(SubscriptionOutcome::Missing);
                };
                record.node_tag = Some(node_tag);
                record.last_connected_ticks = Some(ticks);
                put_progress(applying.tx, database, &record)?;
                Ok(done(record))
            }
            Self::Advance { database, id, version, node_tag, position, acknowledged_ticks } => {
                let Some(mut record) = by_id(applying.tx, database, id)? else {
                    return Ok(SubscriptionOutcome::Missing);
                };
                if version != record.version || goes_back(&record.position, &position) {
                    return Ok(SubscriptionOutcome::Outdated);
                }
                if node_tag.is_some() && node_tag != record.node_tag {
                    return Ok(SubscriptionOutcome::OtherNode);
                }
                record.position = position;
                record.last_acknowledged_ticks =
                    acknowledged_ticks.or(record.last_acknowledged_ticks);
                put_progress(applying.tx, database, &record)?;
                Ok(done(record))
            }
        }
    }
}

/// Whether a position is before the present one; those of two nodes, or of unknown ones, cannot be compared.
fn goes_back(present: &SubscriptionPosition, new: &SubscriptionPosition) -> bool {
    let reader = |position: &SubscriptionPosition| {
        position.handover.as_ref().map(|handover| handover.reader)
    };
    reader(present) == reader(new) && new.cursor < present.cursor
}

fn done(record: SubscriptionRecord) -> SubscriptionOutcome {
    SubscriptionOutcome::Done(Box::new(record))
}

fn create(
    applying: &mut Applying<'_>,
    database: DatabaseId,
    (id, name): (Option<u64>, Option<String>),
    settings: SubscriptionSettings,
    position: SubscriptionPosition,
) -> Result<SubscriptionOutcome, ClusterError> {
    let id = id.unwrap_or(applying.index);
    let record = SubscriptionRecord {
        id,
        name: name.unwrap_or_else(|| id.to_string()),
        settings,
        index: applying.index,
        version: applying.index,
        position,
        last_acknowledged_ticks: None,
        last_connected_ticks: None,
        node_tag: None,
    };
    let is_taken = by_name(applying.tx, database, &record.name)?.is_some()
        || by_id(applying.tx, database, id)?.is_some();
    if is_taken {
        return Ok(SubscriptionOutcome::NameTaken);
    }
    put_record(applying.tx, database, &record)?;
    put_progress(applying.tx, database, &record)?;
    Ok(done(record))
}

fn update(
    applying: &mut Applying<'_>,
    database: DatabaseId,
    (id, expected): (u64, Option<u64>),
    (name, settings): (String, SubscriptionSettings),
    position: Option<SubscriptionPosition>,
) -> Result<SubscriptionOutcome, ClusterError> {
    let Some(mut record) = by_id(applying.tx, database, id)? else {
        return Ok(SubscriptionOutcome::Missing);
    };
    if expected.is_some_and(|expected| expected != record.index) {
        return Ok(SubscriptionOutcome::OtherVersion);
    }
    if by_name(applying.tx, database, &name)?.is_some_and(|other| other.id != id) {
        return Ok(SubscriptionOutcome::NameTaken);
    }
    let old_name = key_of(database, lower_case(&record.name).as_bytes());
    applying.tx.tree_mut(&schema::subscription_names())?.delete(&old_name)?;
    if record.settings.query != settings.query || position.is_some() {
        record.version = applying.index;
    }
    record.name = name;
    record.settings = settings;
    record.index = applying.index;
    if let Some(position) = position {
        record.position = position;
        record.last_acknowledged_ticks = None;
        record.last_connected_ticks = None;
        record.node_tag = None;
        put_progress(applying.tx, database, &record)?;
    }
    put_record(applying.tx, database, &record)?;
    Ok(done(record))
}

fn delete(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    name: &str,
) -> Result<SubscriptionOutcome, ClusterError> {
    let Some(record) = by_name(tx, database, name)? else {
        return Ok(SubscriptionOutcome::Deleted(None));
    };
    let name = key_of(database, lower_case(name).as_bytes());
    let id = key_of(database, &record.id.to_be_bytes());
    tx.tree_mut(&schema::subscription_names())?.delete(&name)?;
    tx.tree_mut(&schema::subscriptions())?.delete(&id)?;
    tx.tree_mut(&schema::subscription_progress())?.delete(&id)?;
    Ok(SubscriptionOutcome::Deleted(Some(record.id)))
}
