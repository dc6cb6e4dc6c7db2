//! Counters in responses.

use documents::{CounterDetail, CounterRow, CounterValue};
use model::CounterName;

use crate::{
    answers::json_text::{JsonArray, JsonObject},
    api_error::ApiError,
};

/// How a response contains the values per database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownValues {
    /// As a property of each counter.
    Each,
    /// As a property that is null.
    Null,
}

/// Adds counters to a list; `null` for one that does not exist.
pub(crate) fn write_details<'a>(
    document_id: &str,
    details: impl IntoIterator<Item = Option<&'a CounterDetail>>,
    shown: ShownValues,
    counters: &mut JsonArray<'_>,
) {
    for detail in details {
        let out = counters.element();
        let Some(CounterDetail { name, total, values }) = detail else {
            out.extend_from_slice(b"null");
            continue;
        };
        let mut object = JsonObject::begin(out);
        object.text("DocumentId", document_id);
        object.text("CounterName", name.as_str());
        object.number("TotalValue", total);
        match shown {
            ShownValues::Each => write_values(values, object.name("CounterValues")),
            ShownValues::Null => object.optional_text("CounterValues", None),
        }
        object.end();
    }
}

fn write_values(values: &[CounterValue], out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    for CounterValue { node_tag, database_id, value, .. } in values {
        let out = object.key(&format!("{node_tag}-{database_id}"));
        out.extend_from_slice(value.to_string().as_bytes());
    }
    object.end();
}

/// A counter, under the name that the request has for it.
pub(crate) fn detail_of(
    row: &CounterRow<'_>,
    name: CounterName,
) -> Result<CounterDetail, ApiError> {
    let values = row.values().collect::<Result<_, _>>()?;
    Ok(CounterDetail { name, total: row.total(), values })
}
