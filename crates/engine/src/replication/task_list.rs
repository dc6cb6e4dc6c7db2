//! A list of tasks in the record of a database: what putting, switching and deleting one of them means, whatever its kind.

use model::lower_case;
use serde_json::{Map, Value, json};
use wire::{
    ExternalReplication, ProtocolError, PullReplicationHub, PullReplicationSink, RecordBody,
};

use crate::error::EngineError;

/// How many tasks of one kind a database may have: each has a thread.
const TASKS_MAX: usize = 64;

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct TaskList {
    /// The property of the record.
    property: &'static str,
    /// A task with the names of its properties as they are written.
    with_names: fn(&Map<String, Value>) -> Map<String, Value>,
    /// What a task is called, for clients.
    kind: &'static str,
}

/// A task to put into a list.
pub(super) struct SentTask<'s> {
    /// As it is to be stored, without number and name.
    pub(super) stored: &'s Map<String, Value>,
    /// The number of the task that it replaces; 0 if it is a new one.
    pub(super) id: u64,
    pub(super) name: &'s str,
}

pub(super) const EXTERNAL: TaskList = TaskList {
    property: RecordBody::EXTERNAL_REPLICATIONS,
    with_names: ExternalReplication::with_names_as_written,
    kind: "External replication",
};

pub(super) const HUBS: TaskList = TaskList {
    property: RecordBody::HUBS,
    with_names: PullReplicationHub::with_names_as_written,
    kind: "Replication hub",
};

pub(super) const SINKS: TaskList = TaskList {
    property: RecordBody::SINKS,
    with_names: PullReplicationSink::with_names_as_written,
    kind: "Replication sink",
};

pub(super) fn refused(message: String) -> EngineError {
    EngineError::Section(ProtocolError::invalid_operation(message))
}

impl TaskList {
    /// The tasks as they are stored, with the names of properties as they are written.
    pub(super) fn stored_in(self, body: &RecordBody) -> impl Iterator<Item = Map<String, Value>> {
        body.list(self.property).iter().filter_map(Value::as_object).map(self.with_names)
    }

    /// The task of this number.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn task(
        self,
        body: &RecordBody,
        id: u64,
    ) -> Result<Map<String, Value>, EngineError> {
        let place = self.place_of(body, id)?;
        let task = body.list(self.property)[place].as_object();
        Ok(task.map(self.with_names).unwrap_or_default())
    }

    fn place_of(self, body: &RecordBody, id: u64) -> Result<usize, EngineError> {
        let number = |task: &Value| (self.with_names)(task.as_object()?).get("TaskId")?.as_u64();
        let place = body.list(self.property).iter().position(|task| number(task) == Some(id));
        place
            .filter(|_| id != 0)
            .ok_or_else(|| refused(format!("{} task ID: {id} doesn't exist", self.kind)))
    }

    /// Puts a task into a record whose tasks are in order: in the place of the one with its number, or behind the others
    /// with a new one. Returns the number.
    ///
    /// # Errors
    /// Its name is taken; there is none with its number; there are too many.
    pub(super) fn put(
        self,
        body: &mut RecordBody,
        sent: &SentTask<'_>,
        number_min: u64,
    ) -> Result<u64, EngineError> {
        let place = match sent.id {
            0 => None,
            id => Some(self.place_of(body, id)?),
        };
        let (tasks, name) = (body.list_mut(self.property), lower_case(sent.name));
        let is_taken = tasks.iter().enumerate().any(|(at, task)| {
            let known = task["Name"].as_str();
            Some(at) != place && known.is_some_and(|known| lower_case(known) == name)
        });
        if is_taken {
            return Err(refused(format!(
                "Can't use task name '{}', there is already {} task with that name",
                sent.name,
                with_article(self.kind)
            )));
        }
        let id = if sent.id == 0 { number_min } else { sent.id };
        let mut stored = (self.with_names)(sent.stored);
        stored.insert("TaskId".to_owned(), json!(id));
        stored.insert("Name".to_owned(), json!(sent.name));
        match place {
            Some(place) => tasks[place] = Value::Object(stored),
            None if TASKS_MAX <= tasks.len() => {
                return Err(refused(format!(
                    "A database has at most {TASKS_MAX} tasks of this kind: {}.",
                    self.kind
                )));
            }
            None => tasks.push(Value::Object(stored)),
        }
        Ok(id)
    }

    /// Enables a task, or disables it.
    ///
    /// # Errors
    /// There is none with this number.
    pub(super) fn set_disabled(
        self,
        body: &mut RecordBody,
        id: u64,
        is_disabled: bool,
    ) -> Result<(), EngineError> {
        let mut task = self.task(body, id)?;
        task.insert("Disabled".to_owned(), json!(is_disabled));
        let place = self.place_of(body, id)?;
        body.list_mut(self.property)[place] = Value::Object(task);
        Ok(())
    }

    /// Removes a task.
    ///
    /// # Errors
    /// There is none with this number.
    pub(super) fn remove(self, body: &mut RecordBody, id: u64) -> Result<(), EngineError> {
        let place = self.place_of(body, id)?;
        body.list_mut(self.property).remove(place);
        Ok(())
    }
}

fn with_article(kind: &str) -> String {
    let kind = kind.to_lowercase();
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
