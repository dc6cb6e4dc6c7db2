//! Rows as comma-separated values: a line of column names, then a line for each row.
//!
//! The columns are those requested, or those of the first row: its id, its properties (nested ones
//! by their path), and its own metadata. Further values of later rows are omitted. Memory use is
//! that of one row.

use blittable::{Corrupt, Object, ParseLimits, Value, parse_document, write_json};
use model::date;
use wire::ErrorKind;

use crate::{api_error::ApiError, call::Call};

/// Precedes the text, so that spreadsheets recognize it as UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const ID: &str = "@id";
const METADATA: &str = "@metadata";
/// Maximum number of columns; further ones are omitted.
const COLUMNS_MAX: usize = 4096;
/// Metadata properties that the server adds.
const OF_THE_SERVER: &[&str] =
    &[ID, "@change-vector", "@last-modified", "@index-score", "@flags", "@etag"];

/// The file name under which a browser saves the rows.
pub(crate) fn file_name(call: &Call, collection: Option<&str>) -> Result<String, ApiError> {
    let database = call.database()?.record().name.as_str().to_owned();
    let what = match collection {
        Some(name) => format!("{name}_collection"),
        None => "query_result".to_owned(),
    };
    let now = date::format(call.state.engine.clock().now().ticks());
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    let name = format!("{database}_{what}_{}_{}.csv", digits(&now[..10]), digits(&now[11..16]));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    Ok(name
        .bytes()
        .map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect())
}

/// The columns, and the state of the text.
pub(crate) struct CsvRows {
    columns: Vec<Vec<String>>,
    has_begun: bool,
}

impl CsvRows {
    /// Rows with these columns; with none, the first row decides.
    pub(crate) fn new(fields: &[String]) -> Self {
        let path = |field: &String| field.split('.').map(str::to_owned).collect();
        Self { columns: fields.iter().take(COLUMNS_MAX).map(path).collect(), has_begun: false }
    }

    /// Appends the line of a row, which is JSON.
    pub(crate) fn write(&mut self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ApiError> {
        let unreadable =
            |error: &dyn std::fmt::Display| ApiError::new(ErrorKind::Internal, error.to_string());
        let row =
            parse_document(json, &ParseLimits::default()).map_err(|error| unreadable(&error))?;
        self.write_row(row.as_view().root(), out).map_err(|error| unreadable(&error))
    }

    fn write_row(&mut self, row: Object<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        if !self.has_begun {
            self.has_begun = true;
            if self.columns.is_empty() {
                self.columns = columns_of(row)?;
            }
            let names: Vec<_> = self.columns.iter().map(|path| path.join(".")).collect();
            write_line(names.iter().map(String::as_bytes), out);
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            cells.push(cell(row, column)?);
        }
        write_line(cells.iter().map(Vec::as_slice), out);
        Ok(())
    }
}

fn columns_of(row: Object<'_>) -> Result<Vec<Vec<String>>, Corrupt> {
    let mut columns = vec![vec![ID.to_owned()]];
    add_columns(row, &[], &mut columns)?;
    Ok(columns)
}

/// Adds the paths of an object's properties; its metadata comes last in any case. The nesting limit
/// of documents bounds the recursion.
fn add_columns(
    object: Object<'_>,
    inside: &[String],
    columns: &mut Vec<Vec<String>>,
) -> Result<(), Corrupt> {
    let is_metadata = inside.first().is_some_and(|name| name == METADATA);
    let mut metadata = None;
    for property in object.iter() {
        let (name, value) = property?;
        if COLUMNS_MAX <= columns.len() {
            return Ok(());
        }
        if is_metadata && OF_THE_SERVER.contains(&name) {
            continue;
        }
        let path: Vec<_> = inside.iter().cloned().chain([name.to_owned()]).collect();
        match value {
            Value::Object(inner) if path == [METADATA] => metadata = Some((inner, path)),
            Value::Object(inner) => add_columns(inner, &path, columns)?,
            _ => columns.push(path),
        }
    }
    match metadata {
        Some((inner, path)) => add_columns(inner, &path, columns),
        None => Ok(()),
    }
}

/// The text of a cell; empty where the row has no such value.
fn cell(row: Object<'_>, column: &[String]) -> Result<Vec<u8>, Corrupt> {
    let in_metadata = [METADATA.to_owned(), ID.to_owned()];
    let path = if column == [ID] { &in_metadata } else { column };
    let mut found = Some(Value::Object(row));
    for step in path {
        found = match found {
            Some(Value::Object(object)) => object.get(step)?,
            _ => None,
        };
    }
    let mut text = Vec::new();
    match found {
        None | Some(Value::Null) => {}
        Some(Value::Bool(true)) => text.extend_from_slice(b"True"),
        Some(Value::Bool(false)) => text.extend_from_slice(b"False"),
        Some(Value::String(value)) => text.extend_from_slice(value.as_cow()?.as_bytes()),
        Some(other) => write_json(&other, &mut text)?,
    }
    Ok(text)
}

fn write_line<'c>(cells: impl Iterator<Item = &'c [u8]>, out: &mut Vec<u8>) {
    for (number, cell) in cells.enumerate() {
        if 0 < number {
            out.push(b',');
        }
        let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\r' | b'\n');
        let has_space_outside = cell.first() == Some(&b' ') || cell.last() == Some(&b' ');
        if !has_space_outside && !cell.iter().any(is_special) {
            out.extend_from_slice(cell);
            continue;
        }
        out.push(b'"');
        for byte in cell {
            if *byte == b'"' {
                out.push(b'"');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &[&str], rows: &[&str]) -> String {
        let fields: Vec<_> = fields.iter().map(|field| (*field).to_owned()).collect();
        let (mut csv, mut out) = (CsvRows::new(&fields), Vec::new());
        rows.iter().for_each(|row| csv.write(row.as_bytes(), &mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    const ROWS: &[&str] = &[
        r#"{"A":{"B":1,"C":{"D":"x"}},"Q":"a,\"b\"\nc","T":true,"N":1.50,"L":[1,{"x":2}],"E":"",
            "Z":null,"@metadata":{"@collection":"Cs","Own":"v","@change-vector":"A:1","@id":"c/1",
            "@index-score":1,"@last-modified":"x"}}"#,
        r#"{"New":1,"A":5,"Q":" lead","@metadata":{"@id":"c/2","@collection":"Cs"}}"#,
    ];

    #[test]
    fn the_first_row_decides_the_columns() {
        let expected = "@id,A.B,A.C.D,Q,T,N,L,E,Z,@metadata.@collection,@metadata.Own\r\n\
                        c/1,1,x,\"a,\"\"b\"\"\nc\",True,1.50,\"[1,{\"\"x\"\":2}]\",,,Cs,v\r\n\
                        c/2,,,\" lead\",,,,,,Cs,\r\n";
        assert_eq!(text(&[], ROWS), expected);
        assert_eq!(text(&[], &[]), "");
    }

    #[test]
    fn columns_may_be_asked_for() {
        let fields = ["A.B", "A", "@metadata.@collection", "@id", "Nope"];
        let expected = "A.B,A,@metadata.@collection,@id,Nope\r\n\
                        1,\"{\"\"B\"\":1,\"\"C\"\":{\"\"D\"\":\"\"x\"\"}}\",Cs,c/1,\r\n\
                        ,5,Cs,c/2,\r\n";
        assert_eq!(text(&fields, ROWS), expected);
    }
}
