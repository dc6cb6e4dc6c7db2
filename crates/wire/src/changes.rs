//! The messages of the Changes API: the commands of clients and the notifications of the server.
//!
//! Every message of the server is an array of notifications; the functions here format single notifications.

use model::lower_case;
use serde::Serialize;
use serde_json::{Deserializer, Value, json};

/// The server's first message: the notifications it supports beyond the original ones.
pub const FEATURES: &str = r#"{"TopologyChange":true,"AggressiveCachingChange":true}"#;
/// Notifies a client that its cache may be out of date.
pub const AGGRESSIVE_CACHE_CHANGE: &str = r#"{"Type":"AggressiveCacheChange"}"#;

/// A watch of a client. Names are lower-case, because they are all matched without regard to case.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Watch {
    /// Every document.
    Documents,
    /// One document.
    Document(String),
    /// The documents whose ids have this prefix.
    Prefix(String),
    /// The documents of a collection.
    Collection(String),
    /// Every index.
    Indexes,
    /// One index.
    Index(String),
    /// Every operation.
    Operations,
    /// One operation.
    Operation(i64),
    /// Every counter.
    Counters,
    /// The counters with this name.
    Counter(String),
    /// The counters of a document.
    CountersOf(String),
    /// One counter of a document.
    CounterOf(String, String),
    /// Every time series.
    TimeSeries,
    /// The time series with this name.
    TimeSeriesNamed(String),
    /// The time series of a document.
    TimeSeriesOf(String),
    /// One time series of a document.
    OneTimeSeriesOf(String, String),
    /// Every change that may invalidate answers cached by a client.
    AggressiveCaching,
    /// The nodes of the database.
    Topology,
}

impl Watch {
    /// Bytes of its names.
    pub fn name_bytes(&self) -> usize {
        match self {
            Watch::Document(name)
            | Watch::Prefix(name)
            | Watch::Collection(name)
            | Watch::Index(name)
            | Watch::Counter(name)
            | Watch::CountersOf(name)
            | Watch::TimeSeriesNamed(name)
            | Watch::TimeSeriesOf(name) => name.len(),
            Watch::CounterOf(document, name) | Watch::OneTimeSeriesOf(document, name) => {
                document.len() + name.len()
            }
            Watch::Documents
            | Watch::Indexes
            | Watch::Operations
            | Watch::Operation(_)
            | Watch::Counters
            | Watch::TimeSeries
            | Watch::AggressiveCaching
            | Watch::Topology => 0,
        }
    }
}

/// A command of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangesCommand {
    /// The id by which the client recognises the confirmation; without it, none is sent.
    pub id: Option<i64>,
    /// Whether the watch begins or ends.
    pub begins: bool,
    /// The watch; `None` if no notifications exist for it.
    pub watch: Option<Watch>,
}

/// The client has sent something that is not a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotACommand;

/// Removes complete commands from the front of the text received so far; an incomplete command at the end
/// stays.
///
/// # Errors
/// The text can never become a command.
pub fn take_commands(sent: &mut String) -> Result<Vec<ChangesCommand>, NotACommand> {
    let mut values = Deserializer::from_str(sent).into_iter::<Value>();
    let mut commands = Vec::new();
    let end = loop {
        let end = values.byte_offset();
        match values.next() {
            Some(Ok(value)) => commands.push(read_command(&value)?),
            Some(Err(error)) if error.is_eof() && begins_as_object(&sent[end..]) => break end,
            Some(Err(_)) => return Err(NotACommand),
            None => break sent.len(),
        }
    };
    sent.drain(..end);
    Ok(commands)
}

/// Whether the incomplete value may become a command.
fn begins_as_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
}

fn read_command(value: &Value) -> Result<ChangesCommand, NotACommand> {
    let Value::Object(fields) = value else { return Err(NotACommand) };
    let id = match fields.get("CommandId") {
        None | Some(Value::Null) => None,
        Some(id) => Some(id.as_i64().ok_or(NotACommand)?),
    };
    let command = fields.get("Command").and_then(Value::as_str).ok_or(NotACommand)?;
    let command = command.to_ascii_lowercase();
    let (begins, what) = match command.strip_prefix("unwatch-") {
        Some(what) => (false, what),
        None => (true, command.strip_prefix("watch-").ok_or(NotACommand)?),
    };
    let one = || match fields.get("Param") {
        Some(Value::String(text)) => Ok(lower_case(text).into_owned()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        _ => Err(NotACommand),
    };
    let two = || match fields.get("Params").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::String(document), Value::String(name)]) => {
            Ok((lower_case(document).into_owned(), lower_case(name).into_owned()))
        }
        _ => Err(NotACommand),
    };
    let watch = match what {
        "docs" => Watch::Documents,
        "doc" => Watch::Document(one()?),
        "prefix" => Watch::Prefix(one()?),
        "collection" => Watch::Collection(one()?),
        "indexes" => Watch::Indexes,
        "index" => Watch::Index(one()?),
        "operations" => Watch::Operations,
        "operation" => match one()?.parse() {
            Ok(id) => Watch::Operation(id),
            Err(_) => return Ok(ChangesCommand { id, begins, watch: None }),
        },
        "counters" => Watch::Counters,
        "counter" => Watch::Counter(one()?),
        "document-counters" => Watch::CountersOf(one()?),
        "document-counter" => two().map(|(document, name)| Watch::CounterOf(document, name))?,
        "all-timeseries" => Watch::TimeSeries,
        "timeseries" => Watch::TimeSeriesNamed(one()?),
        "all-document-timeseries" => Watch::TimeSeriesOf(one()?),
        "document-timeseries" => {
            two().map(|(document, name)| Watch::OneTimeSeriesOf(document, name))?
        }
        "aggressive-caching" => Watch::AggressiveCaching,
        "topology-change" => Watch::Topology,
        // Sent by old clients; documents have no types.
        "type" => return Ok(ChangesCommand { id, begins, watch: None }),
        _ => return Err(NotACommand),
    };
    Ok(ChangesCommand { id, begins, watch: Some(watch) })
}

/// The confirmation of a command.
pub fn confirmation(id: i64) -> String {
    format!(r#"{{"CommandId":{id},"Type":"Confirm"}}"#)
}

/// A change of a document.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DocumentChangeShape<'a> {
    /// `Put` or `Delete`.
    #[serde(rename = "Type")]
    pub kind: &'a str,
    /// Its id.
    pub id: &'a str,
    /// Its collection.
    pub collection_name: &'a str,
    /// Its new change vector.
    pub change_vector: Option<&'a str>,
}

/// A change of a counter.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CounterChangeShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its new value.
    pub value: i64,
    /// Its document.
    pub document_id: &'a str,
    /// The collection of its document.
    pub collection_name: &'a str,
    /// The change vector of the counters.
    pub change_vector: &'a str,
    /// `Put`, `Increment` or `Delete`.
    #[serde(rename = "Type")]
    pub kind: &'a str,
}

/// A change of a time series.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TimeSeriesChangeShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// The first affected timestamp.
    pub from: Option<String>,
    /// The last affected timestamp.
    pub to: Option<String>,
    /// Its document.
    pub document_id: &'a str,
    /// The change vector of the segment.
    pub change_vector: &'a str,
    /// `Put` or `Delete`.
    #[serde(rename = "Type")]
    pub kind: &'a str,
    /// The collection of its document.
    pub collection_name: &'a str,
}

/// A change of an index.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct IndexChangeShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kind of change.
    #[serde(rename = "Type")]
    pub kind: &'a str,
}

/// The kinds of notifications, with their values.
#[derive(Serialize)]
#[serde(tag = "Type", content = "Value")]
pub enum Notification<'a> {
    /// Of a document.
    DocumentChange(DocumentChangeShape<'a>),
    /// Of a counter.
    CounterChange(CounterChangeShape<'a>),
    /// Of a time series.
    TimeSeriesChange(TimeSeriesChangeShape<'a>),
    /// Of an index.
    IndexChange(IndexChangeShape<'a>),
}

impl Notification<'_> {
    /// The JSON text sent to clients.
    pub fn text(&self) -> String {
        // Strings and numbers can always be serialised.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A change of an operation; [`operation_state`](crate::operation_state::operation_state) makes the state.
pub fn operation_change(id: i64, state: Value) -> String {
    let value = json!({ "OperationId": id, "State": state });
    json!({ "Type": "OperationStatusChange", "Value": value }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(Option<i64>, bool, Option<Watch>), NotACommand>) {
        let mut sent = text.to_owned();
        let read = take_commands(&mut sent).map(|commands| {
            assert_eq!((commands.len(), sent.as_str()), (1, ""), "{text}");
            let one = commands[0].clone();
            (one.id, one.begins, one.watch)
        });
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn commands_are_read_as_clients_write_them() {
        let document = |id: &str| Some(Watch::Document(id.into()));
        let cases = [
            (
                r#"{"CommandId":1,"Command":"watch-doc","Param":"Users/1"}"#,
                Some(1),
                true,
                document("users/1"),
            ),
            (r#"{"Command":"UNWATCH-Doc","Param":"a"}"#, None, false, document("a")),
            (
                r#"{"CommandId":7,"Command":"watch-docs","Param":null}"#,
                Some(7),
                true,
                Some(Watch::Documents),
            ),
            (
                r#"{"CommandId":7,"Command":"watch-operation","Param":"12"}"#,
                Some(7),
                true,
                Some(Watch::Operation(12)),
            ),
            (r#"{"CommandId":7,"Command":"watch-operation","Param":"x"}"#, Some(7), true, None),
            (r#"{"CommandId":7,"Command":"watch-type","Param":"x"}"#, Some(7), true, None),
            (
                r#"{"CommandId":7,"Command":"watch-document-counter","Param":null,"Params":["A/1","Likes"]}"#,
                Some(7),
                true,
                Some(Watch::CounterOf("a/1".into(), "likes".into())),
            ),
        ];
        for (text, id, begins, watch) in cases {
            check(text, Ok((id, begins, watch)));
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let cases = [
            "nonsense",
            "{}",
            "[]",
            "1",
            "0e",
            "tru",
            "\"{",
            " [{",
            r#"{"CommandId":1,"Command":"watch-docs"} -"#,
            r#"{"CommandId":1}"#,
            r#"{"CommandId":"1","Command":"watch-docs"}"#,
            r#"{"CommandId":1,"Command":"foo"}"#,
            r#"{"CommandId":1,"Command":"watch-bulk-insert","Param":"1"}"#,
            r#"{"CommandId":1,"Command":"watch-doc"}"#,
            r#"{"CommandId":1,"Command":"watch-doc","Param":null}"#,
            r#"{"CommandId":1,"Command":"watch-document-counter","Param":"a/1"}"#,
            r#"{"CommandId":1,"Command":"watch-document-counter","Params":["a/1"]}"#,
        ];
        for text in cases {
            assert_eq!(take_commands(&mut text.to_owned()), Err(NotACommand), "{text}");
        }
    }

    #[test]
    fn a_command_may_come_in_pieces_and_with_others() {
        let one = r#"{"CommandId":1,"Command":"watch-docs"}"#;
        let mut sent = format!("{one}{one} {}", &one[..12]);
        assert_eq!(take_commands(&mut sent).unwrap().len(), 2);
        assert_eq!(take_commands(&mut sent), Ok(Vec::new()));
        sent.push_str(&one[12..]);
        assert_eq!(take_commands(&mut sent).unwrap().len(), 1);
        assert_eq!(sent, "");
    }

    #[test]
    fn wherever_commands_are_cut_they_are_the_same() {
        let text = r#" {"CommandId":1,"Command":"watch-doc","Param":"é\u00e9\""} {"Command":"unwatch-docs"}
            {"CommandId":-7,"Command":"watch-document-counter","Params":["a","b"],"More":[{"x":null}]}"#;
        let whole = take_commands(&mut text.to_owned()).unwrap();
        assert_eq!(whole.len(), 3);
        let ends = |from: usize| (from..=text.len()).filter(|at| text.is_char_boundary(*at));
        for first in ends(0) {
            for second in ends(first).step_by(7) {
                let (mut unfinished, mut commands) = (String::new(), Vec::new());
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    unfinished.push_str(piece);
                    commands.extend(take_commands(&mut unfinished).unwrap());
                }
                assert_eq!(commands, whole, "{first} {second}");
                assert_eq!(unfinished.trim(), "");
            }
        }
    }

    #[test]
    fn notifications_have_the_properties_of_the_protocol_in_their_order() {
        let document = DocumentChangeShape {
            kind: "Put",
            id: "users/1",
            collection_name: "Users",
            change_vector: Some("A:1-x"),
        };
        assert_eq!(
            Notification::DocumentChange(document).text(),
            r#"{"Type":"DocumentChange","Value":{"Type":"Put","Id":"users/1","CollectionName":"Users","ChangeVector":"A:1-x"}}"#
        );
        let counter = CounterChangeShape {
            name: "k",
            value: 2,
            document_id: "users/1",
            collection_name: "Users",
            change_vector: "A:2-x",
            kind: "Increment",
        };
        assert_eq!(
            Notification::CounterChange(counter).text(),
            r#"{"Type":"CounterChange","Value":{"Name":"k","Value":2,"DocumentId":"users/1","CollectionName":"Users","ChangeVector":"A:2-x","Type":"Increment"}}"#
        );
        let series = TimeSeriesChangeShape {
            name: "HR",
            from: None,
            to: None,
            document_id: "users/1",
            change_vector: "A:3-x",
            kind: "Delete",
            collection_name: "Users",
        };
        assert_eq!(
            Notification::TimeSeriesChange(series).text(),
            r#"{"Type":"TimeSeriesChange","Value":{"Name":"HR","From":null,"To":null,"DocumentId":"users/1","ChangeVector":"A:3-x","Type":"Delete","CollectionName":"Users"}}"#
        );
        let index = IndexChangeShape { name: "I", kind: "BatchCompleted" };
        assert_eq!(
            Notification::IndexChange(index).text(),
            r#"{"Type":"IndexChange","Value":{"Name":"I","Type":"BatchCompleted"}}"#
        );
        assert_eq!(
            operation_change(3, Value::Null),
            r#"{"Type":"OperationStatusChange","Value":{"OperationId":3,"State":null}}"#
        );
    }
}
