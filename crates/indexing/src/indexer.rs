//! One turn of an index: reads the document log where it stopped, maps, and commits entries, progress
//! and errors in one transaction. A reduce may commit some of its keys before that, see `reduce/stage.rs`.
//!
//! When a document or compare exchange value that maps have read changes, whatever read it is
//! mapped again. Values come first in a batch, so that the maps after them see the newest. Items of
//! several collections are mapped in the order of their etags, so that entries are in the order in
//! which the items were last written, however often the thread was interrupted.

use std::{sync::Arc, time::Duration};

use model::Etag;
use search::{FieldSet, IndexBatch};
use storage::{ReadTransaction, StorageError, WriteTransaction};

use crate::{
    batch_log::{BatchEnd, BatchFacts, IndexedBatch},
    batch_memory::{BUFFERS_KEPT_BYTES, BatchMemory, IndexingMemory},
    batch_outcome::{BatchOutcome, is_too_often_wrong},
    begun_batch,
    error::IndexError,
    index_core::IndexCore,
    index_event::IndexEvent,
    index_record::{self, IndexRecord, IndexingAction},
    known_keys::known_keys,
    known_tombstones,
    map_again::{Changed, Resume},
    map_context::MapContext,
    map_lanes::{Gathering, LANES_MAX, MapLanes, PIECE_BYTES_MAX, PIECE_CHANGES_MAX, Piece},
    mapped::Mapped,
    mapper::{Follows, MapError},
    output::{self, SweepPlace},
    output_room::{ALLOWED_BYTES, too_many_outputs},
    ownership::{SeenPoints, Sources},
    reduce::{MappedRows, ReduceStage, Reducing, Staged},
    references::{self, LookedAt},
    segment_key::KeyRange,
    source::{SourceChange, SourceChanges, SourceItem},
};

/// A batch ends after this time, so that other indexes get their turn.
const BATCH_TIME_MAX: Duration = Duration::from_secs(2);
/// When this many changes are pending, idle threads help to map them.
const LANES_LAG_MIN: u64 = 1024;
/// The memory of a helping thread: its pieces, and the output of the maps.
const LANE_BYTES: u64 = 8 << 20;
/// The number of deleted keys that are read at once.
const KEYS_TAKEN: usize = 1024;

/// An item whose large output does not fit in a batch of its own, tried this often, gets an error instead.
const UNFIT_TRIES_MAX: u32 = 3;

/// What is known of an item that was mapped, if the batch fails.
#[derive(Clone, Copy, Default)]
struct LastMapped {
    at: Etag,
    output_bytes: u64,
    /// The changes of the batch up to it.
    changes: usize,
}

/// See the module.
pub(crate) struct Indexer {
    pub(crate) core: Arc<IndexCore>,
    fields: FieldSet,
    batch: IndexBatch,
    /// Rows for the reduce, if the index has one.
    stage: ReduceStage,
    mapped: Mapped,
    /// The item that was mapped last.
    last: LastMapped,
    /// The item whose output did not fit, as often as that.
    unfit: (Etag, u32),
    memory: BatchMemory,
    lanes_max: usize,
    /// Whether no batch of this process has ended yet, so that the next one is marked.
    marks_batches: bool,
    /// Whether maps read other documents, or values.
    has_references: bool,
    /// The maximum size of the buffers during this batch.
    buffer_bytes_max: usize,
    /// Where to continue when one change affects more documents than fit in a batch.
    pub(crate) resume: Option<Resume>,
    sweep: Option<SweepPlace>,
}

impl Indexer {
    pub(crate) fn new(core: Arc<IndexCore>, fields: FieldSet, memory: &IndexingMemory) -> Self {
        let looks_at = core.mapper.looks_at();
        let has_references = looks_at != Follows::Collections(&[]) || core.mapper.reads_values();
        let (batch, stage) = Default::default();
        let mapped = Mapped::within(|| memory.output_room());
        let (resume, sweep) = (None, None);
        let lanes_max = memory.lanes_max(LANE_BYTES).min(LANES_MAX);
        let memory = BatchMemory::of(memory);
        let marks_batches = memory.is_bounded();
        Self {
            core,
            fields,
            batch,
            stage,
            mapped,
            last: LastMapped::default(),
            unfit: (Etag(0), 0),
            memory,
            lanes_max,
            marks_batches,
            has_references,
            buffer_bytes_max: 0,
            resume,
            sweep,
        }
    }

    /// Indexes one batch, or writes the outputs of the previous one; up to `spare_threads` threads
    /// may help. `false` when everything that was pending at its beginning is indexed and written.
    pub(crate) fn index_batch(&mut self, spare_threads: usize) -> Result<bool, IndexError> {
        // A later change of this flag enqueues the index again.
        let has_pending_output = self.core.has_pending_output();
        if has_pending_output && self.settle()? {
            return Ok(true);
        }
        let lag = self.core.take_lag();
        let documents = self.core.documents.read();
        let before = self.core.record();
        let values = self.core.read_values();
        let known = known_tombstones::known_up_to(&before, self.core.began_at);
        if known_tombstones::are_missed(&self.core.followed, &documents, known)? {
            return Err(IndexError::DeletionsMissed);
        }
        let last = self.core.last_position_in(&documents, values.as_ref())?;
        if before.has_reached(last) {
            self.core.mapper.make_ready();
            return if has_pending_output { self.sweep(&documents) } else { Ok(false) };
        }
        let started_ticks = self.core.now_ticks();
        let context = MapContext { documents: &documents, values: values.as_ref() };
        let all = last.etag.max(self.core.began_at);
        let Some(mut outcome) = self.gather_and_write(context, before, all, spare_threads)? else {
            return Ok(true);
        };
        // Threads that wait for this batch find it reported.
        self.core.fan_out().merge(std::mem::take(&mut outcome.fan_out));
        let (after, end) = (outcome.record, outcome.end);
        let reduced = after.reduce_attempts - before.reduce_attempts;
        self.core.batch_log().add(BatchFacts {
            number: 0,
            started_ticks,
            lag,
            times: outcome.times,
            mapped: after.map_attempts - before.map_attempts,
            failed: after.map_errors - before.map_errors,
            outputs: outcome.outputs,
            reduced,
            reduces_failed: after.reduce_errors - before.reduce_errors,
            pages: outcome.pages,
            end,
        });
        let has_reduce = self.core.mapper.reducer().is_some();
        let outputs = outcome.outputs;
        self.core.notify(IndexEvent::Indexed(IndexedBatch { has_reduce, outputs, reduced }));
        self.core.advance(after, outcome.has_pending_output);
        self.core.report_batch(&before, &after);
        Ok(end.has_more() || self.core.has_pending_output())
    }

    /// Maps a batch and commits it; `None` when there was not enough memory, and the next batch is
    /// smaller. When nothing is left after it, everything up to `all` is indexed.
    fn gather_and_write(
        &mut self,
        context: MapContext<'_>,
        before: IndexRecord,
        all: Etag,
        spare_threads: usize,
    ) -> Result<Option<BatchOutcome>, IndexError> {
        let (began, resume) = (self.now(), self.resume.clone());
        let sources =
            Sources { documents: &self.core.documents, values: self.core.values.as_ref() };
        let seen = sources.points_of(context.documents, context.values)?;
        if self.marks_batches {
            begun_batch::begin(&self.core.environment)?;
        }
        self.memory.begin();
        let gathered = self.gather(context, before, spare_threads);
        let mut changes = self.last.changes;
        let written = gathered.and_then(|mut outcome| {
            if !outcome.end.has_more() {
                // The last change may have left nothing in the logs, or nothing that an index
                // created later needs.
                outcome.record.last_etag = outcome.record.last_etag.max(all.0);
            }
            outcome.times.map = self.now().saturating_sub(began);
            changes = outcome.changes;
            self.write(&mut outcome, &seen).map(|()| outcome)
        });
        let is_at_rest = written.as_ref().is_ok_and(|outcome| !outcome.end.has_more());
        self.release_buffers(is_at_rest);
        match written {
            Ok(outcome) => {
                self.marks_batches = false;
                Ok(Some(outcome))
            }
            Err(error) => {
                if self.marks_batches {
                    // If the mark stays, the index at worst starts paused after the next failure.
                    let _is_gone = begun_batch::end(&self.core.environment).is_ok();
                }
                // The in-memory state of this batch was not committed.
                self.resume = resume;
                self.fields = FieldSet::load(&self.core.environment.read())?;
                let comes_again = error.is_short_of_memory() && self.memory.halve(changes);
                if error.is_short_of_memory() && !comes_again {
                    self.note_unfit();
                }
                if comes_again { Ok(None) } else { Err(error) }
            }
        }
    }

    /// A batch of one change did not fit. If that is due to what was mapped, and not to what others hold, it is
    /// not tried without end.
    fn note_unfit(&mut self) {
        if ALLOWED_BYTES < self.last.output_bytes && self.memory.is_half_free() {
            let tries = if self.unfit.0 == self.last.at { self.unfit.1 } else { 0 };
            self.unfit = (self.last.at, tries + 1);
        }
    }

    /// Releases large buffers, since many indexes wait for their turns. An index at rest keeps
    /// none.
    fn release_buffers(&mut self, is_at_rest: bool) {
        self.memory.end();
        if is_at_rest || BUFFERS_KEPT_BYTES < self.buffer_bytes_max {
            (self.batch, self.stage) = Default::default();
            self.mapped = Mapped::within(|| self.memory.output_room());
        }
        self.buffer_bytes_max = 0;
        if self.memory.is_release_due() {
            self.core.platform.memory.release_unused();
        }
    }

    fn now(&self) -> Duration {
        self.core.platform.clock.monotonic()
    }

    /// Writes some of the pending outputs; `false` when none are pending.
    fn settle(&self) -> Result<bool, IndexError> {
        let Some(target) = &self.core.target else { return Ok(false) };
        let core = &self.core;
        output::settle(&core.environment, target, core.outputs.as_ref(), core.now_ticks())
    }

    /// Deletes some unknown outputs when nothing else is pending; `false` when there are none.
    fn sweep(&mut self, documents: &ReadTransaction) -> Result<bool, IndexError> {
        let core = &self.core;
        let queue = core.outputs.as_ref();
        let has_more = output::sweep(&core.environment, documents, queue, &mut self.sweep)?;
        if !has_more {
            core.clear_pending_output();
        }
        Ok(has_more)
    }

    /// Maps changes after the record's etag into the batch.
    fn gather(
        &mut self,
        context: MapContext<'_>,
        before: IndexRecord,
        spare_threads: usize,
    ) -> Result<BatchOutcome, IndexError> {
        self.batch.clear();
        self.stage.clear();
        self.last = LastMapped::default();
        let mut outcome = BatchOutcome::after(before);
        let core = Arc::clone(&self.core);
        let is_closing = || core.is_closing();
        let ends = self.now() + BATCH_TIME_MAX;
        let mut changes = core.followed.changes_after(context.documents, Etag(before.last_etag))?;
        let lanes = self.lanes_for(context.documents, before, spare_threads)?;
        if !self.take_values(context, &mut outcome, ends)? {
            // The documents follow in the next batch.
        } else if lanes == 0 {
            while let Some(change) = changes.next().transpose()? {
                if !self.take(&change, context, &mut outcome)? || self.ends(&mut outcome, ends) {
                    break;
                }
            }
        } else {
            MapLanes::run(lanes, &*core.mapper, context, &is_closing, |gathering| {
                self.gather_pieces(gathering, &mut changes, context, &mut outcome, ends)
            })?;
        }
        outcome.record.last_indexing_ticks = core.now_ticks();
        Ok(outcome)
    }

    /// The number of threads that help to map. References must be known before the next change is
    /// read, so maps that read other documents run on one thread.
    fn lanes_for(
        &self,
        documents: &ReadTransaction,
        before: IndexRecord,
        spare_threads: usize,
    ) -> Result<usize, IndexError> {
        if spare_threads == 0 || self.has_references {
            return Ok(0);
        }
        let after = Etag(before.last_etag);
        let lag = self.core.followed.behind(documents, after, LANES_LAG_MIN)?;
        Ok(if lag < LANES_LAG_MIN { 0 } else { spare_threads.min(self.lanes_max) })
    }

    /// Adds pieces of the log to the batch while the lanes map them.
    fn gather_pieces<'t>(
        &mut self,
        gathering: &mut Gathering<'_, 't>,
        changes: &mut SourceChanges<'t>,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
        ends: Duration,
    ) -> Result<(), IndexError> {
        let mut fields = Arc::new(self.fields.clone());
        loop {
            if fields.defined_count() != self.fields.defined_count() {
                fields = Arc::new(self.fields.clone());
            }
            while gathering.has_room() {
                let mut piece = gathering.piece();
                fill(changes, &mut piece.changes)?;
                if piece.changes.is_empty() {
                    break;
                }
                gathering.cut(piece, &fields);
            }
            let Some(mut piece) = gathering.next() else { return Ok(()) };
            if !self.take_piece(&mut piece, context, outcome, ends)? {
                return Ok(());
            }
            gathering.recycle(piece);
        }
    }

    /// Adds the changes of a piece to the batch; `false` when one of them ends the batch.
    fn take_piece(
        &mut self,
        piece: &mut Piece<'_>,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
        ends: Duration,
    ) -> Result<bool, IndexError> {
        for (at, change) in piece.changes.iter().enumerate() {
            match change {
                SourceChange::There(item) if piece.is_mapped => {
                    outcome.changes += 1;
                    self.put(item, &mut piece.mapped[at], outcome)?;
                    outcome.advance_to(item.etag())?;
                }
                change => {
                    self.take(change, context, outcome)?;
                }
            }
            if self.ends(outcome, ends) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the batch ends here although changes may remain.
    pub(crate) fn ends(&mut self, outcome: &mut BatchOutcome, ends: Duration) -> bool {
        outcome.end = match self.limit_of(outcome) {
            Some(limit) => limit,
            None if ends <= self.now() => BatchEnd::Time,
            None if self.core.is_closing() => BatchEnd::Closing,
            None => return false,
        };
        true
    }

    /// The limit that the batch has reached, if any.
    pub(crate) fn limit_of(&mut self, outcome: &BatchOutcome) -> Option<BatchEnd> {
        let bytes = self.batch.memory_bytes() + self.stage.memory_bytes() + outcome.memory_bytes();
        self.buffer_bytes_max = self.buffer_bytes_max.max(bytes);
        if self.memory.changes_max() <= outcome.changes {
            return Some(BatchEnd::Changes);
        }
        (!self.memory.has_room(bytes)).then_some(BatchEnd::Memory)
    }

    /// Adds one change to the batch, if it is one of a mapped item. `false` when the batch is full
    /// before the change is complete: the next one begins with it.
    fn take(
        &mut self,
        change: &SourceChange<'_>,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
    ) -> Result<bool, IndexError> {
        outcome.changes += 1;
        match change {
            SourceChange::There(item) => {
                if self.is_mapped(item)? {
                    self.map(item, context, outcome)?;
                }
            }
            SourceChange::Gone { key, .. } => self.forget(key, outcome)?,
            SourceChange::AllGone { keys, .. } => {
                let mut keys = keys.clone();
                while self.forget_some(&mut keys, outcome)? {
                    // The next batch does not find these any more.
                    if let Some(limit) = self.limit_of(outcome) {
                        outcome.end = limit;
                        return Ok(false);
                    }
                }
            }
            SourceChange::LookedAt { .. } => {}
        }
        let changed = change.document_id().filter(|_| self.has_references);
        let (kind, at) = (LookedAt::Documents, change.etag().0);
        let changed = changed.map(|id| Changed { kind, at, name: id.to_owned() });
        if let Some(changed) = changed
            && !self.map_again(&changed, context, outcome)?
        {
            outcome.end = self.limit_of(outcome).unwrap_or(BatchEnd::Changes);
            return Ok(false);
        }
        outcome.advance_to(change.etag())?;
        Ok(true)
    }

    /// Removes everything that the index has of a key.
    fn forget(&mut self, key: &str, outcome: &mut BatchOutcome) -> Result<(), IndexError> {
        match self.core.mapper.reducer() {
            Some(_) => self.stage.put(key, &mut MappedRows::default()),
            None => self.batch.delete(key)?,
        }
        if self.has_references {
            outcome.forget(key);
        }
        Ok(())
    }

    /// Removes some of these keys and advances the range past them; `false` when there are no more.
    /// Keys that were put in this batch are skipped.
    fn forget_some(
        &mut self,
        keys: &mut KeyRange,
        outcome: &mut BatchOutcome,
    ) -> Result<bool, IndexError> {
        let entries = self.core.environment.read();
        let known = known_keys(&entries, &*self.core.mapper, keys, KEYS_TAKEN)?;
        for key in known.iter().filter(|key| keys.contains(key)) {
            self.forget(key, outcome)?;
        }
        outcome.changes += known.len();
        Ok(match known.into_iter().next_back() {
            Some(last) => {
                keys.after = last;
                true
            }
            None => false,
        })
    }

    pub(crate) fn is_mapped(&self, item: &SourceItem<'_>) -> Result<bool, IndexError> {
        let Some(document) = item.document() else { return Ok(true) };
        if !self.has_references || self.core.mapper.collections().is_empty() {
            return Ok(true);
        }
        let collection = document.collection()?;
        let mapped = self.core.mapper.collections().iter();
        Ok(mapped.into_iter().any(|name| name.as_str().eq_ignore_ascii_case(&collection)))
    }

    pub(crate) fn map(
        &mut self,
        item: &SourceItem<'_>,
        context: MapContext<'_>,
        outcome: &mut BatchOutcome,
    ) -> Result<(), IndexError> {
        let mut mapped = std::mem::take(&mut self.mapped);
        if !self.is_unfit(item) {
            mapped.map(&*self.core.mapper, &mut self.fields, item, context);
        }
        let put = self.put(item, &mut mapped, outcome);
        mapped.end();
        self.mapped = mapped;
        put
    }

    /// Whether the output of the maps for an item did not fit so often that it gets an error instead.
    fn is_unfit(&self, item: &SourceItem<'_>) -> bool {
        self.unfit.0 == item.etag() && UNFIT_TRIES_MAX <= self.unfit.1
    }

    /// Adds the output of the maps for an item to the batch.
    fn put(
        &mut self,
        item: &SourceItem<'_>,
        mapped: &mut Mapped,
        outcome: &mut BatchOutcome,
    ) -> Result<(), IndexError> {
        outcome.record.map_attempts += 1;
        if self.is_unfit(item) {
            let refusal = too_many_outputs(self.memory.output_bytes_max());
            mapped.refuse(refusal.on(&item.name()));
        }
        let (at, changes) = (item.etag(), outcome.changes);
        self.last = LastMapped { at, output_bytes: mapped.bytes(), changes };
        if let Some(mut keys) = item.replaces() {
            // At most as many as the item has entries.
            while self.forget_some(&mut keys, outcome)? {}
        }
        let key = item.key();
        if self.has_references {
            let (key, at) = (key.clone().into_owned(), mapped.take_references());
            outcome.note_looked(key, at);
        }
        match mapped.take_error() {
            None => {}
            Some(MapError::Index(error)) => return Err(error),
            Some(MapError::Document { message }) => {
                outcome.record.map_errors += 1;
                outcome.note(self.core.now_ticks(), &item.name(), message);
            }
        }
        outcome.note_outputs(&item.name(), mapped.len(), &self.core);
        if ALLOWED_BYTES < mapped.bytes() {
            let gathered = self.batch.memory_bytes() + self.stage.memory_bytes();
            let bytes = usize::try_from(mapped.bytes()).unwrap_or(usize::MAX);
            self.memory.hold(gathered.saturating_add(bytes)).map_err(StorageError::from)?;
        }
        match self.core.mapper.reducer() {
            Some(_) => self.stage.put(&key, mapped.rows()),
            None => self.batch.put(&key, mapped.entries())?,
        }
        Ok(())
    }

    /// Turns rows into results and entries, in several transactions if one would be too large;
    /// returns the last one.
    fn reduce(
        &mut self,
        tx: WriteTransaction,
        outcome: &mut BatchOutcome,
        seen: &SeenPoints,
    ) -> Result<WriteTransaction, IndexError> {
        let Some(reducer) = self.core.mapper.reducer() else { return Ok(tx) };
        let is_closing = || self.core.is_closing();
        let target = self.core.target.as_ref();
        let reducing = Reducing { reducer, target, is_closing: &is_closing };
        let (core, pages) = (&self.core, &mut outcome.pages);
        let end_part = &mut |mut part: WriteTransaction| {
            // The index now has data of them, even if the batch is not completed.
            seen.write(&mut part)?;
            *pages += part.dirty_pages() as u64;
            part.commit()?;
            Ok(core.environment.write()?)
        };
        let (fields, batch) = (&mut self.fields, &mut self.batch);
        let staged = Staged { tx, fields, batch, end_part };
        let (tx, reduced) = self.stage.apply(&reducing, staged, &mut self.memory)?;
        outcome.record.reduce_attempts += reduced.attempts;
        outcome.record.reduce_errors += reduced.errors;
        outcome.has_pending_output = reduced.has_pending_output;
        let ticks = self.core.now_ticks();
        for (key, message) in reduced.failures {
            outcome.note_failure(IndexingAction::Reduce, ticks, &key, message);
        }
        Ok(tx)
    }

    fn write(&mut self, outcome: &mut BatchOutcome, seen: &SeenPoints) -> Result<(), IndexError> {
        let tx = self.core.environment.write()?;
        let began = self.now();
        let mut tx = self.reduce(tx, outcome, seen)?;
        let reduced = self.now();
        outcome.record.has_failed = is_too_often_wrong(&outcome.record, outcome.end.has_more());
        self.batch.apply(&mut tx, &mut self.fields)?;
        let (applied, parted_bytes) = (self.now(), tx.held_bytes());
        for looked in &mut outcome.looked {
            references::replace(&mut tx, looked)?;
        }
        let noted = self.now();
        for error in &outcome.errors {
            index_record::add_error(&mut tx, error)?;
        }
        index_record::write_record(&mut tx, &outcome.record)?;
        seen.write(&mut tx)?;
        if self.marks_batches {
            begun_batch::end_in(&mut tx)?;
        }
        outcome.pages += tx.dirty_pages() as u64;
        match self.core.mapper.reducer() {
            Some(_) => {
                let whole_bytes = tx.held_bytes().saturating_sub(parted_bytes);
                self.memory.was_written_in_parts(outcome.changes, tx.held_bytes(), whole_bytes);
            }
            None => self.memory.was_written(outcome.changes, tx.held_bytes()),
        }
        tx.commit()?;
        let times = &mut outcome.times;
        times.reduce = reduced.saturating_sub(began);
        times.entries = applied.saturating_sub(reduced);
        times.references = noted.saturating_sub(applied);
        times.commit = self.now().saturating_sub(noted);
        Ok(())
    }
}

/// Appends as many changes as fit in a piece.
fn fill<'t>(
    changes: &mut SourceChanges<'t>,
    piece: &mut Vec<SourceChange<'t>>,
) -> Result<(), IndexError> {
    let mut bytes = 0;
    while piece.len() < PIECE_CHANGES_MAX && bytes < PIECE_BYTES_MAX {
        let Some(change) = changes.next().transpose()? else { break };
        if let SourceChange::There(item) = &change {
            bytes += item.size_bytes();
        }
        piece.push(change);
    }
    Ok(())
}
