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
    let configuration = LogsConfiguration::read(&read_object(&call.body)?)?;
    *call.state.logs.lock().unwrap_or_else(PoisonError::into_inner) = configuration;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
