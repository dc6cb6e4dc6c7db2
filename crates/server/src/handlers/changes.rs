//! The Changes API: connecting, listing connections, and disconnecting one.

use database::ListenerView;
use http::StatusCode;
use model::TimeSpan;
use serde_json::{Map, Value, json};
use wire::changes::Watch;

use crate::{
    answers::answer::Answer, api_error::ApiError, call::Call, feeds::change_session,
    http::web_socket::Session,
};

/// `GET /databases/{db}/changes`
pub(crate) fn connect(call: &Call) -> Result<Session, ApiError> {
    change_session::begin(call)
}

/// `GET /databases/{db}/changes/debug`
pub(crate) fn connections(call: &Call) -> Result<Answer, ApiError> {
    let now = call.state.engine.clock().now();
    let listeners = call.database()?.changes().listeners();
    let shapes = listeners.iter().map(|view| connection_shape(view, now.ticks()));
    let shapes: Vec<Value> = shapes.collect();
    let body = json!({ "NumberOfConnections": shapes.len(), "Connections": shapes });
    Ok(Answer::shape(StatusCode::OK, &body))
}

/// `DELETE /databases/{db}/changes?id=`
pub(crate) fn disconnect(call: &Call) -> Result<Answer, ApiError> {
    let id = call.query().required_long("id")?;
    call.database()?.changes().drop_listener(id.unsigned_abs());
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// The lists in the description of one connection, in their order, after the marks.
const LISTS: [&str; 10] = [
    "WatchDocumentPrefixes",
    "WatchDocumentsInCollection",
    "WatchIndexes",
    "WatchDocuments",
    "WatchCounters",
    "WatchCounterOfDocument",
    "WatchCountersOfDocument",
    "WatchTimeSeries",
    "WatchTimeSeriesOfDocument",
    "WatchAllTimeSeriesOfDocument",
];

fn connection_shape(view: &ListenerView, now_ticks: i64) -> Value {
    let listener = &view.listener;
    let age = TimeSpan { ticks: (now_ticks - listener.options().began.ticks()).max(0) };
    let all = |watch: Watch| Value::Bool(view.watches.contains(&watch));
    let mut shape: Map<String, Value> = Map::new();
    let mut put = |name: &str, value: Value| drop(shape.insert(name.to_owned(), value));
    put("Id", listener.id().into());
    put("PendingMessagesCount", listener.pending().into());
    put("State", "Open".into());
    put("CloseStatus", Value::Null);
    put("CloseStatusDescription", Value::Null);
    put("SubProtocol", Value::Null);
    put("Age", age.to_string().into());
    put("WatchAllDocuments", all(Watch::Documents));
    put("WatchAllIndexes", all(Watch::Indexes));
    put("WatchAllCounters", all(Watch::Counters));
    put("WatchAllTimeSeries", all(Watch::TimeSeries));
    put("WatchAllOperations", all(Watch::Operations));
    for list in LISTS {
        put(list, Value::Array(Vec::new()));
    }
    for (list, item) in view.watches.iter().filter_map(listed) {
        shape[list].as_array_mut().expect("every list was put there").push(item);
    }
    Value::Object(shape)
}

/// The list in which a watch is shown, and its form.
fn listed(watch: &Watch) -> Option<(&'static str, Value)> {
    let pair = |document: &str, name: &str| json!({ "DocumentId": document, "Name": name });
    let (list, item) = match watch {
        Watch::Prefix(name) => ("WatchDocumentPrefixes", name.as_str().into()),
        Watch::Collection(name) => ("WatchDocumentsInCollection", name.as_str().into()),
        Watch::Index(name) => ("WatchIndexes", name.as_str().into()),
        Watch::Document(name) => ("WatchDocuments", name.as_str().into()),
        Watch::Counter(name) => ("WatchCounters", name.as_str().into()),
        Watch::CounterOf(document, name) => ("WatchCounterOfDocument", pair(document, name)),
        Watch::CountersOf(name) => ("WatchCountersOfDocument", name.as_str().into()),
        Watch::TimeSeriesNamed(name) => ("WatchTimeSeries", name.as_str().into()),
        Watch::OneTimeSeriesOf(document, name) => {
            ("WatchTimeSeriesOfDocument", pair(document, name))
        }
        Watch::TimeSeriesOf(name) => ("WatchAllTimeSeriesOfDocument", name.as_str().into()),
        Watch::Documents
        | Watch::Indexes
        | Watch::Operations
        | Watch::Operation(_)
        | Watch::Counters
        | Watch::TimeSeries
        | Watch::AggressiveCaching
        | Watch::Topology => return None,
    };
    Some((list, item))
}
