//! `GET /studio/…`: the files of the Studio.
//!
//! Every address of the Studio that is not one of its files is a place inside it, so that it can be opened
//! directly: the page is the response, and finds out itself what to show. Invariant: the page runs no script and
//! applies no style but those of these files.

use std::{borrow::Cow, io::Read};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{StatusCode, header};
use studio_files::StudioFile;

use crate::{
    answers::answer::{Answer, AnswerBody},
    api_error::ApiError,
    call::Call,
    http::answer_coding::accepted_quality,
    studio::{Found, HASHED_FILES, PAGE},
};

const PREFIX: &str = "/studio/";
/// Where `/` leads to.
pub(crate) const PAGE_TARGET: &str = "/studio/index.html";

/// Nothing inline, nothing from elsewhere, no frames. Styles that scripts set on single elements are not affected.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";
const NO_PERMISSIONS: &str =
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()";

/// `GET /studio/index.html` and everything below `/studio/`.
pub(crate) fn file(call: &Call) -> Result<Answer, ApiError> {
    let target = call.target.split('?').next().unwrap_or_default();
    let path = target.get(PREFIX.len()..).unwrap_or_default();
    let studio = &call.state.studio;
    if let Some(found) = studio.find(path) {
        return answer(call, path, found);
    }
    if path.starts_with(HASHED_FILES) {
        return Ok(not_found("The Studio has no such file."));
    }
    match studio.find(PAGE) {
        Some(page) => answer(call, PAGE, page),
        None => Ok(not_found(&how_to_get_it(call))),
    }
}

/// What to do on a server without the Studio.
pub(crate) fn how_to_get_it(call: &Call) -> Cow<'static, str> {
    match &call.state.engine.settings().studio_path {
        Some(directory) => Cow::Owned(format!(
            "The directory '{}' of the setting Studio.Path has no file index.html: run studio/run build in the \
             source code of Corvus, and set Studio.Path to its directory studio/dist.",
            directory.display()
        )),
        None => Cow::Borrowed(
            "This server was built without the Studio, its web interface: install Node.js 20.19 or newer, and run \
             make build in the source code of Corvus.",
        ),
    }
}

fn answer(call: &Call, path: &str, found: Found) -> Result<Answer, ApiError> {
    let answer = match found {
        Found::Read(content) => whole(content).with_header("cache-control", "no-store"),
        Found::Embedded(file) if call.if_none_match() == Some(file.hash) => {
            cached(Answer::empty(StatusCode::NOT_MODIFIED), file)
        }
        Found::Embedded(file) => cached(embedded(call, file)?, file),
    };
    let answer = answer
        .with_content_type(content_type(path))
        .with_header("x-content-type-options", "nosniff")
        .with_header("cross-origin-resource-policy", "same-origin");
    Ok(match path {
        PAGE => answer
            .with_header("content-security-policy", POLICY)
            .with_header("permissions-policy", NO_PERMISSIONS)
            .with_header("referrer-policy", "no-referrer")
            .with_header("cross-origin-opener-policy", "same-origin"),
        _ => answer,
    })
}

/// For people: no client library asks for these files.
fn not_found(message: &str) -> Answer {
    let mut answer = whole(Bytes::from(format!("{message}\n")))
        .with_content_type("text/plain; charset=utf-8")
        .with_header("cache-control", "no-store");
    answer.status = StatusCode::NOT_FOUND;
    answer
}

fn whole(content: Bytes) -> Answer {
    Answer { status: StatusCode::OK, headers: Vec::new(), body: AnswerBody::Whole(content) }
}

/// The form that the client accepts, or the content itself.
fn embedded(call: &Call, file: &'static StudioFile) -> Result<Answer, ApiError> {
    let quality = |coding| accepted_quality(&call.headers, coding);
    let (brotli, gzip) = (quality("br"), quality("gzip"));
    if 0.0 < brotli && gzip <= brotli {
        return Ok(whole(Bytes::from_static(file.brotli)).with_header("content-encoding", "br"));
    }
    if 0.0 < gzip {
        return Ok(whole(Bytes::from_static(file.gzip)).with_header("content-encoding", "gzip"));
    }
    let mut content = Vec::new();
    let read = GzDecoder::new(file.gzip).read_to_end(&mut content);
    read.map_err(|error| ApiError::invalid_operation(error.to_string()))?;
    Ok(whole(Bytes::from(content)))
}

/// A file whose name changes with its content is kept for good; any other is asked for again each time.
fn cached(answer: Answer, file: &StudioFile) -> Answer {
    let control = match file.path.starts_with(HASHED_FILES) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    answer
        .with_quoted_etag(file.hash)
        .with_header("cache-control", control)
        .with_header(header::VARY.as_str(), "Accept-Encoding")
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
