//! Prints the record of a database, and its nodes.
//!
//! A record is the JSON that a client sent. `engine` changes it.

use engine::BackupTask;
use model::{DatabaseRecord, NodeTag, date};
use serde_json::{Map, Value};
use wire::{
    ClientConfiguration, RecordBody, SectionKind,
    database_shapes::{NodeOfDatabase, TopologyFacts, database_record},
    hide_cloud_secrets,
};

use crate::server_state::ServerState;

/// The whole record as the protocol shows it, with the tasks that the database has because all have them, and without the
/// secrets of buckets.
pub(crate) fn record_json(state: &ServerState, record: &DatabaseRecord) -> Value {
    let mut stored = body_of(record);
    add_server_wide(&mut stored, state.engine.backup_tasks(record));
    if let Some(configuration) = ClientConfiguration::of_record(record) {
        stored.insert(SectionKind::Client.property().to_owned(), configuration.json);
    }
    let name = record.name.as_str();
    database_record(&stored, name, record.disabled, &topology_facts(record), record.etag)
}

/// Adds tasks to those of the record, and hides secrets of all.
fn add_server_wide(stored: &mut Map<String, Value>, tasks: Vec<BackupTask>) {
    let mut of_all = tasks.into_iter().filter(|task| task.is_server_wide).peekable();
    if of_all.peek().is_none() && !stored.contains_key(RecordBody::BACKUP_TASKS) {
        return;
    }
    let list = stored.entry(RecordBody::BACKUP_TASKS).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.extend(of_all.map(|task| Value::Object(task.stored)));
        list.iter_mut().filter_map(Value::as_object_mut).for_each(hide_cloud_secrets);
    }
}

/// What the server knows about the nodes of a database.
pub(crate) fn topology_facts(record: &DatabaseRecord) -> TopologyFacts {
    let text = |id: model::DatabaseId| String::from_utf8_lossy(&id.text()).into_owned();
    let topology = &record.topology;
    let members = tags(&topology.members);
    let order: Vec<&str> = members.iter().map(String::as_str).collect();
    let is_ordered = RecordBody::of_record(record).has_node_order(&order);
    TopologyFacts {
        promotables: tags(&topology.promotables),
        rehabs: tags(&topology.rehabs),
        replication_factor: topology.replication_factor,
        is_dynamic: topology.is_dynamic,
        stamp_index: record.topology_index,
        nodes_modified_at: date::format(record.created_ticks),
        topology_id: text(record.topology_id),
        cluster_transaction_id: text(record.cluster_transaction_id),
        priority_order: if is_ordered { members.clone() } else { Vec::new() },
        members,
    }
}

fn tags(nodes: &[NodeTag]) -> Vec<String> {
    nodes.iter().map(NodeTag::to_string).collect()
}

/// The nodes of a database, members first. `own_url` is that of this node as the client sees it, which counts while the
/// node is alone.
pub(crate) fn nodes_of(
    state: &ServerState,
    record: &DatabaseRecord,
    own_url: &str,
) -> Vec<NodeOfDatabase> {
    let cluster = state.engine.cluster_topology().ok();
    let cluster = cluster.filter(|cluster| 1 < cluster.nodes.len());
    let url = |tag: NodeTag| match &cluster {
        Some(cluster) => cluster.url_of(tag).unwrap_or_default().to_owned(),
        None => own_url.to_owned(),
    };
    let topology = &record.topology;
    let lists = [
        (&topology.members, "Member"),
        (&topology.promotables, "Promotable"),
        (&topology.rehabs, "Rehab"),
    ];
    let nodes = lists.into_iter().flat_map(|(list, role)| list.iter().map(move |tag| (*tag, role)));
    nodes.map(|(tag, role)| NodeOfDatabase { tag: tag.to_string(), url: url(tag), role }).collect()
}

/// What the client stored.
pub(crate) fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(record.configuration.json()).unwrap_or_default()
}
