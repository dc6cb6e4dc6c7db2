//! The indexes of one database: which there are, where their files lie, and which of them answers a
//! query that names none.
//!
//! Invariant: names are unique in any case, and so are directories.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use model::lower_case;
use platform::Platform;
use script::ScriptPool;
use storage::{Environment, EnvironmentOptions};
use wire::{IndexState, RecordedIndexes};
use xxhash_rust::xxh64::xxh64;

use crate::{
    auto_definition::AutoIndexDefinition,
    error::IndexError,
    index::{Index, IndexContext, IndexKind, mapper_of},
};

/// Indexes of one database, at most.
pub const INDEXES_MAX: usize = 1_000;
/// Longer names of directories are cut and end with a hash; file systems take 255 bytes.
const DIRECTORY_NAME_BYTES_MAX: usize = 200;

/// Told of the environment of every index that is opened.
pub type OnOpen = Arc<dyn Fn(&Arc<Environment>) + Send + Sync>;

/// Where the indexes of a database live.
#[derive(Clone)]
pub struct IndexSetContext {
    /// Disk, time and randomness.
    pub platform: Platform,
    /// The documents.
    pub documents: Arc<Environment>,
    /// Above the directories of the indexes.
    pub directory: PathBuf,
    /// The limits of the storage of each; its directory is not used.
    pub environment: EnvironmentOptions,
    /// Brings journals to data files.
    pub on_open: OnOpen,
    /// Runs maps in JavaScript.
    pub scripts: ScriptPool,
}

/// An index that could not be opened. Its documents are safe: it can be reset or deleted.
#[derive(Clone, Debug)]
pub struct FaultyIndex {
    /// Its name.
    pub name: String,
    /// What it was to be made after.
    pub kind: IndexKind,
    /// Why it could not be opened.
    pub error: Arc<IndexError>,
}

/// See the module.
pub struct IndexSet {
    context: IndexSetContext,
    /// Held through opening, closing and deleting, so that each directory has one user.
    changing: Mutex<()>,
    listed: Mutex<Listed>,
}

/// By lower-cased name.
#[derive(Default)]
struct Listed {
    indexes: BTreeMap<String, Arc<Index>>,
    faulty: BTreeMap<String, FaultyIndex>,
    is_paused: bool,
    is_closed: bool,
}

/// What there is for a query that names no index.
pub enum AutoChoice {
    /// This one answers it.
    Answers(Arc<Index>),
    /// None does. One of this definition would, and would answer what `supersedes` answers too.
    Wanted {
        /// The definition to make.
        definition: AutoIndexDefinition,
        /// The index that it grew out of.
        supersedes: Option<Arc<Index>>,
    },
}

impl IndexSet {
    /// No index yet. It follows what the environment of the documents publishes.
    pub fn new(context: IndexSetContext) -> Arc<Self> {
        let documents = Arc::clone(&context.documents);
        let set = Arc::new(Self { context, changing: Mutex::default(), listed: Mutex::default() });
        let told = Arc::downgrade(&set);
        documents.on_published(move || {
            if let Some(set) = told.upgrade() {
                set.notice_changes();
            }
        });
        set
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an index can be made after this.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when it cannot.
    pub fn check(&self, kind: &IndexKind) -> Result<(), IndexError> {
        mapper_of(kind, &self.context.scripts).map(drop)
    }

    /// Opens the indexes that a record lists and are not open, and deletes those that it does not.
    /// Those that cannot be opened are kept as faulty.
    pub fn follow_record(&self, record: &RecordedIndexes) {
        let autos = record.auto_indexes.iter().map(|(name, shape)| {
            (name.clone(), IndexKind::Auto(AutoIndexDefinition::of_shape(shape)))
        });
        let statics = record.indexes.iter().map(|(name, definition)| {
            (name.clone(), IndexKind::Static(Box::new(definition.clone())))
        });
        let listed: BTreeMap<String, IndexKind> = autos.chain(statics).collect();
        let keys: BTreeSet<_> = listed.keys().map(|name| lower_case(name).into_owned()).collect();
        for name in self.names() {
            if !keys.contains(lower_case(&name).as_ref()) {
                // Files that stay behind are deleted when an index of that name comes again.
                drop(self.delete(&name));
            }
        }
        for (name, kind) in listed {
            // Why it could not be opened is kept with it.
            drop(self.open(&name, kind));
        }
    }

    fn names(&self) -> Vec<String> {
        let listed = self.lock();
        let open = listed.indexes.values().map(|index| index.name().to_owned());
        open.chain(listed.faulty.values().map(|faulty| faulty.name.clone())).collect()
    }

    /// Opens an index, or makes it. One of the same name and kind that is open already is given back;
    /// one that cannot be opened is kept as faulty.
    ///
    /// # Errors
    ///
    /// Why it cannot be an index, or could not be opened.
    pub fn open(&self, name: &str, kind: IndexKind) -> Result<Arc<Index>, Arc<IndexError>> {
        let _changing = self.change();
        let key = lower_case(name).into_owned();
        let old = {
            let mut listed = self.lock();
            if let Some(index) = listed.indexes.get(&key)
                && index.take_over(&kind)
            {
                return Ok(Arc::clone(index));
            }
            refuse_if_full(&listed)?;
            listed.faulty.remove(&key);
            listed.indexes.remove(&key)
        };
        // It lets go of the files first.
        if let Some(old) = old {
            old.close();
        }
        let opened = Index::open(name, kind.clone(), self.context_of(&key));
        let opened = opened.map(Arc::new).map_err(Arc::new);
        let mut listed = self.lock();
        match &opened {
            Ok(index) => {
                (self.context.on_open)(index.environment());
                if listed.is_paused {
                    index.pause();
                }
                listed.indexes.insert(key, Arc::clone(index));
            }
            Err(error) => {
                let (name, error) = (name.to_owned(), Arc::clone(error));
                listed.faulty.insert(key, FaultyIndex { name, kind, error });
            }
        }
        opened
    }

    fn context_of(&self, key: &str) -> IndexContext {
        let context = &self.context;
        let directory = context.directory.join(directory_name(key));
        IndexContext {
            platform: context.platform.clone(),
            documents: Arc::clone(&context.documents),
            environment: EnvironmentOptions { directory, ..context.environment.clone() },
            scripts: context.scripts.clone(),
        }
    }

    /// The index of that name, in any case.
    pub fn get(&self, name: &str) -> Option<Arc<Index>> {
        self.lock().indexes.get(lower_case(name).as_ref()).cloned()
    }

    /// All that are open, by name.
    pub fn all(&self) -> Vec<Arc<Index>> {
        self.lock().indexes.values().cloned().collect()
    }

    /// Those that could not be opened, by name.
    pub fn faulty(&self) -> Vec<FaultyIndex> {
        self.lock().faulty.values().cloned().collect()
    }

    /// Closes an index and deletes its files. `false` when there is none of that name.
    ///
    /// # Errors
    ///
    /// Those of the disk; the index is gone nevertheless.
    pub fn delete(&self, name: &str) -> Result<bool, IndexError> {
        let _changing = self.change();
        let key = lower_case(name).into_owned();
        let (index, faulty) = {
            let mut listed = self.lock();
            (listed.indexes.remove(&key), listed.faulty.remove(&key))
        };
        if index.is_none() && faulty.is_none() {
            return Ok(false);
        }
        if let Some(index) = index {
            index.close();
        }
        let directory = self.context_of(&key).environment.directory;
        match self.context.platform.disk.remove_dir_all(&directory) {
            Ok(()) => Ok(true),
            Err(source) => Err(IndexError::Directory { directory, source }),
        }
    }

    /// Empties an index and lets it begin anew. `None` when there is none of that name.
    ///
    /// # Errors
    ///
    /// As [`IndexSet::open`].
    pub fn reset(&self, name: &str) -> Option<Result<Arc<Index>, Arc<IndexError>>> {
        let key = lower_case(name).into_owned();
        let (name, kind) = {
            let listed = self.lock();
            match (listed.indexes.get(&key), listed.faulty.get(&key)) {
                (Some(index), _) => (index.name().to_owned(), index.kind().as_ref().clone()),
                (None, Some(faulty)) => (faulty.name.clone(), faulty.kind.clone()),
                (None, None) => return None,
            }
        };
        if let Err(error) = self.delete(&name) {
            return Some(Err(Arc::new(error)));
        }
        Some(self.open(&name, kind))
    }

    /// The automatic index that answers what `wanted` asks, or the one to make.
    pub fn choose_auto(&self, wanted: &AutoIndexDefinition) -> AutoChoice {
        let indexes = self.all();
        let over_the_same: Vec<_> = indexes
            .iter()
            .filter_map(|index| match index.kind().as_ref() {
                IndexKind::Auto(definition) if index.state() == IndexState::Normal => {
                    Some((index, definition.clone()))
                }
                IndexKind::Auto(_) | IndexKind::Static(_) => None,
            })
            .filter(|(_, definition)| definition.is_over_the_same_documents_as(wanted))
            .collect();
        let answering = over_the_same.iter().filter(|(_, definition)| definition.covers(wanted));
        // The one that is furthest, then the one with the most fields.
        let best =
            answering.max_by_key(|(index, definition)| (index.progress(), definition.width()));
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

    /// Tells every index that there may be changes.
    pub fn notice_changes(&self) {
        self.lock().indexes.values().for_each(|index| index.notice_changes());
    }

    /// Pauses every index, also those that come later.
    pub fn pause(&self) {
        let mut listed = self.lock();
        listed.is_paused = true;
        listed.indexes.values().for_each(|index| index.pause());
    }

    /// Resumes every index.
    pub fn resume(&self) {
        let mut listed = self.lock();
        listed.is_paused = false;
        listed.indexes.values().for_each(|index| index.resume());
    }

    /// Whether all are paused.
    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// Closes every index; none can be opened any more.
    pub fn close(&self) {
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
        "The database is being closed".to_owned()
    } else if INDEXES_MAX <= listed.indexes.len() {
        format!("A database has at most {INDEXES_MAX} indexes")
    } else {
        return Ok(());
    };
    Err(Arc::new(IndexError::Definition { message }))
}

/// A name that every file system takes, different for different keys.
fn directory_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() <= DIRECTORY_NAME_BYTES_MAX {
        return name;
    }
    // All of it is ASCII.
    name.truncate(DIRECTORY_NAME_BYTES_MAX);
    format!("{name}~{:016x}", xxh64(key.as_bytes(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_names_that_every_file_system_takes() {
        assert_eq!(directory_name("auto/users/byname"), "auto%2fusers%2fbyname");
        assert_eq!(directory_name("é.."), "%c3%a9%2e%2e");
        let long = |last: &str| directory_name(&format!("{}{last}", "x".repeat(400)));
        assert!(long("a").len() < 255);
        assert_ne!(long("a"), long("b"));
    }
}
