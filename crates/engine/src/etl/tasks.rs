//! The definitions of ETL tasks in the record of a database.

use std::sync::Arc;

use database::Decision;
use etl::{Plan, PlanError};
use model::DatabaseRecord;
use serde_json::{Map, Value, json};
use wire::{ProtocolError, RavenConnectionString, RavenEtl, RecordBody};

use super::{connection_strings::raven_string, position};
use crate::{engine::Engine, error::EngineError};

/// The property of a record with the tasks.
const TASKS: &str = "RavenEtls";
/// The properties with tasks of all kinds: their names are unique.
const ALL_TASKS: [&str; 5] = [TASKS, "SqlEtls", "OlapEtls", "ElasticSearchEtls", "QueueEtls"];
/// How many tasks a database may have: each has a thread.
const TASKS_MAX: usize = 64;

/// A task of a database.
#[derive(Clone, Debug)]
pub struct EtlTask {
    /// Its definition.
    pub definition: RavenEtl,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
    /// Where it sends to; `None` if its connection string is missing.
    pub connection: Option<RavenConnectionString>,
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
    let body = RecordBody::of_record(record);
    let stored = body.properties().get(TASKS).and_then(Value::as_array);
    let tasks = stored.into_iter().flatten().filter_map(Value::as_object).filter_map(|stored| {
        let definition = read_stored(stored)?;
        let connection = raven_string(&body, &definition.connection).ok();
        Some(EtlTask { definition, stored: stored.clone(), connection })
    });
    tasks.collect()
}

/// A stored task may lack its kind: it is in the list of its kind.
fn read_stored(stored: &Map<String, Value>) -> Option<RavenEtl> {
    let mut stored = stored.clone();
    stored.entry("EtlType").or_insert_with(|| "Raven".into());
    RavenEtl::read(&stored).ok()
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

impl Engine {
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

    /// Checks that what a database has may be sent to a destination.
    fn check_etl_channel(&self, body: &RecordBody, task: &RavenEtl) -> Result<(), EngineError> {
        let connection = raven_string(body, &task.connection).map_err(|_| {
            let name = &task.connection;
            invalid(
                task,
                format!("Could not find connection string named '{name}'. Please supply an existing connection string."),
            )
        })?;
        let is_plain = |url: &String| !url.to_ascii_lowercase().starts_with("https://");
        if body.is_encrypted() && !task.allows_unencrypted && connection.urls.iter().any(is_plain) {
            return Err(invalid(
                task,
                "The database is encrypted, and would be sent over a connection that is not. Name addresses that begin \
                 with https://, or set AllowEtlOnNonEncryptedChannel.",
            ));
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
        let changing = self.etl.hold();
        // Numbers of tasks are indexes of changes, as those of subscriptions are.
        let index = self.cluster_state().last_index()? + 1;
        let (mut id, mut before) = (0, None);
        let written = self.decide_record_body(database, |record, body| {
            self.check_etl_channel(body, &definition)?;
            let is_other = |task: &&Value| task["TaskId"].as_u64() != replaced;
            let names = |task: &Value| task["Name"].as_str().map(str::to_lowercase);
            let is_taken = ALL_TASKS.iter().any(|section| {
                let tasks = body.properties().get(*section).and_then(Value::as_array);
                let mut others = tasks.into_iter().flatten().filter(is_other);
                others.any(|task| names(task) == Some(definition.name.to_lowercase()))
            });
            if is_taken {
                return Err(EngineError::Section(ProtocolError::invalid_operation(format!(
                    "Can't use task name '{}', there is already an ETL task with that name",
                    definition.name
                ))));
            }
            let tasks = body.list_mut(TASKS);
            let number = |task: &Value| task["TaskId"].as_u64();
            let place = match replaced {
                None => None,
                Some(replaced) => {
                    let found = tasks.iter().position(|task| number(task) == Some(replaced));
                    Some(found.ok_or_else(|| missing_task(replaced))?)
                }
            };
            let last = tasks.iter().filter_map(number).max().unwrap_or(0);
            id = index.max(last + 1).max(record.etag + 1);
            let mut stored = sent.clone();
            stored.insert("TaskId".to_owned(), json!(id));
            let stored = Value::Object(stored);
            match place {
                Some(place) => {
                    before = tasks[place].as_object().and_then(read_stored);
                    tasks[place] = stored;
                }
                None if TASKS_MAX <= tasks.len() => {
                    let message = format!("A database has at most {TASKS_MAX} ETL tasks.");
                    return Err(ProtocolError::invalid_operation(message).into());
                }
                None => tasks.push(stored),
            }
            Ok(Decision::Replace)
        })?;
        let database = written.record.topology_id;
        self.etl.stop(database, &definition.name);
        if let Some(before) = &before {
            self.etl.stop(database, &before.name);
        }
        // A task that once had this name must not lend it its positions.
        let is_renamed = before.as_ref().is_none_or(|before| before.name != definition.name);
        for transform in &definition.transforms {
            let is_reset = reset.iter().any(|name| name.eq_ignore_ascii_case(&transform.name));
            if is_renamed || is_reset {
                position::remove(&self.cluster, database, &definition.name, &transform.name)?;
            }
        }
        drop(changing);
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
        let found = tasks_of(record).into_iter().find(|known| known.definition.name == task);
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
            if !is_disabled {
                let stored = body.properties().get(TASKS).and_then(Value::as_array);
                let mut tasks = stored.into_iter().flatten();
                let task = tasks.find(|task| task["TaskId"].as_u64() == Some(id));
                let task = task.and_then(Value::as_object).ok_or_else(|| missing_task(id))?;
                let mut task = task.clone();
                task.entry("EtlType").or_insert_with(|| "Raven".into());
                self.check_etl_channel(body, &RavenEtl::read(&task)?)?;
            }
            let tasks = body.list_mut(TASKS);
            let task = tasks.iter_mut().find(|task| task["TaskId"].as_u64() == Some(id));
            let task = task.and_then(Value::as_object_mut).ok_or_else(|| missing_task(id))?;
            task.insert("Disabled".to_owned(), json!(is_disabled));
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
        let mut deleted = None;
        let changing = self.etl.hold();
        let written = self.decide_record_body(database, |_, body| {
            let tasks = body.list_mut(TASKS);
            let place = tasks.iter().position(|task| task["TaskId"].as_u64() == Some(id));
            let removed = tasks.remove(place.ok_or_else(|| missing_task(id))?);
            deleted = removed.as_object().and_then(read_stored);
            Ok(Decision::Replace)
        })?;
        let database = written.record.topology_id;
        if let Some(RavenEtl { name, transforms, .. }) = &deleted {
            self.etl.stop(database, name);
            for transform in transforms {
                position::remove(&self.cluster, database, name, &transform.name)?;
            }
        }
        drop(changing);
        self.follow_etl();
        Ok(ChangedEtlTask { index: written.index, id })
    }
}
