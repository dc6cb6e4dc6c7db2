//! Which cluster-wide transactions all nodes of a database have executed: they are removed from the shared state.

use cluster_state::{Command, ExecutedCommand};
use database::DatabaseLease;
use model::DatabaseRecord;

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// The index up to which all nodes of a database have executed its transactions; `own` is that of this node.
    pub(crate) fn executed_by_all(
        &self,
        record: &DatabaseRecord,
        own: u64,
    ) -> Result<u64, EngineError> {
        let this = self.node_tag();
        let mut others = record.topology.nodes().filter(|node| *node != this).peekable();
        if others.peek().is_none() {
            return Ok(own);
        }
        let said = self.cluster_state().executed_transactions(record.topology_id)?;
        Ok(others.map(|node| said.get(node.as_str()).copied().unwrap_or(0)).fold(own, u64::min))
    }

    /// Has open databases with other nodes execute what they could not execute before, and says how far this node is, if
    /// that has changed. To be called about once a second.
    pub(crate) fn note_executed_transactions(&self) {
        for database in self.registry.open_leases() {
            let record = database.record();
            if record.topology.nodes().all(|node| node == self.node_tag()) {
                continue;
            }
            self.follow_transactions(&database);
            if let Err(error) = self.note_executed(&record, database.executed_transaction()) {
                let database = record.name.as_str();
                tracing::debug!(database, %error, "the progress with transactions is noted later");
            }
        }
    }

    /// Has a database execute the transactions that are stored for it. Logs when that begins to fail, and when it works
    /// again.
    pub(crate) fn follow_transactions(&self, database: &DatabaseLease) {
        let record = database.record();
        let name = record.name.as_str();
        let followed = database.follow_transactions(self.cluster.store());
        if !self.postponed_transactions.changes(record.topology_id, followed.is_err()) {
            return;
        }
        match followed {
            Ok(()) => {
                tracing::info!(database = name, "transactions of the cluster are executed again");
            }
            Err(error) => {
                tracing::warn!(database = name, %error, "transactions of the cluster are executed later");
            }
        }
    }

    fn note_executed(&self, record: &DatabaseRecord, executed: u64) -> Result<(), EngineError> {
        let said = self.cluster_state().executed_transactions(record.topology_id)?;
        let node_tag = self.node_tag().to_string();
        let is_said = said.get(&node_tag).copied().unwrap_or(0) >= executed;
        if is_said || !self.executed_notes.is_due(record.topology_id, self.clock().monotonic()) {
            return Ok(());
        }
        let by_all = self.executed_by_all(record, executed)?;
        let database = record.topology_id;
        let command = ExecutedCommand { database, node_tag, executed, by_all };
        // Nobody waits for it.
        drop(self.submit_to_cluster(&Command::Executed(command), None)?);
        Ok(())
    }
}
