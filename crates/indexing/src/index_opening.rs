//! Opening the indexes of a set: the directories of their files, handling of failures, reopening
//! and resetting.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use model::lower_case;
use platform::{Disk, Platform};
use script::ScriptPool;
use storage::{Environment, EnvironmentOptions};
use xxhash_rust::xxh64::xxh64;

use crate::{
    definition_format::DefinitionFormat,
    error::IndexError,
    index::{Index, IndexContext, IndexParts},
    index_change::IndexChange,
    index_event::{IndexEvent, OnEvent},
    index_files::{self, Beginning, IndexFiles},
    index_kind::{IndexKind, mapper_of},
    index_set::{IndexSet, IndexSetEvent},
    mapper::Mapper,
    output::Sweep,
    ownership::{Foreign, Sources},
    reopening::TaskKind,
    replacement::replaced_key,
};

/// Longer directory names are truncated and end with a hash; file systems allow 255 bytes.
const DIRECTORY_NAME_BYTES_MAX: usize = 200;

/// An opened index and its replacement.
pub(crate) struct OpenedPair {
    pub(crate) answering: Index,
    pub(crate) building: Option<Result<Index, IndexError>>,
}

impl IndexSet {
    /// The places of the files of an index and of its replacement.
    pub(crate) fn places_of(&self, key: &str) -> [PathBuf; 2] {
        let key = replaced_key(key).unwrap_or(key);
        index_files::places(&self.context.directory.join(directory_name(key)))
    }

    pub(crate) fn options_of(&self, place: &Path) -> EnvironmentOptions {
        let directory = place.to_path_buf();
        EnvironmentOptions { directory, ..self.context.environment.clone() }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.context.platform.disk.as_ref()
    }

    pub(crate) fn platform(&self) -> &Platform {
        &self.context.platform
    }

    /// The parent of the indexes' directories.
    pub(crate) fn directory(&self) -> &Path {
        &self.context.directory
    }

    pub(crate) fn definition_format(&self) -> DefinitionFormat {
        self.context.definition_format
    }

    pub(crate) fn scripts(&self) -> &ScriptPool {
        &self.context.scripts
    }

    /// Opens the files in a place, if there are any. Files that belong to other documents are
    /// deleted.
    pub(crate) fn open_place(&self, place: &Path) -> Result<Option<IndexFiles>, IndexError> {
        if !index_files::is_there(self.disk(), place)? {
            return Ok(None);
        }
        let files = IndexFiles::open(
            &self.context.platform,
            self.options_of(place),
            self.context.definition_format,
        )?;
        let sources =
            Sources { documents: &self.context.documents, values: self.context.values.as_ref() };
        let Some(foreign) = sources.refuse(&files.environment.read())? else {
            return Ok(Some(files));
        };
        let Foreign { because, documents_are_older } = &foreign;
        self.report(&IndexSetEvent::ForeignFiles {
            place,
            because,
            documents_are_older: *documents_are_older,
        });
        if *documents_are_older {
            self.note_older_documents();
        }
        self.empty_place(place, Some(files))?;
        Ok(None)
    }

    /// Deletes the files in a place, which may be open.
    pub(crate) fn empty_place(
        &self,
        place: &Path,
        files: Option<IndexFiles>,
    ) -> Result<(), IndexError> {
        files.into_iter().for_each(IndexFiles::close);
        index_files::delete(self.disk(), place)
    }

    /// Creates the files of an index.
    pub(crate) fn begin(
        &self,
        place: &Path,
        kind: &IndexKind,
        is_replacement: bool,
    ) -> Result<IndexFiles, IndexError> {
        let beginning = Beginning { is_replacement, ..self.beginning(kind)? };
        let (platform, format) = (&self.context.platform, self.context.definition_format);
        IndexFiles::begin(platform, self.options_of(place), format, kind, &beginning)
    }

    fn beginning(&self, kind: &IndexKind) -> Result<Beginning<'static>, IndexError> {
        let number = self.recorded_number(&lower_case(&kind.name()));
        Ok(Beginning { number, ..Beginning::at_end_of(&self.context.documents.read())? })
    }

    /// The number of an index in the record of the database; 0 if it has none.
    pub(crate) fn recorded_number(&self, key: &str) -> u64 {
        self.lock().numbers.get(key).copied().unwrap_or(0)
    }

    /// As [`IndexSet::begin`], replacing existing files only when the new ones are complete.
    fn begin_again(
        &self,
        place: &Path,
        kind: &IndexKind,
        is_replacement: bool,
        sweeps: &[Sweep],
    ) -> Result<IndexFiles, IndexError> {
        let beginning = Beginning { is_replacement, sweeps, ..self.beginning(kind)? };
        let (platform, format) = (&self.context.platform, self.context.definition_format);
        IndexFiles::begin_again(platform, self.options_of(place), format, kind, &beginning)
    }

    /// The files of an index, recreated when they have missed deletions.
    fn complete(
        &self,
        kind: &IndexKind,
        mapper: &dyn Mapper,
        files: IndexFiles,
    ) -> Result<IndexFiles, IndexError> {
        let documents = self.context.documents.read();
        match files.miss_deletions(mapper, &documents) {
            Ok(false) => Ok(files),
            Ok(true) => {
                let place = files.environment.options().directory.clone();
                let is_replacement = files.is_replacement;
                files.close();
                self.begin_again(&place, kind, is_replacement, &[])
            }
            Err(error) => {
                files.close();
                Err(error.into())
            }
        }
    }

    /// Opens an automatic index: its definition never changes.
    pub(crate) fn open_alone(
        &self,
        key: &str,
        name: &str,
        kind: &IndexKind,
    ) -> Result<OpenedPair, IndexError> {
        let [place, _] = self.places_of(key);
        let files = match self.open_place(&place)? {
            Some(files) if files.serves(kind) => files,
            other => {
                other.into_iter().for_each(IndexFiles::close);
                self.begin(&place, kind, false)?
            }
        };
        let answering = self.start(name, kind.clone(), files)?;
        Ok(OpenedPair { answering, building: None })
    }

    /// Starts an index on its files. They are closed when it cannot be started.
    pub(crate) fn start(
        &self,
        name: &str,
        kind: IndexKind,
        files: IndexFiles,
    ) -> Result<Index, IndexError> {
        let mapper = match mapper_of(&kind, &self.context.scripts) {
            Ok(mapper) => mapper,
            Err(error) => {
                files.close();
                return Err(error);
            }
        };
        let files = self.complete(&kind, mapper.as_ref(), files)?;
        let environment = Arc::clone(&files.environment);
        let on_event = self.on_event();
        let context = self.context_of(&environment);
        let parts = IndexParts { name: name.to_owned(), kind, files, on_event, items_max: None };
        let started = Index::start(parts, mapper, context);
        if started.is_err() {
            // What could not be flushed is still in the journal and is recovered from it.
            drop(environment.close());
        }
        started
    }

    fn context_of(&self, environment: &Environment) -> IndexContext {
        let context = &self.context;
        IndexContext {
            platform: context.platform.clone(),
            documents: Arc::clone(&context.documents),
            values: context.values.clone(),
            environment: environment.options().clone(),
            scripts: context.scripts.clone(),
            pool: context.pool.clone(),
            outputs: Arc::clone(&context.outputs),
            definition_format: context.definition_format,
        }
    }

    /// The listener for an index's events.
    fn on_event(&self) -> OnEvent {
        let (itself, report) = (Weak::clone(&self.itself), Arc::clone(&self.context.on_event));
        Box::new(move |name, event| match event {
            IndexEvent::Indexed(batch) => report(&IndexSetEvent::Indexed { index: name, batch }),
            IndexEvent::Changed(change) => report(&IndexSetEvent::Changed { index: name, change }),
            IndexEvent::CaughtUp => {
                if let Some(set) = itself.upgrade() {
                    set.swap_later(name);
                }
            }
            IndexEvent::Failed => {
                if let Some(set) = itself.upgrade() {
                    set.reopen_failed(name);
                }
            }
        })
    }

    /// Schedules the swap of a replacement that has caught up. Called on the indexing thread; the
    /// replacement may not be listed yet.
    fn swap_later(&self, name: &str) {
        if let Some(key) = replaced_key(&lower_case(name)) {
            self.schedule(key, TaskKind::Swap, Duration::ZERO);
        }
    }

    /// Schedules the reopening of a failed index. Called as [`IndexSet::swap_later`].
    fn reopen_failed(&self, name: &str) {
        let broken = self.get(name).and_then(|index| Some((index.failure()?, index)));
        if let Some((error, index)) = broken {
            self.reopen_later(&lower_case(name), index.name(), &error);
        }
    }

    /// Reopens an index that failed or could not be opened.
    pub(crate) fn reopen(&self, key: &str) {
        let _changing = self.change();
        let listed = self.lock();
        if listed.is_closed {
            return;
        }
        let (index, faulty) = (listed.indexes.get(key).cloned(), listed.faulty.get(key).cloned());
        drop(listed);
        let reopened = match (index, faulty) {
            (Some(index), _) if index.is_broken() => self.reopen_files(key, &index),
            (None, Some(faulty)) => self.open_faulty(key, &faulty.name, faulty.kind),
            (Some(_) | None, _) => return,
        };
        if let Ok(index) = reopened {
            self.report(&IndexSetEvent::Reopened { index: index.name() });
        }
    }

    fn reopen_files(&self, key: &str, index: &Index) -> Result<Arc<Index>, Arc<IndexError>> {
        self.unlist(key);
        let (name, kind) = (index.own_name(), index.kind().as_ref().clone());
        let place = index.environment().options().directory.clone();
        let is_replacement = index.is_replacement();
        index.close();
        let files = match self.open_place(&place) {
            Ok(Some(files)) if files.serves(&kind) => Ok(files),
            Ok(other) => {
                other.into_iter().for_each(IndexFiles::close);
                self.begin(&place, &kind, is_replacement)
            }
            Err(error) => Err(error),
        };
        let opened = files.and_then(|files| self.start(name, kind.clone(), files));
        self.list(key.to_owned(), name, kind, opened)
    }

    fn open_faulty(
        &self,
        key: &str,
        name: &str,
        kind: IndexKind,
    ) -> Result<Arc<Index>, Arc<IndexError>> {
        let Some(replaced) = replaced_key(key) else { return self.open_closed(key, name, kind) };
        let Some(old) = self.get(replaced) else {
            // Without an index to replace it is not a replacement: the record opens it.
            self.unlist(key);
            return self.open_closed(replaced, &kind.name(), kind);
        };
        self.unlist(key);
        let begun = self.begin_replacement(replaced, &old, &kind);
        self.list(key.to_owned(), old.own_name(), kind, begun)
    }

    /// Resets an index, which is then rebuilt. `None` when there is none of that name.
    ///
    /// # Errors
    ///
    /// As [`IndexSet::open`].
    pub fn reset(&self, name: &str) -> Option<Result<Arc<Index>, Arc<IndexError>>> {
        let _changing = self.change();
        let key = lower_case(name).into_owned();
        match self.unlist(&key) {
            (Some(index), _) => Some(self.reset_open(&key, &index)),
            (None, Some(faulty)) => {
                for place in self.places_of(&key) {
                    if let Err(error) = index_files::delete(self.disk(), &place) {
                        return Some(self.list(key, &faulty.name, faulty.kind, Err(error)));
                    }
                }
                Some(self.open_faulty(&key, &faulty.name, faulty.kind))
            }
            (None, None) => None,
        }
    }

    fn reset_open(&self, key: &str, index: &Index) -> Result<Arc<Index>, Arc<IndexError>> {
        let (name, kind) = (index.own_name(), index.kind().as_ref().clone());
        let place = index.environment().options().directory.clone();
        let is_replacement = index.is_replacement();
        // Unreadable files are deleted as well.
        let sweeps = index.sweeps_before_reset().unwrap_or_default();
        index.close();
        self.report_change(index.name(), IndexChange::Removed);
        let files = self.begin_again(&place, &kind, is_replacement, &sweeps);
        let opened = files.and_then(|files| self.start(name, kind.clone(), files));
        self.list(key.to_owned(), name, kind, opened)
    }
}

/// A directory name that is valid in every file system and unique for each key.
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
        assert!(long("a").len() < 230, "there is room for a suffix");
        assert_ne!(long("a"), long("b"));
    }
}
