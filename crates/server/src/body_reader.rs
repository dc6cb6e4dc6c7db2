//! The body of a request as it comes, decoded.

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    body_share::BodyShare,
    call::Call,
    data_rate::BodyPace,
    request_body::RequestBody,
    request_coding::{Coding, StreamDecoder},
};

/// So much of a coded body is decoded at once: what it becomes may be a thousand times as long.
const CODED_PIECE_BYTES: usize = 4 << 10;

/// Gives a body piece by piece.
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
        let pace = BodyPace::of(&call.state.settings.http);
        let decoder = decoder_of(&call.headers)?;
        Ok(BodyReader { body, decoder, undecoded: Bytes::new(), pace })
    }

    /// The next piece, which may be empty; `None` at the end.
    /// `share` is what the request takes of the memory.
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
        let coded = self.undecoded.split_to(CODED_PIECE_BYTES.min(self.undecoded.len()));
        decoder.push(&coded).map(|decoded| Some(Bytes::from(decoded)))
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

/// What undoes the coding that the headers name; `None` when there is nothing to undo.
pub(crate) fn decoder_of(headers: &HeaderMap) -> Result<Option<StreamDecoder>, ApiError> {
    match Coding::of_request(headers)? {
        Coding::Plain => Ok(None),
        coding => coding.stream_decoder().map(Some),
    }
}
