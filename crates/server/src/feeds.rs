//! What is sent to clients that watch: changes, logs, measures, notifications, the document log.

pub(crate) mod change_session;
pub(crate) mod dashboard;
pub(crate) mod gone;
pub(crate) mod live_feed;
pub(crate) mod log_feed;
pub(crate) mod pulse;
pub(crate) mod pulse_feed;
pub(crate) mod tail;
pub(crate) mod traffic_watch;
