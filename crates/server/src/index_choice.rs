//! Which index answers a query: the one that it names, an automatic one that fits, or one that is made
//! for it. And waiting, without holding a thread, until an index has caught up.

use std::{sync::Arc, time::Duration};

use blittable::BlittableBuf;
use database::DatabaseLease;
use indexing::{AutoChoice, AutoIndexDefinition, FaultyIndex, Index, IndexRecord, Position};
use query::{Paging, QueryError};
use rql::{Query, SourceKind};
use serde_json::{Map, Value};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use wire::{ErrorKind, ProtocolError, header_names::SNAPSHOT};

use crate::{
    blocking::blocking,
    error_mapping::{index_error, query_error},
    server_state::ServerState,
    stored_record::{change_body, section_of},
};

/// How long a query that makes its index waits for it, and how long one waits that asks to.
pub(crate) const WAIT_DEFAULT: Duration = Duration::from_secs(15);
/// How long the index that takes its place may take to catch up before one looks again.
const SUPERSEDED_WAIT: Duration = Duration::from_secs(3600);

/// What answers a query.
pub(crate) enum Target {
    /// The documents themselves.
    Collection,
    /// An index.
    Index {
        /// Which.
        index: Arc<Index>,
        /// Whether it was made for this query.
        is_new: bool,
    },
}

/// What answers a query, or would.
enum Choice {
    There(Target),
    Wanted { definition: AutoIndexDefinition, supersedes: Option<Arc<Index>> },
}

/// Finds what answers the query, and makes an automatic index if need be.
pub(crate) async fn target_of(
    state: &Arc<ServerState>,
    database: &DatabaseLease,
    query: &Query,
    parameters: Option<&BlittableBuf>,
) -> Result<Target, TargetError> {
    match choose(database, query, parameters)? {
        Choice::There(target) => Ok(target),
        Choice::Wanted { definition, supersedes } => {
            let made = make_in_place_of(state, database, definition, supersedes).await;
            made.map_err(TargetError::Refused)
        }
    }
}

/// Finds what answers a query on a snapshot: nothing can be made for it any more.
pub(crate) fn target_of_the_past(
    database: &DatabaseLease,
    query: &Query,
    parameters: Option<&BlittableBuf>,
) -> Result<Target, TargetError> {
    match choose(database, query, parameters)? {
        Choice::There(target) => Ok(target),
        Choice::Wanted { definition, .. } => {
            Err(TargetError::Refused(no_index_in_snapshot(&definition.name())))
        }
    }
}

/// The refusal of a query on an index that is younger than the snapshot.
pub(crate) fn no_index_in_snapshot(name: &str) -> ProtocolError {
    ProtocolError::invalid_operation(format!(
        "The snapshot has no index '{name}', which the query needs. Let the index be made by a query \
         without the header {SNAPSHOT}, then open another snapshot"
    ))
}

fn choose(
    database: &DatabaseLease,
    query: &Query,
    parameters: Option<&BlittableBuf>,
) -> Result<Choice, TargetError> {
    if let SourceKind::Index(name) = &query.source.kind {
        return match database.indexes().get(name) {
            Some(index) => Ok(Choice::There(Target::Index { index, is_new: false })),
            None => match database.indexes().faulty_named(name) {
                Some(faulty) => Err(TargetError::Refused(faulty_index_error(&faulty))),
                None => Err(TargetError::MissingIndex(name.clone())),
            },
        };
    }
    let parameters = parameters.map(|values| values.as_view().root());
    match query::plan(query, parameters, Paging::default()) {
        Ok(_) => return Ok(Choice::There(Target::Collection)),
        Err(QueryError::NeedsIndex { .. }) => {}
        Err(error) => return Err(TargetError::Refused(query_error(error))),
    }
    let wanted = query::needed_index(query, parameters)
        .map_err(|error| TargetError::Refused(query_error(error)))?;
    Ok(match database.indexes().choose_auto(&wanted) {
        AutoChoice::Answers(index) => Choice::There(Target::Index { index, is_new: false }),
        AutoChoice::Wanted { definition, supersedes } => Choice::Wanted { definition, supersedes },
    })
}

/// Why there is nothing to ask.
pub(crate) enum TargetError {
    /// The query names an index that there is not.
    MissingIndex(String),
    /// The query is refused.
    Refused(ProtocolError),
}

/// An index that has stopped answers nothing.
pub(crate) fn refuse_invalid(index: &Index) -> Result<(), ProtocolError> {
    if let Some(failure) = index.failure() {
        let message = format!("Index '{}' cannot be asked: {failure}", index.name());
        return Err(ProtocolError::new(ErrorKind::IndexInvalid, message));
    }
    let record = index.record();
    if !record.has_failed {
        return Ok(());
    }
    let name = index.name();
    Err(ProtocolError::invalid_operation(format!(
        "Index '{name}' is marked as errored. Index {name} is invalid, {} exceeds allowed 15% error \
         rate",
        error_rate_of(&record, index.has_reduce())
    )))
}

/// How much of what an index tried has failed, in words.
fn error_rate_of(record: &IndexRecord, has_reduce: bool) -> String {
    let IndexRecord { map_attempts, map_errors, reduce_attempts, reduce_errors, .. } = *record;
    let (attempts, errors) = (map_attempts + reduce_attempts, map_errors + reduce_errors);
    // Two digits behind the point, and none that say nothing.
    let percent = (10_000.0 * errors as f64 / attempts.max(1) as f64).round() / 100.0;
    if has_reduce {
        return format!(
            "out of {map_attempts} map attempts and {reduce_attempts} reduce attempts, {map_errors} \
             and {reduce_errors} has failed respectively. Error rate of {percent}%"
        );
    }
    format!("out of {map_attempts} map attempts, {map_errors} has failed. Error rate of {percent}%")
}

/// The error about an index that there is not.
pub(crate) fn missing_index_error(name: &str) -> ProtocolError {
    query_error(QueryError::MissingIndex { name: name.to_owned() })
}

async fn make_in_place_of(
    state: &Arc<ServerState>,
    database: &DatabaseLease,
    definition: AutoIndexDefinition,
    supersedes: Option<Arc<Index>>,
) -> Result<Target, ProtocolError> {
    let _turn = state.indexes_in_making.turn_of(database).await;
    // Many queries may want the same index at once: the first one makes it.
    let index = match database.indexes().get(&definition.name()) {
        Some(index) => index,
        None => make(state, database, definition).await?,
    };
    if let Some(superseded) = supersedes {
        tokio::spawn(delete_when_caught_up(
            Arc::clone(state),
            database.record().name.as_str().to_owned(),
            Arc::downgrade(&index),
            superseded.name().to_owned(),
        ));
    }
    Ok(Target::Index { index, is_new: true })
}

/// Writes the definition into the record of the database, which makes the index.
async fn make(
    state: &Arc<ServerState>,
    database: &DatabaseLease,
    definition: AutoIndexDefinition,
) -> Result<Arc<Index>, ProtocolError> {
    let (name, shape) = (definition.name(), definition.to_shape());
    let (state, database_name) = (Arc::clone(state), database.record().name.clone());
    let in_record = name.clone();
    blocking(move || {
        change_body(&state, database_name.as_str(), |body| {
            let shape = serde_json::to_value(&shape).unwrap_or_default();
            auto_indexes_of(body).insert(in_record.clone(), shape);
        })
    })
    .await?;
    if let Some(index) = database.indexes().get(&name) {
        return Ok(index);
    }
    let faulty = database.indexes().faulty();
    match faulty.iter().find(|faulty| faulty.name.eq_ignore_ascii_case(&name)) {
        Some(faulty) => Err(index_error(&faulty.error)),
        None => Err(ProtocolError::invalid_operation(format!("The index {name} has gone again"))),
    }
}

fn auto_indexes_of(body: &mut Map<String, Value>) -> &mut Map<String, Value> {
    section_of(body, "AutoIndexes")
}

/// Deletes the automatic indexes that nobody needs any more. Blocks.
pub(crate) fn delete_unneeded(state: &ServerState) {
    for database in state.registry.open_leases() {
        let unneeded = database.indexes().look_at_automatic(&database.auto_index_limits());
        if unneeded.is_empty() {
            continue;
        }
        let name = database.record().name.clone();
        tracing::info!(database = name.as_str(), ?unneeded, "automatic indexes are deleted");
        let deleted = change_body(state, name.as_str(), |body| {
            let autos = auto_indexes_of(body);
            autos.retain(|name, _| !unneeded.contains(name));
        });
        if let Err(error) = deleted {
            let message = &error.message;
            tracing::error!(database = name.as_str(), message, "they could not be deleted");
        }
    }
}

/// Deletes an automatic index some time after the one that takes its place has caught up.
async fn delete_when_caught_up(
    state: Arc<ServerState>,
    database_name: String,
    successor: std::sync::Weak<Index>,
    superseded: String,
) {
    let (kept, caught_up) = {
        let (Some(index), Some(database)) =
            (successor.upgrade(), state.registry.if_open(&database_name))
        else {
            return;
        };
        let Ok(last) = index.last_position_in(&database.read()) else { return };
        let kept = database.auto_index_limits().superseded_kept;
        (kept, wait_until(&index, last, SUPERSEDED_WAIT))
    };
    if !caught_up.await {
        return;
    }
    sleep(kept).await;
    let deleted = blocking(move || {
        change_body(&state, &database_name, |body| {
            auto_indexes_of(body).remove(&superseded);
        })
    });
    // Whoever deleted the database in the meantime deleted the index with it.
    drop(deleted.await);
}

/// Waits until every change up to `position` is in the entries; `false` when that took too long.
pub(crate) fn wait_until(
    index: &Index,
    position: Position,
    wait_max: Duration,
) -> impl Future<Output = bool> + Send + use<> {
    let (sender, receiver) = oneshot::channel();
    // A request that has given up needs no answer.
    index.when_indexed(position, Box::new(move |reached| sender.send(reached).unwrap_or(())));
    async move { matches!(timeout(wait_max, receiver).await, Ok(Ok(true))) }
}

/// Waits until the index has everything that is there now.
pub(crate) async fn catch_up(
    database: &DatabaseLease,
    index: &Index,
    wait_max: Duration,
) -> Result<bool, ProtocolError> {
    let last = index.last_position_in(&database.read()).map_err(|error| index_error(&error))?;
    Ok(wait_until(index, last, wait_max).await)
}

/// The refusal of a query on an index that could not be opened.
fn faulty_index_error(faulty: &FaultyIndex) -> ProtocolError {
    let FaultyIndex { name, error, .. } = faulty;
    let message = format!("Index '{name}' cannot be asked, it could not be opened: {error}");
    ProtocolError::new(ErrorKind::IndexInvalid, message)
}
