//! The outcome of a patch in the protocol's form.

use blittable::BlittableBuf;
use commands::{PatchNotes, PatchOutcome, PatchStatus};
use documents::{DocumentError, StoredDocument};
use http::StatusCode;
use model::date;

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject, write_texts},
    },
    api_error::ApiError,
};

/// The timestamp of a change that did not happen.
const NEVER: &str = "0001-01-01T00:00:00.0000000";
/// Actions that scripts of this server do not support, and so never performed.
const OTHER_ACTIONS: [&str; 4] =
    ["GetTimeSeries", "AppendTimeSeries", "IncrementTimeSeries", "DeleteTimeSeries"];

/// What a response contains besides the document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Only the outcome of the patch.
    Outcome,
    /// The original document, and what the script called.
    Debug,
    /// The same for a dry run of a query, which stores nothing.
    TriedQuery,
}

/// The response to a patch of one document.
pub(crate) fn patch_answer(outcome: &PatchOutcome, shown: Shown) -> Result<Answer, ApiError> {
    let status = match outcome.status {
        PatchStatus::DocumentDoesNotExist => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
        PatchStatus::Skipped => return Ok(Answer::empty(StatusCode::NOT_MODIFIED)),
        PatchStatus::Created => StatusCode::CREATED,
        PatchStatus::Patched | PatchStatus::NotModified => StatusCode::OK,
    };
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.text("Status", outcome.status.word());
    write_document(object.name("ModifiedDocument"), outcome.document.as_ref())?;
    if shown != Shown::Outcome {
        write_document(object.name("OriginalDocument"), outcome.original.as_ref())?;
        let lines = if shown == Shown::Debug { "Info" } else { "Output" };
        let none = PatchNotes::default();
        let notes = outcome.notes.as_deref().unwrap_or(&none);
        write_notes(object.name("Debug"), lines, notes)?;
    }
    if shown != Shown::TriedQuery && outcome.status != PatchStatus::NotModified {
        let stored = outcome.stored.as_ref();
        write_version(&mut object, stored);
        object.optional_text("Collection", stored.map(|stored| stored.collection.as_str()));
    }
    object.end();
    Ok(Answer::json_with(status, body))
}

/// The source of a patch in a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchedBy {
    Script,
    Operations,
}

/// Appends the result of a patch in a batch.
pub(crate) fn write_batch_result(
    outcome: &PatchOutcome,
    id: &str,
    by: PatchedBy,
    returns_document: bool,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let stored = outcome.stored.as_ref();
    let mut object = JsonObject::begin(body);
    object.text("Id", id);
    let change_vector = stored.map(|stored| stored.change_vector.to_string());
    object.optional_text("ChangeVector", change_vector.as_deref());
    object.text("LastModified", &last_modified(stored));
    object.text("Type", if by == PatchedBy::Script { "PATCH" } else { "JsonPatch" });
    object.text("PatchStatus", outcome.status.word());
    if by == PatchedBy::Script {
        object.optional_text("Debug", None);
    }
    if returns_document {
        write_document(object.name("ModifiedDocument"), outcome.document.as_ref())?;
    }
    object.end();
    Ok(())
}

fn write_version(object: &mut JsonObject<'_>, stored: Option<&StoredDocument>) {
    object.text("LastModified", &last_modified(stored));
    let change_vector = stored.map(|stored| stored.change_vector.to_string());
    object.optional_text("ChangeVector", change_vector.as_deref());
}

fn last_modified(stored: Option<&StoredDocument>) -> String {
    stored.map_or_else(|| NEVER.to_owned(), |stored| date::format(stored.last_modified_ticks))
}

fn write_document(out: &mut Vec<u8>, document: Option<&BlittableBuf>) -> Result<(), ApiError> {
    match document {
        Some(document) => {
            // Its text has about as many bytes: a doubling buffer would take twice that.
            out.reserve(document.as_bytes().len());
            let root = blittable::Value::Object(document.as_view().root());
            blittable::write_json(&root, out)
                .map_err(|error| ApiError::from(DocumentError::from(error)))?;
        }
        None => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn write_notes(out: &mut Vec<u8>, lines: &'static str, notes: &PatchNotes) -> Result<(), ApiError> {
    let mut debug = JsonObject::begin(out);
    write_texts(&notes.output, debug.name(lines));
    let mut actions = JsonObject::begin(debug.name("Actions"));
    let mut loaded = JsonArray::begin(actions.name("LoadDocument"));
    for (id, exists) in &notes.loaded {
        let mut document = JsonObject::begin(loaded.element());
        document.text("Id", id);
        document.flag("Exists", *exists);
        document.end();
    }
    loaded.end();
    let mut put = JsonArray::begin(actions.name("PutDocument"));
    for (id, body) in &notes.put {
        let mut document = JsonObject::begin(put.element());
        document.text("Id", id);
        write_document(document.name("Data"), Some(body))?;
        document.end();
    }
    put.end();
    write_texts(&notes.deleted, actions.name("DeleteDocument"));
    write_counter_notes(&mut actions, notes);
    for name in OTHER_ACTIONS {
        actions.name(name).extend_from_slice(b"[]");
    }
    actions.end();
    debug.end();
    Ok(())
}

fn write_counter_notes(actions: &mut JsonObject<'_>, notes: &PatchNotes) {
    let mut read = JsonArray::begin(actions.name("GetCounter"));
    for (name, value) in &notes.counters_read {
        let mut counter = JsonObject::begin(read.element());
        counter.text("Name", name);
        counter.text("Value", &value.map_or_else(|| "null".to_owned(), |value| value.to_string()));
        counter.flag("Exists", value.is_some());
        counter.end();
    }
    read.end();
    let mut incremented = JsonArray::begin(actions.name("IncrementCounter"));
    for note in &notes.counters_incremented {
        let mut counter = JsonObject::begin(incremented.element());
        counter.text("Name", &note.name);
        let old_value = counter.name("OldValue");
        match note.old_value {
            Some(value) => old_value.extend_from_slice(value.to_string().as_bytes()),
            None => old_value.extend_from_slice(b"null"),
        }
        counter.number("AddedValue", &note.added);
        counter.number("NewValue", note.new_value);
        counter.flag("Created", note.old_value.is_none());
        counter.end();
    }
    incremented.end();
    write_texts(&notes.counters_deleted, actions.name("DeleteCounter"));
}
