//! Documents of a file of rows, CSV or JSON lines: each has its row, or its line, in messages.
//!
//! A document without an id is numbered in its collection, as one that a client puts under `Orders/`.
//!
//! JSON lines are those that `/streams/docs` or `/streams/queries` sent, or what another tool wrote: one document a line.
//! In the lines of a query, the first one has statistics, and each of the others a document in `Item`.

use blittable::{BlittableBuf, Builder, Edit, Item, Object, Value, modify, write_json};
use documents::Import;
use model::{DocumentId, EMPTY_COLLECTION};
use smuggler::Section;
use wire::smuggler_result::SmugglerPart;

use super::{
    import::{Current, DumpImport, ImportNext},
    imported_version::VersionElement,
};
use crate::content_upload::StagedContents;

const METADATA: &str = "@metadata";
const ID: &str = "@id";
const COLLECTION: &str = "@collection";
/// The property of lines of a query.
const STATISTICS: &str = "Stats";
const ITEM: &str = "Item";
/// The property of the last line of an export that failed.
const FAILURE: &str = "Error";

/// What is known of the file.
#[derive(Debug)]
pub(super) struct Rows {
    /// What a row is called.
    word: &'static str,
    /// The collection of documents that name none.
    collection: Option<String>,
    has_begun: bool,
    /// Whether documents are inside of `Item`.
    are_items: bool,
}

impl DumpImport {
    /// A file of rows begins, each called by that word in messages. Documents that name no collection belong to
    /// `collection`.
    pub fn begin_rows(&mut self, word: &'static str, collection: Option<String>) {
        self.name(Section::Documents.name());
        self.rows = Some(Rows { word, collection, has_begun: false, are_items: false });
    }

    /// A document, in JSON, of the row with that number.
    pub fn row(&mut self, text: &[u8], number: u64, builder: &mut Builder) {
        if let Err(reason) = self.take_row(text, builder) {
            self.count_row();
            self.refuse_row(number, reason.trim_end_matches('.'));
        }
    }

    /// A row that cannot be used.
    pub fn unreadable_row(&mut self, number: u64, reason: &str) {
        self.count_row();
        self.refuse_row(number, reason);
    }

    fn count_row(&mut self) {
        self.progress.count(SmugglerPart::Documents);
    }

    fn refuse_row(&mut self, number: u64, reason: &str) {
        let word = self.rows.as_ref().map_or("Row", |rows| rows.word);
        let text = format!("{word} {number} could not be imported: {reason}.");
        self.refuse(SmugglerPart::Documents, &text);
    }

    /// The file is complete.
    pub fn end_rows(&mut self) {
        self.rows = None;
        // Documents leave no task behind.
        drop::<ImportNext>(self.section_end());
    }

    fn take_row(&mut self, text: &[u8], builder: &mut Builder) -> Result<(), String> {
        let (Some(current), Some(rows)) = (self.section, &mut self.rows) else { return Ok(()) };
        let mut body = builder.parse_document(text).map_err(|error| error.to_string())?;
        let is_first = !std::mem::replace(&mut rows.has_begun, true);
        if is_first && has_only(&body, STATISTICS) {
            rows.are_items = true;
            return Ok(());
        }
        if rows.are_items {
            body = item_of(&body, builder)?;
        } else if rows.collection.is_none()
            && let Some(failure) = failure_of(&body)
        {
            return Err(failure);
        }
        if let Some(collection) = &rows.collection {
            body = with_collection(body, collection)?;
        }
        match id_of(&body)? {
            Some(id) if id.ends_with(self.id_separator) => self.take_new(current, body, id),
            Some(_) => self.take_document(current, body),
            None => {
                let name = collection_of(&body)?.ok_or("it has neither an id nor a collection")?;
                let prefix = format!("{name}{}", self.id_separator);
                self.take_new(current, body, prefix)
            }
        }
    }

    fn take_document(&mut self, current: Current, body: BlittableBuf) -> Result<(), String> {
        let VersionElement::Version { version, collection } = VersionElement::of(body)? else {
            return Err("it is the content of an attachment".to_owned());
        };
        if version.id.as_str().ends_with('|') {
            let id = &version.id;
            return Err(format!("an id ends with '|', which asks for a number: '{id}'"));
        }
        self.count_row();
        self.add_version(current, version, collection, false).map(drop)
    }

    /// A document whose id is to be completed.
    fn take_new(
        &mut self,
        current: Current,
        body: BlittableBuf,
        prefix: String,
    ) -> Result<(), String> {
        let collection = collection_of(&body)?.unwrap_or_else(|| EMPTY_COLLECTION.to_owned());
        let prefix = DocumentId::new(prefix).map_err(|error| error.to_string())?;
        self.count_row();
        if !current.is_included || !self.options.includes_collection(&collection) {
            self.progress.counts(current.part).skipped += 1;
            return Ok(());
        }
        let Some(body) = self.transformed_new(&prefix, body)? else {
            self.progress.counts(current.part).skipped += 1;
            return Ok(());
        };
        let import = Import::NewDocument { prefix, body };
        self.batches.add(super::import::import_of(import), StagedContents::default());
        Ok(())
    }
}

fn has_only(body: &BlittableBuf, name: &str) -> bool {
    let document = body.as_view();
    let mut names = document.root().iter().filter_map(Result::ok).map(|(name, _)| name);
    names.next() == Some(name) && names.next().is_none()
}

/// What an export that failed wrote into its last line.
fn failure_of(body: &BlittableBuf) -> Option<String> {
    let document = body.as_view();
    let text = document.root().get_str(FAILURE).ok().flatten()?;
    let failure = format!("the file is not complete, because the export of it failed: {text}");
    has_only(body, FAILURE).then_some(failure)
}

/// The document in a line of a query.
fn item_of(body: &BlittableBuf, builder: &mut Builder) -> Result<BlittableBuf, String> {
    if let Some(failure) = failure_of(body) {
        return Err(failure);
    }
    let document = body.as_view();
    let item = document.root().get_object(ITEM).map_err(|error| error.to_string())?;
    let item = item.ok_or("'Item' is missing, which the first line announces")?;
    let mut json = Vec::new();
    write_json(&Value::Object(item), &mut json).map_err(|error| error.to_string())?;
    builder.parse_document(&json).map_err(|error| error.to_string())
}

fn metadata_of<'b>(body: &'b BlittableBuf) -> Result<Option<Object<'b>>, String> {
    body.as_view().root().get_object(METADATA).map_err(|error| error.to_string())
}

fn text_of(body: &BlittableBuf, name: &str) -> Result<Option<String>, String> {
    let Some(metadata) = metadata_of(body)? else { return Ok(None) };
    let text = metadata.get_str(name).map_err(|error| error.to_string())?;
    Ok(text.filter(|text| !text.is_empty()).map(|text| text.into_owned()))
}

fn id_of(body: &BlittableBuf) -> Result<Option<String>, String> {
    text_of(body, ID)
}

fn collection_of(body: &BlittableBuf) -> Result<Option<String>, String> {
    text_of(body, COLLECTION)
}

fn with_collection(body: BlittableBuf, collection: &str) -> Result<BlittableBuf, String> {
    if collection_of(&body)?.is_some() {
        return Ok(body);
    }
    let path = &[METADATA, COLLECTION];
    let edit = Edit::Set { path, item: Item::String(collection) };
    modify(&body.as_view(), &[edit]).map_err(|error| error.to_string())
}
