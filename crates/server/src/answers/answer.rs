//! What a handler returns: a status, some headers and a body that is complete or still being
//! produced.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use engine::StopWhenGone;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use storage::{CountedOutput, MemoryShare};
use tokio::sync::mpsc;
use wire::header_names::JSON_CONTENT_TYPE;

use crate::{
    answers::{answer_share::next_part, long_answer::LongAnswer},
    api_error::ApiError,
};

/// How many pieces of a streamed body may wait for a slow client.
const STREAM_PIECES_MAX: usize = 2;

/// The header with the hash of an attachment's content.
pub(crate) const ATTACHMENT_HASH: &str = "attachment-hash";

/// The content type of a stream of events.
pub(crate) const EVENT_STREAM_CONTENT_TYPE: &str = "text/event-stream";

/// An answer on its way to the client.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: AnswerBody,
}

/// The body of an answer.
pub(crate) enum AnswerBody {
    /// No body at all.
    Empty,
    /// The complete body, which is not charged to a budget.
    Whole(Bytes),
    /// The complete body, charged to a budget until it is sent; sent in chunks, as if its length
    /// were unknown, if so.
    Counted { bytes: Bytes, is_measured: bool, share: Option<MemoryShare> },
    /// Produced while it is sent. The first piece is produced before anything is sent, so that an
    /// error at the beginning becomes a status.
    Long(Box<LongAnswer>),
    /// Produced while it is sent. If the sender is dropped without a last piece, the body is
    /// aborted.
    Stream(Pieces),
}

/// A part of a body that is produced while it is sent.
pub(crate) enum Piece {
    /// A piece after which more follow.
    Part(Bytes),
    /// The body is complete with this one.
    Last(Bytes),
    /// The body is not complete: this is why. There is none if it is the first piece.
    Failed(Box<ApiError>),
}

/// The pieces of a body as they arrive.
pub(crate) struct Pieces {
    first: Option<Piece>,
    rest: mpsc::Receiver<Piece>,
    /// Stops the work that makes them when they are dropped.
    _stop: Option<StopWhenGone>,
}

impl Pieces {
    /// The pieces after `first`.
    pub(crate) fn begun(first: Option<Piece>, rest: mpsc::Receiver<Piece>) -> Pieces {
        Pieces { first, rest, _stop: None }
    }

    /// The same pieces; what makes them is stopped when these are dropped.
    pub(crate) fn stopping(self, stop: Option<StopWhenGone>) -> Pieces {
        Pieces { _stop: stop, ..self }
    }

    /// The next one; `None` when the body is aborted.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.rest.recv().await,
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.rest.poll_recv(context),
        }
    }
}

/// A channel for the pieces of a body.
pub(crate) fn piece_channel() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(STREAM_PIECES_MAX)
}

/// The body could not be completed; the connection is cut so that the client notices.
#[derive(Debug)]
pub(crate) struct StreamBroken {
    /// The reason, if it is known.
    pub(crate) reason: Option<Box<ApiError>>,
}

impl StreamBroken {
    /// What is known without a reason.
    pub(crate) const MESSAGE: &str = "the answer could not be completed";
}

impl std::fmt::Display for StreamBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(StreamBroken::MESSAGE)
    }
}

impl std::error::Error for StreamBroken {}

impl From<Infallible> for StreamBroken {
    fn from(never: Infallible) -> StreamBroken {
        match never {}
    }
}

impl Answer {
    /// A status without a body.
    pub(crate) fn empty(status: StatusCode) -> Answer {
        Answer { status, headers: Vec::new(), body: AnswerBody::Empty }
    }

    /// A response with status 200 and this JSON as its body.
    pub(crate) fn json(body: Vec<u8>) -> Answer {
        Answer::json_with(StatusCode::OK, body)
    }

    /// 200 with JSON, which was counted while it was made and is until it is with the client. A large one is
    /// not compressed, which would take as much again.
    pub(crate) fn counted_json(output: CountedOutput) -> Answer {
        let (bytes, share) = output.into_parts();
        let mut answer = Answer::json(bytes);
        if share.is_some()
            && let AnswerBody::Whole(bytes) = std::mem::replace(&mut answer.body, AnswerBody::Empty)
        {
            answer.body = AnswerBody::Counted { bytes, is_measured: true, share };
        }
        answer
    }

    /// JSON with another status.
    pub(crate) fn json_with(status: StatusCode, body: Vec<u8>) -> Answer {
        let body = AnswerBody::Whole(Bytes::from(body));
        Answer { status, headers: vec![json_content_type()], body }
    }

    /// A shape of the protocol as JSON.
    pub(crate) fn shape(status: StatusCode, shape: &impl Serialize) -> Answer {
        let body = serde_json::to_vec(shape).expect("shapes have string keys and no other failure");
        Answer::json_with(status, body)
    }

    /// JSON that is produced while it is sent, and the sender for its pieces. For occasional
    /// events; a long read is a [`LongAnswer`].
    pub(crate) fn stream() -> (Answer, mpsc::Sender<Piece>) {
        let (sender, receiver) = piece_channel();
        let body = AnswerBody::Stream(Pieces::begun(None, receiver));
        (Answer { status: StatusCode::OK, headers: vec![json_content_type()], body }, sender)
    }

    /// JSON that is produced while it is sent.
    pub(crate) fn long(long: LongAnswer) -> Answer {
        let body = AnswerBody::Long(Box::new(long));
        Answer { status: StatusCode::OK, headers: vec![json_content_type()], body }
    }

    /// The same response with one more header. A value that is not valid in a header is omitted.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Answer {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            self.headers.push((name, value));
        }
        self
    }

    /// The same response with a content type other than JSON.
    pub(crate) fn with_content_type(mut self, content_type: &'static str) -> Answer {
        self.headers.retain(|(name, _)| *name != header::CONTENT_TYPE);
        self.headers.push((header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
        self
    }

    /// The same response with an entity tag in quotes.
    pub(crate) fn with_quoted_etag(self, etag: &str) -> Answer {
        self.with_header("etag", &format!("\"{etag}\""))
    }

    /// Whether compression would be useless or harmful. Contents of attachments mostly are
    /// compressed already, and a range of one is not a range of its compressed form. Events must
    /// not be delayed until more follows. What has a coding already has the one that the client asked for.
    pub(crate) fn is_incompressible(&self) -> bool {
        let is_such = |(name, value): &(HeaderName, HeaderValue)| {
            *name == ATTACHMENT_HASH
                || *name == header::CONTENT_ENCODING
                || (*name == header::CONTENT_TYPE && value == EVENT_STREAM_CONTENT_TYPE)
        };
        self.headers.iter().any(is_such)
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name)?;
        found.1.to_str().ok()
    }
}

fn json_content_type() -> (HeaderName, HeaderValue) {
    (header::CONTENT_TYPE, HeaderValue::from_static(JSON_CONTENT_TYPE))
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = StreamBroken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamBroken>>> {
        let body = self.get_mut();
        match body {
            AnswerBody::Empty => Poll::Ready(None),
            AnswerBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *body = AnswerBody::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            AnswerBody::Counted { bytes, .. } => {
                // In parts, since the share lasts as long as the body.
                let part = next_part(bytes);
                Poll::Ready(part.map(|part| Ok(Frame::data(part))))
            }
            AnswerBody::Long(_) => {
                *body = AnswerBody::Empty;
                Poll::Ready(Some(Err(StreamBroken { reason: None })))
            }
            AnswerBody::Stream(pieces) => {
                let Poll::Ready(piece) = pieces.poll_next(context) else { return Poll::Pending };
                Poll::Ready(match piece {
                    Some(Piece::Part(bytes)) => Some(Ok(Frame::data(bytes))),
                    Some(Piece::Last(bytes)) => {
                        *body = AnswerBody::Empty;
                        (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
                    }
                    Some(Piece::Failed(reason)) => {
                        *body = AnswerBody::Empty;
                        Some(Err(StreamBroken { reason: Some(reason) }))
                    }
                    None => {
                        *body = AnswerBody::Empty;
                        Some(Err(StreamBroken { reason: None }))
                    }
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Empty => true,
            AnswerBody::Whole(bytes) | AnswerBody::Counted { bytes, .. } => bytes.is_empty(),
            AnswerBody::Long(_) | AnswerBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Empty => SizeHint::with_exact(0),
            AnswerBody::Whole(bytes) | AnswerBody::Counted { bytes, is_measured: true, .. } => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            AnswerBody::Counted { .. } | AnswerBody::Long(_) | AnswerBody::Stream(_) => {
                SizeHint::default()
            }
        }
    }
}
