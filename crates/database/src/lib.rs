//! Assembly and lifecycle of databases: which there are, which are open, and what one consists of.
//!
//! Plain threads and callbacks; the server brings its own way of waiting.
//!
//! | module | what |
//! |---|---|
//! | `catalog`, `record_format` | [`ServerCatalog`]: the records of all databases, and how they lie on disk |
//! | `registry`, `transition` | [`DatabaseRegistry`]: opening on demand, closing, and who waits meanwhile |
//! | `open_database`, `usage_gate` | [`Database`], [`DatabaseLease`]: one open database and its users |
//! | `flusher` | [`Flusher`]: the threads that bring journals to data files |
//! | `operations` | [`Operations`]: long operations of one database |
//! | `error` | why a database or the catalog could not be used |

#![forbid(unsafe_code)]

mod catalog;
mod error;
mod flusher;
mod open_database;
mod operations;
mod record_format;
mod registry;
mod transition;
mod usage_gate;

pub use crate::{
    catalog::{NewRecord, PutRecord, ServerCatalog, ServerValue},
    error::{AccessError, CatalogError, LoadError},
    flusher::Flusher,
    open_database::{Database, DatabaseLease, DatabaseOptions},
    operations::{Operation, OperationState, Operations, TooManyOperations},
    record_format::{DatabaseRecord, RecordRequest},
    registry::{Access, DatabaseRegistry, RegistryOptions},
    transition::{Arrival, Ticket},
};
