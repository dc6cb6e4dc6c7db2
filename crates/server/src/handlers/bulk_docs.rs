//! `/bulk_docs`: several commands in one transaction.

use std::sync::Arc;

use commands::BatchOutcome;
use database::DatabaseLease;
use engine::{IndexWait, RecordedSeries, ReplicaWait, StagedContents};
use http::{StatusCode, header};
use tokio::time::timeout;
use wire::QueryString;

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
            waits.wait(&call, &outcome).await?;
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
            waits.wait(&call, outcome).await?;
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

/// What the client wants to wait for after the write.
struct Waits {
    indexes: Option<IndexWait>,
    replicas: Option<ReplicaWait>,
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
            _ => {
                let count = query.int("numberOfReplicasToWaitFor")?.unwrap_or(1);
                u32::try_from(count).unwrap_or(0)
            }
        };
        let is_required = query.bool("throwOnTimeoutInWaitForReplicas")?.unwrap_or(true);
        Ok(Waits { indexes, replicas: Some(ReplicaWait { count, timeout, is_required }) })
    }

    /// The write is complete already, so a timeout here does not revert it.
    async fn wait(&self, call: &Call, outcome: &BatchOutcome) -> Result<(), ApiError> {
        let (engine, database) = (&call.state.engine, call.database()?);
        if let Some(wait) = &self.indexes {
            let mut pending = engine.begin_index_wait(database, wait, outcome)?;
            // Whether it is over in time or not, the engine says which indexes are behind.
            drop(timeout(pending.time_left(), &mut pending).await);
            pending.end()?;
        }
        if let Some(wait) = &self.replicas {
            let mut pending = engine.begin_replica_wait(database, wait, outcome);
            drop(timeout(pending.time_left(), &mut pending).await);
            pending.end()?;
        }
        Ok(())
    }
}
