//! Diagnostics of a database.

use std::collections::BTreeMap;

use database::Database;
use http::StatusCode;
use model::date;
use serde_json::{Value, json};
use storage::{IoKind, IoOperation};
use wire::{ProtocolError, guid_text, humane_size};

use crate::{answer::Answer, call::Call};

/// `GET /debug/io-metrics`: what the newest writes and syncs of a database cost.
pub(crate) fn io_metrics(call: &Call) -> Result<Answer, ProtocolError> {
    let environment = io_of(call.database()?);
    let answer = json!({"@metadata": call.state.debug_metadata(), "Environments": [environment]});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn io_of(database: &Database) -> Value {
    let mut files: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for operation in database.environment().recent_io() {
        files.entry(operation.file.to_string()).or_default().push(io_item(&operation));
    }
    let files: Vec<Value> = files
        .into_iter()
        .map(|(file, recent)| {
            json!({"File": file, "Status": "InUse", "Recent": recent, "History": []})
        })
        .collect();
    let path = database.environment().options().directory.display().to_string();
    json!({"Path": path, "Type": "Documents", "Files": files})
}

fn io_item(operation: &IoOperation) -> Value {
    let kind = match operation.kind {
        IoKind::JournalWrite => "JournalWrite",
        IoKind::DataFlush => "DataFlush",
        IoKind::DataSync => "DataSync",
        IoKind::Compression => "Compression",
    };
    let start = date::format(operation.start.ticks());
    let milliseconds = operation.duration.as_secs_f64() * 1000.0;
    let (bytes, before) = (operation.bytes, operation.bytes_before);
    if operation.kind == IoKind::Compression {
        return json!({
            "Start": start,
            "OriginalSize": before, "HumaneOriginalSize": humane_size(before),
            "CompressedSize": bytes, "HumaneCompressedSize": humane_size(bytes),
            "Acceleration": 1, "CompressionRatio": bytes as f64 / before.max(1) as f64,
            "Duration": milliseconds, "Type": kind
        });
    }
    json!({
        "Start": start,
        "Size": bytes, "HumaneSize": humane_size(bytes),
        "FileSize": operation.file_bytes, "HumaneFileSize": humane_size(operation.file_bytes),
        "Duration": milliseconds, "Type": kind
    })
}

/// `GET /debug/server-id`.
pub(crate) fn server_id(call: &Call) -> Result<Answer, ProtocolError> {
    let id = guid_text(call.state.catalog.server_id());
    let answer = json!({"@metadata": call.state.debug_metadata(), "ServerId": id});
    Ok(Answer::shape(StatusCode::OK, &answer))
}
