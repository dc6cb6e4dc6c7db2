//! Compare exchange values as JSON.

use blittable::{Document, MemberPrinter};
use cluster_state::ClusterError;

use crate::{
    answers::{json_text::JsonObject, long_answer::Sink, piece_sender::PIECE_BYTES},
    api_error::ApiError,
};

/// The version of a missing value.
const MISSING_INDEX: i64 = -1;

/// At least as many bytes as [`write_entry`] appends for a value, besides its fixed parts.
///
/// # Errors
///
/// The value is damaged.
pub(crate) fn entry_bytes(
    key: &str,
    value: Option<(u64, &Document<'_>)>,
) -> Result<usize, ApiError> {
    let value_bytes = match value {
        Some((_, value)) => blittable::printed_bytes(&blittable::Value::Object(value.root()))
            .map_err(|error| ApiError::from(ClusterError::from(error)))?,
        None => 0,
    };
    Ok(usize::try_from(value_bytes).unwrap_or(usize::MAX).saturating_add(key.len()))
}

/// The version to report: a missing value has one, too.
fn reported_index(value: Option<(u64, &Document<'_>)>) -> i64 {
    value.map_or(MISSING_INDEX, |(index, _)| index.cast_signed())
}

/// As [`write_entry`], with the property order of included values.
pub(crate) fn write_include(
    key: &str,
    value: Option<(u64, &Document<'_>)>,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let mut object = JsonObject::begin(body);
    object.text("Key", key);
    object.number("Index", reported_index(value));
    write_value(value.map(|(_, value)| value), object.name("Value"))?;
    object.end();
    Ok(())
}

/// One value with its key and version; also of a missing one.
pub(crate) fn write_entry(
    key: &str,
    value: Option<(u64, &Document<'_>)>,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let mut object = JsonObject::begin(body);
    object.text("Key", key);
    write_value(value.map(|(_, value)| value), object.name("Value"))?;
    object.number("Index", reported_index(value));
    object.end();
    Ok(())
}

/// As [`write_entry`], and flushes to the sink what has accumulated; `false` when it requests to stop.
pub(crate) async fn write_large_entry(
    key: &str,
    (index, value): (u64, &Document<'_>),
    sink: Sink<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let damaged = |error| ApiError::from(ClusterError::from(error));
    let mut object = JsonObject::begin(out);
    object.text("Key", key);
    object.name("Value").push(b'{');
    let mut members = MemberPrinter::new(&value.root()).map_err(damaged)?;
    loop {
        let is_done = members.print_to(out, out.len() + PIECE_BYTES, |_| false).map_err(damaged)?;
        if is_done {
            break;
        }
        if !sink.take(out).await {
            return Ok(false);
        }
    }
    out.push(b'}');
    let mut object = JsonObject::resume(out);
    object.number("Index", index);
    object.end();
    Ok(true)
}

/// A value, or `null`.
pub(crate) fn write_value(
    value: Option<&Document<'_>>,
    body: &mut Vec<u8>,
) -> Result<(), ApiError> {
    match value {
        Some(value) => {
            value.write_json(body).map_err(|error| ApiError::from(ClusterError::from(error)))
        }
        None => {
            body.extend_from_slice(b"null");
            Ok(())
        }
    }
}
