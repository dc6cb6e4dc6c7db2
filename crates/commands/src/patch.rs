//! Runs patches: scripts that change documents inside the transaction of their batch.
//!
//! A script sees the document, and any others it loads, as the commands before it left them. Its
//! result is stored unless nothing has changed. Time is bounded for one script and for all scripts
//! of a batch, because all other writes wait meanwhile.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use blittable::{BlittableBuf, Document, ObjectBuilder, Value};
use documents::{DocumentError, DocumentWriter, ExpectedVersion, RequestedId, StoredDocument};
use model::DocumentId;
use platform::Clock;
use script::{
    Budget, DocumentInfo, Engine, Exhausted, MEMORY_BYTES_MAX_DEFAULT, RESULT_BYTES_MAX_DEFAULT,
    STEPS_MAX_DEFAULT, ScriptDocument,
};
use storage::{MemoryBudget, MemoryShare, StorageError};

use crate::{
    command::HeldResults,
    error::CommandError,
    patch_command::{
        PatchCommand, PatchEach, PatchNotes, PatchOutcome, PatchRequest, PatchStatus, PatchedEach,
        PatchedOne, WhenMissing,
    },
    patch_error::{PatchError, script_failed},
    patch_host::PatchHost,
    patch_scripts::PatchScripts,
};

/// Time limit of one script.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(2);
/// Time limit of all scripts of a batch.
const BATCH_TIME_MAX: Duration = Duration::from_secs(10);
/// After this time a patch of many documents yields to other writes.
const PORTION_TIME: Duration = Duration::from_millis(100);
/// The same, after this many bytes were stored.
const PORTION_BYTES: usize = 16 << 20;

/// Between batches a thread keeps this part of the memory that its scripts may use: there are more threads than
/// batches with scripts at the same time.
const KEPT_PART: usize = 16;
/// Results of a batch up to this many bytes are never refused for lack of memory.
const RESULTS_ALLOWED_BYTES: u64 = 256 << 10;

/// The bounds of the scripts of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchLimits {
    /// Steps of one script; see [`Budget`].
    pub steps_max: u64,
    /// Bytes of memory that the scripts of one thread may use.
    pub memory_bytes_max: usize,
    /// The approximate maximum size of a script's document as JSON, in bytes.
    pub result_bytes_max: u64,
}

impl Default for PatchLimits {
    fn default() -> Self {
        PatchLimits {
            steps_max: STEPS_MAX_DEFAULT,
            memory_bytes_max: MEMORY_BYTES_MAX_DEFAULT,
            result_bytes_max: RESULT_BYTES_MAX_DEFAULT,
        }
    }
}

/// Runs patches, for all batches of a thread.
pub struct Patcher {
    clock: Arc<dyn Clock>,
    limits: PatchLimits,
    engine: Engine,
    scripts: PatchScripts,
    /// The deadline of the batch's scripts.
    deadline: Duration,
    values: SharedValues,
    /// Accounts for the results of the batch.
    results: MemoryShare,
    /// The values and the budget while it serves no queue.
    idle: (SharedValues, Arc<MemoryBudget>),
}

/// Reads a value of compare exchange by its key.
pub type ValueReader = dyn Fn(&str) -> Result<Option<BlittableBuf>, String> + Send + Sync;

/// The reader of compare exchange, once set.
pub(crate) type SharedValues = Arc<OnceLock<Arc<ValueReader>>>;

/// A document and its body after the script.
struct Changed {
    /// `None` when the script changed nothing.
    body: Option<BlittableBuf>,
    notes: Option<Box<PatchNotes>>,
    put_bytes: usize,
}

/// The patcher of a thread that serves many queues, one after another. It is made for the first
/// queue that needs it.
#[derive(Default)]
pub(crate) struct ThreadPatcher {
    patcher: Option<Patcher>,
}

impl ThreadPatcher {
    /// The patcher for a queue with these limits, values and budget.
    pub(crate) fn serving(
        &mut self,
        clock: &Arc<dyn Clock>,
        limits: PatchLimits,
        values: &SharedValues,
        budget: &Arc<MemoryBudget>,
    ) -> &mut Patcher {
        let kept = self.patcher.take().filter(|patcher| patcher.is_for(clock, limits));
        let made = || Patcher::new(Arc::clone(clock), limits);
        let patcher = self.patcher.insert(kept.unwrap_or_else(made));
        patcher.serve(values, budget);
        patcher
    }

    /// Drops what was kept for a queue: its reader of values, its budget, the request of its last batch.
    pub(crate) fn release(&mut self) {
        if let Some(patcher) = &mut self.patcher {
            let (values, budget) = patcher.idle.clone();
            patcher.serve(&values, &budget);
            patcher.scripts.end_batch();
        }
    }

    /// Drops the patcher with its engine and compiled scripts.
    pub(crate) fn forget(&mut self) {
        self.patcher = None;
    }
}

impl Patcher {
    fn is_for(&self, clock: &Arc<dyn Clock>, limits: PatchLimits) -> bool {
        self.limits == limits && Arc::ptr_eq(&self.clock, clock)
    }

    /// Creates a patcher; its engine is created by the first patch.
    pub fn new(clock: Arc<dyn Clock>, limits: PatchLimits) -> Patcher {
        let engine = Engine::with_memory(Arc::clone(&clock), limits.memory_bytes_max);
        let scripts = PatchScripts::default();
        let (values, budget) = (SharedValues::default(), MemoryBudget::unlimited());
        let results = budget.share(0);
        let (deadline, idle) = (Duration::MAX, (Arc::clone(&values), budget));
        Patcher { clock, limits, engine, scripts, deadline, values, results, idle }
    }

    /// From now on, scripts read compare exchange by this reader, and results draw from this budget.
    fn serve(&mut self, values: &SharedValues, budget: &Arc<MemoryBudget>) {
        if Arc::ptr_eq(&self.values, values) && Arc::ptr_eq(self.results.budget(), budget) {
            return;
        }
        self.values = Arc::clone(values);
        self.results = budget.share(RESULTS_ALLOWED_BYTES);
    }

    /// Replaces the engine, which may have stopped midway.
    pub(crate) fn renew(&mut self) {
        let values = Arc::clone(&self.values);
        let results = self.results.budget().share(RESULTS_ALLOWED_BYTES);
        let renewed = Patcher::new(Arc::clone(&self.clock), self.limits);
        *self = Patcher { values, results, ..renewed };
    }

    pub(crate) fn begin_batch(&mut self) {
        self.results.shrink_to(0);
        self.scripts.end_batch();
        self.deadline = self.clock.monotonic().saturating_add(BATCH_TIME_MAX);
    }

    /// Frees what the scripts of a batch have left behind.
    pub(crate) fn end_scripts(&mut self) {
        self.engine.shrink_to(self.limits.memory_bytes_max / KEPT_PART);
    }

    /// Changes one document.
    pub(crate) fn patch(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchCommand,
    ) -> Result<PatchOutcome, CommandError> {
        let results_bytes = self.results.bytes();
        let patched = self.patch_read(writer, patch);
        if !keeps_results(patch) {
            self.results.shrink_to(results_bytes);
            return patched;
        }
        let patched = patched?;
        let documents = [&patched.document, &patched.original].into_iter().flatten();
        let bytes: usize = documents.map(|document| document.as_bytes().len()).sum();
        let held = self.results.try_grow_to(self.results.bytes().saturating_add(bytes as u64));
        held.map_err(|error| CommandError::Document(StorageError::from(error).into()))?;
        Ok(patched)
    }

    /// Takes the accounting of the finished batch's results.
    pub(crate) fn take_results(&mut self) -> HeldResults {
        let next = self.results.budget().share(RESULTS_ALLOWED_BYTES);
        HeldResults::new(std::mem::replace(&mut self.results, next))
    }

    fn patch_read(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchCommand,
    ) -> Result<PatchOutcome, CommandError> {
        let before = self.read(writer, &patch.id)?;
        if let Some(expected) = patch.expected.as_text() {
            let actual = before.as_ref().map(|(_, info)| &*info.change_vector);
            if expected.is_empty() || actual != Some(expected) {
                if patch.skips_other_versions {
                    return Ok(outcome(patch, PatchStatus::Skipped));
                }
                return Err(other_version(&patch.id, expected, actual).into());
            }
        }
        match before {
            Some((body, info)) => self.patch_existing(writer, patch, body, info),
            None => self.patch_missing(writer, patch),
        }
    }

    fn patch_existing(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchCommand,
        body: BlittableBuf,
        info: DocumentInfo,
    ) -> Result<PatchOutcome, CommandError> {
        let original = patch.is_test.then(|| body.clone());
        // The document keeps the spelling of its id.
        let id = DocumentId::new(&*info.id).map_err(DocumentError::from)?;
        let version = ExpectedVersion::Exactly((&*info.change_vector).into());
        let before = ScriptDocument::new(body, info);
        let changed = self.run(writer, &patch.script, &patch.id, &before, patch.wants_notes)?;
        let (body, stored) = store_result(writer, (&id, &version), before, changed.body)?;
        Ok(PatchOutcome {
            status: match stored {
                Some(_) => PatchStatus::Patched,
                None => PatchStatus::NotModified,
            },
            stored,
            document: patch.wants_document.then_some(body),
            original,
            notes: changed.notes,
            ..outcome(patch, PatchStatus::NotModified)
        })
    }

    fn patch_missing(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchCommand,
    ) -> Result<PatchOutcome, CommandError> {
        let changed = match &patch.when_missing {
            WhenMissing::LeaveOut => return Ok(outcome(patch, PatchStatus::DocumentDoesNotExist)),
            WhenMissing::Create(body) => {
                Changed { body: Some((**body).clone()), notes: None, put_bytes: 0 }
            }
            WhenMissing::Run(script) => {
                let empty = ScriptDocument::unstored(empty_document()?);
                self.run(writer, script, &patch.id, &empty, patch.wants_notes)?
            }
        };
        let body = match changed.body {
            Some(body) => body,
            None => empty_document()?,
        };
        let (status, stored) = if writer.get(&patch.id)?.is_some() {
            // The script put this very document.
            match writer.replace(&patch.id, &body)? {
                Some(stored) => (PatchStatus::Patched, Some(stored)),
                None => (PatchStatus::NotModified, None),
            }
        } else {
            let id = RequestedId::Exactly(patch.id.clone());
            let stored = writer.put(&id, &ExpectedVersion::Any, &body)?;
            // A document created only in a test run has no version to report.
            (PatchStatus::Created, (!patch.is_test).then_some(stored))
        };
        Ok(PatchOutcome {
            stored,
            document: patch.wants_document.then_some(body),
            notes: changed.notes,
            ..outcome(patch, status)
        })
    }

    /// Changes documents until the portion is used up.
    pub(crate) fn patch_each(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchEach,
    ) -> Result<PatchedEach, CommandError> {
        let until = self.clock.monotonic().saturating_add(PORTION_TIME);
        let (mut done, mut bytes, mut details) = (0, 0, Vec::new());
        for id in &patch.ids {
            let (one, stored_bytes) = self.patch_one(writer, patch, id)?;
            done += 1;
            bytes += stored_bytes;
            if patch.wants_details {
                details.push(one);
            }
            if PORTION_BYTES <= bytes || until <= self.clock.monotonic() {
                break;
            }
        }
        Ok(PatchedEach { done, details })
    }

    /// Patches one document of many; also returns how many bytes were stored.
    fn patch_one(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        patch: &PatchEach,
        id: &DocumentId,
    ) -> Result<(PatchedOne, usize), CommandError> {
        let results_bytes = self.results.bytes();
        let Some((body, info)) = self.read(writer, id)? else {
            let status = PatchStatus::DocumentDoesNotExist;
            return Ok((PatchedOne { id: id.clone(), change_vector: None, status }, 0));
        };
        let stored_id = DocumentId::new(&*info.id).map_err(DocumentError::from)?;
        let version = ExpectedVersion::Exactly((&*info.change_vector).into());
        let before = ScriptDocument::new(body, info);
        let changed = self.run(writer, &patch.script, id, &before, false)?;
        let (body, stored) = store_result(writer, (&stored_id, &version), before, changed.body)?;
        self.results.shrink_to(results_bytes);
        let bytes = changed.put_bytes + stored.as_ref().map_or(0, |_| body.as_bytes().len());
        let (change_vector, status) = match stored {
            Some(stored) => (Some(stored.change_vector), PatchStatus::Patched),
            None => (None, PatchStatus::NotModified),
        };
        Ok((PatchedOne { id: id.clone(), change_vector, status }, bytes))
    }

    /// A document, whose copy is counted among the results of the batch.
    fn read(
        &mut self,
        writer: &DocumentWriter<'_>,
        id: &DocumentId,
    ) -> Result<Option<(BlittableBuf, DocumentInfo)>, CommandError> {
        let row = writer.get(id)?;
        if row.is_none() {
            writer.require_no_conflict(id)?;
        }
        row.map(|row| {
            let held = self.results.bytes().saturating_add(row.body_bytes() as u64);
            let held = self.results.try_grow_to(held).map_err(StorageError::from);
            held.map_err(|error| CommandError::Document(error.into()))?;
            let info = DocumentInfo {
                id: row.id().into(),
                change_vector: row.change_vector().into(),
                last_modified_ticks: row.last_modified_ticks(),
            };
            Ok((row.body()?.to_buf(), info))
        })
        .transpose()
    }

    /// Runs the script over a document.
    fn run(
        &mut self,
        writer: &mut DocumentWriter<'_>,
        request: &Arc<PatchRequest>,
        id: &DocumentId,
        document: &ScriptDocument,
        wants_notes: bool,
    ) -> Result<Changed, CommandError> {
        let budget = self.budget(request)?;
        let failed = |error| script_failed(error, id.as_str());
        let prepared = self.scripts.prepare(&self.engine, request).map_err(failed)?;
        let values = self.values.get().map(|values| &**values);
        let mut host = PatchHost::new(writer, wants_notes, values, &mut self.results);
        let args = prepared.values.as_ref();
        let outcome = prepared.script.run(&self.engine, document, args, budget, &mut host);
        // A failed call fails the patch, even when the script caught the error.
        let calls = host.finish()?;
        let patched = outcome.map_err(failed)?;
        let notes = calls.notes.map(Box::new);
        Ok(Changed { body: patched.document, notes, put_bytes: calls.put_bytes })
    }

    fn budget(&self, request: &PatchRequest) -> Result<Budget, PatchError> {
        let left = self.deadline.saturating_sub(self.clock.monotonic());
        if left.is_zero() {
            let millis = u64::try_from(BATCH_TIME_MAX.as_millis()).unwrap_or(u64::MAX);
            return Err(PatchError::Exhausted(Exhausted::Time(millis)));
        }
        let steps_max = if request.ignores_steps_max { u64::MAX } else { self.limits.steps_max };
        let time_max = left.min(SCRIPT_TIME_MAX);
        Ok(Budget { steps_max, time_max, result_bytes_max: self.limits.result_bytes_max })
    }
}

/// Stores the document as changed by a script, and returns it along with how it was stored; nothing
/// is stored when nothing has changed. The script may itself have put this document, so the
/// comparison is with its current version. A document that was both changed and deleted is
/// rejected, as is any change of a version that no longer exists.
fn store_result(
    writer: &mut DocumentWriter<'_>,
    (id, version): (&DocumentId, &ExpectedVersion),
    before: ScriptDocument,
    made: Option<BlittableBuf>,
) -> Result<(BlittableBuf, Option<StoredDocument>), CommandError> {
    let original = before.document();
    // Comparing takes time: `replace` does it for a document that still exists.
    let changes_deleted = match &made {
        Some(made) if writer.get(id)?.is_none() => !equal_roots(&original, &made.as_view())?,
        Some(_) | None => false,
    };
    let body = made.unwrap_or_else(|| original.to_buf());
    // It may be large, and storing the result needs memory.
    drop(before);
    let stored = match changes_deleted {
        // This is refused: the version no longer exists.
        true => Some(writer.put(&RequestedId::Exactly(id.clone()), version, &body)?),
        false => writer.replace(id, &body)?,
    };
    Ok((body, stored))
}

fn equal_roots(one: &Document<'_>, other: &Document<'_>) -> Result<bool, CommandError> {
    let roots = (Value::Object(one.root()), Value::Object(other.root()));
    Ok(blittable::equal(&roots.0, &roots.1).map_err(DocumentError::from)?)
}

/// Whether the outcome includes the resulting document.
fn keeps_results(patch: &PatchCommand) -> bool {
    patch.wants_notes || patch.wants_document
}

fn outcome(patch: &PatchCommand, status: PatchStatus) -> PatchOutcome {
    let id = patch.id.clone();
    PatchOutcome { id, status, stored: None, document: None, original: None, notes: None }
}

fn empty_document() -> Result<BlittableBuf, CommandError> {
    Ok(ObjectBuilder::new().finish().map_err(DocumentError::from)?)
}

fn other_version(id: &DocumentId, expected: &str, actual: Option<&str>) -> DocumentError {
    DocumentError::Concurrency {
        id: Some(id.to_string()),
        expected: Some(expected.to_owned()),
        actual: actual.map(str::to_owned),
        message: format!(
            "Could not patch document '{id}' because non current change vector was used"
        ),
    }
}
