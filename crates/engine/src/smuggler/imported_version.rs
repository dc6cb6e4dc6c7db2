//! Documents and revisions of a dump.

use std::borrow::Cow;

use blittable::{BlittableBuf, Object};
use documents::{ImportedAttachment, ImportedVersion};
use model::{AttachmentName, ContentHash, DocumentFlags, DocumentId, date};

/// What an element of a section of documents is.
pub(super) enum VersionElement {
    /// The head of a content, of which so many bytes follow.
    Content { bytes: u64 },
    /// A document or revision, and its collection.
    Version { version: Box<ImportedVersion>, collection: String },
}

impl VersionElement {
    /// Interprets an element; the reason if it is neither.
    pub(super) fn of(body: BlittableBuf) -> Result<VersionElement, String> {
        let document = body.as_view();
        let root = document.root();
        let damaged = |error: blittable::Corrupt| error.to_string();
        let metadata = root.get_object("@metadata").map_err(damaged)?;
        let Some(metadata) = metadata else {
            return Err("Document does not contain an id.".into());
        };
        let text = |name: &str| text_of(&metadata, name);
        if text("@export-type")?.is_some_and(|kind| kind == "Attachment") {
            let bytes = root.get_i64("Size").map_err(damaged)?;
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            let bytes = bytes.ok_or("An attachment has no size.")?;
            return Ok(VersionElement::Content { bytes });
        }
        let id = match text("@id")? {
            Some(id) if !id.is_empty() => id,
            _ => return Err("Document does not contain an id.".into()),
        };
        let id = DocumentId::new(id.as_ref()).map_err(|error| error.to_string())?;
        let change_vector = text("@change-vector")?.filter(|text| !text.is_empty());
        let change_vector = change_vector
            .map(|text| text.parse().map_err(|_| format!("'{text}' is not a change vector.")));
        let modified = text("@last-modified")?.map(|text| {
            date::parse(&text)
                .map(|date| date.utc_ticks())
                .ok_or(format!("'{text}' is not a date."))
        });
        let flags =
            text("@flags")?.map_or(DocumentFlags::NONE, |text| DocumentFlags::read_text(&text));
        let collection = text("@collection")?.unwrap_or(Cow::Borrowed(model::EMPTY_COLLECTION));
        let (change_vector, modified) = (change_vector.transpose()?, modified.transpose()?);
        let (attachments, collection) = (attachments_of(&metadata)?, collection.into_owned());
        let version = ImportedVersion {
            id,
            change_vector,
            last_modified_ticks: modified,
            flags,
            attachments,
            contents: Vec::new(),
            is_revised: true,
            body,
        };
        Ok(VersionElement::Version { version: Box::new(version), collection })
    }
}

fn text_of<'a>(metadata: &Object<'a>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    metadata.get_str(name).map_err(|error| error.to_string())
}

fn attachments_of(metadata: &Object<'_>) -> Result<Vec<ImportedAttachment>, String> {
    let listed = metadata.get_array("@attachments").map_err(|error| error.to_string())?;
    let Some(listed) = listed else { return Ok(Vec::new()) };
    let mut attachments = Vec::with_capacity(listed.len());
    for item in listed.iter() {
        let item = item.map_err(|error| error.to_string())?;
        let item = item.as_object().ok_or("An attachment in '@attachments' is not an object.")?;
        let text = |name: &str| text_of(&item, name).map(Option::unwrap_or_default);
        let hash =
            ContentHash::parse(&text("Hash")?).ok_or("An attachment has an impossible hash.")?;
        let name = AttachmentName::new(text("Name")?.into_owned());
        let name = name.map_err(|error| error.to_string())?;
        attachments.push(ImportedAttachment {
            name,
            content_type: text("ContentType")?.into(),
            hash,
        });
    }
    Ok(attachments)
}
