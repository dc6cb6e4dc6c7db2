//! From a handler to the cluster's machine and back, without blocking the handler's thread.

use cluster_state::{Applied, Command, IdentityCommand, Outcome};
use database::DatabaseLease;

use crate::{api_error::ApiError, call::Call, server_state::ServerState};

/// Submits a command that belongs to a database and waits for its outcome. A database that takes no
/// writes takes none of these either.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    command: &Command,
    request_id: Option<&str>,
) -> Result<Applied, ApiError> {
    if let Some(refusal) = database.disk_space().refusal() {
        return Err(commands::SubmitError::LowDiskSpace(refusal).into());
    }
    let submission = state.cluster.submit(command, request_id);
    let applied = submission?.await;
    applied.map_err(ApiError::from)
}

/// As [`submit`], for the command of a request: one that is sent again is answered again.
pub(crate) async fn submit_of(call: &Call, command: &Command) -> Result<Applied, ApiError> {
    let request_id = call.query().get("raft-request-id").map(str::to_owned);
    submit(&call.state, call.database()?, command, request_id.as_deref()).await
}

/// The next value of each of these identities.
pub(crate) async fn next_identities(
    state: &ServerState,
    database: &DatabaseLease,
    names: Vec<String>,
) -> Result<Vec<i64>, ApiError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let command = IdentityCommand::Next { database: database.record().topology_id, names };
    match submit(state, database, &Command::Identity(command), None).await?.outcome {
        Outcome::Identities(values) => Ok(values),
        _ => Err(ApiError::invalid_operation("the values of identities are missing")),
    }
}
