//! What counters say, given along with documents: `CounterIncludes` of an answer.

use blittable::write_json_string;
use query::{CounterIncludes, CountersOfDocument, IncludedCounters};
use wire::QueryString;

use crate::json_text::JsonObject;

/// In the place of a name: all counters.
const ALL: &str = "@all_counters";

/// What the parameters of a load ask for.
pub(crate) fn of_query(query: &QueryString<'_>) -> CounterIncludes {
    let names: Vec<String> = query.all("counter").map(str::to_owned).collect();
    match names.as_slice() {
        [] => CounterIncludes::default(),
        [name] if name == ALL => CounterIncludes::of_rows(None),
        _ => CounterIncludes::of_rows(Some(names)),
    }
}

/// Writes what the counters say as the last property of the object that `out` ends with.
pub(crate) fn write_behind(found: &IncludedCounters, out: &mut Vec<u8>) {
    out.pop();
    out.extend_from_slice(b",\"CounterIncludes\":{");
    write_each(found, out, |document, out| {
        out.push(b'[');
        for (index, counter) in document.counters.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let Some(counter) = counter else {
                out.extend_from_slice(b"null");
                continue;
            };
            let mut object = JsonObject::begin(out);
            object.text("DocumentId", &document.id);
            object.text("CounterName", &counter.name);
            object.number("TotalValue", counter.total);
            object.end();
        }
        out.push(b']');
    });
    out.extend_from_slice(b"}}");
}

/// Writes, in the same way, which counters were asked for.
pub(crate) fn write_names_behind(found: &IncludedCounters, out: &mut Vec<u8>) {
    out.pop();
    out.extend_from_slice(b",\"IncludedCounterNames\":{");
    write_each(found, out, |document, out| {
        out.push(b'[');
        for (index, name) in document.names.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_json_string(name, out);
        }
        out.push(b']');
    });
    out.extend_from_slice(b"}}");
}

fn write_each(
    found: &IncludedCounters,
    out: &mut Vec<u8>,
    write: impl Fn(&CountersOfDocument, &mut Vec<u8>),
) {
    for (index, document) in found.documents().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_string(&document.id, out);
        out.push(b':');
        write(document, out);
    }
}
