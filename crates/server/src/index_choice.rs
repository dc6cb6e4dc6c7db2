//! Chooses the index of a query, and waits until it has caught up, without blocking a thread.

use std::{sync::Arc, time::Duration};

use database::DatabaseLease;
use engine::{Engine, EngineError, QueryTarget};
use indexing::Index;
use query::Plan;
use tokio::time::timeout;

use crate::{api_error::ApiError, blocking::blocking, server_state::ServerState};

/// What runs a query.
pub(crate) enum Target {
    /// A scan of the documents, by this plan.
    Documents(Box<Plan>),
    /// An index, which exists and is open.
    Index {
        index: Arc<Index>,
        /// Whether it was created for this query.
        is_new: bool,
    },
}

/// What runs the query, once an automatic index has been created if necessary. On a held snapshot, for
/// which no index can be created any more, the query is refused instead.
pub(crate) async fn ready_target(
    state: &Arc<ServerState>,
    database: &DatabaseLease,
    target: Result<QueryTarget, EngineError>,
    is_held: bool,
) -> Result<Target, ApiError> {
    match target? {
        QueryTarget::Documents(plan) => Ok(Target::Documents(plan)),
        QueryTarget::Index(index) => Ok(Target::Index { index, is_new: false }),
        QueryTarget::Missing(missing) if is_held => {
            Err(EngineError::IndexNotInSnapshot { name: missing.name() }.into())
        }
        QueryTarget::Missing(missing) => {
            let record = database.record();
            let turns = state.index_creation.get(record.name.lower_cased(), Arc::default);
            let _turn = turns.lock_owned().await;
            let (engine, database) = (Arc::clone(&state.engine), database.clone());
            let create = move || engine.create_auto_index(&database, missing);
            let index = blocking(move || create().map_err(ApiError::from)).await?;
            Ok(Target::Index { index, is_new: true })
        }
    }
}

/// Waits until the index contains everything that is stored now; `false` after a timeout.
///
/// # Errors
/// 503 when the database is being closed.
pub(crate) async fn catch_up(
    engine: &Engine,
    database: &DatabaseLease,
    index: &Arc<Index>,
    wait_max: Duration,
) -> Result<bool, ApiError> {
    let mut pending = engine.begin_catch_up(database, index, wait_max)?;
    // Whether it is over in time or not, the engine says whether the index has caught up.
    drop(timeout(pending.time_left(), &mut pending).await);
    Ok(pending.end()?)
}
