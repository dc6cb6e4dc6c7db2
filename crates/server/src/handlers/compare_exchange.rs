//! `/cmpxchg`: values that change only if their writer has seen their newest version.

use blittable::{BlittableBuf, Document};
use cluster_state::{
    Applied, ClusterError, Command, CompareExchangeCommand, CompareExchangeOutcome, Outcome,
};
use http::StatusCode;
use storage::pass_over;
use wire::{ErrorKind, QueryString};

use crate::{
    answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    cluster_commands::submit_of, cluster_transaction::check_expiry, json_text::JsonObject,
    router::Answering,
};

/// What stands for the version of a value that is not there.
const MISSING_INDEX: i64 = -1;
/// How long one listing may be: it is made before it is sent.
const LISTED_BYTES_MAX: usize = 64 << 20;

/// `GET /cmpxchg`: the values of some keys, or a listing.
pub(crate) fn get(call: Call) -> Answering {
    Box::pin(async move {
        match call.query().has("key") {
            true => look_up(&call),
            false => {
                let name = call.database()?.record().name.lower_cased().to_owned();
                let place = call.state.rooms.counting.take(&name).await?;
                blocking(move || {
                    let _place = place;
                    list(&call)
                })
                .await
            }
        }
    })
}

fn look_up(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let keys: Vec<&str> = query.all("key").collect();
    let state = call.state.cluster.store().read();
    let database = call.database()?.record().topology_id;
    let mut entries = Entries::begin();
    for key in &keys {
        match state.compare_exchange(database, key).map_err(failed)? {
            None if keys.len() == 1 => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
            None => entries.add(key, None)?,
            Some(entry) => entries.add(key, Some((entry.index, &entry.value)))?,
        }
    }
    Ok(Answer::json(entries.end()))
}

fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (start, page_size) = (query.start()?, query.page_size()?);
    let mut entries = Entries::begin();
    // No page starts before the first value, and one without a size holds all.
    let Ok(start) = usize::try_from(start) else { return Ok(Answer::json(entries.end())) };
    let at_most = usize::try_from(page_size).ok().filter(|size| *size > 0).unwrap_or(usize::MAX);
    let (state, database) =
        (call.state.cluster.store().read(), call.database()?.record().topology_id);
    let prefix = query.get("startsWith").unwrap_or_default();
    let found = state.compare_exchange_with_prefix(database, prefix).map_err(failed)?;
    for entry in found.skip_while(pass_over(start)).take(at_most) {
        let entry = entry.map_err(failed)?;
        entries.add(&entry.key, Some((entry.index, &entry.value)))?;
        if LISTED_BYTES_MAX < entries.body.len() {
            return Err(ApiError::invalid_operation(format!(
                "The values are more than {LISTED_BYTES_MAX} bytes: ask for them in pages, with \
                 'start' and 'pageSize'"
            )));
        }
    }
    Ok(Answer::json(entries.end()))
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
        return Err(ApiError::invalid_operation("the value's fate is missing"));
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

/// The values of an answer, under construction.
struct Entries {
    body: Vec<u8>,
    is_empty: bool,
}

impl Entries {
    fn begin() -> Self {
        Self { body: b"{\"Results\":[".to_vec(), is_empty: true }
    }

    fn add(&mut self, key: &str, value: Option<(u64, &Document<'_>)>) -> Result<(), ApiError> {
        if !self.is_empty {
            self.body.push(b',');
        }
        self.is_empty = false;
        write_entry(key, value, &mut self.body)
    }

    fn end(mut self) -> Vec<u8> {
        self.body.extend_from_slice(b"]}");
        self.body
    }
}

/// The version that is told: a missing value has one, too.
fn told_index(value: Option<(u64, &Document<'_>)>) -> i64 {
    value.map_or(MISSING_INDEX, |(index, _)| index.cast_signed())
}

/// As [`write_entry`], in the order in which values that are given along are shown.
pub(crate) fn write_include(
    key: &str,
    value: Option<(u64, &Document<'_>)>,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let mut object = JsonObject::begin(body);
    object.text("Key", key);
    object.number("Index", told_index(value));
    write_value(value.map(|(_, value)| value), object.name("Value"))?;
    object.end();
    Ok(())
}

/// One value with its key and version; a missing one, too, is told.
fn write_entry(
    key: &str,
    value: Option<(u64, &Document<'_>)>,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let mut object = JsonObject::begin(body);
    object.text("Key", key);
    write_value(value.map(|(_, value)| value), object.name("Value"))?;
    object.number("Index", told_index(value));
    object.end();
    Ok(())
}

fn write_value(value: Option<&Document<'_>>, body: &mut Vec<u8>) -> Result<(), ApiError> {
    match value {
        Some(value) => value.write_json(body).map_err(|error| failed(ClusterError::from(error))),
        None => {
            body.extend_from_slice(b"null");
            Ok(())
        }
    }
}

fn failed(error: ClusterError) -> ApiError {
    ApiError::from(error)
}
