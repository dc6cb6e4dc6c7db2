//! How long the server runs, how much its processors work, and what it is asked.

use http::StatusCode;
use model::date;
use serde_json::json;
use wire::ProtocolError;

use crate::{
    answer::Answer, call::Call, handlers::databases::span_text, processor_load::process_times,
    pulse_feed, web_socket::Session,
};

/// `GET /admin/stats`.
pub(crate) fn statistics(call: &Call) -> Result<Answer, ProtocolError> {
    let state = &call.state;
    let answer = json!({
        "@metadata": state.debug_metadata(),
        "UpTime": span_text(state.platform.clock.monotonic().saturating_sub(state.started)),
        "StartUpTime": date::format(state.started_at().ticks()),
        "LastRequestTime": state.last_request().map(|moment| date::format(moment.ticks())),
        "LastAuthorizedNonClusterAdminRequestTime": null
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/traffic-watch`: the requests that are answered from now on, of all databases or of one.
pub(crate) fn watch_traffic(call: &Call) -> Result<Session, ProtocolError> {
    let query = call.query();
    let database = query.get("resourceName").filter(|name| !name.is_empty()).map(str::to_owned);
    let address = call.state.address_in_passing(&call.headers).into_owned();
    Ok(pulse_feed::begin(call.state.traffic.watch(address, database)))
}

/// `GET /admin/debug/cpu/stats`.
pub(crate) fn processor(call: &Call) -> Result<Answer, ProtocolError> {
    let times = process_times();
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "CpuStats": [{
            "ProcessName": "corvus", "ProcessorAffinity": call.state.machine.cores,
            "PrivilegedProcessorTime": span_text(times.system),
            "TotalProcessorTime": span_text(times.user + times.system),
            "UserProcessorTime": span_text(times.user)
        }]
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}
