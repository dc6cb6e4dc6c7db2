//! What a sink and its hub tell each other besides what every sender and receiver do. See `message` for the bytes.
//!
//! A hub never connects to a sink: a sink asks for each message of the hub, and says in every pull what it has. So the
//! hub keeps nothing of a link that the sink does not send again.

use documents::Source;
use model::{AllowedPaths, ChangeVector, ContentHash, DatabaseId, Etag};
use storage::HistoryPoint;

use crate::{
    format::{InvalidMessage, Payload, Reader, invalid},
    message::{ASKING, PULL, parsed_vector, put_point, read_point, read_source, read_vector},
};

/// A sink asks for the next message of its hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The sink.
    pub sink: Source,
    /// The stream that it follows; zeroes before the greeting of the hub.
    pub stream: DatabaseId,
    /// Everything up to this etag of the stream was received.
    pub accepted: Etag,
    /// The moment in the history of the hub's files when the last of it was read, right after a greeting.
    pub point: Option<HistoryPoint>,
    /// The sink's change vector.
    pub change_vector: ChangeVector,
    /// What the hub contains, as the sink last learned it.
    pub announced: Option<ChangeVector>,
    /// A content that it lacks, and how much of it has arrived.
    pub wanted: Option<(ContentHash, u64)>,
    /// What it wants of what the hub lets through; `None`: everything.
    pub paths: Option<AllowedPaths>,
}

/// A sink asks what it may send and ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The sink.
    pub sink: DatabaseId,
    /// The name of its database.
    pub database: String,
    /// The address of its server, for operators.
    pub url: String,
}

/// What a hub allows a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Whether it sends its changes.
    pub sends: bool,
    /// Whether it takes those of the sink.
    pub takes: bool,
    /// The addresses of the nodes that have its database, the one first that should be asked.
    pub nodes: Vec<String>,
    /// What it sends; `None`: everything.
    pub paths_to_sink: Option<AllowedPaths>,
    /// What it takes; `None`: everything.
    pub paths_to_hub: Option<AllowedPaths>,
    /// Whether it takes no deletions.
    pub refuses_deletions: bool,
}

impl Pull {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Payload::default();
        payload.raw(&self.sink.database_id.0);
        payload.text(self.sink.node_tag.as_str());
        payload.raw(&self.stream.0);
        payload.number(self.accepted.0);
        put_point(&mut payload, self.point);
        payload.text(self.change_vector.as_str());
        payload.maybe_text(self.announced.as_ref().map(ChangeVector::as_str));
        payload.flag(self.wanted.is_some());
        if let Some((hash, position)) = &self.wanted {
            payload.raw(&hash.0);
            payload.number(*position);
        }
        put_paths(&mut payload, self.paths.as_ref());
        payload.into_message(PULL)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Pull, InvalidMessage> {
        Ok(Pull {
            sink: read_source(reader)?,
            stream: DatabaseId(reader.array()?),
            accepted: Etag(reader.number()?),
            point: read_point(reader)?,
            change_vector: read_vector(reader)?,
            announced: reader.maybe_text()?.map(parsed_vector).transpose()?,
            wanted: match reader.flag()? {
                true => Some((ContentHash(reader.array()?), reader.number()?)),
                false => None,
            },
            paths: read_paths(reader)?,
        })
    }
}

impl Asking {
    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Payload::default();
        payload.raw(&self.sink.0);
        payload.text(&self.database);
        payload.text(&self.url);
        payload.into_message(ASKING)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Asking, InvalidMessage> {
        Ok(Asking {
            sink: DatabaseId(reader.array()?),
            database: reader.name()?.to_owned(),
            url: reader.name()?.to_owned(),
        })
    }
}

impl Terms {
    pub(crate) fn put(&self, payload: &mut Payload) {
        payload.byte(u8::from(self.sends) | u8::from(self.takes) << 1);
        put_texts(payload, &self.nodes);
        put_paths(payload, self.paths_to_sink.as_ref());
        put_paths(payload, self.paths_to_hub.as_ref());
        payload.flag(self.refuses_deletions);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Terms, InvalidMessage> {
        let directions = reader.byte()?;
        if 3 < directions {
            return Err(invalid("a link has an unknown direction"));
        }
        Ok(Terms {
            sends: directions & 1 != 0,
            takes: directions & 2 != 0,
            nodes: read_texts(reader)?.into_iter().map(str::to_owned).collect(),
            paths_to_sink: read_paths(reader)?,
            paths_to_hub: read_paths(reader)?,
            refuses_deletions: reader.flag()?,
        })
    }
}

fn put_texts(payload: &mut Payload, texts: &[String]) {
    payload.short(u32::try_from(texts.len()).unwrap_or(u32::MAX));
    texts.iter().for_each(|text| payload.text(text));
}

fn read_texts<'p>(reader: &mut Reader<'p>) -> Result<Vec<&'p str>, InvalidMessage> {
    let count = reader.short()?;
    // Nothing is reserved for as many as it says: they may not be there.
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(reader.text()?);
    }
    Ok(texts)
}

fn put_paths(payload: &mut Payload, paths: Option<&AllowedPaths>) {
    payload.flag(paths.is_some());
    if let Some(paths) = paths {
        put_texts(payload, paths.paths());
    }
}

fn read_paths(reader: &mut Reader<'_>) -> Result<Option<AllowedPaths>, InvalidMessage> {
    if !reader.flag()? {
        return Ok(None);
    }
    let paths = AllowedPaths::new(read_texts(reader)?);
    paths.map(Some).map_err(|_| invalid("a path of a filter is none"))
}

#[cfg(test)]
mod tests {
    use model::NodeTag;

    use super::*;
    use crate::{
        format::open,
        message::{Message, Reply},
    };

    const VECTOR: &str = "A:5-AAAAAAAAAAAAAAAAAAAAAA";

    fn pull() -> Pull {
        Pull {
            sink: Source { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A },
            stream: DatabaseId([8; 16]),
            accepted: Etag(9),
            point: Some(HistoryPoint { environment: 1, incarnation: 2, transaction: 3 }),
            change_vector: VECTOR.parse().unwrap(),
            announced: Some(VECTOR.parse().unwrap()),
            wanted: Some((ContentHash([1; 32]), 77)),
            paths: Some(AllowedPaths::new(["users/*", "orders/1"]).unwrap()),
        }
    }

    fn terms() -> Terms {
        Terms {
            sends: true,
            takes: false,
            nodes: vec!["http://a:1".to_owned(), "http://b:1".to_owned()],
            paths_to_sink: Some(AllowedPaths::new(["users/*"]).unwrap()),
            paths_to_hub: None,
            refuses_deletions: true,
        }
    }

    #[test]
    fn what_is_sent_is_read() {
        let plain = Pull { point: None, announced: None, wanted: None, paths: None, ..pull() };
        for pull in [pull(), plain] {
            match Message::read(&pull.to_bytes()).unwrap() {
                Message::Pull(read) => assert_eq!(*read, pull),
                other => panic!("{other:?}"),
            }
        }
        let asking = Asking {
            sink: DatabaseId([7; 16]),
            database: "db".to_owned(),
            url: "http://s:1".to_owned(),
        };
        match Message::read(&asking.to_bytes()).unwrap() {
            Message::Asking(read) => assert_eq!(read, asking),
            other => panic!("{other:?}"),
        }
        for reply in [Reply::Nothing, Reply::Terms(terms()), Reply::Terms(Terms::default())] {
            let bytes = reply.to_bytes();
            assert!(Reply::is_reply(&bytes));
            assert_eq!(Reply::read(&bytes).unwrap(), reply);
        }
        assert!(!Reply::is_reply(&pull().to_bytes()) && !Reply::is_reply(b""));
    }

    #[test]
    fn what_is_cut_or_changed_is_never_a_panic() {
        let (_, payload) = open(&pull().to_bytes()).unwrap();
        let message = |bytes: &[u8]| {
            let mut payload = Payload::default();
            payload.raw(bytes);
            payload.into_message(PULL)
        };
        for length in 0..payload.len() {
            assert!(Message::read(&message(&payload[..length])).is_err(), "cut to {length}");
        }
        for position in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[position] ^= 0xff;
            let _ = Message::read(&message(&damaged)).is_ok();
        }
        let unknown = {
            let mut payload = Payload::default();
            payload.byte(4);
            payload.into_message(71)
        };
        assert!(Reply::read(&unknown).is_err());
    }
}
