//! What a handler gives back: a status, some headers and a body that is whole or still being made.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use storage::MemoryShare;
use tokio::sync::mpsc;
use wire::header_names::JSON_CONTENT_TYPE;

use crate::{answer_share::next_part, api_error::ApiError, long_answer::LongAnswer};

/// Pieces of a streamed body that may wait for a slow client.
const STREAM_PIECES_MAX: usize = 2;

/// The header that tells what identifies the content of an attachment.
pub(crate) const ATTACHMENT_HASH: &str = "attachment-hash";

/// The type of an answer that tells what happens as it happens.
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
    /// All of it.
    Whole(Bytes),
    /// All of it, counted as long as it is on its way, and sent in chunks as if its length were unknown
    /// if so.
    Counted { bytes: Bytes, is_measured: bool, share: Option<MemoryShare> },
    /// To be made while it is sent. It is begun before anything is sent of it, so that what fails at its
    /// beginning becomes a status.
    Long(Box<LongAnswer>),
    /// Made while it is sent. A sender that goes away without a last piece breaks the body off.
    Stream(Pieces),
}

/// A part of a body that is made while it is sent.
pub(crate) enum Piece {
    /// More follows.
    Part(Bytes),
    /// The body is complete with this one.
    Last(Bytes),
    /// There is no body, since this happened before anything was sent.
    Failed(Box<ApiError>),
}

/// The pieces of a body as they come.
pub(crate) struct Pieces {
    first: Option<Piece>,
    rest: mpsc::Receiver<Piece>,
}

impl Pieces {
    /// What goes on after `first`.
    pub(crate) fn begun(first: Option<Piece>, rest: mpsc::Receiver<Piece>) -> Pieces {
        Pieces { first, rest }
    }

    /// The next one; `None` when the body breaks off.
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

/// Where the pieces of a body go, and where they come from.
pub(crate) fn piece_channel() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(STREAM_PIECES_MAX)
}

/// The body could not be made to its end; the connection is cut so that the client notices.
#[derive(Debug)]
pub(crate) struct StreamBroken;

impl std::fmt::Display for StreamBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer could not be completed")
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

    /// 200 with JSON.
    pub(crate) fn json(body: Vec<u8>) -> Answer {
        Answer::json_with(StatusCode::OK, body)
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

    /// JSON that is made while it is sent, and where its pieces go. For what happens now and then;
    /// an answer that reads at length is a [`LongAnswer`].
    pub(crate) fn stream() -> (Answer, mpsc::Sender<Piece>) {
        let (sender, receiver) = piece_channel();
        let body = AnswerBody::Stream(Pieces::begun(None, receiver));
        (Answer { status: StatusCode::OK, headers: vec![json_content_type()], body }, sender)
    }

    /// JSON that is made while it is sent.
    pub(crate) fn long(long: LongAnswer) -> Answer {
        let body = AnswerBody::Long(Box::new(long));
        Answer { status: StatusCode::OK, headers: vec![json_content_type()], body }
    }

    /// The same answer with one more header. A value that no header can carry is left out.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Answer {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            self.headers.push((name, value));
        }
        self
    }

    /// The same answer as something else than JSON.
    pub(crate) fn with_content_type(mut self, content_type: &'static str) -> Answer {
        self.headers.retain(|(name, _)| *name != header::CONTENT_TYPE);
        self.headers.push((header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
        self
    }

    /// The same answer with an entity tag in quotes.
    pub(crate) fn with_quoted_etag(self, etag: &str) -> Answer {
        self.with_header("etag", &format!("\"{etag}\""))
    }

    /// Whether compressing it would be a waste: contents of attachments mostly are compressed already,
    /// and a part of one is not a part of what it would become. Or a harm: what is told as it happens
    /// must not wait for more.
    pub(crate) fn is_incompressible(&self) -> bool {
        let is_such = |(name, value): &(HeaderName, HeaderValue)| {
            *name == ATTACHMENT_HASH
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
                Poll::Ready(Some(Err(StreamBroken)))
            }
            AnswerBody::Stream(pieces) => {
                let Poll::Ready(piece) = pieces.poll_next(context) else { return Poll::Pending };
                Poll::Ready(match piece {
                    Some(Piece::Part(bytes)) => Some(Ok(Frame::data(bytes))),
                    Some(Piece::Last(bytes)) => {
                        *body = AnswerBody::Empty;
                        (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
                    }
                    Some(Piece::Failed(_)) | None => {
                        *body = AnswerBody::Empty;
                        Some(Err(StreamBroken))
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
