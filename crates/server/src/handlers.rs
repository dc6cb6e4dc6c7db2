//! The code behind the routes, one file per area. Handlers are thin: they read parameters, ask the
//! engine and write the answer.

pub(crate) mod aggregated_queries;
pub(crate) mod bulk_docs;
pub(crate) mod bulk_insert;
pub(crate) mod compaction;
pub(crate) mod configuration;
pub(crate) mod database_administration;
pub(crate) mod databases;
pub(crate) mod debug;
pub(crate) mod delete_by_query;
pub(crate) mod documents;
pub(crate) mod hilo;
pub(crate) mod identities;
pub(crate) mod index_changes;
pub(crate) mod indexes;
pub(crate) mod io_metrics;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod multi_get;
pub(crate) mod notifications;
pub(crate) mod operations;
pub(crate) mod patch;
pub(crate) mod queries;
pub(crate) mod query_debug;
pub(crate) mod query_pages;
pub(crate) mod server_info;
pub(crate) mod statistics;
pub(crate) mod storage_report;
pub(crate) mod streams;
