//! An index in memory over a few documents, for querying a definition that is being written.
//!
//! It belongs to no set and writes nothing but its own entries: no outputs of a reduce, no files. Its files are in
//! memory, counted and bounded: an index that would have more ends there, and says so.

use std::sync::{Arc, Mutex, PoisonError};

use model::IndexDefinition;
use platform::{
    Platform,
    memory::{FileMemory, MemoryDisk},
};
use storage::{EnvironmentOptions, MemoryBudget, MemoryExhausted, MemoryShare, StorageError};

use crate::{
    error::IndexError,
    index::{Index, IndexContext, IndexParts},
    index_files::{Beginning, IndexFiles},
    index_kind::{IndexKind, mapper_of},
    index_set::IndexSet,
};

/// The maximum memory of its entries.
const UNFLUSHED_BYTES_MAX: u64 = 64 << 20;
const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// What its files may take in memory, journals included.
const FILES_BYTES_MAX: u64 = 64 << 20;
/// The root of its own disk contains nothing else.
const DIRECTORY: &str = "/trial";

/// An index in memory, see the module.
pub struct TrialIndex {
    index: Arc<Index>,
    files: Arc<TrialFiles>,
}

impl TrialIndex {
    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Why it does not get any further, if there is no memory for its files: of its own bound once it was
    /// exceeded, of what others hold as long as they do.
    pub fn refused(&self) -> Option<TrialRefusal> {
        self.files.lock().still_refused()
    }

    /// Why it failed, if memory for its files was refused, even if there is enough by now: it continues
    /// after a pause, and has failed until then.
    pub fn refusal_behind_failure(&self) -> Option<TrialRefusal> {
        let failure = self.index.failure()?;
        let refused = self.files.lock().refused;
        refused.filter(|_| failure.storage().is_some_and(is_disk_full))
    }
}

/// Whether an error says that the disk is full. A full disk in memory is memory that is missing.
fn is_disk_full(error: &StorageError) -> bool {
    match error {
        StorageError::Failed { reason } | StorageError::BuiltOnFailed { reason } => {
            is_disk_full(reason)
        }
        error => matches!(error, StorageError::DiskFull { .. }),
    }
}

/// Why an index in memory does not get any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialRefusal {
    /// Its files would take more than this many bytes.
    TooLarge(u64),
    /// Others have taken the memory.
    Exhausted(MemoryExhausted),
}

/// What its files take.
struct TrialFiles(Mutex<FilesShare>);

struct FilesShare {
    share: MemoryShare,
    /// The last refusal.
    refused: Option<TrialRefusal>,
    /// What the share should have held at the last refusal.
    wanted: u64,
}

impl FilesShare {
    fn still_refused(&self) -> Option<TrialRefusal> {
        match self.refused {
            Some(TrialRefusal::Exhausted(_)) => {
                let more = self.wanted.saturating_sub(self.share.bytes());
                let probe = self.share.budget().share(0).try_grow_to(more);
                probe.err().map(TrialRefusal::Exhausted)
            }
            refused => refused,
        }
    }
}

impl TrialFiles {
    fn lock(&self) -> std::sync::MutexGuard<'_, FilesShare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileMemory for TrialFiles {
    fn take(&self, bytes: u64) -> bool {
        let FilesShare { share, refused, wanted: last_wanted } = &mut *self.lock();
        let wanted = share.bytes().saturating_add(bytes);
        let taken = match wanted <= FILES_BYTES_MAX {
            true => share.try_grow_to(wanted).map_err(TrialRefusal::Exhausted),
            false => Err(TrialRefusal::TooLarge(FILES_BYTES_MAX)),
        };
        if let Err(refusal) = taken {
            (*refused, *last_wanted) = (Some(refusal), wanted);
        }
        taken.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let share = &mut self.lock().share;
        let left = share.bytes().saturating_sub(bytes);
        share.shrink_to(left);
    }
}

impl IndexSet {
    /// Starts an index of this definition over the oldest `items_max` items of each collection. It
    /// takes turns like all others, is not listed, and is deleted when it is dropped. What its
    /// files take is drawn from `memory`.
    ///
    /// # Errors
    ///
    /// [`IndexError::Definition`] when nothing can be indexed that way; others when there is no memory for
    /// it, or documents cannot be read.
    pub fn begin_trial(
        &self,
        definition: &IndexDefinition,
        items_max: usize,
        memory: &Arc<MemoryBudget>,
    ) -> Result<TrialIndex, IndexError> {
        let kind = IndexKind::Static(Box::new(IndexDefinition {
            state: None,
            priority: None,
            output_reduce_to_collection: None,
            pattern_for_output_reduce_to_collection_references: None,
            pattern_references_collection_name: None,
            ..definition.clone()
        }));
        let context = &self.context;
        let mapper = mapper_of(&kind, &context.scripts)?;
        let share = memory.share(0);
        let trial_files =
            Arc::new(TrialFiles(Mutex::new(FilesShare { share, refused: None, wanted: 0 })));
        let disk = Arc::new(MemoryDisk::within(Arc::clone(&trial_files) as _));
        let platform = Platform { disk, ..context.platform.clone() };
        let environment = EnvironmentOptions {
            directory: DIRECTORY.into(),
            unflushed_bytes_max: UNFLUSHED_BYTES_MAX,
            journal_bytes_max: JOURNAL_BYTES_MAX,
            ..context.environment.clone()
        };
        let beginning = Beginning::at_end_of(&context.documents.read())?;
        let format = context.definition_format;
        let files = IndexFiles::begin(&platform, environment.clone(), format, &kind, &beginning);
        let files = files.map_err(|error| match trial_files.lock().refused {
            Some(TrialRefusal::Exhausted(exhausted))
                if error.storage().is_some_and(is_disk_full) =>
            {
                StorageError::NoMemory(exhausted).into()
            }
            _ => error,
        })?;
        let parts = IndexParts {
            name: definition.name.clone(),
            kind,
            files,
            on_event: Box::new(|_, _| ()),
            items_max: Some(items_max),
        };
        let context = IndexContext {
            platform,
            documents: Arc::clone(&context.documents),
            values: context.values.clone(),
            environment,
            scripts: context.scripts.clone(),
            pool: context.pool.clone(),
            outputs: Arc::clone(&context.outputs),
            definition_format: format,
        };
        let index = Index::start(parts, mapper, context)?;
        index.notice_changes();
        Ok(TrialIndex { index: Arc::new(index), files: trial_files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_passes_and_stays_known() {
        let budget = MemoryBudget::new(1000);
        let mut others = budget.share(0);
        others.try_grow_to(900).unwrap();
        let share = FilesShare { share: budget.share(0), refused: None, wanted: 0 };
        let files = TrialFiles(Mutex::new(share));
        assert!(files.take(100) && !files.take(100));
        assert!(files.lock().still_refused().is_some());
        drop(others);
        let share = files.lock();
        assert_eq!(share.still_refused(), None);
        assert!(matches!(share.refused, Some(TrialRefusal::Exhausted(_))));
    }
}
