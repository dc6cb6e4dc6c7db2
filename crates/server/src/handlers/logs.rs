//! The log: its configuration, and those who watch it. Its files are in `log_download`.

use std::sync::PoisonError;

use http::StatusCode;

use crate::{
    answer::Answer, api_error::ApiError, call::Call, log_feed::LogWatcher,
    logs_configuration::LogsConfiguration, pulse_feed, stored_record::read_object,
    web_socket::Session,
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
    let starting = LogsConfiguration::starting(&call.state.settings.logs);
    let changed = starting.changed(&body)?;
    let mode = changed.current_mode();
    tracing::info!(mode, "a client sets how much is logged");
    if let Some(obey) = call.state.on_log_mode.get() {
        obey(mode);
    }
    *logs = changed;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /admin/logs/watch`: the entries of the log from now on.
pub(crate) fn watch(call: &Call) -> Result<Session, ApiError> {
    let feed = call.state.log_feed.get().ok_or_else(|| {
        ApiError::invalid_operation("The process of this server does not show its log.")
    })?;
    Ok(pulse_feed::begin(LogWatcher::of(feed)))
}
