//! Tasks of external replication that every database of a server has.

use model::{TimeSpan, lower_case};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    external_replication::delay_of,
    node_address::NodeAddress,
    record_body::RecordBody,
    sent_properties::{flag, property, text, texts, with_names_as_written},
};

/// Names of tasks and connection strings in the records of databases begin with these.
const TASK_PREFIX: &str = "Server Wide External Replication";
const STRING_PREFIX: &str = "Server Wide Raven Connection String";
/// The property of a record with connection strings to databases of Corvus and RavenDB.
const STRINGS: &str = "RavenConnectionStrings";

/// The properties of such a task, as they are written.
const PROPERTIES: [&str; 8] = [
    "TaskId",
    "Name",
    "Disabled",
    "MentorNode",
    "PinToMentorNode",
    "DelayReplicationFor",
    "TopologyDiscoveryUrls",
    "ExcludedDatabases",
];

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerWideReplication {
    /// Its number; 0 if it has none yet.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The databases that do not have it, in lower case.
    excluded: Vec<String>,
    stored: Map<String, Value>,
}

impl ServerWideReplication {
    /// Reads a task as it is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let urls = texts(sent, "TopologyDiscoveryUrls")?;
        if urls.is_empty() {
            return Err(ProtocolError::new(
                ErrorKind::Argument,
                "A task of external replication for all databases needs servers: TopologyDiscoveryUrls cannot be empty",
            ));
        }
        for url in &urls {
            url.parse::<NodeAddress>().map_err(|error| {
                ProtocolError::new(ErrorKind::Argument, format!("TopologyDiscoveryUrls: {error}"))
            })?;
        }
        let name = text(sent, "Name")?
            .unwrap_or_else(|| format!("External Replication to {}", urls.join(", ")));
        let excluded = texts(sent, "ExcludedDatabases")?;
        if excluded.iter().any(|database| database.trim().is_empty()) {
            return Err(ProtocolError::new(
                ErrorKind::Argument,
                "ExcludedDatabases cannot contain an empty name",
            ));
        }
        let mut stored = with_names_as_written(sent, &PROPERTIES);
        let mut put = |name: &str, value: Value| drop(stored.insert(name.to_owned(), value));
        put("Name", json!(name));
        put("Disabled", json!(flag(sent, "Disabled")?));
        put("MentorNode", json!(text(sent, "MentorNode")?));
        put("PinToMentorNode", json!(flag(sent, "PinToMentorNode")?));
        put("DelayReplicationFor", json!(TimeSpan::of(delay_of(sent)?).to_string()));
        put("TopologyDiscoveryUrls", json!(urls));
        put("ExcludedDatabases", json!(excluded));
        let excluded = excluded.iter().map(|name| lower_case(name).into_owned()).collect();
        let id = property(sent, "TaskId").and_then(Value::as_u64).unwrap_or(0);
        Ok(Self { id, name, excluded, stored })
    }

    /// The same with another number.
    pub fn numbered(mut self, id: u64) -> Self {
        self.id = id;
        self.stored.insert("TaskId".to_owned(), json!(id));
        self
    }

    /// The same, enabled or disabled.
    pub fn switched(mut self, is_disabled: bool) -> Self {
        self.stored.insert("Disabled".to_owned(), json!(is_disabled));
        self
    }

    /// The task as it is stored and shown.
    pub fn stored(&self) -> &Map<String, Value> {
        &self.stored
    }

    /// Whether a database has it.
    pub fn is_of(&self, database: &str) -> bool {
        !self.excluded.iter().any(|excluded| *excluded == lower_case(database))
    }

    fn task_in(&self, database: &str) -> Value {
        let mut task = json!({
            "TaskId": self.id,
            "Name": format!("{TASK_PREFIX}, {}", self.name),
            "ConnectionStringName": self.string_name(),
            "Database": database,
            "Url": null,
        });
        for name in ["Disabled", "MentorNode", "PinToMentorNode", "DelayReplicationFor"] {
            task[name] = self.stored.get(name).cloned().unwrap_or_default();
        }
        task
    }

    fn string_name(&self) -> String {
        format!("{STRING_PREFIX}, {}", self.name)
    }
}

/// Whether a task in a record, by its name, belongs to all databases.
pub fn is_server_wide_task(name: &str) -> bool {
    name.strip_prefix(TASK_PREFIX).is_some_and(|rest| rest.starts_with(','))
}

/// Whether a connection string in a record, by its name, belongs to all databases.
pub fn is_server_wide_string(name: &str) -> bool {
    name.strip_prefix(STRING_PREFIX).is_some_and(|rest| rest.starts_with(','))
}

/// Gives a record the tasks that the database is to have, and no others of this kind. Returns whether that has changed
/// anything.
pub fn put_server_wide_tasks(
    body: &mut RecordBody,
    database: &str,
    tasks: &[ServerWideReplication],
) -> bool {
    let is_wide = |task: &Value| task["Name"].as_str().is_some_and(is_server_wide_task);
    let wanted: Vec<&ServerWideReplication> =
        tasks.iter().filter(|task| task.is_of(database)).collect();
    let known = body.list(RecordBody::EXTERNAL_REPLICATIONS).iter().filter(|task| is_wide(task));
    let known: Vec<Value> = known.cloned().collect();
    let wanted_tasks: Vec<Value> = wanted
        .iter()
        .map(|task| {
            let mut task = task.task_in(database);
            // Its number may be another one where that was taken.
            if let Some(same) = known.iter().find(|known| known["Name"] == task["Name"])
                && same["TaskId"].as_u64().is_some_and(|id| id != 0)
            {
                task["TaskId"] = same["TaskId"].clone();
            }
            task
        })
        .collect();
    let strings = body.properties().get(STRINGS).and_then(Value::as_object);
    let mut strings = strings.cloned().unwrap_or_default();
    let before = strings.clone();
    strings.retain(|name, _| !is_server_wide_string(name));
    for task in &wanted {
        let string = json!({
            "Name": task.string_name(),
            "Database": database,
            "TopologyDiscoveryUrls": task.stored.get("TopologyDiscoveryUrls"),
        });
        strings.insert(task.string_name(), string);
    }
    let (has_other_tasks, has_other_strings) = (known != wanted_tasks, before != strings);
    if has_other_tasks {
        let list = body.list_mut(RecordBody::EXTERNAL_REPLICATIONS);
        list.retain(|task| !is_wide(task));
        list.extend(wanted_tasks);
    }
    if has_other_strings {
        body.put(STRINGS, Value::Object(strings));
    }
    has_other_tasks || has_other_strings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: &Value) -> Result<ServerWideReplication, ProtocolError> {
        ServerWideReplication::read(sent.as_object().unwrap())
    }

    #[test]
    fn every_database_but_the_excluded_ones_has_it() {
        let sent = json!({
            "Name": "far", "TopologyDiscoveryUrls": ["http://far:1"], "ExcludedDatabases": ["Secret"],
            "DelayReplicationFor": "00:03:00"
        });
        let task = read(&sent).unwrap().numbered(9);
        let mut body = RecordBody::read(br#"{"ExternalReplications":[{"Name":"own","TaskId":1}]}"#);
        assert!(put_server_wide_tasks(&mut body, "shop", std::slice::from_ref(&task)));
        let tasks = body.list(RecordBody::EXTERNAL_REPLICATIONS);
        assert_eq!((tasks.len(), tasks[0]["Name"].as_str()), (2, Some("own")));
        assert_eq!(tasks[1]["Name"], "Server Wide External Replication, far");
        assert_eq!(tasks[1]["TaskId"], 9);
        assert_eq!(tasks[1]["DelayReplicationFor"], "00:03:00");
        let string = &body.properties()[STRINGS]["Server Wide Raven Connection String, far"];
        assert_eq!(string["Database"], "shop");
        assert!(!put_server_wide_tasks(&mut body, "shop", std::slice::from_ref(&task)), "again");
        assert!(put_server_wide_tasks(&mut body, "shop", &[task.clone().switched(true)]));
        assert!(put_server_wide_tasks(&mut body, "SECRET", &[task]), "it is taken away");
        assert_eq!(body.list(RecordBody::EXTERNAL_REPLICATIONS).len(), 1);
        assert_eq!(body.properties()[STRINGS], json!({}));
        let mut none = RecordBody::read(b"{}");
        assert!(!put_server_wide_tasks(&mut none, "shop", &[]));
        assert_eq!(none.to_json(), b"{}");
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for sent in [
            json!({}),
            json!({"TopologyDiscoveryUrls": []}),
            json!({"TopologyDiscoveryUrls": ["ftp://x"]}),
            json!({"TopologyDiscoveryUrls": ["http://x"], "ExcludedDatabases": [" "]}),
            json!({"TopologyDiscoveryUrls": ["http://x"], "DelayReplicationFor": "-00:00:01"}),
        ] {
            assert!(read(&sent).is_err(), "{sent}");
        }
        let unnamed = read(&json!({"TopologyDiscoveryUrls": ["http://x", "http://y"]})).unwrap();
        assert_eq!(unnamed.name, "External Replication to http://x, http://y");
        assert!(is_server_wide_task("Server Wide External Replication, a"));
        assert!(!is_server_wide_task("Server Wide External Replications"));
    }
}
