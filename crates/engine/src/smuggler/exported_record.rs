//! The settings of a database, and definitions of indexes, as a dump has them.

use model::{DatabaseRecord, IndexDefinition};
use serde_json::{Map, Value, json};
use wire::{RecordBody, SmugglerOptions, hide_cloud_secrets, index_definition_json};

use crate::index_definitions::complete_definition;

/// The properties of a record that are exported, in the order of the protocol, the word that selects each, and
/// whether it is a list when there is nothing in it, or an object, or null.
const PARTS: &[(&str, &str, Empty)] = &[
    ("ConflictSolverConfig", "ConflictSolverConfig", Empty::Null),
    ("Settings", "Settings", Empty::List),
    ("Revisions", "Revisions", Empty::Null),
    ("TimeSeries", "TimeSeries", Empty::Null),
    ("DocumentsCompression", "DocumentsCompression", Empty::Null),
    ("Expiration", "Expiration", Empty::Null),
    ("DataArchival", "DataArchival", Empty::Absent),
    ("Refresh", "Refresh", Empty::Null),
    ("Client", "Client", Empty::Null),
    ("Sorters", "Sorters", Empty::Object),
    ("Analyzers", "Analyzers", Empty::Object),
    ("IndexesHistory", "IndexesHistory", Empty::Object),
    ("RavenConnectionStrings", "RavenConnectionStrings", Empty::Object),
    ("SqlConnectionStrings", "SqlConnectionStrings", Empty::Object),
    (RecordBody::BACKUP_TASKS, RecordBody::BACKUP_TASKS, Empty::List),
    ("ExternalReplications", "ExternalReplications", Empty::List),
    ("RavenEtls", "RavenEtls", Empty::List),
    ("SqlEtls", "SqlEtls", Empty::List),
    ("HubPullReplications", "HubPullReplications", Empty::List),
    ("SinkPullReplications", "SinkPullReplications", Empty::List),
    ("OlapConnectionStrings", "OlapConnectionStrings", Empty::Object),
    ("OlapEtls", "OlapEtls", Empty::List),
    ("ElasticSearchConnectionStrings", "ElasticSearchConnectionStrings", Empty::Object),
    ("ElasticSearchEtls", "ElasticSearchEtls", Empty::List),
    ("QueueConnectionStrings", "QueueConnectionStrings", Empty::Object),
    ("QueueEtls", "QueueEtls", Empty::List),
    ("RevisionsForConflicts", "Revisions", Empty::Absent),
    ("Studio", "Settings", Empty::Absent),
];

/// How a part is written of which there is nothing.
#[derive(Clone, Copy)]
enum Empty {
    Null,
    List,
    Object,
    Absent,
}

/// Appends the record. Secrets of backups are hidden, unless it is a backup itself.
pub(super) fn write(
    record: &DatabaseRecord,
    options: &SmugglerOptions,
    hides_secrets: bool,
    out: &mut Vec<u8>,
) {
    let body = RecordBody::of_record(record);
    let mut exported = Map::new();
    let mut put = |name: &str, value: Value| drop(exported.insert(name.to_owned(), value));
    put("DatabaseName", json!(record.name.as_str()));
    put("Encrypted", json!(false));
    put("UnusedDatabaseIds", json!([]));
    if options.includes_record_part("LockMode") {
        put("LockMode", json!(model::NamedEnum::name(body.lock_mode())));
    }
    for (property, word, empty) in PARTS {
        if !options.includes_record_part(word) {
            continue;
        }
        let stored = body.properties().get(*property).filter(|stored| !stored.is_null());
        match (stored, empty) {
            (Some(Value::Object(settings)), _) if *property == "Settings" => {
                put(property, settings_list(settings));
            }
            (Some(Value::Array(tasks)), _)
                if hides_secrets && *property == RecordBody::BACKUP_TASKS =>
            {
                let mut tasks = tasks.clone();
                tasks.iter_mut().filter_map(Value::as_object_mut).for_each(hide_cloud_secrets);
                put(property, Value::Array(tasks));
            }
            (Some(stored), _) => put(property, stored.clone()),
            (None, Empty::Null) => put(property, Value::Null),
            (None, Empty::List) => put(property, json!([])),
            (None, Empty::Object) => put(property, json!({})),
            (None, Empty::Absent) => {}
        }
    }
    out.extend_from_slice(Value::Object(exported).to_string().as_bytes());
}

/// Settings are a list of objects of one property each.
fn settings_list(settings: &Map<String, Value>) -> Value {
    settings.iter().map(|(name, value)| json!({ name: value })).collect()
}

/// An index as an element of its section.
pub(super) fn defined_index(definition: &IndexDefinition, removes_analyzers: bool) -> Value {
    let definition = complete_definition(definition.clone());
    let mut json = index_definition_json(&definition);
    if removes_analyzers && let Some(Value::Object(fields)) = json.get_mut("Fields") {
        for field in fields.values_mut() {
            if let Some(field) = field.as_object_mut() {
                field.insert("Analyzer".to_owned(), Value::Null);
            }
        }
    }
    json!({"Type": json["Type"].clone(), "IndexDefinition": json})
}

/// The number of automatic indexes, which are not exported: the queries that need them create them.
pub(super) fn automatic_indexes(record: &DatabaseRecord) -> usize {
    let body = RecordBody::of_record(record);
    body.properties().get("AutoIndexes").and_then(Value::as_object).map_or(0, Map::len)
}
