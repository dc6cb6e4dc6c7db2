//! What is to be sent next.
//!
//! Nothing of what a sender knows is stored: after a restart, or when a message was lost, it begins with a greeting, to
//! which the receiver answers where to go on.

use std::{collections::VecDeque, fmt};

use documents::{CONTENT_CHUNK_BYTES, Source};
use model::{ChangeVector, ContentHash, DatabaseId, Etag};
use storage::{HistoryPoint, MemoryShare, Transaction};

use crate::{
    format::InvalidMessage,
    hub_messages::Pull,
    link_filter::LinkFilter,
    message::{
        BatchHead, ContentPiece, Greeting, LinkKind, Refusal, Reply, Welcome, batch_message,
    },
    outgoing_batch::{BatchLimits, LeftOut, ReadError, is_content_sent, read_batch},
};

/// Bytes of a content in one message: whole chunks, so that the receiver stores them as they are.
const PIECE_BYTES: usize = 4 * CONTENT_CHUNK_BYTES;

/// One link to a receiver, as the sender sees it.
#[derive(Debug)]
pub struct Sender {
    kind: LinkKind,
    /// The group of databases whose members sender and receiver are; `None` for an external link.
    group: Option<DatabaseId>,
    /// The version of the database's record.
    record: u64,
    filter: LinkFilter,
    /// The name of the database and the address of the server, for the receiver's operators.
    names: (String, String),
    /// Its answer to the greeting, if the link is established.
    receiver: Option<Welcome>,
    /// What the sender contains, as the receiver knows it.
    announced: Option<ChangeVector>,
    /// Where the log ended when all of it was last at the receiver.
    complete_until: Option<Etag>,
    /// Contents that the receiver lacks, and how much of the first one it has.
    uploads: VecDeque<ContentHash>,
    uploaded: u64,
    /// What was sent and not answered yet.
    pending: Option<Pending>,
    /// Whether the files of the sender are known to be an older copy.
    has_lost: bool,
}

#[derive(Clone, Debug)]
enum Pending {
    Batch {
        last_etag: Etag,
        complete: Option<ChangeVector>,
    },
    /// A piece of the first content, of which the receiver will have everything with this one.
    Piece {
        is_last: bool,
    },
}

/// A message that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Changes in it.
    pub items: u64,
    /// Changes that were left out because the receiver has them.
    pub skipped: u64,
    /// It brings the receiver up to here; zero for a greeting.
    pub last_etag: Etag,
    /// Whether the log ends there.
    pub is_last: bool,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The receiver is known now.
    Welcomed,
    /// Everything up to here was received.
    Accepted(Etag),
    /// So many contents are sent first, and then the batch again.
    Missing(usize),
    /// A piece of a content was received.
    Taken,
}

/// An answer that does not go on. The sender begins with a greeting again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The receiver does not take it.
    Refused(Refusal),
    /// The answer is damaged.
    Invalid(InvalidMessage),
    /// The answer does not belong to what was sent.
    Unexpected,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Refused(refusal) => f.write_str(&refusal.reason),
            ReplyError::Invalid(error) => error.fmt(f),
            ReplyError::Unexpected => {
                f.write_str("The receiver has answered something that was not asked")
            }
        }
    }
}

impl std::error::Error for ReplyError {}

impl Sender {
    /// A link of a database of this group that is not established yet. `database` and `url` name the sender for the
    /// receiver's operators.
    pub fn new(kind: LinkKind, group: DatabaseId, database: String, url: String) -> Sender {
        Sender {
            kind,
            group: (kind == LinkKind::Internal).then_some(group),
            record: 0,
            filter: LinkFilter::default(),
            names: (database, url),
            receiver: None,
            announced: None,
            complete_until: None,
            uploads: VecDeque::new(),
            uploaded: 0,
            pending: None,
            has_lost: false,
        }
    }

    /// The same link, over which not everything is sent.
    pub fn filtered(self, filter: LinkFilter) -> Sender {
        Sender { filter, ..self }
    }

    /// Continues a link where the sink is that asks for its next message. `source` is the id of the sender.
    pub fn resumed(self, source: DatabaseId, pull: &Pull) -> Sender {
        if pull.stream != self.filter.stream_of(source) {
            return self;
        }
        let Pull { sink, accepted, point, change_vector, announced, wanted, .. } = pull.clone();
        let (uploads, uploaded) = match wanted {
            Some((hash, position)) => (VecDeque::from([hash]), position),
            None => (VecDeque::new(), 0),
        };
        let (database_id, node_tag) = (sink.database_id, sink.node_tag);
        let receiver = Some(Welcome { database_id, node_tag, accepted, point, change_vector });
        Sender { receiver, announced, uploads, uploaded, ..self }
    }

    /// The receiver, if the link is established.
    pub fn receiver(&self) -> Option<&Welcome> {
        self.receiver.as_ref()
    }

    /// The log up to this etag was sent to the receiver; `None` if that is not known. What was there and has changed since is
    /// behind it.
    pub fn accepted(&self) -> Option<Etag> {
        self.receiver.as_ref().map(|receiver| receiver.accepted)
    }

    /// Everything that the log contained when it ended at this etag is at the receiver, or what has replaced it since; `None`
    /// if that is not known.
    pub fn complete_until(&self) -> Option<Etag> {
        self.complete_until
    }

    /// The moment in the history of the sender's files that the welcome of the receiver names, once. Files that do not
    /// contain it are an older copy: then [`Sender::note_lost`].
    pub fn take_point(&mut self) -> Option<HistoryPoint> {
        self.receiver.as_mut().and_then(|receiver| receiver.point.take())
    }

    /// Notes the version of the database's record.
    pub fn note_record(&mut self, version: u64) {
        self.record = version;
    }

    /// Notes that the sender's files have lost changes which the receiver has: it says so from now on, and sends nothing.
    pub fn note_lost(&mut self) {
        self.lost();
        self.has_lost = true;
    }

    /// The next message to send; `None` if the receiver has everything that is in the snapshot, whose moment is `point`.
    ///
    /// # Errors
    /// The database cannot be read; there is no memory now.
    pub fn next_message(
        &mut self,
        tx: &impl Transaction,
        point: Option<HistoryPoint>,
        limits: BatchLimits,
        share: &mut MemoryShare,
    ) -> Result<Option<Outgoing>, ReadError> {
        self.pending = None;
        let identity = documents::database_identity(tx)?;
        let stream = self.filter.stream_of(identity.database_id);
        let source = Source { database_id: stream, node_tag: identity.node_tag };
        if let Some(piece) = self.next_piece(tx, source.database_id, limits, share)? {
            return Ok(Some(piece));
        }
        let Some(receiver) = &self.receiver else {
            let progress = documents::progress(tx)?;
            let greeting = Greeting {
                group: self.group,
                record: self.record,
                source: Source { database_id: identity.database_id, ..source },
                stream,
                database: self.names.0.clone(),
                url: self.names.1.clone(),
                kind: self.kind,
                last_etag: progress.last_etag,
                change_vector: progress.change_vector,
                has_lost: self.has_lost,
            };
            return Ok(Some(Outgoing {
                bytes: greeting.to_bytes(),
                items: 0,
                skipped: 0,
                last_etag: Etag::ZERO,
                is_last: false,
            }));
        };
        let left_out = LeftOut { known: &receiver.change_vector, filter: &self.filter };
        let batch = read_batch(tx, receiver.accepted, &left_out, limits, share)?;
        let is_known = batch.complete.is_none() || batch.complete == self.announced;
        let is_last = batch.is_last;
        if batch.count == 0 && batch.last_etag == receiver.accepted && is_known {
            return Ok(None);
        }
        let head = BatchHead {
            group: self.group,
            source,
            after: receiver.accepted,
            last_etag: batch.last_etag,
            point,
            complete: batch.complete.as_ref(),
            contents: &batch.contents,
        };
        let bytes = batch_message(&head, batch.count, &batch.items);
        let outgoing = Outgoing {
            bytes,
            items: u64::from(batch.count),
            skipped: batch.skipped,
            last_etag: batch.last_etag,
            is_last,
        };
        self.pending =
            Some(Pending::Batch { last_etag: batch.last_etag, complete: batch.complete });
        Ok(Some(outgoing))
    }

    /// The next piece of a content that the receiver lacks. One that is no longer here, or that nothing has which is sent, is
    /// left out.
    fn next_piece(
        &mut self,
        tx: &impl Transaction,
        source: DatabaseId,
        limits: BatchLimits,
        share: &mut MemoryShare,
    ) -> Result<Option<Outgoing>, ReadError> {
        while let Some(hash) = self.uploads.front().copied() {
            let content = match documents::content(tx, &hash)? {
                Some(content) if self.may_send(tx, limits, &hash)? => content,
                Some(_) | None => {
                    self.uploads.pop_front();
                    self.uploaded = 0;
                    continue;
                }
            };
            let (position, content_bytes) = (self.uploaded, content.bytes());
            share.try_grow_to(2 * PIECE_BYTES as u64).map_err(ReadError::NoMemory)?;
            let mut bytes = Vec::new();
            while bytes.len() < PIECE_BYTES {
                let part = content.read_at(tx, position + bytes.len() as u64)?;
                if part.is_empty() {
                    break;
                }
                bytes.extend_from_slice(&part[..part.len().min(PIECE_BYTES - bytes.len())]);
            }
            let is_last = content_bytes <= position + bytes.len() as u64;
            let piece = ContentPiece { source, hash, content_bytes, position, bytes };
            self.pending = Some(Pending::Piece { is_last });
            let accepted = self.accepted().unwrap_or(Etag::ZERO);
            return Ok(Some(Outgoing {
                bytes: piece.to_bytes(),
                items: 0,
                skipped: 0,
                last_etag: accepted,
                is_last: false,
            }));
        }
        Ok(None)
    }

    fn may_send(
        &self,
        tx: &impl Transaction,
        limits: BatchLimits,
        hash: &ContentHash,
    ) -> Result<bool, ReadError> {
        if self.filter.is_everything() {
            return Ok(true);
        }
        let Some(receiver) = &self.receiver else { return Ok(false) };
        let left_out = LeftOut { known: &receiver.change_vector, filter: &self.filter };
        Ok(is_content_sent(tx, receiver.accepted, &left_out, limits, hash)?)
    }

    /// Takes the answer to the last message.
    ///
    /// # Errors
    /// It does not go on; the link is to be established again.
    pub fn take_reply(&mut self, bytes: &[u8]) -> Result<Advance, ReplyError> {
        let taken =
            Reply::read(bytes).map_err(ReplyError::Invalid).and_then(|reply| self.take(reply));
        if taken.is_err() {
            self.lost();
        }
        taken
    }

    fn take(&mut self, reply: Reply) -> Result<Advance, ReplyError> {
        match (reply, &mut self.receiver, self.pending.take()) {
            (Reply::Refused(refusal), ..) => Err(ReplyError::Refused(refusal)),
            (Reply::Welcome(welcome), receiver @ None, None) => {
                *receiver = Some(welcome);
                Ok(Advance::Welcomed)
            }
            (
                Reply::Accepted { accepted, change_vector, is_stored },
                Some(receiver),
                Some(Pending::Batch { last_etag, complete }),
            ) => {
                if is_stored && accepted == last_etag && complete.is_some() {
                    (self.announced, self.complete_until) = (complete, Some(last_etag));
                }
                (receiver.accepted, receiver.change_vector) = (accepted, change_vector);
                if !is_stored {
                    // The receiver has something else of this sender than the sender knows of: whether that is in its
                    // files is decided at the next greeting.
                    self.lost();
                }
                Ok(Advance::Accepted(accepted))
            }
            (Reply::Missing(hashes), Some(_), Some(Pending::Batch { .. })) => {
                (self.uploads, self.uploaded) = (hashes.into(), 0);
                Ok(Advance::Missing(self.uploads.len()))
            }
            (Reply::Taken(position), Some(_), Some(Pending::Piece { is_last })) => {
                self.uploaded = position;
                if is_last {
                    self.uploads.pop_front();
                    self.uploaded = 0;
                }
                Ok(Advance::Taken)
            }
            _ => Err(ReplyError::Unexpected),
        }
    }

    /// A message or its answer was lost: the link is to be established again.
    pub fn lost(&mut self) {
        (self.receiver, self.announced, self.pending) = (None, None, None);
        self.complete_until = None;
        (self.uploads, self.uploaded) = (VecDeque::new(), 0);
    }
}
