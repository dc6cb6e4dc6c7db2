//! A hash over what a dump says about a database, whatever database it is.
//!
//! Two databases with the same content give the same hash, also if one was exported and imported, backed up and
//! restored, or went through RavenDB. What each database assigns itself is left out: versions, etags, numbers of tasks and
//! subscriptions, times of its own. The order of elements does not matter, and neither does how time series are divided into
//! segments. Invariant: everything else does: an element that is missing, there twice, or has another value changes the
//! hash.

use std::{collections::BTreeMap, io::Read};

use serde_json::{Map, Value, json};
use smuggler::{DumpEvent, DumpReader, Section, decode_segment};
use xxhash_rust::xxh3::xxh3_128;

/// Longer elements are refused.
const ELEMENT_BYTES_MAX: usize = 1 << 30;
/// Read at once.
const PIECE_BYTES: usize = 256 << 10;

/// The property of documents and revisions that each database assigns itself; it is in their metadata.
const ASSIGNED_TO_DOCUMENTS: &[&str] = &["@change-vector"];
/// Properties of definitions that each database assigns itself, at any depth.
const ASSIGNED: &[&str] = &[
    "ChangeVector",
    "ChangeVectorForNextBatchStartingPoint",
    "CreatedAt",
    "DatabaseName",
    "IndexesHistory",
    "NodeTag",
    "RaftCommandIndex",
    "SubscriptionId",
    "TaskId",
];

/// What is hashed of each section: how many elements, and the sum of their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentHash {
    sections: BTreeMap<String, (u64, u128)>,
}

impl ContentHash {
    /// The hash of the whole content.
    pub fn total(&self) -> u128 {
        let text: Vec<String> = self.lines();
        xxh3_128(text.join("\n").as_bytes())
    }

    /// A line for each section that has elements: its name, their number and their hash.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.sections.iter();
        lines.map(|(name, (count, hash))| format!("{name} {count} {hash:032x}")).collect()
    }

    fn add(&mut self, section: &str, element: &Value) {
        let hash = xxh3_128(element.to_string().as_bytes());
        let (count, sum) = self.sections.entry(section.to_owned()).or_default();
        *count += 1;
        *sum = sum.wrapping_add(hash);
    }
}

/// The bytes behind an element.
enum Raw {
    /// Of an attachment, which the hash in its head stands for.
    Content,
    Segment {
        head: Map<String, Value>,
        bytes: Vec<u8>,
    },
}

/// The hash of a dump, whose text is read to its end.
///
/// # Errors
/// What cannot be read, and where.
pub fn content_hash(text: &mut dyn Read) -> Result<ContentHash, String> {
    let (mut reader, mut buffer) = (DumpReader::new(ELEMENT_BYTES_MAX), vec![0; PIECE_BYTES]);
    let (mut hash, mut property, mut raw) = (ContentHash::default(), String::new(), None);
    loop {
        let bytes = text.read(&mut buffer).map_err(|error| error.to_string())?;
        let mut piece = &buffer[..bytes];
        loop {
            let mut expected = None;
            match reader.next(&mut piece).map_err(|error| error.to_string())? {
                DumpEvent::NeedMore => break,
                DumpEvent::Name(name) => property = name.to_owned(),
                DumpEvent::Value(text) if property == "DatabaseRecord" => {
                    hash.add(&property, &without(ASSIGNED, parse(text)?));
                }
                DumpEvent::Value(_) | DumpEvent::SectionEnd | DumpEvent::End => {}
                DumpEvent::Element { text, .. } => {
                    expected = element(&mut hash, &property, parse(text)?, &mut raw)?;
                }
                DumpEvent::Bytes(bytes) => {
                    if let Some(Raw::Segment { bytes: all, .. }) = &mut raw {
                        all.extend_from_slice(bytes);
                    }
                }
                DumpEvent::BytesEnd => {
                    if let Some(Raw::Segment { head, bytes }) = raw.take() {
                        segment(&mut hash, &property, &head, &bytes)?;
                    }
                }
            }
            if let Some(bytes) = expected {
                reader.expect_bytes(bytes);
            }
        }
        if bytes == 0 {
            reader.finish().map_err(|error| error.to_string())?;
            return Ok(hash);
        }
    }
}

/// Hashes an element; returns how many raw bytes follow.
fn element(
    hash: &mut ContentHash,
    property: &str,
    element: Value,
    raw: &mut Option<Raw>,
) -> Result<Option<u64>, String> {
    let bytes_of = |value: &Value| value.as_u64().ok_or("a length is missing".to_owned());
    match Section::named(property) {
        Some(Section::TimeSeries) => {
            let bytes = bytes_of(&element["@raven-blob-size"])?;
            let head = element["@raven-data"].as_object().cloned().unwrap_or_default();
            *raw = Some(Raw::Segment { head, bytes: Vec::new() });
            Ok(Some(bytes))
        }
        Some(Section::Documents | Section::Revisions)
            if element["@metadata"]["@export-type"] == "Attachment" =>
        {
            // Each document names the hashes of its contents.
            *raw = Some(Raw::Content);
            bytes_of(&element["Size"]).map(Some)
        }
        Some(Section::CounterGroups) => {
            counters(hash, property, &element);
            Ok(None)
        }
        Some(Section::Documents | Section::Revisions) => {
            let Value::Object(mut document) = element else { return Err("no object".to_owned()) };
            let metadata = document.remove("@metadata").unwrap_or_default();
            let metadata = without(ASSIGNED_TO_DOCUMENTS, metadata);
            let body = without(&[], Value::Object(document));
            hash.add(property, &json!([metadata, body]));
            Ok(None)
        }
        // They say what happened, and not what there is.
        Some(Section::Tombstones | Section::TimeSeriesDeletedRanges) => Ok(None),
        _ => {
            hash.add(property, &without(ASSIGNED, element));
            Ok(None)
        }
    }
}

/// The sum of each counter.
fn counters(hash: &mut ContentHash, property: &str, group: &Value) {
    let counted = group["Values"]["@vals"].as_object();
    for (name, values) in counted.into_iter().flatten() {
        let Some(values) = values.as_array() else { continue };
        let total: i64 = values.iter().step_by(2).filter_map(Value::as_i64).sum();
        hash.add(property, &json!([group["DocId"], name, total]));
    }
}

/// Each entry of a segment.
fn segment(
    hash: &mut ContentHash,
    property: &str,
    head: &Map<String, Value>,
    bytes: &[u8],
) -> Result<(), String> {
    let begin = head.get("Baseline").and_then(Value::as_str).and_then(model::date::parse);
    let begin = begin.ok_or("a segment has no baseline")?.utc_ticks();
    let (id, name) = (&head["DocId"], head["Name"].as_str().unwrap_or_default().to_lowercase());
    let decoded = decode_segment(bytes, |entry| {
        let ticks = begin + entry.offset_ms * model::ticks::TICKS_PER_MILLISECOND;
        hash.add(property, &json!([id, name, ticks, entry.values, entry.tag]));
    });
    decoded.map_err(|error| error.to_string())
}

/// Without properties of these names, and with the others in one order.
fn without(names: &[&str], value: Value) -> Value {
    match value {
        Value::Object(properties) => {
            let kept = properties.into_iter().filter(|(name, _)| !names.contains(&name.as_str()));
            let sorted: BTreeMap<String, Value> =
                kept.map(|(name, value)| (name, without(names, value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(|item| without(names, item)).collect(),
        value => value,
    }
}

fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> u128 {
        content_hash(&mut text.as_bytes()).unwrap().total()
    }

    #[test]
    fn what_a_database_assigns_does_not_count_and_all_else_does() {
        let dump = |docs: &str| format!("{{\"BuildVersion\":1,\"Docs\":[{docs}]}}");
        let one = r#"{"N":1,"@metadata":{"@id":"a","@change-vector":"A:1-x"}}"#;
        let other = r#"{"N":2,"@metadata":{"@id":"b","@change-vector":"A:2-x"}}"#;
        let moved = r#"{"@metadata":{"@change-vector":"B:7-y","@id":"a"},"N":1}"#;
        let original = hash(&dump(&format!("{one},{other}")));
        assert_eq!(original, hash(&dump(&format!("{other},{moved}"))));
        for changed in [
            one.to_owned(),
            format!("{},{other}", one.replace("\"N\":1", "\"N\":1,\"Tag\":5")),
            format!("{one},{one}"),
            format!("{one},{other},{other}"),
            format!("{},{other}", one.replace(":1,", ":3,")),
            format!("{},{other}", one.replace("\"a\"", "\"c\"")),
        ] {
            assert_ne!(original, hash(&dump(&changed)), "{changed}");
        }
        assert!(content_hash(&mut &b"{\"Docs\":[{}"[..]).is_err());
    }
}
