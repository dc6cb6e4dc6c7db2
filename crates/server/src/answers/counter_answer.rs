//! Counters in responses, and their changes in requests.

use documents::{ChangeCounters, CounterDetail, CounterRow, CounterStep, CounterValue};
use model::{CounterName, DocumentId};
use wire::{CounterOperation, CounterOperationKind, DocumentCounters};

use crate::{
    answers::json_text::{JsonArray, JsonObject},
    api_error::ApiError,
};

/// The changes that a request makes to one document. Operations without effect are omitted.
pub(crate) fn change_counters(requested: DocumentCounters) -> Result<ChangeCounters, ApiError> {
    let DocumentCounters { document_id: id, operations } = requested;
    let mut steps = Vec::with_capacity(operations.len());
    for CounterOperation { kind, name, delta } in operations {
        steps.push(match kind {
            CounterOperationKind::Nothing => continue,
            CounterOperationKind::Increment => {
                CounterStep::Increment { name: counter_name(name)?, by: delta }
            }
            CounterOperationKind::Delete => CounterStep::Delete { name: counter_name(name)? },
            CounterOperationKind::Get => CounterStep::Get { name: counter_name(name)? },
        });
    }
    Ok(ChangeCounters { id: DocumentId::new(id)?, steps })
}

pub(crate) fn counter_name(text: String) -> Result<CounterName, ApiError> {
    CounterName::new(text).map_err(|error| ApiError::argument(error.to_string()))
}

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
