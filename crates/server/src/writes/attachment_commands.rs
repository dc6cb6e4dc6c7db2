//! Commands that store, delete, copy or move attachments.

use commands::{Command, CommandResult};
use documents::{
    AttachmentTransfer, DeleteAttachment, DeletedAttachment, ExpectedVersion, MovedAttachment,
    NewContent, PutAttachment, StoredAttachment,
};
use model::{AttachmentName, ChangeVector, DocumentId};
use wire::AttachmentCommand;

use crate::{
    answers::json_text::JsonObject,
    api_error::ApiError,
    writes::answered::{Answered, CommandAnswer, foreign_result},
};

/// What is printed of a command: the kind is in its result.
pub(crate) struct AttachmentAnswer;

/// The command as the engine executes it. `contents` are those of the attachments that commands put, in their order.
pub(crate) fn answered(
    command: AttachmentCommand,
    contents: &mut impl Iterator<Item = NewContent>,
) -> Result<Answered<AttachmentAnswer>, ApiError> {
    let expected_of = |version: Option<String>| ExpectedVersion::parse(version.as_deref());
    let command = match command {
        AttachmentCommand::Put { id, name, content_type, change_vector } => {
            let content = contents.next().ok_or_else(|| missing_content(&id, &name))?;
            Command::PutAttachment(PutAttachment {
                id: DocumentId::new(id)?,
                name: attachment_name(name)?,
                content_type,
                expected: expected_of(change_vector),
                content,
            })
        }
        AttachmentCommand::Delete { id, name, change_vector } => {
            Command::DeleteAttachment(DeleteAttachment {
                id: DocumentId::new(id)?,
                name: attachment_name(name)?,
                expected: expected_of(change_vector),
            })
        }
        AttachmentCommand::Transfer {
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
                expected: expected_of(change_vector),
            };
            match is_move {
                true => Command::MoveAttachment(transfer),
                false => Command::CopyAttachment(transfer),
            }
        }
    };
    Ok(Answered::one(command, AttachmentAnswer))
}

/// The name of an attachment.
pub(crate) fn attachment_name(text: String) -> Result<AttachmentName, ApiError> {
    AttachmentName::new(text).map_err(|error| ApiError::argument(error.to_string()))
}

fn missing_content(id: &str, name: &str) -> ApiError {
    ApiError::invalid_operation(format!(
        "The request has no part with the content of the attachment '{name}' of document '{id}'"
    ))
}

impl CommandAnswer for AttachmentAnswer {
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError> {
        match result {
            Some(CommandResult::AttachmentPut(stored)) => {
                write_stored("AttachmentPUT", stored, body);
            }
            Some(CommandResult::AttachmentCopied(copied)) => {
                write_stored("AttachmentCOPY", &copied.stored, body);
            }
            Some(CommandResult::AttachmentMoved(moved)) => write_moved(moved, body),
            Some(CommandResult::AttachmentDeleted(deleted)) => write_deleted(deleted, body),
            result => return Err(foreign_result(result)),
        }
        Ok(())
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
