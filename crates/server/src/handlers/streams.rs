//! `/streams/docs`: a stream of all documents, or of those with a prefix.

use crate::{
    answers::{
        answer::Answer,
        document_pages::{Form, Listing, list_documents},
    },
    api_error::ApiError,
    call::Call,
};

/// `GET /streams/docs`.
pub(crate) fn documents(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let form = match query.get("format") {
        Some(format) if format.eq_ignore_ascii_case("jsonl") => Form::Lines,
        _ => Form::Envelope,
    };
    let database = call.database()?;
    let listing = Listing::of(&query)?.in_form(form).pinned(call.snapshot.is_some());
    Ok(list_documents(database.clone(), call.read()?, listing))
}
