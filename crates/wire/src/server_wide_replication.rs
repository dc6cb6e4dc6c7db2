//! Tasks of external replication that every database of a server has.

use std::collections::HashSet;

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

    fn task_name(&self) -> String {
        format!("{TASK_PREFIX}, {}", self.name)
    }

    fn task_in(&self, database: &str, number: u64) -> Value {
        let mut task = json!({
            "TaskId": number,
            "Name": self.task_name(),
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

/// Whether a task of a database has a name that only those of server-wide tasks have.
pub fn is_name_of_server_wide_replication(name: &str) -> bool {
    name.get(..TASK_PREFIX.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(TASK_PREFIX))
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
    let mut numbers = numbers_in(body, is_wide);
    // Each keeps the number that it has here, which is another one than its own where that was taken.
    let kept: Vec<Option<u64>> = wanted
        .iter()
        .map(|task| {
            let name = task.task_name();
            let same = known.iter().find(|known| known["Name"].as_str() == Some(&name))?;
            same["TaskId"].as_u64().filter(|number| *number != 0 && numbers.insert(*number))
        })
        .collect();
    let numbered = wanted.iter().zip(kept).map(|(task, kept)| {
        let mut free = task.id..;
        let number = kept.or_else(|| free.find(|number| numbers.insert(*number)));
        task.task_in(database, number.unwrap_or(task.id))
    });
    let wanted_tasks: Vec<Value> = numbered.collect();
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

/// The numbers of the tasks that the database has besides the server-wide ones of this kind.
fn numbers_in(body: &RecordBody, is_wide: impl Fn(&Value) -> bool) -> HashSet<u64> {
    let lists = [
        RecordBody::BACKUP_TASKS,
        RecordBody::EXTERNAL_REPLICATIONS,
        RecordBody::HUBS,
        RecordBody::SINKS,
    ];
    let lists = lists.into_iter().chain(RecordBody::ETL_TASKS);
    let tasks = lists.flat_map(|list| body.list(list)).filter(|task| !is_wide(task));
    tasks.filter_map(|task| property(task.as_object()?, "TaskId")?.as_u64()).collect()
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
    fn each_task_has_a_number_of_its_own_in_a_record_that_came_from_elsewhere() {
        let task = |name: &str, id: u64| {
            read(&json!({"Name": name, "TopologyDiscoveryUrls": ["http://far:1"]}))
                .unwrap()
                .numbered(id)
        };
        let tasks = [task("a", 5), task("b", 7), task("c", 6)];
        let mut body = RecordBody::read(
            br#"{"ExternalReplications":[{"Name":"own","TaskId":5}],"SinkPullReplications":[{"taskid":6}],
                "RavenEtls":[{"TaskId":8}]}"#,
        );
        let numbers = |body: &RecordBody| {
            let tasks = body.list(RecordBody::EXTERNAL_REPLICATIONS).iter();
            tasks.map(|task| task["TaskId"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert!(put_server_wide_tasks(&mut body, "db", &tasks));
        assert_eq!(numbers(&body), [5, 7, 9, 10]);
        assert!(!put_server_wide_tasks(&mut body, "db", &tasks), "they stay what they are");
        assert!(put_server_wide_tasks(&mut body, "db", &tasks[1..]));
        assert_eq!(numbers(&body), [5, 9, 10]);
        // The same number twice, as it was stored before.
        let twice = r#"{"ExternalReplications":[{"Name":"own","TaskId":5},
            {"Name":"Server Wide External Replication, a","TaskId":5}]}"#;
        let mut body = RecordBody::read(twice.as_bytes());
        assert!(put_server_wide_tasks(&mut body, "db", &tasks[..1]));
        assert_eq!(numbers(&body), [5, 6]);
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
        assert!(is_name_of_server_wide_replication("server wide external replications"));
        assert!(!is_name_of_server_wide_replication("Server Wide"));
    }
}
