//! The definitions of ETL tasks in the record of a database.

use std::sync::Arc;

use database::{Decision, WrittenRecord};
use etl::{Plan, PlanError};
use model::DatabaseRecord;
use serde_json::{Map, Value, json};
use wire::{ConnectionStringKind, ProtocolError, RavenConnectionString, RavenEtl, RecordBody};

use super::{
    connection_strings::{raven_string, strings_of},
    position,
};
use crate::{engine::Engine, error::EngineError, stored_tasks::settle_tasks};

/// How many tasks a database may have: each has a thread.
const TASKS_MAX: usize = 64;

/// A task of a database.
#[derive(Clone, Debug)]
pub struct EtlTask {
    /// Its definition.
    pub definition: RavenEtl,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
    /// Where it sends to, or why that is not known, for operators.
    pub connection: Result<RavenConnectionString, String>,
    /// Whether it may send only over connections that are encrypted, as what is stored is.
    pub requires_encryption: bool,
}

/// A change of the tasks of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedEtlTask {
    /// The index of the change.
    pub index: u64,
    /// The task.
    pub id: u64,
}

/// The tasks that a record defines; those that cannot be read are left out.
pub(crate) fn tasks_of(record: &DatabaseRecord) -> Vec<EtlTask> {
    EtlTask::stored_in(&RecordBody::of_record(record))
}

impl EtlTask {
    /// The tasks in a record, in their order; those that cannot be read are left out.
    pub(crate) fn stored_in(body: &RecordBody) -> Vec<EtlTask> {
        let stored = body.list(RecordBody::RAVEN_ETLS).iter().filter_map(Value::as_object);
        let tasks = stored.filter_map(|stored| {
            let definition = RavenEtl::read_stored(stored).ok()?;
            let connection = raven_string(body, &definition.connection);
            Some(EtlTask {
                connection: connection.map_err(|error| error.to_string()),
                requires_encryption: body.is_encrypted() && !definition.allows_unencrypted,
                stored: RavenEtl::with_names_as_written(stored),
                definition,
            })
        });
        tasks.collect()
    }
}

fn missing_task(id: u64) -> EngineError {
    EngineError::Section(ProtocolError::invalid_operation(format!(
        "ETL task ID: {id} doesn't exist"
    )))
}

fn invalid(task: &RavenEtl, reason: impl std::fmt::Display) -> EngineError {
    EngineError::Section(ProtocolError::invalid_operation(format!(
        "Invalid ETL configuration for '{}'. Reason: {reason}",
        task.name
    )))
}

/// Checks that there is a destination, and that what the database has may be sent there.
fn check_destination(body: &RecordBody, task: &RavenEtl) -> Result<(), EngineError> {
    if !strings_of(body, ConnectionStringKind::Raven).contains_key(&task.connection) {
        let name = &task.connection;
        return Err(invalid(
            task,
            format!(
                "Could not find connection string named '{name}'. Please supply an existing connection string."
            ),
        ));
    }
    let connection = raven_string(body, &task.connection).map_err(|error| invalid(task, error))?;
    let is_plain = connection.addresses.iter().any(|address| !address.is_encrypted());
    if body.is_encrypted() && !task.allows_unencrypted && is_plain {
        return Err(invalid(
            task,
            "The database is encrypted, and would be sent over a connection that is not. Name addresses that begin \
             with https://, or set AllowEtlOnNonEncryptedChannel.",
        ));
    }
    Ok(())
}

/// Checks the destinations of the enabled tasks that use a connection string.
pub(super) fn check_users(body: &RecordBody, name: &str) -> Result<(), EngineError> {
    let tasks = EtlTask::stored_in(body).into_iter().map(|task| task.definition);
    let mut users = tasks.filter(|task| !task.is_disabled && task.connection == name);
    users.try_for_each(|task| check_destination(body, &task))
}

/// Where the task with that number is in its list.
fn place_of(tasks: &[Value], id: u64) -> Option<usize> {
    let number = |task: &Value| RavenEtl::id_of(task.as_object()?);
    tasks.iter().position(|task| number(task) == Some(id))
}

/// Puts a task into a record whose tasks are in order, in the place of the one with the number `replaced` or behind the
/// others, with a number that is new, which it returns.
fn place(
    body: &mut RecordBody,
    (sent, definition): (&Map<String, Value>, &RavenEtl),
    replaced: Option<u64>,
    number_min: u64,
) -> Result<u64, EngineError> {
    let refused = |message: String| Err(ProtocolError::invalid_operation(message).into());
    let tasks = body.list(RecordBody::RAVEN_ETLS);
    let place = match replaced {
        None => None,
        Some(replaced) => Some(place_of(tasks, replaced).ok_or_else(|| missing_task(replaced))?),
    };
    let is_taken = RecordBody::ETL_TASKS.iter().any(|list| {
        let mut others = body
            .list(list)
            .iter()
            .enumerate()
            .filter(|(at, _)| *list != RecordBody::RAVEN_ETLS || Some(*at) != place);
        others.any(|(_, task)| {
            let known = task["Name"].as_str().map(str::to_lowercase);
            known == Some(definition.name.to_lowercase())
        })
    });
    if is_taken {
        return refused(format!(
            "Can't use task name '{}', there is already an ETL task with that name",
            definition.name
        ));
    }
    let last = tasks.iter().filter_map(|task| RavenEtl::id_of(task.as_object()?)).max();
    let id = number_min.max(last.unwrap_or(0) + 1);
    let mut stored = RavenEtl::with_names_as_written(sent);
    stored.insert("TaskId".to_owned(), json!(id));
    let tasks = body.list_mut(RecordBody::RAVEN_ETLS);
    match place {
        Some(place) => tasks[place] = Value::Object(stored),
        None if TASKS_MAX <= tasks.len() => {
            return refused(format!("A database has at most {TASKS_MAX} ETL tasks."));
        }
        None => tasks.push(Value::Object(stored)),
    }
    Ok(id)
}

/// The tasks of a record before a change and after it.
#[derive(Default)]
pub(crate) struct TasksChange {
    pub(crate) before: Vec<EtlTask>,
    pub(crate) after: Vec<EtlTask>,
}

impl TasksChange {
    /// The names of the tasks and transformations that are in one of both alone.
    fn names(&self) -> Vec<(&str, &str)> {
        let (before, after) = (names_of(&self.before), names_of(&self.after));
        let lower = |name: &(&str, &str)| (name.0.to_lowercase(), name.1.to_lowercase());
        let is_in =
            |names: &[(&str, &str)], name| names.iter().any(|known| lower(known) == lower(name));
        let removed = before.iter().filter(|name| !is_in(&after, name));
        let added = after.iter().filter(|name| !is_in(&before, name));
        removed.chain(added).copied().collect()
    }
}

/// The names of tasks with those of each of their transformations.
fn names_of(tasks: &[EtlTask]) -> Vec<(&str, &str)> {
    let mut names = Vec::new();
    for EtlTask { definition, .. } in tasks {
        let transforms = definition.transforms.iter();
        names.extend(transforms.map(|one| (definition.name.as_str(), one.name.as_str())));
    }
    names
}

impl Engine {
    /// Changes the record of a database, and forgets how far transformations have come that are removed or new: one that
    /// is removed no longer keeps deletions from being forgotten, and one that is added again begins with the first
    /// change. `change` returns the change of tasks. Blocks.
    ///
    /// # Errors
    /// Those of `change`; a position cannot be removed.
    pub(crate) fn change_etl_tasks(
        &self,
        change: impl FnOnce(&mut TasksChange) -> Result<WrittenRecord, EngineError>,
    ) -> Result<WrittenRecord, EngineError> {
        // No process begins with a position that is to be removed.
        let _changing = self.etl.hold();
        let mut tasks = TasksChange::default();
        let written = change(&mut tasks)?;
        let database = written.record.topology_id;
        for (task, transform) in tasks.names() {
            // It would store where it is.
            self.etl.stop(database, task);
            position::remove(&self.cluster, database, task, transform)?;
        }
        Ok(written)
    }

    /// The ETL tasks of a database.
    pub fn etl_tasks(&self, record: &DatabaseRecord) -> Vec<EtlTask> {
        tasks_of(record)
    }

    /// Checks a task against a database, without its connection string.
    ///
    /// # Errors
    /// A script does not parse, or contradicts its transformation.
    pub(crate) fn check_etl_scripts(&self, task: &RavenEtl) -> Result<(), EngineError> {
        let engine = self.scripts().engine();
        for transform in &task.transforms {
            Plan::compile(&engine, transform).map(drop).map_err(|error| match &error {
                PlanError::Invalid { .. } => invalid(task, error),
                PlanError::Script(_) => {
                    invalid(task, format!("Could not parse '{}' script: {error}", transform.name))
                }
            })?;
        }
        Ok(())
    }

    /// Adds an ETL task, or replaces the one with the number `replaced`; it has another number then. Transformations
    /// that are `reset`, and those that read or send something else than before, begin with the first change. Blocks.
    ///
    /// # Errors
    /// The task cannot be followed; its name is taken; there is none with that number; there are too many; the record
    /// cannot be written.
    pub fn put_etl_task(
        self: &Arc<Self>,
        database: &str,
        sent: &Map<String, Value>,
        replaced: Option<u64>,
        reset: &[String],
    ) -> Result<ChangedEtlTask, EngineError> {
        let definition = RavenEtl::read(sent)?;
        self.check_etl_scripts(&definition)?;
        // Numbers of tasks are indexes of changes, as those of subscriptions are.
        let index = self.cluster_state().last_index()? + 1;
        let mut id = 0;
        let written = self.change_etl_tasks(|tasks| {
            let written = self.decide_record_body(database, |record, body| {
                check_destination(body, &definition)?;
                let number_min = index.max(record.etag + 1);
                settle_tasks(body, number_min);
                tasks.before = EtlTask::stored_in(body);
                id = place(body, (sent, &definition), replaced, number_min)?;
                tasks.after = EtlTask::stored_in(body);
                Ok(Decision::Replace)
            })?;
            // Its process would store where it is.
            self.etl.stop(written.record.topology_id, &definition.name);
            for transform in &definition.transforms {
                if reset.iter().any(|name| name.eq_ignore_ascii_case(&transform.name)) {
                    let (database, task) = (written.record.topology_id, &definition.name);
                    position::remove(&self.cluster, database, task, &transform.name)?;
                }
            }
            Ok(written)
        })?;
        self.follow_etl();
        Ok(ChangedEtlTask { index: written.index, id })
    }

    /// Has transformations of a task begin with the first change again. Blocks.
    ///
    /// # Errors
    /// There is no such task or transformation; the position cannot be written.
    pub fn reset_etl(
        self: &Arc<Self>,
        record: &DatabaseRecord,
        task: &str,
        transform: &str,
    ) -> Result<u64, EngineError> {
        let found = tasks_of(record)
            .into_iter()
            .find(|known| known.definition.name.eq_ignore_ascii_case(task));
        let found = found.and_then(|found| found.definition.transform(transform).cloned());
        let Some(found) = found else {
            let message =
                format!("There is no ETL task '{task}' with a transformation '{transform}'.");
            return Err(ProtocolError::invalid_operation(message).into());
        };
        // The process would store where it is.
        self.etl.reset(self, record.topology_id, task, &found.name)?;
        Ok(self.cluster_state().last_index()?)
    }

    /// Enables an ETL task, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none with this number; it cannot be enabled; the record cannot be written.
    pub fn set_etl_task_state(
        self: &Arc<Self>,
        database: &str,
        id: u64,
        is_disabled: bool,
    ) -> Result<ChangedEtlTask, EngineError> {
        let written = self.decide_record_body(database, |_, body| {
            let tasks = body.list(RecordBody::RAVEN_ETLS);
            let place = place_of(tasks, id).ok_or_else(|| missing_task(id))?;
            let mut task = tasks[place].as_object().cloned().unwrap_or_default();
            if !is_disabled {
                check_destination(body, &RavenEtl::read_stored(&task)?)?;
            }
            task = RavenEtl::with_names_as_written(&task);
            task.insert("Disabled".to_owned(), json!(is_disabled));
            body.list_mut(RecordBody::RAVEN_ETLS)[place] = Value::Object(task);
            Ok(Decision::Replace)
        })?;
        self.follow_etl();
        Ok(ChangedEtlTask { index: written.index, id })
    }

    /// Deletes an ETL task; what it has sent remains. Blocks.
    ///
    /// # Errors
    /// There is none with this number; the record cannot be written.
    pub fn delete_etl_task(
        self: &Arc<Self>,
        database: &str,
        id: u64,
    ) -> Result<ChangedEtlTask, EngineError> {
        let written = self.change_etl_tasks(|tasks| {
            self.decide_record_body(database, |_, body| {
                tasks.before = EtlTask::stored_in(body);
                let stored = body.list_mut(RecordBody::RAVEN_ETLS);
                let place = place_of(stored, id).ok_or_else(|| missing_task(id))?;
                stored.remove(place);
                tasks.after = EtlTask::stored_in(body);
                Ok(Decision::Replace)
            })
        })?;
        self.follow_etl();
        Ok(ChangedEtlTask { index: written.index, id })
    }
}
