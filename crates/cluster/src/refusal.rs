//! Why a node refuses a request of another one.

use std::fmt;

use cluster_state::{ClusterError, Decoder, Encoder, Malformed};

const OTHER_CLUSTER: u8 = 1;
const OTHER_NODE: u8 = 2;
const NOT_LEADER: u8 = 3;
const UNFINISHED: u8 = 4;
const STOPPED: u8 = 5;
const REASON: u8 = 6;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The receiver belongs to another cluster.
    OtherCluster,
    /// The request is for another node.
    OtherNode,
    /// The receiver does not lead; nothing was done.
    NotLeader,
    /// It is unknown whether the request was carried out.
    Unfinished(String),
    /// The receiver takes no requests at the moment; nothing was done.
    Stopped,
    /// Another reason, for a person; nothing was done.
    Reason(String),
}

impl Refusal {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::OtherCluster => encoder.byte(OTHER_CLUSTER),
            Self::OtherNode => encoder.byte(OTHER_NODE),
            Self::NotLeader => encoder.byte(NOT_LEADER),
            Self::Unfinished(reason) => {
                encoder.byte(UNFINISHED);
                encoder.text(reason);
            }
            Self::Stopped => encoder.byte(STOPPED),
            Self::Reason(reason) => {
                encoder.byte(REASON);
                encoder.text(reason);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            OTHER_CLUSTER => Self::OtherCluster,
            OTHER_NODE => Self::OtherNode,
            NOT_LEADER => Self::NotLeader,
            UNFINISHED => Self::Unfinished(decoder.text()?.to_owned()),
            STOPPED => Self::Stopped,
            REASON => Self::Reason(decoder.text()?.to_owned()),
            _ => return Err(Malformed("a refusal is of an unknown kind")),
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster => formatter.write_str("the node belongs to another cluster"),
            Self::OtherNode => formatter.write_str("another node has this address"),
            Self::NotLeader => formatter.write_str("the node does not lead the cluster"),
            Self::Stopped => formatter.write_str("the node takes no requests at the moment"),
            Self::Unfinished(reason) | Self::Reason(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for ClusterError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unfinished(reason) => Self::Unfinished { reason, source: None },
            Refusal::Reason(reason) => Self::Membership { reason },
            refusal => Self::NoLeader { reason: refusal.to_string() },
        }
    }
}
