//! Entries of time series as JSON.

use std::collections::BTreeMap;

use documents::time_series::{SeriesReader, TimeSeriesEntry};
use model::{date, ticks::TICKS_PER_MILLISECOND};
use query::{Numbers, write_number};

use crate::answers::json_text::{JsonArray, JsonObject};

/// The start of the tags of incremental series, before the id of the database.
const TAG_PREFIXES: [&str; 2] = ["TC:INC-", "TC:DEC-"];

fn write_values(values: &[f64], form: Numbers, out: &mut Vec<u8>) {
    let mut array = JsonArray::begin(out);
    for value in values {
        write_number(*value, form, array.element());
    }
    array.end();
}

fn write_moment(moment: i64, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&date::text(moment.saturating_mul(TICKS_PER_MILLISECOND)));
    out.push(b'"');
}

/// Writes the properties of an entry in the format of ranges.
pub(crate) fn write_entry(entry: &TimeSeriesEntry<'_>, object: &mut JsonObject<'_>) {
    write_moment(entry.timestamp_ms, object.name("Timestamp"));
    object.optional_text("Tag", entry.tag);
    write_values(entry.values, Numbers::Short, object.name("Values"));
    object.flag("IsRollup", entry.is_rollup);
}

/// Writes an entry in the format of streams.
pub(crate) fn write_streamed_entry(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    let mut object = JsonObject::begin(out);
    object.optional_text("Tag", entry.tag);
    write_moment(entry.timestamp_ms, object.name("Timestamp"));
    write_values(entry.values, Numbers::Doubles, object.name("Values"));
    object.flag("IsRollup", entry.is_rollup);
    object.end();
}

/// Adds the contribution of each node to the reader's last entry; nothing for an ordinary series.
pub(crate) fn write_node_values(
    reader: &SeriesReader<'_>,
    node_tag: &str,
    object: &mut JsonObject<'_>,
) {
    let mut nodes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for entry in reader.stored_entries() {
        let tag = entry.tag.unwrap_or_default();
        let node = TAG_PREFIXES.iter().find_map(|prefix| tag.strip_prefix(prefix)).unwrap_or(tag);
        let sums = nodes.entry(node).or_default();
        sums.resize(sums.len().max(entry.values.len()), 0.0);
        sums.iter_mut().zip(entry.values).for_each(|(sum, value)| *sum += value);
    }
    if nodes.is_empty() {
        return;
    }
    let mut of_nodes = JsonObject::begin(object.name("NodeValues"));
    for (node, values) in &nodes {
        write_values(values, Numbers::Short, of_nodes.key(&format!("{node_tag}-{node}")));
    }
    of_nodes.end();
}
