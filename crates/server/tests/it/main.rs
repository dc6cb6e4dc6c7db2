//! The server in this process, over real sockets on loopback, with its data on a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod addresses;
mod administration;
mod aggregated_queries;
mod attachments;
mod batches;
mod bulk_insert;
mod change_listener;
mod changes;
mod client_definitions;
mod compare_exchange;
mod connections;
mod counters;
mod databases;
mod documents;
mod documents_compression;
mod filtered_queries;
mod hostile;
mod http_client;
mod index_boosts;
mod index_changes;
mod index_definitions;
mod index_lifecycle;
mod index_rows;
mod index_views;
mod indexes;
mod lifecycle;
mod lucene_queries;
mod map_reduce;
mod operations;
mod patch_by_query;
mod patches;
mod queries;
mod query_notes;
mod recorded;
mod reduce_outputs;
mod resources;
mod retention;
mod revisions;
mod selected_rows;
mod spatial;
mod storage_reports;
mod test_server;
mod web_sockets;
