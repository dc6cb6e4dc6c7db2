//! What is sent, and the answers to it.
//!
//! ```text
//! greeting   group 16, may be absent; version of its record u64; id 16, tag, name and address of the sender: 3 texts;
//!            kind of the link u8: 1 external, 2 internal, 3 from a hub to a sink, 4 from a sink to a hub; last etag u64,
//!            change vector text, flag: whether it has lost changes; of a hub or a sink then the id of the stream 16
//! batch      group 16, may be absent; id of the sender 16, its tag text, after u64, last etag u64, moment 32, may be
//!            absent; change vector of the sender: text, may be absent; hashes of contents: count u32, 32 bytes each;
//!            items: count u32, see item_writer
//! content    id of the sender 16, hash 32, length of the content u64, position u64, bytes
//! pull       id of the sink 16, tag text, id of the stream 16, accepted u64, moment 32, may be absent; change vector text,
//!            the change vector of the hub that the sink knows: text, may be absent; a content that it lacks: flag, then
//!            hash 32, position u64; paths
//! asking     id of the sink 16, name and address: 2 texts
//! welcome    id 16, tag text, accepted u64, moment 32, may be absent; change vector text
//! accepted   accepted u64, change vector text, flag: whether it was stored
//! missing    hashes: count u32, 32 bytes each
//! taken      position u64: how much of the content has arrived
//! refused    reason u8: 1 not now, 2 damaged, 3 never, 4 lost; text
//! nothing    to a pull: there is nothing now
//! terms      directions u8: 1 from the hub, 2 to it, 3 both; addresses of the hub's nodes: count u32, texts; paths from
//!            the hub, paths to it; flag: whether it takes no deletions
//! ```
//!
//! The group is that of a sender which sends to another member of it: another database of the same name is in another one.
//! A moment is one in the history of the sender's files, see [`HistoryPoint`]: of a batch, when it was read; of a welcome,
//! that of the last batch.
//!
//! Paths are a count u32 and texts; if they may be absent, a flag is before them. A batch and a content name the stream
//! instead of the sender where a link is filtered.

use documents::{ReceivedItem, Source};
use model::{ChangeVector, ContentHash, DatabaseId, Etag, NodeTag};
use storage::HistoryPoint;

use crate::{
    format::{InvalidMessage, Payload, Reader, invalid, open},
    hub_messages::{Asking, Pull, Terms},
    item_reader::read_item,
};

pub(crate) const GREETING: u8 = 1;
pub(crate) const BATCH: u8 = 2;
pub(crate) const CONTENT: u8 = 3;
pub(crate) const PULL: u8 = 4;
pub(crate) const ASKING: u8 = 5;
/// Answers have this kind or a higher one.
const FIRST_REPLY: u8 = 64;
const WELCOME: u8 = 65;
const ACCEPTED: u8 = 66;
const MISSING: u8 = 67;
const TAKEN: u8 = 68;
const REFUSED: u8 = 69;
const NOTHING: u8 = 70;
const TERMS: u8 = 71;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// To a database that is not of the same group: a task says so.
    External,
    /// To another member of the database's group.
    Internal,
    /// From a hub to a sink, which asks for it.
    HubToSink,
    /// From a sink to its hub.
    SinkToHub,
}

/// The first message of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The group of databases that the sender takes the receiver for a member of; `None` for an external link.
    pub group: Option<DatabaseId>,
    /// The version of the database's record, as the sender knows it: a receiver that has an older one may be about to remove
    /// its files.
    pub record: u64,
    /// The sender.
    pub source: Source,
    /// The name of its database.
    pub database: String,
    /// The address of its server, for operators.
    pub url: String,
    /// Who sends to whom.
    pub kind: LinkKind,
    /// The etag of its last change.
    pub last_etag: Etag,
    /// Its change vector.
    pub change_vector: ChangeVector,
    /// Whether it knows that it has lost changes which the receiver has: its files are an older copy.
    pub has_lost: bool,
    /// What the receiver keeps its position under: the id of the sender, unless the link leaves something out.
    pub stream: DatabaseId,
}

/// A part of the sender's log.
#[derive(Clone, Debug)]
pub struct Batch {
    /// As in the [`Greeting`].
    pub group: Option<DatabaseId>,
    /// The sender.
    pub source: Source,
    /// Where it begins.
    pub after: Etag,
    /// Where it ends.
    pub last_etag: Etag,
    /// The moment in the history of the sender's files when it was read.
    pub point: Option<HistoryPoint>,
    /// The sender's change vector, if it has nothing more.
    pub complete: Option<ChangeVector>,
    /// The contents of attachments in it.
    pub contents: Vec<ContentHash>,
    /// The changes.
    pub items: Vec<ReceivedItem>,
}

/// A piece of the content of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPiece {
    /// The sender.
    pub source: DatabaseId,
    /// What identifies the content.
    pub hash: ContentHash,
    /// The length of the whole content.
    pub content_bytes: u64,
    /// Where the piece begins.
    pub position: u64,
    /// The piece.
    pub bytes: Vec<u8>,
}

/// What a sender sends.
#[derive(Clone, Debug)]
pub enum Message {
    /// The first message.
    Greeting(Greeting),
    /// A part of the log.
    Batch(Batch),
    /// A piece of a content.
    Content(ContentPiece),
    /// A sink asks for the next message of its hub.
    Pull(Box<Pull>),
    /// A sink asks what it may send and ask for.
    Asking(Asking),
}

/// The answer to a greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The receiver.
    pub database_id: DatabaseId,
    /// The tag of its node.
    pub node_tag: NodeTag,
    /// Everything up to this etag of the sender was received.
    pub accepted: Etag,
    /// The moment in the history of the sender's files when the last of it was read.
    pub point: Option<HistoryPoint>,
    /// The receiver's change vector.
    pub change_vector: ChangeVector,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The receiver cannot take anything now.
    NotNow,
    /// The message is damaged; the next one may not be.
    Damaged,
    /// The receiver will not take it, until somebody changes something.
    Never,
    /// The sender has lost changes that the receiver has: its files are an older copy.
    Lost,
}

/// A message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whether it may be sent again.
    pub kind: RefusalKind,
    /// Why, for operators.
    pub reason: String,
}

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a greeting.
    Welcome(Welcome),
    /// To a batch.
    Accepted {
        /// Everything up to this etag of the sender was received.
        accepted: Etag,
        /// The receiver's change vector.
        change_vector: ChangeVector,
        /// Whether the batch was stored, or does not begin where the one before it has ended.
        is_stored: bool,
    },
    /// To a batch: these contents are to be sent before it is sent again.
    Missing(Vec<ContentHash>),
    /// To a piece of a content: so much of it has arrived.
    Taken(u64),
    /// To anything.
    Refused(Refusal),
    /// To a pull.
    Nothing,
    /// To a sink that asks for them.
    Terms(Terms),
}

/// The beginning of a batch.
pub(crate) struct BatchHead<'b> {
    pub(crate) group: Option<DatabaseId>,
    pub(crate) source: Source,
    pub(crate) after: Etag,
    pub(crate) last_etag: Etag,
    pub(crate) point: Option<HistoryPoint>,
    pub(crate) complete: Option<&'b ChangeVector>,
    pub(crate) contents: &'b [ContentHash],
}

/// The message of a batch.
pub(crate) fn batch_message(head: &BatchHead<'_>, count: u32, items: &Payload) -> Vec<u8> {
    let mut payload = Payload::default();
    put_group(&mut payload, head.group);
    payload.raw(&head.source.database_id.0);
    payload.text(head.source.node_tag.as_str());
    payload.number(head.after.0);
    payload.number(head.last_etag.0);
    put_point(&mut payload, head.point);
    payload.maybe_text(head.complete.map(ChangeVector::as_str));
    put_hashes(&mut payload, head.contents);
    payload.short(count);
    payload.append(items);
    payload.into_message(BATCH)
}

impl Greeting {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Payload::default();
        put_group(&mut payload, self.group);
        payload.number(self.record);
        payload.raw(&self.source.database_id.0);
        payload.text(self.source.node_tag.as_str());
        payload.text(&self.database);
        payload.text(&self.url);
        payload.byte(match self.kind {
            LinkKind::External => 1,
            LinkKind::Internal => 2,
            LinkKind::HubToSink => 3,
            LinkKind::SinkToHub => 4,
        });
        payload.number(self.last_etag.0);
        payload.text(self.change_vector.as_str());
        payload.flag(self.has_lost);
        if matches!(self.kind, LinkKind::HubToSink | LinkKind::SinkToHub) {
            payload.raw(&self.stream.0);
        }
        payload.into_message(GREETING)
    }
}

impl ContentPiece {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Payload::default();
        payload.raw(&self.source.0);
        payload.raw(&self.hash.0);
        payload.number(self.content_bytes);
        payload.number(self.position);
        payload.sequence(&self.bytes);
        payload.into_message(CONTENT)
    }
}

impl Message {
    /// The group that a member of it names.
    pub fn group(&self) -> Option<DatabaseId> {
        match self {
            Message::Greeting(greeting) => greeting.group,
            Message::Batch(batch) => batch.group,
            Message::Content(_) | Message::Pull(_) | Message::Asking(_) => None,
        }
    }

    /// How many changes it brings.
    pub fn items(&self) -> usize {
        match self {
            Message::Batch(batch) => batch.items.len(),
            Message::Greeting(_) | Message::Content(_) | Message::Pull(_) | Message::Asking(_) => 0,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is damaged, or of an unknown version.
    pub fn read(bytes: &[u8]) -> Result<Message, InvalidMessage> {
        let (kind, payload) = open(bytes)?;
        let mut reader = Reader::new(&payload);
        let message = match kind {
            GREETING => Message::Greeting(read_greeting(&mut reader)?),
            BATCH => Message::Batch(read_batch(&mut reader)?),
            CONTENT => Message::Content(ContentPiece {
                source: DatabaseId(reader.array()?),
                hash: ContentHash(reader.array()?),
                content_bytes: reader.number()?,
                position: reader.number()?,
                bytes: reader.sequence()?.to_vec(),
            }),
            PULL => Message::Pull(Box::new(Pull::read(&mut reader)?)),
            ASKING => Message::Asking(Asking::read(&mut reader)?),
            _ => return Err(invalid("it is of an unknown kind")),
        };
        reader.end()?;
        Ok(message)
    }
}

fn read_greeting(reader: &mut Reader<'_>) -> Result<Greeting, InvalidMessage> {
    let (group, record) = (read_group(reader)?, reader.number()?);
    let source = read_source(reader)?;
    let mut greeting = Greeting {
        group,
        record,
        source,
        database: reader.name()?.to_owned(),
        url: reader.name()?.to_owned(),
        kind: match reader.byte()? {
            1 => LinkKind::External,
            2 => LinkKind::Internal,
            3 => LinkKind::HubToSink,
            4 => LinkKind::SinkToHub,
            _ => return Err(invalid("the link is of an unknown kind")),
        },
        last_etag: Etag(reader.number()?),
        change_vector: read_vector(reader)?,
        has_lost: reader.flag()?,
        stream: source.database_id,
    };
    if matches!(greeting.kind, LinkKind::HubToSink | LinkKind::SinkToHub) {
        greeting.stream = DatabaseId(reader.array()?);
    }
    Ok(greeting)
}

fn read_batch(reader: &mut Reader<'_>) -> Result<Batch, InvalidMessage> {
    let group = read_group(reader)?;
    let source = read_source(reader)?;
    let (after, last_etag) = (Etag(reader.number()?), Etag(reader.number()?));
    if last_etag < after {
        return Err(invalid("a batch ends before it begins"));
    }
    let point = read_point(reader)?;
    let complete = reader.maybe_text()?.map(parsed_vector).transpose()?;
    let contents = read_hashes(reader)?;
    let count = reader.short()?;
    // Nothing is reserved for as many as it says: they may not be there.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read_item(reader)?);
    }
    Ok(Batch { group, source, after, last_etag, point, complete, contents, items })
}

pub(crate) fn read_source(reader: &mut Reader<'_>) -> Result<Source, InvalidMessage> {
    Ok(Source { database_id: DatabaseId(reader.array()?), node_tag: read_tag(reader)? })
}

pub(crate) fn read_tag(reader: &mut Reader<'_>) -> Result<NodeTag, InvalidMessage> {
    reader.text()?.parse().map_err(|_| invalid("a node has an impossible tag"))
}

pub(crate) fn parsed_vector(text: &str) -> Result<ChangeVector, InvalidMessage> {
    text.parse().map_err(|_| invalid("a change vector is none"))
}

pub(crate) fn read_vector(reader: &mut Reader<'_>) -> Result<ChangeVector, InvalidMessage> {
    parsed_vector(reader.text()?)
}

fn put_group(payload: &mut Payload, group: Option<DatabaseId>) {
    payload.flag(group.is_some());
    if let Some(group) = group {
        payload.raw(&group.0);
    }
}

fn read_group(reader: &mut Reader<'_>) -> Result<Option<DatabaseId>, InvalidMessage> {
    if reader.flag()? { reader.array().map(|id| Some(DatabaseId(id))) } else { Ok(None) }
}

pub(crate) fn put_point(payload: &mut Payload, point: Option<HistoryPoint>) {
    payload.flag(point.is_some());
    if let Some(point) = point {
        payload.raw(&point.to_bytes());
    }
}

pub(crate) fn read_point(reader: &mut Reader<'_>) -> Result<Option<HistoryPoint>, InvalidMessage> {
    if !reader.flag()? {
        return Ok(None);
    }
    let bytes: [u8; HistoryPoint::BYTES] = reader.array()?;
    Ok(HistoryPoint::from_bytes(&bytes))
}

fn put_hashes(payload: &mut Payload, hashes: &[ContentHash]) {
    payload.short(u32::try_from(hashes.len()).unwrap_or(u32::MAX));
    hashes.iter().for_each(|hash| payload.raw(&hash.0));
}

fn read_hashes(reader: &mut Reader<'_>) -> Result<Vec<ContentHash>, InvalidMessage> {
    let count = reader.short()?;
    let mut hashes = Vec::new();
    for _ in 0..count {
        hashes.push(ContentHash(reader.array()?));
    }
    Ok(hashes)
}

impl Reply {
    /// The bytes to answer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Payload::default();
        let kind = match self {
            Reply::Welcome(welcome) => {
                payload.raw(&welcome.database_id.0);
                payload.text(welcome.node_tag.as_str());
                payload.number(welcome.accepted.0);
                put_point(&mut payload, welcome.point);
                payload.text(welcome.change_vector.as_str());
                WELCOME
            }
            Reply::Accepted { accepted, change_vector, is_stored } => {
                payload.number(accepted.0);
                payload.text(change_vector.as_str());
                payload.flag(*is_stored);
                ACCEPTED
            }
            Reply::Missing(hashes) => {
                put_hashes(&mut payload, hashes);
                MISSING
            }
            Reply::Taken(position) => {
                payload.number(*position);
                TAKEN
            }
            Reply::Refused(Refusal { kind, reason }) => {
                payload.byte(match kind {
                    RefusalKind::NotNow => 1,
                    RefusalKind::Damaged => 2,
                    RefusalKind::Never => 3,
                    RefusalKind::Lost => 4,
                });
                payload.text(reason);
                REFUSED
            }
            Reply::Nothing => NOTHING,
            Reply::Terms(terms) => {
                terms.put(&mut payload);
                TERMS
            }
        };
        payload.into_message(kind)
    }

    /// Whether these bytes are an answer, and not a message, as both may be the answer to a pull.
    pub fn is_reply(bytes: &[u8]) -> bool {
        bytes.get(5).is_some_and(|kind| FIRST_REPLY <= *kind)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// It is damaged, or of an unknown version.
    pub fn read(bytes: &[u8]) -> Result<Reply, InvalidMessage> {
        let (kind, payload) = open(bytes)?;
        let mut reader = Reader::new(&payload);
        let reply = match kind {
            WELCOME => Reply::Welcome(Welcome {
                database_id: DatabaseId(reader.array()?),
                node_tag: read_tag(&mut reader)?,
                accepted: Etag(reader.number()?),
                point: read_point(&mut reader)?,
                change_vector: read_vector(&mut reader)?,
            }),
            ACCEPTED => Reply::Accepted {
                accepted: Etag(reader.number()?),
                change_vector: read_vector(&mut reader)?,
                is_stored: reader.flag()?,
            },
            MISSING => Reply::Missing(read_hashes(&mut reader)?),
            TAKEN => Reply::Taken(reader.number()?),
            REFUSED => Reply::Refused(Refusal {
                kind: match reader.byte()? {
                    1 => RefusalKind::NotNow,
                    2 => RefusalKind::Damaged,
                    3 => RefusalKind::Never,
                    4 => RefusalKind::Lost,
                    _ => return Err(invalid("a refusal is of an unknown kind")),
                },
                reason: reader.text()?.to_owned(),
            }),
            NOTHING => Reply::Nothing,
            TERMS => Reply::Terms(Terms::read(&mut reader)?),
            _ => return Err(invalid("it is of an unknown kind")),
        };
        reader.end()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::NAME_BYTES_MAX,
        item_writer::{DELETED_COUNTER, DELETED_RANGE, TOMBSTONE},
    };

    const VECTOR: &str = "A:5-AAAAAAAAAAAAAAAAAAAAAA";

    fn source() -> Source {
        Source { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A }
    }

    const POINT: HistoryPoint = HistoryPoint { environment: 1, incarnation: 2, transaction: 3 };

    fn batch() -> Payload {
        let mut payload = Payload::default();
        put_group(&mut payload, Some(DatabaseId([8; 16])));
        payload.raw(&[7; 16]);
        payload.text("A");
        payload.number(3);
        payload.number(9);
        put_point(&mut payload, Some(POINT));
        payload.maybe_text(Some(VECTOR));
        put_hashes(&mut payload, &[ContentHash([1; 32])]);
        payload.short(3);
        payload.byte(TOMBSTONE);
        ["d", VECTOR, "Users"].iter().for_each(|text| payload.text(text));
        payload.signed(5);
        payload.short(0);
        payload.byte(DELETED_COUNTER);
        ["d", "n", "Users", VECTOR].iter().for_each(|text| payload.text(text));
        payload.byte(DELETED_RANGE);
        ["d", "s", "Users", VECTOR].iter().for_each(|text| payload.text(text));
        (1..4).for_each(|number| payload.signed(number));
        payload
    }

    fn greeting() -> Greeting {
        Greeting {
            group: Some(DatabaseId([8; 16])),
            record: 5,
            source: source(),
            database: "db".to_owned(),
            url: "http://a:1".to_owned(),
            kind: LinkKind::Internal,
            last_etag: Etag(9),
            change_vector: VECTOR.parse().unwrap(),
            has_lost: true,
            stream: source().database_id,
        }
    }

    /// They are kept for operators, of all senders.
    #[test]
    fn names_and_addresses_are_short() {
        for (length, is_taken) in [(NAME_BYTES_MAX, true), (NAME_BYTES_MAX + 1, false)] {
            let text = "x".repeat(length);
            let named = Greeting { database: text.clone(), ..greeting() };
            assert_eq!(Message::read(&named.to_bytes()).is_ok(), is_taken);
            let addressed = Greeting { url: text.clone(), ..greeting() };
            assert_eq!(Message::read(&addressed.to_bytes()).is_ok(), is_taken);
            let sink = DatabaseId([7; 16]);
            let named = Asking { sink, database: text.clone(), url: String::new() };
            assert_eq!(Message::read(&named.to_bytes()).is_ok(), is_taken);
            let addressed = Asking { sink, database: String::new(), url: text };
            assert_eq!(Message::read(&addressed.to_bytes()).is_ok(), is_taken);
        }
    }

    #[test]
    fn what_is_sent_is_read() {
        let greeting = greeting();
        match Message::read(&greeting.to_bytes()).unwrap() {
            Message::Greeting(read) => assert_eq!(read, greeting),
            other => panic!("{other:?}"),
        }
        let piece = ContentPiece {
            source: source().database_id,
            hash: ContentHash([2; 32]),
            content_bytes: 5,
            position: 1,
            bytes: b"abc".to_vec(),
        };
        match Message::read(&piece.to_bytes()).unwrap() {
            Message::Content(read) => assert_eq!(read, piece),
            other => panic!("{other:?}"),
        }
        match Message::read(&batch().into_message(BATCH)).unwrap() {
            Message::Batch(read) => {
                assert_eq!((read.after, read.last_etag), (Etag(3), Etag(9)));
                assert_eq!(read.point, Some(POINT));
                assert_eq!((read.items.len(), read.contents.len()), (3, 1));
                assert_eq!(read.complete.unwrap().as_str(), VECTOR);
            }
            other => panic!("{other:?}"),
        }
        let change_vector: ChangeVector = VECTOR.parse().unwrap();
        let replies = [
            Reply::Welcome(Welcome {
                database_id: DatabaseId([3; 16]),
                node_tag: NodeTag::A,
                accepted: Etag(7),
                point: Some(POINT),
                change_vector: change_vector.clone(),
            }),
            Reply::Accepted { accepted: Etag(7), change_vector, is_stored: true },
            Reply::Missing(vec![ContentHash([5; 32])]),
            Reply::Taken(8),
            Reply::Refused(Refusal { kind: RefusalKind::Never, reason: "no".to_owned() }),
        ];
        for reply in replies {
            assert_eq!(Reply::read(&reply.to_bytes()).unwrap(), reply);
        }
    }

    /// The checksum is right, and what it is of is not: a sender with an error, or a hostile one.
    #[test]
    fn payloads_that_are_none_are_errors_and_never_panics() {
        let (_, payload) = open(&batch().into_message(BATCH)).unwrap();
        let message = |bytes: &[u8]| {
            let mut payload = Payload::default();
            payload.raw(bytes);
            payload
        };
        for length in 0..payload.len() {
            let cut = message(&payload[..length]).into_message(BATCH);
            assert!(Message::read(&cut).is_err(), "cut to {length}");
        }
        for position in 0..payload.len() {
            for change in [0x01, 0x40, 0xff] {
                let mut damaged = payload.clone();
                damaged[position] ^= change;
                for kind in [GREETING, BATCH, CONTENT, WELCOME, ACCEPTED, MISSING] {
                    let bytes = message(&damaged).into_message(kind);
                    let _ = (Message::read(&bytes).is_ok(), Reply::read(&bytes).is_ok());
                }
            }
        }
        let longer = [payload.as_slice(), b"x"].concat();
        assert!(Message::read(&message(&longer).into_message(BATCH)).is_err());
    }
}
