//! Which directories a record may name, and which of them a new database may use.
//!
//! A record comes from a client, and with `DataDir` or `Storage.JournalsPath` it names places on the
//! server's disks. Invariants: they lie below the data directory, or below a directory that the operator
//! has allowed in the configuration; no two databases share one, not even in part; and a new database
//! begins in empty ones, unless it takes over what a deleted database of its name has left there.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use database::{CatalogError, DatabaseOptions, foreign_product};
use model::{DatabaseName, DatabaseRecord};
use platform::Disk;
use storage::environment_id_in;

use crate::{
    database_files::{DATABASES_DIRECTORY, SYSTEM_DIRECTORY},
    engine::Engine,
    error::EngineError,
};

/// The setting by which an operator allows more.
const ALLOWED: &str = "Databases.AllowedDirectories";

impl Engine {
    /// Rejects directories that a record must not name. `settings` are those of the record that is to be written.
    ///
    /// # Errors
    /// With the directory and what to do.
    pub(crate) fn check_named_directories(
        &self,
        name: &DatabaseName,
        settings: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let named = self.files.named_directories(settings);
        let stored = self.catalog.record(name.as_str());
        // A directory that an earlier version accepted is not rejected when a client sends the
        // record back.
        let named_by = |stored: &DatabaseRecord| {
            self.files.named_directories(&wire::sections_of(&stored.configuration).settings)
        };
        if stored.is_some_and(|stored| named_by(&stored) == named) {
            return Ok(());
        }
        for directory in &named {
            check_place(self, directory)?;
        }
        let own = self.files.options_with(name, settings);
        if own.is_in_memory {
            return Ok(());
        }
        let own_directories = directories(&own);
        for record in self.catalog.records() {
            let is_other = record.name != *name;
            // Default directories are named after their database, so they cannot overlap.
            let may_meet = !named.is_empty() || self.files.names_directories(&record);
            if !is_other || !may_meet {
                continue;
            }
            let others = directories(&self.files.options_of(&record));
            let meeting = own_directories.iter().find(|own| {
                others.iter().any(|other| own.starts_with(other) || other.starts_with(own))
            });
            if let Some(directory) = meeting {
                let (directory, other) = (directory.display(), record.name.as_str());
                return Err(refused(format!(
                    "The directory {directory} would be shared with the database '{other}'. Name one \
                 that is for '{}' alone.",
                    name.as_str()
                )));
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Checks the directories that a new database with these settings is to use. Returns whether it takes over what
    /// a deleted database of its name left there.
    ///
    /// # Errors
    /// When one of them contains anything else, or files of a deleted database are still
    /// to be removed.
    pub fn check_new_directories(
        &self,
        name: &DatabaseName,
        settings: &BTreeMap<String, String>,
    ) -> Result<bool, EngineError> {
        if self.catalog.is_being_deleted(name)? {
            let name = name.as_str().to_owned();
            return Err(CatalogError::BeingDeleted { name }.into());
        }
        let options = self.files.options_with(name, settings);
        let platform = &options.platform;
        let disk = &*platform.disk;
        let directory = &options.environment.directory;
        let kept = self.catalog.environment_of(name)?;
        if kept.is_some() {
            let found = environment_id_in(platform, directory)?;
            if found == kept {
                return Ok(true);
            }
        }
        for directory in [Some(directory), options.environment.journals_directory.as_ref()] {
            if let Some(directory) = directory
                && !is_empty(disk, directory)?
            {
                return Err(not_empty(disk, name, directory));
            }
        }
        Ok(false)
    }
}

/// The directories below which those of databases may be.
fn roots(engine: &Engine) -> impl Iterator<Item = &PathBuf> {
    let settings = &engine.settings;
    let own = [Some(&settings.data_dir), settings.journals_path.as_ref()];
    own.into_iter().flatten().chain(&settings.databases.allowed_directories)
}

impl Engine {
    /// The directories in a directory, if it is one of those that records may name directories in;
    /// those themselves when none is named. At most a thousand.
    pub fn directories_below(&self, directory: Option<&Path>) -> Vec<PathBuf> {
        const LISTED_MAX: usize = 1000;
        let Some(directory) = directory else { return roots(self).cloned().collect() };
        let disk = &*self.platform.disk;
        let Ok(place) = resolved(disk, directory) else { return Vec::new() };
        let is_allowed = |place: &Path| {
            let resolved_roots = roots(self).filter_map(|root| resolved(disk, root).ok());
            let system =
                resolved(disk, &self.settings.data_dir).map(|data| data.join(SYSTEM_DIRECTORY));
            resolved_roots.into_iter().any(|root| place.starts_with(root))
                && !system.is_ok_and(|system| place.starts_with(system))
        };
        let names =
            if is_allowed(&place) { disk.list(&place).unwrap_or_default() } else { Vec::new() };
        let below = names.into_iter().map(|name| place.join(name));
        // Only a directory can be listed, and a link may lead anywhere.
        let is_shown = |path: &PathBuf| {
            disk.list(path).is_ok() && resolved(disk, path).is_ok_and(|place| is_allowed(&place))
        };
        let mut shown: Vec<PathBuf> = below.filter(is_shown).take(LISTED_MAX).collect();
        shown.sort_unstable();
        shown
    }
}

impl Engine {
    /// The directory that a new database gets: the one that is named, or its own below the data
    /// directory; and the reason if it cannot have it.
    pub fn directory_of_new(
        &self,
        name: Option<&str>,
        named: Option<&str>,
    ) -> (PathBuf, Option<EngineError>) {
        match (named, name) {
            (Some(named), _) => {
                let directory = self.settings.data_dir.join(named);
                let refusal = check_place(self, &directory).err();
                (directory, refusal)
            }
            (None, Some(name)) => {
                (self.settings.data_dir.join(DATABASES_DIRECTORY).join(name), None)
            }
            (None, None) => (self.settings.data_dir.clone(), None),
        }
    }
}

fn check_place(engine: &Engine, directory: &Path) -> Result<(), EngineError> {
    let settings = &engine.settings;
    let disk = &*engine.platform.disk;
    let place = resolved(disk, directory)?;
    let data = resolved(disk, &settings.data_dir)?;
    let is_own = place == data
        || data.starts_with(&place)
        || place.starts_with(data.join(SYSTEM_DIRECTORY))
        || place == data.join(DATABASES_DIRECTORY);
    if is_own {
        let directory = directory.display();
        return Err(refused(format!("The directory {directory} is the server's own.")));
    }
    for root in roots(engine) {
        if place.starts_with(resolved(disk, root)?) {
            return Ok(());
        }
    }
    let (directory, data) = (directory.display(), settings.data_dir.display());
    Err(refused(format!(
        "The directory {directory} is outside the data directory ({data}). The operator of the \
         server must allow it first: add it, or a directory above it, to the setting {ALLOWED}."
    )))
}

/// The path from the root, which must not climb, with its links followed: a directory is where its files are.
pub(crate) fn resolved(disk: &dyn Disk, path: &Path) -> Result<PathBuf, EngineError> {
    let climbs = path.components().any(|component| component == Component::ParentDir);
    let absolute = std::path::absolute(path).ok().filter(|_| !climbs);
    let absolute = absolute.ok_or_else(|| {
        refused(format!("The directory {} must be named without '..'.", path.display()))
    })?;
    disk.resolve(&absolute).map_err(|error| {
        refused(format!("The directory {} cannot be resolved: {error}.", path.display()))
    })
}

fn directories(options: &DatabaseOptions) -> Vec<PathBuf> {
    let environment = &options.environment;
    let all = [Some(&environment.directory), environment.journals_directory.as_ref()];
    // A path that cannot be resolved is compared as written.
    let disk = &*options.platform.disk;
    let resolved = |path: &PathBuf| resolved(disk, path).unwrap_or_else(|_| path.clone());
    all.into_iter().flatten().map(resolved).collect()
}

/// Whether a directory is empty; a missing one is.
fn is_empty(disk: &dyn Disk, directory: &Path) -> Result<bool, EngineError> {
    let look = || match disk.exists(directory)? {
        true => disk.list(directory).map(|names| names.is_empty()),
        false => Ok(true),
    };
    look().map_err(|source: std::io::Error| EngineError::DirectoryUnreadable {
        directory: directory.to_owned(),
        source,
    })
}

fn not_empty(disk: &dyn Disk, name: &DatabaseName, directory: &Path) -> EngineError {
    let found = match foreign_product(disk, directory) {
        Some(foreign) => {
            format!("The directory {} cannot be used: {foreign}.", directory.display())
        }
        None => format!("The directory {} is not empty.", directory.display()),
    };
    refused(format!(
        "{found} A new database begins in an empty one. Move away what is there; if it is a database \
         of Corvus, stop the server and take it over with `corvus offline adopt <data directory> {}`.",
        name.as_str()
    ))
}

fn refused(message: String) -> EngineError {
    EngineError::DirectoryRefused { message }
}
