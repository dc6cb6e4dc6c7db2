//! Directories among those of databases that the catalog does not know: logged at startup.
//!
//! Databases whose records were lost with the server's own environment are found this way; the command
//! `corvus offline adopt` lists them, too, and takes them over.

use std::{collections::HashSet, path::Path};

use database::foreign_product;
use platform::Platform;
use storage::environment_id_in;

use crate::{database_files::DATABASES_DIRECTORY, engine::Engine};

/// Maximum number of logged directories.
const NAMED_MAX: usize = 20;

/// Whether there is an environment among the directories of databases.
pub fn has_databases(platform: &Platform, data_dir: &Path) -> bool {
    let root = data_dir.join(DATABASES_DIRECTORY);
    // A missing directory is empty, and one that cannot be read may be a database.
    let names = platform.disk.list(&root).unwrap_or_default();
    let is_there =
        |name: &String| !matches!(environment_id_in(platform, &root.join(name)), Ok(None));
    names.iter().any(is_there)
}

impl Engine {
    /// Logs directories that belong to no database.
    pub(crate) fn log_unknown_directories(&self) {
        let (platform, disk) = (&self.platform, &*self.platform.disk);
        let root = self.settings.data_dir.join(DATABASES_DIRECTORY);
        // A missing directory is empty.
        let names = disk.list(&root).unwrap_or_default();
        let records = self.catalog.records();
        // Deletions that cannot be read have been reported.
        let pending = self.catalog.pending_deletions().unwrap_or_default();
        let pending: Vec<_> = pending.into_iter().flatten().collect();
        let deleted = pending.iter().map(|deletion| &deletion.record);
        let known: HashSet<_> = records
            .iter()
            .chain(deleted)
            .map(|record| self.files.options_of(record).environment.directory)
            .collect();
        let unknown = names.iter().map(|name| root.join(name)).filter(|path| !known.contains(path));
        for (number, path) in unknown.enumerate() {
            if NAMED_MAX <= number {
                tracing::warn!(directory = %root.display(), "and more that belong to no database");
                return;
            }
            let directory = path.display();
            match (foreign_product(disk, &path), environment_id_in(platform, &path)) {
                (Some(foreign), _) => {
                    tracing::warn!(%directory, %foreign, "belongs to no database")
                }
                (None, Ok(Some(_))) => tracing::warn!(
                    %directory,
                    advice = "stop the server and run: corvus offline adopt <data directory> <name>",
                    "holds a database that the server does not know"
                ),
                (None, Ok(None)) => tracing::warn!(%directory, "belongs to no database"),
                (None, Err(error)) => {
                    tracing::warn!(%directory, %error, "belongs to no database and cannot be read");
                }
            }
        }
    }
}
