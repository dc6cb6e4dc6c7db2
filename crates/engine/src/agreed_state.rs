//! The state that all nodes agree on: reading it, and submitting commands to it.

use std::{sync::Arc, time::Duration};

use cluster::{
    Contact, LeaderChange, LogExtent, LoggedEntry, MembershipChange, Submission, Topology,
};
use cluster_state::{ClusterError, ClusterState, Command};
use commands::SubmitError;
use database::DatabaseLease;
use model::NodeTag;
use storage::{Environment, EnvironmentStatistics};

use wire::NodeAddress;

use crate::{
    engine::Engine,
    error::EngineError,
    etl::{Cancel, OutboundRequest},
};

/// How long a node that is asked whether it is there may take.
const REACH_TIME_MAX: Duration = Duration::from_secs(5);

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

    /// What this node knows of reaching the others; it is up to date on the leader.
    pub fn node_contacts(&self) -> Vec<Contact> {
        self.cluster.contacts()
    }

    /// The last changes of who leads that this node saw, the latest at the end.
    pub fn leader_changes(&self) -> Vec<LeaderChange> {
        self.cluster.leader_changes()
    }

    /// How far the log of this node goes.
    ///
    /// # Errors
    /// Storage errors.
    pub fn cluster_log_extent(&self) -> Result<LogExtent, EngineError> {
        Ok(self.cluster.log_extent()?)
    }

    /// The entries of the log of this node from an index downwards, the latest first.
    ///
    /// # Errors
    /// Storage errors.
    pub fn cluster_log_entries(
        &self,
        to: u64,
        take: usize,
    ) -> Result<Vec<LoggedEntry>, EngineError> {
        Ok(self.cluster.log_entries(to, take)?)
    }

    /// Has another node be elected, if this one leads others.
    pub async fn resign(&self) {
        self.cluster.resign().await;
    }

    /// Has this node stand for election; others do not vote for it while they hear of a leader.
    pub fn stand_for_election(&self) {
        self.cluster.stand_for_election();
    }

    /// Asks another node for something without a body; returns how long it took. Blocks.
    ///
    /// # Errors
    /// Why it did not answer, or that it refused.
    pub fn reach_node(&self, url: &str, path: &str) -> Result<Duration, String> {
        let outbound = self.etl.outbound().ok_or("this server reaches no others".to_owned())?;
        let server: NodeAddress = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let request = OutboundRequest {
            method: "GET",
            server,
            path: path.to_owned(),
            content_type: String::new(),
            body: Arc::default(),
            time_max: REACH_TIME_MAX,
            answer_bytes_max: 0,
            identity: None,
        };
        let began = self.clock().monotonic();
        let answer =
            outbound.send(request, &Cancel::default()).map_err(|error| error.to_string())?;
        match answer.status {
            200..=299 => Ok(self.clock().monotonic().saturating_sub(began)),
            status => Err(format!("it answered with the status {status}")),
        }
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

    /// Waits until other nodes see what was agreed on under an index of the log. Returns those that do not answer, or do
    /// not see it in that time.
    pub async fn seen_by(&self, nodes: &[NodeTag], index: u64, time_max: Duration) -> Vec<NodeTag> {
        match self.has_company() {
            true => self.cluster.followed_by(nodes, index, time_max).await,
            false => Vec::new(),
        }
    }

    /// How large the files of the state are.
    pub fn state_statistics(&self) -> EnvironmentStatistics {
        self.catalog.environment().statistics()
    }
}
