//! The definitions of tasks of external replication in the record of a database.

use std::sync::Arc;

use database::Decision;
use model::{DatabaseRecord, DatabaseTopology, NodeTag, NodeTask};
use serde_json::{Map, Value};
use wire::{ExternalReplication, RavenConnectionString, RecordBody};

use super::{
    destinations::{DestinationKey, LinkDestination},
    server_wide::{check_name, check_own},
    task_list::{EXTERNAL, SentTask, refused},
};
use crate::{
    engine::Engine, error::EngineError, etl::connection_strings::raven_string,
    stored_tasks::settle_tasks,
};

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
        let tasks = EXTERNAL.stored_in(body).filter_map(|stored| {
            let definition = ExternalReplication::read(&stored).ok()?;
            let connection = raven_string(body, &definition.connection);
            Some(ReplicationTask {
                connection: connection.map_err(|error| error.to_string()),
                requires_encryption: body.is_encrypted(),
                stored,
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
            sink: None,
        })
    }
}

/// Checks that there is a destination, and that what the database has may be sent there.
pub(super) fn check_destination(
    body: &RecordBody,
    database: &str,
    connection: &str,
    task: &str,
) -> Result<(), EngineError> {
    let connection = raven_string(body, connection)?;
    let is_plain = connection.addresses.iter().any(|address| !address.is_encrypted());
    if body.is_encrypted() && is_plain {
        return Err(refused(format!(
            "The database '{database}' is encrypted, and '{task}' would send it over a connection that is not. Name \
             addresses that begin with https://."
        )));
    }
    Ok(())
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
            check_destination(body, database, &definition.connection, &definition.name)?;
            let number_min = index.max(record.etag + 1);
            settle_tasks(body, number_min);
            check_own(body, definition.id)?;
            check_name(&definition.name)?;
            let task = SentTask { stored: sent, id: definition.id, name: &definition.name };
            id = EXTERNAL.put(body, &task, number_min)?;
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
        self.change_replication_task(database, id, |body| {
            let task = EXTERNAL.task(body, id)?;
            check_own(body, id)?;
            if !is_disabled {
                let definition = ExternalReplication::read(&task)?;
                check_destination(body, database, &definition.connection, &definition.name)?;
            }
            EXTERNAL.set_disabled(body, id, is_disabled)?;
            Ok(())
        })
    }

    /// Changes the task with this number in the record of a database, and has its links follow. Blocks.
    pub(super) fn change_replication_task(
        self: &Arc<Self>,
        database: &str,
        id: u64,
        mut change: impl FnMut(&mut RecordBody) -> Result<(), EngineError>,
    ) -> Result<ChangedReplicationTask, EngineError> {
        let written = self.decide_record_body(database, |_, body| {
            change(body)?;
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
        self.change_replication_task(database, id, |body| {
            check_own(body, id)?;
            EXTERNAL.remove(body, id)?;
            Ok(())
        })
    }
}
