//! The terms of a field of an index.

use http::StatusCode;
use indexing::{Index, IndexError, array_mark_name};
use search::{FieldId, IndexReader, SearchError, TermValue};
use serde_json::json;
use storage::Transaction;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, handlers::indexes::named};

/// How many terms are returned by default.
const TERMS_MAX: usize = 1024;

/// `GET /indexes/terms`.
pub(crate) fn terms(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    let field = query.single_non_empty("field")?;
    let index = named(call, name)?;
    engine::check_index_answers(&index)?;
    let tx = index.read();
    let etag = terms_etag(&index).to_string();
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let limit = query.int("pageSize")?.and_then(|size| usize::try_from(size).ok());
    let limit = limit.unwrap_or(TERMS_MAX);
    let after = query.get("fromValue").filter(|value| !value.is_empty());
    let terms = terms_of(&index, &tx, field, after, limit)?;
    let shape = json!({
        "IndexName": index.name(), "ResultEtag": terms_etag(&index), "Terms": terms
    });
    Ok(Answer::shape(StatusCode::OK, &shape).with_header("etag", &etag))
}

fn terms_etag(index: &Index) -> i64 {
    let record = index.record();
    record.created_ticks ^ record.last_etag.cast_signed().rotate_left(32)
}

/// The field with that name; `X_IsArray` stands for the array markers of `X`.
fn listed_field(
    reader: &IndexReader<'_, impl Transaction>,
    name: &str,
) -> Result<Option<FieldId>, SearchError> {
    let marked = name.strip_suffix("_IsArray").map(array_mark_name);
    match (reader.field(name)?, marked) {
        (None, Some(mark)) => reader.field(&mark),
        (found, _) => Ok(found),
    }
}

fn terms_of(
    index: &Index,
    tx: &impl Transaction,
    field: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, ApiError> {
    let failed = |error| ApiError::from(IndexError::from(error));
    let reader = IndexReader::open(tx).map_err(failed)?;
    let layout = index.spatial_layout(field);
    let field = listed_field(&reader, field).map_err(failed)?;
    let Some(field) = field else { return Ok(Vec::new()) };
    // Clients know null and the empty string by names, which sort where such strings would.
    let mut named = Vec::new();
    for value in [TermValue::Text(String::new()), TermValue::Null] {
        let is_there = 0 < reader.count_of(field, &value).map_err(failed)?;
        let name = query::term_text(value).unwrap_or_default();
        if is_there && after.is_none_or(|after| after < name.as_str()) {
            named.push(name);
        }
    }
    let after_text = TermValue::Text(after.unwrap_or_default().to_owned());
    let texts = reader.terms(field, Some(&after_text), limit).map_err(failed)?;
    let mut terms: Vec<String> =
        texts.into_iter().filter_map(|term| query::term_text(term.value)).collect();
    for name in named {
        let place = terms.partition_point(|term| *term < name);
        if place < limit {
            terms.insert(place, name);
        }
    }
    terms.truncate(limit);
    let room = limit - terms.len();
    let cells = reader.cell_names(field, &layout, after.unwrap_or_default(), room);
    terms.extend(cells.map_err(failed)?);
    Ok(terms)
}
