//! The definitions of tasks of external replication in the record of a database.

use std::sync::Arc;

use database::Decision;
use model::{DatabaseRecord, DatabaseTopology, NodeTag, NodeTask};
use serde_json::{Map, Value, json};
use wire::{ExternalReplication, ProtocolError, RavenConnectionString, RecordBody};

use super::destinations::{DestinationKey, LinkDestination};
use crate::{
    engine::Engine, error::EngineError, etl::connection_strings::raven_string,
    stored_tasks::settle_tasks,
};

/// How many tasks a database may have: each has a thread.
const TASKS_MAX: usize = 64;

/// A task of a database.
#[derive(Clone, Debug)]
pub struct ReplicationTask {
    /// Its definition.
    pub definition: ExternalReplication,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
    /// Where it sends to, or why that is not known, for operators.
    pub connection: Result<RavenConnectionString, String>,
    /// Whether it may send only over connections that are encrypted, as what is stored is.
    pub requires_encryption: bool,
}

/// A change of the tasks of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedReplicationTask {
    /// The index of the change.
    pub index: u64,
    /// The task.
    pub id: u64,
}

/// The tasks that a record defines; those that cannot be read are left out.
pub(super) fn tasks_of(record: &DatabaseRecord) -> Vec<ReplicationTask> {
    ReplicationTask::stored_in(&RecordBody::of_record(record))
}

impl ReplicationTask {
    fn stored_in(body: &RecordBody) -> Vec<ReplicationTask> {
        let stored = body.list(RecordBody::EXTERNAL_REPLICATIONS).iter();
        let tasks = stored.filter_map(Value::as_object).filter_map(|stored| {
            let definition = ExternalReplication::read(stored).ok()?;
            let connection = raven_string(body, &definition.connection);
            Some(ReplicationTask {
                connection: connection.map_err(|error| error.to_string()),
                requires_encryption: body.is_encrypted(),
                stored: ExternalReplication::with_names_as_written(stored),
                definition,
            })
        });
        tasks.collect()
    }

    /// The node that runs it, if there is one now.
    pub fn node(&self, topology: &DatabaseTopology) -> Option<NodeTag> {
        topology.node_of_task(&NodeTask {
            number: self.definition.id,
            mentor: self.definition.mentor_node.as_deref(),
            is_pinned: self.definition.is_pinned,
            last: None,
        })
    }

    /// Where it sends to; `None` if that is not known, or if it is switched off.
    pub(super) fn destination(&self) -> Option<LinkDestination> {
        let connection = self.connection.as_ref().ok().filter(|_| !self.definition.is_disabled)?;
        Some(LinkDestination {
            key: DestinationKey::Task(self.definition.id),
            name: self.definition.name.clone(),
            connection: connection.clone(),
            requires_encryption: self.requires_encryption,
            delay: self.definition.delay,
        })
    }
}

fn refused(message: String) -> EngineError {
    EngineError::Section(ProtocolError::invalid_operation(message))
}

fn missing_task(id: u64) -> EngineError {
    refused(format!("External replication task ID: {id} doesn't exist"))
}

/// Checks that there is a destination, and that what the database has may be sent there.
fn check_destination(
    body: &RecordBody,
    database: &str,
    task: &ExternalReplication,
) -> Result<(), EngineError> {
    let connection = raven_string(body, &task.connection)?;
    let is_plain = connection.addresses.iter().any(|address| !address.is_encrypted());
    if body.is_encrypted() && is_plain {
        return Err(refused(format!(
            "The database '{database}' is encrypted, and '{}' would send it over a connection that is not. Name \
             addresses that begin with https://.",
            task.name
        )));
    }
    Ok(())
}

fn place_of(tasks: &[Value], id: u64) -> Option<usize> {
    let number = |task: &Value| ExternalReplication::id_of(task.as_object()?);
    tasks.iter().position(|task| number(task) == Some(id))
}

impl Engine {
    /// The tasks of external replication of a database.
    pub fn replication_tasks(&self, record: &DatabaseRecord) -> Vec<ReplicationTask> {
        tasks_of(record)
    }

    /// Adds a task of external replication, or replaces the one with the number that it has. Blocks.
    ///
    /// # Errors
    /// The task cannot be followed; its name is taken; there is none with that number; there are too many; the record
    /// cannot be written.
    pub fn put_replication_task(
        self: &Arc<Self>,
        database: &str,
        sent: &Map<String, Value>,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let definition = ExternalReplication::read(sent)?;
        // Numbers of tasks are indexes of changes, as those of subscriptions are.
        let index = self.cluster_state().last_index()? + 1;
        let mut id = definition.id;
        let written = self.decide_record_body(database, |record, body| {
            check_destination(body, database, &definition)?;
            let number_min = index.max(record.etag + 1);
            settle_tasks(body, number_min);
            id = place(body, (sent, &definition), number_min)?;
            Ok(Decision::Replace)
        })?;
        self.follow_replication();
        Ok(ChangedReplicationTask { index: written.index, id })
    }

    /// Enables a task of external replication, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none with this number; it cannot be enabled; the record cannot be written.
    pub fn set_replication_task_state(
        self: &Arc<Self>,
        database: &str,
        id: u64,
        is_disabled: bool,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let written = self.decide_record_body(database, |_, body| {
            let tasks = body.list(RecordBody::EXTERNAL_REPLICATIONS);
            let place = place_of(tasks, id).ok_or_else(|| missing_task(id))?;
            let mut task = tasks[place].as_object().cloned().unwrap_or_default();
            if !is_disabled {
                check_destination(body, database, &ExternalReplication::read(&task)?)?;
            }
            task = ExternalReplication::with_names_as_written(&task);
            task.insert("Disabled".to_owned(), json!(is_disabled));
            body.list_mut(RecordBody::EXTERNAL_REPLICATIONS)[place] = Value::Object(task);
            Ok(Decision::Replace)
        })?;
        self.follow_replication();
        Ok(ChangedReplicationTask { index: written.index, id })
    }

    /// Deletes a task of external replication; what it has sent remains. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn delete_replication_task(
        self: &Arc<Self>,
        database: &str,
        id: u64,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let written = self.decide_record_body(database, |_, body| {
            let tasks = body.list_mut(RecordBody::EXTERNAL_REPLICATIONS);
            let place = place_of(tasks, id).ok_or_else(|| missing_task(id))?;
            tasks.remove(place);
            Ok(Decision::Replace)
        })?;
        self.follow_replication();
        Ok(ChangedReplicationTask { index: written.index, id })
    }
}

/// Puts a task into a record whose tasks are in order: in the place of the one with its number, or behind the others with
/// a new one. Returns the number.
fn place(
    body: &mut RecordBody,
    (sent, definition): (&Map<String, Value>, &ExternalReplication),
    number_min: u64,
) -> Result<u64, EngineError> {
    let tasks = body.list(RecordBody::EXTERNAL_REPLICATIONS);
    let place = match definition.id {
        0 => None,
        id => Some(place_of(tasks, id).ok_or_else(|| missing_task(id))?),
    };
    let is_taken = tasks.iter().enumerate().any(|(at, task)| {
        let known = task["Name"].as_str();
        Some(at) != place && known.is_some_and(|known| known.eq_ignore_ascii_case(&definition.name))
    });
    if is_taken {
        return Err(refused(format!(
            "Can't use task name '{}', there is already an external replication task with that name",
            definition.name
        )));
    }
    let id = match definition.id {
        0 => number_min,
        id => id,
    };
    let mut stored = ExternalReplication::with_names_as_written(sent);
    stored.insert("TaskId".to_owned(), json!(id));
    stored.insert("Name".to_owned(), json!(definition.name));
    let tasks = body.list_mut(RecordBody::EXTERNAL_REPLICATIONS);
    match place {
        Some(place) => tasks[place] = Value::Object(stored),
        None if TASKS_MAX <= tasks.len() => {
            return Err(refused(format!(
                "A database has at most {TASKS_MAX} tasks of external replication."
            )));
        }
        None => tasks.push(Value::Object(stored)),
    }
    Ok(id)
}
