//! The encoding of subscriptions and of their changes: in the log, in rows and in outcomes.

use model::{ChangeVector, DatabaseId, Etag};
use storage::HistoryPoint;

use crate::{
    encoding::{Decoder, Encoder, Malformed},
    subscriptions::{
        Handover, SubscriptionCommand, SubscriptionOutcome, SubscriptionPosition,
        SubscriptionRecord, SubscriptionSettings,
    },
};

const CREATE: u8 = 1;
/// Of any record: written by builds before version 5.
const UPDATE_ANY: u8 = 2;
const DELETE: u8 = 3;
const DISABLE: u8 = 4;
const CONNECT: u8 = 5;
const ADVANCE: u8 = 6;
const UPDATE: u8 = 7;
/// An advance that names its node. [`ADVANCE`] was written by builds before version 7.
const ADVANCE_ON: u8 = 8;

const DONE: u8 = 1;
const DELETED: u8 = 2;
const NAME_TAKEN: u8 = 3;
const MISSING: u8 = 4;
const OUTDATED: u8 = 5;
const OTHER_VERSION: u8 = 6;
const OTHER_NODE: u8 = 7;

/// A bit of the number of unsettled changes: a point in the history of the database follows them.
const HAS_POINT: u32 = 1 << 31;
/// Another one: what the position says to other nodes follows.
const HAS_HANDOVER: u32 = 1 << 30;

fn put_position(encoder: &mut Encoder, position: &SubscriptionPosition) {
    encoder.u64(position.cursor.0);
    encoder.text(&position.change_vector);
    let count = u32::try_from(position.unsettled.len()).expect("workers hold few changes");
    let point = if position.read_at.is_some() { HAS_POINT } else { 0 };
    let handover = if position.handover.is_some() { HAS_HANDOVER } else { 0 };
    encoder.u32(count | point | handover);
    position.unsettled.iter().for_each(|etag| encoder.u64(etag.0));
    if let Some(point) = position.read_at {
        encoder.raw(&point.to_bytes());
    }
    if let Some(handover) = &position.handover {
        encoder.raw(&handover.reader.0);
        encoder.text(handover.passed.as_str());
        encoder.text(handover.passed_elsewhere.as_str());
    }
}

fn take_position(decoder: &mut Decoder<'_>) -> Result<SubscriptionPosition, Malformed> {
    let (cursor, change_vector) = (Etag(decoder.u64()?), decoder.text()?.to_owned());
    let count = decoder.u32()?;
    let unsettled = (0..count & !(HAS_POINT | HAS_HANDOVER))
        .map(|_| decoder.u64().map(Etag))
        .collect::<Result<_, _>>()?;
    let read_at = match count & HAS_POINT {
        0 => None,
        _ => HistoryPoint::from_bytes(&decoder.fixed::<{ HistoryPoint::BYTES }>()?),
    };
    let handover = match count & HAS_HANDOVER {
        0 => None,
        _ => Some(Handover {
            reader: DatabaseId(decoder.fixed()?),
            passed: take_vector(decoder)?,
            passed_elsewhere: take_vector(decoder)?,
        }),
    };
    Ok(SubscriptionPosition { cursor, change_vector, unsettled, read_at, handover })
}

fn take_vector(decoder: &mut Decoder<'_>) -> Result<ChangeVector, Malformed> {
    let malformed = |_| Malformed("the position of a subscription has a malformed vector");
    decoder.text()?.parse().map_err(malformed)
}

fn put_settings(encoder: &mut Encoder, settings: &SubscriptionSettings) {
    encoder.text(&settings.query);
    encoder.optional(settings.mentor_node.as_deref(), Encoder::text);
    encoder.flag(settings.is_pinned);
    encoder.flag(settings.is_disabled);
}

fn take_settings(decoder: &mut Decoder<'_>) -> Result<SubscriptionSettings, Malformed> {
    Ok(SubscriptionSettings {
        query: decoder.text()?.to_owned(),
        mentor_node: decoder.optional(Decoder::text)?.map(str::to_owned),
        is_pinned: decoder.flag()?,
        is_disabled: decoder.flag()?,
    })
}

impl SubscriptionRecord {
    pub(super) fn encode_settings(&self, encoder: &mut Encoder) {
        encoder.u64(self.index);
        encoder.u64(self.version);
        encoder.text(&self.name);
        put_settings(encoder, &self.settings);
    }

    pub(super) fn encode_progress(&self, encoder: &mut Encoder) {
        put_position(encoder, &self.position);
        encoder.optional(self.last_acknowledged_ticks, Encoder::i64);
        encoder.optional(self.last_connected_ticks, Encoder::i64);
        encoder.optional(self.node_tag.as_deref(), Encoder::text);
    }

    /// `settings` and `progress` may be parts of the same bytes, one after the other.
    pub(super) fn decode<'b>(
        id: u64,
        settings: &mut Decoder<'b>,
        progress: Option<&mut Decoder<'b>>,
    ) -> Result<Self, Malformed> {
        let (index, version) = (settings.u64()?, settings.u64()?);
        let (name, set) = (settings.text()?.to_owned(), take_settings(settings)?);
        let progress = progress.unwrap_or(settings);
        Ok(SubscriptionRecord {
            id,
            name,
            settings: set,
            index,
            version,
            position: take_position(progress)?,
            last_acknowledged_ticks: progress.optional(Decoder::i64)?,
            last_connected_ticks: progress.optional(Decoder::i64)?,
            node_tag: progress.optional(Decoder::text)?.map(str::to_owned),
        })
    }
}

impl SubscriptionOutcome {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Done(record) => {
                encoder.byte(DONE);
                encoder.u64(record.id);
                record.encode_settings(encoder);
                record.encode_progress(encoder);
            }
            Self::Deleted(id) => {
                encoder.byte(DELETED);
                encoder.optional(*id, Encoder::u64);
            }
            Self::NameTaken => encoder.byte(NAME_TAKEN),
            Self::Missing => encoder.byte(MISSING),
            Self::Outdated => encoder.byte(OUTDATED),
            Self::OtherVersion => encoder.byte(OTHER_VERSION),
            Self::OtherNode => encoder.byte(OTHER_NODE),
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            DONE => {
                let id = decoder.u64()?;
                Self::Done(Box::new(SubscriptionRecord::decode(id, decoder, None)?))
            }
            DELETED => Self::Deleted(decoder.optional(Decoder::u64)?),
            NAME_TAKEN => Self::NameTaken,
            MISSING => Self::Missing,
            OUTDATED => Self::Outdated,
            OTHER_VERSION => Self::OtherVersion,
            OTHER_NODE => Self::OtherNode,
            _ => return Err(Malformed("the outcome of a subscription is of an unknown kind")),
        })
    }
}

impl SubscriptionCommand {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Create { database, id, name, settings, position } => {
                encoder.byte(CREATE);
                encoder.raw(&database.0);
                encoder.optional(*id, Encoder::u64);
                encoder.optional(name.as_deref(), Encoder::text);
                put_settings(encoder, settings);
                put_position(encoder, position);
            }
            Self::Update { database, id, expected, name, settings, position } => {
                encoder.byte(if expected.is_some() { UPDATE } else { UPDATE_ANY });
                encoder.raw(&database.0);
                encoder.u64(*id);
                expected.iter().for_each(|expected| encoder.u64(*expected));
                encoder.text(name);
                put_settings(encoder, settings);
                encoder.optional(position.as_ref(), put_position);
            }
            Self::Delete { database, name } => {
                encoder.byte(DELETE);
                encoder.raw(&database.0);
                encoder.text(name);
            }
            Self::Disable { database, id, is_disabled } => {
                encoder.byte(DISABLE);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.flag(*is_disabled);
            }
            Self::Connect { database, id, node_tag, ticks } => {
                encoder.byte(CONNECT);
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.text(node_tag);
                encoder.i64(*ticks);
            }
            Self::Advance { database, id, version, node_tag, position, acknowledged_ticks } => {
                encoder.byte(if node_tag.is_some() { ADVANCE_ON } else { ADVANCE });
                encoder.raw(&database.0);
                encoder.u64(*id);
                encoder.u64(*version);
                node_tag.iter().for_each(|tag| encoder.text(tag));
                put_position(encoder, position);
                encoder.optional(*acknowledged_ticks, Encoder::i64);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = decoder.byte()?;
        let database = DatabaseId(decoder.fixed()?);
        Ok(match kind {
            CREATE => Self::Create {
                database,
                id: decoder.optional(Decoder::u64)?,
                name: decoder.optional(Decoder::text)?.map(str::to_owned),
                settings: take_settings(decoder)?,
                position: take_position(decoder)?,
            },
            UPDATE | UPDATE_ANY => Self::Update {
                database,
                id: decoder.u64()?,
                expected: if kind == UPDATE { Some(decoder.u64()?) } else { None },
                name: decoder.text()?.to_owned(),
                settings: take_settings(decoder)?,
                position: decoder.optional(take_position)?,
            },
            DELETE => Self::Delete { database, name: decoder.text()?.to_owned() },
            DISABLE => Self::Disable { database, id: decoder.u64()?, is_disabled: decoder.flag()? },
            CONNECT => Self::Connect {
                database,
                id: decoder.u64()?,
                node_tag: decoder.text()?.to_owned(),
                ticks: decoder.i64()?,
            },
            ADVANCE | ADVANCE_ON => Self::Advance {
                database,
                id: decoder.u64()?,
                version: decoder.u64()?,
                node_tag: match kind {
                    ADVANCE_ON => Some(decoder.text()?.to_owned()),
                    _ => None,
                },
                position: take_position(decoder)?,
                acknowledged_ticks: decoder.optional(Decoder::i64)?,
            },
            _ => return Err(Malformed("a change of subscriptions is of an unknown kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> SubscriptionPosition {
        let mut decoder = Decoder::new(bytes);
        let position = take_position(&mut decoder).unwrap();
        decoder.end().unwrap();
        position
    }

    #[test]
    fn a_position_is_read_as_it_was_written_with_a_point_and_without_one() {
        let point = HistoryPoint { environment: 7, incarnation: 8, transaction: 9 };
        let handover = Handover {
            reader: DatabaseId([7; 16]),
            passed: "A:5-AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap(),
            passed_elsewhere: ChangeVector::empty(),
        };
        for (unsettled, read_at, handover) in [
            (vec![], None, None),
            (vec![Etag(3), Etag(5)], None, Some(handover.clone())),
            (vec![Etag(3)], Some(point), None),
            (vec![Etag(3)], Some(point), Some(handover)),
        ] {
            let change_vector = "A:5-x".to_owned();
            let cursor = Etag(5);
            let position =
                SubscriptionPosition { cursor, change_vector, unsettled, read_at, handover };
            let mut encoder = Encoder::default();
            put_position(&mut encoder, &position);
            assert_eq!(read(&encoder.finish()), position);
        }
    }

    #[test]
    fn a_position_of_version_1_has_no_point() {
        let bytes = b"\x05\0\0\0\0\0\0\0\x05\0\0\0A:5-x\x01\0\0\0\x03\0\0\0\0\0\0\0";
        let position = read(bytes);
        assert_eq!((position.cursor, position.unsettled), (Etag(5), vec![Etag(3)]));
        assert_eq!((position.change_vector.as_str(), position.read_at), ("A:5-x", None));
    }

    fn update(expected: Option<u64>) -> SubscriptionCommand {
        let (database, name) = (DatabaseId([7; 16]), "s".to_owned());
        let settings = SubscriptionSettings { query: "q".to_owned(), ..Default::default() };
        SubscriptionCommand::Update { database, id: 9, expected, name, settings, position: None }
    }

    fn written(command: &SubscriptionCommand) -> Vec<u8> {
        let mut encoder = Encoder::default();
        command.encode(&mut encoder);
        encoder.finish()
    }

    #[test]
    fn an_update_is_read_with_the_record_it_was_decided_on_and_as_older_builds_wrote_it() {
        for expected in [None, Some(5)] {
            let bytes = written(&update(expected));
            let mut decoder = Decoder::new(&bytes);
            let read = SubscriptionCommand::decode(&mut decoder).unwrap();
            decoder.end().unwrap();
            assert!(
                matches!(&read, SubscriptionCommand::Update { id: 9, expected: found, name, .. }
                    if *found == expected && name == "s"),
                "{read:?}"
            );
        }
        let rest = b"\x01\0\0\0s\x01\0\0\0q\0\0\0\0";
        let older = [&b"\x02"[..], &[7; 16], &9u64.to_le_bytes(), rest].concat();
        assert_eq!(written(&update(None)), older);
    }
}
