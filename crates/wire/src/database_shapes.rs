//! Answers about databases: topologies, listings, and the results of creating, deleting and toggling them.

use model::{DatabaseLockMode, NamedEnum as _};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::size_text::SizeText;

/// What the server adds to a database record: the nodes of the database, and since when it is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyFacts {
    /// The tags of the members, in the order in which clients prefer them.
    pub members: Vec<String>,
    /// The tags of the nodes that are catching up for the first time.
    pub promotables: Vec<String>,
    /// The tags of former members that do not answer or are catching up.
    pub rehabs: Vec<String>,
    /// How many nodes should have the database.
    pub replication_factor: u16,
    /// Whether a node that stays away is replaced.
    pub is_dynamic: bool,
    /// The index of the change that created the topology; clients call it the etag of the topology.
    pub stamp_index: u64,
    /// When the topology last changed, as text.
    pub nodes_modified_at: String,
    /// 22 characters of base64.
    pub topology_id: String,
    /// 22 characters of base64.
    pub cluster_transaction_id: String,
    /// The order of the nodes, if an administrator has fixed it.
    pub priority_order: Vec<String>,
}

/// The default of a record property.
#[derive(Clone, Copy)]
enum Unset {
    Null,
    False,
    Zero,
    Text(&'static str),
    Object,
    Array,
}

use Unset::{Array, False, Null, Object, Text, Zero};

/// The properties of a record, in the protocol's order. Those that the server fills in are null.
#[rustfmt::skip]
const RECORD_TEMPLATE: &[(&str, Unset)] = &[
    ("DatabaseName", Null), ("Disabled", False), ("Encrypted", False), ("EtagForBackup", Zero),
    ("DeletionInProgress", Object), ("RollingIndexes", Object),
    ("DatabaseState", Text("Normal")), ("LockMode", Text("Unlock")), ("Topology", Null),
    ("ConflictSolverConfig", Null), ("DocumentsCompression", Null), ("Sorters", Object),
    ("Analyzers", Object), ("Indexes", Object), ("IndexesHistory", Object),
    ("AutoIndexes", Object), ("Settings", Object), ("Revisions", Null), ("TimeSeries", Null),
    ("RevisionsForConflicts", Null), ("Expiration", Null), ("Refresh", Null),
    ("Integrations", Null), ("PeriodicBackups", Array), ("ExternalReplications", Array),
    ("SinkPullReplications", Array), ("HubPullReplications", Array),
    ("RavenConnectionStrings", Object), ("SqlConnectionStrings", Object),
    ("OlapConnectionStrings", Object), ("ElasticSearchConnectionStrings", Object),
    ("QueueConnectionStrings", Object), ("RavenEtls", Array), ("SqlEtls", Array),
    ("ElasticSearchEtls", Array), ("OlapEtls", Array), ("QueueEtls", Array), ("Client", Null),
    ("Studio", Null), ("TruncatedClusterTransactionCommandsCount", Zero),
    ("UnusedDatabaseIds", Array), ("SupportedFeatures", Array),
];

impl Unset {
    fn value(self) -> Value {
        match self {
            Null => Value::Null,
            False => false.into(),
            Zero => 0.into(),
            Text(text) => text.into(),
            Object => Value::Object(Map::new()),
            Array => Value::Array(Vec::new()),
        }
    }
}

/// The complete record: what the client stored, with defaults, the topology and the etag. Unknown properties
/// are kept, after the known ones, unless they are null.
pub fn database_record(
    stored: &Map<String, Value>,
    name: &str,
    disabled: bool,
    topology: &TopologyFacts,
    etag: u64,
) -> Value {
    let mut record: Map<String, Value> = RECORD_TEMPLATE
        .iter()
        .map(|(property, default)| ((*property).to_owned(), default.value()))
        .collect();
    for (key, value) in stored {
        if !value.is_null() {
            record.insert(key.clone(), value.clone());
        }
    }
    order_definitions(&mut record);
    record.insert("Settings".into(), settings_texts(stored));
    record.insert("DatabaseName".into(), name.into());
    record.insert("Disabled".into(), disabled.into());
    record.insert("Topology".into(), record_topology(topology));
    record.remove("Etag");
    record.insert("Etag".into(), etag.into());
    Value::Object(record)
}

/// The first properties of an index definition in a record. The .NET client computes the type and the source
/// of an index while reading, and needs these first.
const DEFINITION_HEAD: [&str; 7] = [
    "LockMode",
    "AdditionalSources",
    "AdditionalAssemblies",
    "Maps",
    "Reduce",
    "Fields",
    "Configuration",
];

/// Puts the properties of index definitions, including past ones, into the protocol's order.
fn order_definitions(record: &mut Map<String, Value>) {
    let indexes = record.get_mut("Indexes").and_then(Value::as_object_mut);
    indexes.into_iter().flat_map(Map::values_mut).for_each(order_definition);
    let history = record.get_mut("IndexesHistory").and_then(Value::as_object_mut);
    let revisions = history.into_iter().flat_map(Map::values_mut).filter_map(Value::as_array_mut);
    for revision in revisions.flatten() {
        if let Some(definition) = revision.get_mut("Definition") {
            order_definition(definition);
        }
    }
}

fn order_definition(definition: &mut Value) {
    let Value::Object(definition) = definition else { return };
    let mut rest = std::mem::take(definition);
    definition.insert(
        "ClusterState".to_owned(),
        rest.shift_remove("ClusterState")
            .unwrap_or_else(|| json!({"LastStateIndex": 0, "LastRollingDeploymentIndex": 0})),
    );
    for name in DEFINITION_HEAD {
        if let Some(value) = rest.shift_remove(name) {
            definition.insert(name.to_owned(), value);
        }
    }
    definition.extend(rest);
}

/// The settings of a record: every value is a string or null.
fn settings_texts(stored: &Map<String, Value>) -> Value {
    let text = |value: &Value| match value {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string().into(),
        Value::Null | Value::String(_) => value.clone(),
    };
    let settings = stored.get("Settings").and_then(Value::as_object);
    let texts = settings.into_iter().flatten().map(|(key, value)| (key.clone(), text(value)));
    Value::Object(texts.collect())
}

fn record_topology(topology: &TopologyFacts) -> Value {
    json!({
        "Members": topology.members, "Promotables": topology.promotables, "Rehabs": topology.rehabs,
        "PredefinedMentors": {}, "DemotionReasons": {}, "PromotablesStatus": {},
        "Stamp": {"Index": topology.stamp_index, "Term": 1, "LeadersTicks": -2},
        "DynamicNodesDistribution": topology.is_dynamic,
        "ReplicationFactor": topology.replication_factor,
        "PriorityOrder": topology.priority_order,
        "NodesModifiedAt": topology.nodes_modified_at,
        "DatabaseTopologyIdBase64": topology.topology_id,
        "ClusterTransactionIdBase64": topology.cluster_transaction_id
    })
}

/// The answer to creating or changing a database.
/// `urls` are those of its nodes.
pub fn database_put_result(
    name: &str,
    index: u64,
    topology: &TopologyFacts,
    urls: &[String],
) -> Value {
    json!({
        "RaftCommandIndex": index,
        "Name": name,
        "Topology": {
            "Members": topology.members, "Promotables": topology.promotables,
            "Rehabs": topology.rehabs,
            "Stamp": {"Index": topology.stamp_index, "Term": 1, "LeadersTicks": -2},
            "NodesModifiedAt": topology.nodes_modified_at,
            "PromotablesStatus": {}, "DemotionReasons": {},
            "DynamicNodesDistribution": topology.is_dynamic,
            "ReplicationFactor": topology.replication_factor,
            "DatabaseTopologyIdBase64": topology.topology_id,
            "ClusterTransactionIdBase64": topology.cluster_transaction_id,
            "PriorityOrder": topology.priority_order
        },
        "NodesAddedTo": urls
    })
}

/// A node of a database, as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOfDatabase {
    /// Its tag.
    pub tag: String,
    /// Its URL.
    pub url: String,
    /// `Member`, `Promotable` or `Rehab`.
    pub role: &'static str,
}

/// `/topology`.
pub fn topology_answer(
    name: &str,
    nodes: &[NodeOfDatabase],
    etag: u64,
    server_version: &str,
) -> Value {
    let node = |node: &NodeOfDatabase| {
        json!({
            "Url": node.url, "ClusterTag": node.tag, "ServerRole": node.role, "Database": name,
            "ServerVersion": server_version
        })
    };
    json!({"Nodes": nodes.iter().map(node).collect::<Vec<_>>(), "Etag": etag})
}

/// The nodes of a database in listings.
pub fn listed_nodes(nodes: &[NodeOfDatabase], priority_order: &[String]) -> Value {
    let with = |role: &str| -> Vec<Value> {
        let nodes = nodes.iter().filter(|node| node.role == role);
        nodes
            .map(|node| json!({"NodeTag": node.tag, "NodeUrl": node.url, "ResponsibleNode": null}))
            .collect()
    };
    let status =
        nodes.iter().map(|node| (node.tag.clone(), json!({"LastStatus": "Ok", "LastError": null})));
    json!({
        "Members": with("Member"), "Promotables": with("Promotable"), "Rehabs": with("Rehab"),
        "Status": status.collect::<Map<_, _>>(), "PriorityOrder": priority_order
    })
}

/// One database in `/databases`.
#[derive(Clone, Debug)]
pub struct ListedDatabase {
    /// Its name.
    pub name: String,
    /// Whether it is disabled.
    pub disabled: bool,
    /// Whether its files are encrypted.
    pub is_encrypted: bool,
    /// Its protection from deletion.
    pub lock_mode: DatabaseLockMode,
    /// Its size on disk, if it is open.
    pub size_bytes: u64,
    /// How long it has been open, as a .NET time span; `None` if it is not open.
    pub up_time: Option<String>,
    /// The number of its documents, if it is open.
    pub documents_count: u64,
    /// The number of its indexes.
    pub indexes_count: u64,
    /// The number of indexing errors, if it is open.
    pub indexing_errors: u64,
    /// The number of indexes with errors, if it is open.
    pub errored_indexes: u64,
    /// The status of its indexing, if it is open.
    pub indexing_status: Option<&'static str>,
    /// The number of alerts, if it is open.
    pub alerts: u64,
    /// The number of performance hints, if it is open.
    pub performance_hints: u64,
    /// The number of its tasks, such as subscriptions.
    pub ongoing_tasks: u64,
    /// The environment named in its record.
    pub environment: String,
    /// Which configurations its record has.
    pub configurations: ListedConfigurations,
    /// Why it could not be opened.
    pub load_error: Option<String>,
    /// Its nodes.
    pub nodes: Vec<NodeOfDatabase>,
    /// What is known about them.
    pub topology: TopologyFacts,
}

/// Which configurations a database has.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListedConfigurations {
    /// Revisions.
    pub has_revisions: bool,
    /// Expiration.
    pub has_expiration: bool,
    /// Refresh.
    pub has_refresh: bool,
    /// Archival.
    pub has_archival: bool,
}

impl ListedConfigurations {
    /// Reads them from a database record.
    pub fn of_record(record: &Map<String, Value>) -> Self {
        let has = |name: &str| record.get(name).is_some_and(Value::is_object);
        Self {
            has_revisions: has("Revisions"),
            has_expiration: has("Expiration"),
            has_refresh: has("Refresh"),
            has_archival: has("DataArchival"),
        }
    }
}

impl ListedDatabase {
    /// The entry in the protocol's shape.
    pub fn to_json(&self) -> Value {
        let mut entry = json!({
            "Name": self.name, "Disabled": self.disabled, "LockMode": self.lock_mode.name(),
            "TotalSize": SizeText::of(self.size_bytes), "TempBuffersSize": SizeText::of(0),
            "IsAdmin": true, "IsEncrypted": self.is_encrypted, "UpTime": self.up_time, "BackupInfo": null,
            "Alerts": self.alerts, "PerformanceHints": self.performance_hints,
            "RejectClients": false, "IndexingErrors": self.indexing_errors,
            "DocumentsCount": self.documents_count,
            "HasRevisionsConfiguration": self.configurations.has_revisions,
            "HasExpirationConfiguration": self.configurations.has_expiration,
            "HasRefreshConfiguration": self.configurations.has_refresh,
            "IndexesCount": self.indexes_count, "IndexingStatus": self.indexing_status,
            "CachedDatabaseInfo": self.up_time.is_none(),
            "NodesTopology": listed_nodes(&self.nodes, &self.topology.priority_order),
            "ReplicationFactor": self.topology.replication_factor,
            "DynamicNodesDistribution": self.topology.is_dynamic, "DeletionInProgress": {},
            "Environment": self.environment
        });
        if let Some(error) = &self.load_error {
            entry["LoadError"] = error.as_str().into();
        }
        entry
    }

    /// The entry of the dashboard.
    pub fn to_overview_json(&self) -> Value {
        json!({
            "Database": self.name, "DocumentsCount": self.documents_count,
            "IndexesCount": self.indexes_count, "ErroredIndexesCount": self.errored_indexes,
            "IndexingErrorsCount": self.indexing_errors, "AlertsCount": self.alerts,
            "PerformanceHintsCount": self.performance_hints,
            "ReplicationFactor": self.topology.replication_factor,
            "BackupInfo": null, "Online": self.up_time.is_some(), "Disabled": self.disabled,
            "Irrelevant": false, "OngoingTasksCount": self.ongoing_tasks
        })
    }

    /// The state of the database, without its record.
    pub fn to_state_json(&self) -> Value {
        let status = if self.up_time.is_some() { "Online" } else { "None" };
        let mut entry = json!({
            "Name": self.name, "TotalSize": SizeText::of(self.size_bytes),
            "TempBuffersSize": SizeText::of(0), "UpTime": self.up_time, "BackupInfo": null,
            "Alerts": self.alerts, "PerformanceHints": self.performance_hints,
            "IndexingErrors": self.indexing_errors, "DocumentsCount": self.documents_count,
            "IndexingStatus": self.indexing_status, "DatabaseStatus": status
        });
        if let Some(error) = &self.load_error {
            entry["LoadError"] = error.as_str().into();
        }
        entry
    }
}

/// One database in the answer to enable and disable.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "PascalCase")]
pub struct ToggleStatus {
    /// As spelled by the client.
    pub name: String,
    /// Whether the database exists.
    pub success: bool,
    /// Its new state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// A message for the user.
    pub reason: String,
}

impl ToggleStatus {
    /// The state has been set.
    pub fn done(name: &str, disabled: bool) -> ToggleStatus {
        let state = if disabled { "True" } else { "False" };
        ToggleStatus {
            name: name.to_owned(),
            success: true,
            disabled: Some(disabled),
            reason: format!("Database state={state} was propagated on the cluster"),
        }
    }

    /// The database does not exist.
    pub fn missing(name: &str) -> ToggleStatus {
        let reason = "database not found".to_owned();
        ToggleStatus { name: name.to_owned(), success: false, disabled: None, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> TopologyFacts {
        TopologyFacts {
            members: vec!["A".to_owned()],
            promotables: Vec::new(),
            rehabs: Vec::new(),
            replication_factor: 1,
            is_dynamic: false,
            stamp_index: 7,
            nodes_modified_at: "2026-11-20T15:10:03.4487497Z".into(),
            topology_id: "X4GTwBJ5A0abjnER+A/DeQ".into(),
            cluster_transaction_id: "VmPi610LU0aDMKQffF1OIQ".into(),
            priority_order: Vec::new(),
        }
    }

    #[test]
    fn a_record_keeps_what_the_client_stored_and_gets_the_rest() {
        let Value::Object(stored) = json!({
            "DatabaseName": "other case", "Settings": {"a.b": "c", "d": 5, "e": true, "f": null}, "Foo": 1,
            "Sorters": null, "DatabaseTopology": null,
            "Etag": 99, "Topology": {"Members": ["Z"]}
        }) else {
            unreachable!("an object was written")
        };
        let record = database_record(&stored, "pr", true, &topology(), 12);
        assert_eq!(record["DatabaseName"], "pr");
        assert_eq!(record["Disabled"], true);
        assert_eq!(record["Settings"], json!({"a.b": "c", "d": "5", "e": "True", "f": null}));
        assert!(!record.as_object().unwrap().contains_key("DatabaseTopology"));
        assert_eq!(record["Foo"], 1);
        assert_eq!(record["Sorters"], json!({}));
        assert_eq!(record["Topology"]["Members"], json!(["A"]));
        assert_eq!(record["Topology"]["Stamp"]["Index"], 7);
        assert_eq!(record.as_object().unwrap().keys().next_back().unwrap(), "Etag");
        assert_eq!(record["Etag"], 12);
    }

    #[test]
    fn the_source_and_type_of_an_index_follow_its_maps() {
        let definition = json!({
            "Name": "I", "SourceType": "Documents", "Type": "Map", "Fields": {}, "Maps": ["m"],
            "Reduce": null, "Configuration": {}
        });
        let stored = json!({
            "Indexes": {"I": definition},
            "IndexesHistory": {"I": [{"Definition": definition, "Source": "A"}], "J": null}
        });
        let record = database_record(stored.as_object().unwrap(), "d", false, &topology(), 1);
        let revision = &record["IndexesHistory"]["I"][0]["Definition"];
        for shown in [&record["Indexes"]["I"], revision] {
            let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
            assert_eq!(
                names,
                [
                    "ClusterState",
                    "Maps",
                    "Reduce",
                    "Fields",
                    "Configuration",
                    "Name",
                    "SourceType",
                    "Type"
                ]
            );
        }
    }

    #[test]
    fn toggling_says_what_the_state_is_now() {
        assert_eq!(
            serde_json::to_value([ToggleStatus::done("a", true), ToggleStatus::missing("b")])
                .unwrap(),
            json!([
                {"Name": "a", "Success": true, "Disabled": true,
                 "Reason": "Database state=True was propagated on the cluster"},
                {"Name": "b", "Success": false, "Reason": "database not found"}
            ])
        );
    }
}
