//! One index: its environment, its turns, its progress, and its waiters.
//!
//! Invariant: every snapshot taken after [`Index::progress`] contains the entries up to it.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use cluster_state::{ValueSource, ValueWatch};
use documents::DocumentError;
use model::{CollectionName, DocumentId, Etag, IndexDefinition, IndexState};
use platform::Platform;
use script::ScriptPool;
use search::{FieldSet, SpatialLayout};
use storage::{Environment, EnvironmentOptions, ReadTransaction, Transaction};

use crate::{
    batch_log::{BatchFacts, BatchRates, BatchTotals},
    begun_batch,
    definition_format::DefinitionFormat,
    error::IndexError,
    fan_out::{FanOut, OUTPUTS_NOTED_DEFAULT, outputs_noted},
    index_change::IndexChange,
    index_core::{IndexCore, Names, Progress, Stage},
    index_event::{OnEvent, WaitReply},
    index_files::{self, IndexFiles},
    index_kind::{IndexKind, mapper_of, shown_auto_definition},
    index_record::{self, IndexRecord, IndexingAction, IndexingError},
    index_work::IndexWork,
    indexer::Indexer,
    indexing_pool::{IndexingPool, Worker},
    mapper::{MapError, Mapper},
    output::{self, Flow, OutputQueue, OutputTarget, Sweep},
    position::Position,
    reduce::{ReduceTree, documents_with_rows, trees_of},
    source::{Followed, SourceKind},
    static_definition::REPLACEMENT_PREFIX,
    static_fields::static_field_options,
};

/// Further waiters are answered at once, as if they had timed out.
const WAITERS_MAX: usize = 10_000;

/// The storage of an index and its sources.
pub struct IndexContext {
    /// Disk, time and randomness.
    pub platform: Platform,
    /// The environment of the documents that it follows.
    pub documents: Arc<Environment>,
    /// Compare exchange, if available.
    pub values: Option<ValueSource>,
    /// The directory of its files, and their storage limits.
    pub environment: EnvironmentOptions,
    /// Runs maps in JavaScript.
    pub scripts: ScriptPool,
    /// The threads that index.
    pub pool: IndexingPool,
    /// Writes results as documents.
    pub outputs: Arc<dyn OutputQueue>,
    /// How its definition is stored in its files.
    pub definition_format: DefinitionFormat,
}

/// An index. Dropping it closes it.
pub struct Index {
    pub(crate) core: Arc<IndexCore>,
    work: Arc<IndexWork>,
    pool: IndexingPool,
    /// Notifies it when values change that it may read.
    _values: Option<ValueWatch>,
}

/// The parts of a new index.
pub(crate) struct IndexParts {
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    pub(crate) files: IndexFiles,
    pub(crate) on_event: OnEvent,
    /// The maximum number of items of each collection, if it indexes only the oldest ones.
    pub(crate) items_max: Option<usize>,
}

impl Index {
    /// Opens or creates the files of an index, and enqueues it. Files of another definition are
    /// emptied first.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when nothing can be indexed that way; others when the files cannot
    /// be opened.
    pub fn open(name: &str, kind: IndexKind, context: IndexContext) -> Result<Self, IndexError> {
        let mapper = mapper_of(&kind, &context.scripts)?;
        let (platform, options) = (&context.platform, context.environment.clone());
        let documents = context.documents.read();
        let (format, mapped) = (context.definition_format, (&kind, mapper.as_ref()));
        let files = IndexFiles::open_for(platform, options, format, mapped, &documents)?;
        drop(documents);
        let on_event: OnEvent = Box::new(|_, _| ());
        let parts = IndexParts { name: name.to_owned(), kind, files, on_event, items_max: None };
        let index = Self::start(parts, mapper, context)?;
        index.notice_changes();
        Ok(index)
    }

    /// An index on open files that belong to its definition. It does nothing until it is notified
    /// of changes.
    pub(crate) fn start(
        parts: IndexParts,
        mapper: Box<dyn Mapper>,
        context: IndexContext,
    ) -> Result<Self, IndexError> {
        let IndexParts { name, kind, files, on_event, items_max } = parts;
        let kind = kind.with_outputs_of(files.owner.as_ref());
        let target = kind.output_target()?;
        let writes_outputs = target.is_some() && !files.is_replacement;
        let has_pending_output =
            writes_outputs && output::is_anything_open(&files.environment.read())?;
        let is_disabled = kind.is_disabled();
        let now_ticks = context.platform.clock.now().ticks();
        let is_paused = begun_batch::starts_paused(&files.environment, now_ticks)?;
        let last_query_ticks = match &kind {
            // A new index is about to be queried.
            IndexKind::Auto(_) => match files.last_query_ticks {
                0 => context.platform.clock.now().ticks(),
                known => known,
            },
            IndexKind::Static(_) => 0,
        };
        let outputs_noted = match &kind {
            IndexKind::Auto(_) => OUTPUTS_NOTED_DEFAULT,
            IndexKind::Static(definition) => outputs_noted(definition),
        };
        let mut followed = Followed::by(mapper.as_ref());
        if let Some(items_max) = items_max {
            followed = followed.limited_to(items_max, &context.documents.read())?;
        }
        let core = Arc::new(IndexCore {
            names: Names {
                as_replacement: format!("{REPLACEMENT_PREFIX}{name}"),
                own: name,
                is_replacement: AtomicBool::new(files.is_replacement),
            },
            kind: RwLock::new(Arc::new(kind)),
            followed,
            began_at: files.began_at,
            mapper,
            target,
            outputs: context.outputs,
            writes_outputs: AtomicBool::new(writes_outputs),
            platform: context.platform,
            documents: context.documents,
            values: context.values,
            environment: files.environment,
            progress: Mutex::new(Progress {
                record: files.record,
                has_pending_output,
                may_have_changes: true,
                changes_since: None,
                stage: Stage::Out,
                has_caught_up: false,
                is_paused,
                is_disabled,
                is_disabled_by_setting: false,
                is_closing: false,
                failure: None,
                rests_for_memory: 0,
                rests_for_readers: 0,
                is_broken: false,
                // An existing index reports nothing about its past.
                reports_completion: files.is_new,
                waiters: Vec::new(),
            }),
            changed: Condvar::new(),
            last_query_ticks: AtomicI64::new(last_query_ticks),
            is_idle: AtomicBool::new(false),
            batches: Mutex::default(),
            outputs_noted,
            fan_out: Mutex::default(),
            is_silent: Mutex::new(false),
            on_event,
        });
        let fields = FieldSet::load(&core.environment.read())?;
        let indexer = Indexer::new(Arc::clone(&core), fields, context.pool.memory());
        let work = IndexWork::new(indexer, Arc::clone(&core));
        let (work, pool) = (Arc::new(work), context.pool);
        let watch = watch_values(&core, &work, &pool);
        Ok(Self { core, work, pool, _values: watch })
    }

    /// Its name; with [`REPLACEMENT_PREFIX`] until it replaces another index.
    pub fn name(&self) -> &str {
        self.core.names.current()
    }

    /// The name in its definition.
    pub(crate) fn own_name(&self) -> &str {
        &self.core.names.own
    }

    /// Whether it is to replace the index of the same name.
    pub fn is_replacement(&self) -> bool {
        self.core.names.is_replacement.load(Ordering::Acquire)
    }

    /// Completes the replacement: records it durably in its files, then takes the definition's
    /// name. It deletes what `old` wrote.
    pub(crate) fn end_replacement(&self, old: Option<&Self>) -> Result<(), IndexError> {
        let sweeps = match (&self.core.target, old) {
            (Some(own), Some(old)) => own.also_where_it_refers(old.sweeps_before(own.number())?),
            (Some(_) | None, _) => Vec::new(),
        };
        index_files::end_replacement(&self.core.environment, &sweeps)?;
        // Stale from now on, although nothing is written before `begin_outputs`.
        self.change(|progress| progress.has_pending_output = self.core.target.is_some());
        self.core.names.is_replacement.store(false, Ordering::Release);
        Ok(())
    }

    /// The sweeps that delete all its outputs, including pending ones, except those recorded by the
    /// index of this number.
    pub(crate) fn sweeps_before(&self, number: u64) -> Result<Vec<Sweep>, IndexError> {
        let Some(target) = &self.core.target else { return Ok(Vec::new()) };
        let asked = output::sweeps(&self.read())?.into_iter().map(|(_, sweep)| sweep);
        let own = target.sweep_before(number);
        Ok(asked.map(|sweep| Sweep { number, ..sweep }).chain([own]).collect())
    }

    /// The sweeps to run when it is rebuilt.
    pub(crate) fn sweeps_before_reset(&self) -> Result<Vec<Sweep>, IndexError> {
        match &self.core.target {
            Some(target) if !self.is_replacement() => self.sweeps_before(target.number()),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Starts writing outputs; the previous index has written its last.
    pub(crate) fn begin_outputs(&self) {
        if self.core.target.is_some() {
            self.core.writes_outputs.store(true, Ordering::Release);
            self.change(|progress| progress.may_have_changes = true);
        }
    }

    /// The collections that it reads and writes.
    pub(crate) fn flow(&self) -> Flow {
        Flow::of(self.own_name(), self.core.mapper.as_ref(), self.core.target.as_ref())
    }

    /// The collection of its outputs.
    pub(crate) fn output_collection(&self) -> Option<&CollectionName> {
        self.core.target.as_ref().map(OutputTarget::collection)
    }

    /// Its current definition.
    pub fn kind(&self) -> Arc<IndexKind> {
        Arc::clone(&self.core.kind.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adopts a definition with the same entries: another lock, priority or state. `false`, and no
    /// change, when the entries would differ.
    pub(crate) fn adopt_definition(&self, kind: &IndexKind) -> bool {
        let own = self.kind();
        if !own.has_the_same_entries_as(kind) {
            return false;
        }
        self.set_kind(kind.clone().with_output_number_of(&own));
        true
    }

    /// Adopts what does not affect entries: lock, priority and state.
    pub(crate) fn adopt_settings(&self, kind: &IndexKind) {
        if let (IndexKind::Static(own), IndexKind::Static(other)) = (self.kind().as_ref(), kind) {
            let mut taken = own.clone();
            taken.lock_mode = other.lock_mode;
            taken.priority = other.priority;
            taken.state = other.state;
            self.set_kind(IndexKind::Static(taken));
        }
    }

    fn set_kind(&self, kind: IndexKind) {
        let (before, after) = (self.kind(), Arc::new(kind));
        *self.core.kind.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        let changes = before.changes_to(&after);
        changes.iter().for_each(|change| self.core.report(*change));
        let is_disabled = after.is_disabled();
        self.change(|progress| {
            let is_configured = !changes.is_empty() || progress.is_disabled != is_disabled;
            progress.is_disabled = is_disabled;
            progress.look_again_if(is_configured);
        });
    }

    /// Changes what decides whether the index has work, and enqueues it if it has.
    fn change(&self, change: impl FnOnce(&mut Progress)) {
        if self.core.must_enqueue_after(change) {
            self.pool.enqueue(Arc::clone(&self.work) as Arc<dyn Worker>);
        }
    }

    /// The collections that it maps; empty for all documents.
    pub fn collections(&self) -> &[CollectionName] {
        self.core.mapper.collections()
    }

    /// Whether a change in one of the collections may change its entries, because it maps or reads
    /// it.
    pub fn follows(&self, collections: &[CollectionName]) -> bool {
        let followed = self.core.followed.collections();
        followed.is_empty() || followed.iter().any(|name| collections.contains(name))
    }

    /// The record in a snapshot of its entries.
    ///
    /// # Errors
    ///
    /// When its files cannot be read.
    pub fn record_in(&self, entries: &impl Transaction) -> Result<IndexRecord, IndexError> {
        index_record::read_record(entries)
    }

    /// The stored trees of the reduce keys in which these documents have rows; empty without a
    /// reduce.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn reduce_trees(&self, documents: &[DocumentId]) -> Result<Vec<ReduceTree>, MapError> {
        let Some(reducer) = self.core.mapper.reducer() else { return Ok(Vec::new()) };
        trees_of(&self.read(), reducer, documents)
    }

    /// The lower-cased ids of the documents that have rows, in order.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn reduced_documents(
        &self,
        prefix: &str,
        skip: usize,
        take: usize,
    ) -> Result<Vec<String>, IndexError> {
        documents_with_rows(&self.read(), prefix, skip, take)
    }

    /// The kind of items that it maps.
    pub fn source_kind(&self) -> SourceKind {
        self.core.mapper.source_kind()
    }

    /// Whether queries return its entries, and not the documents that they were made from.
    pub fn shows_results(&self) -> bool {
        self.has_reduce() || self.source_kind() != SourceKind::Documents
    }

    /// Whether its entries are results of a reduce.
    pub fn has_reduce(&self) -> bool {
        self.core.mapper.reducer().is_some()
    }

    /// The names of its fields that are known without a document.
    pub fn fields(&self) -> Vec<String> {
        self.core.mapper.fields()
    }

    /// Whether documents may create further fields.
    pub fn has_created_fields(&self) -> bool {
        self.core.mapper.has_created_fields()
    }

    /// A snapshot of its entries.
    pub fn read(&self) -> ReadTransaction {
        self.core.environment.read()
    }

    /// The environment of its entries.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.core.environment
    }

    /// Its progress and statistics.
    pub fn record(&self) -> IndexRecord {
        self.core.lock().record
    }

    /// Whether it is a trial that skips some items.
    pub fn skips_items(&self) -> bool {
        self.core.followed.leaves_out()
    }

    /// Every change up to this etag is in its entries.
    pub fn progress(&self) -> Etag {
        Etag(self.record().last_etag)
    }

    /// The etag of the last change that it follows, in the snapshot `documents`.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn last_etag_in(&self, documents: &impl Transaction) -> Result<Etag, DocumentError> {
        self.core.last_etag_in(documents)
    }

    /// Whether changes in the snapshot `documents` are missing in its entries, or in the documents
    /// that it writes.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn is_stale(&self, documents: &impl Transaction) -> Result<bool, IndexError> {
        Ok(!self.has_reached(self.last_position_in(documents)?))
    }

    /// The position that it has to reach: that of the snapshot `documents`, and of compare exchange
    /// now.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn last_position_in(&self, documents: &impl Transaction) -> Result<Position, IndexError> {
        self.core.last_position_in(documents, self.core.read_values().as_ref())
    }

    /// Whether its maps read compare exchange values.
    pub fn reads_values(&self) -> bool {
        self.core.mapper.reads_values()
    }

    /// Whether every change up to the position is in its entries, and in the documents that it
    /// writes.
    pub fn has_reached(&self, position: impl Into<Position>) -> bool {
        self.core.lock().has_reached(position.into())
    }

    /// Calls `reply` as soon as every change up to `position` is in its entries, and in the
    /// documents that it writes, which may be at once.
    pub fn when_indexed(&self, position: impl Into<Position>, reply: WaitReply) {
        let position = position.into();
        let mut progress = self.core.lock();
        let reached = progress.has_reached(position);
        let is_over = progress.is_over() || WAITERS_MAX <= progress.waiters.len();
        if !reached && !is_over {
            progress.waiters.push((position, reply));
            return;
        }
        drop(progress);
        reply(reached);
    }

    /// Its last batches since it was opened, oldest first.
    pub fn batches(&self) -> Vec<BatchFacts> {
        self.core.batch_log().batches()
    }

    /// The totals of all batches since it was opened.
    pub fn batch_totals(&self) -> BatchTotals {
        self.core.batch_log().totals()
    }

    /// Its recent rates per second.
    pub fn rates(&self) -> BatchRates {
        self.core.batch_log().rates(self.core.now_ticks())
    }

    /// Documents with very many outputs since it was opened, if any.
    pub fn fan_out(&self) -> Option<FanOut> {
        Some(self.core.fan_out().clone()).filter(|found| 0 < found.documents)
    }

    /// Its errors, oldest first. Why it stopped, or is waiting to retry, is the last one: it is not
    /// stored, because its files may be what failed.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn errors(&self) -> Result<Vec<IndexingError>, IndexError> {
        let mut errors = index_record::errors(&self.read())?;
        let failure = self.core.lock().failure.clone();
        errors.extend(failure.map(|failure| IndexingError {
            ticks: failure.ticks,
            action: IndexingAction::Write,
            document: String::new(),
            message: failure.error.to_string(),
        }));
        Ok(errors)
    }

    /// The number of errors.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn error_count(&self) -> Result<u64, IndexError> {
        let stored = index_record::error_count(&self.read())?;
        Ok(stored + u64::from(self.core.lock().failure.is_some()))
    }

    /// Deletes its stored errors; what stops it remains.
    ///
    /// # Errors
    ///
    /// Storage errors.
    pub fn clear_errors(&self) -> Result<(), IndexError> {
        let mut tx = self.core.environment.write()?;
        index_record::clear_errors(&mut tx)?;
        Ok(tx.commit()?)
    }

    /// Stops following the documents until [`Index::resume`].
    pub fn pause(&self) {
        let mut was_paused = false;
        self.change(|progress| was_paused = std::mem::replace(&mut progress.is_paused, true));
        if !was_paused {
            self.core.report(IndexChange::Paused);
        }
    }

    /// Follows the documents again.
    pub fn resume(&self) {
        self.change(|progress| {
            let was_paused = std::mem::replace(&mut progress.is_paused, false);
            progress.look_again_if(was_paused);
        });
    }

    /// Stops following the documents, because of a setting of the database.
    pub(crate) fn disable_by_setting(&self) {
        self.change(|progress| progress.is_disabled_by_setting = true);
    }

    /// Whether it was paused.
    pub fn is_paused(&self) -> bool {
        self.core.lock().is_paused
    }

    /// In which state it is.
    pub fn state(&self) -> IndexState {
        let progress = self.core.lock();
        if progress.record.has_failed || progress.failure.is_some() {
            IndexState::Error
        } else if progress.is_disabled || progress.is_disabled_by_setting {
            IndexState::Disabled
        } else if self.core.is_idle.load(Ordering::Relaxed) {
            IndexState::Idle
        } else {
            IndexState::Normal
        }
    }

    /// Why it stopped or is waiting to retry; `None` while it works, or when only documents failed.
    pub fn failure(&self) -> Option<Arc<IndexError>> {
        self.core.lock().failure.as_ref().map(|failure| Arc::clone(&failure.error))
    }

    /// Whether it stopped until it is opened again.
    pub(crate) fn is_broken(&self) -> bool {
        self.core.lock().is_broken
    }

    /// Whether a batch since it was opened has indexed everything that was pending at its
    /// beginning.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.core.lock().has_caught_up
    }

    /// Whether it is closed or closing.
    pub(crate) fn is_closed(&self) -> bool {
        self.core.is_closing()
    }

    /// Transfers its waiters to another index.
    pub(crate) fn transfer_waiters_to(&self, successor: &Self) {
        let waiters = std::mem::take(&mut self.core.lock().waiters);
        waiters.into_iter().for_each(|(position, reply)| successor.when_indexed(position, reply));
    }

    /// When it was last queried, in ticks; 0 is never.
    pub fn last_query_ticks(&self) -> i64 {
        self.core.last_query_ticks.load(Ordering::Relaxed)
    }

    /// Whether queries may be sent to it.
    pub(crate) fn answers(&self) -> bool {
        matches!(self.state(), IndexState::Normal | IndexState::Idle)
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        if self.core.is_idle.swap(is_idle, Ordering::Relaxed) != is_idle {
            let change = if is_idle { IndexChange::BecameIdle } else { IndexChange::QueriedAgain };
            self.core.report(change);
        }
    }

    /// Records that it was queried now.
    pub fn note_query(&self) {
        if self.core.is_idle.load(Ordering::Relaxed) {
            self.set_idle(false);
        }
        self.core.last_query_ticks.store(self.core.now_ticks(), Ordering::Relaxed);
    }

    /// Looks for changes.
    pub fn notice_changes(&self) {
        self.change(|progress| self.core.notice(progress));
    }

    /// Waits for the current batch, and closes the files. Waiters are notified; no further changes
    /// are reported.
    pub fn close(&self) {
        if !self.core.end_indexing() {
            return;
        }
        self.core.notify_waiters();
        self.keep_last_query();
        // What could not be flushed is still in the journal and is recovered from it.
        drop(self.core.environment.close());
    }

    /// How a field stores spatial values, if it has any.
    pub fn spatial_layout(&self, field: &str) -> SpatialLayout {
        let options = match self.kind().as_ref() {
            IndexKind::Auto(_) => None,
            IndexKind::Static(definition) => static_field_options(definition, field).ok(),
        };
        options.and_then(|options| options.spatial).unwrap_or_default()
    }

    /// Stores when an automatic index was last queried, so that closing the database neither
    /// shortens nor extends its life.
    fn keep_last_query(&self) {
        if matches!(self.kind().as_ref(), IndexKind::Auto(_)) {
            // If this fails, it counts as queried when it is opened again.
            drop(index_files::keep_last_query(&self.core.environment, self.last_query_ticks()));
        }
    }

    /// The definition as the protocol returns it.
    pub fn shown_definition(&self) -> IndexDefinition {
        match self.kind().as_ref() {
            IndexKind::Static(definition) => {
                IndexDefinition { name: self.name().to_owned(), ..definition.with_defaults() }
            }
            IndexKind::Auto(definition) => shown_auto_definition(self.name(), definition),
        }
    }
}

/// Notifies an index whenever values change that its maps may read.
fn watch_values(
    core: &Arc<IndexCore>,
    work: &Arc<IndexWork>,
    pool: &IndexingPool,
) -> Option<ValueWatch> {
    let values = core.values.as_ref().filter(|_| core.mapper.reads_values())?;
    let (core, work, pool) = (Arc::downgrade(core), Arc::downgrade(work), pool.clone());
    Some(values.watch(move || {
        if let (Some(core), Some(work)) = (core.upgrade(), work.upgrade())
            && core.must_enqueue_after(|progress| core.notice(progress))
        {
            pool.enqueue(work as Arc<dyn Worker>);
        }
    }))
}

impl Drop for Index {
    fn drop(&mut self) {
        self.close();
    }
}
