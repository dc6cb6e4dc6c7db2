//! Attachments in batches: the parts of the request with their contents.

use bytes::Bytes;
use documents::NewContent;
use engine::{CARRIED_BYTES_MAX, StagedContents};
use http::header;
use wire::{AttachmentCommand, BatchBody, BatchCommand};

use crate::{
    api_error::ApiError,
    call::Call,
    http::{
        body_reader::{BodyReader, decoder_of},
        body_share::BodyShare,
        multipart::{MultipartReader, PartEvent},
        request_coding::{StreamDecoder, body_too_large},
    },
    writes::{batch_commands::read_commands, content_upload::ContentUpload},
};

/// The parts of a batch.
pub(crate) struct BatchParts {
    pub(crate) body: BatchBody,
    /// For each attachment that is put, as far as the body contains them.
    pub(crate) contents: Vec<NewContent>,
    pub(crate) staged: StagedContents,
}

/// Reads the body of a batch in parts; `None` when it is not multipart.
pub(crate) fn parts_of(call: &Call) -> Option<Result<MultipartReader, ApiError>> {
    MultipartReader::of(call.header(header::CONTENT_TYPE)?).filter(|_| call.stream.is_some())
}

/// Reads the commands, which are the first part, and the contents of attachments, which are the
/// others, in the order of the commands that put them. Further parts are ignored.
pub(crate) async fn read_parts(
    call: &mut Call,
    reader: MultipartReader,
) -> Result<BatchParts, ApiError> {
    let mut parts = Parts {
        body: BodyReader::of(call)?,
        reader,
        decoder: None,
        undecoded: Bytes::new(),
        is_over: false,
    };
    let json = parts.commands(call).await?;
    let body = read_commands(&call.state, &mut call.body_share, &json)?;
    let json_bytes = json.len();
    drop(json);
    let is_put = |command: &&BatchCommand| {
        matches!(command, BatchCommand::Attachment(AttachmentCommand::Put { .. }))
    };
    let wanted = body.commands.iter().filter(is_put).count();
    let database = call.database()?.clone();
    let (mut contents, mut staged) = (Vec::new(), StagedContents::default());
    let mut carried = 0;
    while contents.len() < wanted && parts.begin(&call.body_share).await? {
        let small_bytes_max = CARRIED_BYTES_MAX.saturating_sub(carried);
        let mut upload = ContentUpload::new(&call.state, &database, small_bytes_max);
        while let Some(piece) = parts.content(upload.share()).await? {
            upload.push(&piece).await?;
        }
        let (content, more) = upload.finish().await?;
        if let NewContent::Bytes { bytes, .. } = &content {
            carried += bytes.len();
            let bytes = (json_bytes + carried) as u64;
            call.body_share.grow_when_there_is_room(bytes).await?;
        }
        contents.push(content);
        staged.append(more);
    }
    // A truncated body must be rejected, whatever part is missing.
    while parts.begin(&call.body_share).await? {
        while parts.content(&call.body_share).await?.is_some() {}
    }
    Ok(BatchParts { body, contents, staged })
}

struct Parts {
    body: BodyReader,
    reader: MultipartReader,
    /// Of the part that is being read.
    decoder: Option<StreamDecoder>,
    /// What arrived of that part and was not decoded yet.
    undecoded: Bytes,
    is_over: bool,
}

impl Parts {
    async fn next(&mut self, share: &BodyShare) -> Result<PartEvent, ApiError> {
        loop {
            match self.reader.next()? {
                PartEvent::NeedMore => match self.body.next(share).await? {
                    Some(piece) => self.reader.push(&piece),
                    None => return Err(MultipartReader::cut()),
                },
                event => return Ok(event),
            }
        }
    }

    /// Whether another part begins.
    async fn begin(&mut self, share: &BodyShare) -> Result<bool, ApiError> {
        while !self.is_over {
            match self.next(share).await? {
                PartEvent::Begin(headers) => {
                    self.decoder = decoder_of(&headers)?;
                    self.undecoded.clear();
                    return Ok(true);
                }
                PartEvent::Over => self.is_over = true,
                PartEvent::NeedMore | PartEvent::Content(_) | PartEvent::End => {}
            }
        }
        Ok(false)
    }

    /// The next piece of the part, decoded; `None` at its end.
    async fn content(&mut self, share: &BodyShare) -> Result<Option<Bytes>, ApiError> {
        if self.undecoded.is_empty() {
            match self.next(share).await? {
                PartEvent::Content(piece) => self.undecoded = piece,
                _ => return Ok(None),
            }
        }
        match &mut self.decoder {
            Some(decoder) => decoder.decode(&mut self.undecoded).map(Some),
            None => Ok(Some(std::mem::take(&mut self.undecoded))),
        }
    }

    /// The whole first part.
    async fn commands(&mut self, call: &mut Call) -> Result<Vec<u8>, ApiError> {
        let bytes_max = call.state.engine.settings().http.request_body_bytes_max;
        let mut json = Vec::new();
        if self.begin(&call.body_share).await? {
            while let Some(piece) = self.content(&call.body_share).await? {
                json.extend_from_slice(&piece);
                if json.len() as u64 > bytes_max {
                    return Err(body_too_large(bytes_max));
                }
                call.body_share.grow_when_there_is_room(json.len() as u64).await?;
            }
        }
        Ok(json)
    }
}
