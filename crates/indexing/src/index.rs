//! One index: its environment, its turns, how far it is, and who waits for it.
//!
//! Invariant: what [`Index::progress`] says is in the entries of every snapshot that is taken after.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use documents::DocumentError;
use model::{CollectionName, Etag};
use platform::Platform;
use script::ScriptPool;
use search::{FieldSet, SpatialLayout};
use storage::{Environment, EnvironmentOptions, ReadTransaction, Transaction};
use wire::{
    IndexDefinition, IndexFieldOptions, IndexPriority, IndexSourceType, IndexState, IndexType,
};

use crate::{
    auto_definition::AutoIndexDefinition,
    auto_map::AutoMap,
    batch_log::{BatchFacts, BatchLog},
    error::IndexError,
    index_files::{self, IndexFiles},
    index_record::{self, IndexRecord, IndexingError},
    index_work::IndexWork,
    indexer::Indexer,
    indexing_pool::{IndexingPool, NextTurn, Worker},
    js_map::JsMap,
    linq_map::LinqMap,
    mapper::{Follows, Mapper},
    reduce::{AutoReduce, JsReduce, LinqReduce},
    static_definition::{REPLACEMENT_PREFIX, is_javascript},
    static_fields::static_field_options,
};

/// How long an index rests after a failure that may pass.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// More waiters are answered at once, as if their time was over.
const WAITERS_MAX: usize = 10_000;

/// What an index is made after.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKind {
    /// What queries asked for.
    Auto(AutoIndexDefinition),
    /// What an application defined.
    Static(Box<IndexDefinition>),
}

/// Told whether the index came as far as was waited for; `false` when it stopped or was closed.
pub type WaitReply = Box<dyn FnOnce(bool) + Send>;

/// Where an index lives and what it reads.
pub struct IndexContext {
    /// Disk, time and randomness.
    pub platform: Platform,
    /// The documents.
    pub documents: Arc<Environment>,
    /// The directory of its files, and the limits of their storage.
    pub environment: EnvironmentOptions,
    /// Runs maps in JavaScript.
    pub scripts: ScriptPool,
    /// Whose threads index.
    pub pool: IndexingPool,
}

/// An index. Dropping it closes it.
pub struct Index {
    pub(crate) core: Arc<IndexCore>,
    work: Arc<IndexWork>,
    pool: IndexingPool,
}

/// What the threads and the users of an index share.
pub(crate) struct IndexCore {
    names: Names,
    kind: RwLock<Arc<IndexKind>>,
    pub(crate) mapper: Box<dyn Mapper>,
    /// See [`IndexCore::followed`].
    followed: Vec<CollectionName>,
    pub(crate) platform: Platform,
    pub(crate) documents: Arc<Environment>,
    pub(crate) environment: Arc<Environment>,
    progress: Mutex<Progress>,
    changed: Condvar,
    last_query_ticks: AtomicI64,
    is_idle: AtomicBool,
    batches: Mutex<BatchLog>,
    on_event: OnEvent,
}

/// The name of an index, and the one that it has until it takes the place of another.
struct Names {
    own: String,
    as_replacement: String,
    is_replacement: AtomicBool,
}

/// What an index tells whoever looks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexEvent {
    /// It is to take the place of another, and a batch ended with everything in it that was there at
    /// its beginning.
    CaughtUp,
    /// It stopped because its files, or the documents, cannot be read or written.
    Failed,
}

pub(crate) type OnEvent = Box<dyn Fn(IndexEvent) + Send + Sync>;

/// What an index is started with.
pub(crate) struct IndexParts {
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    pub(crate) files: IndexFiles,
    pub(crate) on_event: OnEvent,
}

struct Progress {
    record: IndexRecord,
    /// Whether there may be changes that nobody has looked for.
    has_news: bool,
    stage: Stage,
    /// Until the server stops.
    is_paused: bool,
    /// By its definition.
    is_disabled: bool,
    is_closing: bool,
    /// Why it stopped by itself, or rests.
    failure: Option<Arc<IndexError>>,
    /// Whether the failure is for good.
    is_broken: bool,
    waiters: Vec<(Etag, WaitReply)>,
}

/// Where an index is on its way through the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Out,
    InLine,
    Indexing,
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
        let files = IndexFiles::open_for(&context.platform, context.environment.clone(), &kind)?;
        let on_event: OnEvent = Box::new(|_| ());
        let parts = IndexParts { name: name.to_owned(), kind, files, on_event };
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
        let IndexParts { name, kind, files, on_event } = parts;
        let is_disabled = kind.is_disabled();
        let last_query_ticks = match &kind {
            // Whoever made it is about to ask it.
            IndexKind::Auto(_) => match files.last_query_ticks {
                0 => context.platform.clock.now().ticks(),
                known => known,
            },
            IndexKind::Static(_) => 0,
        };
        let core = Arc::new(IndexCore {
            names: Names {
                as_replacement: format!("{REPLACEMENT_PREFIX}{name}"),
                own: name,
                is_replacement: AtomicBool::new(files.is_replacement),
            },
            kind: RwLock::new(Arc::new(kind)),
            followed: followed_by(mapper.as_ref()),
            mapper,
            platform: context.platform,
            documents: context.documents,
            environment: files.environment,
            progress: Mutex::new(Progress {
                record: files.record,
                has_news: true,
                stage: Stage::Out,
                is_paused: false,
                is_disabled,
                is_closing: false,
                failure: None,
                is_broken: false,
                waiters: Vec::new(),
            }),
            changed: Condvar::new(),
            last_query_ticks: AtomicI64::new(last_query_ticks),
            is_idle: AtomicBool::new(false),
            batches: Mutex::default(),
            on_event,
        });
        let fields = FieldSet::load(&core.environment.read())?;
        let work = IndexWork::new(Indexer::new(Arc::clone(&core), fields), Arc::clone(&core));
        Ok(Self { core, work: Arc::new(work), pool: context.pool })
    }

    /// Its name; until it takes the place of another, with [`REPLACEMENT_PREFIX`].
    pub fn name(&self) -> &str {
        let names = &self.core.names;
        if self.is_replacement() { &names.as_replacement } else { &names.own }
    }

    /// The name of its definition.
    pub(crate) fn own_name(&self) -> &str {
        &self.core.names.own
    }

    /// Whether it is to take the place of the index of its definition's name.
    pub fn is_replacement(&self) -> bool {
        self.core.names.is_replacement.load(Ordering::Acquire)
    }

    /// Takes the place: says so in its files, durably, then answers to its definition's name.
    pub(crate) fn end_replacement(&self) -> Result<(), IndexError> {
        index_files::end_replacement(&self.core.environment)?;
        self.core.names.is_replacement.store(false, Ordering::Release);
        Ok(())
    }

    /// What it was made after.
    pub fn kind(&self) -> Arc<IndexKind> {
        Arc::clone(&self.core.kind.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over a definition that gives the same entries: another lock, priority or state. `false`
    /// when it would give others, and nothing is changed.
    pub(crate) fn take_over(&self, kind: &IndexKind) -> bool {
        if !self.kind().has_the_same_entries_as(kind) {
            return false;
        }
        self.set_kind(kind.clone());
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
        let is_disabled = kind.is_disabled();
        *self.core.kind.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kind);
        self.change(|progress| progress.is_disabled = is_disabled);
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
        let followed = self.core.followed();
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

    /// Whether changes that `documents` sees are missing in the entries.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn is_stale(&self, documents: &impl Transaction) -> Result<bool, DocumentError> {
        Ok(self.progress() < self.last_etag_in(documents)?)
    }

    /// Tells `reply` as soon as every change up to `etag` is in the entries, which may be at once.
    pub fn when_indexed(&self, etag: Etag, reply: WaitReply) {
        let mut progress = self.core.lock();
        let reached = etag.0 <= progress.record.last_etag;
        let is_over = progress.is_over() || WAITERS_MAX <= progress.waiters.len();
        if !reached && !is_over {
            progress.waiters.push((etag, reply));
            return;
        }
        drop(progress);
        reply(reached);
    }

    /// Its last batches since it was opened, the oldest first.
    pub fn batches(&self) -> Vec<BatchFacts> {
        self.core.batch_log().batches()
    }

    /// Documents mapped per second lately.
    pub fn mapped_per_second(&self) -> f64 {
        self.core.batch_log().mapped_per_second(self.core.now_ticks())
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
        self.change(|progress| progress.is_paused = true);
    }

    /// Follows the documents again.
    pub fn resume(&self) {
        self.change(|progress| progress.is_paused = false);
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
        } else if progress.is_disabled {
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

    /// Whether it is closed, or being closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.core.is_closing()
    }

    /// Lets those who wait for this index wait for another one.
    pub(crate) fn give_waiters_to(&self, successor: &Self) {
        let waiters = std::mem::take(&mut self.core.lock().waiters);
        waiters.into_iter().for_each(|(etag, reply)| successor.when_indexed(etag, reply));
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
        self.core.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Notes that it was asked now.
    pub fn note_query(&self) {
        self.core.is_idle.store(false, Ordering::Relaxed);
        self.core.last_query_ticks.store(self.core.now_ticks(), Ordering::Relaxed);
    }

    /// There may be changes; they are looked for.
    pub fn notice_changes(&self) {
        self.change(|progress| progress.has_news = true);
    }

    /// Waits for the batch that it is at, and closes the files. Who waits is told.
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

impl IndexKind {
    /// Whether entries made after `other` serve this one too.
    pub fn has_the_same_entries_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Auto(own), Self::Auto(other)) => own == other,
            (Self::Static(own), Self::Static(other)) => own.has_the_same_entries_as(other),
            (Self::Auto(_), Self::Static(_)) | (Self::Static(_), Self::Auto(_)) => false,
        }
    }

    /// The name of its definition.
    pub fn name(&self) -> String {
        match self {
            Self::Auto(definition) => definition.name(),
            Self::Static(definition) => definition.name.clone(),
        }
    }

    fn is_disabled(&self) -> bool {
        match self {
            Self::Auto(_) => false,
            Self::Static(definition) => definition.state == Some(IndexState::Disabled),
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.close();
    }
}

fn shown_auto_definition(name: &str, definition: &AutoIndexDefinition) -> IndexDefinition {
    let listed = |parts: Vec<String>| format!("{}:[{}]", definition.collection, parts.join(";"));
    let (names, maps, reduce): (Vec<_>, _, _) = match definition.grouping() {
        None => {
            let names: Vec<_> = definition.fields().iter().map(|field| field.name()).collect();
            let map = names.iter().map(|name| format!("<Name:{name}>")).collect();
            (names, listed(map), None)
        }
        Some(grouping) => {
            let (aggregates, keys) = (grouping.aggregates(), grouping.keys());
            let map = aggregates.iter().map(|aggregate| {
                format!("<Name:{}#Operation:{}>", aggregate.name(), aggregate.operation())
            });
            let reduce = keys.iter().map(|key| format!("<Name:{}>", key.path)).collect();
            let names = aggregates.iter().map(|aggregate| aggregate.name().to_owned());
            let names = names.chain(keys.iter().map(|key| key.path.clone())).collect();
            (names, listed(map.collect()), Some(listed(reduce)))
        }
    };
    let index_type = match reduce {
        None => IndexType::AutoMap,
        Some(_) => IndexType::AutoMapReduce,
    };
    let is_spatial = |name: &str| {
        let mut fields = definition.fields().iter();
        fields.any(|field| field.name() == name && field.is_spatial())
    };
    let fields = names.into_iter().map(|name| {
        let spatial = is_spatial(&name).then(wire::SpatialOptions::default);
        (name, IndexFieldOptions { spatial, ..IndexFieldOptions::default() })
    });
    IndexDefinition {
        name: name.to_owned(),
        index_type: Some(index_type),
        source_type: Some(IndexSourceType::Documents),
        priority: Some(IndexPriority::Normal),
        maps: vec![maps],
        reduce,
        fields: fields.collect(),
        ..IndexDefinition::default()
    }
    .shown()
}

pub(crate) fn mapper_of(
    kind: &IndexKind,
    scripts: &ScriptPool,
) -> Result<Box<dyn Mapper>, IndexError> {
    match kind {
        IndexKind::Auto(definition) => Ok(match definition.grouping() {
            Some(grouping) => Box::new(AutoReduce::new(&definition.collection, grouping)?),
            None => Box::new(AutoMap::new(definition)?),
        }),
        IndexKind::Static(definition) => static_mapper(definition, scripts),
    }
}

fn static_mapper(
    definition: &IndexDefinition,
    scripts: &ScriptPool,
) -> Result<Box<dyn Mapper>, IndexError> {
    let refused = |what: &str| {
        let message = format!("Failed to compile index {}: {what}", definition.name);
        Err(IndexError::Definition { message })
    };
    let outputs = [
        &definition.output_reduce_to_collection,
        &definition.pattern_for_output_reduce_to_collection_references,
    ];
    if outputs.into_iter().flatten().any(|name| !name.is_empty()) {
        return refused("the output of a reduce to a collection is not supported yet");
    }
    if !definition.additional_assemblies.is_empty() {
        return refused("libraries of .NET cannot be used");
    }
    let is_script = definition.maps.iter().any(|map| is_javascript(map));
    if !is_script && !definition.additional_sources.is_empty() {
        return refused("additional sources in C# cannot be used");
    }
    Ok(match (is_script, &definition.reduce) {
        (true, None) => Box::new(JsMap::new(definition, scripts)?),
        (true, Some(_)) => Box::new(JsReduce::new(definition, scripts)?),
        (false, None) => Box::new(LinqMap::new(definition)?),
        (false, Some(reduce)) => Box::new(LinqReduce::new(definition, reduce)?),
    })
}

impl Progress {
    /// Whether it goes no further, as far as one knows.
    fn is_over(&self) -> bool {
        self.is_closing || self.failure.is_some() || self.record.has_failed
    }

    /// Whether a turn would do something.
    fn wants_a_turn(&self) -> bool {
        let is_kept_back = self.is_paused || self.is_disabled;
        let has_ended = self.is_closing || self.is_broken || self.record.has_failed;
        self.has_news && !is_kept_back && !has_ended
    }
}

impl IndexCore {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn batch_log(&self) -> MutexGuard<'_, BatchLog> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ticks(&self) -> i64 {
        self.platform.clock.now().ticks()
    }

    pub(crate) fn record(&self) -> IndexRecord {
        self.lock().record
    }

    /// The collections whose changes it follows, those that it only looks at included; none is all.
    pub(crate) fn followed(&self) -> &[CollectionName] {
        &self.followed
    }

    pub(crate) fn last_etag_in(&self, documents: &impl Transaction) -> Result<Etag, DocumentError> {
        match self.followed() {
            [] => Ok(documents::progress(documents)?.last_etag),
            collections => collections.iter().try_fold(Etag::ZERO, |last, name| {
                Ok(last.max(documents::last_etag_of_collection(documents, name)?))
            }),
        }
    }

    /// How soon it has its turn.
    pub(crate) fn priority(&self) -> IndexPriority {
        match self.kind.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            IndexKind::Static(definition) => definition.priority.unwrap_or(IndexPriority::Normal),
            IndexKind::Auto(_) => IndexPriority::Normal,
        }
    }

    /// Makes a change; `true` when the index has to be put in line after it.
    fn enters_line(&self, change: impl FnOnce(&mut Progress)) -> bool {
        let mut progress = self.lock();
        change(&mut progress);
        let enters = progress.stage == Stage::Out && progress.wants_a_turn();
        if enters {
            progress.stage = Stage::InLine;
        }
        enters
    }

    /// Its turn has come; `false` when there is nothing to do any more.
    pub(crate) fn begin_turn(&self) -> bool {
        let mut progress = self.lock();
        if !progress.wants_a_turn() {
            progress.stage = Stage::Out;
            return false;
        }
        progress.has_news = false;
        progress.failure = None;
        progress.stage = Stage::Indexing;
        true
    }

    /// A batch is done.
    pub(crate) fn end_turn(&self, has_more: bool) -> NextTurn {
        let mut progress = self.lock();
        progress.has_news |= has_more;
        let has_caught_up = !has_more && !progress.record.has_failed;
        let again = progress.wants_a_turn();
        progress.stage = if again { Stage::InLine } else { Stage::Out };
        drop(progress);
        self.changed.notify_all();
        if has_caught_up && self.names.is_replacement.load(Ordering::Acquire) {
            (self.on_event)(IndexEvent::CaughtUp);
        }
        if again { NextTurn::InLine } else { NextTurn::None }
    }

    /// Whether a batch should end early.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Lets no turn begin any more, and waits for the end of the one that is under way. `false` when
    /// somebody did so before.
    fn end_indexing(&self) -> bool {
        let mut progress = self.lock();
        let is_first = !std::mem::replace(&mut progress.is_closing, true);
        while progress.stage == Stage::Indexing {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        is_first
    }

    /// Entries up to the record's etag are visible: whoever waited for them is told.
    pub(crate) fn advance(&self, record: IndexRecord) {
        let mut progress = self.lock();
        progress.record = record;
        let waiting = std::mem::take(&mut progress.waiters);
        let reached = |etag: &Etag| etag.0 <= record.last_etag;
        let (done, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(etag, _)| reached(etag) || record.has_failed);
        progress.waiters = waiting;
        drop(progress);
        done.into_iter().for_each(|(etag, reply)| reply(reached(&etag)));
    }

    /// Rests a while after a failure that may pass, such as a full disk; the same changes come again.
    pub(crate) fn rest_after(&self, error: IndexError) -> NextTurn {
        let mut progress = self.lock();
        progress.failure = Some(Arc::new(error));
        progress.has_news = true;
        progress.stage = Stage::InLine;
        drop(progress);
        self.changed.notify_all();
        NextTurn::After(REST_AFTER_FAILURE)
    }

    /// It stops because of that.
    pub(crate) fn fail(&self, error: IndexError) -> NextTurn {
        let mut progress = self.lock();
        progress.failure = Some(Arc::new(error));
        progress.is_broken = true;
        progress.stage = Stage::Out;
        drop(progress);
        self.changed.notify_all();
        self.tell_waiters();
        (self.on_event)(IndexEvent::Failed);
        NextTurn::None
    }

    fn tell_waiters(&self) {
        let waiters = std::mem::take(&mut self.lock().waiters);
        waiters.into_iter().for_each(|(_, reply)| reply(false));
    }
}

/// The collections whose changes a map follows; none is all.
fn followed_by(mapper: &dyn Mapper) -> Vec<CollectionName> {
    let mapped = mapper.collections();
    let Follows::Collections(looked_at) = mapper.looks_at() else { return Vec::new() };
    if mapped.is_empty() {
        return Vec::new();
    }
    let more = looked_at.iter().filter(|name| !mapped.contains(name));
    mapped.iter().chain(more).cloned().collect()
}
