//! Prints the record of a database.
//!
//! A record is the JSON that a client sent. `engine` changes it.

use model::{DatabaseRecord, date};
use serde_json::{Map, Value};
use wire::{
    ClientConfiguration, RecordBody, SectionKind,
    database_shapes::{TopologyFacts, database_record},
};

/// The whole record as the protocol shows it.
pub(crate) fn record_json(record: &DatabaseRecord, node_tag: &str) -> Value {
    let mut stored = body_of(record);
    if let Some(configuration) = ClientConfiguration::of_record(record) {
        stored.insert(SectionKind::Client.property().to_owned(), configuration.json);
    }
    let name = record.name.as_str();
    database_record(&stored, name, record.disabled, &topology_facts(record, node_tag), record.etag)
}

/// What the server knows about the nodes of a database.
pub(crate) fn topology_facts(record: &DatabaseRecord, node_tag: &str) -> TopologyFacts {
    let text = |id: model::DatabaseId| String::from_utf8_lossy(&id.text()).into_owned();
    let is_ordered = RecordBody::of_record(record).has_node_order(&[node_tag]);
    TopologyFacts {
        node_tag: node_tag.to_owned(),
        stamp_index: record.topology_index,
        nodes_modified_at: date::format(record.created_ticks),
        topology_id: text(record.topology_id),
        cluster_transaction_id: text(record.cluster_transaction_id),
        priority_order: if is_ordered { vec![node_tag.to_owned()] } else { Vec::new() },
    }
}

/// What the client stored.
pub(crate) fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(record.configuration.json()).unwrap_or_default()
}
