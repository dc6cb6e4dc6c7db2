//! Counters in responses, and their changes in requests.

use documents::{ChangeCounters, CounterDetail, CounterRow, CounterStep, CounterValue};
use model::{CounterName, DocumentId};
use wire::{CounterOperation, CounterOperationKind, DocumentCounters};

use crate::{answers::json_text::JsonObject, api_error::ApiError};

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

/// Writes a list of counters; `null` for one that does not exist.
pub(crate) fn write_details<'a>(
    document_id: &str,
    details: impl IntoIterator<Item = Option<&'a CounterDetail>>,
    shown: ShownValues,
    out: &mut Vec<u8>,
) {
    for (index, detail) in details.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
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
    out.push(b'{');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // Tags and ids are letters, digits, `+` and `/`: nothing to escape.
        let CounterValue { node_tag, database_id, value, .. } = value;
        out.extend_from_slice(format!("\"{node_tag}-{database_id}\":{value}").as_bytes());
    }
    out.push(b'}');
}

/// A counter, under the name that the request has for it.
pub(crate) fn detail_of(
    row: &CounterRow<'_>,
    name: CounterName,
) -> Result<CounterDetail, ApiError> {
    let values = row.values().collect::<Result<_, _>>();
    let values = values?;
    Ok(CounterDetail { name, total: row.total(), values })
}
