//! The state that all nodes agree on: reading it, and submitting commands to it.

use std::sync::Arc;

use cluster::{MembershipChange, Submission, Topology};
use cluster_state::{ClusterError, ClusterState, Command};
use commands::SubmitError;
use database::DatabaseLease;
use model::NodeTag;
use storage::{Environment, EnvironmentStatistics};

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// The state as it is now.
    pub fn cluster_state(&self) -> ClusterState {
        self.cluster.store().read()
    }

    /// The environment of that state: a long response that holds a snapshot observes what that retains.
    pub fn cluster_environment(&self) -> &Arc<Environment> {
        self.cluster.store().environment()
    }

    /// Submits a command. Never blocks. A request whose id is remembered is not applied again.
    ///
    /// # Errors
    /// The command is too large, the queue is full, or the engine is closing. Nothing is done then.
    pub fn submit_to_cluster(
        &self,
        command: &Command,
        request_id: Option<&str>,
    ) -> Result<Submission, ClusterError> {
        self.cluster.submit(command, request_id)
    }

    /// As [`Engine::submit_to_cluster`], for a command that belongs to a database: one that takes no writes takes
    /// none of these, either.
    ///
    /// # Errors
    /// Those of [`Engine::submit_to_cluster`]; the disk of the database is nearly full.
    pub fn submit_for(
        &self,
        database: &DatabaseLease,
        command: &Command,
        request_id: Option<&str>,
    ) -> Result<Submission, EngineError> {
        if let Some(refusal) = database.disk_space().refusal() {
            return Err(SubmitError::LowDiskSpace(refusal).into());
        }
        Ok(self.submit_to_cluster(command, request_id)?)
    }

    /// The id of this server, generated with its data directory.
    pub fn server_id(&self) -> [u8; 16] {
        self.catalog.server_id()
    }

    /// The tag of this node in its cluster.
    pub fn node_tag(&self) -> NodeTag {
        self.catalog.node_tag()
    }

    /// The id of the cluster.
    pub fn topology_id(&self) -> [u8; 16] {
        self.catalog.topology_id()
    }

    /// Whether the cluster has other nodes. Cheap.
    pub fn has_company(&self) -> bool {
        self.cluster.has_company()
    }

    /// The nodes of the cluster, as this node knows them.
    ///
    /// # Errors
    /// Storage errors, while the consensus is stopped.
    pub fn cluster_topology(&self) -> Result<Topology, EngineError> {
        Ok(self.cluster.topology()?)
    }

    /// Changes the nodes of the cluster, on this node or through the leader. Returns the tag of the node concerned.
    ///
    /// # Errors
    /// The change is not possible; there is no leader; it is unknown whether it was made.
    pub async fn change_nodes(&self, change: MembershipChange) -> Result<NodeTag, EngineError> {
        Ok(self.cluster.change_nodes(change).await?)
    }

    /// The answer to a request that another node sent. If [`cluster::Cluster::answer_blocks`], it is not to be polled on an
    /// asynchronous worker.
    pub async fn answer_node(&self, request: &[u8]) -> Vec<u8> {
        self.cluster.answer(request).await
    }

    /// Sets the URL at which other nodes reach this one.
    pub fn set_cluster_url(&self, url: String) {
        self.cluster.set_url(url);
    }

    /// Waits until reads of the state on this node see everything that was acknowledged on any node before.
    ///
    /// # Errors
    /// No leader can confirm what that is.
    pub async fn catch_up_with_cluster(&self) -> Result<(), EngineError> {
        Ok(self.cluster.catch_up().await?)
    }

    /// How large the files of the state are.
    pub fn state_statistics(&self) -> EnvironmentStatistics {
        self.catalog.environment().statistics()
    }
}
