//! Ranges of numbers for ids that clients generate.

use commands::{Batch, Command, CommandResult};
use documents::HiLoRequest;
use http::StatusCode;
use model::date;
use wire::QueryString;

use crate::{
    answers::{answer::Answer, json_text::JsonObject},
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::submitting::submit,
};

/// `GET /hilo/next`.
pub(crate) fn next(call: Call) -> Answering {
    Box::pin(async move {
        let request = read_request(&call)?;
        let batch = Batch::one(Command::HiLoNext(request));
        let outcome = submit(&call.state, call.database()?, batch).await?;
        let Some(CommandResult::HiLoRange(range)) = outcome.results.into_iter().next() else {
            return Err(ApiError::invalid_operation("the range is missing"));
        };
        let mut body = Vec::new();
        let mut object = JsonObject::begin(&mut body);
        object.text("Prefix", &range.prefix);
        object.number("Low", range.low);
        object.number("High", range.high);
        object.number("LastSize", range.last_size);
        object.text("ServerTag", range.server_tag.as_str());
        object.text("LastRangeAt", &date::format(range.last_range_at_ticks));
        object.end();
        Ok(Answer::json_with(StatusCode::CREATED, body))
    })
}

fn read_request(call: &Call) -> Result<HiLoRequest, ApiError> {
    let query = call.query();
    Ok(HiLoRequest {
        tag: query.single_non_empty("tag")?.to_owned(),
        last_batch_size: query.long("lastBatchSize")?.unwrap_or(0),
        // A text that is not a date is ignored.
        last_range_at_ticks: query
            .get("lastRangeAt")
            .filter(|text| has_seven_decimals(text))
            .and_then(date::parse)
            .map(|at| at.utc_ticks()),
        last_max: query.long("lastMax")?.unwrap_or(0),
        separator: separator(call, &query)?,
    })
}

/// The client's separator between the tag and the number, or else the database's separator between
/// the parts of ids.
fn separator(call: &Call, query: &QueryString<'_>) -> Result<String, ApiError> {
    match query.get("identityPartsSeparator").filter(|text| !text.is_empty()) {
        None => Ok(call.id_separator()?.to_string()),
        Some(text) if text.encode_utf16().count() == 1 => Ok(text.to_owned()),
        Some(text) => Err(ApiError::invalid_operation(format!(
            "Query string identityPartsSeparator is expecting single character, but got '{text}'."
        ))),
    }
}

/// Clients that send a date in another format than the server's own rely on its being ignored: the
/// range then keeps its size.
fn has_seven_decimals(date: &str) -> bool {
    let decimals = date.trim_end_matches('Z').rsplit_once('.').map_or("", |(_, decimals)| decimals);
    decimals.len() == 7 && decimals.bytes().all(|byte| byte.is_ascii_digit())
}

/// `PUT /hilo/return`.
pub(crate) fn give_back(call: Call) -> Answering {
    Box::pin(async move {
        let command = {
            let query = call.query();
            Command::HiLoReturn {
                tag: query.single_non_empty("tag")?.to_owned(),
                end: query.required_long("end")?,
                last: query.required_long("last")?,
            }
        };
        submit(&call.state, call.database()?, Batch::one(command)).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}
