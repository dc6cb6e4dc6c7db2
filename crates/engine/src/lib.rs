//! The engine's facade: all databases of one data directory, without HTTP and without an asynchronous runtime.
//!
//! A server and an embedding program use the same calls. They block, unless their documentation says
//! otherwise; a program with an asynchronous runtime calls them on threads that may block.
//!
//! | module | what |
//! |---|---|
//! | `engine` | [`Engine`]: opening and closing a data directory, and the periodic work |
//! | `memory_plan` | [`MemoryPlan`]: how much memory each part may take |
//! | `database_files`, `directories`, `unknown_directories` | where the files of databases are, which directories a record may name, and what else is there |
//! | `deletion` | deleting databases with their files |
//! | `deleted_values` | forgetting deletions of compare exchange values |
//! | `index_builds`, `index_progress` | how far indexes are |
//! | `running_queries` | queries that are running |
//! | `database_log`, `index_log`, `index_build_log`, `resource_log`, `retention_log` | what happens, in the log |
//! | `error` | [`EngineError`], [`OpenError`] |

#![forbid(unsafe_code)]

mod database_files;
mod database_log;
mod deleted_values;
mod deletion;
mod directories;
mod engine;
mod error;
mod index_build_log;
mod index_builds;
mod index_log;
mod index_progress;
mod memory_plan;
mod resource_log;
mod retention_log;
mod running_queries;
mod unknown_directories;

pub use crate::{
    database_files::{DATABASES_DIRECTORY, DatabaseFiles, SYSTEM_DIRECTORY, check_settings},
    deletion::FilesLeft,
    engine::Engine,
    error::{EngineError, OpenError},
    index_builds::{IndexBuilds, LOOK_INTERVAL},
    index_progress::{ALL_DOCUMENTS, progress_of},
    memory_plan::MemoryPlan,
    running_queries::{QueryFacts, RunningQueries, RunningQuery, WakeQuery},
    unknown_directories::has_databases,
};
