//! A database's record: what all nodes know about a database.

use crate::{DatabaseId, DatabaseName, DatabaseTopology, RecordConfiguration};

/// What all nodes know about a database.
#[derive(Clone, Debug)]
pub struct DatabaseRecord {
    /// Its name, spelled as when it was created.
    pub name: DatabaseName,
    /// Whether it is disabled.
    pub disabled: bool,
    /// The index of the change that wrote the record.
    pub etag: u64,
    /// The nodes that have it.
    pub topology: DatabaseTopology,
    /// The index of the last change of its nodes or their order; clients call it the etag of the topology.
    pub topology_index: u64,
    /// The index of the last change of its client configuration; 0 if an older build, which kept the index inside
    /// the configuration, wrote the record last.
    pub client_index: u64,
    /// Whether the client configuration has changed since the creation. If so, and there is none, it was removed,
    /// which clients have to learn.
    pub is_client_changed: bool,
    /// When the database was created, in ticks.
    pub created_ticks: i64,
    /// The id of its database group.
    pub topology_id: DatabaseId,
    /// The id of its cluster transactions.
    pub cluster_transaction_id: DatabaseId,
    /// The newest requests that wrote the record, oldest first.
    pub requests: Vec<RecordRequest>,
    /// What clients have configured.
    pub configuration: RecordConfiguration,
}

/// A request that wrote a record, kept to recognise a retry of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRequest {
    /// The id sent by the client.
    pub id: String,
    /// The index of the change made by the request.
    pub index: u64,
}
