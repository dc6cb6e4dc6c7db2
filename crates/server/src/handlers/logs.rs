//! The log: its configuration, and watching it. Downloading its files is in `log_download`.

use std::sync::PoisonError;

use http::StatusCode;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    feeds::{log_feed::LogWatcher, pulse_feed},
    http::web_socket::Session,
    logs_configuration::LogsConfiguration,
    request_json::read_object,
};

/// `GET /admin/logs/configuration`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ApiError> {
    let logs = call.state.logs.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Answer::shape(StatusCode::OK, &logs.to_json()))
}

/// `POST /admin/logs/configuration`.
pub(crate) fn set_configuration(call: &Call) -> Result<Answer, ApiError> {
    let body = read_object(&call.body)?;
    let mut logs = call.state.logs.lock().unwrap_or_else(PoisonError::into_inner);
    let starting = LogsConfiguration::starting(&call.state.engine.settings().logs);
    let changed = starting.changed(&body)?;
    let mode = changed.current_mode();
    tracing::info!(mode, "a client changed the log mode");
    if let Some(obey) = call.state.on_log_mode.get() {
        obey(mode);
    }
    *logs = changed;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /admin/logs/watch`: new entries of the log.
pub(crate) fn watch(call: &Call) -> Result<Session, ApiError> {
    let feed = call.state.log_feed.get().ok_or_else(|| {
        ApiError::invalid_operation("The process of this server does not expose its log.")
    })?;
    Ok(pulse_feed::begin(LogWatcher::of(feed)))
}
