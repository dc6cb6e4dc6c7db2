//! Checks that the files in the directory of a database belong to it, before it is opened.
//!
//! The catalog stores the identity of the environment that a database had when it was first opened. A
//! directory with another identity, or none, is refused: it belongs to another database, a mount is missing,
//! or it has been moved. Invariant: a database that has ever been opened is never silently created again.

use model::DatabaseRecord;
use storage::{HistoryMismatch, HistoryPoint, environment_id_in};

use crate::{
    catalog::ServerCatalog, error::LoadError, foreign_product::foreign_product,
    open_database::DatabaseOptions,
};

/// Refuses a directory that does not belong to this database. `known` is the newest incarnation that the
/// server knows.
pub(crate) fn check(
    record: &DatabaseRecord,
    options: &DatabaseOptions,
    known: Option<&HistoryPoint>,
    catalog: &ServerCatalog,
) -> Result<(), LoadError> {
    let directory = &options.environment.directory;
    let named = directory.display();
    let refused = |message: String| Err(LoadError::Files { message });
    match (known, environment_id_in(&options.platform, directory)?) {
        (Some(own), Some(found)) if own.environment == found => Ok(()),
        (Some(_), Some(_)) => Err(LoadError::OtherFiles {
            directory: directory.clone(),
            mismatch: HistoryMismatch::OtherEnvironment,
        }),
        (Some(_), None) => Err(LoadError::FilesMissing { directory: directory.clone() }),
        (None, Some(found)) => match catalog.owner_of(found, &record.name)? {
            Some(other) => refused(format!("{named} holds the files of the database '{other}'")),
            None => Ok(()),
        },
        (None, None) => match foreign_product(&*options.platform.disk, directory) {
            Some(foreign) => refused(format!("{named}: {foreign}")),
            None => Ok(()),
        },
    }
}
