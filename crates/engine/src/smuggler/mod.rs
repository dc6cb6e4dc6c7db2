//! Exporting a database into a dump, and importing one.
//!
//! An export reads one snapshot, step by step, so that the caller may wait for its client between two
//! steps. An import takes the elements of a dump one by one, and collects commands that the caller
//! submits, as for a bulk insert. Formats are in the crate `smuggler`; this part knows what they mean
//! for a database.
//!
//! | file | what |
//! |---|---|
//! | `export` | the sections of a dump, in their order |
//! | `exported_contents` | contents of attachments, before the documents that have them |
//! | `exported_items` | elements of the smaller kinds of data |
//! | `exported_record` | the settings of the database, and definitions of indexes |
//! | `import` | what is done with each element |
//! | `imported_version` | documents and revisions |
//! | `waiting_contents` | contents of attachments, until their documents come |
//! | `imported_rows` | documents of files of CSV and of JSON lines |
//! | `imported_items` | elements of the smaller kinds of data |
//! | `exported_series`, `imported_series` | segments of time series |
//! | `imported_record` | settings of the database |
//! | `importer` | what the one who imports may do |
//! | `import_task` | what changes the state that all nodes agree on |
//! | `transform` | the script that changes documents on their way |
//! | `load` | an import from a file, on a thread that may block |
//! | `verify` | checking a dump without a database |
//! | `progress` | what is counted and reported |

mod export;
mod exported_contents;
mod exported_items;
mod exported_record;
mod exported_series;
mod import;
mod import_task;
mod imported_items;
mod imported_record;
mod imported_rows;
mod imported_series;
mod imported_version;
mod importer;
mod load;
mod progress;
mod transform;
mod verify;
mod waiting_contents;

pub use export::{DumpExport, ExportSince, ExportSources};
pub(crate) use exported_items::hash_of_counters_and_positions;
pub use import::{DumpImport, ImportNext};
pub use import_task::{ImportTask, TaskOutcome};
pub(crate) use imported_record::RecordUse;
pub use importer::Importer;
pub(crate) use load::{DumpLoad, LoadSource};
pub use progress::SmugglerProgress;
pub use verify::VerifiedDump;
pub(crate) use verify::verify_dump;
