//! The HTTP server that RavenDB's clients talk to.
//!
//! Reading order: routes (what can be asked) → router, service (from a request to its handler) →
//! handlers (the answers) → document_pages, submitting (long reads, and writes) → listener,
//! running_server (sockets, start and end).
//!
//! Reads run at once on the thread that has read the request, straight from a snapshot; writes go to
//! the commit queue of their database and are awaited. No lock is held across an await.

#![forbid(unsafe_code)]

mod admission;
mod answer;
mod answer_coding;
mod answer_places;
mod answer_share;
mod answer_threads;
mod api_error;
mod batch_attachments;
mod blocking;
mod body_reader;
mod body_share;
mod byte_range;
mod call;
mod change_session;
mod client_configuration;
mod cluster_commands;
mod cluster_transaction;
mod connection_limiter;
mod connection_watch;
mod content_download;
mod content_upload;
mod counter_answer;
mod counter_includes;
mod cron_expression;
mod csv_rows;
mod dashboard;
mod data_rate;
mod database_access;
mod database_measures;
mod document_pages;
mod error;
mod gone;
mod handlers;
mod id_pattern;
mod index_choice;
mod index_turns;
mod json_text;
mod listener;
mod live_feed;
mod log_feed;
mod log_file_names;
mod logs_configuration;
mod long_answer;
mod machine;
mod measures;
mod multipart;
mod node_address;
mod patch_answer;
mod patch_commands;
mod piece_sender;
mod processor_load;
mod pulse;
mod pulse_feed;
mod query_notes;
mod query_request;
mod query_timings;
mod recorded_series;
mod request_body;
mod request_coding;
mod revision_includes;
mod route_path;
mod router;
mod routes;
mod running_server;
mod sample_data;
mod server_measures;
mod server_state;
mod service;
mod snapshot_reads;
mod stored_record;
mod submitting;
mod tail;
mod tcp;
mod time_series_commands;
mod time_series_includes;
mod time_series_range;
mod time_series_text;
mod traffic_log;
mod traffic_watch;
mod unbuilt_routes;
mod value_includes;
mod web_socket;

pub use crate::{
    error::StartError,
    log_feed::{LogEntry, LogFeed},
    log_file_names::LogFileName,
    routes::route_clearances,
    running_server::{RunningServer, start},
    snapshot_reads::snapshot_routes,
};
