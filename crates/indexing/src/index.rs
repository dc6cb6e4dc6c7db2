//! One index: its environment, its thread, how far it is, and who waits for it.
//!
//! Invariant: what [`Index::progress`] says is in the entries of every snapshot that is taken after.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    thread::{self, JoinHandle},
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
    error::IndexError,
    index_record::{self, IndexRecord, IndexingError},
    indexer::Indexer,
    js_map::JsMap,
    linq_map::LinqMap,
    mapper::{Follows, Mapper},
    reduce::{AutoReduce, JsReduce, LinqReduce},
    static_definition::is_javascript,
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
}

/// An index. Dropping it closes it.
pub struct Index {
    pub(crate) core: Arc<IndexCore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and the users of an index share.
pub(crate) struct IndexCore {
    pub(crate) name: String,
    kind: RwLock<Arc<IndexKind>>,
    pub(crate) mapper: Box<dyn Mapper>,
    pub(crate) platform: Platform,
    pub(crate) documents: Arc<Environment>,
    pub(crate) environment: Arc<Environment>,
    progress: Mutex<Progress>,
    changed: Condvar,
    last_query_ticks: AtomicI64,
}

struct Progress {
    record: IndexRecord,
    /// Whether there may be changes that the thread has not looked for.
    has_news: bool,
    /// Until the server stops.
    is_paused: bool,
    /// By its definition.
    is_disabled: bool,
    is_closing: bool,
    /// Why the thread ended by itself, or rests.
    failure: Option<Arc<IndexError>>,
    waiters: Vec<(Etag, WaitReply)>,
}

/// What the thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Index,
    End,
}

impl Index {
    /// Opens the files of an index, or makes them, and starts its thread. Files of another definition
    /// are emptied first.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when nothing can be indexed that way; others when the files cannot
    /// be opened.
    pub fn open(name: &str, kind: IndexKind, context: IndexContext) -> Result<Self, IndexError> {
        let mapper = mapper_of(&kind, &context.scripts)?;
        let is_disabled = kind.is_disabled();
        let (environment, record) = open_files(&context.platform, context.environment, &kind)?;
        let core = Arc::new(IndexCore {
            name: name.to_owned(),
            kind: RwLock::new(Arc::new(kind)),
            mapper,
            platform: context.platform,
            documents: context.documents,
            environment,
            progress: Mutex::new(Progress {
                record,
                has_news: true,
                is_paused: false,
                is_disabled,
                is_closing: false,
                failure: None,
                waiters: Vec::new(),
            }),
            changed: Condvar::new(),
            last_query_ticks: AtomicI64::new(0),
        });
        let fields = FieldSet::load(&core.environment.read())?;
        let indexer = Indexer::new(Arc::clone(&core), fields);
        let thread = thread::Builder::new()
            .name(format!("index {name}"))
            .spawn(move || indexer.run())
            .map_err(|error| IndexError::Thread { message: error.to_string() })?;
        Ok(Self { core, thread: Mutex::new(Some(thread)) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
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
        *self.core.kind.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kind.clone());
        self.core.lock().is_disabled = kind.is_disabled();
        self.core.changed.notify_all();
        true
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

    /// Its errors, the oldest first.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn errors(&self) -> Result<Vec<IndexingError>, IndexError> {
        index_record::errors(&self.read())
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
        self.core.lock().is_paused = true;
    }

    /// Follows the documents again.
    pub fn resume(&self) {
        self.core.lock().is_paused = false;
        self.core.changed.notify_all();
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
        } else {
            IndexState::Normal
        }
    }

    /// Why it ended by itself, or rests; `None` while it works, or when only documents failed.
    pub fn failure(&self) -> Option<Arc<IndexError>> {
        self.core.lock().failure.clone()
    }

    /// When it was last asked, in ticks; 0 is never.
    pub fn last_query_ticks(&self) -> i64 {
        self.core.last_query_ticks.load(Ordering::Relaxed)
    }

    /// Notes that it was asked now.
    pub fn note_query(&self) {
        self.core.last_query_ticks.store(self.core.now_ticks(), Ordering::Relaxed);
    }

    /// There may be changes; the thread looks for them.
    pub fn notice_changes(&self) {
        let mut progress = self.core.lock();
        if !progress.has_news {
            progress.has_news = true;
            self.core.changed.notify_all();
        }
    }

    /// Ends the thread after what it is doing, and closes the files. Who waits is told.
    pub fn close(&self) {
        self.core.lock().is_closing = true;
        self.core.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has told its waiters by dropping them.
            let _ = thread.join();
        }
        self.core.tell_waiters();
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

    /// The definition as the protocol shows it.
    pub fn shown_definition(&self) -> IndexDefinition {
        match self.kind().as_ref() {
            IndexKind::Static(definition) => definition.shown(),
            IndexKind::Auto(definition) => shown_auto_definition(&self.core.name, definition),
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

/// Opens the files of an index. Those of another definition, or of none, are deleted first.
fn open_files(
    platform: &Platform,
    options: EnvironmentOptions,
    kind: &IndexKind,
) -> Result<(Arc<Environment>, IndexRecord), IndexError> {
    let wanted = identity_of(kind);
    let environment = Environment::open(platform, options.clone())?;
    match index_record::read_definition(&environment.read())? {
        Some(found) if found == wanted.as_bytes() => {
            let record = index_record::read_record(&environment.read())?;
            return Ok((environment, record));
        }
        None => return begin(environment, &wanted, platform),
        Some(_) => {}
    }
    drop(environment.close());
    drop(environment);
    let directory = &options.directory;
    platform
        .disk
        .remove_dir_all(directory)
        .map_err(|source| IndexError::Directory { directory: directory.clone(), source })?;
    begin(Environment::open(platform, options)?, &wanted, platform)
}

/// Writes into new files to which definition they belong.
fn begin(
    environment: Arc<Environment>,
    definition: &str,
    platform: &Platform,
) -> Result<(Arc<Environment>, IndexRecord), IndexError> {
    let created_ticks = platform.clock.now().ticks();
    let record = IndexRecord { created_ticks, ..IndexRecord::default() };
    let mut tx = environment.write()?;
    index_record::write_definition(&mut tx, definition.as_bytes())?;
    index_record::write_record(&mut tx, &record)?;
    tx.commit()?;
    Ok((environment, record))
}

/// What decides the entries of an index, as text.
fn identity_of(kind: &IndexKind) -> String {
    match kind {
        IndexKind::Auto(definition) => format!("auto {}", definition.name()),
        IndexKind::Static(definition) => {
            let mut deciding = definition.clone();
            (deciding.lock_mode, deciding.priority, deciding.state) = (None, None, None);
            format!("static {deciding:?}")
        }
    }
}

impl Progress {
    fn is_over(&self) -> bool {
        self.is_closing || self.failure.is_some() || self.record.has_failed
    }
}

impl IndexCore {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ticks(&self) -> i64 {
        self.platform.clock.now().ticks()
    }

    pub(crate) fn record(&self) -> IndexRecord {
        self.lock().record
    }

    /// The collections whose changes it follows, those that it only looks at included; none is all.
    pub(crate) fn followed(&self) -> Vec<CollectionName> {
        let mapped = self.mapper.collections();
        let Follows::Collections(looked_at) = self.mapper.looks_at() else { return Vec::new() };
        if mapped.is_empty() {
            return Vec::new();
        }
        let more = looked_at.iter().filter(|name| !mapped.contains(name));
        mapped.iter().chain(more).cloned().collect()
    }

    pub(crate) fn last_etag_in(&self, documents: &impl Transaction) -> Result<Etag, DocumentError> {
        match self.followed().as_slice() {
            [] => Ok(documents::progress(documents)?.last_etag),
            collections => collections.iter().try_fold(Etag::ZERO, |last, name| {
                Ok(last.max(documents::last_etag_of_collection(documents, name)?))
            }),
        }
    }

    /// Waits until there may be something to index, or the index is closed.
    pub(crate) fn next_turn(&self) -> Turn {
        let mut progress = self.lock();
        loop {
            if progress.is_closing || progress.record.has_failed {
                return Turn::End;
            }
            if progress.has_news && !progress.is_paused && !progress.is_disabled {
                progress.has_news = false;
                return Turn::Index;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a batch should end early.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Entries up to the record's etag are visible: whoever waited for them is told.
    pub(crate) fn advance(&self, record: IndexRecord, may_have_more: bool) {
        let mut progress = self.lock();
        progress.record = record;
        progress.has_news |= may_have_more;
        let waiting = std::mem::take(&mut progress.waiters);
        let reached = |etag: &Etag| etag.0 <= record.last_etag;
        let (done, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(etag, _)| reached(etag) || record.has_failed);
        progress.waiters = waiting;
        drop(progress);
        done.into_iter().for_each(|(etag, reply)| reply(reached(&etag)));
    }

    /// Rests a while after a failure that may pass, such as a full disk; the same changes come again.
    pub(crate) fn rest_after(&self, error: IndexError) {
        let mut progress = self.lock();
        progress.failure = Some(Arc::new(error));
        let rested = self
            .changed
            .wait_timeout_while(progress, REST_AFTER_FAILURE, |progress| !progress.is_closing);
        progress = rested.unwrap_or_else(PoisonError::into_inner).0;
        progress.failure = None;
        progress.has_news = true;
    }

    /// The thread ends because of that.
    pub(crate) fn fail(&self, error: IndexError) {
        self.lock().failure = Some(Arc::new(error));
        self.tell_waiters();
    }

    fn tell_waiters(&self) {
        let waiters = std::mem::take(&mut self.lock().waiters);
        waiters.into_iter().for_each(|(_, reply)| reply(false));
    }
}
