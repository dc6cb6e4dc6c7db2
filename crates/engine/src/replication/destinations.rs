//! Where links lead.

use std::time::Duration;

use model::NodeTag;
use replication::LinkKind;
use wire::{NodeAddress, RavenConnectionString};

use super::sinks::SinkLink;

/// Another member of the group of a database, as its topology names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalDestination {
    /// The tag of its node.
    pub node_tag: NodeTag,
    /// The address of its server.
    pub url: NodeAddress,
}

/// What a link of a database is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DestinationKey {
    /// The task of this number.
    Task(u64),
    /// The hub of the sink of this number, in one direction.
    Sink(u64, Direction),
    /// The member on the node of this tag.
    Member(String),
}

/// In which direction a link between a hub and a sink replicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the hub to the sink.
    HubToSink,
    /// From the sink to the hub.
    SinkToHub,
}

impl Direction {
    /// Reads the word.
    pub fn named(word: &str) -> Option<Direction> {
        let both = [Direction::HubToSink, Direction::SinkToHub];
        both.into_iter().find(|direction| direction.word() == word)
    }

    /// Its word in the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Direction::HubToSink => "HubToSink",
            Direction::SinkToHub => "SinkToHub",
        }
    }
}

/// Where a link leads. A link whose destination changes is replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkDestination {
    pub(super) key: DestinationKey,
    /// For operators.
    pub(super) name: String,
    pub(super) connection: RavenConnectionString,
    /// Whether nothing may be sent over a connection that is not encrypted.
    pub(super) requires_encryption: bool,
    /// How old a change must be to be sent.
    pub(super) delay: Duration,
    /// What a sink asks its hub for.
    pub(super) sink: Option<SinkLink>,
}

impl LinkDestination {
    /// Another member of the group of the database of this name.
    pub(super) fn member(database: &str, member: &InternalDestination) -> LinkDestination {
        LinkDestination {
            key: DestinationKey::Member(member.node_tag.as_str().to_owned()),
            name: member.node_tag.as_str().to_owned(),
            connection: RavenConnectionString {
                database: database.to_owned(),
                addresses: vec![member.url.clone()],
            },
            requires_encryption: false,
            delay: Duration::ZERO,
            sink: None,
        }
    }

    pub(super) fn kind(&self) -> LinkKind {
        match self.key {
            DestinationKey::Task(_) => LinkKind::External,
            DestinationKey::Sink(_, Direction::HubToSink) => LinkKind::HubToSink,
            DestinationKey::Sink(_, Direction::SinkToHub) => LinkKind::SinkToHub,
            DestinationKey::Member(_) => LinkKind::Internal,
        }
    }
}
