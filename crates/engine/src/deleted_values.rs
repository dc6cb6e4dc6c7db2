//! Deletions of values of compare exchange are remembered until every index has seen them, and every backup of what has
//! changed.

use cluster_state::{Command, CompareExchangeCommand, FORGOTTEN_MAX, Outcome};

use crate::engine::Engine;

impl Engine {
    /// Forgets deletions that every index has seen, in the databases that are open. Blocks.
    pub(crate) fn forget_deleted_values(&self) {
        for lease in self.registry.open_leases() {
            let database = lease.record().topology_id;
            // Read before the indexes are queried: a deletion made in the meantime comes after it.
            let last = lease.values().last_change();
            let count = self.cluster.store().read().deleted_compare_exchange_count(database);
            let (Ok(last), Ok(1..)) = (last, count) else { continue };
            let up_to = lease.indexes().values_seen().map_or(last, |seen| seen.min(last));
            // An incremental backup has the deletions since the one before.
            let backed_up = self.values_backed_up(&lease.record());
            let up_to = backed_up.map_or(up_to, |backed_up| backed_up.min(up_to));
            if up_to == 0 {
                continue;
            }
            let command =
                Command::CompareExchange(CompareExchangeCommand::ForgetDeleted { database, up_to });
            loop {
                let outcome = self.cluster.submit_and_wait(&command).map(|applied| applied.outcome);
                match outcome {
                    Ok(Outcome::CompareExchange(outcome)) if outcome.removed == FORGOTTEN_MAX => {}
                    Ok(_) => break,
                    // The next call tries again.
                    Err(error) => {
                        tracing::warn!(%error, "deletions of compare exchange are still remembered");
                        break;
                    }
                }
            }
        }
    }
}
