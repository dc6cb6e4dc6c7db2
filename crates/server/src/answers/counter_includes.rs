//! Counters included with documents: `CounterIncludes` of a response.

use blittable::write_json_string;
use query::{CounterIncludes, CountersOfDocument, IncludedCounter, IncludedCounters};
use wire::QueryString;

use crate::answers::{
    json_text::{JsonArray, JsonObject},
    long_answer::Sink,
};

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

/// Adds the counters to a page; `false` when the sink requests to stop.
pub(crate) async fn write(
    found: &IncludedCounters,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> bool {
    let mut documents = JsonObject::begin(page.name("CounterIncludes"));
    for document in found.documents() {
        let mut counters = JsonArray::begin(documents.key(&document.id));
        for counter in &document.counters {
            write_counter(document, counter.as_ref(), counters.element());
            if !sink.take(counters.out()).await {
                return false;
            }
        }
        counters.end();
    }
    documents.end();
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

/// Adds, in the same way, which counters were requested.
pub(crate) async fn write_names(
    found: &IncludedCounters,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> bool {
    let mut documents = JsonObject::begin(page.name("IncludedCounterNames"));
    for document in found.documents() {
        let mut names = JsonArray::begin(documents.key(&document.id));
        for name in &document.names {
            write_json_string(name, names.element());
            if !sink.take(names.out()).await {
                return false;
            }
        }
        names.end();
    }
    documents.end();
    true
}
