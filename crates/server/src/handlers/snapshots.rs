//! `/snapshots`: snapshots that are held, for a limited time, for several requests of a client. An
//! extension.

use std::time::Duration;

use http::StatusCode;
use wire::ErrorKind;

use crate::{
    answers::{answer::Answer, json_text::JsonObject},
    api_error::ApiError,
    call::Call,
};

/// `POST /snapshots`: holds the newest durable snapshot, and returns its token.
pub(crate) fn open(call: &Call) -> Result<Answer, ApiError> {
    let (database, limits) = (call.database()?, &call.state.engine.settings().snapshots);
    let lifetime = match call.query().long("lifetimeInSec")? {
        None => limits.lifetime.min(limits.lifetime_max),
        Some(seconds) => checked_lifetime(seconds, limits.lifetime_max)?,
    };
    let token = format!(
        "{:016x}{:016x}",
        call.state.engine.random_number(),
        call.state.engine.random_number()
    );
    let now = call.state.engine.clock().monotonic();
    let held = database.hold_snapshot(token, now + lifetime, now, limits.open_max);
    let held = held.map_err(|_| {
        let message = format!(
            "{} snapshots of this database are held already (Snapshots.MaxOpenPerDatabase). Release \
             some, or wait until they end",
            limits.open_max
        );
        ApiError::new(ErrorKind::Overloaded, message)
    })?;
    let progress = documents::progress(held.documents())?;
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.text("Snapshot", held.token());
    object.number("LifetimeInSec", lifetime.as_secs());
    object.number("LastDatabaseEtag", progress.last_etag.0);
    object.text("DatabaseChangeVector", &progress.change_vector.to_string());
    object.end();
    Ok(Answer::json_with(StatusCode::CREATED, body))
}

fn checked_lifetime(seconds: i64, lifetime_max: Duration) -> Result<Duration, ApiError> {
    let lifetime = u64::try_from(seconds).ok().filter(|seconds| *seconds != 0);
    let lifetime = lifetime.map(Duration::from_secs).filter(|asked| *asked <= lifetime_max);
    lifetime.ok_or_else(|| {
        let message = format!(
            "A snapshot is held for 1 to {} seconds (Snapshots.MaxLifetimeInSec), but \
             'lifetimeInSec' is {seconds}",
            lifetime_max.as_secs()
        );
        ApiError::new(ErrorKind::ArgumentOutOfRange, message)
    })
}

/// `DELETE /snapshots`: releases one.
pub(crate) fn release(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let is_there = call.database()?.release_snapshot(query.single_non_empty("id")?);
    Ok(Answer::empty(if is_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }))
}
