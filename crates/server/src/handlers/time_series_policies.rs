//! The policies of time series and the names of their values: parts of a database's record.

use http::StatusCode;
use model::TIME_SERIES_PROPERTY;
use serde_json::{Value, json};
use wire::{read_time_series_configuration, with_policy, with_value_names, without_policy};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    stored_record::{body_of, change_body, read_object},
};

/// `GET /timeseries/config`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ApiError> {
    let body = body_of(&call.database()?.record());
    Ok(match body.get(TIME_SERIES_PROPERTY).filter(|stored| !stored.is_null()) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `POST /admin/timeseries/config`.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        change(call, move |_| Ok(Some(read_time_series_configuration(&sent)?))).await
    })
}

/// `PUT /admin/timeseries/policy`.
pub(crate) fn put_policy(call: Call) -> Answering {
    Box::pin(async move {
        let collection = call.query().single_non_empty("collection")?.to_owned();
        let policy = read_object(&call.body)?;
        change(call, move |stored| Ok(Some(with_policy(stored, &collection, &policy)?))).await
    })
}

/// `DELETE /admin/timeseries/policy`.
pub(crate) fn delete_policy(call: Call) -> Answering {
    Box::pin(async move {
        let collection = call.query().single_non_empty("collection")?.to_owned();
        let name = call.query().single_non_empty("name")?.to_owned();
        change(call, move |stored| Ok(without_policy(stored, &collection, &name)?)).await
    })
}

/// `POST /timeseries/names/config`.
pub(crate) fn name_values(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        change(call, move |stored| Ok(with_value_names(stored, &sent)?)).await
    })
}

/// Applies `work` to the stored configuration; `None` changes nothing.
async fn change(
    call: Call,
    work: impl Fn(Option<&Value>) -> Result<Option<Value>, ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    let name = call.database()?.record().name.as_str().to_owned();
    let stored = body_of(&call.database()?.record());
    if work(stored.get(TIME_SERIES_PROPERTY))?.is_none() {
        return Ok(Answer::empty(StatusCode::OK));
    }
    let state = call.state;
    blocking(move || {
        // Decided again, since another request may have changed it in the meantime.
        let written = change_body(&state, &name, |body| {
            if let Some(configuration) = work(body.get(TIME_SERIES_PROPERTY))? {
                body.insert(TIME_SERIES_PROPERTY.to_owned(), configuration);
            }
            Ok(())
        })?;
        Ok(Answer::shape(StatusCode::OK, &json!({ "RaftCommandIndex": written.index })))
    })
    .await
}
