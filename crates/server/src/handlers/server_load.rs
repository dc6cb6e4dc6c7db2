//! The server's uptime, processor load and traffic.

use std::io;

use http::StatusCode;
use model::{TimeSpan, date};
use platform::processor_time::{allowed_processors, process_times};
use serde_json::json;
use wire::ErrorKind;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    feeds::pulse_feed,
    http::{traffic_log::WantedTraffic, web_socket::Session},
    request_json::read_object,
};

/// `GET /admin/stats`.
pub(crate) fn statistics(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let up_time = state.engine.clock().monotonic().saturating_sub(state.started);
    let answer = json!({
        "@metadata": state.debug_metadata(),
        "UpTime": TimeSpan::of(up_time).to_string(),
        "StartUpTime": date::format(state.started_at().ticks()),
        "LastRequestTime": state.last_request().map(|moment| date::format(moment.ticks())),
        "LastAuthorizedNonClusterAdminRequestTime": null
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/traffic-watch`: requests as they are answered, of all databases or of one.
pub(crate) fn watch_traffic(call: &Call) -> Result<Session, ApiError> {
    let query = call.query();
    let database = query.get("resourceName").filter(|name| !name.is_empty()).map(str::to_owned);
    let address = call.state.address_in_passing(&call.headers).into_owned();
    Ok(pulse_feed::begin(call.state.traffic.watch(address, database)))
}

/// `GET /admin/traffic-watch/configuration`: which requests are logged.
pub(crate) fn traffic_configuration(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &call.state.traffic.log.wanted().to_json()))
}

/// `POST /admin/traffic-watch/configuration`: from now on, until the server stops.
pub(crate) fn configure_traffic(call: &Call) -> Result<Answer, ApiError> {
    let wanted = WantedTraffic::read(&read_object(&call.body)?)?;
    tracing::info!("a client changed which requests are logged");
    call.state.traffic.log.set(wanted);
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /admin/debug/cpu/stats`.
pub(crate) fn processor(call: &Call) -> Result<Answer, ApiError> {
    let unknown = |error: io::Error| ApiError::new(ErrorKind::Internal, error.to_string());
    let times = process_times().map_err(unknown)?;
    let text = |time| TimeSpan::of(time).to_string();
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "CpuStats": [{
            "ProcessName": "corvus", "ProcessorAffinity": allowed_processors().map_err(unknown)?,
            "PrivilegedProcessorTime": text(times.system),
            "TotalProcessorTime": text(times.user + times.system),
            "UserProcessorTime": text(times.user)
        }]
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}
