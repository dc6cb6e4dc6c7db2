//! `/cmpxchg`: values that change only if the writer has seen their current version.

use blittable::BlittableBuf;
use cluster_state::{
    Applied, ClusterError, Command, CompareExchangeCommand, CompareExchangeOutcome, Outcome,
};
use engine::check_expiry;
use http::StatusCode;
use wire::{ErrorKind, QueryString};

use crate::{
    answers::{
        answer::Answer,
        compare_exchange_pages,
        compare_exchange_text::{entry_bytes, write_entry, write_value},
        counted_list::CountedList,
        json_text::JsonObject,
    },
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::cluster_commands::submit_of,
};

/// `GET /cmpxchg`: the values of some keys, or a listing.
pub(crate) fn get(call: Call) -> Answering {
    Box::pin(async move {
        // What any node has acknowledged is seen on every node.
        call.state.engine.catch_up_with_cluster().await?;
        match call.query().has("key") {
            true => look_up(&call),
            false => compare_exchange_pages::list(&call),
        }
    })
}

fn look_up(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let keys: Vec<&str> = query.all("key").collect();
    let state = call.state.engine.cluster_state();
    let database = call.database()?.record().topology_id;
    let mut entries = CountedList::begin(&call.state, b"{\"Results\":[");
    for key in &keys {
        match state.compare_exchange(database, key).map_err(failed)? {
            None if keys.len() == 1 => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
            found => {
                let value = found.as_ref().map(|entry| (entry.index, &entry.value));
                entries.add(entry_bytes(key, value)?, |body| write_entry(key, value, body))?;
            }
        }
    }
    Ok(entries.end(b"]}"))
}

/// `PUT /cmpxchg`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let (key, expected) = target_of(&call.query())?;
        let value =
            call.state.with_builder(|builder| wire::read_document_body(&call.body, builder))?;
        let database = call.database()?.record();
        check_expiry(&key, database.name.as_str(), &value)?;
        let database = database.topology_id;
        change(&call, CompareExchangeCommand::Put { database, key, expected, value }).await
    })
}

/// `DELETE /cmpxchg`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let (key, expected) = target_of(&call.query())?;
        let database = call.database()?.record().topology_id;
        change(&call, CompareExchangeCommand::Delete { database, key, expected }).await
    })
}

async fn change(call: &Call, command: CompareExchangeCommand) -> Result<Answer, ApiError> {
    let command = Command::CompareExchange(command);
    let Applied { outcome, .. } = submit_of(call, &command).await?;
    let Outcome::CompareExchange(outcome) = outcome else {
        return Err(ApiError::invalid_operation("the outcome of the value's command is missing"));
    };
    changed(&outcome)
}

fn changed(outcome: &CompareExchangeOutcome) -> Result<Answer, ApiError> {
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.number("Index", outcome.index);
    let value = outcome.value.as_ref().map(BlittableBuf::as_view);
    write_value(value.as_ref(), object.name("Value"))?;
    object.flag("Successful", outcome.is_successful);
    object.end();
    Ok(Answer::json(body))
}

/// The key and the version that the client has seen.
fn target_of(query: &QueryString<'_>) -> Result<(String, u64), ApiError> {
    let key = query.get("key").filter(|key| !key.is_empty());
    let key = key.ok_or_else(missing_key)?;
    let index = query.required_long("index")?;
    let expected = u64::try_from(index).map_err(|_| {
        ApiError::new(ErrorKind::InvalidData, "Index must be a non-negative number")
    })?;
    Ok((key.to_owned(), expected))
}

fn missing_key() -> ApiError {
    ApiError::argument("Query string key is mandatory, but wasn't specified.")
}

fn failed(error: ClusterError) -> ApiError {
    ApiError::from(error)
}
