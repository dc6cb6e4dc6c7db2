//! A change of the nodes of a cluster, as a node asks the leader for it.
//!
//! ```text
//! a change    kind 1, then by kind
//!   add       URL, tag (optional), whether it is a watcher 1
//!   remove    tag
//!   promote   tag
//!   demote    tag
//! ```

use cluster_state::{Decoder, Encoder, Malformed};
use model::NodeTag;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const PROMOTE: u8 = 3;
const DEMOTE: u8 = 4;

/// A change of the nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// Add the server at a URL, which must have no databases.
    Add {
        /// Where the other nodes reach it.
        url: String,
        /// Its tag; the first free one if `None`.
        tag: Option<NodeTag>,
        /// Whether it is never to vote.
        is_watcher: bool,
    },
    /// Remove a node.
    Remove {
        /// Its tag.
        tag: NodeTag,
    },
    /// Let a watcher vote.
    Promote {
        /// Its tag.
        tag: NodeTag,
    },
    /// Make a voter a watcher.
    Demote {
        /// Its tag.
        tag: NodeTag,
    },
}

impl MembershipChange {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::Add { url, tag, is_watcher } => {
                encoder.byte(ADD);
                encoder.text(url);
                encoder.optional(tag.as_ref(), |encoder, tag| encoder.text(tag.as_str()));
                encoder.flag(*is_watcher);
            }
            Self::Remove { tag } => {
                encoder.byte(REMOVE);
                encoder.text(tag.as_str());
            }
            Self::Promote { tag } => {
                encoder.byte(PROMOTE);
                encoder.text(tag.as_str());
            }
            Self::Demote { tag } => {
                encoder.byte(DEMOTE);
                encoder.text(tag.as_str());
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            ADD => Self::Add {
                url: decoder.text()?.to_owned(),
                tag: decoder.optional(take_tag)?,
                is_watcher: decoder.flag()?,
            },
            REMOVE => Self::Remove { tag: take_tag(decoder)? },
            PROMOTE => Self::Promote { tag: take_tag(decoder)? },
            DEMOTE => Self::Demote { tag: take_tag(decoder)? },
            _ => return Err(Malformed("a change of the nodes is of an unknown kind")),
        })
    }
}

fn take_tag(decoder: &mut Decoder<'_>) -> Result<NodeTag, Malformed> {
    decoder.text()?.parse().map_err(|_| Malformed("the tag of a node is invalid"))
}
