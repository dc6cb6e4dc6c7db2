//! What an import changes outside of the documents: the state that all nodes agree on, and indexes.
//!
//! A task blocks, so the caller runs it on a thread that may, and passes the outcome back.

use std::sync::Arc;

use blittable::BlittableBuf;
use cluster::Submission;
use cluster_state::{
    ClusterError, Command, CompareExchangeCommand, IDENTITY_MAX, IdentityCommand, Outcome,
    SubscriptionSettings,
};
use database::DatabaseLease;
use model::IndexDefinition;
use serde_json::{Map, Value};
use wire::{SmugglerOptions, SubscriptionStart, smuggler_result::SmugglerPart};

use super::imported_record::{ImportedRecord, RecordUse};
use crate::{
    engine::Engine,
    error::EngineError,
    index_definitions::{check_index_name, complete_definition},
    subscriptions::NewSubscription,
};

/// Values of compare exchange on their way to the cluster at the same time.
const SUBMITTED_MAX: usize = 64;

/// Work that blocks.
pub struct ImportTask(pub(super) Task);

pub(super) enum Task {
    Record { sent: Map<String, Value>, options: Arc<SmugglerOptions>, may_redirect: bool },
    Index(Box<IndexDefinition>),
    Identities(Vec<(String, i64)>),
    Values(Vec<(String, BlittableBuf)>),
    DeletedValues(Vec<String>),
    Subscription(Box<NewSubscription>),
}

/// What has become of it.
pub struct TaskOutcome {
    pub(super) part: SmugglerPart,
    /// What could not be done: counted as errors of the part.
    pub(super) refused: Vec<String>,
    /// What was left out, and is no error.
    pub(super) notes: Vec<String>,
    pub(super) record_parts: Vec<&'static str>,
}

impl TaskOutcome {
    fn of(part: SmugglerPart) -> TaskOutcome {
        TaskOutcome { part, refused: Vec::new(), notes: Vec::new(), record_parts: Vec::new() }
    }
}

impl ImportTask {
    /// Does it. Blocks.
    ///
    /// # Errors
    /// The database or the cluster takes no changes. What a single item is refused for is in the outcome.
    pub fn run(
        self,
        engine: &Engine,
        database: &DatabaseLease,
    ) -> Result<TaskOutcome, EngineError> {
        match self.0 {
            Task::Record { sent, options, may_redirect } => {
                let name = database.record().name.as_str().to_owned();
                let use_of = RecordUse::Import { may_redirect };
                let ImportedRecord { parts, refused, .. } =
                    engine.import_record(&name, &sent, &options, use_of)?;
                let mut outcome = TaskOutcome::of(SmugglerPart::DatabaseRecord);
                (outcome.record_parts, outcome.notes) = (parts, refused);
                Ok(outcome)
            }
            Task::Index(definition) => Ok(define(engine, database, *definition)),
            Task::Identities(values) => set_identities(engine, database, values),
            Task::Values(values) => put_values(engine, database, values),
            Task::DeletedValues(keys) => delete_values(engine, database, &keys),
            Task::Subscription(new) => subscribe(engine, database, *new),
        }
    }
}

/// An index that cannot be defined here does not keep the rest of the dump from being imported.
fn define(engine: &Engine, database: &DatabaseLease, definition: IndexDefinition) -> TaskOutcome {
    let mut outcome = TaskOutcome::of(SmugglerPart::Indexes);
    let name = definition.name.clone();
    let defined = check_index_name(&name)
        .and_then(|()| engine.define_index(database, &complete_definition(definition)));
    if let Err(error) = defined {
        outcome.refused.push(format!("Could not import index '{name}': {error}"));
    }
    outcome
}

fn set_identities(
    engine: &Engine,
    database: &DatabaseLease,
    values: Vec<(String, i64)>,
) -> Result<TaskOutcome, EngineError> {
    let mut outcome = TaskOutcome::of(SmugglerPart::Identities);
    let (fit, unfit): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|(_, value)| *value <= IDENTITY_MAX);
    for (name, value) in unfit {
        outcome.refused.push(format!("The identity '{name}' cannot be set to {value}."));
    }
    let id = database.record().topology_id;
    // The larger value stays, so that no number is used twice.
    let command =
        Command::Identity(IdentityCommand::Seed { database: id, values: fit, force: false });
    engine.submit_for(database, &command, None)?.wait()?;
    Ok(outcome)
}

/// Puts values, several at a time; one that is there is replaced.
fn put_values(
    engine: &Engine,
    database: &DatabaseLease,
    values: Vec<(String, BlittableBuf)>,
) -> Result<TaskOutcome, EngineError> {
    let mut outcome = TaskOutcome::of(SmugglerPart::CompareExchange);
    let id = database.record().topology_id;
    let put = |key: &str, expected: u64, value: &BlittableBuf| {
        let (key, value) = (key.to_owned(), value.clone());
        let command = CompareExchangeCommand::Put { database: id, key, expected, value };
        engine.submit_for(database, &Command::CompareExchange(command), None)
    };
    for values in values.chunks(SUBMITTED_MAX) {
        let submitted: Vec<Result<Submission, EngineError>> =
            values.iter().map(|(key, value)| put(key, 0, value)).collect();
        for (submission, (key, value)) in submitted.into_iter().zip(values) {
            let mut submission = submission;
            loop {
                let applied = match submission {
                    Ok(submission) => submission.wait().map_err(EngineError::from),
                    Err(error) => Err(error),
                };
                match applied.map(|applied| applied.outcome) {
                    // It was there: what the dump has replaces it.
                    Ok(Outcome::CompareExchange(done)) if !done.is_successful => {
                        submission = put(key, done.index, value);
                    }
                    Ok(_) => break,
                    Err(EngineError::Cluster(ClusterError::KeyTooLong { .. })) => {
                        outcome.refused.push(format!("The key '{key}' is too long."));
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(outcome)
}

/// Deletes values; those that are not there need not be.
fn delete_values(
    engine: &Engine,
    database: &DatabaseLease,
    keys: &[String],
) -> Result<TaskOutcome, EngineError> {
    let outcome = TaskOutcome::of(SmugglerPart::CompareExchangeTombstones);
    let id = database.record().topology_id;
    for key in keys {
        let mut expected =
            engine.cluster_state().compare_exchange(id, key)?.map(|value| value.index);
        while let Some(version) = expected {
            let command = CompareExchangeCommand::Delete {
                database: id,
                key: key.clone(),
                expected: version,
            };
            let command = Command::CompareExchange(command);
            let applied = engine.submit_for(database, &command, None)?.wait()?;
            expected = match applied.outcome {
                Outcome::CompareExchange(done) if !done.is_successful => Some(done.index),
                _ => None,
            };
        }
    }
    Ok(outcome)
}

fn subscribe(
    engine: &Engine,
    database: &DatabaseLease,
    new: NewSubscription,
) -> Result<TaskOutcome, EngineError> {
    let mut outcome = TaskOutcome::of(SmugglerPart::Subscriptions);
    let name = new.name.clone().unwrap_or_default();
    match engine.create_subscription(database, new, None) {
        Ok(_) => {}
        Err(EngineError::SubscriptionNameTaken { .. }) => {
            let text =
                format!("The subscription '{name}' was left out: there is one of that name.");
            outcome.refused.push(text);
        }
        Err(error @ EngineError::Query(_)) => {
            outcome.refused.push(format!("Could not import subscription '{name}': {error}"));
        }
        Err(error) => return Err(error),
    }
    Ok(outcome)
}

/// The subscription that an element of a dump describes. It begins with the first change, since the positions of the
/// exported database mean nothing here, unless its position is a version of documents, which keep theirs.
pub(super) fn subscription_of(element: &Map<String, Value>) -> Result<NewSubscription, String> {
    let text = |name: &str| element.get(name).and_then(Value::as_str).map(str::to_owned);
    let flag = |name: &str| element.get(name).and_then(Value::as_bool).unwrap_or(false);
    let start = match text("ChangeVectorForNextBatchStartingPoint") {
        Some(vector) if !vector.is_empty() => {
            let vector =
                vector.parse().map_err(|_| format!("'{vector}' is not a change vector."))?;
            SubscriptionStart::After(vector)
        }
        _ => SubscriptionStart::BeginningOfTime,
    };
    Ok(NewSubscription {
        id: None,
        name: Some(text("SubscriptionName").ok_or("'SubscriptionName' is missing.")?),
        settings: SubscriptionSettings {
            query: text("Query").ok_or("'Query' is missing.")?,
            mentor_node: text("MentorNode"),
            is_pinned: flag("PinToMentorNode"),
            is_disabled: flag("Disabled"),
        },
        start,
    })
}
