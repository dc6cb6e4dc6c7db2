//! The indexes of one database: which exist, where their files are, and which one answers a query
//! that names none.
//!
//! Invariants: names are unique without regard to case, and so are directories. Opening, closing
//! and deleting hold `changing`, so that each directory has one user.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cluster_state::ValueSource;
use model::{Etag, IndexState, RecordedIndexes, lower_case};
use platform::Platform;
use script::ScriptPool;
use storage::{Environment, EnvironmentOptions};

use crate::{
    auto_definition::AutoIndexDefinition,
    batch_log::IndexedBatch,
    definition_format::DefinitionFormat,
    error::IndexError,
    index::Index,
    index_change::IndexChange,
    index_files,
    index_kind::{IndexKind, mapper_of},
    index_opening::OpenedPair,
    indexing_pool::IndexingPool,
    output::{self, Flow, OutputQueue},
    reopening::{Reopenings, ScheduledTask, TaskKind},
    replacement::{replaced_key, replacement_key},
    static_definition::REPLACEMENT_PREFIX,
    turns::{Turn, Turns},
};

/// The maximum number of indexes of one database.
pub const INDEXES_MAX: usize = 1_000;
/// Called with the environment of every index that is opened.
pub type OnOpen = Arc<dyn Fn(&Arc<Environment>) + Send + Sync>;

/// The storage of a database's indexes and their sources.
#[derive(Clone)]
pub struct IndexSetContext {
    /// Disk, time and randomness.
    pub platform: Platform,
    /// The environment of the documents that all indexes follow.
    pub documents: Arc<Environment>,
    /// Compare exchange, if available.
    pub values: Option<ValueSource>,
    /// The parent of the indexes' directories.
    pub directory: PathBuf,
    /// The storage limits of each index; its directory is not used.
    pub environment: EnvironmentOptions,
    /// Registers environments for flushing.
    pub on_open: OnOpen,
    /// Runs maps in JavaScript.
    pub scripts: ScriptPool,
    /// The threads that index.
    pub pool: IndexingPool,
    /// Writes results as documents.
    pub outputs: Arc<dyn OutputQueue>,
    /// How definitions are stored in the files of indexes.
    pub definition_format: DefinitionFormat,
    /// Called for every event of an index.
    pub on_event: OnIndexEvent,
}

/// An event of the indexes of a database.
#[derive(Debug)]
pub enum IndexSetEvent<'e> {
    /// An index stopped, or could not be opened.
    Failed {
        /// Its name.
        index: &'e str,
        /// Why.
        error: &'e IndexError,
        /// When it will be reopened automatically; `None` when it will not.
        again_after: Option<Duration>,
    },
    /// A failed index was reopened.
    Reopened {
        /// Its name.
        index: &'e str,
    },
    /// Files of an index were made from other documents than those of the database, and were
    /// deleted. The index is rebuilt.
    ForeignFiles {
        /// The directory of the files.
        place: &'e Path,
        /// How this was detected.
        because: &'e str,
        /// Whether this proves that the documents lack transactions which they contained.
        documents_are_older: bool,
    },
    /// An index was created that has indexed nothing yet.
    Created {
        /// Its name.
        index: &'e str,
    },
    /// A replacement has taken the place of the previous index.
    Replaced {
        /// Its name.
        index: &'e str,
    },
    /// A batch of an index is committed. Called on the indexing thread: it must be quick.
    Indexed {
        /// Its name.
        index: &'e str,
        /// What the batch did.
        batch: IndexedBatch,
    },
    /// A change that listeners are notified of.
    Changed {
        /// Its name.
        index: &'e str,
        /// The change.
        change: IndexChange,
    },
}

/// A listener for events of indexes.
pub type OnIndexEvent = Arc<dyn Fn(&IndexSetEvent<'_>) + Send + Sync>;

/// An index that could not be opened. Its documents are safe: it can be reset or deleted.
#[derive(Clone, Debug)]
pub struct FaultyIndex {
    /// The name of the index.
    pub name: String,
    /// Its definition.
    pub kind: IndexKind,
    /// Why it could not be opened.
    pub error: Arc<IndexError>,
}

/// See the module.
pub struct IndexSet {
    /// A reference to itself, for scheduled tasks.
    pub(crate) itself: Weak<Self>,
    pub(crate) context: IndexSetContext,
    /// Held while opening, closing and deleting, so that each directory has one user.
    changing: Mutex<()>,
    /// Held while a definition is checked and opened, so that no two are accepted that conflict.
    defining: Turns,
    listed: Mutex<Listed>,
    /// Whether an index was found that had seen later documents than there are.
    documents_are_older: AtomicBool,
}

/// By lower-cased name.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) indexes: BTreeMap<String, Arc<Index>>,
    pub(crate) faulty: BTreeMap<String, FaultyIndex>,
    reopenings: BTreeMap<String, Reopenings>,
    /// The keys of the indexes in the record; `None` before it is first followed.
    pub(crate) recorded: Option<BTreeSet<String>>,
    /// The numbers of the indexes in the record.
    pub(crate) numbers: BTreeMap<String, u64>,
    /// The keys of those whose places may have files of an earlier index.
    pub(crate) unclean: BTreeSet<String>,
    is_paused: bool,
    is_disabled: bool,
    pub(crate) is_closed: bool,
}

/// The index for a query that names none.
pub enum AutoChoice {
    /// This index can answer it.
    Answers(Arc<Index>),
    /// No index can. One of this definition could, and could also answer the queries of
    /// `supersedes`.
    Wanted {
        /// The definition to create.
        definition: AutoIndexDefinition,
        /// The index that it extends.
        supersedes: Option<Arc<Index>>,
    },
}

impl IndexSet {
    /// Creates an empty set. It follows what the environment of the documents publishes.
    pub fn new(context: IndexSetContext) -> Arc<Self> {
        let documents = Arc::clone(&context.documents);
        let set = Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            context,
            changing: Mutex::default(),
            defining: Turns::new(1),
            listed: Mutex::default(),
            documents_are_older: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&set);
        documents.on_published(move || {
            if let Some(set) = weak.upgrade() {
                set.notice_changes();
            }
        });
        set
    }

    /// Whether an index has proved, since the database was opened, that the documents lack transactions which
    /// they contained. That index was rebuilt.
    pub fn documents_are_older(&self) -> bool {
        self.documents_are_older.load(Ordering::Relaxed)
    }

    pub(crate) fn note_older_documents(&self) {
        self.documents_are_older.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only turn to define an index here: what [`IndexSet::check`] returns holds until it is dropped. `None` if
    /// others take longer than that. Blocks.
    pub fn begin_defining(&self, wait_max: Duration) -> Option<Turn<'_>> {
        self.defining.take(wait_max)
    }

    /// Checks whether an index of this definition can be created. If its name is new, removes files that a deleted
    /// index of the name left: once the definition is recorded, they would be taken for those that it replaces.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when it cannot, [`IndexError::Invalid`] when its outputs cannot
    /// be written, [`IndexError::Directory`] when the files cannot be removed.
    pub fn check(&self, kind: &IndexKind) -> Result<(), IndexError> {
        let mapper = mapper_of(kind, &self.context.scripts)?;
        self.clean_for(&lower_case(&kind.name()))?;
        let Some(target) = kind.output_target()? else { return Ok(()) };
        let name = kind.name();
        let flow = Flow::of(&name, mapper.as_ref(), Some(&target));
        let (same, others): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|index| index.own_name().eq_ignore_ascii_case(&name));
        let mut others: Vec<_> = others.iter().map(|index| index.flow()).collect();
        for faulty in self.faulty().iter().filter(|faulty| faulty.kind.name() != name) {
            if let Ok(mapper) = mapper_of(&faulty.kind, &self.context.scripts) {
                let target = faulty.kind.output_target().ok().flatten();
                others.push(Flow::of(&faulty.name, mapper.as_ref(), target.as_ref()));
            }
        }
        let documents = self.context.documents.read();
        let before = same.iter().filter_map(|index| index.output_collection());
        let before: Vec<_> = before.collect();
        output::check(&flow, &others, &before, &documents)
    }

    /// Opens the indexes in a record that are not open, and deletes those that are not in it. Those
    /// that cannot be opened are kept as faulty. The first time, files of other indexes are removed.
    pub fn follow_record(&self, record: &RecordedIndexes) {
        let autos = record.auto_indexes.iter().map(|(name, shape)| {
            (name.clone(), IndexKind::Auto(AutoIndexDefinition::of_shape(shape)))
        });
        let statics = record.indexes.iter().map(|(name, definition)| {
            (name.clone(), IndexKind::Static(Box::new(definition.clone())))
        });
        let listed: BTreeMap<String, IndexKind> = autos.chain(statics).collect();
        let keys: BTreeSet<_> = listed.keys().map(|name| lower_case(name).into_owned()).collect();
        let numbers = record.index_numbers.iter();
        let numbers: BTreeMap<_, _> =
            numbers.map(|(name, number)| (lower_case(name).into_owned(), *number)).collect();
        for name in self.names() {
            let key = lower_case(&name);
            let key = replaced_key(&key).unwrap_or(&key);
            // Several changes of the record may have been made since.
            let is_another = numbers.get(key).copied().unwrap_or(0) != self.recorded_number(key);
            if is_another || !keys.contains(key) {
                // Remaining files are deleted when the database is opened, or an index of that name is
                // created again.
                drop(self.delete(&name));
            }
        }
        self.note_recorded(&keys, numbers);
        for (name, kind) in listed {
            // The reason is kept with the faulty index.
            drop(self.open(&name, kind));
        }
    }

    fn names(&self) -> Vec<String> {
        let listed = self.lock();
        let open = listed.indexes.values().map(|index| index.name().to_owned());
        open.chain(listed.faulty.values().map(|faulty| faulty.name.clone())).collect()
    }

    /// Opens or creates an index, and returns the one that answers queries. An index of that name
    /// with another definition continues to answer until the new one has caught up. What cannot be
    /// opened is kept as faulty.
    ///
    /// # Errors
    ///
    /// When the definition is invalid or the files could not be opened.
    pub fn open(&self, name: &str, kind: IndexKind) -> Result<Arc<Index>, Arc<IndexError>> {
        let _changing = self.change();
        self.open_changing(name, kind)
    }

    /// The same, for a caller that holds [`IndexSet::change`].
    fn open_changing(&self, name: &str, kind: IndexKind) -> Result<Arc<Index>, Arc<IndexError>> {
        let key = lower_case(name).into_owned();
        match self.get(&key) {
            Some(index) => self.follow_definition(&key, &index, kind).map(|()| index),
            None => self.open_closed(&key, name, kind),
        }
    }

    /// Tries again to open a faulty index, by its present definition. `None` when no index of that
    /// name is faulty.
    ///
    /// # Errors
    ///
    /// As [`IndexSet::open`].
    pub fn reopen_faulty(&self, name: &str) -> Result<Option<Arc<Index>>, Arc<IndexError>> {
        // Held since before the look-up: an index that is deleted meanwhile must not come back.
        let _changing = self.change();
        let Some(faulty) = self.faulty_named(name) else { return Ok(None) };
        let name = faulty.kind.name();
        self.open_changing(&name, faulty.kind).map(Some)
    }

    /// Applies a definition to an open index.
    fn follow_definition(
        &self,
        key: &str,
        index: &Index,
        kind: IndexKind,
    ) -> Result<(), Arc<IndexError>> {
        if index.adopt_definition(&kind) {
            return self.drop_replacement(key).map(drop).map_err(Arc::new);
        }
        index.adopt_settings(&kind);
        let building = replacement_key(key);
        if self.get(&building).is_some_and(|building| building.adopt_definition(&kind)) {
            return Ok(());
        }
        self.drop_replacement(key).map_err(Arc::new)?;
        refuse_if_full(&self.lock())?;
        let begun = self.begin_replacement(key, index, &kind);
        self.list(building, index.own_name(), kind, begun).map(drop)
    }

    /// Opens an index that is not open, and its replacement.
    pub(crate) fn open_closed(
        &self,
        key: &str,
        name: &str,
        kind: IndexKind,
    ) -> Result<Arc<Index>, Arc<IndexError>> {
        refuse_if_full(&self.lock())?;
        self.unlist(key);
        let opened = self.clean_if_new(key).and_then(|()| match &kind {
            IndexKind::Auto(_) => self.open_alone(key, name, &kind),
            IndexKind::Static(_) => self.open_pair(key, name, &kind),
        });
        match opened {
            Ok(OpenedPair { answering, building }) => {
                if let Some(building) = building {
                    // The reason is kept with the faulty index.
                    drop(self.list(replacement_key(key), name, kind.clone(), building));
                }
                self.list(key.to_owned(), name, kind, Ok(answering))
            }
            Err(error) => self.list(key.to_owned(), name, kind, Err(error)),
        }
    }

    /// Lists an index, or the reason why it is not open.
    pub(crate) fn list(
        &self,
        key: String,
        name: &str,
        kind: IndexKind,
        opened: Result<Index, IndexError>,
    ) -> Result<Arc<Index>, Arc<IndexError>> {
        let opened = opened.map(Arc::new).map_err(Arc::new);
        let mut listed = self.lock();
        match &opened {
            Ok(index) => {
                (self.context.on_open)(index.environment());
                if listed.is_disabled {
                    index.disable_by_setting();
                }
                if listed.is_paused {
                    index.pause();
                }
                // Before a query can find and index with it.
                self.report_change(index.name(), IndexChange::Added);
                if index.progress() == Etag::ZERO {
                    (self.context.on_event)(&IndexSetEvent::Created { index: index.name() });
                }
                listed.indexes.insert(key, Arc::clone(index));
                drop(listed);
                index.notice_changes();
            }
            Err(error) => {
                let name = match replaced_key(&key) {
                    Some(_) => format!("{REPLACEMENT_PREFIX}{name}"),
                    None => name.to_owned(),
                };
                let faulty = FaultyIndex { name: name.clone(), kind, error: Arc::clone(error) };
                listed.faulty.insert(key.clone(), faulty);
                drop(listed);
                self.reopen_later(&key, &name, error);
            }
        }
        opened
    }

    /// Removes an index from the list.
    pub(crate) fn unlist(&self, key: &str) -> (Option<Arc<Index>>, Option<FaultyIndex>) {
        let mut listed = self.lock();
        (listed.indexes.remove(key), listed.faulty.remove(key))
    }

    /// Lists a replacement under that key, and returns the index that it replaces.
    pub(crate) fn list_in_place(&self, key: &str, new: &Arc<Index>) -> Option<Arc<Index>> {
        let mut listed = self.lock();
        listed.indexes.remove(&replacement_key(key));
        listed.faulty.remove(key);
        listed.indexes.insert(key.to_owned(), Arc::clone(new))
    }

    /// Schedules a task on a thread of the pool.
    pub(crate) fn schedule(&self, key: &str, what: TaskKind, rest: Duration) {
        let chore = ScheduledTask { set: Weak::clone(&self.itself), key: key.to_owned(), what };
        self.context.pool.enqueue_after(rest, Arc::new(chore));
    }

    pub(crate) fn next_pause(&self, key: &str) -> Option<Duration> {
        let now = self.context.platform.clock.monotonic();
        self.lock().reopenings.entry(key.to_owned()).or_default().next_pause(now)
    }

    pub(crate) fn report(&self, event: &IndexSetEvent<'_>) {
        (self.context.on_event)(event);
    }

    pub(crate) fn report_change(&self, index: &str, change: IndexChange) {
        self.report(&IndexSetEvent::Changed { index, change });
    }

    /// Whether the index is open and has not failed.
    pub(crate) fn is_open_and_well(&self, key: &str) -> bool {
        self.get(key).is_some_and(|index| !index.is_broken())
    }

    /// The index of that name, without regard to case.
    pub fn get(&self, name: &str) -> Option<Arc<Index>> {
        self.lock().indexes.get(lower_case(name).as_ref()).cloned()
    }

    /// All open indexes, by name.
    pub fn all(&self) -> Vec<Arc<Index>> {
        self.lock().indexes.values().cloned().collect()
    }

    /// The faulty index of that name, without regard to case.
    pub fn faulty_named(&self, name: &str) -> Option<FaultyIndex> {
        self.lock().faulty.get(lower_case(name).as_ref()).cloned()
    }

    /// All faulty indexes, by name.
    pub fn faulty(&self) -> Vec<FaultyIndex> {
        self.lock().faulty.values().cloned().collect()
    }

    /// Closes an index and its replacement, and deletes their files. `false` when there is none of
    /// that name.
    ///
    /// # Errors
    ///
    /// Disk errors; the index is deleted nevertheless.
    pub fn delete(&self, name: &str) -> Result<bool, IndexError> {
        let _changing = self.change();
        let key = lower_case(name).into_owned();
        if let Some(replaced) = replaced_key(&key) {
            return self.drop_replacement(replaced);
        }
        let dropped = self.drop_replacement(&key);
        let (index, faulty) = self.unlist(&key);
        if index.is_none() && faulty.is_none() {
            return Ok(false);
        }
        if let Some(index) = index {
            index.close();
            self.report_change(index.name(), IndexChange::Removed);
        }
        for place in self.places_of(&key) {
            index_files::delete(self.disk(), &place)?;
        }
        dropped.map(|_| true)
    }

    /// The automatic index that can answer `wanted`, or the definition of one to create.
    pub fn choose_auto(&self, wanted: &AutoIndexDefinition) -> AutoChoice {
        let indexes = self.all();
        let over_the_same: Vec<_> = indexes
            .iter()
            .filter_map(|index| match index.kind().as_ref() {
                IndexKind::Auto(definition) if index.answers() => Some((index, definition.clone())),
                IndexKind::Auto(_) | IndexKind::Static(_) => None,
            })
            .filter(|(_, definition)| definition.is_over_the_same_documents_as(wanted))
            .collect();
        let answering = over_the_same.iter().filter(|(_, definition)| definition.covers(wanted));
        // Prefers an index that is not idle, then the most advanced one, then the one with the most
        // fields.
        let best = answering.max_by_key(|(index, definition)| {
            let is_awake = index.state() == IndexState::Normal;
            (is_awake, index.progress(), definition.width())
        });
        if let Some((index, _)) = best {
            return AutoChoice::Answers(Arc::clone(index));
        }
        let widest = over_the_same.iter().max_by_key(|(_, definition)| definition.width());
        match widest {
            None => AutoChoice::Wanted { definition: wanted.clone(), supersedes: None },
            Some((index, definition)) => AutoChoice::Wanted {
                definition: definition.extended_by(wanted),
                supersedes: Some(Arc::clone(index)),
            },
        }
    }

    /// The position up to which every index that reads compare exchange has seen its changes;
    /// `None` when there is none. That of a faulty index is unknown.
    pub fn values_seen(&self) -> Option<u64> {
        // Holding the lock, no index is between two lists or about to be reopened.
        let _changing = self.change();
        let listed = self.lock();
        if listed.is_closed {
            return Some(0);
        }
        let reading = listed.indexes.values().filter(|index| index.reads_values());
        let seen = reading.map(|index| index.record().last_value);
        seen.chain(listed.faulty.values().map(|_| 0)).min()
    }

    /// Notifies every index that there may be changes.
    pub fn notice_changes(&self) {
        self.lock().indexes.values().for_each(|index| index.notice_changes());
    }

    /// Pauses every index, including later ones.
    pub fn pause(&self) {
        let mut listed = self.lock();
        listed.is_paused = true;
        listed.indexes.values().for_each(|index| index.pause());
    }

    /// Resumes every index that was paused.
    pub fn resume(&self) {
        let mut listed = self.lock();
        listed.is_paused = false;
        listed.indexes.values().for_each(|index| index.resume());
    }

    /// Whether all are paused.
    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// Disables all indexes, including later ones, whatever their definitions say.
    pub fn disable(&self) {
        let mut listed = self.lock();
        listed.is_disabled = true;
        listed.indexes.values().for_each(|index| index.disable_by_setting());
    }

    /// Whether all are disabled.
    pub fn is_disabled(&self) -> bool {
        self.lock().is_disabled
    }

    /// Closes every index; none can be opened afterwards.
    pub fn close(&self) {
        let _changing = self.change();
        let indexes = {
            let mut listed = self.lock();
            listed.is_closed = true;
            std::mem::take(&mut listed.indexes)
        };
        indexes.values().for_each(|index| index.close());
    }
}

impl Drop for IndexSet {
    fn drop(&mut self) {
        self.close();
    }
}

fn refuse_if_full(listed: &Listed) -> Result<(), Arc<IndexError>> {
    let message = if listed.is_closed {
        "The database is closing".to_owned()
    } else if INDEXES_MAX <= listed.indexes.len() {
        format!("A database has at most {INDEXES_MAX} indexes")
    } else {
        return Ok(());
    };
    Err(Arc::new(IndexError::Definition { message }))
}
