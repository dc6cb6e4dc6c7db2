//! From a handler to the cluster's state machine and back, without blocking the handler's thread.

use cluster_state::{Applied, Command};
use database::DatabaseLease;

use crate::{api_error::ApiError, call::Call, server_state::ServerState};

/// Submits a command for a database and waits for its outcome. A database that rejects writes
/// rejects these, too.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    command: &Command,
    request_id: Option<&str>,
) -> Result<Applied, ApiError> {
    Ok(state.engine.submit_for(database, command, request_id)?.await?)
}

/// Like [`submit`], for the command of a request: a repeated one gets the same response.
pub(crate) async fn submit_of(call: &Call, command: &Command) -> Result<Applied, ApiError> {
    let request_id = call.query().get("raft-request-id").map(str::to_owned);
    submit(&call.state, call.database()?, command, request_id.as_deref()).await
}
