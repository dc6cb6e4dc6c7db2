//! Recorded exchanges with a server: the requests, and the essentials of the responses.
//!
//! `cargo xtask record` asks RavenDB and writes the files; a test of the server asks again and compares.
//! The files are text:
//!
//! ```text
//! from Books where Year > 2015 select Title -- {"PageSize":2}
//!   200 Auto, 8 in all
//!   b/10 {"Title":"The Fox and the River"}
//!   b/11 {"Title":"Fox Tales"}
//! ```
//!
//! A line that is not indented is a request: a query, and after ` -- ` the rest of its body; or
//! `terms <index> <field>`. A `~` prefix means that the order of rows is not compared. Whole
//! documents are listed by id, computed results with their content, and `+` begins the included
//! documents, time series and values. Times, scores and change vectors are not essential, nor are
//! error texts.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// Terms requested at once.
const TERMS_MAX: usize = 1024;

/// A server that can be queried.
pub trait Peer {
    /// Sends a request and returns the status and the body of the response.
    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>);
}

/// What happens to automatic indexes between the requests of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutomaticIndexes {
    /// They stay, and which one answers is not compared.
    Any,
    /// There are none at the start of the topic, and their names are compared.
    Grow,
    /// There are none before each request, and their names are compared.
    Fresh,
}

/// Whether the topic of a file of requests or responses is time series, which use other documents.
pub fn is_of_series(file: &str) -> bool {
    file.starts_with("@series\n")
}

impl AutomaticIndexes {
    /// The mode in the first line of a file of requests or responses.
    pub fn of(file: &str) -> AutomaticIndexes {
        match file.lines().next() {
            Some("@fresh") => AutomaticIndexes::Fresh,
            Some("@grow") => AutomaticIndexes::Grow,
            _ => AutomaticIndexes::Any,
        }
    }
}

/// A request and the essentials of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request, as written in the file.
    pub request: String,
    /// The essentials, one or more lines.
    pub answer: String,
}

/// Reads exchanges; lines that begin with `#` or `@` are left out.
pub fn parse(file: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in file.lines() {
        if let (Some(row), Some(last)) = (line.strip_prefix("  "), exchanges.last_mut()) {
            last.answer.push_str(row);
            last.answer.push('\n');
        } else if !line.is_empty() && !line.starts_with(['#', '@']) {
            exchanges.push(Exchange { request: line.to_owned(), answer: String::new() });
        }
    }
    exchanges
}

/// Writes an exchange as [`parse`] reads it.
pub fn print(exchange: &Exchange) -> String {
    let mut text = format!("{}\n", exchange.request);
    for line in exchange.answer.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// One database of a server, filled with the documents and indexes of the recorded exchanges.
pub struct Subject<P> {
    peer: P,
    path: String,
}

impl<P: Peer> Subject<P> {
    /// Creates the database. `documents` and `indexes` hold one JSON object a line: the id and
    /// content of a document, an index definition.
    ///
    /// # Panics
    ///
    /// If the server refuses any of it.
    pub fn new(mut peer: P, database: &str, documents: &str, indexes: &str) -> Subject<P> {
        let record = json!({"DatabaseName": database}).to_string();
        let target = format!("/admin/databases?name={database}&replicationFactor=1");
        expect(peer.send("PUT", &target, record.as_bytes()), 201);
        let mut subject = Subject { peer, path: format!("/databases/{database}") };
        let puts: Vec<&str> = documents.lines().collect();
        let puts = puts.join(",").replace(r#"{"Id":"#, r#"{"Type":"PUT","Id":"#);
        expect(subject.send("POST", "/bulk_docs", &format!(r#"{{"Commands":[{puts}]}}"#)), 201);
        subject.put_indexes(indexes);
        subject
    }

    fn put_indexes(&mut self, indexes: &str) {
        for index in indexes.lines() {
            let body = format!(r#"{{"Indexes":[{index}]}}"#);
            expect(self.send("PUT", "/admin/indexes", &body), 201);
            let index: Value = serde_json::from_str(index).expect("a definition is JSON");
            let name = index["Name"].as_str().expect("an index has a name");
            self.ask(&format!("from index '{name}' limit 0"), AutomaticIndexes::Any);
        }
    }

    /// The same with time series: a document's id, a name and entries a line.
    ///
    /// # Panics
    ///
    /// If the server refuses any of it.
    pub fn with_series(
        peer: P,
        database: &str,
        [documents, series, indexes]: [&str; 3],
    ) -> Subject<P> {
        let mut subject = Subject::new(peer, database, documents, "");
        for line in series.lines() {
            let series: Value = serde_json::from_str(line).expect("a series is JSON");
            let id = series["Id"].as_str().expect("a series has a document");
            let target = format!("/timeseries?docId={}", in_url(id));
            expect(subject.send("POST", &target, line), 204);
        }
        subject.put_indexes(indexes);
        subject
    }

    /// Puts values of compare exchange: a key and its value per line.
    ///
    /// # Panics
    ///
    /// If the server refuses any of it.
    pub fn put_values(&mut self, values: &str) {
        for line in values.lines() {
            let value: Value = serde_json::from_str(line).expect("a value is JSON");
            let key = value["Key"].as_str().expect("a value has a key");
            let target = format!("/cmpxchg?key={}&index=0", in_url(key));
            expect(self.send("PUT", &target, &value["Value"].to_string()), 200);
        }
    }

    /// Deletes the database.
    pub fn delete(mut self) {
        let name = self.path.rsplit('/').next().expect("the path ends with the name");
        let body = json!({"DatabaseNames": [name], "HardDelete": true}).to_string();
        expect(self.peer.send("DELETE", "/admin/databases", body.as_bytes()), 200);
    }

    /// Deletes all automatic indexes.
    pub fn forget_automatic_indexes(&mut self) {
        let (_, names) = expect(self.send("GET", "/indexes?namesOnly=true&pageSize=1024", ""), 200);
        let names: Value = serde_json::from_slice(&names).expect("names of indexes are JSON");
        for name in names["Results"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if name.starts_with("Auto/") {
                let target = format!("/indexes?name={}", in_url(name));
                // One that was replaced by another may be deleted by now.
                let (status, _) = self.send("DELETE", &target, "");
                assert!(matches!(status, 204 | 404), "{name}: {status}");
            }
        }
    }

    /// Sends the request, and returns the essentials of the response.
    pub fn ask(&mut self, request: &str, indexes: AutomaticIndexes) -> String {
        if indexes == AutomaticIndexes::Fresh {
            self.forget_automatic_indexes();
        }
        let (any_order, request) = match request.strip_prefix("~ ") {
            Some(request) => (true, request),
            None => (false, request),
        };
        let (query, more) = request.split_once(" -- ").unwrap_or((request, "{}"));
        let (status, body) = match terms_of(query) {
            Some((index, field)) => self.send(
                "GET",
                &format!(
                    "/indexes/terms?name={}&field={}&pageSize={TERMS_MAX}",
                    in_url(index),
                    in_url(field)
                ),
                "",
            ),
            None => self.send("POST", "/queries", &query_body(query, more)),
        };
        let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        essentials(status, &answer, any_order, indexes != AutomaticIndexes::Any)
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        self.peer.send(method, &format!("{}{path}", self.path), body.as_bytes())
    }
}

fn expect((status, body): (u16, Vec<u8>), wanted: u16) -> (u16, Vec<u8>) {
    assert_eq!(status, wanted, "{}", String::from_utf8_lossy(&body));
    (status, body)
}

fn terms_of(request: &str) -> Option<(&str, &str)> {
    request.strip_prefix("terms ")?.split_once(' ')
}

fn query_body(query: &str, more: &str) -> String {
    let more: Map<String, Value> =
        serde_json::from_str(more).unwrap_or_else(|error| panic!("{query} -- {more}: {error}"));
    let mut body = json!({
        "Query": query,
        "WaitForNonStaleResults": true,
        "WaitForNonStaleResultsTimeout": "00:00:15",
    });
    body.as_object_mut().expect("it was created as an object").extend(more);
    body.to_string()
}

fn in_url(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                encoded.push(char::from(byte));
            }
            _ => write!(encoded, "%{byte:02X}").expect("a string can be written to"),
        }
    }
    encoded
}

/// What of an answer is compared.
fn essentials(status: u16, answer: &Value, any_order: bool, with_names: bool) -> String {
    if status != 200 {
        return match answer["Type"].as_str() {
            Some(name) => format!("{status} {name}\n"),
            None => format!("{status}\n"),
        };
    }
    if let Some(terms) = answer.get("Terms") {
        return format!("200\n{terms}\n");
    }
    let index = match answer["IndexName"].as_str() {
        Some(name) if name.starts_with("Auto/") && !with_names => "Auto",
        name => name.unwrap_or("without index"),
    };
    let mut text = format!("200 {index}, {} in all", answer["TotalResults"]);
    for (name, word) in [("SkippedResults", "skipped"), ("CappedMaxResults", "capped")] {
        if let Some(count) = answer[name].as_i64().filter(|count| *count != 0) {
            let _ = write!(text, ", {count} {word}");
        }
    }
    if answer["IsStale"] == true {
        text.push_str(", stale");
    }
    text.push('\n');
    push_rows(&mut text, answer["Results"].as_array().map_or(&[], Vec::as_slice), any_order);
    push_includes(&mut text, &answer["Includes"]);
    if let Some(series) = answer.get("TimeSeriesIncludes") {
        let _ = writeln!(text, "+ series {series}");
    }
    if let Some(Value::Object(values)) = answer.get("CompareExchangeValueIncludes") {
        for (key, value) in values {
            let _ = writeln!(text, "+ value {key} {} {}", value["Key"], value["Value"]);
        }
    }
    text
}

fn push_rows(text: &mut String, rows: &[Value], any_order: bool) {
    let mut lines: Vec<String> = rows.iter().map(row).collect();
    if any_order {
        lines.sort();
    }
    let whole = rows.iter().all(|row| row["@metadata"]["@projection"] != true);
    if !lines.is_empty() {
        text.push_str(&lines.join(if whole { " " } else { "\n" }));
        text.push('\n');
    }
}

/// The id, and the content if it was computed for the response.
fn row(row: &Value) -> String {
    let metadata = &row["@metadata"];
    let id = metadata["@id"].as_str().unwrap_or("-");
    if metadata["@projection"] != true {
        return id.to_owned();
    }
    let mut content = row.clone();
    if let Some(content) = content.as_object_mut() {
        content.shift_remove("@metadata");
        content.values_mut().for_each(forget_bookkeeping);
    }
    format!("{id} {content}")
}

/// Removes from whole documents inside a row what differs between two servers.
fn forget_bookkeeping(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["@change-vector", "@last-modified", "@index-score"] {
                members.shift_remove(name);
            }
            members.values_mut().for_each(forget_bookkeeping);
        }
        Value::Array(elements) => elements.iter_mut().for_each(forget_bookkeeping),
        _ => {}
    }
}

fn push_includes(text: &mut String, includes: &Value) {
    let mut ids: Vec<&str> =
        includes.as_object().into_iter().flatten().map(|(id, _)| id.as_str()).collect();
    ids.sort_unstable();
    if !ids.is_empty() {
        let _ = writeln!(text, "+ {}", ids.join(" "));
    }
}
