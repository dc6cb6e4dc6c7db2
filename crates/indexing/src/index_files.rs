//! The files of an index on disk: their owner, and how they are created, replaced and deleted.
//!
//! An index has two places for its files, so that a replacement can be built side by side with the
//! current index. The files themselves say which place belongs to which:
//!
//! ```text
//! <name>      <name>~2      files of one index: an environment
//!   tree `Index`
//!     Definition            `auto <name>`, or a written definition in its `definition_format`
//!     LastQuery             when it was last asked, ticks, i64 little-endian; may be missing
//!     BeganAt               the last etag of the database then, u64 little-endian; may be missing
//!     Number                of the index in the record of the database, u64 little-endian; may be missing
//!     Replacement           there while the index is to take the place of the other one
//! <name>~gone <name>~2~gone files that are being deleted
//! <name>~new  <name>~2~new  files that take the place of others, or do not when those are still there
//! <name>~new~gone           such files of a deleted index, which are being deleted; also with ~2
//! ```
//!
//! Invariant: at every moment, whatever is interrupted, the database record and these keys
//! determine which files are current, which are being built, and which are leftovers.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use model::{Etag, IndexDefinition, lower_case};
use platform::{Disk, Platform};
use storage::{Environment, EnvironmentOptions, Transaction};

use crate::{
    definition_format::DefinitionFormat,
    error::IndexError,
    index_kind::IndexKind,
    index_record::{self, IndexRecord},
    mapper::Mapper,
    output::{self, Sweep},
};

/// The suffix of the second place.
const SECOND: &str = "~2";
/// The suffix of a place whose files are being deleted.
const GONE: &str = "~gone";
/// The suffix of new files that will replace those in a place.
const NEW: &str = "~new";
/// The prefix of an automatic index's definition.
const AUTO: &str = "auto ";

/// The open files of one index.
pub(crate) struct IndexFiles {
    pub(crate) environment: Arc<Environment>,
    pub(crate) record: IndexRecord,
    /// Whether the index is to replace another.
    pub(crate) is_replacement: bool,
    /// When the index was last queried; 0 when not recorded.
    pub(crate) last_query_ticks: i64,
    /// The last etag of the database when the index was created: it has read nothing older.
    pub(crate) began_at: Etag,
    /// The number of the index in the record of the database; 0 when it had none.
    pub(crate) number: u64,
    /// The index that they belong to; `None` when they are new, or of an unknown format.
    pub(crate) owner: Option<Owner>,
    /// Whether they were just created.
    pub(crate) is_new: bool,
}

/// The initial content of files.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beginning<'s> {
    /// The last etag of the database.
    pub(crate) began_at: Etag,
    /// The number of the index in the record of the database.
    pub(crate) number: u64,
    /// Whether the index is to replace another.
    pub(crate) is_replacement: bool,
    /// The sweeps to run.
    pub(crate) sweeps: &'s [Sweep],
}

impl Beginning<'_> {
    /// For an index that has not read these documents yet.
    pub(crate) fn at_end_of(documents: &impl Transaction) -> Result<Self, IndexError> {
        let began_at = documents::progress(documents)?.last_etag;
        Ok(Self { began_at, ..Self::default() })
    }
}

/// The index that files say they belong to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owner {
    /// An automatic index.
    Auto(String),
    /// A static index; without its lock, priority and state.
    Static(Box<IndexDefinition>),
}

impl Owner {
    fn of(kind: &IndexKind) -> Self {
        match kind {
            IndexKind::Auto(definition) => Self::Auto(definition.name()),
            IndexKind::Static(definition) => {
                let mut deciding = definition.clone();
                (deciding.lock_mode, deciding.priority, deciding.state) = (None, None, None);
                Self::Static(deciding)
            }
        }
    }

    fn read(bytes: &[u8], format: DefinitionFormat) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        match text.strip_prefix(AUTO) {
            Some(name) => Some(Self::Auto(name.to_owned())),
            None => Some(Self::Static(Box::new((format.read)(text)?))),
        }
    }

    fn write(&self, format: DefinitionFormat) -> String {
        match self {
            Self::Auto(name) => format!("{AUTO}{name}"),
            Self::Static(definition) => (format.write)(definition),
        }
    }

    /// Whether the files belong to that index, with an older definition.
    pub(crate) fn is_older_than(&self, kind: &IndexKind) -> bool {
        match (self, kind) {
            (Self::Static(own), IndexKind::Static(definition)) => {
                lower_case(&own.name) == lower_case(&definition.name)
            }
            (Self::Static(_) | Self::Auto(_), IndexKind::Static(_) | IndexKind::Auto(_)) => false,
        }
    }

    /// The name of the index.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Auto(name) => name,
            Self::Static(definition) => &definition.name,
        }
    }

    /// Whether files of this index can be used for the other.
    fn serves(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Auto(own), Self::Auto(other)) => own == other,
            (Self::Static(own), Self::Static(other)) => own.has_the_same_entries_as(other),
            (Self::Auto(_), Self::Static(_)) | (Self::Static(_), Self::Auto(_)) => false,
        }
    }
}

impl IndexFiles {
    /// Opens files, or creates new ones without an owner.
    pub(crate) fn open(
        platform: &Platform,
        options: EnvironmentOptions,
        format: DefinitionFormat,
    ) -> Result<Self, IndexError> {
        let environment = Environment::open(platform, options)?;
        let tx = environment.read();
        let definition = index_record::read_definition(&tx)?;
        let owner = definition.and_then(|definition| Owner::read(&definition, format));
        let record = index_record::read_record(&tx)?;
        let is_replacement = index_record::read_is_replacement(&tx)?;
        let last_query_ticks = index_record::read_last_query(&tx)?;
        let began_at = index_record::read_began_at(&tx)?;
        let number = index_record::read_number(&tx)?;
        drop(tx);
        Ok(Self {
            environment,
            record,
            is_replacement,
            last_query_ticks,
            began_at,
            number,
            owner,
            is_new: false,
        })
    }

    /// Opens the files of an index. Files of another index, and files that have missed deletions of
    /// these documents, are deleted first.
    pub(crate) fn open_for(
        platform: &Platform,
        options: EnvironmentOptions,
        format: DefinitionFormat,
        (kind, mapper): (&IndexKind, &dyn Mapper),
        documents: &impl Transaction,
    ) -> Result<Self, IndexError> {
        let files = Self::open(platform, options.clone(), format)?;
        if files.serves(kind) && !files.miss_deletions(mapper, documents)? {
            return Ok(files);
        }
        files.close();
        let beginning = Beginning::at_end_of(documents)?;
        Self::begin(platform, options, format, kind, &beginning)
    }

    /// Creates the files of an index.
    pub(crate) fn begin(
        platform: &Platform,
        options: EnvironmentOptions,
        format: DefinitionFormat,
        kind: &IndexKind,
        beginning: &Beginning<'_>,
    ) -> Result<Self, IndexError> {
        let Beginning { began_at, number, is_replacement, sweeps } = *beginning;
        delete(&*platform.disk, &options.directory)?;
        let environment = Environment::open(platform, options)?;
        let created_ticks = platform.clock.now().ticks();
        let record = IndexRecord { created_ticks, ..IndexRecord::default() };
        let owner = Owner::of(kind);
        let mut tx = environment.write()?;
        index_record::write_definition(&mut tx, owner.write(format).as_bytes())?;
        index_record::write_record(&mut tx, &record)?;
        index_record::write_is_replacement(&mut tx, is_replacement)?;
        index_record::write_began_at(&mut tx, began_at)?;
        index_record::write_number(&mut tx, number)?;
        // Previous files may have written outputs that are no longer recorded.
        let target = kind.output_target()?.filter(|_| !is_replacement);
        let own = target.map(|target| target.sweep_before(target.number()));
        for sweep in sweeps.iter().chain(&own) {
            output::add_sweep(&mut tx, sweep)?;
        }
        tx.commit()?;
        Ok(Self {
            environment,
            record,
            is_replacement,
            last_query_ticks: 0,
            began_at,
            number,
            owner: Some(owner),
            is_new: true,
        })
    }

    /// As [`IndexFiles::begin`], replacing existing files only when the new ones are complete.
    pub(crate) fn begin_again(
        platform: &Platform,
        options: EnvironmentOptions,
        format: DefinitionFormat,
        kind: &IndexKind,
        beginning: &Beginning<'_>,
    ) -> Result<Self, IndexError> {
        let (disk, place) = (&*platform.disk, options.directory.clone());
        let new_place =
            EnvironmentOptions { directory: with_suffix(&place, NEW), ..options.clone() };
        Self::begin(platform, new_place, format, kind, beginning)?.close();
        delete_files(disk, &place)?;
        is_there(disk, &place)?;
        Self::open(platform, options, format)
    }

    /// Whether they can be used for this index.
    pub(crate) fn serves(&self, kind: &IndexKind) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.serves(&Owner::of(kind)))
    }

    /// Whether nothing was ever written to them.
    pub(crate) fn is_blank(&self) -> bool {
        self.environment.read().id() == 0
    }

    /// Lets go of them.
    pub(crate) fn close(self) {
        // What could not be flushed is still in the journal and is recovered from it.
        drop(self.environment.close());
    }
}

/// Records durably in its files that an index has replaced another, and schedules these sweeps.
pub(crate) fn end_replacement(
    environment: &Arc<Environment>,
    sweeps: &[Sweep],
) -> Result<(), IndexError> {
    let mut tx = environment.write()?;
    index_record::write_is_replacement(&mut tx, false)?;
    for sweep in sweeps {
        output::add_sweep(&mut tx, sweep)?;
    }
    Ok(tx.commit()?)
}

/// Stores when an index was last queried, unless already stored.
pub(crate) fn keep_last_query(
    environment: &Arc<Environment>,
    ticks: i64,
) -> Result<(), IndexError> {
    if index_record::read_last_query(&environment.read())? == ticks {
        return Ok(());
    }
    let mut tx = environment.write()?;
    index_record::write_last_query(&mut tx, ticks)?;
    Ok(tx.commit()?)
}

/// The two places of an index's files; the first is `directory`.
pub(crate) fn places(directory: &Path) -> [PathBuf; 2] {
    [directory.to_path_buf(), with_suffix(directory, SECOND)]
}

/// Deletes the files in a place. A power cut leaves all of them, or none under that name.
pub(crate) fn delete(disk: &dyn Disk, place: &Path) -> Result<(), IndexError> {
    let new = disk.remove_dir_all(&with_suffix(place, NEW));
    new.map_err(|source| failed(place, source))?;
    delete_files(disk, place)
}

/// As [`delete`], but keeps new files for the place.
pub(crate) fn delete_files(disk: &dyn Disk, place: &Path) -> Result<(), IndexError> {
    let gone = with_suffix(place, GONE);
    let delete = || {
        disk.remove_dir_all(&gone)?;
        if disk.exists(place)? {
            disk.rename(place, &gone)?;
            disk.sync_dir(place.parent().unwrap_or(Path::new("")))?;
            disk.remove_dir_all(&gone)?;
        }
        Ok(())
    };
    delete().map_err(|source| failed(place, source))
}

/// Completes an interrupted deletion or replacement, and returns whether the place has files.
pub(crate) fn is_there(disk: &dyn Disk, place: &Path) -> Result<bool, IndexError> {
    let new = with_suffix(place, NEW);
    let look = || {
        disk.remove_dir_all(&with_suffix(place, GONE))?;
        if disk.exists(place)? {
            disk.remove_dir_all(&new)?;
            return Ok(true);
        }
        if disk.exists(&new)? {
            disk.rename(&new, place)?;
            disk.sync_dir(place.parent().unwrap_or(Path::new("")))?;
            return Ok(true);
        }
        Ok(false)
    };
    look().map_err(|source| failed(place, source))
}

/// The name of the place that a directory of this name belongs to; `None` when no index has such a directory.
pub(crate) fn place_of(name: &str) -> Option<&str> {
    let place = name.strip_suffix(GONE).unwrap_or(name);
    let place = place.strip_suffix(NEW).unwrap_or(place);
    let is_of_place =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_%~".contains(&byte);
    (!place.is_empty() && place.bytes().all(is_of_place)).then_some(place)
}

/// Whether a directory of this name has files that are being deleted.
pub(crate) fn is_being_deleted(name: &str) -> bool {
    name.ends_with(GONE)
}

/// Deletes a directory whose files are being deleted.
pub(crate) fn finish_deletion(disk: &dyn Disk, path: &Path) -> Result<(), IndexError> {
    disk.remove_dir_all(path).map_err(|source| failed(path, source))
}

fn failed(place: &Path, source: io::Error) -> IndexError {
    IndexError::Directory { directory: place.to_path_buf(), source }
}

fn with_suffix(directory: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(directory.file_name().unwrap_or_default());
    name.push(suffix);
    directory.with_file_name(name)
}
