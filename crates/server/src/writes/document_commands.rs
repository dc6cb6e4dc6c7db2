//! Commands that store or delete documents.

use commands::{Command, CommandResult};
use documents::{ExpectedVersion, PutDocument, RequestedId, RevisedVersion, StoredDocument};
use model::{DocumentId, IdSeparator, date};
use wire::DocumentCommand;

use crate::{
    answers::json_text::JsonObject,
    api_error::ApiError,
    writes::answered::{Answered, CommandAnswer, Executed, foreign_result},
};

/// What is printed of a command.
pub(crate) enum DocumentAnswer {
    Stored,
    Revised,
    /// A deletion, with the id as in the request. One without an id has no effect, and no result.
    Deleted {
        id: Option<String>,
    },
    DeletedPrefix {
        prefix: String,
    },
}

/// The command as the engine executes it.
pub(crate) fn answered(
    command: DocumentCommand,
    separator: IdSeparator,
) -> Result<Answered<DocumentAnswer>, ApiError> {
    match command {
        DocumentCommand::Put { id, change_vector, document, keeps_replaced, .. } => {
            let expected = ExpectedVersion::parse(change_vector.as_deref());
            let requested = RequestedId::parse(id.as_deref(), separator)?;
            let put = Command::Put(PutDocument { id: requested, expected, body: document });
            if !keeps_replaced {
                return Ok(Answered::one(put, DocumentAnswer::Stored));
            }
            // The version that is replaced becomes a revision first.
            let id = DocumentId::new(id.unwrap_or_default())?;
            let version = RevisedVersion::BeforeReplacing;
            let executed = Executed::Several(vec![Command::ForceRevision { id, version }, put]);
            Ok(Answered { executed, answer: DocumentAnswer::Stored })
        }
        DocumentCommand::Delete { id, change_vector, .. } => {
            let executed = match id.as_deref() {
                None | Some("") => Executed::Nothing,
                Some(id) => {
                    let expected = ExpectedVersion::parse(change_vector.as_deref());
                    Executed::One(Command::Delete { id: DocumentId::new(id)?, expected })
                }
            };
            Ok(Answered { executed, answer: DocumentAnswer::Deleted { id } })
        }
        DocumentCommand::DeletePrefix { prefix } => {
            let answer = DocumentAnswer::DeletedPrefix { prefix: prefix.clone() };
            Ok(Answered::one(Command::DeletePrefix { prefix }, answer))
        }
        DocumentCommand::ForceRevision { id } => {
            let (id, version) = (DocumentId::new(id)?, RevisedVersion::Current);
            Ok(Answered::one(Command::ForceRevision { id, version }, DocumentAnswer::Revised))
        }
    }
}

impl CommandAnswer for DocumentAnswer {
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError> {
        match (self, result) {
            (DocumentAnswer::Stored, Some(CommandResult::Put(stored))) => {
                write_stored(stored, body)
            }
            (DocumentAnswer::Revised, Some(CommandResult::ForcedRevision(stored))) => {
                write_revised(stored.as_ref(), body);
            }
            (DocumentAnswer::Deleted { id }, None) => write_deleted(id.as_deref(), None, body),
            (DocumentAnswer::Deleted { id }, Some(CommandResult::Deleted { deleted, .. })) => {
                write_deleted(id.as_deref(), deleted.as_ref().map(|_| Deleted::Document), body);
            }
            (
                DocumentAnswer::DeletedPrefix { prefix },
                Some(CommandResult::DeletedPrefix { deleted, .. }),
            ) => write_deleted(Some(prefix), (0 < *deleted).then_some(Deleted::Prefix), body),
            (_, result) => return Err(foreign_result(result)),
        }
        Ok(())
    }
}

/// What was deleted: the protocol reports a version only for single documents.
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
