//! One index: its environment, its turns, how far it is, and who waits for it.
//!
//! Invariant: what [`Index::progress`] says is in the entries of every snapshot that is taken after.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use cluster_state::{ValueSource, ValueWatch};
use documents::DocumentError;
use model::{CollectionName, DocumentId, Etag};
use platform::Platform;
use script::ScriptPool;
use search::{FieldSet, SpatialLayout};
use storage::{Environment, EnvironmentOptions, ReadTransaction, Transaction};
use wire::{IndexDefinition, IndexState};

use crate::{
    batch_log::{BatchFacts, BatchRates, BatchTotals},
    begun_batch,
    error::IndexError,
    fan_out::{FanOut, OUTPUTS_NOTED_DEFAULT, outputs_noted},
    index_change::IndexChange,
    index_core::{IndexCore, Names, Progress, Stage},
    index_event::{OnEvent, WaitReply},
    index_files::{self, IndexFiles},
    index_kind::{IndexKind, mapper_of, shown_auto_definition},
    index_record::{self, IndexRecord, IndexingError},
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

/// More waiters are answered at once, as if their time was over.
const WAITERS_MAX: usize = 10_000;

/// Where an index lives and what it reads.
pub struct IndexContext {
    /// Disk, time and randomness.
    pub platform: Platform,
    /// The documents.
    pub documents: Arc<Environment>,
    /// Compare exchange, if there is any.
    pub values: Option<ValueSource>,
    /// The directory of its files, and the limits of their storage.
    pub environment: EnvironmentOptions,
    /// Runs maps in JavaScript.
    pub scripts: ScriptPool,
    /// Whose threads index.
    pub pool: IndexingPool,
    /// Through which results become documents.
    pub outputs: Arc<dyn OutputQueue>,
}

/// An index. Dropping it closes it.
pub struct Index {
    pub(crate) core: Arc<IndexCore>,
    work: Arc<IndexWork>,
    pool: IndexingPool,
    /// Wakes it when values change that it may look at.
    _values: Option<ValueWatch>,
}

/// What an index is started with.
pub(crate) struct IndexParts {
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    pub(crate) files: IndexFiles,
    pub(crate) on_event: OnEvent,
    /// Of each collection, if it follows a few of its oldest items only.
    pub(crate) items_max: Option<usize>,
}

impl Index {
    /// Opens the files of an index, or makes them, and puts it in line. Files of another definition
    /// are emptied first.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when nothing can be indexed that way; others when the files cannot
    /// be opened.
    pub fn open(name: &str, kind: IndexKind, context: IndexContext) -> Result<Self, IndexError> {
        let mapper = mapper_of(&kind, &context.scripts)?;
        let (platform, options) = (&context.platform, context.environment.clone());
        let documents = context.documents.read();
        let files = IndexFiles::open_for(platform, options, (&kind, mapper.as_ref()), &documents)?;
        drop(documents);
        let on_event: OnEvent = Box::new(|_, _| ());
        let parts = IndexParts { name: name.to_owned(), kind, files, on_event, items_max: None };
        let index = Self::start(parts, mapper, context)?;
        index.notice_changes();
        Ok(index)
    }

    /// An index on files that are open and belong to its definition. It does nothing until it is told
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
        let owes_output = writes_outputs && output::is_anything_open(&files.environment.read())?;
        let is_disabled = kind.is_disabled();
        let now_ticks = context.platform.clock.now().ticks();
        let is_paused = begun_batch::starts_paused(&files.environment, now_ticks)?;
        let last_query_ticks = match &kind {
            // Whoever made it is about to ask it.
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
                owes_output,
                has_news: true,
                news_since: None,
                stage: Stage::Out,
                has_caught_up: false,
                is_paused,
                is_disabled,
                is_disabled_by_setting: false,
                is_closing: false,
                failure: None,
                rests_for_memory: 0,
                is_broken: false,
                // What an index that was found did is old news.
                tells_when_done: files.is_new,
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

    /// Its name; until it takes the place of another, with [`REPLACEMENT_PREFIX`].
    pub fn name(&self) -> &str {
        self.core.names.current()
    }

    /// The name of its definition.
    pub(crate) fn own_name(&self) -> &str {
        &self.core.names.own
    }

    /// Whether it is to take the place of the index of its definition's name.
    pub fn is_replacement(&self) -> bool {
        self.core.names.is_replacement.load(Ordering::Acquire)
    }

    /// Takes the place: says so in its files, durably, then answers to its definition's name. What
    /// `old` wrote is left to it to delete.
    pub(crate) fn end_replacement(&self, old: Option<&Self>) -> Result<(), IndexError> {
        let sweeps = match (&self.core.target, old) {
            (Some(own), Some(old)) => own.also_where_it_refers(old.sweeps_before(own.number())?),
            (Some(_) | None, _) => Vec::new(),
        };
        index_files::end_replacement(&self.core.environment, &sweeps)?;
        // Stale from now on, although nothing is written before `begin_outputs`.
        self.change(|progress| progress.owes_output = self.core.target.is_some());
        self.core.names.is_replacement.store(false, Ordering::Release);
        Ok(())
    }

    /// The sweeps that delete all its outputs, those that are asked for included, but for those that
    /// the index of this number notes.
    pub(crate) fn sweeps_before(&self, number: u64) -> Result<Vec<Sweep>, IndexError> {
        let Some(target) = &self.core.target else { return Ok(Vec::new()) };
        let asked = output::sweeps(&self.read())?.into_iter().map(|(_, sweep)| sweep);
        let own = target.sweep_before(number);
        Ok(asked.map(|sweep| Sweep { number, ..sweep }).chain([own]).collect())
    }

    /// The sweeps that are to be done when it begins anew.
    pub(crate) fn sweeps_before_reset(&self) -> Result<Vec<Sweep>, IndexError> {
        match &self.core.target {
            Some(target) if !self.is_replacement() => self.sweeps_before(target.number()),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Writes its outputs from now on; the index before it has written its last.
    pub(crate) fn begin_outputs(&self) {
        if self.core.target.is_some() {
            self.core.writes_outputs.store(true, Ordering::Release);
            self.change(|progress| progress.has_news = true);
        }
    }

    /// Its collections as they go in and out.
    pub(crate) fn flow(&self) -> Flow {
        Flow::of(self.own_name(), self.core.mapper.as_ref(), self.core.target.as_ref())
    }

    /// The collection of its outputs.
    pub(crate) fn output_collection(&self) -> Option<&CollectionName> {
        self.core.target.as_ref().map(OutputTarget::collection)
    }

    /// What it was made after.
    pub fn kind(&self) -> Arc<IndexKind> {
        Arc::clone(&self.core.kind.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over a definition that gives the same entries: another lock, priority or state. `false`
    /// when it would give others, and nothing is changed.
    pub(crate) fn take_over(&self, kind: &IndexKind) -> bool {
        let own = self.kind();
        if !own.has_the_same_entries_as(kind) {
            return false;
        }
        self.set_kind(kind.clone().with_output_number_of(&own));
        true
    }

    /// Takes over what does not decide entries: lock, priority and state.
    pub(crate) fn take_over_settings(&self, kind: &IndexKind) {
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

    /// Changes what decides whether the index has work, and puts it in line when it has.
    fn change(&self, change: impl FnOnce(&mut Progress)) {
        if self.core.enters_line(change) {
            self.pool.enqueue(Arc::clone(&self.work) as Arc<dyn Worker>);
        }
    }

    /// The collections that it is over; none is all documents.
    pub fn collections(&self) -> &[CollectionName] {
        self.core.mapper.collections()
    }

    /// Whether a change in one of the collections may change its entries: it maps it or looks at it.
    pub fn follows(&self, collections: &[CollectionName]) -> bool {
        let followed = self.core.followed.collections();
        followed.is_empty() || followed.iter().any(|name| collections.contains(name))
    }

    /// How far a moment of its entries is.
    ///
    /// # Errors
    ///
    /// When its files cannot be read.
    pub fn record_in(&self, entries: &impl Transaction) -> Result<IndexRecord, IndexError> {
        index_record::read_record(entries)
    }

    /// What is kept of the reduce keys in which these documents have rows; none without a reduce.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn reduce_trees(&self, documents: &[DocumentId]) -> Result<Vec<ReduceTree>, MapError> {
        let Some(reducer) = self.core.mapper.reducer() else { return Ok(Vec::new()) };
        trees_of(&self.read(), reducer, documents)
    }

    /// The lower-cased ids of the documents that have rows, in their order.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn reduced_documents(
        &self,
        prefix: &str,
        skip: usize,
        take: usize,
    ) -> Result<Vec<String>, IndexError> {
        documents_with_rows(&self.read(), prefix, skip, take)
    }

    /// What its maps are run over.
    pub fn source_kind(&self) -> SourceKind {
        self.core.mapper.source_kind()
    }

    /// Whether its entries are shown by themselves, and not the documents that they were made of.
    pub fn shows_results(&self) -> bool {
        self.has_reduce() || self.source_kind() != SourceKind::Documents
    }

    /// Whether its entries are results of a reduce, and not of documents.
    pub fn has_reduce(&self) -> bool {
        self.core.mapper.reducer().is_some()
    }

    /// The names of its fields that are known without a document.
    pub fn fields(&self) -> Vec<String> {
        self.core.mapper.fields()
    }

    /// Whether documents may name further fields.
    pub fn has_created_fields(&self) -> bool {
        self.core.mapper.has_created_fields()
    }

    /// The newest entries.
    pub fn read(&self) -> ReadTransaction {
        self.core.environment.read()
    }

    /// The files of its entries.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.core.environment
    }

    /// How far it is.
    pub fn record(&self) -> IndexRecord {
        self.core.lock().record
    }

    /// Whether it is a trial, and there are more items than it takes.
    pub fn leaves_out_items(&self) -> bool {
        self.core.followed.leaves_out()
    }

    /// Every change up to this etag is in its entries.
    pub fn progress(&self) -> Etag {
        Etag(self.record().last_etag)
    }

    /// The etag of the last change that it is to follow, as `documents` sees it.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn last_etag_in(&self, documents: &impl Transaction) -> Result<Etag, DocumentError> {
        self.core.last_etag_in(documents)
    }

    /// Whether changes that `documents` sees are missing in the entries, or in the documents that
    /// it writes.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn is_stale(&self, documents: &impl Transaction) -> Result<bool, IndexError> {
        Ok(!self.has_reached(self.last_position_in(documents)?))
    }

    /// Up to where it is to follow: the documents as `documents` sees them, and compare exchange now.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn last_position_in(&self, documents: &impl Transaction) -> Result<Position, IndexError> {
        self.core.last_position_in(documents, self.core.read_values().as_ref())
    }

    /// Whether its maps look at values of compare exchange.
    pub fn reads_values(&self) -> bool {
        self.core.mapper.reads_values()
    }

    /// Whether every change up to there is in the entries, and in the documents that it writes.
    pub fn has_reached(&self, position: impl Into<Position>) -> bool {
        self.core.lock().has_reached(position.into())
    }

    /// Tells `reply` as soon as every change up to `position` is in the entries, and in the documents that
    /// it writes, which may be at once.
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

    /// Its last batches since it was opened, the oldest first.
    pub fn batches(&self) -> Vec<BatchFacts> {
        self.core.batch_log().batches()
    }

    /// What all batches since it was opened came to.
    pub fn batch_totals(&self) -> BatchTotals {
        self.core.batch_log().totals()
    }

    /// What it did per second lately.
    pub fn rates(&self) -> BatchRates {
        self.core.batch_log().rates(self.core.now_ticks())
    }

    /// Documents that gave very many outputs since it was opened, if any did.
    pub fn fan_out(&self) -> Option<FanOut> {
        Some(self.core.fan_out().clone()).filter(|found| 0 < found.documents)
    }

    /// Its errors, the oldest first.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn errors(&self) -> Result<Vec<IndexingError>, IndexError> {
        index_record::errors(&self.read())
    }

    /// How many errors there are.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn error_count(&self) -> Result<u64, IndexError> {
        Ok(index_record::error_count(&self.read())?)
    }

    /// Forgets its errors.
    ///
    /// # Errors
    ///
    /// Those of the storage.
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

    /// Lets it follow the documents no more.
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

    /// Why it ended by itself, or rests; `None` while it works, or when only documents failed.
    pub fn failure(&self) -> Option<Arc<IndexError>> {
        self.core.lock().failure.clone()
    }

    /// Whether it stopped for good, until it is opened again.
    pub(crate) fn is_broken(&self) -> bool {
        self.core.lock().is_broken
    }

    /// Whether a batch since it was opened ended with everything in it that was there at its beginning.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.core.lock().has_caught_up
    }

    /// Whether it is closed, or being closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.core.is_closing()
    }

    /// Lets those who wait for this index wait for another one.
    pub(crate) fn give_waiters_to(&self, successor: &Self) {
        let waiters = std::mem::take(&mut self.core.lock().waiters);
        waiters.into_iter().for_each(|(position, reply)| successor.when_indexed(position, reply));
    }

    /// When it was last asked, in ticks; 0 is never.
    pub fn last_query_ticks(&self) -> i64 {
        self.core.last_query_ticks.load(Ordering::Relaxed)
    }

    /// Whether queries may be sent to it.
    pub(crate) fn answers(&self) -> bool {
        matches!(self.state(), IndexState::Normal | IndexState::Idle)
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        if self.core.is_idle.swap(is_idle, Ordering::Relaxed) != is_idle {
            let change = if is_idle { IndexChange::BecameIdle } else { IndexChange::IsAskedAgain };
            self.core.report(change);
        }
    }

    /// Notes that it was asked now.
    pub fn note_query(&self) {
        if self.core.is_idle.load(Ordering::Relaxed) {
            self.set_idle(false);
        }
        self.core.last_query_ticks.store(self.core.now_ticks(), Ordering::Relaxed);
    }

    /// There may be changes; they are looked for.
    pub fn notice_changes(&self) {
        self.change(|progress| self.core.notice(progress));
    }

    /// Waits for the batch that it is at, and closes the files. Those that wait are notified; no changes of
    /// it are reported any more.
    pub fn close(&self) {
        if !self.core.end_indexing() {
            return;
        }
        self.core.tell_waiters();
        self.keep_last_query();
        // What could not be flushed is still in the journal and is recovered from there.
        drop(self.core.environment.close());
    }

    /// How a field keeps places and shapes, if it has any.
    pub fn spatial_layout(&self, field: &str) -> SpatialLayout {
        let options = match self.kind().as_ref() {
            IndexKind::Auto(_) => None,
            IndexKind::Static(definition) => static_field_options(definition, field).ok(),
        };
        options.and_then(|options| options.spatial).unwrap_or_default()
    }

    /// Writes down when an automatic index was last asked, so that it is not forgotten, nor kept for
    /// ever, because the database is closed now and then.
    fn keep_last_query(&self) {
        if matches!(self.kind().as_ref(), IndexKind::Auto(_)) {
            // What cannot be written is as if it was asked when it is opened again.
            drop(index_files::keep_last_query(&self.core.environment, self.last_query_ticks()));
        }
    }

    /// The definition as the protocol shows it.
    pub fn shown_definition(&self) -> IndexDefinition {
        match self.kind().as_ref() {
            IndexKind::Static(definition) => {
                IndexDefinition { name: self.name().to_owned(), ..definition.shown() }
            }
            IndexKind::Auto(definition) => shown_auto_definition(self.name(), definition),
        }
    }
}

/// Has an index look for changes whenever values change that its maps may look at.
fn watch_values(
    core: &Arc<IndexCore>,
    work: &Arc<IndexWork>,
    pool: &IndexingPool,
) -> Option<ValueWatch> {
    let values = core.values.as_ref().filter(|_| core.mapper.reads_values())?;
    let (core, work, pool) = (Arc::downgrade(core), Arc::downgrade(work), pool.clone());
    Some(values.watch(move || {
        if let (Some(core), Some(work)) = (core.upgrade(), work.upgrade())
            && core.enters_line(|progress| core.notice(progress))
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
