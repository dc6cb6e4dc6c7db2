//! Documents made of the rows of a CSV file.
//!
//! The first row names the columns. A name with dots is a path: `A.B` is the property `B` of the object `A`. `@id` is the
//! id, and what begins with `@metadata.` belongs to the metadata; what servers say of a document there is left out.
//! Brackets in a name have no meaning. As measured with RavenDB 5.4:
//!
//! | field | value |
//! |---|---|
//! | empty, `null` | null |
//! | `true`, `false` | a boolean; other cases are text |
//! | `-12`, `007`, `1.50`, `3.` | a number, if it is an integer of 64 bits or has a point |
//! | `[1,"a"]` | a list in JSON |
//! | everything else, `1e3` and `{}` too | a text |
//!
//! Fields of the metadata are texts, and left out where they are empty.

use std::borrow::Cow;

use blittable::{JsonReader, write_json_string};

use crate::error::{CsvHeaderError, RowFormatError};

const ID: &str = "@id";
const METADATA: &str = "@metadata";
const COLLECTION: &str = "@collection";
/// What servers say of a document, which is not what it has.
const OF_SERVERS: [&str; 11] = [
    ID,
    "@change-vector",
    "@last-modified",
    "@flags",
    "@etag",
    "@index-score",
    "@projection",
    "@attachments",
    "@counters",
    "@timeseries",
    "@spatial",
];
/// Documents may not be nested much deeper.
const DEPTH_MAX: usize = 64;

/// The columns of a file.
#[derive(Debug)]
pub(crate) struct CsvColumns {
    names: Vec<String>,
    properties: Vec<(String, Node)>,
    /// Those of the metadata, except for the collection.
    metadata: Vec<(String, Node)>,
    id: Option<usize>,
    collection: Option<usize>,
    /// Of documents that have none in a column.
    collection_of_request: Option<String>,
}

/// A property: a column, or an object with further ones.
#[derive(Debug)]
enum Node {
    Column(usize),
    Object(Vec<(String, Node)>),
}

impl CsvColumns {
    /// Reads the names in the first row.
    ///
    /// # Errors
    /// See [`CsvHeaderError`].
    pub(crate) fn of_header<'h>(
        fields: impl Iterator<Item = &'h [u8]>,
        collection_of_request: Option<String>,
    ) -> Result<CsvColumns, CsvHeaderError> {
        let mut columns = CsvColumns {
            names: Vec::new(),
            properties: Vec::new(),
            metadata: Vec::new(),
            id: None,
            collection: None,
            collection_of_request,
        };
        for (number, name) in fields.enumerate() {
            let name = std::str::from_utf8(name).map_err(|_| CsvHeaderError::Encoding)?;
            columns.add(number, name)?;
            columns.names.push(name.to_owned());
        }
        if columns.collection.is_none() && columns.collection_of_request.is_none() {
            return Err(CsvHeaderError::NoCollection);
        }
        Ok(columns)
    }

    fn add(&mut self, number: usize, name: &str) -> Result<(), CsvHeaderError> {
        let metadata = name.strip_prefix(METADATA).and_then(|rest| rest.strip_prefix('.'));
        let (place, path) = match metadata {
            _ if name == ID => {
                self.id = Some(number);
                return Ok(());
            }
            Some(COLLECTION) => {
                self.collection = Some(number);
                return Ok(());
            }
            Some(property) if OF_SERVERS.contains(&property) => return Ok(()),
            Some(property) => (&mut self.metadata, property),
            None => (&mut self.properties, name),
        };
        let path: Vec<&str> = path.split('.').collect();
        if DEPTH_MAX < path.len() {
            return Err(CsvHeaderError::TooDeep { column: name.to_owned() });
        }
        let is_metadata_itself = metadata.is_none() && path[0] == METADATA;
        if is_metadata_itself || !insert(place, &path, number) {
            return Err(CsvHeaderError::Contradiction { column: name.to_owned() });
        }
        Ok(())
    }

    /// Appends the document of a row as JSON. A document without an id is given one when it is stored.
    pub(crate) fn write_document<'r>(
        &self,
        fields: impl Iterator<Item = &'r [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), RowFormatError> {
        let mut row = Vec::with_capacity(self.names.len());
        let mut surplus = 0;
        for (number, field) in fields.enumerate() {
            match self.names.get(number) {
                Some(name) => row.push(
                    std::str::from_utf8(field)
                        .map_err(|_| RowFormatError::Encoding { column: name.clone() })?,
                ),
                // A delimiter at the end of the line is no field.
                None if field.is_empty() => {}
                None => surplus = number + 1,
            }
        }
        if row.len() < self.names.len() || 0 < surplus {
            let (found, expected) = (row.len().max(surplus), self.names.len());
            return Err(RowFormatError::FieldCount { found, expected });
        }
        out.push(b'{');
        for (name, node) in &self.properties {
            self.write_property(name, node, &row, out)?;
        }
        write_json_string(METADATA, out);
        out.push(b':');
        self.write_metadata(&row, out)?;
        out.push(b'}');
        Ok(())
    }

    fn write_property(
        &self,
        name: &str,
        node: &Node,
        row: &[&str],
        out: &mut Vec<u8>,
    ) -> Result<(), RowFormatError> {
        write_json_string(name, out);
        out.push(b':');
        match node {
            Node::Column(number) => {
                let unfit = || RowFormatError::List { column: self.names[*number].clone() };
                write_value(row[*number], out).ok_or_else(unfit)?;
            }
            Node::Object(properties) => {
                out.push(b'{');
                for (name, node) in properties {
                    self.write_property(name, node, row, out)?;
                }
                end_object(out);
            }
        }
        out.push(b',');
        Ok(())
    }

    fn write_metadata(&self, row: &[&str], out: &mut Vec<u8>) -> Result<(), RowFormatError> {
        out.push(b'{');
        if let Some(id) = self.id {
            let id = Some(row[id]).filter(|id| !id.trim().is_empty());
            write_text_property(ID, id.ok_or(RowFormatError::NoId)?, out);
        }
        let collection = self.collection.map(|number| row[number]).filter(|name| !name.is_empty());
        let collection = collection.or(self.collection_of_request.as_deref());
        write_text_property(COLLECTION, collection.ok_or(RowFormatError::NoCollection)?, out);
        for (name, node) in &self.metadata {
            write_texts(name, node, row, out);
        }
        end_object(out);
        Ok(())
    }
}

/// Adds a column at its path; `false` if a column and an object would have the same place. Of two columns with the same
/// name, the last one counts.
fn insert(place: &mut Vec<(String, Node)>, path: &[&str], number: usize) -> bool {
    let [name, rest @ ..] = path else { return false };
    let known = place.iter().position(|(known, _)| known == name);
    let at = known.unwrap_or_else(|| {
        let node = match rest {
            [] => Node::Column(number),
            _ => Node::Object(Vec::new()),
        };
        place.push(((*name).to_owned(), node));
        place.len() - 1
    });
    match &mut place[at].1 {
        Node::Object(inner) if !rest.is_empty() => insert(inner, rest, number),
        node @ Node::Column(_) if rest.is_empty() => {
            *node = Node::Column(number);
            true
        }
        Node::Object(_) | Node::Column(_) => false,
    }
}

/// Ends an object whose properties end with commas.
fn end_object(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
}

fn write_text_property(name: &str, text: &str, out: &mut Vec<u8>) {
    write_json_string(name, out);
    out.push(b':');
    write_json_string(text, out);
    out.push(b',');
}

fn write_texts(name: &str, node: &Node, row: &[&str], out: &mut Vec<u8>) {
    match node {
        Node::Column(number) if row[*number].is_empty() => {}
        Node::Column(number) => write_text_property(name, row[*number], out),
        Node::Object(properties) => {
            write_json_string(name, out);
            out.extend_from_slice(b":{");
            properties.iter().for_each(|(name, node)| write_texts(name, node, row, out));
            end_object(out);
            out.push(b',');
        }
    }
}

/// Appends the value of a field; `None` if it is in brackets and is no list.
fn write_value(field: &str, out: &mut Vec<u8>) -> Option<()> {
    match field {
        "" | "null" => out.extend_from_slice(b"null"),
        "true" | "false" => out.extend_from_slice(field.as_bytes()),
        _ if field.starts_with('[') && field.ends_with(']') => {
            if !is_json(field) {
                return None;
            }
            out.extend_from_slice(field.as_bytes());
        }
        _ => match number_in(field) {
            Some(number) => out.extend_from_slice(number.as_bytes()),
            None => write_json_string(field, out),
        },
    }
    Some(())
}

/// Whether a text is one value in JSON, and nothing behind it.
fn is_json(text: &str) -> bool {
    let mut reader = JsonReader::new(text.as_bytes());
    reader.skip_value().and_then(|()| reader.finish()).is_ok()
}

/// The number that a field is, as JSON writes it; digits behind the point are kept as they are.
fn number_in(field: &str) -> Option<Cow<'_, str>> {
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !are_digits(digits) || !are_digits(fraction) {
        return None;
    }
    if fraction.is_empty() {
        return whole.parse::<i64>().ok().map(|number| Cow::Owned(number.to_string()));
    }
    if digits == "0" || !digits.starts_with('0') {
        return Some(Cow::Borrowed(field));
    }
    let significant = digits.trim_start_matches('0');
    let significant = if significant.is_empty() { "0" } else { significant };
    let sign = if whole.starts_with('-') { "-" } else { "" };
    Some(Cow::Owned(format!("{sign}{significant}.{fraction}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &[&str], collection: Option<&str>) -> Result<CsvColumns, CsvHeaderError> {
        let fields = header.iter().map(|name| name.as_bytes());
        CsvColumns::of_header(fields, collection.map(str::to_owned))
    }

    fn document(columns: &CsvColumns, row: &[&str]) -> Result<String, RowFormatError> {
        let mut out = Vec::new();
        columns.write_document(row.iter().map(|field| field.as_bytes()), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// A value as the oracle stored it.
    fn value(field: &str) -> String {
        let mut out = Vec::new();
        match write_value(field, &mut out) {
            Some(()) => String::from_utf8(out).unwrap(),
            None => "refused".to_owned(),
        }
    }

    #[test]
    fn fields_have_the_values_that_ravendb_gives_them() {
        let table = [
            ("", "null"),
            ("null", "null"),
            ("NULL", "\"NULL\""),
            ("true", "true"),
            ("True", "\"True\""),
            ("1", "1"),
            ("007", "7"),
            ("-0", "0"),
            ("+5", "\"+5\""),
            ("1e3", "\"1e3\""),
            ("0x10", "\"0x10\""),
            (" 1", "\" 1\""),
            (".5", "\".5\""),
            ("-", "\"-\""),
            ("1.", "1"),
            ("1.50", "1.50"),
            ("00.5", "0.5"),
            ("-00.5", "-0.5"),
            ("-0.0", "-0.0"),
            ("1.2.3", "\"1.2.3\""),
            ("1.23456789012345678901", "1.23456789012345678901"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "\"9223372036854775808\""),
            ("-9223372036854775808", "-9223372036854775808"),
            ("NaN", "\"NaN\""),
            ("[1,2]", "[1,2]"),
            ("[[1],\"]\",{\"x\":\"\\\"]\"}]", "[[1],\"]\",{\"x\":\"\\\"]\"}]"),
            ("[1,2", "\"[1,2\""),
            ("[1,2] ", "\"[1,2] \""),
            ("[1],\"b\":[2]", "refused"),
            ("[\"]", "refused"),
            ("[oops]", "refused"),
            ("{\"q\":1}", "\"{\\\"q\\\":1}\""),
            ("2020-01-01T00:00:00.0000000Z", "\"2020-01-01T00:00:00.0000000Z\""),
        ];
        for (field, expected) in table {
            assert_eq!(value(field), expected, "{field}");
        }
    }

    #[test]
    fn names_with_dots_are_paths_and_metadata_is_text() {
        let header = [
            "@id",
            "N.A",
            "X[0]",
            "N.B.C",
            ".a",
            "A",
            "A",
            "@metadata.@collection",
            "@metadata.own",
            "@metadata.o.p",
            "@metadata.@flags",
            "@metadata.@id",
        ];
        let columns = columns(&header, Some("Cs")).unwrap();
        let row = ["x/1", "1", "2", "", "3", "4", "5", "", "7", "true", "HasRevisions", "y/1"];
        let expected = r#"{"N":{"A":1,"B":{"C":null}},"X[0]":2,"":{"a":3},"A":5,"@metadata":{"@id":"x/1","@collection":"Cs","own":"7","o":{"p":"true"}}}"#;
        assert_eq!(document(&columns, &row).unwrap(), expected);
        let row = ["x/1", "", "", "", "", "", "", "Zs", "", "", "", ""];
        let written = document(&columns, &row).unwrap();
        assert!(written.ends_with(r#"{"@id":"x/1","@collection":"Zs","o":{}}}"#), "{written}");
        let only = self::columns(&["a"], Some("Cs")).unwrap();
        assert_eq!(document(&only, &["1"]).unwrap(), r#"{"a":1,"@metadata":{"@collection":"Cs"}}"#);
    }

    #[test]
    fn rows_that_do_not_fit_are_refused_with_the_reason() {
        let columns = columns(&["@id", "a", "@metadata.@collection"], None).unwrap();
        let expected = r#"{"a":1,"@metadata":{"@id":"x","@collection":"C"}}"#;
        assert_eq!(document(&columns, &["x", "1", "C", ""]).unwrap(), expected);
        let count = |found| RowFormatError::FieldCount { found, expected: 3 };
        assert_eq!(document(&columns, &["x", "1"]), Err(count(2)));
        assert_eq!(document(&columns, &["x", "1", "C", "2"]), Err(count(4)));
        assert_eq!(document(&columns, &[" ", "1", "C"]), Err(RowFormatError::NoId));
        assert_eq!(document(&columns, &["x", "1", ""]), Err(RowFormatError::NoCollection));
        let list = RowFormatError::List { column: "a".to_owned() };
        assert_eq!(document(&columns, &["x", "[1],[2]", "C"]), Err(list));
        let fields = [b"x".as_slice(), b"\xff", b"C"];
        let written = columns.write_document(fields.into_iter(), &mut Vec::new());
        assert_eq!(written, Err(RowFormatError::Encoding { column: "a".to_owned() }));
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        for header in [["N", "N.A"], ["N.A", "N"], ["@metadata", "a"]] {
            let error = columns(&header, Some("C")).unwrap_err();
            assert!(matches!(error, CsvHeaderError::Contradiction { .. }), "{header:?} {error}");
        }
        assert!(matches!(columns(&["a"], None), Err(CsvHeaderError::NoCollection)));
        let deep = vec!["a"; DEPTH_MAX + 1].join(".");
        assert!(matches!(columns(&[&deep], Some("C")), Err(CsvHeaderError::TooDeep { .. })));
    }
}
