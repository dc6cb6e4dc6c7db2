//! From a socket to a handler: listening, connections and their limits, requests and their bodies,
//! routing, and sending what the handler returns.

pub(crate) mod admission;
pub(crate) mod answer_coding;
pub(crate) mod body_reader;
pub(crate) mod body_share;
pub(crate) mod byte_range;
pub(crate) mod cloud_storage;
pub(crate) mod connection_limiter;
pub(crate) mod connection_watch;
pub(crate) mod data_rate;
pub(crate) mod listener;
pub(crate) mod multipart;
pub(crate) mod outbound;
pub(crate) mod peers;
pub(crate) mod request_body;
pub(crate) mod request_coding;
pub(crate) mod route_path;
pub(crate) mod router;
pub(crate) mod service;
pub(crate) mod traffic_log;
pub(crate) mod web_socket;
