//! The JSON of a database's record, to change it; `record_sections` reads it.

use std::collections::BTreeMap;

use model::{
    AutoIndexShape, DatabaseLockMode, DatabaseRecord, IndexDefinition, NamedEnum as _,
    RecordedIndexes,
};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    index_definition::index_definition_json,
    pull_replication::PullReplicationSink,
    recorded_indexes::auto_index_json,
    stored_section::{SectionKind, StoredSection},
};

const INDEXES: &str = "Indexes";
const AUTO_INDEXES: &str = "AutoIndexes";
const INDEX_HISTORY: &str = "IndexesHistory";
const INDEX_NUMBERS: &str = "IndexNumbers";
const LOCK_MODE: &str = "LockMode";
const TOPOLOGY: &str = "Topology";
const STATE: &str = "DatabaseState";
/// The state of a database that is being restored.
const RESTORING: &str = "RestoreInProgress";
const PRIORITY_ORDER: &str = "PriorityOrder";
/// Former definitions kept of one index.
const FORMER_DEFINITIONS_MAX: usize = 10;

/// The body of a record as a client sent it. Invariant: a change keeps every property that it does not mean,
/// also those that no version of Corvus knows.
#[derive(Clone, Debug, Default)]
pub struct RecordBody {
    properties: Map<String, Value>,
}

impl RecordBody {
    /// Reads what is stored; a body that is not a JSON object, which is never stored, reads as an empty one.
    pub fn read(body: &[u8]) -> RecordBody {
        RecordBody { properties: serde_json::from_slice(body).unwrap_or_default() }
    }

    /// The body of a database's record.
    pub fn of_record(record: &DatabaseRecord) -> RecordBody {
        RecordBody::read(record.configuration.json())
    }

    /// The JSON to store.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.properties).unwrap_or_default()
    }

    /// All properties.
    pub fn properties(&self) -> &Map<String, Value> {
        &self.properties
    }

    /// A section as it is stored; `None` if it is missing or null.
    pub fn section(&self, kind: SectionKind) -> Option<&Value> {
        self.properties.get(kind.property()).filter(|stored| !stored.is_null())
    }

    /// Replaces a section.
    pub fn put_section(&mut self, section: &StoredSection) {
        self.properties.insert(section.kind().property().to_owned(), section.json().clone());
    }

    /// Whether the files of the database are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.properties.get("Encrypted").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Sets whether the files of the database are encrypted.
    pub fn set_encrypted(&mut self, is_encrypted: bool) {
        self.properties.insert("Encrypted".to_owned(), Value::Bool(is_encrypted));
    }

    /// Whether the database is protected from deletion. A mode that is unknown does not protect it.
    pub fn lock_mode(&self) -> DatabaseLockMode {
        let stored = self.properties.get(LOCK_MODE).and_then(Value::as_str);
        stored.and_then(DatabaseLockMode::named).unwrap_or(DatabaseLockMode::Unlock)
    }

    /// Protects the database from deletion, or stops protecting it.
    pub fn set_lock_mode(&mut self, mode: DatabaseLockMode) {
        self.properties.insert(LOCK_MODE.to_owned(), mode.name().into());
    }

    /// Whether the order in which clients choose nodes is fixed, and is this one.
    pub fn has_node_order(&self, nodes: &[&str]) -> bool {
        let stored =
            self.properties.get(TOPOLOGY).and_then(|topology| topology.get(PRIORITY_ORDER));
        stored.is_some_and(|stored| *stored == json!(nodes))
    }

    /// The order in which clients choose nodes, if it is fixed; otherwise empty.
    pub fn node_order(&self) -> Vec<String> {
        let stored =
            self.properties.get(TOPOLOGY).and_then(|topology| topology.get(PRIORITY_ORDER));
        let tags = stored.and_then(Value::as_array).into_iter().flatten();
        tags.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Fixes the order in which clients choose nodes; without nodes, no order is fixed.
    pub fn set_node_order(&mut self, nodes: &[&str]) {
        self.properties.insert(TOPOLOGY.to_owned(), json!({ PRIORITY_ORDER: nodes }));
    }

    /// Replaces a property.
    pub fn put(&mut self, name: &str, value: Value) {
        self.properties.insert(name.to_owned(), value);
    }

    /// The list of that name, which is created if it is missing or not a list.
    pub fn list_mut(&mut self, name: &str) -> &mut Vec<Value> {
        let list = self.properties.entry(name).or_insert_with(|| json!([]));
        if !list.is_array() {
            *list = json!([]);
        }
        list.as_array_mut().expect("it was made a list")
    }

    /// The name of the property with the definitions of scheduled backups.
    pub const BACKUP_TASKS: &'static str = "PeriodicBackups";

    /// The definitions of scheduled backups.
    pub fn backup_tasks(&self) -> &[Value] {
        self.list(Self::BACKUP_TASKS)
    }

    /// The definitions of scheduled backups, to be changed.
    pub fn backup_tasks_mut(&mut self) -> &mut Vec<Value> {
        self.list_mut(Self::BACKUP_TASKS)
    }

    /// The name of the property with the definitions of ETL tasks that send to databases of Corvus and RavenDB.
    pub const RAVEN_ETLS: &'static str = "RavenEtls";

    /// The name of the property with the definitions of tasks of external replication.
    pub const EXTERNAL_REPLICATIONS: &'static str = "ExternalReplications";

    /// The name of the property with the definitions of hubs.
    pub const HUBS: &'static str = "HubPullReplications";

    /// The name of the property with the certificates that may connect to hubs, by the lower-cased name of the hub. It is
    /// not shown with the record.
    pub const HUB_ACCESSES: &'static str = "ReplicationHubAccesses";

    /// The name of the property with the definitions of sinks.
    pub const SINKS: &'static str = "SinkPullReplications";

    /// The properties with lists of ETL tasks, of all kinds.
    pub const ETL_TASKS: [&'static str; 5] =
        [Self::RAVEN_ETLS, "SqlEtls", "OlapEtls", "ElasticSearchEtls", "QueueEtls"];

    /// A list of tasks by the name of its property; empty if there is none.
    pub fn list(&self, name: &str) -> &[Value] {
        self.properties.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Takes over what a record is not shown with, and what a client that changes it can therefore not send: the accesses of
    /// hubs, and the certificates of sinks. Returns whether there was anything.
    pub fn keep_hidden_of(&mut self, present: &RecordBody) -> bool {
        let mut has_changed = false;
        // Whoever sends a record does not say who may connect to it.
        let accesses = present.properties.get(Self::HUB_ACCESSES);
        if self.properties.get(Self::HUB_ACCESSES) != accesses {
            match accesses {
                Some(accesses) => self.put(Self::HUB_ACCESSES, accesses.clone()),
                None => drop(self.properties.shift_remove(Self::HUB_ACCESSES)),
            }
            has_changed = true;
        }
        if self.list(Self::SINKS).is_empty() {
            return has_changed;
        }
        let known: Vec<Map<String, Value>> = present
            .list(Self::SINKS)
            .iter()
            .filter_map(Value::as_object)
            .map(PullReplicationSink::with_names_as_written)
            .collect();
        for sink in self.list_mut(Self::SINKS).iter_mut().filter_map(Value::as_object_mut) {
            let sent = PullReplicationSink::with_names_as_written(sink);
            let id = sent.get("TaskId");
            let same = known.iter().find(|known| known.get("TaskId") == id && id.is_some());
            if let Some(same) = same {
                let kept = PullReplicationSink::with_secrets_of(&sent, same);
                has_changed |= kept != *sink;
                *sink = kept;
            }
        }
        has_changed
    }

    /// The properties of a record as it may be shown: without the accesses of hubs, and the certificates of sinks.
    pub fn shown(mut self) -> Map<String, Value> {
        self.properties.shift_remove(Self::HUB_ACCESSES);
        if !self.list(Self::SINKS).is_empty() {
            for sink in self.list_mut(Self::SINKS).iter_mut().filter_map(Value::as_object_mut) {
                *sink = PullReplicationSink::without_secrets(sink);
            }
        }
        self.properties
    }

    /// Adds settings, which replace those of the same names.
    pub fn merge_settings(&mut self, settings: &Map<String, Value>) {
        self.section_mut("Settings").extend(settings.clone());
    }

    /// Whether the database is being restored, and not to be used.
    pub fn is_restoring(&self) -> bool {
        is_restoring(&self.properties)
    }

    /// Notes that the database is being restored, or that it is complete.
    pub fn set_restoring(&mut self, is_restoring: bool) {
        let state = if is_restoring { RESTORING } else { "Normal" };
        self.properties.insert(STATE.to_owned(), state.into());
    }

    /// Merges a part of another record into the same part: an object name by name, a list of tasks by the names of
    /// the tasks; anything else replaces the part. Tasks are disabled.
    pub fn merge(&mut self, name: &str, part: &Value, are_tasks: bool) {
        match part {
            Value::Object(sent) => self.section_mut(name).extend(sent.clone()),
            Value::Array(sent) if are_tasks => {
                let tasks = self.list_mut(name);
                for task in sent {
                    let mut task = task.clone();
                    if let Some(task) = task.as_object_mut() {
                        task.insert("Disabled".to_owned(), true.into());
                    }
                    let name = |task: &Value| task["Name"].as_str().map(str::to_lowercase);
                    let merged = name(&task);
                    // Tasks without names are different ones.
                    tasks.retain(|known| merged.is_none() || name(known) != merged);
                    tasks.push(task);
                }
            }
            part => drop(self.properties.insert(name.to_owned(), part.clone())),
        }
    }

    /// The object of that name, which is created if it is missing or not an object.
    fn section_mut(&mut self, name: &str) -> &mut Map<String, Value> {
        let section = self.properties.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if !section.is_object() {
            *section = Value::Object(Map::new());
        }
        section.as_object_mut().expect("it was made an object")
    }

    /// Adds an index, or replaces its definition, and notes it in the history of definitions: of each index that
    /// exists, the newest [`FORMER_DEFINITIONS_MAX`], the newest first. `created` is the time, `source` the tag of
    /// the node.
    pub fn put_index(&mut self, definition: &IndexDefinition, created: &str, source: &str) {
        let name = &definition.name;
        let json = index_definition_json(definition);
        let indexes = self.section_mut(INDEXES);
        indexes.insert(name.clone(), json.clone());
        let names: Vec<String> = indexes.keys().cloned().collect();
        let history = self.section_mut(INDEX_HISTORY);
        history.retain(|known, _| names.contains(known));
        let entry = history.entry(name).or_insert_with(|| json!([]));
        if !entry.is_array() {
            *entry = json!([]);
        }
        let revisions = entry.as_array_mut().expect("it was made an array");
        let revision = json!({
            "Definition": json, "CreatedAt": created, "Source": source, "RollingDeployment": {}
        });
        revisions.insert(0, revision);
        revisions.truncate(FORMER_DEFINITIONS_MAX);
    }

    /// Removes the oldest former definitions until all definitions in the history have at most `bytes_max`
    /// of JSON. The newest of each index stays.
    pub fn trim_index_history(&mut self, bytes_max: usize) {
        let size = |value: &Value| serde_json::to_vec(value).map_or(0, |json| json.len());
        let history = self.section_mut(INDEX_HISTORY);
        let mut bytes: usize = history.values().map(size).sum();
        while bytes_max < bytes {
            let lists = history.values_mut().filter_map(Value::as_array_mut);
            let Some(longest) = lists.max_by_key(|list| list.len()).filter(|list| 1 < list.len())
            else {
                return;
            };
            // With the comma before it.
            bytes -= longest.pop().as_ref().map_or(0, |oldest| 1 + size(oldest));
        }
    }

    /// Removes an index, automatic or not, and its history, whatever the case of its name.
    pub fn remove_index(&mut self, name: &str) {
        for section in [INDEXES, AUTO_INDEXES, INDEX_HISTORY] {
            self.section_mut(section).retain(|known, _| !known.eq_ignore_ascii_case(name));
        }
    }

    /// Sets a property in the definition of an index, automatic or not, whatever the case of its name.
    pub fn change_index_setting(&mut self, name: &str, property: &str, value: &str) {
        for section in [INDEXES, AUTO_INDEXES] {
            for (known, definition) in self.section_mut(section) {
                if known.eq_ignore_ascii_case(name) && definition.is_object() {
                    definition[property] = json!(value);
                }
            }
        }
    }

    /// Numbers the indexes: those of `before`, the record that this one replaces, keep what they have, and new ones have
    /// `number`. What a client says about numbers has no effect. `false` if they already were as they should.
    pub fn number_indexes(&mut self, before: &RecordedIndexes, number: u64) -> bool {
        let defined = self.properties.get(INDEXES).and_then(Value::as_object);
        let names = defined.into_iter().flat_map(Map::keys);
        let is_known =
            |name: &str| before.indexes.keys().any(|known| known.eq_ignore_ascii_case(name));
        let numbers = names.filter_map(|name| match is_known(name) {
            true => Some(before.number_of(name)).filter(|known| *known != 0).map(|it| (name, it)),
            false => Some((name, number)),
        });
        let numbers: Map<String, Value> =
            numbers.map(|(name, number)| (name.clone(), number.into())).collect();
        let present = self.properties.get(INDEX_NUMBERS);
        if present.is_none_or(|present| present.as_object().is_some_and(Map::is_empty))
            && numbers.is_empty()
        {
            return false;
        }
        let numbers = Value::Object(numbers);
        let has_changed = present != Some(&numbers);
        if has_changed {
            self.properties.insert(INDEX_NUMBERS.to_owned(), numbers);
        }
        has_changed
    }

    /// The definitions of an index, the newest first; `None` when there are none.
    pub fn index_history(&self, name: &str) -> Option<&Value> {
        let history = self.properties.get(INDEX_HISTORY)?.as_object()?;
        history.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| found)
    }

    /// Adds an automatic index, or replaces the one of that name.
    pub fn put_auto_index(&mut self, name: &str, shape: &AutoIndexShape) {
        self.section_mut(AUTO_INDEXES).insert(name.to_owned(), auto_index_json(shape));
    }

    /// Keeps the automatic indexes whose names satisfy `keep`.
    pub fn retain_auto_indexes(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.section_mut(AUTO_INDEXES).retain(|name, _| keep(name));
    }
}

/// Whether a record says that its database is being restored.
pub(crate) fn is_restoring(record: &Map<String, Value>) -> bool {
    record.get(STATE).and_then(Value::as_str) == Some(RESTORING)
}

/// The settings in a record: names of keys, and their values as texts.
pub(crate) fn settings_of_record(record: &Map<String, Value>) -> BTreeMap<String, String> {
    match record.get(SectionKind::Settings.property()) {
        Some(Value::Object(settings)) => texts_of_settings(settings),
        Some(_) | None => BTreeMap::new(),
    }
}

/// Checks the property `Settings` of a record that a client sends.
///
/// # Errors
/// 400 when it is there and not an object.
pub fn check_record_settings(sent: Option<&Value>) -> Result<(), ProtocolError> {
    match sent {
        Some(Value::Object(_) | Value::Null) | None => Ok(()),
        Some(_) => {
            let message = "'Settings' of a record must be an object.";
            Err(ProtocolError::new(ErrorKind::Format, message))
        }
    }
}

/// Values that are not texts are printed as JSON.
pub(crate) fn texts_of_settings(settings: &Map<String, Value>) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    settings.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_what_it_does_not_mean() {
        let mut body =
            RecordBody::read(br#"{"Z":[1,{"b":2,"a":1}],"AutoIndexes":{"Auto/A":{},"Auto/B":{}}}"#);
        body.retain_auto_indexes(|name| name != "Auto/A");
        assert_eq!(body.to_json(), br#"{"Z":[1,{"b":2,"a":1}],"AutoIndexes":{"Auto/B":{}}}"#);
        assert!(RecordBody::read(b"[1]").properties().is_empty());
    }

    #[test]
    fn an_index_keeps_its_number_until_it_is_deleted() {
        let recorded = |json: &[u8]| {
            let mut before = RecordedIndexes::default();
            let body = RecordBody::read(json);
            let of = |property: &str| body.properties().get(property).and_then(Value::as_object);
            for name in of(INDEXES).into_iter().flat_map(Map::keys) {
                before.indexes.insert(name.clone(), IndexDefinition::default());
            }
            for (name, number) in of(INDEX_NUMBERS).into_iter().flatten() {
                before.index_numbers.insert(name.clone(), number.as_u64().unwrap());
            }
            before
        };
        let before =
            recorded(br#"{"Indexes":{"Old":{},"Gone":{},"I":{}},"IndexNumbers":{"I":3,"Gone":4}}"#);
        // A client that sends the record back may leave numbers out, or invent some.
        let mut body =
            RecordBody::read(br#"{"Indexes":{"old":{},"i":{},"New":{}},"IndexNumbers":{"i":9}}"#);
        assert!(body.number_indexes(&before, 7));
        assert_eq!(body.properties()[INDEX_NUMBERS], json!({"i": 3, "New": 7}));
        assert!(!body.clone().number_indexes(&recorded(&body.to_json()), 8));
        let mut without = RecordBody::read(br#"{"Z":1}"#);
        assert!(!without.number_indexes(&before, 7));
        assert_eq!(without.to_json(), br#"{"Z":1}"#);
    }

    #[test]
    fn a_section_replaces_the_one_in_its_place() {
        let mut body = RecordBody::read(br#"{"Revisions":null,"Z":1}"#);
        assert_eq!(body.section(SectionKind::Revisions), None);
        let section = StoredSection::new(SectionKind::Revisions, json!({"Default": null}));
        body.put_section(&section);
        assert_eq!(body.section(SectionKind::Revisions), Some(section.json()));
        body.set_lock_mode(DatabaseLockMode::PreventDeletesError);
        assert_eq!(body.lock_mode(), DatabaseLockMode::PreventDeletesError);
        assert!(!body.has_node_order(&[]));
        body.set_node_order(&["A"]);
        assert!(body.has_node_order(&["A"]) && !body.has_node_order(&["B"]));
        let expected = concat!(
            r#"{"Revisions":{"Default":null},"Z":1,"LockMode":"PreventDeletesError","#,
            r#""Topology":{"PriorityOrder":["A"]}}"#
        );
        assert_eq!(body.to_json(), expected.as_bytes());
        assert_eq!(RecordBody::default().lock_mode(), DatabaseLockMode::Unlock);
    }

    #[test]
    fn tasks_are_merged_by_their_names_and_disabled() {
        let mut body =
            RecordBody::read(br#"{"T":[{"Name":"a","N":1},{"Name":null},{"Name":"b"}]}"#);
        body.merge("T", &json!([{"Name": "A", "N": 2}, {"Name": null, "N": 3}]), true);
        assert_eq!(
            body.properties()["T"],
            json!([
                {"Name": null}, {"Name": "b"}, {"Name": "A", "N": 2, "Disabled": true},
                {"Name": null, "N": 3, "Disabled": true}
            ])
        );
    }

    #[test]
    fn the_newest_definitions_of_the_indexes_that_exist_are_kept() {
        let mut body = RecordBody::default();
        let definition = |name: &str, number: usize| IndexDefinition {
            name: name.to_owned(),
            maps: vec![number.to_string()],
            ..IndexDefinition::default()
        };
        for number in 0..FORMER_DEFINITIONS_MAX + 2 {
            body.put_index(&definition("I", number), "now", "B");
        }
        let history = body.index_history("i").unwrap().as_array().unwrap();
        assert_eq!(history.len(), FORMER_DEFINITIONS_MAX);
        assert_eq!(history[0]["Definition"]["Maps"][0], "11");
        assert_eq!((&history[0]["CreatedAt"], &history[0]["Source"]), (&json!("now"), &json!("B")));
        assert_eq!(body.index_history("J"), None);
        body.change_index_setting("i", "Priority", "Low");
        assert_eq!(body.properties()[INDEXES]["I"]["Priority"], "Low");
        body.remove_index("i");
        assert_eq!(body.index_history("I"), None);
    }

    #[test]
    fn the_oldest_definitions_make_room_and_the_newest_of_each_index_stay() {
        let mut body = RecordBody::default();
        for number in 0..8 {
            for name in ["I", "J"] {
                let (name, maps) = (name.to_owned(), vec![number.to_string()]);
                let definition = IndexDefinition { name, maps, ..IndexDefinition::default() };
                body.put_index(&definition, "now", "A");
            }
        }
        let versions = |body: &RecordBody, name: &str| -> Vec<String> {
            let history = body.index_history(name).unwrap().as_array().unwrap();
            history.iter().map(|entry| entry["Definition"]["Maps"][0].to_string()).collect()
        };
        let bytes = serde_json::to_vec(&body.properties()[INDEX_HISTORY]["I"]).unwrap().len();
        // Each list has brackets.
        body.trim_index_history(bytes + 2);
        for name in ["I", "J"] {
            assert_eq!(versions(&body, name), [r#""7""#, r#""6""#, r#""5""#, r#""4""#]);
        }
        body.trim_index_history(0);
        assert_eq!(versions(&body, "I").len() + versions(&body, "J").len(), 2);
    }

    #[test]
    fn settings_are_texts() {
        let body = RecordBody::read(br#"{"Settings":{"A":"x","B":null,"C":7,"D":true}}"#);
        let expected = [("A", "x"), ("B", ""), ("C", "7"), ("D", "true")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(settings_of_record(body.properties()), BTreeMap::from(expected));
        assert!(check_record_settings(Some(&Value::Bool(true))).is_err());
    }
}
