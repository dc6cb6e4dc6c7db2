//! `/multi_get`: several reads in one request.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use storage::MemoryShare;
use wire::{ErrorKind, InnerRequest};

use crate::{
    answers::{
        answer::{Answer, StreamBroken},
        json_text::{JsonArray, JsonObject},
    },
    api_error::{ApiError, no_room},
    call::Call,
    http::{
        router::{Answering, route_not_found},
        service::serve_inner,
    },
};

/// Memory of the responses of one request that is not charged.
const SHARE_ALWAYS_ALLOWED: u64 = 256 << 10;

/// `POST /multi_get`.
pub(crate) fn multi_get(call: Call) -> Answering {
    Box::pin(async move {
        let requests = wire::read_multi_get(&call.body)?;
        let mut body = Vec::new();
        let mut page = JsonObject::begin(&mut body);
        let mut results = JsonArray::begin(page.name("Results"));
        let mut share = call.state.engine.memory().answers.share(SHARE_ALWAYS_ALLOWED);
        for request in requests {
            let mut gathered = Gathered { out: results.element(), share: &mut share };
            answer_one(&call, request, &mut gathered).await?;
            // Each may take as long as a request of its own; those of other clients come in between.
            tokio::task::yield_now().await;
        }
        results.end();
        page.end();
        // Charged again as a response.
        drop(share);
        Ok(Answer::json(body))
    })
}

/// The collected responses, and their charge.
struct Gathered<'g> {
    out: &'g mut Vec<u8>,
    share: &'g mut MemoryShare,
}

async fn answer_one(
    call: &Call,
    request: InnerRequest,
    gathered: &mut Gathered<'_>,
) -> Result<(), ApiError> {
    let (Some(url), true) = (&request.url, request.query.is_some() || request.content.is_some())
    else {
        gathered.out.extend_from_slice(b"{}");
        return Ok(());
    };
    let target = format!("{url}{}", request.query.as_deref().unwrap_or(""));
    let name = request.method.as_deref().filter(|name| !name.is_empty()).unwrap_or("GET");
    let method = Method::from_bytes(name.as_bytes())
        .map_err(|_| ApiError::argument(format!("'{name}' is not a method")))?;
    let headers = header_map(&request.headers);
    let content = request.content.unwrap_or_default().into();
    let database = call.database()?;
    match serve_inner(call, database, method, target.clone(), headers, content).await {
        Some(answer) => write_answer(answer, gathered).await,
        None => {
            write_not_found(name, &target, gathered.out);
            Ok(())
        }
    }
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let parsed = headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        // Access was decided by that of the request itself, which no handler sees either.
        if name == header::AUTHORIZATION {
            return None;
        }
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    parsed.collect()
}

async fn write_answer(answer: Answer, gathered: &mut Gathered<'_>) -> Result<(), ApiError> {
    let status = answer.status;
    let etag = answer.header(&header::ETAG).map(str::to_owned);
    let mut object = JsonObject::begin(gathered.out);
    let out = object.name("Result");
    let begin = out.len();
    let mut body = answer.body;
    while let Some(frame) = body.frame().await {
        // None of the outer answer was sent yet, so the reason can be its status.
        let frame = frame.map_err(|broken| {
            let unknown = || ApiError::new(ErrorKind::Internal, StreamBroken::MESSAGE);
            broken.reason.map_or_else(unknown, |reason| *reason)
        })?;
        out.extend_from_slice(&frame.into_data().unwrap_or_default());
        let grown = gathered.share.try_grow_to(out.len() as u64);
        grown.map_err(|exhausted| no_room("Answers", exhausted))?;
    }
    if out.len() == begin {
        out.extend_from_slice(b"null");
    }
    object.number("StatusCode", status.as_u16());
    let headers = object.name("Headers");
    let mut headers = JsonObject::begin(headers);
    if let Some(etag) = etag {
        headers.text("ETag", &etag);
    }
    headers.end();
    object.end();
    Ok(())
}

fn write_not_found(method: &str, target: &str, out: &mut Vec<u8>) {
    let error = route_not_found(method, target);
    let mut object = JsonObject::begin(out);
    object.number("StatusCode", StatusCode::BAD_REQUEST.as_u16());
    let result = object.name("Result");
    let mut result = JsonObject::begin(result);
    result.text("Error", &error.message);
    result.end();
    object.end();
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage::MemoryBudget;

    use super::*;
    use crate::answers::{answer::Piece, long_answer::at_once};

    #[test]
    fn the_reason_why_an_inner_answer_broke_off_is_that_of_the_outer_one() {
        let (mut out, mut share) = (Vec::new(), MemoryBudget::unlimited().share(0));
        let mut written = |last: Piece| {
            let (answer, sender) = Answer::stream();
            for piece in [Piece::Part(Bytes::from_static(b"[1,")), last] {
                sender.try_send(piece).unwrap();
            }
            drop(sender);
            let mut gathered = Gathered { out: &mut out, share: &mut share };
            at_once(write_answer(answer, &mut gathered)).unwrap()
        };
        let low = ApiError::new(ErrorKind::LowMemory, "there is no room");
        assert_eq!(written(Piece::Failed(Box::new(low.clone()))), Err(low));
        let broken = written(Piece::Part(Bytes::from_static(b"2"))).unwrap_err();
        assert_eq!(broken.kind, ErrorKind::Internal);
        written(Piece::Last(Bytes::from_static(b"2]"))).unwrap();
    }
}
