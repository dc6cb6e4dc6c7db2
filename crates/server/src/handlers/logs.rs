//! The configuration of logs.

use std::sync::PoisonError;

use http::StatusCode;
use wire::ProtocolError;

use crate::{
    answer::Answer, call::Call, logs_configuration::LogsConfiguration, stored_record::read_object,
};

/// `GET /admin/logs/configuration`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ProtocolError> {
    let logs = call.state.logs.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Answer::shape(StatusCode::OK, &logs.to_json()))
}

/// `POST /admin/logs/configuration`.
pub(crate) fn set_configuration(call: &Call) -> Result<Answer, ProtocolError> {
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
