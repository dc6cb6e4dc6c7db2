//! Backups of databases, and restoring them.
//!
//! A backup is a dump ([`crate::smuggler`]) in a folder with a name that says what it is. It is written under another
//! name, synced, read back and verified, and gets its name only then: whatever has the name of a backup is one.
//!
//! | file | what |
//! |---|---|
//! | `file_names` | what the names of folders and files say |
//! | `keys` | the keys of encrypted backups |
//! | `place` | below which directory backups are |
//! | `backup_file` | a file that is written, and one that is read |
//! | `chain` | how the files of a backup follow each other |
//! | `claimed_names` | names that runs are using |
//! | `cloud` | requests to buckets, which the caller of the engine makes |
//! | `cloud_place` | a folder in a bucket |
//! | `run` | runs one backup, on a thread of its own |
//! | `snapshot` | files with the pages of a database, and what else belongs to it |
//! | `verify` | reading a file through |
//! | `writer` | writes a file of one, and decides what it follows |
//! | `tasks` | scheduled backups: their definitions, and their runs |
//! | `server_wide` | scheduled backups of all databases |
//! | `schedule` | when one is due |
//! | `status` | how its runs went |
//! | `retention` | removing old backups |
//! | `leftovers` | removing what was not completed |
//! | `restore_points` | what can be restored |
//! | `restore` | makes a database of a backup |
//! | `error` | why a backup or a restore failed |

mod backup_file;
mod chain;
mod claimed_names;
mod cloud;
mod cloud_place;
mod error;
mod file_names;
mod keys;
mod leftovers;
mod place;
mod restore;
mod restore_points;
mod retention;
mod run;
mod schedule;
mod server_wide;
mod snapshot;
mod status;
mod tasks;
mod verify;
mod writer;

pub use backup_file::SequentialFile;
pub use cloud::{CloudError, CloudObject, CloudStorage, StillWantedThere};
pub use error::BackupError;
pub(crate) use place::backup_disk;
pub(crate) use restore::LOCKED_REASON;
pub use schedule::NextBackup;
pub use server_wide::{ChangedServerWideBackup, ServerWideBackupTask};
pub(crate) use tasks::{BackupSchedule, tombstone_needs};
pub use tasks::{BackupTask, BackupTaskState, ChangedBackupTask, RunningBackup};
pub use verify::verify_backup;
