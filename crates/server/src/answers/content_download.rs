//! Contents of attachments on their way to clients.
//!
//! A small one is an ordinary response. A large one is sent in pieces, from a snapshot that is
//! released while a slow client makes it wait.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use database::DatabaseLease;
use documents::{Content, DocumentError};
use storage::ReadTransaction;

use crate::{
    answers::{
        answer::{Answer, AnswerBody},
        long_answer::{LongAnswer, no_reason},
        piece_sender::{PieceSender, Sent},
    },
    api_error::ApiError,
};

/// Shorter parts of contents are sent as a whole.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// Size of the pieces.
const PIECE_BYTES: usize = 128 << 10;
/// How long a snapshot is held for a client that does not read a piece.
const SNAPSHOT_PATIENCE: Duration = Duration::from_millis(200);

/// A part of a content to be sent.
pub(crate) struct ContentPart {
    pub(crate) content: Content,
    pub(crate) range: Range<u64>,
}

/// A response whose body is `before`, followed by these parts of contents.
pub(crate) fn answer_with(
    database: &DatabaseLease,
    tx: ReadTransaction,
    before: Vec<u8>,
    parts: Vec<ContentPart>,
) -> Result<Answer, ApiError> {
    let bytes: u64 = parts.iter().map(|part| part.range.end - part.range.start).sum();
    if bytes <= WHOLE_BYTES_MAX {
        let mut body = before;
        for part in &parts {
            append(&tx, part, &mut body)?;
        }
        let mut answer = Answer::json(Vec::new());
        answer.body = AnswerBody::Whole(Bytes::from(body));
        return Ok(answer);
    }
    let reader = database.clone();
    let write = async move |sender: &PieceSender, _: &mut Vec<u8>| {
        let mut sending = Sending { database: reader, tx: Some(tx), sender };
        sending.run(before, &parts).await
    };
    Ok(Answer::long(LongAnswer::new(database, "an attachment", no_reason, write)))
}

fn append(
    tx: &ReadTransaction,
    part: &ContentPart,
    body: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    let mut at = part.range.start;
    while at < part.range.end {
        let bytes = bytes_at(tx, part, at)?;
        body.extend_from_slice(bytes);
        at += bytes.len() as u64;
    }
    Ok(())
}

/// The contiguous bytes at `at` that belong to the part.
fn bytes_at<'t>(
    tx: &'t ReadTransaction,
    part: &ContentPart,
    at: u64,
) -> Result<&'t [u8], DocumentError> {
    let bytes = part.content.read_at(tx, at)?;
    if bytes.is_empty() {
        return Err(DocumentError::Corrupt {
            detail: "a content is shorter than its recorded length",
        });
    }
    let left = usize::try_from(part.range.end - at).unwrap_or(usize::MAX);
    Ok(&bytes[..bytes.len().min(left)])
}

struct Sending<'s> {
    database: DatabaseLease,
    /// `None` while none is held.
    tx: Option<ReadTransaction>,
    sender: &'s PieceSender,
}

impl Sending<'_> {
    /// Whether everything was sent.
    async fn run(&mut self, before: Vec<u8>, parts: &[ContentPart]) -> Result<bool, ApiError> {
        if !before.is_empty() && !self.send(Bytes::from(before)).await {
            return Ok(false);
        }
        for part in parts {
            let mut at = part.range.start;
            while at < part.range.end {
                let piece = self.piece_at(part, at)?;
                at += piece.len() as u64;
                if !self.send(piece).await {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The next piece. Fails if the content was removed while no snapshot was held.
    fn piece_at(&mut self, part: &ContentPart, at: u64) -> Result<Bytes, ApiError> {
        let tx = match self.tx.take() {
            Some(tx) => tx,
            None => {
                let tx = self.database.read();
                self.sender.snapshot_renewed();
                let found = documents::content(&tx, &part.content.hash())?;
                if found != Some(part.content) {
                    return Err(ApiError::invalid_operation(
                        "The attachment was removed while its client was slow to read it.",
                    ));
                }
                tx
            }
        };
        let tx = self.tx.insert(tx);
        let bytes = bytes_at(tx, part, at)?;
        Ok(Bytes::copy_from_slice(&bytes[..bytes.len().min(PIECE_BYTES)]))
    }

    async fn send(&mut self, piece: Bytes) -> bool {
        if self.tx.is_none() {
            return self.sender.send_without_snapshot(piece).await;
        }
        match self.sender.send_patiently(piece, SNAPSHOT_PATIENCE).await {
            Sent::Taken => true,
            Sent::Cut => false,
            Sent::Waiting(piece) => {
                self.tx = None;
                self.sender.send_without_snapshot(piece).await
            }
        }
    }
}
