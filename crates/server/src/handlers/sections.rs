//! The sections of a database's record that requests of their own show and replace.

use database::WrittenRecord;
use http::StatusCode;
use serde_json::json;
use wire::{RecordBody, SectionKind, StoredSection};

use crate::{answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call};

/// A section as it is stored; without a body if there is none.
pub(crate) fn show(call: &Call, kind: SectionKind) -> Result<Answer, ApiError> {
    let body = RecordBody::of_record(&call.database()?.record());
    Ok(match body.section(kind) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// Replaces a section of the record of the database that is called.
pub(crate) async fn replace(call: Call, section: StoredSection) -> Result<Answer, ApiError> {
    let name = call.database()?.record().name.as_str().to_owned();
    let state = call.state;
    blocking(move || Ok(replaced(&state.engine.configure(&name, &[section])?))).await
}

/// The answer to a request that configured a database.
pub(crate) fn replaced(written: &WrittenRecord) -> Answer {
    Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": written.index}))
}
