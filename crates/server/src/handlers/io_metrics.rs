//! The I/O of a database: everything recorded, and live over a WebSocket.

use std::time::Duration;

use database::Database;
use http::StatusCode;
use model::{date, ticks::TICKS_PER_MILLISECOND};
use serde_json::{Value, json};
use storage::{FileIo, IoKind, IoOperation, IoPosition, IoSummary};
use wire::humane_size;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    feeds::live_feed::{LiveFeed, News},
    http::web_socket::Session,
};

/// `GET /debug/io-metrics`.
pub(crate) fn all(call: &Call) -> Result<Answer, ApiError> {
    let (environment, _) = io_of(call.database()?, IoPosition::default());
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "Environments": [environment],
        "Performances": [],
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/io-metrics/live`: first everything recorded, then every few seconds what is new. A
/// late reader misses what has been summarized in the meantime.
pub(crate) fn live(call: &Call) -> Result<Session, ApiError> {
    LiveFeed::begin(call, NewOperations { position: None })
}

/// The operations that were not sent to a reader yet.
struct NewOperations {
    position: Option<IoPosition>,
}

impl News for NewOperations {
    fn take(&mut self, database: &Database) -> Option<Value> {
        let (environment, position) = io_of(database, self.position.unwrap_or_default());
        let is_new = self.position.replace(position) != Some(position);
        is_new.then(|| json!({"Environments": [environment], "Performances": []}))
    }

    fn nothing(&self) -> Value {
        json!({"Environments": [], "Performances": []})
    }
}

fn io_of(database: &Database, since: IoPosition) -> (Value, IoPosition) {
    let environment = database.environment();
    let (files, position) = environment.io(since);
    let files: Vec<Value> = files.iter().map(file_item).collect();
    let path = environment.options().directory.display().to_string();
    (json!({"Path": path, "Type": "Documents", "Files": files}), position)
}

fn file_item(file: &FileIo) -> Value {
    json!({
        "File": &*file.file,
        "Status": if file.is_in_use { "InUse" } else { "Closed" },
        "Recent": file.recent.iter().map(operation_item).collect::<Vec<_>>(),
        "History": file.history.iter().map(summary_item).collect::<Vec<_>>(),
    })
}

/// The protocol's name of a kind of operation.
pub(crate) fn kind_name(kind: IoKind) -> &'static str {
    match kind {
        IoKind::JournalWrite => "JournalWrite",
        IoKind::DataFlush => "DataFlush",
        IoKind::DataSync => "DataSync",
        IoKind::Compression => "Compression",
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn operation_item(operation: &IoOperation) -> Value {
    let start = date::format(operation.start.ticks());
    let (bytes, before) = (operation.bytes, operation.bytes_before);
    if operation.kind == IoKind::Compression {
        return json!({
            "Start": start,
            "OriginalSize": before, "HumaneOriginalSize": humane_size(before),
            "CompressedSize": bytes, "HumaneCompressedSize": humane_size(bytes),
            "Acceleration": 1, "CompressionRatio": bytes as f64 / before.max(1) as f64,
            "Duration": milliseconds(operation.duration), "Type": kind_name(operation.kind)
        });
    }
    json!({
        "Start": start,
        "Size": bytes, "HumaneSize": humane_size(bytes),
        "FileSize": operation.file_bytes, "HumaneFileSize": humane_size(operation.file_bytes),
        "Duration": milliseconds(operation.duration), "Type": kind_name(operation.kind)
    })
}

fn summary_item(summary: &IoSummary) -> Value {
    let compressed = if summary.kind == IoKind::Compression { summary.bytes } else { 0 };
    let whole = summary.end.ticks() - summary.start.ticks();
    json!({
        "Start": date::format(summary.start.ticks()),
        "End": date::format(summary.end.ticks()),
        "Size": summary.bytes_before, "HumaneSize": humane_size(summary.bytes_before),
        "FileSize": summary.file_bytes, "HumaneFileSize": humane_size(summary.file_bytes),
        "Duration": whole as f64 / TICKS_PER_MILLISECOND as f64,
        "ActiveDuration": milliseconds(summary.active),
        "MaxDuration": milliseconds(summary.longest),
        "MinDuration": milliseconds(summary.shortest),
        "MaxAcceleration": 1, "MinAcceleration": 1,
        "CompressedSize": compressed, "HumaneCompressedSize": humane_size(compressed),
        "Type": kind_name(summary.kind)
    })
}
