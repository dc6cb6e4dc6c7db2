//! Subscriptions: what they ask, and how far they have come.
//!
//! What changes with every batch is stored apart from what is set once. Names are compared without
//! regard to case. Positions only go forward, except where an operator says otherwise: each such change
//! is a new *version*, and what was acknowledged of an older one is of no interest any more.

use std::ops::Bound;

use model::{DatabaseId, Etag, lower_case};
use storage::{KEY_BYTES_MAX, StorageError, Transaction, WriteTransaction};

use crate::{
    command::Applying,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
};

const CREATE: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const DISABLE: u8 = 4;
const CONNECT: u8 = 5;
const ADVANCE: u8 = 6;

const DONE: u8 = 1;
const DELETED: u8 = 2;
const NAME_TAKEN: u8 = 3;
const MISSING: u8 = 4;
const OUTDATED: u8 = 5;

/// How far a subscription has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPosition {
    /// Up to where the log of the database was looked at.
    pub cursor: Etag,
    /// The change vector that stands for that; empty for the beginning of time.
    pub change_vector: String,
    /// Changes at or before the cursor that nobody has acknowledged, in ascending order.
    pub unsettled: Vec<Etag>,
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

fn put_position(encoder: &mut Encoder, position: &SubscriptionPosition) {
    encoder.u64(position.cursor.0);
    encoder.text(&position.change_vector);
    encoder.u32(u32::try_from(position.unsettled.len()).expect("workers hold few changes"));
    position.unsettled.iter().for_each(|etag| encoder.u64(etag.0));
}

fn take_position(decoder: &mut Decoder<'_>) -> Result<SubscriptionPosition, Malformed> {
    let (cursor, change_vector) = (Etag(decoder.u64()?), decoder.text()?.to_owned());
    let unsettled =
        (0..decoder.u32()?).map(|_| decoder.u64().map(Etag)).collect::<Result<_, _>>()?;
    Ok(SubscriptionPosition { cursor, change_vector, unsettled })
}

fn put_settings(encoder: &mut Encoder, settings: &SubscriptionSettings) {
    encoder.text(&settings.query);
    encoder.optional(settings.mentor_node.as_deref(), Encoder::text);
    encoder.flag(settings.is_pinned);
    encoder.flag(settings.is_disabled);
}

fn take_settings(decoder: &mut Decoder<'_>) -> Result<SubscriptionSettings, Malformed> {
    Ok(SubscriptionSettings {
        query: decoder.text()?.to_owned(),
        mentor_node: decoder.optional(Decoder::text)?.map(str::to_owned),
        is_pinned: decoder.flag()?,
        is_disabled: decoder.flag()?,
    })
}

impl SubscriptionRecord {
    fn encode_settings(&self, encoder: &mut Encoder) {
        encoder.u64(self.index);
        encoder.u64(self.version);
        encoder.text(&self.name);
        put_settings(encoder, &self.settings);
    }

    fn encode_progress(&self, encoder: &mut Encoder) {
        put_position(encoder, &self.position);
        encoder.optional(self.last_acknowledged_ticks, Encoder::i64);
        encoder.optional(self.last_connected_ticks, Encoder::i64);
        encoder.optional(self.node_tag.as_deref(), Encoder::text);
    }

    /// `settings` and `progress` may be the same bytes, one behind the other.
    fn decode<'b>(
        id: u64,
        settings: &mut Decoder<'b>,
        progress: Option<&mut Decoder<'b>>,
    ) -> Result<Self, Malformed> {
        let (index, version) = (settings.u64()?, settings.u64()?);
        let (name, set) = (settings.text()?.to_owned(), take_settings(settings)?);
        let progress = progress.unwrap_or(settings);
        Ok(SubscriptionRecord {
            id,
            name,
            settings: set,
            index,
            version,
            position: take_position(progress)?,
            last_acknowledged_ticks: progress.optional(Decoder::i64)?,
            last_connected_ticks: progress.optional(Decoder::i64)?,
            node_tag: progress.optional(Decoder::text)?.map(str::to_owned),
        })
    }
}

impl SubscriptionOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Done(record) => {
                encoder.byte(DONE);
                encoder.u64(record.id);
                record.encode_settings(encoder);
                record.encode_progress(encoder);
            }
            Self::Deleted(id) => {
                encoder.byte(DELETED);
                encoder.optional(*id, Encoder::u64);
            }
            Self::NameTaken => encoder.byte(NAME_TAKEN),
            Self::Missing => encoder.byte(MISSING),
            Self::Outdated => encoder.byte(OUTDATED),
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            DONE => {
                let id = decoder.u64()?;
                Self::Done(Box::new(SubscriptionRecord::decode(id, decoder, None)?))
            }
            DELETED => Self::Deleted(decoder.optional(Decoder::u64)?),
            NAME_TAKEN => Self::NameTaken,
            MISSING => Self::Missing,
            OUTDATED => Self::Outdated,
            _ => return Err(Malformed("what became of a subscription is unknown")),
        })
    }
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

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Create { database, id, name, settings, position } => {
                encoder.byte(CREATE);
                encoder.raw(&database.0);
                encoder.optional(*id, Encoder::u64);
                encoder.optional(name.as_deref(), Encoder::text);
                put_settings(encoder, settings);
                put_position(encoder, position);
            }
            Self::Update { database, id, name, settings, position } => {
                encoder.byte(UPDATE);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.text(name);
                put_settings(encoder, settings);
                encoder.optional(position.as_ref(), put_position);
            }
            Self::Delete { database, name } => {
                encoder.byte(DELETE);
                encoder.raw(&database.0);
                encoder.text(name);
            }
            Self::Disable { database, id, is_disabled } => {
                encoder.byte(DISABLE);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.flag(*is_disabled);
            }
            Self::Connect { database, id, node_tag, ticks } => {
                encoder.byte(CONNECT);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.text(node_tag);
                encoder.i64(*ticks);
            }
            Self::Advance { database, id, version, position, acknowledged_ticks } => {
                encoder.byte(ADVANCE);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.u64(*version);
                put_position(encoder, position);
                encoder.optional(*acknowledged_ticks, Encoder::i64);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = decoder.byte()?;
        let database = DatabaseId(decoder.fixed()?);
        Ok(match kind {
            CREATE => Self::Create {
                database,
                id: decoder.optional(Decoder::u64)?,
                name: decoder.optional(Decoder::text)?.map(str::to_owned),
                settings: take_settings(decoder)?,
                position: take_position(decoder)?,
            },
            UPDATE => Self::Update {
                database,
                id: decoder.u64()?,
                name: decoder.text()?.to_owned(),
                settings: take_settings(decoder)?,
                position: decoder.optional(take_position)?,
            },
            DELETE => Self::Delete { database, name: decoder.text()?.to_owned() },
            DISABLE => Self::Disable { database, id: decoder.u64()?, is_disabled: decoder.flag()? },
            CONNECT => Self::Connect {
                database,
                id: decoder.u64()?,
                node_tag: decoder.text()?.to_owned(),
                ticks: decoder.i64()?,
            },
            ADVANCE => Self::Advance {
                database,
                id: decoder.u64()?,
                version: decoder.u64()?,
                position: take_position(decoder)?,
                acknowledged_ticks: decoder.optional(Decoder::i64)?,
            },
            _ => return Err(Malformed("a change of subscriptions is of an unknown kind")),
        })
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

fn put_record(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    record: &SubscriptionRecord,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    record.encode_settings(&mut encoder);
    let id = record.id.to_be_bytes();
    let name = key_of(database, lower_case(&record.name).as_bytes());
    tx.tree_mut(&schema::subscriptions())?.put(&key_of(database, &id), &encoder.finish())?;
    tx.tree_mut(&schema::subscription_names())?.put(&name, &id)?;
    Ok(())
}

fn put_progress(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    record: &SubscriptionRecord,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    record.encode_progress(&mut encoder);
    let key = key_of(database, &record.id.to_be_bytes());
    tx.tree_mut(&schema::subscription_progress())?.put(&key, &encoder.finish())?;
    Ok(())
}

/// The subscription of a name, in any case.
pub(crate) fn by_name(
    tx: &impl Transaction,
    database: DatabaseId,
    name: &str,
) -> Result<Option<SubscriptionRecord>, ClusterError> {
    let key = key_of(database, lower_case(name).as_bytes());
    let Some(id) = tx.tree(&schema::subscription_names())?.get(&key)? else { return Ok(None) };
    by_id(tx, database, id_of(id)?)
}

/// The subscription of a number.
pub(crate) fn by_id(
    tx: &impl Transaction,
    database: DatabaseId,
    id: u64,
) -> Result<Option<SubscriptionRecord>, ClusterError> {
    let key = key_of(database, &id.to_be_bytes());
    let Some(row) = tx.tree(&schema::subscriptions())?.get(&key)? else { return Ok(None) };
    let progress = tx.tree(&schema::subscription_progress())?.get(&key)?.unwrap_or_default();
    Ok(Some(read_record(id, row, progress)?))
}

fn read_record(id: u64, row: &[u8], progress: &[u8]) -> Result<SubscriptionRecord, Malformed> {
    let (mut row, mut progress) = (Decoder::new(row), Decoder::new(progress));
    let record = SubscriptionRecord::decode(id, &mut row, Some(&mut progress))?;
    row.end()?;
    progress.end()?;
    Ok(record)
}

fn id_of(bytes: &[u8]) -> Result<u64, ClusterError> {
    let id = <[u8; 8]>::try_from(bytes);
    id.map(u64::from_be_bytes)
        .map_err(|_| ClusterError::Corrupt { detail: "the name of a subscription names none" })
}

/// The subscriptions of a database, in the order of their names in lower case.
pub(crate) fn all<'t, T: Transaction>(
    tx: &'t T,
    database: DatabaseId,
) -> Result<impl Iterator<Item = Result<SubscriptionRecord, ClusterError>> + use<'t, T>, ClusterError>
{
    let names = tx.tree(&schema::subscription_names())?.range(Bound::Included(&database.0))?;
    let is_within = move |entry: &Result<(Vec<u8>, &[u8]), _>| {
        entry.as_ref().map_or(true, |(key, _)| key.starts_with(&database.0))
    };
    Ok(names.take_while(is_within).map(move |entry| {
        let missing = ClusterError::Corrupt { detail: "a subscription is not there" };
        by_id(tx, database, id_of(entry?.1)?)?.ok_or(missing)
    }))
}
