//! The policies of time series and the names of their values: parts of a database's record.

use http::StatusCode;
use wire::{SectionKind, TimeSeriesSectionChange, read_time_series_configuration};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::sections, http::router::Answering, request_json::read_object,
};

/// `GET /timeseries/config`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ApiError> {
    sections::show(call, SectionKind::TimeSeries)
}

/// `POST /admin/timeseries/config`.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let section = read_time_series_configuration(&read_object(&call.body)?)?;
        sections::replace(call, section).await
    })
}

/// `PUT /admin/timeseries/policy`.
pub(crate) fn put_policy(call: Call) -> Answering {
    Box::pin(async move {
        let collection = call.query().single_non_empty("collection")?.to_owned();
        let policy = read_object(&call.body)?;
        change(call, TimeSeriesSectionChange::PutPolicy { collection, policy }).await
    })
}

/// `DELETE /admin/timeseries/policy`.
pub(crate) fn delete_policy(call: Call) -> Answering {
    Box::pin(async move {
        let collection = call.query().single_non_empty("collection")?.to_owned();
        let name = call.query().single_non_empty("name")?.to_owned();
        change(call, TimeSeriesSectionChange::RemovePolicy { collection, name }).await
    })
}

/// `POST /timeseries/names/config`.
pub(crate) fn name_values(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        change(call, TimeSeriesSectionChange::NameValues(sent)).await
    })
}

async fn change(call: Call, change: TimeSeriesSectionChange) -> Result<Answer, ApiError> {
    let name = call.database()?.record().name.as_str().to_owned();
    let state = call.state;
    blocking(move || {
        let written = state.engine.change_time_series(&name, &change)?;
        let unchanged = || Answer::empty(StatusCode::OK);
        Ok(written.as_ref().map_or_else(unchanged, sections::replaced))
    })
    .await
}
