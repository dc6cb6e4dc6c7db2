//! Entries of time series as JSON.

use std::{collections::BTreeMap, io::Write};

use documents::time_series::{SeriesReader, TICKS_PER_MILLISECOND, TimeSeriesEntry};
use model::date;

/// Whole numbers below are written with all their digits.
const DIGITS_BELOW: f64 = 1e17;
/// Other numbers from here on have an exponent.
const FRACTIONS_BELOW: f64 = 1e15;
const FRACTIONS_FROM: f64 = 1e-4;
/// How the tags of incremental series begin, before the id of the database.
const TAG_PREFIXES: [&str; 2] = ["TC:INC-", "TC:DEC-"];

/// How whole numbers look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeNumbers {
    /// `60`.
    Short,
    /// `60.0`.
    WithFraction,
}

/// Writes a value as .NET does.
pub(crate) fn write_value(value: f64, whole: WholeNumbers, out: &mut Vec<u8>) {
    if value.is_infinite() {
        let text: &[u8] = if value < 0.0 { b"\"-Infinity\"" } else { b"\"Infinity\"" };
        return out.extend_from_slice(text);
    }
    let size = value.abs();
    // Writing to memory cannot fail.
    if value.fract() == 0.0 && size < DIGITS_BELOW {
        drop(write!(out, "{value}"));
        if whole == WholeNumbers::WithFraction {
            out.extend_from_slice(b".0");
        }
    } else if (FRACTIONS_FROM..FRACTIONS_BELOW).contains(&size) {
        drop(write!(out, "{value}"));
    } else {
        let text = format!("{value:e}");
        let Some((mantissa, exponent)) = text.split_once('e') else {
            return out.extend_from_slice(b"\"NaN\"");
        };
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        drop(write!(out, "{mantissa}E{sign}{digits:0>2}"));
    }
}

fn write_values(values: &[f64], whole: WholeNumbers, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_value(*value, whole, out);
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

/// Writes an entry as ranges have it. The object is left open.
pub(crate) fn begin_entry(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Timestamp\":");
    write_moment(entry.timestamp_ms, out);
    out.extend_from_slice(b",\"Tag\":");
    write_tag(entry.tag, out);
    out.extend_from_slice(b",\"Values\":");
    write_values(entry.values, WholeNumbers::Short, out);
    write_is_rollup(entry, out);
}

/// Writes an entry as streams have it.
pub(crate) fn write_streamed_entry(entry: &TimeSeriesEntry<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Tag\":");
    write_tag(entry.tag, out);
    out.extend_from_slice(b",\"Timestamp\":");
    write_moment(entry.timestamp_ms, out);
    out.extend_from_slice(b",\"Values\":");
    write_values(entry.values, WholeNumbers::WithFraction, out);
    write_is_rollup(entry, out);
    out.push(b'}');
}

/// Writes what each node has made of the reader's last entry; nothing for an ordinary series.
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
        write_values(values, WholeNumbers::Short, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_the_protocol_has_them() {
        let text = |value, whole| {
            let mut out = Vec::new();
            write_value(value, whole, &mut out);
            String::from_utf8(out).unwrap()
        };
        let cases = [
            (60.0, "60"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1E+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (123_456_789_012_345.5, "123456789012345.5"),
            (0.0001, "0.0001"),
            (0.00001, "1E-05"),
            (0.00012345, "0.00012345"),
            (1.5e-7, "1.5E-07"),
            (1e308, "1E+308"),
            (f64::INFINITY, "\"Infinity\""),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value, WholeNumbers::Short), expected);
        }
        assert_eq!(text(60.0, WholeNumbers::WithFraction), "60.0");
        assert_eq!(text(1e16, WholeNumbers::WithFraction), "10000000000000000.0");
        assert_eq!(text(1e17, WholeNumbers::WithFraction), "1E+17");
    }
}
