//! Tasks of external replication that every database has: one definition in the state that all nodes agree on, and from
//! it a task in the record of each database.
//!
//! A definition and the records change one after the other. So what is missing, because a node failed or a database was
//! created meanwhile, is put there by the node that leads the cluster, about once a second.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use database::Decision;
use model::{DatabaseId, DatabaseRecord};
use serde_json::{Map, Value};
use wire::{
    ErrorKind, ProtocolError, RecordBody, ServerWideReplication,
    is_name_of_server_wide_replication, is_server_wide_task, put_server_wide_tasks,
};

use super::task_list::{EXTERNAL, refused};
use crate::{engine::Engine, error::EngineError};

/// The names of the stored definitions begin with it.
const PREFIX: &str = "ServerWide/ExternalReplication/";
/// How many there may be: each is a link of each database.
const TASKS_MAX: usize = 64;

/// A task that every database has, after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedServerWideTask {
    /// Its name.
    pub name: String,
    /// The index of the change.
    pub index: u64,
}

/// Which records were looked at.
#[derive(Default)]
pub(super) struct Followed {
    inner: Mutex<FollowedRecords>,
    /// Held while a definition is changed.
    changing: Mutex<()>,
}

#[derive(Default)]
struct FollowedRecords {
    /// The index of the shared state that was looked at.
    seen_index: u64,
    /// The definitions then.
    tasks: Vec<ServerWideReplication>,
    /// The versions of the records that have what they should.
    right: HashMap<DatabaseId, u64>,
}

/// Refuses a name for a task of a database that would be taken for one that all databases have, and be removed.
pub(super) fn check_name(name: &str) -> Result<(), EngineError> {
    match is_name_of_server_wide_replication(name) {
        false => Ok(()),
        true => Err(refused(format!(
            "Can't create task: '{name}'. A regular (non server-wide) external replication name can't start with \
             prefix 'Server Wide External Replication'"
        ))),
    }
}

/// Refuses to change a task of a database that all databases have.
pub(super) fn check_own(body: &RecordBody, id: u64) -> Result<(), EngineError> {
    let mut tasks = EXTERNAL.stored_in(body);
    let task = tasks.find(|task| task.get("TaskId").and_then(Value::as_u64) == Some(id));
    let name = task.as_ref().and_then(|task| task.get("Name")?.as_str());
    match name.filter(|name| id != 0 && is_server_wide_task(name)) {
        None => Ok(()),
        Some(name) => Err(refused(format!(
            "Can't change the task '{name}' of one database, because it is a server-wide task: change it with \
             /admin/configuration/server-wide"
        ))),
    }
}

fn note_missing(record: &DatabaseRecord, error: &EngineError) {
    tracing::warn!(database = record.name.as_str(), %error, "a server-wide task is missing");
}

/// Under which a definition is stored. Names that differ in case alone are the same.
fn name_of(task: &str) -> String {
    format!("{PREFIX}{}", model::lower_case(task))
}

fn missing(name: &str) -> EngineError {
    EngineError::Section(ProtocolError::new(
        ErrorKind::RachisApply,
        format!("Cannot find server wide task of type 'Replication' with name '{name}'"),
    ))
}

impl Engine {
    /// The tasks of external replication that every database has, by name.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn server_wide_replications(&self) -> Result<Vec<ServerWideReplication>, EngineError> {
        let values = self.cluster_state().server_values(PREFIX)?;
        let read = values.iter().filter_map(|(name, value)| {
            let stored: Map<String, Value> = serde_json::from_slice(&value.bytes).ok()?;
            let read = ServerWideReplication::read(&stored);
            read.inspect_err(|error| {
                tracing::error!(name = name.as_str(), %error, "a server-wide task is unreadable");
            })
            .ok()
        });
        Ok(read.collect())
    }

    /// Adds a task that every database has, or replaces the one with its number or name. Blocks.
    ///
    /// # Errors
    /// The task cannot be followed; its name is taken, or there are too many; the change cannot be written.
    pub fn put_server_wide_replication(
        self: &Arc<Self>,
        sent: &Map<String, Value>,
    ) -> Result<ChangedServerWideTask, EngineError> {
        let task = ServerWideReplication::read(sent)?;
        let _changing = self.lock_server_wide();
        let known = self.server_wide_replications()?;
        let has_name = |other: &&ServerWideReplication| name_of(&other.name) == name_of(&task.name);
        let namesake = known.iter().find(has_name);
        let replaced = match task.id {
            0 => namesake,
            id => known.iter().find(|other| other.id == id).or(namesake),
        };
        if namesake.is_some() && namesake != replaced {
            return Err(refused(format!(
                "Can't use task name '{}', there is already a server-wide task with that name",
                task.name
            )));
        }
        if replaced.is_none() && TASKS_MAX <= known.len() {
            return Err(refused(format!("There are at most {TASKS_MAX} server-wide tasks.")));
        }
        let id = match replaced {
            Some(replaced) => replaced.id,
            None => self.cluster_state().last_index()? + 1,
        };
        let task = task.numbered(id);
        let json = serde_json::to_vec(task.stored()).unwrap_or_default();
        let index = self.catalog.put_value(&name_of(&task.name), &json)?;
        if let Some(renamed) = replaced.filter(|one| name_of(&one.name) != name_of(&task.name)) {
            self.catalog.put_value(&name_of(&renamed.name), &[])?;
        }
        self.give_server_wide_tasks()?;
        Ok(ChangedServerWideTask { name: task.name, index })
    }

    /// Enables a task that every database has, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none of this name; the change cannot be written.
    pub fn set_server_wide_replication_state(
        self: &Arc<Self>,
        name: &str,
        is_disabled: bool,
    ) -> Result<ChangedServerWideTask, EngineError> {
        let _changing = self.lock_server_wide();
        let task = self.server_wide_replication(name)?.switched(is_disabled);
        let json = serde_json::to_vec(task.stored()).unwrap_or_default();
        let index = self.catalog.put_value(&name_of(&task.name), &json)?;
        self.give_server_wide_tasks()?;
        Ok(ChangedServerWideTask { name: task.name, index })
    }

    /// Deletes a task from all databases. Blocks.
    ///
    /// # Errors
    /// There is none of this name; the change cannot be written.
    pub fn delete_server_wide_replication(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<ChangedServerWideTask, EngineError> {
        let _changing = self.lock_server_wide();
        let task = self.server_wide_replication(name)?;
        // An empty value removes it.
        let index = self.catalog.put_value(&name_of(&task.name), &[])?;
        self.give_server_wide_tasks()?;
        Ok(ChangedServerWideTask { name: task.name, index })
    }

    fn lock_server_wide(&self) -> std::sync::MutexGuard<'_, ()> {
        let changing = &self.replication.server_wide.changing;
        changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server_wide_replication(&self, name: &str) -> Result<ServerWideReplication, EngineError> {
        let mut tasks = self.server_wide_replications()?.into_iter();
        tasks.find(|task| name_of(&task.name) == name_of(name)).ok_or_else(|| missing(name))
    }

    /// The record of a new database with the tasks that every database has; returns whether it has any.
    pub(crate) fn begin_server_wide_tasks(
        &self,
        body: &mut RecordBody,
        database: &str,
    ) -> Result<bool, EngineError> {
        Ok(put_server_wide_tasks(body, database, &self.server_wide_replications()?))
    }

    /// Gives all databases the tasks that they are to have. If that fails, those that lack some get them from the node
    /// that leads, a moment later.
    fn give_server_wide_tasks(self: &Arc<Self>) -> Result<(), EngineError> {
        let tasks = self.server_wide_replications()?;
        for record in self.catalog.records() {
            if let Err(error) = self.give_to_database(&record, &tasks) {
                note_missing(&record, &error);
                break;
            }
        }
        self.follow_replication();
        Ok(())
    }

    fn give_to_database(
        &self,
        record: &DatabaseRecord,
        tasks: &[ServerWideReplication],
    ) -> Result<(), EngineError> {
        let name = record.name.as_str();
        let given = self.decide_record_body(name, |_, body| {
            Ok(match put_server_wide_tasks(body, name, tasks) {
                true => Decision::Replace,
                false => Decision::Keep,
            })
        });
        match given {
            Ok(_) | Err(EngineError::DatabaseMissing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives databases what they lack of the tasks that every database has; only the node that leads does anything.
    pub(super) fn follow_server_wide(self: &Arc<Self>, index: u64) {
        let mut followed =
            self.replication.server_wide.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.seen_index == index || !self.leads() {
            return;
        }
        let tasks = match self.server_wide_replications() {
            Ok(tasks) => tasks,
            Err(error) => {
                tracing::error!(%error, "server-wide tasks could not be read");
                return;
            }
        };
        if tasks != followed.tasks {
            followed.right.clear();
        }
        followed.tasks = tasks;
        let (mut right, mut have_all) = (HashMap::new(), true);
        for record in self.catalog.records() {
            let is_right = followed.right.get(&record.topology_id) == Some(&record.etag);
            if !is_right && let Err(error) = self.give_to_database(&record, &followed.tasks) {
                note_missing(&record, &error);
                have_all = false;
                match self.leads() {
                    true => continue,
                    // None can be written now.
                    false => break,
                }
            }
            // A record that was changed just now is looked at once more.
            right.insert(record.topology_id, record.etag);
        }
        // What could not be given is tried again.
        (followed.right, followed.seen_index) = (right, if have_all { index } else { 0 });
    }

    fn leads(&self) -> bool {
        !self.has_company()
            || self.cluster_topology().is_ok_and(|cluster| cluster.leader == Some(cluster.this))
    }
}
