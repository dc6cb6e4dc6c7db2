//! `/bulk_docs`: several commands in one transaction.

use std::{sync::Arc, time::Duration};

use commands::{Batch, BatchOutcome, Command, CommandResult, PatchCommand};
use database::DatabaseLease;
use documents::{
    CountersChanged, ExpectedVersion, NewContent, PutDocument, RequestedId, RevisedVersion,
    StoredDocument,
};
use http::{StatusCode, header};
use indexing::Index;
use model::{ChangeVector, DocumentId, Etag, IdSeparator, TimeSpan, date};
use wire::{
    BatchBody, BatchCommand, ErrorFields, ErrorKind, IndexState, PatchTarget, ProtocolError,
    QueryString,
};

use crate::{
    answer::Answer,
    api_error::ApiError,
    batch_attachments::{
        BatchParts, attachment_command, parts_of, read_parts, write_attachment_result,
    },
    body_share::BodyShare,
    call::Call,
    cluster_transaction,
    content_upload::StagedContents,
    counter_answer::{ShownValues, change_counters, write_details},
    index_choice::wait_until,
    json_text::JsonObject,
    patch_answer::{PatchedBy, write_batch_result},
    patch_commands::{self, json_patch, patch_request, patched_id},
    recorded_series::RecordedSeries,
    router::Answering,
    server_state::ServerState,
    submitting::submit,
    time_series_commands::{change_command, copy_command, write_time_series_result},
};

/// What a command takes beside its documents from when it is read until it is answered. For the engine it is
/// there until the end; as it was sent, and its result, not at the same time. Then what these point to, and
/// about what the answer says of it.
const COMMAND_BYTES: usize = size_of::<Command>()
    + size_of::<Echo>()
    + larger(size_of::<BatchCommand>(), size_of::<CommandResult>())
    + 256;

const fn larger(one: usize, other: usize) -> usize {
    if one < other { other } else { one }
}

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
            waits.wait_for_replicas(&outcome).await?;
            return Ok(Answer::json_with(StatusCode::CREATED, answer));
        }
        let database = call.database()?;
        let series = RecordedSeries::of(database);
        let (batch, echoes) = to_batch(body.commands, contents, (&series, call.id_separator()?))?;
        let outcome = if batch.commands.is_empty() {
            None
        } else {
            Some(submit(&call.state, database, batch).await?)
        };
        staged.are_put();
        let answer = write_answer(outcome.as_ref(), &echoes)?;
        if let Some(outcome) = &outcome {
            waits.wait_for_indexes(&call, outcome).await?;
            waits.wait_for_replicas(outcome).await?;
        }
        Ok(Answer::json_with(StatusCode::CREATED, answer))
    })
}

/// Executes a body whose commands are none of a cluster-wide transaction and have no attachments.
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

/// Reads the commands of a batch, and counts what they will take until they are answered.
pub(crate) fn read_commands(
    state: &ServerState,
    share: &mut BodyShare,
    body: &[u8],
) -> Result<BatchBody, ApiError> {
    let mut room = |commands: usize| {
        let bytes = body.len() + commands * COMMAND_BYTES;
        share.grow_to(bytes as u64).map_err(ProtocolError::from)
    };
    Ok(state.with_builder(|builder| wire::read_bulk_docs(body, builder, &mut room))?)
}

fn check_content_type(call: &Call) -> Result<(), ApiError> {
    // Clients that send nothing mean JSON.
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

/// What the answer repeats of a command. Deletions that name no document do nothing.
enum Echo {
    Executed {
        id: Option<String>,
    },
    Nothing {
        id: Option<String>,
    },
    Patched {
        id: String,
        by: PatchedBy,
        returns_document: bool,
    },
    /// A change of a time series.
    TimeSeries {
        kind: &'static str,
    },
    /// So many commands, which one of the request was.
    PatchedEach {
        commands: usize,
    },
    /// Part of the next command: it has no answer of its own.
    Silent,
}

fn to_batch(
    commands: Vec<BatchCommand>,
    contents: Vec<NewContent>,
    (series, separator): (&RecordedSeries, IdSeparator),
) -> Result<(Batch, Vec<Echo>), ApiError> {
    let mut contents = contents.into_iter();
    let mut batch = Batch::default();
    let mut echoes = Vec::with_capacity(commands.len());
    for command in commands {
        match command {
            BatchCommand::Put { id, change_vector, document, keeps_replaced, .. } => {
                if keeps_replaced {
                    let of = DocumentId::new(id.as_deref().unwrap_or("")).map_err(too_long)?;
                    let version = RevisedVersion::BeforeReplacing;
                    batch.commands.push(Command::ForceRevision { id: of, version });
                    echoes.push(Echo::Silent);
                }
                let id = RequestedId::parse(id.as_deref(), separator).map_err(too_long)?;
                let expected = ExpectedVersion::parse(change_vector.as_deref());
                batch.commands.push(Command::Put(PutDocument { id, expected, body: document }));
                echoes.push(Echo::Executed { id: None });
            }
            BatchCommand::ForceRevision { id } => {
                let id = DocumentId::new(id).map_err(too_long)?;
                let version = RevisedVersion::Current;
                batch.commands.push(Command::ForceRevision { id, version });
                echoes.push(Echo::Executed { id: None });
            }
            BatchCommand::Delete { id, change_vector, .. } => match id.as_deref() {
                None | Some("") => echoes.push(Echo::Nothing { id }),
                Some(text) => {
                    let expected = ExpectedVersion::parse(change_vector.as_deref());
                    let of = DocumentId::new(text).map_err(too_long)?;
                    batch.commands.push(Command::Delete { id: of, expected });
                    echoes.push(Echo::Executed { id });
                }
            },
            BatchCommand::Patch { id, change_vector, patch, when_missing, return_document } => {
                let id = id.unwrap_or_default();
                let patch = PatchCommand {
                    expected: ExpectedVersion::parse(change_vector.as_deref()),
                    when_missing: patch_commands::when_missing(when_missing),
                    wants_document: return_document,
                    ..PatchCommand::new(patched_id(&id, separator)?, patch_request(patch))
                };
                batch.commands.push(Command::Patch(Box::new(patch)));
                let by = PatchedBy::Script;
                echoes.push(Echo::Patched { id, by, returns_document: return_document });
            }
            BatchCommand::JsonPatch { id, change_vector, operations, return_document } => {
                let id = id.unwrap_or_default();
                let patch = PatchCommand {
                    expected: ExpectedVersion::parse(change_vector.as_deref()),
                    wants_document: return_document,
                    ..json_patch(&id, separator, &operations)?
                };
                batch.commands.push(Command::Patch(Box::new(patch)));
                let by = PatchedBy::Operations;
                echoes.push(Echo::Patched { id, by, returns_document: return_document });
            }
            BatchCommand::PatchEach { targets, patch, when_missing } => {
                echoes.push(Echo::PatchedEach { commands: targets.len() });
                let script = patch_request(patch);
                let when_missing = patch_commands::when_missing(when_missing);
                for PatchTarget { id, change_vector } in targets {
                    let patch = PatchCommand {
                        expected: ExpectedVersion::parse(change_vector.as_deref()),
                        when_missing: when_missing.clone(),
                        ..PatchCommand::new(patched_id(&id, separator)?, Arc::clone(&script))
                    };
                    batch.commands.push(Command::Patch(Box::new(patch)));
                }
            }
            BatchCommand::DeletePrefix { prefix } => {
                echoes.push(Echo::Executed { id: Some(prefix.clone()) });
                batch.commands.push(Command::DeletePrefix { prefix });
            }
            BatchCommand::TimeSeries { id, changes, kind } => {
                batch.commands.push(change_command(&id, *changes, series)?);
                echoes.push(Echo::TimeSeries { kind });
            }
            BatchCommand::TimeSeriesCopy(copy) => {
                batch.commands.push(copy_command(copy)?);
                echoes.push(Echo::TimeSeries { kind: "TimeSeriesCopy" });
            }
            BatchCommand::Counters { id, counters } => {
                batch.commands.push(Command::ChangeCounters(change_counters(counters)?));
                echoes.push(Echo::Executed { id });
            }
            // As the protocol has it: outside of a cluster-wide transaction they mean nothing.
            BatchCommand::CompareExchange { .. } => {}
            BatchCommand::AttachmentPut { .. }
            | BatchCommand::AttachmentDelete { .. }
            | BatchCommand::AttachmentTransfer { .. } => {
                batch.commands.push(attachment_command(command, &mut contents)?);
                echoes.push(Echo::Executed { id: None });
            }
        }
    }
    Ok((batch, echoes))
}

fn too_long(error: model::DocumentIdTooLong) -> ApiError {
    ApiError::argument(error.to_string())
}

fn write_answer(outcome: Option<&BatchOutcome>, echoes: &[Echo]) -> Result<Vec<u8>, ApiError> {
    let mut results = outcome.map_or(&[][..], |outcome| &outcome.results).iter();
    let mut body = b"{\"Results\":[".to_vec();
    let mut is_first = true;
    for echo in echoes {
        if matches!(echo, Echo::Silent) {
            results.next();
            continue;
        }
        if !is_first {
            body.push(b',');
        }
        is_first = false;
        match echo {
            Echo::Silent => {}
            Echo::TimeSeries { kind } => write_time_series_result(results.next(), kind, &mut body),
            Echo::Nothing { id } => write_deleted(id.as_deref(), None, &mut body),
            Echo::Executed { id } => write_result(results.next(), id.as_deref(), &mut body),
            Echo::Patched { id, by, returns_document } => {
                if let Some(CommandResult::Patched(outcome)) = results.next() {
                    write_batch_result(outcome, id, *by, *returns_document, &mut body)?;
                }
            }
            Echo::PatchedEach { commands } => {
                results.by_ref().take(*commands).for_each(drop);
                body.extend_from_slice(b"{\"Type\":\"BatchPATCH\"}");
            }
        }
    }
    body.extend_from_slice(b"]}");
    Ok(body)
}

fn write_result(result: Option<&CommandResult>, id: Option<&str>, body: &mut Vec<u8>) {
    match result {
        Some(CommandResult::Put(stored)) => write_stored(stored, body),
        Some(CommandResult::ForcedRevision(stored)) => write_revised(stored.as_ref(), body),
        Some(CommandResult::Deleted { deleted, .. }) => {
            write_deleted(id, deleted.as_ref().map(|_| Deleted::Document), body);
        }
        Some(CommandResult::DeletedPrefix { deleted, .. }) => {
            write_deleted(id, (*deleted > 0).then_some(Deleted::Prefix), body);
        }
        Some(
            result @ (CommandResult::AttachmentPut(_)
            | CommandResult::AttachmentDeleted(_)
            | CommandResult::AttachmentCopied(_)
            | CommandResult::AttachmentMoved(_)),
        ) => write_attachment_result(result, body),
        Some(CommandResult::CountersChanged(changed)) => write_counters(changed, id, body),
        Some(_) | None => body.extend_from_slice(b"{}"),
    }
}

/// What was deleted, because the protocol tells a version only for single documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deleted {
    Document,
    Prefix,
}

fn write_deleted(id: Option<&str>, deleted: Option<Deleted>, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.optional_text("Id", id);
    object.text("Type", "DELETE");
    object.flag("Deleted", deleted.is_some());
    if deleted == Some(Deleted::Document) {
        object.optional_text("ChangeVector", None);
    }
    object.end();
}

fn write_stored(stored: &StoredDocument, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Type", "PUT");
    object.text("@id", stored.id.as_str());
    object.text("@collection", stored.collection.as_str());
    object.text("@change-vector", &stored.change_vector.to_string());
    object.text("@last-modified", &date::format(stored.last_modified_ticks));
    if !stored.flags.is_empty() {
        let mut flags = Vec::new();
        stored.flags.write_text(&mut flags);
        object.text("@flags", &String::from_utf8_lossy(&flags));
    }
    object.end();
}

fn write_counters(changed: &CountersChanged, id: Option<&str>, body: &mut Vec<u8>) {
    let CountersChanged { change_vector, document_change_vector, .. } = changed;
    let version = |version: Option<&ChangeVector>| version.map(ToString::to_string);
    let document_version = version(document_change_vector.as_ref());
    let last = document_version.clone().or_else(|| version(change_vector.as_ref()));
    let mut object = JsonObject::begin(body);
    object.optional_text("Id", id);
    object.optional_text("ChangeVector", last.as_deref());
    object.text("Type", "Counters");
    let out = object.name("CountersDetail");
    out.extend_from_slice(b"{\"Counters\":[");
    let counters = changed.counters.iter().map(Option::as_ref);
    write_details(changed.id.as_str(), counters, ShownValues::Null, out);
    out.extend_from_slice(b"]}");
    object.optional_text("DocumentChangeVector", document_version.as_deref());
    object.end();
}

fn write_revised(stored: Option<&StoredDocument>, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.flag("RevisionCreated", stored.is_some());
    object.text("Type", "ForceRevisionCreation");
    if let Some(stored) = stored {
        object.text("@id", stored.id.as_str());
        object.text("@change-vector", &stored.change_vector.to_string());
        object.text("@last-modified", &date::format(stored.last_modified_ticks));
        object.text("@flags", &stored.flags.to_string());
    }
    object.end();
}

/// What the client wants to wait for after the write. There are no other nodes, so waiting for them is
/// never over.
struct Waits {
    indexes: Option<IndexWait>,
    replicas: Option<ReplicaWait>,
}

struct IndexWait {
    timeout: Duration,
    throws: bool,
    /// Only these; all of the changed collections when there are none.
    names: Vec<String>,
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
                throws: query.bool("waitForIndexThrow")?.unwrap_or(true),
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

    /// The write is done already, so a time-out here does not take it back.
    async fn wait_for_indexes(&self, call: &Call, outcome: &BatchOutcome) -> Result<(), ApiError> {
        let Some(wait) = self.indexes.as_ref().filter(|_| !outcome.collections.is_empty()) else {
            return Ok(());
        };
        let clock = &call.state.platform.clock;
        let began = clock.monotonic();
        let indexes = wait.relevant(call.database()?, outcome);
        let documents = call.database()?.read();
        // All of them are registered before the first is waited for.
        let mut waits = Vec::with_capacity(indexes.len());
        for index in &indexes {
            let last = index.last_etag_in(&documents)?;
            waits.push(wait_until(index, last.min(outcome.last_etag).into(), wait.timeout));
        }
        drop(documents);
        let mut stale = Vec::new();
        for (index, wait) in indexes.iter().zip(waits) {
            if !wait.await {
                stale.push(index);
            }
        }
        if stale.is_empty() || !wait.throws {
            return Ok(());
        }
        let elapsed = TimeSpan::of(clock.monotonic().saturating_sub(began));
        Err(indexes_are_behind(elapsed, outcome.last_etag, indexes.len(), &stale))
    }

    /// The write is done already, so a time-out here does not take it back.
    async fn wait_for_replicas(&self, outcome: &BatchOutcome) -> Result<(), ApiError> {
        let Some(wait) = self.replicas.as_ref().filter(|wait| wait.count > 0) else {
            return Ok(());
        };
        tokio::time::sleep(wait.timeout).await;
        if !wait.throws {
            return Ok(());
        }
        let change_vector = last_change_vector(outcome).unwrap_or_default();
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

impl IndexWait {
    /// The indexes that follow what the batch changed.
    fn relevant(&self, database: &DatabaseLease, outcome: &BatchOutcome) -> Vec<Arc<Index>> {
        let is_named = |index: &Index| {
            self.names.is_empty()
                || self.names.iter().any(|name| name.eq_ignore_ascii_case(index.name()))
        };
        let mut indexes = database.indexes().all();
        indexes.retain(|index| {
            let is_on = index.state() != IndexState::Disabled;
            is_on && is_named(index) && index.follows(&outcome.collections)
        });
        indexes
    }
}

fn indexes_are_behind(
    elapsed: TimeSpan,
    etag: Etag,
    relevant: usize,
    stale: &[&Arc<Index>],
) -> ApiError {
    let names = |indexes: &[&Arc<Index>]| {
        indexes.iter().map(|index| index.name()).collect::<Vec<_>>().join(", ")
    };
    let paused: Vec<_> = stale.iter().copied().filter(|index| index.is_paused()).collect();
    let mut message = format!(
        "After waiting for {elapsed}, could not verify that all indexes has caught up with the \
         changes as of etag: {}. Total relevant indexes: {relevant}, total stale indexes: {} ({})",
        etag.0,
        stale.len(),
        names(stale)
    );
    if !paused.is_empty() {
        let more = format!(", total paused indexes: {} ({})", paused.len(), names(&paused));
        message.push_str(&more);
    }
    let errored: Vec<_> =
        stale.iter().copied().filter(|index| index.state() == IndexState::Error).collect();
    if !errored.is_empty() {
        let more = format!(", total errored indexes: {} ({})", errored.len(), names(&errored));
        message.push_str(&more);
    }
    let mut error = ApiError::new(ErrorKind::Timeout, message);
    error.fields = ErrorFields::FailImmediately;
    error
}

fn last_change_vector(outcome: &BatchOutcome) -> Option<String> {
    outcome.results.iter().rev().find_map(|result| match result {
        CommandResult::Put(stored) => Some(stored.change_vector.to_string()),
        CommandResult::Patched(patched) => {
            patched.stored.as_ref().map(|stored| stored.change_vector.to_string())
        }
        CommandResult::Deleted { deleted, .. } => {
            deleted.as_ref().map(|deleted| deleted.change_vector.to_string())
        }
        _ => None,
    })
}
