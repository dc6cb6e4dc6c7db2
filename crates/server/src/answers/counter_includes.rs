//! Counters included with documents: `CounterIncludes` of a response.

use blittable::write_json_string;
use query::{CounterIncludes, CountersOfDocument, IncludedCounter, IncludedCounters};
use wire::QueryString;

use crate::answers::{json_text::JsonObject, long_answer::Sink};

/// In place of a name: all counters.
const ALL: &str = "@all_counters";

/// The counters that the parameters of a load request.
pub(crate) fn of_query(query: &QueryString<'_>) -> CounterIncludes {
    let names: Vec<String> = query.all("counter").map(str::to_owned).collect();
    match names.as_slice() {
        [] => CounterIncludes::default(),
        [name] if name == ALL => CounterIncludes::of_rows(None),
        _ => CounterIncludes::of_rows(Some(names)),
    }
}

/// Writes the counters as the last property of the object that `out` ends with; `false` when the sink
/// requests to stop.
pub(crate) async fn write_behind(
    found: &IncludedCounters,
    out: &mut Vec<u8>,
    sink: Sink<'_>,
) -> bool {
    out.pop();
    out.extend_from_slice(b",\"CounterIncludes\":{");
    for (index, document) in found.documents().iter().enumerate() {
        begin_document(index, document, out);
        for (index, counter) in document.counters.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_counter(document, counter.as_ref(), out);
            if !sink.take(out).await {
                return false;
            }
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}}");
    true
}

fn write_counter(
    document: &CountersOfDocument,
    counter: Option<&IncludedCounter>,
    out: &mut Vec<u8>,
) {
    let Some(counter) = counter else { return out.extend_from_slice(b"null") };
    let mut object = JsonObject::begin(out);
    object.text("DocumentId", &document.id);
    object.text("CounterName", &counter.name);
    object.number("TotalValue", counter.total);
    object.end();
}

/// Writes, in the same way, which counters were requested.
pub(crate) async fn write_names_behind(
    found: &IncludedCounters,
    out: &mut Vec<u8>,
    sink: Sink<'_>,
) -> bool {
    out.pop();
    out.extend_from_slice(b",\"IncludedCounterNames\":{");
    for (index, document) in found.documents().iter().enumerate() {
        begin_document(index, document, out);
        for (index, name) in document.names.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_json_string(name, out);
            if !sink.take(out).await {
                return false;
            }
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}}");
    true
}

fn begin_document(index: usize, document: &CountersOfDocument, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    write_json_string(&document.id, out);
    out.extend_from_slice(b":[");
}
