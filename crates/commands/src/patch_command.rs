//! Patches as they are asked for, and what became of them.

use std::sync::Arc;

use blittable::{BlittableBuf, BuildError, Item, ObjectBuilder};
use documents::{ExpectedVersion, StoredDocument};
use model::{ChangeVector, DocumentId};
use script::PatchText;

/// Changes a document by the operations of RFC 6902.
const JSON_PATCH: &str = include_str!("json_patch.js");

/// A script and the values that it is given. Shared by all documents that it changes.
#[derive(Clone, Debug)]
pub struct PatchRequest {
    /// The script.
    pub text: PatchText,
    /// What it finds as `args`.
    pub values: Option<BlittableBuf>,
    /// Whether it may take as many steps as it can in its time.
    pub ignores_steps_max: bool,
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct PatchCommand {
    /// The document.
    pub id: DocumentId,
    /// Which version must be there. [`ExpectedVersion::New`] fits none: what is new cannot be changed.
    pub expected: ExpectedVersion,
    /// Whether another version is left alone instead of refused.
    pub skips_other_versions: bool,
    /// How it is changed.
    pub script: Arc<PatchRequest>,
    /// What happens when there is no such document.
    pub when_missing: WhenMissing,
    /// Whether everything is undone at the end.
    pub is_test: bool,
    /// Whether the outcome tells what the script called.
    pub wants_notes: bool,
    /// Whether the outcome has the document.
    pub wants_document: bool,
}

/// What a patch makes of a document that is not there.
#[derive(Clone, Debug)]
pub enum WhenMissing {
    /// Nothing.
    LeaveOut,
    /// This document.
    Create(Arc<BlittableBuf>),
    /// What this script makes of an empty document.
    Run(Arc<PatchRequest>),
}

/// A change of many documents by one script, in their order, until a portion of time is used up. At
/// least one is changed.
#[derive(Clone, Debug)]
pub struct PatchEach {
    /// The documents. Those that are not there are left out.
    pub ids: Vec<DocumentId>,
    /// How they are changed.
    pub script: Arc<PatchRequest>,
    /// Whether the outcome tells of each document.
    pub wants_details: bool,
}

/// How a patch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStatus {
    /// There is no such document.
    DocumentDoesNotExist,
    /// There was none, and now there is one.
    Created,
    /// The document is another one now.
    Patched,
    /// There is another version, which was left alone.
    Skipped,
    /// The script left the document as it was, or deleted it.
    NotModified,
}

/// What became of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOutcome {
    /// The document, in the spelling of the request.
    pub id: DocumentId,
    /// How it ended.
    pub status: PatchStatus,
    /// What was stored, if anything was.
    pub stored: Option<StoredDocument>,
    /// The document as the script left it, when it was asked for.
    pub document: Option<BlittableBuf>,
    /// The document as it was before, of a test.
    pub original: Option<BlittableBuf>,
    /// What the script called, when that was asked for.
    pub notes: Option<Box<PatchNotes>>,
}

/// What a script called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchNotes {
    /// The lines that it put out.
    pub output: Vec<String>,
    /// Ids that it loaded, and whether there were such documents.
    pub loaded: Vec<(String, bool)>,
    /// Ids and documents that it put.
    pub put: Vec<(String, BlittableBuf)>,
    /// Ids that it deleted.
    pub deleted: Vec<String>,
    /// Counters that it looked at, and what they said.
    pub counters_read: Vec<(String, Option<i64>)>,
    /// Counters that it counted.
    pub counters_incremented: Vec<IncrementNote>,
    /// Counters that it deleted.
    pub counters_deleted: Vec<String>,
}

/// A counter that a script counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementNote {
    /// Its name.
    pub name: String,
    /// What it said before; `None` when it was not there.
    pub old_value: Option<i64>,
    /// What the script wanted to add, as text: a number with a fraction.
    pub added: String,
    /// What it said then.
    pub new_value: i64,
}

/// What became of many documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedEach {
    /// How many ids were done, from the first on.
    pub done: usize,
    /// Those of them, when they were asked for.
    pub details: Vec<PatchedOne>,
}

/// What became of one document among many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedOne {
    /// The document.
    pub id: DocumentId,
    /// Its new version, if it has one.
    pub change_vector: Option<ChangeVector>,
    /// How it ended.
    pub status: PatchStatus,
}

impl PatchRequest {
    /// A script as it is sent with its values.
    pub fn new(text: String, values: Option<BlittableBuf>) -> Arc<PatchRequest> {
        let text = PatchText::of(text);
        Arc::new(PatchRequest { text, values, ignores_steps_max: false })
    }

    /// The operations of RFC 6902 in the property `Operations` of `body`, for the document of that id. It
    /// fails for a document that is not there.
    ///
    /// # Errors
    /// A body that is too large.
    pub fn json_patch(
        id: &DocumentId,
        body: &BlittableBuf,
    ) -> Result<Arc<PatchRequest>, BuildError> {
        let mut values = ObjectBuilder::new();
        values.put("Id", id.as_str());
        if let Some(operations) = body.as_view().root().get("Operations")? {
            values.put("Operations", Item::Copy(operations));
        }
        let (text, values) = (PatchText::of(JSON_PATCH), Some(values.finish()?));
        Ok(Arc::new(PatchRequest { text, values, ignores_steps_max: true }))
    }

    /// About how many bytes it takes.
    pub fn size_bytes(&self) -> usize {
        let values = self.values.as_ref().map_or(0, |values| values.as_bytes().len());
        self.text.size_bytes() + values
    }
}

impl PatchCommand {
    /// A change of a document, whichever version is there.
    pub fn new(id: DocumentId, script: Arc<PatchRequest>) -> PatchCommand {
        PatchCommand {
            id,
            expected: ExpectedVersion::Any,
            skips_other_versions: false,
            script,
            when_missing: WhenMissing::LeaveOut,
            is_test: false,
            wants_notes: false,
            wants_document: false,
        }
    }

    /// About how many bytes the command brings to a transaction. Commands that share a script have a part
    /// of it each.
    pub(crate) fn size_bytes(&self) -> usize {
        let script = |script: &Arc<PatchRequest>| script.size_bytes() / Arc::strong_count(script);
        let when_missing = match &self.when_missing {
            WhenMissing::LeaveOut => 0,
            WhenMissing::Create(document) => document.as_bytes().len(),
            WhenMissing::Run(other) => script(other),
        };
        script(&self.script) + when_missing
    }
}

impl PatchStatus {
    /// The protocol's word for it.
    pub fn word(self) -> &'static str {
        match self {
            PatchStatus::DocumentDoesNotExist => "DocumentDoesNotExist",
            PatchStatus::Created => "Created",
            PatchStatus::Patched => "Patched",
            PatchStatus::Skipped => "Skipped",
            PatchStatus::NotModified => "NotModified",
        }
    }
}
