//! The body of a request as it arrives, decoded.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use tokio::task::yield_now;
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    call::Call,
    http::{
        body_share::BodyShare,
        data_rate::BodyPace,
        request_body::RequestBody,
        request_coding::{Coding, StreamDecoder},
    },
};

/// Returns a body piece by piece.
pub(crate) struct BodyReader {
    body: RequestBody,
    decoder: Option<StreamDecoder>,
    undecoded: Bytes,
    pace: BodyPace,
}

impl BodyReader {
    /// Takes the body of a request whose route streams it.
    pub(crate) fn of(call: &mut Call) -> Result<BodyReader, ApiError> {
        let Some(body) = call.stream.take() else {
            return Err(ApiError::invalid_operation("the body of the request is missing"));
        };
        let pace = BodyPace::of(&call.state.engine.settings().http, Arc::clone(body.connection()));
        let pace = match &call.database {
            Some(database) => pace.until_closed(database),
            None => pace,
        };
        let decoder = decoder_of(&call.headers)?;
        Ok(BodyReader { body, decoder, undecoded: Bytes::new(), pace })
    }

    /// The next piece, which may be empty; `None` at the end.
    /// `share` is the memory charged for the request.
    ///
    /// # Errors
    /// Those of [`BodyPace::next`]; the body cannot be read or decoded.
    pub(crate) async fn next(&mut self, share: &BodyShare) -> Result<Option<Bytes>, ApiError> {
        if self.undecoded.is_empty() {
            match self.receive(share).await? {
                Some(piece) => self.undecoded = piece,
                None => return Ok(None),
            }
        }
        let Some(decoder) = &mut self.decoder else {
            return Ok(Some(std::mem::take(&mut self.undecoded)));
        };
        // What has arrived may stand for very much: whatever else this thread has to do comes first.
        yield_now().await;
        decoder.decode(&mut self.undecoded).map(Some)
    }

    async fn receive(&mut self, share: &BodyShare) -> Result<Option<Bytes>, ApiError> {
        match self.pace.next(self.body.frame(), share).await? {
            None => Ok(None),
            Some(Ok(frame)) => {
                let piece = frame.into_data().unwrap_or_default();
                self.pace.received(piece.len());
                Ok(Some(piece))
            }
            Some(Err(error)) => {
                let message = format!("The body of the request could not be read: {error}");
                Err(ApiError::new(ErrorKind::EndOfStream, message))
            }
        }
    }
}

/// The decoder for the coding in the headers; `None` when there is none.
pub(crate) fn decoder_of(headers: &HeaderMap) -> Result<Option<StreamDecoder>, ApiError> {
    match Coding::of_request(headers)? {
        Coding::Plain => Ok(None),
        coding => coding.stream_decoder().map(Some),
    }
}
