//! What nodes send each other.
//!
//! ```text
//! a request   version 1 (= 1), kind 1, cluster 16, sender 8, receiver 8, then by kind:
//!   append    vote, log id of the entry before (optional), entries, committed log id (optional)
//!   vote      vote, last log id (optional)
//!   ballot    term 8, last log id (optional): whether a vote would be granted, see elections.rs
//!   snapshot  see snapshot.rs
//!   commands  an encoded batch, for the leader
//!   read      nothing: asks the leader up to where a read has to wait
//!   change    see membership.rs
//!   join      the URL of the leader
//!   follow    index 8: answered once the node has applied the log up to there
//! an answer   outcome 1: 0 then by kind, or 1 then a refusal
//!
//! vote        term 8, node 8, committed 1
//! log id      term 8, node 8, index 8
//! an entry    index 8, then as in the log after its length 4
//! ```
//!
//! Numbers and texts are encoded as in `cluster_state`.

use cluster_state::{Decoder, EncodedBatch, Encoder, Malformed};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};

use crate::{
    identity::Identity,
    log_format::{put_log_id, put_vote, read_entry, take_log_id, take_vote, write_entry},
    membership_change::MembershipChange,
    raft_types::{LogId, TypeConfig},
    refusal::Refusal,
    snapshot::Piece,
};

const VERSION: u8 = 1;

const APPEND: u8 = 1;
const VOTE: u8 = 2;
const BALLOT: u8 = 3;
const SNAPSHOT: u8 = 4;
const COMMANDS: u8 = 5;
const READ: u8 = 6;
const CHANGE: u8 = 7;
const JOIN: u8 = 8;
const FOLLOW: u8 = 9;

/// From whom a request is, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) cluster: [u8; 16],
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Envelope {
    pub(crate) fn new(sender: Identity, to: u64) -> Self {
        Self { cluster: sender.cluster, from: sender.node, to }
    }
}

/// A request of another node.
pub(crate) enum Request {
    Append(AppendEntriesRequest<TypeConfig>),
    Vote(VoteRequest<u64>),
    Ballot { term: u64, last: Option<LogId> },
    Snapshot(Piece),
    Commands(EncodedBatch),
    Read,
    Change(MembershipChange),
    Join,
    Follow { index: u64 },
}

impl Request {
    pub(crate) fn encode(&self, envelope: Envelope) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.byte(VERSION);
        encoder.byte(self.kind());
        encoder.raw(&envelope.cluster);
        encoder.u64(envelope.from);
        encoder.u64(envelope.to);
        match self {
            Self::Append(append) => {
                put_vote(&mut encoder, &append.vote);
                put_log_id(&mut encoder, append.prev_log_id);
                encoder.list(&append.entries, |encoder, entry| {
                    encoder.u64(entry.log_id.index);
                    encoder.bytes(&write_entry(entry));
                });
                put_log_id(&mut encoder, append.leader_commit);
            }
            Self::Vote(vote) => {
                put_vote(&mut encoder, &vote.vote);
                put_log_id(&mut encoder, vote.last_log_id);
            }
            Self::Ballot { term, last } => {
                encoder.u64(*term);
                put_log_id(&mut encoder, *last);
            }
            Self::Snapshot(piece) => piece.encode(&mut encoder),
            Self::Commands(EncodedBatch(bytes)) => encoder.raw(bytes),
            Self::Read | Self::Join => {}
            Self::Change(change) => change.encode(&mut encoder),
            Self::Follow { index } => encoder.u64(*index),
        }
        encoder.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Envelope, Self), Malformed> {
        let mut decoder = Decoder::new(bytes);
        if decoder.byte()? != VERSION {
            return Err(Malformed("the other node speaks another version of the protocol"));
        }
        let kind = decoder.byte()?;
        let envelope =
            Envelope { cluster: decoder.fixed()?, from: decoder.u64()?, to: decoder.u64()? };
        let request = match kind {
            APPEND => Self::Append(AppendEntriesRequest {
                vote: take_vote(&mut decoder)?,
                prev_log_id: take_log_id(&mut decoder)?,
                entries: decoder.list(|decoder| read_entry(decoder.u64()?, decoder.bytes()?))?,
                leader_commit: take_log_id(&mut decoder)?,
            }),
            VOTE => Self::Vote(VoteRequest {
                vote: take_vote(&mut decoder)?,
                last_log_id: take_log_id(&mut decoder)?,
            }),
            BALLOT => Self::Ballot { term: decoder.u64()?, last: take_log_id(&mut decoder)? },
            SNAPSHOT => Self::Snapshot(Piece::decode(&mut decoder)?),
            COMMANDS => Self::Commands(EncodedBatch(decoder.rest().to_vec())),
            READ => Self::Read,
            CHANGE => Self::Change(MembershipChange::decode(&mut decoder)?),
            JOIN => Self::Join,
            FOLLOW => Self::Follow { index: decoder.u64()? },
            _ => return Err(Malformed("a request of another node is of an unknown kind")),
        };
        decoder.end()?;
        Ok((envelope, request))
    }

    /// Whether the bytes are a piece of the state.
    pub(crate) fn is_piece_of_state(bytes: &[u8]) -> bool {
        bytes.starts_with(&[VERSION, SNAPSHOT])
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Append(_) => APPEND,
            Self::Vote(_) => VOTE,
            Self::Ballot { .. } => BALLOT,
            Self::Snapshot(_) => SNAPSHOT,
            Self::Commands(_) => COMMANDS,
            Self::Read => READ,
            Self::Change(_) => CHANGE,
            Self::Join => JOIN,
            Self::Follow { .. } => FOLLOW,
        }
    }
}

/// The bytes of an answer.
pub(crate) fn encode_answer(answer: Result<impl FnOnce(&mut Encoder), Refusal>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.flag(answer.is_err());
    match answer {
        Ok(write) => write(&mut encoder),
        Err(refusal) => refusal.encode(&mut encoder),
    }
    encoder.finish()
}

/// Reads an answer.
pub(crate) fn decode_answer<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Decoder<'_>) -> Result<T, Malformed>,
) -> Result<Result<T, Refusal>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let answer = match decoder.flag()? {
        false => Ok(read(&mut decoder)?),
        true => Err(Refusal::decode(&mut decoder)?),
    };
    decoder.end()?;
    Ok(answer)
}

pub(crate) fn put_append_answer(encoder: &mut Encoder, answer: &AppendEntriesResponse<u64>) {
    match answer {
        AppendEntriesResponse::Success => encoder.byte(0),
        AppendEntriesResponse::PartialSuccess(log_id) => {
            encoder.byte(1);
            put_log_id(encoder, *log_id);
        }
        AppendEntriesResponse::Conflict => encoder.byte(2),
        AppendEntriesResponse::HigherVote(vote) => {
            encoder.byte(3);
            put_vote(encoder, vote);
        }
    }
}

pub(crate) fn take_append_answer(
    decoder: &mut Decoder<'_>,
) -> Result<AppendEntriesResponse<u64>, Malformed> {
    Ok(match decoder.byte()? {
        0 => AppendEntriesResponse::Success,
        1 => AppendEntriesResponse::PartialSuccess(take_log_id(decoder)?),
        2 => AppendEntriesResponse::Conflict,
        3 => AppendEntriesResponse::HigherVote(take_vote(decoder)?),
        _ => return Err(Malformed("an answer to entries is of an unknown kind")),
    })
}

pub(crate) fn put_vote_answer(encoder: &mut Encoder, answer: &VoteResponse<u64>) {
    put_vote(encoder, &answer.vote);
    encoder.flag(answer.vote_granted);
    put_log_id(encoder, answer.last_log_id);
}

pub(crate) fn take_vote_answer(decoder: &mut Decoder<'_>) -> Result<VoteResponse<u64>, Malformed> {
    Ok(VoteResponse {
        vote: take_vote(decoder)?,
        vote_granted: decoder.flag()?,
        last_log_id: take_log_id(decoder)?,
    })
}
