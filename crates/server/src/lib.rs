//! The HTTP server that RavenDB's clients talk to.
//!
//! Reading order: `routes` (the table) → `transport` (sockets) → `http` (from a connection to a handler) →
//! `handlers` (parse, call the engine, respond) → `writes` (requests as commands) and `answers` (what is
//! printed, complete or in pieces) → `feeds` (what watching clients receive) → `tcp` (subscriptions and
//! bulk transfers) → `running_server` (start and stop).
//!
//! Reads run on the thread that has read the request, directly from a snapshot; writes go to the
//! commit queue of their database and are awaited. No lock is held across an await.

#![forbid(unsafe_code)]

mod answers;
mod api_error;
mod audit;
mod blocking;
mod call;
mod client_configuration;
mod database_access;
mod error;
mod feeds;
mod handlers;
mod http;
mod id_pattern;
mod index_choice;
mod log_file_names;
mod logs_configuration;
mod measures;
mod node_address;
mod query_request;
mod request_json;
mod routes;
mod running_server;
mod sample_data;
mod server_state;
mod snapshot_reads;
mod stored_record;
mod studio;
mod tcp;
mod tls;
mod transport;
mod unbuilt_routes;
mod writes;

pub use crate::{
    audit::AuditSink,
    error::StartError,
    feeds::log_feed::{LogEntry, LogFeed},
    log_file_names::LogFileName,
    routes::route_requirements,
    running_server::{RunningServer, start, start_audited},
    snapshot_reads::snapshot_routes,
};
