//! `/admin/tombstones`: removing tombstones now, and who needs the remaining ones.

use std::collections::HashMap;

use database::{Database, TombstoneError, TombstoneNeed};
use documents::{DocumentError, TombstoneKind, tombstone_positions};
use http::StatusCode;
use model::{Etag, date};
use serde_json::{Value, json};
use storage::Transaction;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

/// The positions of tombstones of each kind: collection and etag.
type Positions = HashMap<TombstoneKind, Vec<(u32, Etag)>>;

/// The protocol's value when there is no need.
const NO_NEED: u64 = i64::MAX as u64;
/// Kinds without collections have separate rows.
const OF_NO_COLLECTION: [&str; 2] = ["Attachments.Tombstones", "Revisions.Tombstones"];

/// `POST /databases/{db}/admin/tombstones/cleanup`: removes unneeded tombstones, and returns how
/// many.
pub(crate) fn clean(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let removed = database.remove_tombstones(&|| true).map_err(|error| match error {
        TombstoneError::Documents(error) => ApiError::from(error),
        TombstoneError::NotSubmitted(error) => {
            ApiError::from(call.state.engine.not_submitted(database, error))
        }
        TombstoneError::Failed(error) => {
            call.state.engine.note_failure(database, &error);
            ApiError::from(error)
        }
    })?;
    Ok(Answer::shape(StatusCode::OK, &json!({ "Value": removed })))
}

/// `GET /databases/{db}/admin/tombstones/state`
pub(crate) fn state(call: &Call) -> Result<Answer, ApiError> {
    let mut state = state_of(call.database()?)?;
    let date = date::format(call.state.engine.clock().now().ticks());
    state["@metadata"] = json!({ "DateTime": date, "NodeTag": call.state.node_tag() });
    Ok(Answer::shape(StatusCode::OK, &state))
}

fn state_of(database: &Database) -> Result<Value, DocumentError> {
    let tx = database.read();
    let needs: Vec<_> = database.tombstone_needs();
    let least_of_all = |kind| least(needs.iter().filter(|need| need.collection.is_none()), kind).0;
    let mut results: Vec<Value> = OF_NO_COLLECTION.iter().map(|name| row_of(name, &[])).collect();
    for collection in documents::collections(&tx)? {
        let of_it = needs.iter().filter(|need| need.collection.as_ref() == Some(&collection.name));
        let of_it: Vec<_> = of_it.cloned().collect();
        results.push(row_of(&collection.name.as_str().to_lowercase(), &of_it));
    }
    let positions = TombstoneKind::ALL.into_iter();
    let positions = positions.map(|kind| Ok((kind, tombstone_positions(&tx, kind)?)));
    let positions = positions.collect::<Result<Positions, DocumentError>>()?;
    let extended = needs.iter().map(|need| extended(&tx, need, &positions));
    let extended = extended.collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "MinAllDocsEtag": least_of_all(TombstoneKind::Documents),
        "MinAllTimeSeriesEtag": least_of_all(TombstoneKind::TimeSeries),
        "MinAllCountersEtag": least_of_all(TombstoneKind::Counters),
        "Results": results,
        "PerSubscriptionInfo": needs.iter().map(plain).collect::<Vec<_>>(),
        "PerSubscriptionInfoExtended": extended,
    }))
}

/// The lowest etag that is needed, and by whom.
fn least<'n>(
    needs: impl Iterator<Item = &'n TombstoneNeed>,
    kind: TombstoneKind,
) -> (u64, Option<String>) {
    let needs = needs.filter(|need| need.kind == kind);
    let least = needs.min_by_key(|need| need.known);
    least.map_or((NO_NEED, None), |need| (need.known.0, Some(identifier(need))))
}

fn row_of(name: &str, needs: &[TombstoneNeed]) -> Value {
    let of = |kind| {
        let (etag, component) = least(needs.iter(), kind);
        json!({ "Component": component, "Etag": etag })
    };
    json!({
        "Collection": name,
        "Documents": of(TombstoneKind::Documents),
        "TimeSeries": of(TombstoneKind::TimeSeries),
        "Counters": of(TombstoneKind::Counters),
    })
}

fn identifier(need: &TombstoneNeed) -> String {
    format!("{} '{}'", need.process, need.holder)
}

fn type_of(kind: TombstoneKind) -> &'static str {
    match kind {
        TombstoneKind::Documents => "Documents",
        TombstoneKind::Attachments => "Attachments",
        TombstoneKind::Counters => "Counters",
        TombstoneKind::TimeSeries => "TimeSeries",
    }
}

fn plain(need: &TombstoneNeed) -> Value {
    json!({
        "Identifier": identifier(need),
        "Type": type_of(need.kind),
        "Collection": need.collection.as_ref().map_or("@all_docs", |name| name.as_str()),
        "Etag": need.known.0,
    })
}

/// How many tombstones of its kind a need holds back.
fn extended(
    tx: &impl Transaction,
    need: &TombstoneNeed,
    positions: &Positions,
) -> Result<Value, DocumentError> {
    let number = match &need.collection {
        Some(name) => Some(documents::collection(tx, name)?.map_or(0, |found| found.number)),
        None => None,
    };
    let is_held =
        |(of, etag): &&(u32, Etag)| number.is_none_or(|number| number == *of) && need.known < *etag;
    let left = positions.get(&need.kind).map_or(0, |all| all.iter().filter(is_held).count());
    let of = |kind| if kind == need.kind { left } else { 0 };
    Ok(json!({
        "Identifier": need.holder,
        "Type": type_of(need.kind),
        "Collection": need.collection.as_ref().map_or("", |name| name.as_str()),
        "Etag": need.known.0,
        "NumberOfTombstoneLeft": left,
        "Types": {
            "Documents": of(TombstoneKind::Documents),
            "TimeSeries": of(TombstoneKind::TimeSeries),
            "Counters": of(TombstoneKind::Counters),
        },
        "CleanupStatus": if left == 0 { "Not Blocking" } else { "Blocking" },
        "Process": need.process,
        "Condition": need.condition,
    }))
}
