//! Attachments in batches: the parts of the request that are their contents, their commands, and what
//! became of these.

use commands::{Command, CommandResult};
use documents::{
    AttachmentTransfer, DeleteAttachment, DeletedAttachment, ExpectedVersion, NewContent,
    PutAttachment, StoredAttachment,
};
use http::header;
use model::{AttachmentName, ChangeVector, DocumentId};
use wire::{BatchBody, BatchCommand, ErrorKind};

use crate::{
    api_error::ApiError,
    body_reader::{BodyReader, decoder_of},
    body_share::BodyShare,
    call::Call,
    content_upload::{ContentUpload, StagedContents},
    handlers::bulk_docs::read_commands,
    json_text::JsonObject,
    multipart::{MultipartReader, PartEvent},
    request_coding::{StreamDecoder, body_too_large},
};

/// Contents that go with the commands that put them have so many bytes together; more are staged.
const CARRIED_BYTES_MAX: usize = 4 << 20;

/// What the parts of a batch are.
pub(crate) struct BatchParts {
    pub(crate) body: BatchBody,
    /// For each attachment that is put, as far as the body has them.
    pub(crate) contents: Vec<NewContent>,
    pub(crate) staged: StagedContents,
}

/// What reads the body of a batch in parts; `None` when it is not one.
pub(crate) fn parts_of(call: &Call) -> Option<Result<MultipartReader, ApiError>> {
    MultipartReader::of(call.header(header::CONTENT_TYPE)?).filter(|_| call.stream.is_some())
}

/// Reads the commands, which are the first part, and the contents of attachments, which are the
/// others, in the order of the commands that put them. Further parts are ignored.
pub(crate) async fn read_parts(
    call: &mut Call,
    reader: MultipartReader,
) -> Result<BatchParts, ApiError> {
    let mut parts = Parts { body: BodyReader::of(call)?, reader, decoder: None, is_over: false };
    let json = parts.commands(call).await?;
    let body = read_commands(&call.state, &mut call.body_share, &json)?;
    let json_bytes = json.len();
    drop(json);
    let is_put = |command: &&BatchCommand| matches!(command, BatchCommand::AttachmentPut { .. });
    let wanted = body.commands.iter().filter(is_put).count();
    let database = call.database()?.clone();
    let (mut contents, mut staged) = (Vec::new(), StagedContents::default());
    let mut carried = 0;
    while contents.len() < wanted && parts.begin(&call.body_share).await? {
        let small_bytes_max = CARRIED_BYTES_MAX.saturating_sub(carried);
        let mut upload = ContentUpload::new(&call.state, &database, small_bytes_max);
        while let Some(piece) = parts.content(upload.share()).await? {
            upload.push(&piece).await?;
        }
        let (content, more) = upload.finish().await?;
        if let NewContent::Bytes { bytes, .. } = &content {
            carried += bytes.len();
            let bytes = (json_bytes + carried) as u64;
            call.body_share.grow_when_there_is_room(bytes).await?;
        }
        contents.push(content);
        staged.append(more);
    }
    // A body that was cut must not count, whatever part is missing.
    while parts.begin(&call.body_share).await? {
        while parts.content(&call.body_share).await?.is_some() {}
    }
    Ok(BatchParts { body, contents, staged })
}

struct Parts {
    body: BodyReader,
    reader: MultipartReader,
    /// Of the part that is being read.
    decoder: Option<StreamDecoder>,
    is_over: bool,
}

impl Parts {
    async fn next(&mut self, share: &BodyShare) -> Result<PartEvent, ApiError> {
        loop {
            match self.reader.next()? {
                PartEvent::NeedMore => match self.body.next(share).await? {
                    Some(piece) => self.reader.push(&piece),
                    None => return Err(MultipartReader::cut()),
                },
                event => return Ok(event),
            }
        }
    }

    /// Whether another part begins.
    async fn begin(&mut self, share: &BodyShare) -> Result<bool, ApiError> {
        while !self.is_over {
            match self.next(share).await? {
                PartEvent::Begin(headers) => {
                    self.decoder = decoder_of(&headers)?;
                    return Ok(true);
                }
                PartEvent::Over => self.is_over = true,
                PartEvent::NeedMore | PartEvent::Content(_) | PartEvent::End => {}
            }
        }
        Ok(false)
    }

    /// The next piece of the part, decoded; `None` at its end.
    async fn content(&mut self, share: &BodyShare) -> Result<Option<bytes::Bytes>, ApiError> {
        match self.next(share).await? {
            PartEvent::Content(piece) => match &mut self.decoder {
                Some(decoder) => decoder.push(&piece).map(|decoded| Some(decoded.into())),
                None => Ok(Some(piece)),
            },
            _ => Ok(None),
        }
    }

    /// The whole first part.
    async fn commands(&mut self, call: &mut Call) -> Result<Vec<u8>, ApiError> {
        let bytes_max = call.state.settings.http.request_body_bytes_max;
        let mut json = Vec::new();
        if self.begin(&call.body_share).await? {
            while let Some(piece) = self.content(&call.body_share).await? {
                json.extend_from_slice(&piece);
                if json.len() as u64 > bytes_max {
                    return Err(body_too_large(bytes_max));
                }
                call.body_share.grow_when_there_is_room(json.len() as u64).await?;
            }
        }
        Ok(json)
    }
}

/// The command of the engine for one of the client's about attachments.
pub(crate) fn attachment_command(
    command: BatchCommand,
    contents: &mut impl Iterator<Item = NewContent>,
) -> Result<Command, ApiError> {
    let expected = |text: Option<String>| ExpectedVersion::parse(text.as_deref());
    match command {
        BatchCommand::AttachmentPut { id, name, content_type, change_vector } => {
            let content = contents.next().ok_or_else(|| {
                ApiError::invalid_operation(format!(
                    "The request has no part with the content of the attachment '{name}' of \
                     document '{id}'"
                ))
            })?;
            Ok(Command::PutAttachment(PutAttachment {
                id: document_id(id)?,
                name: attachment_name(name)?,
                content_type,
                expected: expected(change_vector),
                content,
            }))
        }
        BatchCommand::AttachmentDelete { id, name, change_vector } => {
            Ok(Command::DeleteAttachment(DeleteAttachment {
                id: document_id(id)?,
                name: attachment_name(name)?,
                expected: expected(change_vector),
            }))
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
                id: document_id(id)?,
                name: attachment_name(name)?,
                destination_id: document_id(destination_id)?,
                destination_name: attachment_name(destination_name)?,
                expected: expected(change_vector),
            };
            Ok(match is_move {
                true => Command::MoveAttachment(transfer),
                false => Command::CopyAttachment(transfer),
            })
        }
        _ => Err(ApiError::new(ErrorKind::Internal, "the command is not about an attachment")),
    }
}

pub(crate) fn document_id(text: String) -> Result<DocumentId, ApiError> {
    DocumentId::new(text).map_err(|error| ApiError::argument(error.to_string()))
}

pub(crate) fn attachment_name(text: String) -> Result<AttachmentName, ApiError> {
    AttachmentName::new(text).map_err(|error| ApiError::argument(error.to_string()))
}

/// Writes what became of a command about an attachment.
pub(crate) fn write_attachment_result(result: &CommandResult, body: &mut Vec<u8>) {
    match result {
        CommandResult::AttachmentPut(stored) => write_stored("AttachmentPUT", stored, body),
        CommandResult::AttachmentCopied(copied) => {
            write_stored("AttachmentCOPY", &copied.stored, body);
        }
        CommandResult::AttachmentMoved(moved) => write_moved(moved, body),
        CommandResult::AttachmentDeleted(deleted) => write_deleted(deleted, body),
        _ => body.extend_from_slice(b"{}"),
    }
}

fn write_stored(kind: &str, stored: &StoredAttachment, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Id", stored.id.as_str());
    object.text("Type", kind);
    object.text("Name", stored.name.as_str());
    write_content(stored, &mut object);
    version(&mut object, "DocumentChangeVector", stored.document_change_vector.as_ref());
    object.end();
}

fn write_moved(moved: &documents::MovedAttachment, body: &mut Vec<u8>) {
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

fn write_deleted(deleted: &DeletedAttachment, body: &mut Vec<u8>) {
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
