//! Cluster-wide transactions: from a client's batch to the engine, and its response.

use commands::BatchOutcome;
use database::DatabaseLease;
use engine::{CommittedTransaction, Guards};
use model::date;
use tokio::sync::oneshot;
use wire::BatchCommand;

use crate::{
    answers::json_text::{JsonArray, JsonObject},
    api_error::ApiError,
    call::Call,
    http::body_share::BodyShare,
    server_state::ServerState,
    writes::submitting::begin,
};

/// The first version of clients that support atomic guards.
const GUARDS_SINCE: (u32, u32) = (5, 2);

/// Executes a cluster-wide transaction; returns the response, and what others may wait for.
pub(crate) async fn execute(
    call: &Call,
    commands: Vec<BatchCommand>,
) -> Result<(Vec<u8>, BatchOutcome), ApiError> {
    let (state, database) = (&call.state, call.database()?);
    let preparation = state.engine.prepare_transaction(database, commands, guards_of(call)?)?;
    let prepared = preparation.ready().await?;
    let mut share = BodyShare::none_of(state);
    share.grow_to(prepared.bytes_on_the_way())?;
    if let Some(dry_run) = state.engine.dry_run_of(database, &prepared)? {
        begin(state, database, dry_run)?.await?;
    }
    let request_id = call.query().get("raft-request-id").map(str::to_owned);
    let submitted = state.engine.submit_transaction(database, prepared, request_id.as_deref())?;
    let committed = submitted.ready().await?;
    let outcome = executed(state, database, &committed).await?;
    Ok((write_answer(&committed), outcome))
}

async fn executed(
    state: &ServerState,
    database: &DatabaseLease,
    committed: &CommittedTransaction,
) -> Result<BatchOutcome, ApiError> {
    let (sender, receiver) = oneshot::channel();
    // A client that disconnects does not revoke its transaction.
    let done = move |outcome| drop(sender.send(outcome));
    state.engine.execute_transaction(database, committed, done);
    Ok(state.engine.settle_transaction(database, receiver.await.ok())?)
}

/// Atomic guards are for clients that support them and do not disable them.
fn guards_of(call: &Call) -> Result<Guards, ApiError> {
    if call.query().bool("disableAtomicDocumentWrites")?.unwrap_or(false) {
        return Ok(Guards::Off);
    }
    let version = call.header("Raven-Client-Version").unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), minor) = (numbers.next(), numbers.next().flatten()) else {
        return Ok(Guards::Off);
    };
    let is_new = GUARDS_SINCE <= (major, minor.unwrap_or(0));
    Ok(if is_new { Guards::On } else { Guards::Off })
}

/// Documents first, then values, each in their order.
fn write_answer(committed: &CommittedTransaction) -> Vec<u8> {
    let (index, changes) = (committed.index(), committed.changes());
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut results = JsonArray::begin(page.name("Results"));
    let modified = date::format(changes.ticks);
    for (change, change_vector) in committed.documents() {
        let (kind, id) = match change.body {
            Some(_) => ("PUT", "@id"),
            None => ("DELETE", "Id"),
        };
        let mut object = JsonObject::begin(results.element());
        object.text("Type", kind);
        object.text("@last-modified", &modified);
        object.text(id, &change.id);
        object.text("@change-vector", &change_vector);
        object.end();
    }
    for change in &changes.values {
        let kind = match change.value {
            Some(_) => "CompareExchangePUT",
            None => "CompareExchangeDELETE",
        };
        let mut object = JsonObject::begin(results.element());
        object.text("Type", kind);
        object.text("Key", &change.key);
        object.number("Index", index);
        object.end();
    }
    results.end();
    page.number("TransactionIndex", index);
    page.end();
    body
}
