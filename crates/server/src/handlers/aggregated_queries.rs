//! Responses to queries that return no rows: facets and suggestions.
//!
//! Counting reads every entry that the query selects, and suggesting every term of a field, so both
//! run off the threads that read connections.

use std::{rc::Rc, sync::Arc, time::Duration};

use database::DatabaseLease;
use documents::{DocumentError, DocumentRow};
use engine::QuerySnapshot;
use http::StatusCode;
use indexing::Index;
use query::{CountedFacet, FacetValue, QueryError, ResultFacts, ResultKind, SuggestedTerms};
use storage::{CountedOutput, WorkingMemory};
use wire::{ErrorKind, header_names::REQUEST_TIME};

use crate::{
    answers::{
        answer::Answer,
        answer_memory::{counting_memory, wait_for_room},
        json_text::{Commas, JsonObject, write_texts},
        long_answer::{Sink, at_once},
    },
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{
        queries::Prepared,
        query_pages::{PageHead, after_results, write_page_tail},
    },
    server_state::ServerState,
};

/// Of the value of a facet, besides its range: names and numbers.
const VALUE_BYTES: usize = 256;

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
    let (etag, answer) = blocking(move || {
        let _place = place;
        let snapshot = QuerySnapshot::take(&database, index, held.as_deref())?;
        let memory = counting_memory(&state);
        let is_short_of_memory = |error: &ApiError| error.kind == ErrorKind::LowMemory;
        // Each attempt releases what it held, so that others can finish.
        let (etag, body) = wait_for_room(&memory, is_short_of_memory, || {
            let _scope = memory.scope();
            write(&state, &prepared, &snapshot, kind, &memory)
        })?;
        Ok((etag, Answer::counted_json(body)))
    })
    .await?;
    let etag = etag.to_string();
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let elapsed = call.state.engine.clock().monotonic().saturating_sub(began).as_millis();
    Ok(answer.with_header(REQUEST_TIME, &elapsed.to_string()).with_header("etag", &etag))
}

/// The etag of the response, and its body.
fn write(
    state: &ServerState,
    prepared: &Prepared,
    snapshot: &QuerySnapshot,
    kind: ResultKind,
    memory: &Rc<WorkingMemory>,
) -> Result<(i64, CountedOutput), ApiError> {
    let (documents, query, parameters) =
        (snapshot.documents(), &prepared.bound.query, prepared.bound.parameters());
    let Some(index) = prepared.bound.entries(snapshot) else {
        let message = "Facets and suggestions require an index.".to_owned();
        return Err(ApiError::from(QueryError::InvalidOperation { message }));
    };
    let node_tag = state.node_tag();
    let mut out = CountedOutput::new(memory);
    let facts = match kind {
        ResultKind::Suggestions => {
            let result = query::suggestions_of_index(documents, &index, query, parameters)?;
            let found = state.engine.clock().monotonic();
            write_head(found.saturating_sub(prepared.began), &result.facts, &mut out.bytes);
            write_list(&result.suggestions, &mut out, write_suggestions)?;
            let mut page = after_results(&mut out.bytes);
            write_tail(std::iter::empty(), &result.facts, &node_tag, &mut page)?;
            prepared.write_additions(state, found, &mut page);
            page.end();
            result.facts
        }
        ResultKind::Facets | ResultKind::Rows => {
            let result = query::facets_of_index(documents, &index, query, parameters, memory)?;
            let found = state.engine.clock().monotonic();
            write_head(found.saturating_sub(prepared.began), &result.facts, &mut out.bytes);
            write_list(&result.facets, &mut out, write_facet)?;
            let includes = result.includes.into_iter().map(Ok);
            let mut page = after_results(&mut out.bytes);
            write_tail(includes, &result.facts, &node_tag, &mut page)?;
            prepared.write_additions(state, found, &mut page);
            page.end();
            result.facts
        }
    };
    out.settle();
    Ok((facts.result_etag, out))
}

fn write_tail<'t>(
    includes: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>>,
    facts: &ResultFacts,
    node_tag: &str,
    page: &mut JsonObject<'_>,
) -> Result<(), ApiError> {
    let whole = Sink::Whole { bytes_max: usize::MAX };
    at_once(write_page_tail(includes, facts, node_tag, page, whole)).transpose()?;
    Ok(())
}

fn write_head(elapsed: Duration, facts: &ResultFacts, out: &mut Vec<u8>) {
    PageHead { facts, elapsed, rows: None }.write(out);
}

fn write_list<T>(
    items: &[T],
    out: &mut CountedOutput,
    write: impl Fn(&T, &mut CountedOutput) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let mut commas = Commas::default();
    for item in items {
        commas.before_next(&mut out.bytes);
        write(item, out)?;
    }
    Ok(())
}

fn write_suggestions(suggested: &SuggestedTerms, out: &mut CountedOutput) -> Result<(), ApiError> {
    let terms: Vec<&str> = suggested.terms.iter().map(String::as_str).collect();
    out.append(texts_bytes(&terms), |out| {
        let mut object = JsonObject::begin(out);
        object.text("Name", &suggested.name);
        write_texts(&terms, object.name("Suggestions"));
        object.end();
        Ok(())
    })
}

fn write_facet(facet: &CountedFacet, out: &mut CountedOutput) -> Result<(), ApiError> {
    let mut object = JsonObject::begin(&mut out.bytes);
    object.text("Name", &facet.name);
    object.name("Values").push(b'[');
    write_list(&facet.values, out, |value, out| {
        let bytes_max = 2 * value.range.len() + VALUE_BYTES;
        out.append(bytes_max, |out| {
            write_value(value, out);
            Ok(())
        })
    })?;
    let remaining: Vec<&str> = facet.remaining_terms.iter().map(String::as_str).collect();
    out.append(texts_bytes(&remaining), |out| {
        let mut object = after_results(out);
        object.number("RemainingHits", facet.remaining_hits);
        object.number("RemainingTermsCount", facet.remaining_terms_count);
        write_texts(&remaining, object.name("RemainingTerms"));
        object.end();
        Ok(())
    })
}

/// What a list of texts takes, if few of their characters are escaped.
fn texts_bytes(texts: &[&str]) -> usize {
    VALUE_BYTES + texts.iter().map(|text| text.len() + 4).sum::<usize>()
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
