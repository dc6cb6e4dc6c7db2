//! The configurations of expiration, refresh and archiving.

use model::RetentionKind;
use wire::{SectionKind, read_retention_configuration};

use crate::{
    answers::answer::Answer, api_error::ApiError, call::Call, handlers::sections,
    http::router::Answering, request_json::read_object,
};

/// `GET /expiration/config`.
pub(crate) fn expiration(call: &Call) -> Result<Answer, ApiError> {
    configuration(call, RetentionKind::Expiration)
}

/// `POST /admin/expiration/config`.
pub(crate) fn configure_expiration(call: Call) -> Answering {
    Box::pin(configure(call, RetentionKind::Expiration))
}

/// `GET /refresh/config`.
pub(crate) fn refresh(call: &Call) -> Result<Answer, ApiError> {
    configuration(call, RetentionKind::Refresh)
}

/// `POST /admin/refresh/config`.
pub(crate) fn configure_refresh(call: Call) -> Answering {
    Box::pin(configure(call, RetentionKind::Refresh))
}

/// `GET /data-archival/config`.
pub(crate) fn archival(call: &Call) -> Result<Answer, ApiError> {
    configuration(call, RetentionKind::Archival)
}

/// `POST /admin/data-archival/config`.
pub(crate) fn configure_archival(call: Call) -> Answering {
    Box::pin(configure(call, RetentionKind::Archival))
}

fn configuration(call: &Call, kind: RetentionKind) -> Result<Answer, ApiError> {
    sections::show(call, SectionKind::Retention(kind))
}

async fn configure(call: Call, kind: RetentionKind) -> Result<Answer, ApiError> {
    let record = call.database()?.record();
    let section =
        read_retention_configuration(kind, &read_object(&call.body)?, record.name.as_str())?;
    sections::replace(call, section).await
}
