//! Answers to queries that show no rows: facets and suggestions.
//!
//! Counting looks at every entry that the query chooses, and suggesting at every term of a field, so
//! both leave the threads that read connections.

use std::{sync::Arc, time::Duration};

use database::DatabaseLease;
use documents::{DocumentError, DocumentRow};
use http::StatusCode;
use indexing::Index;
use query::{CountedFacet, FacetValue, QueryError, ResultFacts, ResultKind, SuggestedTerms};
use wire::{ErrorKind, header_names::REQUEST_TIME};

use crate::{
    answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{
        queries::{Prepared, Snapshot},
        query_memory::memory_to_count,
        query_pages::{write_page_tail, write_texts},
    },
    json_text::JsonObject,
    long_answer::{Sink, at_once},
    query_timings::milliseconds,
    server_state::ServerState,
};

/// Answers a query for facets or suggestions.
pub(crate) async fn answer(
    call: &Call,
    prepared: Prepared,
    database: DatabaseLease,
    index: Option<Arc<Index>>,
    kind: ResultKind,
) -> Result<Answer, ApiError> {
    if !prepared.is_page() {
        let message = "Facets and suggestions are not supported by this type of query.";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    let (state, began) = (Arc::clone(&call.state), prepared.began);
    let held = call.snapshot.clone();
    let place = state.rooms.counting.take(database.record().name.lower_cased()).await?;
    let (etag, body) = blocking(move || {
        let _place = place;
        let snapshot = Snapshot::take(&database, index, held.as_deref())?;
        write(&state, &prepared, &snapshot, kind)
    })
    .await?;
    let etag = etag.to_string();
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let elapsed = call.state.platform.clock.monotonic().saturating_sub(began).as_millis();
    Ok(Answer::json(body)
        .with_header(REQUEST_TIME, &elapsed.to_string())
        .with_header("etag", &etag))
}

/// The etag of the answer, and its body.
fn write(
    state: &ServerState,
    prepared: &Prepared,
    snapshot: &Snapshot,
    kind: ResultKind,
) -> Result<(i64, Vec<u8>), ApiError> {
    let (documents, query, parameters) =
        (snapshot.documents(), &prepared.query, prepared.parameters());
    let Some(index) = prepared.index_snapshot(snapshot) else {
        let message = "Facets and suggestions take an index.".to_owned();
        return Err(ApiError::from(QueryError::InvalidOperation { message }));
    };
    let mut out = Vec::new();
    let (found, facts) = match kind {
        ResultKind::Suggestions => {
            let result = query::suggestions_of_index(documents, &index, query, parameters)?;
            let found = state.platform.clock.monotonic();
            write_head(found.saturating_sub(prepared.began), &result.facts, &mut out);
            write_list(&result.suggestions, &mut out, write_suggestions);
            write_tail(std::iter::empty(), &result.facts, &mut out)?;
            (found, result.facts)
        }
        ResultKind::Facets | ResultKind::Rows => {
            // It counts until all of it is written.
            let memory = memory_to_count(state);
            let result = query::facets_of_index(documents, &index, query, parameters, &memory)?;
            let found = state.platform.clock.monotonic();
            write_head(found.saturating_sub(prepared.began), &result.facts, &mut out);
            write_list(&result.facets, &mut out, write_facet);
            write_tail(result.includes.into_iter().map(Ok), &result.facts, &mut out)?;
            (found, result.facts)
        }
    };
    prepared.write_additions(state, found, &mut out);
    Ok((facts.result_etag, out))
}

fn write_tail<'t>(
    includes: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>>,
    facts: &ResultFacts,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let whole = Sink::Whole { bytes_max: usize::MAX };
    at_once(write_page_tail(includes, facts, out, whole)).transpose()?;
    Ok(())
}

fn write_head(elapsed: Duration, facts: &ResultFacts, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.number("TotalResults", facts.total_results);
    object.number("LongTotalResults", facts.total_results);
    object.number("DurationInMs", milliseconds(Duration::ZERO, elapsed));
    object.text("IndexName", &facts.index_name);
    object.name("Results").push(b'[');
}

fn write_list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    for (number, item) in items.iter().enumerate() {
        if 0 < number {
            out.push(b',');
        }
        write(item, out);
    }
}

fn write_suggestions(suggested: &SuggestedTerms, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.text("Name", &suggested.name);
    let terms: Vec<&str> = suggested.terms.iter().map(String::as_str).collect();
    write_texts(&terms, object.name("Suggestions"));
    object.end();
}

fn write_facet(facet: &CountedFacet, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.text("Name", &facet.name);
    let values = object.name("Values");
    values.push(b'[');
    write_list(&facet.values, values, write_value);
    values.push(b']');
    object.number("RemainingHits", facet.remaining_hits);
    object.number("RemainingTermsCount", facet.remaining_terms_count);
    let remaining: Vec<&str> = facet.remaining_terms.iter().map(String::as_str).collect();
    write_texts(&remaining, object.name("RemainingTerms"));
    object.end();
}

fn write_value(value: &FacetValue, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.optional_text("Name", value.name.as_deref());
    let numbers =
        [("Average", value.average), ("Max", value.max), ("Min", value.min), ("Sum", value.sum)];
    for (name, number) in numbers {
        match number {
            None => {}
            // JSON has no such numbers; clients know their names.
            Some(f64::INFINITY) => object.text(name, "Infinity"),
            Some(f64::NEG_INFINITY) => object.text(name, "-Infinity"),
            Some(number) if number.is_nan() => object.text(name, "NaN"),
            Some(number) => object.number(name, script::double_text(number)),
        }
    }
    object.number("Count", value.count);
    object.text("Range", &value.range);
    object.end();
}
