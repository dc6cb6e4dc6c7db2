//! The commands of a batch: from the protocol's form to the engine's, and their results back.
//!
//! A new kind of command of the protocol is converted in [`to_batch`] and printed in
//! [`write_answer`]. One command of the protocol becomes none, one or several of the engine's;
//! [`BatchResponse`] records how many, so that each takes exactly its own results.

use std::{sync::Arc, vec};

use blittable::BlittableBuf;
use commands::{Batch, BatchOutcome, Command, CommandResult, PatchCommand};
use documents::{
    AttachmentTransfer, CountersChanged, DeleteAttachment, DeletedAttachment, ExpectedVersion,
    MovedAttachment, NewContent, PutAttachment, PutDocument, RequestedId, RevisedVersion,
    StoredAttachment, StoredDocument, time_series::TimeSeriesWritten,
};
use engine::RecordedSeries;
use model::{ChangeVector, DocumentId, IdSeparator, date};
use wire::{
    BatchBody, BatchCommand, ErrorKind, MissingDocument, PatchBody, PatchTarget, ProtocolError,
};

use crate::{
    answers::{
        counter_answer::{ShownValues, change_counters, write_details},
        json_text::{JsonArray, JsonObject},
        patch_answer::{PatchedBy, write_batch_result},
    },
    api_error::ApiError,
    http::body_share::BodyShare,
    server_state::ServerState,
    writes::{
        batch_attachments::attachment_name,
        patch_commands::{self, json_patch, patch_request, patched_id},
        time_series_commands::{change_command, copy_command},
    },
};

/// Memory of a command besides its documents, from when it is read until it is answered. The
/// engine's form exists until the end; the parsed form and the result do not exist at the same
/// time. In addition: what these point to, and roughly what the response contains of it.
const COMMAND_BYTES: usize = size_of::<Command>()
    + size_of::<BatchResponse>()
    + larger(size_of::<BatchCommand>(), size_of::<CommandResult>())
    + 256;

const fn larger(one: usize, other: usize) -> usize {
    if one < other { other } else { one }
}

/// Reads the commands of a batch, and charges the memory that they will take until they are
/// answered.
pub(crate) fn read_commands(
    state: &ServerState,
    share: &mut BodyShare,
    body: &[u8],
) -> Result<BatchBody, ApiError> {
    let mut room = |commands: usize| {
        let bytes = body.len() + commands * COMMAND_BYTES;
        share.grow_to(bytes as u64).map_err(|mut error| {
            if error.kind == ErrorKind::RequestTooLarge && 0 < commands {
                let fitting = fitting_commands(share.bytes_max(), body.len(), commands);
                error
                    .message
                    .push_str(&format!(" Up to {fitting} such commands fit into a batch."));
            }
            ProtocolError::from(error)
        })
    };
    Ok(state.with_builder(|builder| wire::read_bulk_docs(body, builder, &mut room))?)
}

/// How many commands fit into `bytes_max`, if they are like the first ones of `body`. All of it is
/// attributed to these, so that fewer are promised than fit rather than more.
fn fitting_commands(bytes_max: u64, body_bytes: usize, commands: usize) -> u64 {
    let bytes = COMMAND_BYTES + body_bytes.div_ceil(commands);
    (bytes_max / bytes as u64).max(1)
}

/// What the response contains for one command of the request.
pub(crate) struct BatchResponse {
    /// How many of the engine's commands it became; the result of the last one is printed.
    commands: usize,
    shape: Shape,
}

/// What is printed besides the result.
enum Shape {
    /// Nothing: the result contains everything.
    Result,
    /// The id as in the request. A deletion without an id has no effect, and no result.
    Repeated {
        id: Option<String>,
    },
    Patched {
        id: String,
        by: PatchedBy,
        returns_document: bool,
    },
    /// Nothing is printed of the results.
    PatchedEach,
    TimeSeries {
        kind: &'static str,
    },
}

/// The batch, and what the response contains for each command of the request.
pub(crate) fn to_batch(
    commands: Vec<BatchCommand>,
    contents: Vec<NewContent>,
    (series, separator): (&RecordedSeries, IdSeparator),
) -> Result<(Batch, Vec<BatchResponse>), ApiError> {
    let responses = Vec::with_capacity(commands.len());
    let (batch, contents) = (Batch::default(), contents.into_iter());
    let mut builder = BatchBuilder { batch, responses, contents, series, separator };
    commands.into_iter().try_for_each(|command| builder.add(command))?;
    Ok((builder.batch, builder.responses))
}

struct BatchBuilder<'s> {
    batch: Batch,
    responses: Vec<BatchResponse>,
    /// Of the attachments that the commands put, in their order.
    contents: vec::IntoIter<NewContent>,
    series: &'s RecordedSeries,
    separator: IdSeparator,
}

impl BatchBuilder<'_> {
    /// Adds a command of the protocol.
    fn add(&mut self, command: BatchCommand) -> Result<(), ApiError> {
        match command {
            BatchCommand::Put { id, change_vector, document, keeps_replaced, .. } => {
                let expected = ExpectedVersion::parse(change_vector.as_deref());
                self.put(id.as_deref(), expected, document, keeps_replaced)?;
            }
            BatchCommand::ForceRevision { id } => {
                let (id, version) = (DocumentId::new(id)?, RevisedVersion::Current);
                self.push(Command::ForceRevision { id, version }, Shape::Result);
            }
            BatchCommand::Delete { id, change_vector, .. } => {
                self.delete(id, ExpectedVersion::parse(change_vector.as_deref()))?;
            }
            BatchCommand::DeletePrefix { prefix } => {
                let id = Some(prefix.clone());
                self.push(Command::DeletePrefix { prefix }, Shape::Repeated { id });
            }
            BatchCommand::Patch { id, change_vector, patch, when_missing, return_document } => {
                let id = id.unwrap_or_default();
                let patch = PatchCommand {
                    when_missing: patch_commands::when_missing(when_missing),
                    ..PatchCommand::new(patched_id(&id, self.separator)?, patch_request(patch))
                };
                let expected = ExpectedVersion::parse(change_vector.as_deref());
                self.patch(
                    id,
                    PatchedBy::Script,
                    PatchCommand { expected, ..patch },
                    return_document,
                );
            }
            BatchCommand::JsonPatch { id, change_vector, operations, return_document } => {
                let id = id.unwrap_or_default();
                let patch = json_patch(&id, self.separator, &operations)?;
                let expected = ExpectedVersion::parse(change_vector.as_deref());
                let patch = PatchCommand { expected, ..patch };
                self.patch(id, PatchedBy::Operations, patch, return_document);
            }
            BatchCommand::PatchEach { targets, patch, when_missing } => {
                self.patch_each(targets, patch, when_missing)?;
            }
            BatchCommand::TimeSeries { id, changes, kind } => {
                let command = change_command(&id, *changes, self.series)?;
                self.push(command, Shape::TimeSeries { kind });
            }
            BatchCommand::TimeSeriesCopy(copy) => {
                self.push(copy_command(copy)?, Shape::TimeSeries { kind: "TimeSeriesCopy" });
            }
            BatchCommand::Counters { id, counters } => {
                let command = Command::ChangeCounters(change_counters(counters)?);
                self.push(command, Shape::Repeated { id });
            }
            // As in the protocol: outside a cluster-wide transaction they have no effect.
            BatchCommand::CompareExchange { .. } => {}
            BatchCommand::AttachmentPut { id, name, content_type, change_vector } => {
                let content = self.contents.next().ok_or_else(|| missing_content(&id, &name))?;
                let command = Command::PutAttachment(PutAttachment {
                    id: DocumentId::new(id)?,
                    name: attachment_name(name)?,
                    content_type,
                    expected: ExpectedVersion::parse(change_vector.as_deref()),
                    content,
                });
                self.push(command, Shape::Result);
            }
            BatchCommand::AttachmentDelete { id, name, change_vector } => {
                let command = Command::DeleteAttachment(DeleteAttachment {
                    id: DocumentId::new(id)?,
                    name: attachment_name(name)?,
                    expected: ExpectedVersion::parse(change_vector.as_deref()),
                });
                self.push(command, Shape::Result);
            }
            BatchCommand::AttachmentTransfer {
                id,
                name,
                destination_id,
                destination_name,
                change_vector,
                is_move,
            } => {
                let transfer = AttachmentTransfer {
                    id: DocumentId::new(id)?,
                    name: attachment_name(name)?,
                    destination_id: DocumentId::new(destination_id)?,
                    destination_name: attachment_name(destination_name)?,
                    expected: ExpectedVersion::parse(change_vector.as_deref()),
                };
                let command = match is_move {
                    true => Command::MoveAttachment(transfer),
                    false => Command::CopyAttachment(transfer),
                };
                self.push(command, Shape::Result);
            }
        }
        Ok(())
    }

    /// Adds a command that became one of the engine's.
    fn push(&mut self, command: Command, shape: Shape) {
        self.batch.commands.push(command);
        self.responses.push(BatchResponse { commands: 1, shape });
    }

    /// `keeps_replaced`: the version that is replaced becomes a revision, by a command before this one.
    fn put(
        &mut self,
        id: Option<&str>,
        expected: ExpectedVersion,
        body: BlittableBuf,
        keeps_replaced: bool,
    ) -> Result<(), ApiError> {
        if keeps_replaced {
            let id = DocumentId::new(id.unwrap_or(""))?;
            let version = RevisedVersion::BeforeReplacing;
            self.batch.commands.push(Command::ForceRevision { id, version });
        }
        let id = RequestedId::parse(id, self.separator)?;
        self.batch.commands.push(Command::Put(PutDocument { id, expected, body }));
        let commands = if keeps_replaced { 2 } else { 1 };
        self.responses.push(BatchResponse { commands, shape: Shape::Result });
        Ok(())
    }

    fn delete(&mut self, id: Option<String>, expected: ExpectedVersion) -> Result<(), ApiError> {
        match id.as_deref() {
            None | Some("") => {
                self.responses.push(BatchResponse { commands: 0, shape: Shape::Repeated { id } });
            }
            Some(text) => {
                let command = Command::Delete { id: DocumentId::new(text)?, expected };
                self.push(command, Shape::Repeated { id });
            }
        }
        Ok(())
    }

    /// `id` is the one in the request.
    fn patch(&mut self, id: String, by: PatchedBy, patch: PatchCommand, returns_document: bool) {
        let patch = PatchCommand { wants_document: returns_document, ..patch };
        let shape = Shape::Patched { id, by, returns_document };
        self.push(Command::Patch(Box::new(patch)), shape);
    }

    fn patch_each(
        &mut self,
        targets: Vec<PatchTarget>,
        patch: PatchBody,
        when_missing: MissingDocument,
    ) -> Result<(), ApiError> {
        let commands = targets.len();
        self.responses.push(BatchResponse { commands, shape: Shape::PatchedEach });
        let script = patch_request(patch);
        let when_missing = patch_commands::when_missing(when_missing);
        for PatchTarget { id, change_vector } in targets {
            let patch = PatchCommand {
                expected: ExpectedVersion::parse(change_vector.as_deref()),
                when_missing: when_missing.clone(),
                ..PatchCommand::new(patched_id(&id, self.separator)?, Arc::clone(&script))
            };
            self.batch.commands.push(Command::Patch(Box::new(patch)));
        }
        Ok(())
    }
}

fn missing_content(id: &str, name: &str) -> ApiError {
    ApiError::invalid_operation(format!(
        "The request has no part with the content of the attachment '{name}' of document '{id}'"
    ))
}

/// The response of a batch.
pub(crate) fn write_answer(
    outcome: Option<&BatchOutcome>,
    responses: &[BatchResponse],
) -> Result<Vec<u8>, ApiError> {
    let mut results = outcome.map_or(&[][..], |outcome| &outcome.results).iter();
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut listed = JsonArray::begin(page.name("Results"));
    for response in responses {
        let result = results.by_ref().take(response.commands).last();
        write_result(result, &response.shape, listed.element())?;
    }
    listed.end();
    page.end();
    Ok(body)
}

fn write_result(
    result: Option<&CommandResult>,
    shape: &Shape,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    match (shape, result) {
        (Shape::PatchedEach, _) => body.extend_from_slice(b"{\"Type\":\"BatchPATCH\"}"),
        (Shape::Patched { id, by, returns_document }, Some(CommandResult::Patched(outcome))) => {
            write_batch_result(outcome, id, *by, *returns_document, body)?;
        }
        (Shape::TimeSeries { kind }, Some(CommandResult::TimeSeriesWritten(written))) => {
            write_time_series(written, kind, body);
        }
        (Shape::Repeated { id }, None) => write_deleted(id.as_deref(), None, body),
        (Shape::Repeated { id }, Some(CommandResult::Deleted { deleted, .. })) => {
            write_deleted(id.as_deref(), deleted.as_ref().map(|_| Deleted::Document), body);
        }
        (Shape::Repeated { id }, Some(CommandResult::DeletedPrefix { deleted, .. })) => {
            write_deleted(id.as_deref(), (*deleted > 0).then_some(Deleted::Prefix), body);
        }
        (Shape::Repeated { id }, Some(CommandResult::CountersChanged(changed))) => {
            write_counters(changed, id.as_deref(), body);
        }
        (Shape::Result, Some(CommandResult::Put(stored))) => write_stored(stored, body),
        (Shape::Result, Some(CommandResult::ForcedRevision(stored))) => {
            write_revised(stored.as_ref(), body);
        }
        (Shape::Result, Some(CommandResult::AttachmentPut(stored))) => {
            write_attachment("AttachmentPUT", stored, body);
        }
        (Shape::Result, Some(CommandResult::AttachmentCopied(copied))) => {
            write_attachment("AttachmentCOPY", &copied.stored, body);
        }
        (Shape::Result, Some(CommandResult::AttachmentMoved(moved))) => write_moved(moved, body),
        (Shape::Result, Some(CommandResult::AttachmentDeleted(deleted))) => {
            write_deleted_attachment(deleted, body);
        }
        // `to_batch` creates the shape together with the command, so no other pair occurs.
        _ => body.extend_from_slice(b"{}"),
    }
    Ok(())
}

/// The deleted version, because the protocol reports one only for single documents.
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
    let mut detail = JsonObject::begin(object.name("CountersDetail"));
    let mut listed = JsonArray::begin(detail.name("Counters"));
    let counters = changed.counters.iter().map(Option::as_ref);
    write_details(changed.id.as_str(), counters, ShownValues::Null, &mut listed);
    listed.end();
    detail.end();
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

fn write_time_series(written: &TimeSeriesWritten, kind: &str, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Id", written.id.as_str());
    let version = written.change_vector.as_ref().map(|version| version.as_str());
    object.optional_text("ChangeVector", version);
    object.text("Type", kind);
    object.end();
}

fn write_attachment(kind: &str, stored: &StoredAttachment, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Id", stored.id.as_str());
    object.text("Type", kind);
    object.text("Name", stored.name.as_str());
    write_content(stored, &mut object);
    version(&mut object, "DocumentChangeVector", stored.document_change_vector.as_ref());
    object.end();
}

fn write_moved(moved: &MovedAttachment, body: &mut Vec<u8>) {
    let (stored, deleted) = (&moved.stored, &moved.deleted);
    let mut object = JsonObject::begin(body);
    object.text("Id", deleted.id.as_str());
    object.text("Type", "AttachmentMOVE");
    object.text("Name", deleted.name.as_str());
    object.text("DestinationId", stored.id.as_str());
    object.text("DestinationName", stored.name.as_str());
    write_content(stored, &mut object);
    version(&mut object, "DocumentChangeVector", deleted.document_change_vector.as_ref());
    let destination = stored.document_change_vector.as_ref();
    version(&mut object, "DestinationDocumentChangeVector", destination);
    object.end();
}

fn write_content(stored: &StoredAttachment, object: &mut JsonObject<'_>) {
    object.text("ChangeVector", &stored.change_vector.to_string());
    object.text("Hash", &stored.hash.to_string());
    object.text("ContentType", &stored.content_type);
    object.number("Size", stored.content_bytes);
}

fn write_deleted_attachment(deleted: &DeletedAttachment, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Type", "AttachmentDELETE");
    object.text("@id", deleted.id.as_str());
    object.text("Name", deleted.name.as_str());
    version(&mut object, "DocumentChangeVector", deleted.document_change_vector.as_ref());
    object.end();
}

fn version(object: &mut JsonObject<'_>, name: &'static str, version: Option<&ChangeVector>) {
    if let Some(version) = version {
        object.text(name, &version.to_string());
    }
}
