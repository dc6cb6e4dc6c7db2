//! What a sink is to ask its hub next.
//!
//! Nothing of this is stored: after a restart, or when an answer was lost, a sink asks without a stream, to which the hub
//! answers with a greeting. What the hub sends is received as from any other sender.

use std::{collections::VecDeque, fmt};

use documents::Source;
use model::{AllowedPaths, ChangeVector, ContentHash, DatabaseId, Etag};
use storage::HistoryPoint;

use crate::{
    hub_messages::Pull,
    message::{Message, Refusal, Reply, Welcome},
};

/// One link from a hub, as the sink sees it.
#[derive(Debug)]
pub struct Puller {
    sink: Source,
    paths: Option<AllowedPaths>,
    /// What the sink has of the hub, once that has greeted.
    known: Option<Known>,
    /// Contents that the sink lacks, and how much of the first one it has.
    wanted: VecDeque<ContentHash>,
    arrived: u64,
}

#[derive(Debug)]
struct Known {
    stream: DatabaseId,
    accepted: Etag,
    point: Option<HistoryPoint>,
    change_vector: ChangeVector,
    announced: Option<ChangeVector>,
}

/// Why a message of the hub could not be taken. The sink begins again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullError {
    /// This database does not take it.
    Refused(Refusal),
    /// It does not belong to what was asked.
    Unexpected,
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PullError::Refused(refusal) => f.write_str(&refusal.reason),
            PullError::Unexpected => f.write_str("The hub has sent something that was not asked"),
        }
    }
}

impl std::error::Error for PullError {}

/// What there is to know of a message before it is received.
#[derive(Clone, Debug)]
pub struct Arrived(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Greeting { stream: DatabaseId },
    Batch { complete: Option<ChangeVector> },
    Piece { content_bytes: u64 },
    Other,
}

impl Arrived {
    /// Of this message.
    pub fn of(message: &Message) -> Arrived {
        Arrived(match message {
            Message::Greeting(greeting) => Kind::Greeting { stream: greeting.stream },
            Message::Batch(batch) => Kind::Batch { complete: batch.complete.clone() },
            Message::Content(piece) => Kind::Piece { content_bytes: piece.content_bytes },
            Message::Pull(_) | Message::Asking(_) => Kind::Other,
        })
    }
}

impl Puller {
    /// A link that is not established yet, over which the sink wants these paths, or everything.
    pub fn new(sink: Source, paths: Option<AllowedPaths>) -> Puller {
        Puller { sink, paths, known: None, wanted: VecDeque::new(), arrived: 0 }
    }

    /// Everything up to this etag of the hub was received; `None` if that is not known.
    pub fn accepted(&self) -> Option<Etag> {
        self.known.as_ref().map(|known| known.accepted)
    }

    /// What to ask next.
    pub fn next_pull(&self) -> Pull {
        let known = self.known.as_ref();
        Pull {
            sink: self.sink,
            stream: known.map_or(DatabaseId([0; 16]), |known| known.stream),
            accepted: known.map_or(Etag::ZERO, |known| known.accepted),
            point: known.and_then(|known| known.point),
            change_vector: known
                .map_or_else(ChangeVector::empty, |known| known.change_vector.clone()),
            announced: known.and_then(|known| known.announced.clone()),
            wanted: self.wanted.front().map(|hash| (*hash, self.arrived)),
            paths: self.paths.clone(),
        }
    }

    /// Takes what the database here has made of a message of the hub.
    ///
    /// # Errors
    /// It does not go on; the link is to be established again.
    pub fn take(&mut self, arrived: Arrived, reply: Reply) -> Result<(), PullError> {
        match (arrived.0, reply, &mut self.known) {
            (_, Reply::Refused(refusal), _) => return Err(PullError::Refused(refusal)),
            (Kind::Greeting { stream }, Reply::Welcome(welcome), known) => {
                let Welcome { accepted, point, change_vector, .. } = welcome;
                *known = Some(Known { stream, accepted, point, change_vector, announced: None });
                self.wanted.clear();
            }
            (
                Kind::Batch { complete },
                Reply::Accepted { accepted, change_vector, is_stored },
                Some(known),
            ) => {
                if !is_stored {
                    // Whether what is here is in the files of the hub is decided at the next greeting.
                    self.lost();
                    return Ok(());
                }
                (known.announced, known.point) = (complete.or(known.announced.take()), None);
                (known.accepted, known.change_vector) = (accepted, change_vector);
                // What was lacking is no longer in the batch.
                self.wanted.clear();
            }
            (Kind::Batch { .. }, Reply::Missing(hashes), Some(_)) => self.wanted = hashes.into(),
            (Kind::Piece { content_bytes }, Reply::Taken(position), Some(_)) => {
                self.arrived = position;
                if position < content_bytes {
                    return Ok(());
                }
                self.wanted.pop_front();
            }
            _ => return Err(PullError::Unexpected),
        }
        self.arrived = 0;
        Ok(())
    }

    /// An answer was lost: the link is to be established again.
    pub fn lost(&mut self) {
        (self.known, self.arrived) = (None, 0);
        self.wanted.clear();
    }
}
