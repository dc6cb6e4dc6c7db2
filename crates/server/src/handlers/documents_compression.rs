//! Compression of documents: the configuration, and its effect on single documents.

use http::StatusCode;
use serde_json::{Value, json};
use wire::{RecordBody, SectionKind, humane_size};

use crate::{
    answers::{answer::Answer, json_text::JsonObject},
    api_error::ApiError,
    call::Call,
    handlers::sections,
    http::router::Answering,
    request_json::read_object,
};

/// `GET /documents-compression/config`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ApiError> {
    let body = RecordBody::of_record(&call.database()?.record());
    Ok(match body.section(SectionKind::Compression) {
        Some(Value::Object(stored)) => {
            Answer::shape(StatusCode::OK, wire::read_documents_compression(stored)?.json())
        }
        Some(_) | None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `POST /admin/documents-compression/config`: replaces the whole configuration.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let section = wire::read_documents_compression(&read_object(&call.body)?)?;
        sections::replace(call, section).await
    })
}

/// `GET /debug/storage/compression-dictionaries`: the numbers of the stored dictionaries.
pub(crate) fn dictionaries(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let count = documents::dictionaries_count(&database.read())?;
    let entries: Vec<Value> = (1..=count).map(|id| json!({"Id": id})).collect();
    let shown = json!({
        "@metadata": {"NodeTag": call.state.node_tag()},
        "DatabaseName": database.record().name.as_str(),
        "InStorage": {"NumberOfEntries": count, "Entries": entries}
    });
    Ok(Answer::shape(StatusCode::OK, &shown))
}

/// The sizes of a row, as two of the routes return them.
pub(crate) struct RowSizes {
    /// The size without compression.
    pub(crate) actual_bytes: usize,
    pub(crate) stored_bytes: usize,
    pub(crate) is_compressed: bool,
}

impl RowSizes {
    /// The response of these routes. What was measured is named last, as a property.
    pub(crate) fn answer(&self, property: &'static str, name: &str) -> Answer {
        let mut body = Vec::new();
        let mut object = JsonObject::begin(&mut body);
        let actual = self.actual_bytes as u64;
        let allocated = storage::allocated_row_bytes(self.stored_bytes);
        object.number("ActualSize", actual);
        object.text("HumaneActualSize", &humane_size(actual));
        object.number("AllocatedSize", allocated);
        object.text("HumaneAllocatedSize", &humane_size(allocated));
        object.flag("IsCompressed", self.is_compressed);
        object.text(property, name);
        object.end();
        Answer::json(body)
    }
}
