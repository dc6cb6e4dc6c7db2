//! Reading `settings.json`: dotted names, nested objects, or both; comments and commas after the last
//! member are skipped, as RavenDB does.
//!
//! Not here: reading the file's bytes, and what the values mean.
//! Invariant: a key that occurs twice, in whatever form, is a problem and never a silent choice.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::merge::RawSetting;
use crate::problem::{FileProblem, Problem};
use crate::source::Source;

/// The largest settings file, in bytes.
pub const SETTINGS_JSON_BYTES_MAX: usize = 1 << 20;

/// JSON as settings need it. `serde_json::Value` would hide keys that occur twice.
enum Node {
    Null,
    Scalar(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Reads the settings in `bytes`, in the order of the text.
///
/// `null` and empty text mean that the key is not set there. What can be read is returned even if
/// there are problems.
pub(crate) fn read_json(
    bytes: &[u8],
    source: &Source,
    problems: &mut Vec<Problem>,
) -> Vec<RawSetting> {
    // Editors on Windows like to begin a file with a byte order mark.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if SETTINGS_JSON_BYTES_MAX < bytes.len() {
        problems.push(Problem::File(FileProblem::TooLong { source: source.clone() }));
        return Vec::new();
    }
    let members = match serde_json::from_slice(&plain_json(bytes)) {
        Ok(Node::Object(members)) => members,
        Ok(Node::Null | Node::Scalar(_) | Node::List(_)) => {
            problems.push(Problem::File(FileProblem::NotAnObject { source: source.clone() }));
            return Vec::new();
        }
        Err(error) => {
            problems.push(Problem::File(invalid_json(&error, source)));
            return Vec::new();
        }
    };
    let mut flattened = Vec::new();
    flatten("", members, &mut flattened);
    report_repeated(&flattened, source, problems);
    flattened
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(name, text)| RawSetting { name, text, source: source.clone() })
        .collect()
}

/// The same text with spaces in place of comments and of commas before a closing bracket, so that
/// every error keeps its line and column.
fn plain_json(bytes: &[u8]) -> Vec<u8> {
    let mut plain = bytes.to_vec();
    // The last significant byte, and its position.
    let mut last = (b' ', 0);
    let mut before_last = b' ';
    let mut at = 0;
    while at < plain.len() {
        let rest = &plain[at..];
        let skipped = match rest[0] {
            b' ' | b'\t' | b'\r' | b'\n' => 1,
            _ if rest.starts_with(b"//") || rest.starts_with(b"/*") => {
                let bytes = comment_bytes(rest);
                blank(&mut plain[at..at + bytes]);
                bytes
            }
            byte => {
                let follows_a_value = !matches!(before_last, b'{' | b'[' | b',' | b':' | b' ');
                if matches!(byte, b'}' | b']') && last.0 == b',' && follows_a_value {
                    plain[last.1] = b' ';
                }
                (before_last, last) = (last.0, (byte, at));
                if byte == b'"' { string_bytes(&plain[at..]) } else { 1 }
            }
        };
        at += skipped;
    }
    plain
}

/// The length of the comment at the beginning of the text; one that is not closed reaches to the end.
fn comment_bytes(text: &[u8]) -> usize {
    let (end, of_end) = if text.starts_with(b"//") { (&b"\n"[..], 0) } else { (&b"*/"[..], 2) };
    let found = text[2..].windows(end.len()).position(|part| part == end);
    found.map_or(text.len(), |at| 2 + at + of_end)
}

/// The length of the string at the beginning of the text, with its quotation marks.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn blank(comment: &mut [u8]) {
    for byte in comment.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn invalid_json(error: &serde_json::Error, source: &Source) -> FileProblem {
    // serde_json ends its message with the position, which we format ourselves.
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(text, _)| text);
    FileProblem::InvalidJson {
        source: source.clone(),
        line: error.line(),
        column: error.column(),
        message: message.to_owned(),
    }
}

/// Joins the names of nested objects with dots. The depth is bounded by serde_json (128).
fn flatten(prefix: &str, members: Vec<(String, Node)>, flattened: &mut Vec<(String, String)>) {
    for (name, node) in members {
        let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match node {
            Node::Null => flattened.push((name, String::new())),
            Node::Scalar(text) => flattened.push((name, text)),
            Node::List(items) => flattened.push((name, join_list(items))),
            Node::Object(members) => flatten(&name, members, flattened),
        }
    }
}

/// Writes a list as the equivalent text. Objects in it have none; no key that is read accepts them,
/// so their placeholder is refused by the type of the key.
fn join_list(items: Vec<Node>) -> String {
    let texts: Vec<String> = items
        .into_iter()
        .map(|item| match item {
            Node::Null => String::new(),
            Node::Scalar(text) => text,
            Node::List(_) | Node::Object(_) => "{...}".to_owned(),
        })
        .collect();
    texts.join(";")
}

fn report_repeated(flattened: &[(String, String)], source: &Source, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (name, _) in flattened {
        if !seen.insert(name.to_lowercase()) {
            problems.push(Problem::SetTwice { name: name.clone(), source: source.clone() });
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let mut problems = Vec::new();
        let raw = read_json(text.as_bytes(), &Source::EnvironmentJson, &mut problems);
        (
            raw.into_iter().map(|raw| (raw.name, raw.text)).collect(),
            problems.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn dotted_and_nested_names_mean_the_same() {
        for (text, expected) in [
            ("{}", vec![]),
            (r#"{"Storage.JournalsPath": "/j"}"#, vec![("Storage.JournalsPath", "/j")]),
            (r#"{"Storage": {"JournalsPath": "/j"}}"#, vec![("Storage.JournalsPath", "/j")]),
            (r#"{"A": {"B.C": 1, "D": {"E": true}}}"#, vec![("A.B.C", "1"), ("A.D.E", "true")]),
            (r#"{"A": null, "B": "", "C": " "}"#, vec![]),
            (r#"{"A": -1, "B": 1.5}"#, vec![("A", "-1"), ("B", "1.5")]),
            (r#"{"A": ["x", "y"], "B": [{"C": 1}]}"#, vec![("A", "x;y"), ("B", "{...}")]),
            ("\u{FEFF}{\"A\": \"\\u00e9\"}", vec![("A", "é")]),
            ("// before\n{ /* a, } */ \"A\": 1, // last\n}// after", vec![("A", "1")]),
            (
                r#"{"A": ["x", "y", /* no more */ ], "B": {"C": 1,},}"#,
                vec![("A", "x;y"), ("B.C", "1")],
            ),
            (
                r#"{"A": "http://x/*,}*/", "B": "\",]//"}"#,
                vec![("A", "http://x/*,}*/"), ("B", "\",]//")],
            ),
        ] {
            let (raw, problems) = read(text);
            assert_eq!(problems, Vec::<String>::new(), "{text}");
            let raw: Vec<(&str, &str)> =
                raw.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            assert_eq!(raw, expected, "{text}");
        }
    }

    #[test]
    fn a_key_set_twice_is_a_problem_in_every_form() {
        for text in [
            r#"{"A.B": 1, "A.B": 2}"#,
            r#"{"A.B": 1, "a.b": 1}"#,
            r#"{"A.B": 1, "A": {"B": 2}}"#,
            r#"{"A": {"B": 1}, "A": {"B": 2}}"#,
        ] {
            let (_, problems) = read(text);
            assert_eq!(problems.len(), 1, "{text}");
            assert!(problems[0].contains("is set twice"), "{}", problems[0]);
        }
    }

    #[test]
    fn invalid_json_is_reported_with_its_place() {
        for (text, place) in [
            ("{\n  \"A\": 1,,\n}", "line 2, column 10"),
            ("{,}", "line 1, column 2"),
            ("{\"A\": [,]}", "line 1, column 8"),
            ("{\"A\":,}", "line 1, column 6"),
            ("/* never closed", "line 1, column 15"),
            ("{\"A\": 1} / {", "line 1, column 10"),
            ("{\"A\" 1}", "line 1, column 6"),
            ("", "line 1, column 0"),
            ("{} x", "line 1, column 4"),
        ] {
            let (raw, problems) = read(text);
            assert!(raw.is_empty(), "{text}");
            assert_eq!(problems.len(), 1, "{text}");
            assert!(problems[0].contains(place), "{text}: {}", problems[0]);
            assert!(problems[0].contains("RAVEN_SETTINGS"), "{}", problems[0]);
            assert_eq!(problems[0].matches("line").count(), 1, "{}", problems[0]);
        }
    }

    #[test]
    fn what_is_no_settings_file_is_refused() {
        for text in ["[]", "1", "null", "\"x\""] {
            assert!(read(text).1[0].contains("one JSON object"), "{text}");
        }
        let long = format!("{{\"A\": \"{}\"}}", "x".repeat(SETTINGS_JSON_BYTES_MAX));
        assert!(read(&long).1[0].contains("longer than"));
        assert!(read(&"[".repeat(100_000)).1[0].contains("recursion"));
    }
}
