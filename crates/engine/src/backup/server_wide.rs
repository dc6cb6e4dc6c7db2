//! Scheduled backups of all databases.
//!
//! Their definitions are values that all nodes agree on. Records of databases have nothing of them: which tasks a
//! database has of them is a function of the definitions and of its record, so databases that are created later have
//! them, too, and a change of a definition applies to all databases in one step.
//!
//! ```text
//! ServerWideBackup/<32 hexadecimal digits>    the definition in JSON, as it was sent; without "TaskId" in the first
//!                                             version, whose index is its number
//! ```

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use cluster::Cluster;
use cluster_state::ServerValue;
use model::{DatabaseRecord, date};
use serde_json::{Map, Value, json};
use wire::{ErrorKind, PeriodicBackup, ProtocolError, ServerWideBackup, keep_cloud_secrets};

use super::{
    schedule, status,
    tasks::{BackupTask, own_tasks, task_of},
};
use crate::{engine::Engine, error::EngineError};

/// The names of the values begin with it.
const PREFIX: &str = "ServerWideBackup/";
const NUMBER: &str = "TaskId";
const NAME: &str = "Name";
const CREATED: &str = "CreatedAt";

/// Changes of definitions of this process, one after another: their names must differ.
#[derive(Default)]
pub(crate) struct ServerWideChanges(Mutex<()>);

/// A backup of all databases.
#[derive(Clone, Debug)]
pub struct ServerWideBackupTask {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its definition; what is legible of it, if this server cannot follow it.
    pub definition: ServerWideBackup,
    /// The definition as it is stored, with what this server does not know.
    pub stored: Map<String, Value>,
    /// The name of its value.
    key: String,
    /// The index of its last change.
    index: u64,
}

/// A change of the backups of all databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedServerWideBackup {
    /// The index of the change.
    pub index: u64,
    /// The name of the task.
    pub name: String,
}

impl ServerWideBackupTask {
    fn read(suffix: &str, value: &ServerValue) -> Option<Self> {
        let mut stored: Map<String, Value> = serde_json::from_slice(&value.bytes).ok()?;
        let id = Some(PeriodicBackup::id_of(&stored)).filter(|id| *id != 0).unwrap_or(value.index);
        stored.insert(NUMBER.to_owned(), id.into());
        let name = stored.get(NAME)?.as_str()?.to_owned();
        let definition = ServerWideBackup::read(&stored);
        let definition = definition.unwrap_or_else(|_| ServerWideBackup::legible(&stored));
        let key = format!("{PREFIX}{suffix}");
        Some(Self { id, name, definition, stored, key, index: value.index })
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The definitions, in the order of their numbers.
pub(super) fn definitions(cluster: &Cluster) -> Vec<ServerWideBackupTask> {
    let stored = cluster.store().read().server_values(PREFIX);
    let stored = stored.inspect_err(|error| {
        tracing::error!(%error, "the backups of all databases cannot be read");
    });
    let mut found = Vec::new();
    for (suffix, value) in stored.unwrap_or_default() {
        match ServerWideBackupTask::read(&suffix, &value) {
            Some(task) => found.push(task),
            None => tracing::error!(suffix, "the backup of all databases is unreadable"),
        }
    }
    found.sort_by_key(|task| task.id);
    found
}

/// Which version of the definitions that is.
pub(super) fn version_of(definitions: &[ServerWideBackupTask]) -> Vec<(u64, u64)> {
    definitions.iter().map(|task| (task.id, task.index)).collect()
}

/// The tasks of a database: its own, and those that it has of server-wide ones.
pub(super) fn all_tasks(
    record: &DatabaseRecord,
    definitions: &[ServerWideBackupTask],
) -> Vec<BackupTask> {
    let mut tasks = own_tasks(record);
    let mut numbers: HashSet<u64> = tasks.iter().map(|task| task.definition.id).collect();
    let database = record.name.as_str();
    for of_all in definitions.iter().filter(|task| task.definition.is_for(database)) {
        // A record that came from elsewhere may use the number.
        let id = (of_all.id..).find(|id| numbers.insert(*id)).unwrap_or(of_all.id);
        let stored = ServerWideBackup::task_of(&of_all.stored, database, id);
        tasks.push(BackupTask { is_server_wide: true, ..task_of(&stored, record.created_ticks) });
    }
    tasks
}

impl Engine {
    /// The backups of all databases, in the order of their numbers.
    pub fn server_wide_backups(&self) -> Vec<ServerWideBackupTask> {
        definitions(&self.cluster)
    }

    /// The scheduled backups of a database, with those that it has of server-wide ones.
    pub fn backup_tasks(&self, record: &DatabaseRecord) -> Vec<BackupTask> {
        all_tasks(record, &definitions(&self.cluster))
    }

    /// Defines a backup of all databases, or replaces the one with its number. Blocks.
    ///
    /// # Errors
    /// The definition cannot be followed; there is none with its number; another has its name; it cannot be stored.
    pub fn put_server_wide_backup(
        &self,
        sent: &Map<String, Value>,
    ) -> Result<ChangedServerWideBackup, EngineError> {
        let _changing = self.backups.server_wide.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.server_wide_backups();
        let mut sent = sent.clone();
        let id = PeriodicBackup::id_of(&sent);
        if let Some(replaced) = present.iter().find(|task| task.id == id) {
            keep_cloud_secrets(&mut sent, &replaced.stored);
        }
        let definition = ServerWideBackup::read(&sent)?.definition;
        schedule::check(&definition)?;
        if !definition.is_disabled {
            self.check_enabled(&definition)?;
        }
        let replaced = present.iter().find(|task| task.id == definition.id);
        let mut stored = ServerWideBackup::with_names_as_written(&sent);
        let name = match (definition.name, replaced) {
            (Some(name), _) => name,
            (None, Some(replaced)) => replaced.name.clone(),
            (None, None) => free_name(&ServerWideBackup::name_of_destinations(&stored), &present),
        };
        let has_name = |task: &ServerWideBackupTask| task.is_named(&name);
        if present.iter().any(|task| has_name(task) && task.id != definition.id) {
            let message = format!(
                "Can't use task name '{name}', there is already a Server-Wide Backup task with that name"
            );
            return Err(refusal(message));
        }
        stored.insert(NAME.to_owned(), json!(name));
        let created = json!(date::format(self.platform.clock.now().ticks()));
        let key = match replaced {
            Some(replaced) => {
                stored.insert(NUMBER.to_owned(), replaced.id.into());
                let created = replaced.stored.get(CREATED).cloned().unwrap_or(created);
                stored.insert(CREATED.to_owned(), created);
                replaced.key.clone()
            }
            None if definition.id == 0 => {
                stored.remove(NUMBER);
                stored.insert(CREATED.to_owned(), created);
                let mut bytes = [0; 16];
                self.platform.entropy.fill(&mut bytes);
                format!("{PREFIX}{:032x}", u128::from_le_bytes(bytes))
            }
            None => return Err(missing_number(definition.id, &name)),
        };
        let bytes = Value::Object(stored).to_string();
        let index = self.catalog.put_value(&key, bytes.as_bytes())?;
        tracing::info!(name, "a backup of all databases was defined");
        Ok(ChangedServerWideBackup { index, name })
    }

    /// Enables a backup of all databases, or disables it. Blocks.
    ///
    /// # Errors
    /// There is none of that name; it cannot be enabled; it cannot be stored.
    pub fn set_server_wide_backup_state(
        &self,
        name: &str,
        is_disabled: bool,
    ) -> Result<ChangedServerWideBackup, EngineError> {
        let _changing = self.backups.server_wide.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut task =
            self.named(name, "Cannot find server wide task of type 'Backup' with name")?;
        if !is_disabled {
            self.check_enabled(&ServerWideBackup::read(&task.stored)?.definition)?;
        }
        task.stored.insert("Disabled".to_owned(), is_disabled.into());
        let bytes = Value::Object(task.stored).to_string();
        let index = self.catalog.put_value(&task.key, bytes.as_bytes())?;
        Ok(ChangedServerWideBackup { index, name: task.name })
    }

    /// Deletes a backup of all databases, with the statuses of its tasks; what they have written remains. Blocks.
    ///
    /// # Errors
    /// There is none of that name; the state cannot be written.
    pub fn delete_server_wide_backup(
        &self,
        name: &str,
    ) -> Result<ChangedServerWideBackup, EngineError> {
        let _changing = self.backups.server_wide.0.lock().unwrap_or_else(PoisonError::into_inner);
        let task = self.named(name, "There is no server-wide backup to delete with the name")?;
        let before = self.server_wide_backups();
        let index = self.catalog.put_value(&task.key, &[])?;
        let task_name = ServerWideBackup::task_name(&task.name);
        for record in self.catalog.records() {
            let is_its = |found: &BackupTask| {
                found.is_server_wide && found.definition.name.as_ref() == Some(&task_name)
            };
            if let Some(found) = all_tasks(&record, &before).into_iter().find(is_its) {
                let key = (record.topology_id, found.definition.id);
                if status::read(&self.cluster, key.0, key.1)?.is_some() {
                    status::remove(&self.cluster, key.0, key.1)?;
                }
            }
        }
        tracing::info!(name = task.name, "a backup of all databases was deleted");
        Ok(ChangedServerWideBackup { index, name: task.name })
    }

    fn named(&self, name: &str, missing: &str) -> Result<ServerWideBackupTask, EngineError> {
        let found = self.server_wide_backups().into_iter().find(|task| task.is_named(name));
        found.ok_or_else(|| refusal(format!("{missing} '{name}'")))
    }
}

/// The name itself, or with a number if it is taken.
fn free_name(name: &str, present: &[ServerWideBackupTask]) -> String {
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    let is_free = |name: &String| !present.iter().any(|task| task.is_named(name));
    candidates.find(is_free).unwrap_or_else(|| name.to_owned())
}

fn missing_number(id: u64, name: &str) -> EngineError {
    refusal(format!(
        "Can't find ServerWideBackupConfiguration with Name {name} or with TaskId {id}. To create a new one, set the \
         TaskId to 0."
    ))
}

fn refusal(message: String) -> EngineError {
    ProtocolError::new(ErrorKind::RachisApply, message).into()
}
