//! Entries of time series as JSON.

use std::collections::BTreeMap;

use documents::time_series::{SeriesReader, TICKS_PER_MILLISECOND, TimeSeriesEntry};
use model::date;
use query::{Numbers, write_number};

/// The start of the tags of incremental series, before the id of the database.
const TAG_PREFIXES: [&str; 2] = ["TC:INC-", "TC:DEC-"];

fn write_values(values: &[f64], form: Numbers, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_number(*value, form, out);
    }
    out.push(b']');
}

fn write_moment(moment: i64, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&date::text(moment.saturating_mul(TICKS_PER_MILLISECOND)));
    out.push(b'"');
}

fn write_tag(tag: Option<&str>, out: &mut Vec<u8>) {
    match tag {
        Some(tag) => blittable::write_json_string(tag, out),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_is_rollup(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"IsRollup\":");
    out.extend_from_slice(if entry.is_rollup { b"true" } else { b"false" });
}

/// Writes an entry in the format of ranges. The object is left open.
pub(crate) fn begin_entry(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Timestamp\":");
    write_moment(entry.timestamp_ms, out);
    out.extend_from_slice(b",\"Tag\":");
    write_tag(entry.tag, out);
    out.extend_from_slice(b",\"Values\":");
    write_values(entry.values, Numbers::Short, out);
    write_is_rollup(entry, out);
}

/// Writes an entry in the format of streams.
pub(crate) fn write_streamed_entry(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Tag\":");
    write_tag(entry.tag, out);
    out.extend_from_slice(b",\"Timestamp\":");
    write_moment(entry.timestamp_ms, out);
    out.extend_from_slice(b",\"Values\":");
    write_values(entry.values, Numbers::Doubles, out);
    write_is_rollup(entry, out);
    out.push(b'}');
}

/// Writes the contribution of each node to the reader's last entry; nothing for an ordinary series.
pub(crate) fn write_node_values(reader: &SeriesReader<'_>, node_tag: &str, out: &mut Vec<u8>) {
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
    out.extend_from_slice(b",\"NodeValues\":{");
    for (index, (node, values)) in nodes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        blittable::write_json_string(&format!("{node_tag}-{node}"), out);
        out.push(b':');
        write_values(values, Numbers::Short, out);
    }
    out.push(b'}');
}
