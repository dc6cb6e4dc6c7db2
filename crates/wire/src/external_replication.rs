//! Tasks of external replication as clients define them, and as the record of a database stores them.

use std::time::Duration;

use model::TimeSpan;
use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    sent_properties::{flag, object, property, text, with_names_as_written},
};

/// The properties of a task that this server knows, as they are written.
const PROPERTIES: [&str; 9] = [
    "TaskId",
    "Name",
    "Database",
    "Url",
    "ConnectionStringName",
    "MentorNode",
    "PinToMentorNode",
    "Disabled",
    "DelayReplicationFor",
];

/// A task that sends all changes of a database to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalReplication {
    /// Its number; 0 if it has none yet.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// The name of its connection string.
    pub connection: String,
    /// The node that should run it.
    pub mentor_node: Option<String>,
    /// Whether only that node may run it.
    pub is_pinned: bool,
    /// How old a change must be to be sent.
    pub delay: Duration,
}

impl ExternalReplication {
    /// The task in a request: `{"Watcher": {…}}`.
    ///
    /// # Errors
    /// There is none.
    pub fn sent_in(body: &Map<String, Value>) -> Result<&Map<String, Value>, ProtocolError> {
        object(body, "Watcher")?.ok_or_else(|| {
            ProtocolError::invalid_operation("'Watcher' was not found in the request body.")
        })
    }

    /// The number of a stored task; `None` if it has none.
    pub fn id_of(stored: &Map<String, Value>) -> Option<u64> {
        property(stored, "TaskId").and_then(Value::as_u64).filter(|id| *id != 0)
    }

    /// A task with the names of its properties as they are written.
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        with_names_as_written(sent, &PROPERTIES)
    }

    /// Reads a task as it is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let connection = text(sent, "ConnectionStringName")?.ok_or_else(|| {
            ProtocolError::invalid_operation(
                "External replication needs the name of a connection string: ConnectionStringName cannot be empty.",
            )
        })?;
        let delay = delay_of(sent)?;
        let name = text(sent, "Name")?;
        Ok(Self {
            id: Self::id_of(sent).unwrap_or(0),
            name: name.unwrap_or_else(|| format!("External Replication to {connection}")),
            is_disabled: flag(sent, "Disabled")?,
            connection,
            mentor_node: text(sent, "MentorNode")?,
            is_pinned: flag(sent, "PinToMentorNode")?,
            delay,
        })
    }
}

/// How old a change must be to be sent.
pub(crate) fn delay_of(sent: &Map<String, Value>) -> Result<Duration, ProtocolError> {
    let Some(text) = text(sent, "DelayReplicationFor")? else { return Ok(Duration::ZERO) };
    match text.parse::<TimeSpan>() {
        Ok(span) if 0 <= span.ticks => Ok(span.to_duration()),
        Ok(_) | Err(_) => {
            let message =
                "'DelayReplicationFor' must be a duration such as 00:10:00, not a negative one";
            Err(ProtocolError::new(ErrorKind::InvalidData, message.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: &Value) -> Result<ExternalReplication, ProtocolError> {
        ExternalReplication::read(sent.as_object().unwrap())
    }

    #[test]
    fn a_task_is_read_whatever_the_case_of_its_properties() {
        let sent = json!({"taskid": 7, "connectionstringname": "to east", "delayreplicationfor": "00:01:00"});
        let task = read(&sent).unwrap();
        assert_eq!((task.id, task.connection.as_str()), (7, "to east"));
        assert_eq!(task.delay, Duration::from_secs(60));
        assert_eq!(task.name, "External Replication to to east");
        let stored = ExternalReplication::with_names_as_written(sent.as_object().unwrap());
        assert!(stored.contains_key("TaskId") && stored.contains_key("DelayReplicationFor"));
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for sent in [
            json!({}),
            json!({"ConnectionStringName": " "}),
            json!({"ConnectionStringName": "a", "DelayReplicationFor": "-00:00:01"}),
            json!({"ConnectionStringName": "a", "DelayReplicationFor": "soon"}),
            json!({"ConnectionStringName": "a", "Disabled": 1}),
        ] {
            assert!(read(&sent).is_err(), "{sent}");
        }
        let body = json!({"Watcher": null});
        assert!(ExternalReplication::sent_in(body.as_object().unwrap()).is_err());
    }
}
