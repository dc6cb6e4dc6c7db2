//! `/bulk_docs`: several commands in one transaction.

use std::{sync::Arc, time::Duration};

use commands::BatchOutcome;
use database::DatabaseLease;
use documents::DatabaseIdentity;
use engine::{IndexWait, RecordedSeries, StagedContents};
use http::{StatusCode, header};
use model::{ChangeVector, ChangeVectorEntry};
use tokio::time::timeout;
use wire::{ErrorFields, ErrorKind, QueryString};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    http::{body_share::BodyShare, router::Answering},
    server_state::ServerState,
    writes::{
        batch_attachments::{BatchParts, parts_of, read_parts},
        batch_commands::{read_commands, to_batch, write_answer},
        cluster_transaction,
        submitting::submit,
    },
};

/// `POST /bulk_docs`.
pub(crate) fn bulk_docs(mut call: Call) -> Answering {
    Box::pin(async move {
        let waits = Waits::of(&call.query())?;
        let BatchParts { body, contents, mut staged } = match parts_of(&call) {
            Some(parts) => read_parts(&mut call, parts?).await?,
            None => {
                check_content_type(&call)?;
                let (contents, staged) = (Vec::new(), StagedContents::default());
                let (body, state) = (call.body.clone(), Arc::clone(&call.state));
                let body = read_commands(&state, &mut call.body_share, &body)?;
                BatchParts { body, contents, staged }
            }
        };
        if body.is_cluster_wide {
            let (answer, outcome) = cluster_transaction::execute(&call, body.commands).await?;
            waits.wait_for_indexes(&call, &outcome).await?;
            waits.wait_for_replicas(&call, &outcome).await?;
            return Ok(Answer::json_with(StatusCode::CREATED, answer));
        }
        let database = call.database()?;
        let series = RecordedSeries::of(database);
        let (batch, answers) = to_batch(body.commands, contents, (&series, call.id_separator()?))?;
        let outcome = if batch.commands.is_empty() {
            None
        } else {
            Some(submit(&call.state, database, batch).await?)
        };
        staged.are_put();
        let answer = write_answer(outcome.as_ref(), &answers)?;
        if let Some(outcome) = &outcome {
            waits.wait_for_indexes(&call, outcome).await?;
            waits.wait_for_replicas(&call, outcome).await?;
        }
        Ok(Answer::json_with(StatusCode::CREATED, answer))
    })
}

/// Executes a body whose commands are not cluster-wide and have no attachments.
pub(crate) async fn submit_body(
    state: &ServerState,
    database: &DatabaseLease,
    share: &mut BodyShare,
    body: &[u8],
) -> Result<BatchOutcome, ApiError> {
    let body = read_commands(state, share, body)?;
    let series = RecordedSeries::of(database);
    let context = (&series, database.queue().id_separator());
    let (batch, _) = to_batch(body.commands, Vec::new(), context)?;
    submit(state, database, batch).await
}

fn check_content_type(call: &Call) -> Result<(), ApiError> {
    // Clients that send no content type mean JSON.
    let Some(content_type) = call.header(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if media_type.is_empty() || media_type == "application/json" {
        return Ok(());
    }
    Err(ApiError::invalid_operation(format!(
        "The requested Content type '{content_type}' is not supported. Use 'application/json' or \
         'multipart/mixed'."
    )))
}

/// What the client wants to wait for after the write. There are no other nodes, so waiting for them
/// never succeeds.
struct Waits {
    indexes: Option<IndexWait>,
    replicas: Option<ReplicaWait>,
}

struct ReplicaWait {
    count: i64,
    timeout: Duration,
    timeout_text: String,
    throws: bool,
}

impl Waits {
    fn of(query: &QueryString<'_>) -> Result<Waits, ApiError> {
        let indexes = match query.time_span("waitForIndexesTimeout")? {
            None => None,
            Some(timeout) => Some(IndexWait {
                timeout,
                is_required: query.bool("waitForIndexThrow")?.unwrap_or(true),
                names: query.all("waitForSpecificIndex").map(str::to_owned).collect(),
            }),
        };
        let Some(timeout) = query.time_span("waitForReplicasTimeout")? else {
            return Ok(Waits { indexes, replicas: None });
        };
        let count = match query.get("numberOfReplicasToWaitFor") {
            // The majority of one node is that node, which has the write already.
            Some("majority") => 0,
            _ => i64::from(query.int("numberOfReplicasToWaitFor")?.unwrap_or(1)),
        };
        let throws = query.bool("throwOnTimeoutInWaitForReplicas")?.unwrap_or(true);
        let timeout_text = query.get("waitForReplicasTimeout").unwrap_or("").to_owned();
        Ok(Waits { indexes, replicas: Some(ReplicaWait { count, timeout, timeout_text, throws }) })
    }

    /// The write is complete already, so a timeout here does not revert it.
    async fn wait_for_indexes(&self, call: &Call, outcome: &BatchOutcome) -> Result<(), ApiError> {
        let Some(wait) = &self.indexes else { return Ok(()) };
        let mut pending = call.state.engine.begin_index_wait(call.database()?, wait, outcome)?;
        // Whether it is over in time or not, the engine says which indexes are behind.
        drop(timeout(pending.time_left(), &mut pending).await);
        Ok(pending.end()?)
    }

    /// The write is complete already, so a timeout here does not revert it.
    async fn wait_for_replicas(&self, call: &Call, outcome: &BatchOutcome) -> Result<(), ApiError> {
        let Some(wait) = self.replicas.as_ref().filter(|wait| wait.count > 0) else {
            return Ok(());
        };
        tokio::time::sleep(wait.timeout).await;
        if !wait.throws {
            return Ok(());
        }
        let change_vector = change_vector_after(call.database()?, outcome)?;
        let mut error = ApiError::new(
            ErrorKind::Timeout,
            format!(
                "Could not verify that the change vector '{change_vector}' was replicated to {} \
                 servers in {}. So far, it only replicated to 0",
                wait.count, wait.timeout_text
            ),
        );
        error.fields = ErrorFields::FailImmediately;
        Err(error)
    }
}

/// This node's part of the change vector of the database after the batch.
fn change_vector_after(
    database: &DatabaseLease,
    outcome: &BatchOutcome,
) -> Result<ChangeVector, ApiError> {
    let DatabaseIdentity { node_tag: tag, database_id } =
        documents::database_identity(&database.read())?;
    Ok(ChangeVector::single(ChangeVectorEntry { tag, etag: outcome.last_etag, database_id }))
}
