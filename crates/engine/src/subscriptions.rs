//! Subscriptions: what creating, changing and deleting one does, where one begins, and which of its workers end.
//!
//! The records are in the state that all nodes agree on, the workers belong to the open database. Every change of
//! a record is decided on the record that it replaces: if another change comes first, it is decided again. Workers
//! that it concerns are ended when it is durable; until then they work with the old record, and what they
//! acknowledge for an older version is ignored.

use std::fmt;

use cluster_state::{
    Applied, Command, Handover, Outcome, SubscriptionCommand, SubscriptionOutcome,
    SubscriptionPosition, SubscriptionRecord, SubscriptionSettings,
};
use database::Database;
use documents::DatabaseIdentity;
use model::{ChangeVector, DatabaseId, Etag};
use query::LogQuery;
use subscriptions::Ended;
use wire::SubscriptionStart;

use crate::{engine::Engine, error::EngineError, subscription_key::SubscriptionKey};

/// A subscription to be created.
#[derive(Clone, Debug)]
pub struct NewSubscription {
    /// Its number; by default the index of the change.
    pub id: Option<u64>,
    /// Its name; by default its number.
    pub name: Option<String>,
    /// Its settings. The query is not checked yet.
    pub settings: SubscriptionSettings,
    /// Where it begins; by default with the first change.
    pub start: SubscriptionStart,
}

/// What a request changes of a subscription. `None` leaves the present value.
#[derive(Clone, Debug)]
pub struct SubscriptionUpdate {
    /// The new name, not empty.
    pub name: Option<String>,
    /// The new query, not checked yet.
    pub query: Option<String>,
    /// The new preferred node.
    pub mentor_node: Option<String>,
    /// Whether no other node may serve it.
    pub is_pinned: Option<bool>,
    /// Whether workers are refused.
    pub is_disabled: Option<bool>,
    /// Where it continues; by default where it is.
    pub start: SubscriptionStart,
}

/// Why a subscription must not continue at its stored position: the etags up to there have been or will be assigned
/// to other documents, which would never be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPosition {
    name: String,
    cursor: Etag,
    /// Why the database does not vouch for it.
    mismatch: String,
}

impl Engine {
    /// The subscription that a request identifies.
    ///
    /// # Errors
    /// [`EngineError::SubscriptionMissing`]; the state cannot be read.
    pub fn subscription(
        &self,
        database: &Database,
        key: &SubscriptionKey,
    ) -> Result<SubscriptionRecord, EngineError> {
        let (state, id) = (self.cluster_state(), database.record().topology_id);
        let found = match key {
            SubscriptionKey::Name(name) => state.subscription(id, name)?,
            SubscriptionKey::Id(number) => state.subscription_by_id(id, *number)?,
        };
        found.ok_or_else(|| EngineError::SubscriptionMissing { key: key.clone() })
    }

    /// Creates a subscription. A request whose id is remembered is not applied again. Blocks.
    ///
    /// # Errors
    /// The query is invalid; the name or the number is taken ([`EngineError::SubscriptionNameTaken`]); cluster
    /// errors.
    pub fn create_subscription(
        &self,
        database: &Database,
        new: NewSubscription,
        request_id: Option<&str>,
    ) -> Result<SubscriptionRecord, EngineError> {
        let NewSubscription { id, name, settings, start } = new;
        self.check_subscription_query(&settings.query)?;
        let position = position_of(database, &start)?.unwrap_or_default();
        let command = SubscriptionCommand::Create {
            database: database.record().topology_id,
            id,
            name: name.clone(),
            settings,
            position,
        };
        match self.change_subscription(command, request_id)? {
            SubscriptionOutcome::Done(record) => Ok(*record),
            SubscriptionOutcome::NameTaken => {
                Err(name_taken(database, name.as_deref().unwrap_or_default()))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Changes a subscription, and ends its workers if they cannot continue with the change; returns its new record,
    /// or `None` if nothing would change. A request whose id is remembered is not applied again. Blocks.
    ///
    /// # Errors
    /// Those of [`Engine::subscription`] and [`Engine::create_subscription`].
    pub fn update_subscription(
        &self,
        database: &Database,
        key: &SubscriptionKey,
        update: &SubscriptionUpdate,
        request_id: Option<&str>,
    ) -> Result<Option<SubscriptionRecord>, EngineError> {
        let mut is_checked = false;
        // Each repetition means that another change was made.
        loop {
            let known = self.subscription(database, key)?;
            let Some(change) = Change::of(database, &known, update)? else { return Ok(None) };
            if change.has_new_query && !is_checked {
                self.check_subscription_query(&change.settings.query)?;
                is_checked = true;
            }
            let ended = change.ended(&known);
            let command = SubscriptionCommand::Update {
                database: database.record().topology_id,
                id: known.id,
                expected: Some(known.index),
                name: change.name.clone(),
                settings: change.settings,
                position: change.position,
            };
            match self.change_subscription(command, request_id)? {
                SubscriptionOutcome::Done(record) => {
                    if let Some(ended) = ended {
                        database.subscriptions().end(known.id, &ended);
                    }
                    return Ok(Some(*record));
                }
                SubscriptionOutcome::OtherVersion | SubscriptionOutcome::Missing => {}
                SubscriptionOutcome::NameTaken => return Err(name_taken(database, &change.name)),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Deletes a subscription, if there is one, and ends its workers. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn delete_subscription(
        &self,
        database: &Database,
        name: &str,
        request_id: Option<&str>,
    ) -> Result<(), EngineError> {
        let (database_id, name) = (database.record().topology_id, name.to_owned());
        let command = SubscriptionCommand::Delete { database: database_id, name };
        match self.change_subscription(command, request_id)? {
            SubscriptionOutcome::Deleted(id) => {
                if let Some(id) = id {
                    database.subscriptions().end(id, &Ended::Deleted);
                }
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Disables a subscription and ends its workers, or enables it; returns its new record. Blocks.
    ///
    /// # Errors
    /// [`EngineError::SubscriptionMissing`]; cluster errors.
    pub fn set_subscription_disabled(
        &self,
        database: &Database,
        id: u64,
        is_disabled: bool,
        request_id: Option<&str>,
    ) -> Result<SubscriptionRecord, EngineError> {
        let database_id = database.record().topology_id;
        let command = SubscriptionCommand::Disable { database: database_id, id, is_disabled };
        match self.change_subscription(command, request_id)? {
            SubscriptionOutcome::Done(record) => {
                if is_disabled {
                    database.subscriptions().end(id, &Ended::Disabled);
                }
                Ok(*record)
            }
            SubscriptionOutcome::Missing => {
                Err(EngineError::SubscriptionMissing { key: SubscriptionKey::Id(id) })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Checks the text of a subscription's query, as far as that is possible without documents. Blocks while
    /// scripts are compiled.
    ///
    /// # Errors
    /// The query is invalid.
    pub fn check_subscription_query(&self, text: &str) -> Result<LogQuery, EngineError> {
        let query = LogQuery::parse(text)?;
        if let Some(scripts) = query.scripts(self.scripts())? {
            query.bind(&scripts)?;
        }
        Ok(query)
    }

    fn change_subscription(
        &self,
        command: SubscriptionCommand,
        request_id: Option<&str>,
    ) -> Result<SubscriptionOutcome, EngineError> {
        let command = Command::Subscription(command);
        match self.submit_to_cluster(&command, request_id)?.wait()? {
            Applied { outcome: Outcome::Subscription(outcome), .. } => Ok(outcome),
            _ => {
                let what = "the outcome of the subscription's command is missing".to_owned();
                Err(EngineError::Internal { what })
            }
        }
    }
}

/// An update that was decided on a record.
struct Change {
    name: String,
    settings: SubscriptionSettings,
    /// `None` leaves the position.
    position: Option<SubscriptionPosition>,
    has_new_query: bool,
}

impl Change {
    /// `None` if nothing would change.
    fn of(
        database: &Database,
        known: &SubscriptionRecord,
        update: &SubscriptionUpdate,
    ) -> Result<Option<Change>, EngineError> {
        let position = position_of(database, &update.start)?
            .filter(|position| position.change_vector != known.position.change_vector);
        let name = update.name.clone().unwrap_or_else(|| known.name.clone());
        let present = &known.settings;
        let settings = SubscriptionSettings {
            query: update.query.clone().unwrap_or_else(|| present.query.clone()),
            mentor_node: update.mentor_node.clone().or_else(|| present.mentor_node.clone()),
            is_pinned: update.is_pinned.unwrap_or(present.is_pinned),
            is_disabled: update.is_disabled.unwrap_or(present.is_disabled),
        };
        if position.is_none() && settings == *present && name == known.name {
            return Ok(None);
        }
        let has_new_query = settings.query != present.query;
        Ok(Some(Change { name, settings, position, has_new_query }))
    }

    /// Why the workers of the subscription cannot continue after the change; `None` if they can.
    fn ended(&self, known: &SubscriptionRecord) -> Option<Ended> {
        match () {
            () if self.settings.is_disabled => Some(Ended::Disabled),
            () if self.has_new_query => Some(Ended::QueryChanged),
            () if self.position.is_some() || self.name != known.name => Some(Ended::Moved),
            () => None,
        }
    }
}

/// The position at which a subscription begins or continues; `None` if the request leaves it.
///
/// # Errors
/// The documents cannot be read.
pub fn position_of(
    database: &Database,
    start: &SubscriptionStart,
) -> Result<Option<SubscriptionPosition>, EngineError> {
    let tx = database.read();
    let read_at = database.environment().point_of(&tx)?;
    let reader = database.identity().database_id;
    let change_vector = match start {
        SubscriptionStart::Unspecified => return Ok(None),
        SubscriptionStart::BeginningOfTime => return Ok(Some(SubscriptionPosition::default())),
        SubscriptionStart::LastDocument => {
            let last = documents::newest_first(&tx)?.next();
            let Some(last) = last else { return Ok(Some(SubscriptionPosition::default())) };
            let last = last?;
            return Ok(Some(SubscriptionPosition {
                cursor: last.etag(),
                change_vector: last.change_vector().to_owned(),
                unsettled: Vec::new(),
                read_at,
                handover: Some(Handover {
                    reader,
                    // What came after the last document is none.
                    passed: documents::contained_with_transactions(&tx)?,
                    passed_elsewhere: ChangeVector::empty(),
                }),
            }));
        }
        SubscriptionStart::After(change_vector) => change_vector,
    };
    Ok(Some(SubscriptionPosition {
        cursor: change_vector.etag_of(reader),
        change_vector: change_vector.as_str().to_owned(),
        unsettled: Vec::new(),
        read_at,
        // A client says that it has everything up to there, whichever node wrote it.
        handover: Some(Handover {
            reader,
            passed: change_vector.clone(),
            passed_elsewhere: others_in(change_vector, reader),
        }),
    }))
}

/// A vector, if it says something of other databases than this one.
fn others_in(change_vector: &ChangeVector, own: DatabaseId) -> ChangeVector {
    match change_vector.entries().any(|entry| entry.database_id != own) {
        true => change_vector.clone(),
        false => ChangeVector::empty(),
    }
}

/// Where a subscription continues on this node: at its position, or where it takes over from another node.
pub fn position_on(database: &Database, subscription: &SubscriptionRecord) -> SubscriptionPosition {
    let is_shared = database.record().topology.nodes().nth(1).is_some();
    let served = subscription.node_tag.as_deref();
    position_for(&subscription.position, served, database.identity(), is_shared)
}

/// The position for a database of one node, or of a node among several. `served` is the node that served the subscription
/// last.
fn position_for(
    position: &SubscriptionPosition,
    served: Option<&str>,
    own: &DatabaseIdentity,
    is_shared: bool,
) -> SubscriptionPosition {
    let Some(handover) = &position.handover else {
        // Older builds stored etags of that node alone.
        return match served.is_none_or(|tag| tag == own.node_tag.as_str()) {
            true => position.clone(),
            false => SubscriptionPosition::default(),
        };
    };
    let reader = handover.passed.entries().find(|entry| entry.database_id == handover.reader);
    // Nothing is taken over from an earlier database of the only node.
    match !is_shared && reader.is_some_and(|reader| reader.tag == own.node_tag) {
        true => position.clone(),
        false => position.on(own.database_id),
    }
}

/// Whether a subscription must not continue at its position, because that was reached in a lost history of the
/// database: in newer files than an operator has adopted, before they were salvaged, or before a database in memory
/// was lost.
///
/// # Errors
/// The history or the documents cannot be read.
pub fn lost_position(
    database: &Database,
    subscription: &SubscriptionRecord,
) -> Result<Option<LostPosition>, EngineError> {
    let position = &position_on(database, subscription);
    let mismatch = match &position.read_at {
        Some(point) => {
            let vouched = database.environment().vouches_for(point)?;
            vouched.err().map(|mismatch| mismatch.to_string())
        }
        // The time is unknown, but not before such an etag existed.
        None => {
            let last = documents::progress(&database.read())?.last_etag;
            (last < position.cursor).then(|| format!("it ends at etag {}", last.0))
        }
    };
    Ok(mismatch.map(|mismatch| LostPosition {
        name: subscription.name.clone(),
        cursor: position.cursor,
        mismatch,
    }))
}

fn name_taken(database: &Database, name: &str) -> EngineError {
    let database = database.record().name.as_str().to_owned();
    EngineError::SubscriptionNameTaken { database, name: name.to_owned() }
}

fn unexpected(outcome: &SubscriptionOutcome) -> EngineError {
    let what = format!("unexpected outcome of a subscription command: {outcome:?}");
    EngineError::Internal { what }
}

impl fmt::Display for LostPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostPosition { name, cursor, mismatch } = self;
        write!(
            f,
            "The subscription '{name}' is at etag {} of a history that this database does not have: \
             {mismatch}. Documents would be left out. Set the position to continue from: update the subscription with the \
             change vector 'BeginningOfTime', 'LastDocument' or one of a document.",
            cursor.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DatabaseId = DatabaseId([1; 16]);
    const B: DatabaseId = DatabaseId([2; 16]);

    fn identity(database_id: DatabaseId, tag: &str) -> DatabaseIdentity {
        DatabaseIdentity { database_id, node_tag: tag.parse().unwrap() }
    }

    fn stored_by(reader: DatabaseId, passed: &str) -> SubscriptionPosition {
        SubscriptionPosition {
            cursor: Etag(90),
            handover: Some(Handover {
                reader,
                passed: passed.parse().unwrap(),
                passed_elsewhere: ChangeVector::empty(),
            }),
            ..SubscriptionPosition::default()
        }
    }

    #[test]
    fn etags_of_another_node_are_never_taken_for_own_ones() {
        let of_b = stored_by(B, &format!("A:7-{A}, B:90-{B}"));
        // A worker has connected here and acknowledged nothing yet; then all other nodes were removed.
        for is_shared in [true, false] {
            for served in [None, Some("A"), Some("B")] {
                let position = position_for(&of_b, served, &identity(A, "A"), is_shared);
                assert_eq!(position.cursor, Etag(7), "{is_shared} {served:?}");
                assert_eq!(position_for(&of_b, served, &identity(B, "B"), is_shared), of_b);
            }
        }
        let unknown = stored_by(B, "");
        assert_eq!(position_for(&unknown, Some("A"), &identity(A, "A"), false).cursor, Etag::ZERO);
    }

    #[test]
    fn a_position_in_an_earlier_database_of_the_only_node_stays_what_it_is() {
        let of_earlier = stored_by(B, &format!("A:90-{B}"));
        assert_eq!(position_for(&of_earlier, Some("A"), &identity(A, "A"), false), of_earlier);
    }

    #[test]
    fn what_an_older_build_stored_on_another_node_begins_again() {
        let old = SubscriptionPosition { cursor: Etag(90), ..SubscriptionPosition::default() };
        assert_eq!(position_for(&old, Some("A"), &identity(A, "A"), true), old);
        let begun_again = position_for(&old, Some("B"), &identity(A, "A"), true);
        assert_eq!(begun_again, SubscriptionPosition::default());
    }
}
