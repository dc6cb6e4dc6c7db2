//! Subscriptions: what they ask, and how far they have come.
//!
//! What changes with every batch is stored apart from what is set once. Names are compared without
//! regard to case. Positions only go forward, except where an operator says otherwise: each such change
//! is a new *version*, and what was acknowledged of an older one is of no interest any more.

mod encoding;
mod rows;

use model::{DatabaseId, Etag, lower_case};
use storage::{HistoryPoint, KEY_BYTES_MAX, StorageError, WriteTransaction};

pub(crate) use self::rows::{all, by_id, by_name};
use self::rows::{put_progress, put_record};
use crate::{
    applying::Applying,
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
};

/// How far a subscription has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPosition {
    /// Up to where the log of the database was looked at.
    pub cursor: Etag,
    /// The change vector that stands for that; empty for the beginning of time.
    pub change_vector: String,
    /// Changes at or before the cursor that nobody has acknowledged, in ascending order.
    pub unsettled: Vec<Etag>,
    /// The moment in the history of the database at which that was read; `None` when it keeps none, or when
    /// the position was stored by a version that did not know it.
    pub read_at: Option<HistoryPoint>,
}

/// What is set of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionSettings {
    /// What it asks.
    pub query: String,
    /// The node that is to serve it.
    pub mentor_node: Option<String>,
    /// Whether no other node may.
    pub is_pinned: bool,
    /// Whether workers are refused.
    pub is_disabled: bool,
}

/// A subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionRecord {
    /// Its number in the database.
    pub id: u64,
    /// Its name, as it was given.
    pub name: String,
    /// What is set.
    pub settings: SubscriptionSettings,
    /// The index of the last change of what is set.
    pub index: u64,
    /// The index of the last change of the query or, by an operator, of the position.
    pub version: u64,
    /// How far it has come.
    pub position: SubscriptionPosition,
    /// When a batch was last acknowledged, in ticks of UTC.
    pub last_acknowledged_ticks: Option<i64>,
    /// When a worker last came, in ticks of UTC.
    pub last_connected_ticks: Option<i64>,
    /// The node on which that was.
    pub node_tag: Option<String>,
}

/// A change of subscriptions of a database.
#[derive(Clone, Debug)]
pub enum SubscriptionCommand {
    /// Make one.
    Create {
        /// Of which database.
        database: DatabaseId,
        /// Its number; the index of the command when there is none.
        id: Option<u64>,
        /// Its name; its number when there is none.
        name: Option<String>,
        /// What is set.
        settings: SubscriptionSettings,
        /// Where it begins.
        position: SubscriptionPosition,
    },
    /// Change what is set. What stays as it is is repeated.
    Update {
        /// Of which database.
        database: DatabaseId,
        /// Which one.
        id: u64,
        /// Its new name.
        name: String,
        /// What is set.
        settings: SubscriptionSettings,
        /// Where it goes on; `None` where it is.
        position: Option<SubscriptionPosition>,
    },
    /// Remove one; a missing one is no error.
    Delete {
        /// Of which database.
        database: DatabaseId,
        /// Its name, in any case.
        name: String,
    },
    /// Refuse workers, or accept them again.
    Disable {
        /// Of which database.
        database: DatabaseId,
        /// Which one.
        id: u64,
        /// Whether they are refused.
        is_disabled: bool,
    },
    /// A worker came.
    Connect {
        /// Of which database.
        database: DatabaseId,
        /// Which one.
        id: u64,
        /// The node that serves it.
        node_tag: String,
        /// When, in ticks of UTC.
        ticks: i64,
    },
    /// It has come further.
    Advance {
        /// Of which database.
        database: DatabaseId,
        /// Which one.
        id: u64,
        /// The version that its workers know.
        version: u64,
        /// How far.
        position: SubscriptionPosition,
        /// When a batch was acknowledged, in ticks of UTC; `None` when there was nothing to send.
        acknowledged_ticks: Option<i64>,
    },
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionOutcome {
    /// It was done; the subscription as it is now.
    Done(Box<SubscriptionRecord>),
    /// It is gone, or was not there. Its number, if it was.
    Deleted(Option<u64>),
    /// Another one has the name.
    NameTaken,
    /// There is no such subscription.
    Missing,
    /// Its query or position was set meanwhile: what was acknowledged is of no interest any more.
    Outdated,
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

    /// A name stands in a key.
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
            Self::Update { database, id, name, settings, position } => {
                update(applying, database, (id, name), settings, position)
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
            Self::Advance { database, id, version, position, acknowledged_ticks } => {
                let Some(mut record) = by_id(applying.tx, database, id)? else {
                    return Ok(SubscriptionOutcome::Missing);
                };
                if version != record.version || position.cursor < record.position.cursor {
                    return Ok(SubscriptionOutcome::Outdated);
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
    (id, name): (u64, String),
    settings: SubscriptionSettings,
    position: Option<SubscriptionPosition>,
) -> Result<SubscriptionOutcome, ClusterError> {
    let Some(mut record) = by_id(applying.tx, database, id)? else {
        return Ok(SubscriptionOutcome::Missing);
    };
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
