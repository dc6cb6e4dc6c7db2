//! Requests for patches, and their results.

use std::sync::Arc;

use blittable::{BlittableBuf, BuildError, Item, ObjectBuilder};
use documents::{ExpectedVersion, StoredDocument};
use model::{ChangeVector, DocumentId};
use script::PatchText;

/// Changes a document by the operations of RFC 6902.
const JSON_PATCH: &str = include_str!("json_patch.js");

/// A script and its arguments. Shared by all documents that it changes.
#[derive(Clone, Debug)]
pub struct PatchRequest {
    /// The text of the script.
    pub text: PatchText,
    /// The value of `args` in the script.
    pub values: Option<BlittableBuf>,
    /// Whether only its time is limited, not its steps.
    pub ignores_steps_max: bool,
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct PatchCommand {
    /// The id of the document to change.
    pub id: DocumentId,
    /// The version that must exist. [`ExpectedVersion::New`] never matches: a new document cannot
    /// be patched.
    pub expected: ExpectedVersion,
    /// Whether a different version is skipped instead of refused.
    pub skips_other_versions: bool,
    /// How it is changed.
    pub script: Arc<PatchRequest>,
    /// What happens when there is no such document.
    pub when_missing: WhenMissing,
    /// Whether everything is rolled back at the end.
    pub is_test: bool,
    /// Whether the outcome includes the script's calls.
    pub wants_notes: bool,
    /// Whether the outcome includes the document.
    pub wants_document: bool,
}

/// What a patch does with a missing document.
#[derive(Clone, Debug)]
pub enum WhenMissing {
    /// Nothing.
    LeaveOut,
    /// This document.
    Create(Arc<BlittableBuf>),
    /// Run this script on an empty document.
    Run(Arc<PatchRequest>),
}

/// A change of many documents by one script, in their order, until a portion of time is used up. At
/// least one is changed.
#[derive(Clone, Debug)]
pub struct PatchEach {
    /// The documents. Missing ones are skipped.
    pub ids: Vec<DocumentId>,
    /// How they are changed.
    pub script: Arc<PatchRequest>,
    /// Whether the outcome includes each document.
    pub wants_details: bool,
}

/// How a patch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStatus {
    /// There is no such document.
    DocumentDoesNotExist,
    /// The document did not exist and was created.
    Created,
    /// The document was changed.
    Patched,
    /// The document has a different version, which was skipped.
    Skipped,
    /// The script did not change the document, or deleted it.
    NotModified,
}

/// The result for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchOutcome {
    /// The document, in the spelling of the request.
    pub id: DocumentId,
    /// Whether the document was created, changed, unchanged, skipped or missing.
    pub status: PatchStatus,
    /// What was stored, if anything was.
    pub stored: Option<StoredDocument>,
    /// The document after the script, when requested.
    pub document: Option<BlittableBuf>,
    /// For a test: the document before the script.
    pub original: Option<BlittableBuf>,
    /// The calls of the script, when requested.
    pub notes: Option<Box<PatchNotes>>,
}

/// The calls of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchNotes {
    /// The lines that it printed.
    pub output: Vec<String>,
    /// Ids that it loaded, and whether the documents existed.
    pub loaded: Vec<(String, bool)>,
    /// Ids and documents that it put.
    pub put: Vec<(String, BlittableBuf)>,
    /// Ids that it deleted.
    pub deleted: Vec<String>,
    /// Counters that it read, and their values.
    pub counters_read: Vec<(String, Option<i64>)>,
    /// Counters that it incremented.
    pub counters_incremented: Vec<IncrementNote>,
    /// Counters that it deleted.
    pub counters_deleted: Vec<String>,
}

/// A counter that a script incremented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementNote {
    /// The name of the counter, as the script passed it.
    pub name: String,
    /// The value before; `None` when it did not exist.
    pub old_value: Option<i64>,
    /// The increment passed by the script, as text: a number with a fraction.
    pub added: String,
    /// The value after the increment.
    pub new_value: i64,
}

/// The result for many documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedEach {
    /// The number of ids processed, starting with the first.
    pub done: usize,
    /// The results of each of them, when requested.
    pub details: Vec<PatchedOne>,
}

/// The result for one document among many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedOne {
    /// The id of the document.
    pub id: DocumentId,
    /// Its new version, if it has one.
    pub change_vector: Option<ChangeVector>,
    /// Whether the document was created, changed, unchanged, skipped or missing.
    pub status: PatchStatus,
}

impl PatchRequest {
    /// A script with its arguments.
    pub fn new(text: String, values: Option<BlittableBuf>) -> Arc<PatchRequest> {
        let text = PatchText::of(text);
        Arc::new(PatchRequest { text, values, ignores_steps_max: false })
    }

    /// The operations of RFC 6902 in the property `Operations` of `body`, for the document of that
    /// id. It fails for a missing document.
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

    /// Its approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        let values = self.values.as_ref().map_or(0, |values| values.as_bytes().len());
        self.text.size_bytes() + values
    }
}

impl PatchCommand {
    /// A change of a document, whatever its version.
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

    /// Approximate bytes that the command adds to a transaction. Commands that share a script split
    /// its size.
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
