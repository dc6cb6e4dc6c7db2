//! The encoding of entries of the log, in storage and between nodes.
//!
//! ```text
//! entry             version 1 (= 1), kind 1, term 8, node 8, then by kind
//!   kind 0 blank    nothing
//!   kind 1 batch    see command.rs
//!   kind 2 members  see below, of builds that knew no watchers
//!   kind 3 members  see below
//! vote              term 8, node 8, committed 1
//! log id            term 8, node 8, index 8
//! ```

use cluster_state::{Decoder, EncodedBatch, Encoder, Malformed};
use openraft::{CommittedLeaderId, EntryPayload, LeaderId, Vote};

use crate::raft_types::{Entry, LogId, Member, Membership};

const ENTRY_VERSION: u8 = 1;
const BLANK: u8 = 0;
const BATCH: u8 = 1;
const MEMBERS_WITHOUT_WATCHERS: u8 = 2;
const MEMBERS: u8 = 3;

pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(ENTRY_VERSION);
    let kind = match entry.payload {
        EntryPayload::Blank => BLANK,
        EntryPayload::Normal(_) => BATCH,
        EntryPayload::Membership(_) => MEMBERS,
    };
    encoder.byte(kind);
    encoder.u64(entry.log_id.leader_id.term);
    encoder.u64(entry.log_id.leader_id.node_id);
    match &entry.payload {
        EntryPayload::Blank => {}
        EntryPayload::Normal(EncodedBatch(bytes)) => encoder.raw(bytes),
        EntryPayload::Membership(membership) => write_membership(membership, &mut encoder),
    }
    encoder.finish()
}

pub(crate) fn read_entry(index: u64, bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut decoder = Decoder::new(bytes);
    if decoder.byte()? != ENTRY_VERSION {
        return Err(Malformed("a log entry has an unknown version"));
    }
    let kind = decoder.byte()?;
    let leader_id = CommittedLeaderId::new(decoder.u64()?, decoder.u64()?);
    let payload = match kind {
        BLANK => EntryPayload::Blank,
        BATCH => EntryPayload::Normal(EncodedBatch(decoder.rest().to_vec())),
        MEMBERS_WITHOUT_WATCHERS => EntryPayload::Membership(read_membership(&mut decoder, false)?),
        MEMBERS => EntryPayload::Membership(read_membership(&mut decoder, true)?),
        _ => return Err(Malformed("a log entry is of an unknown kind")),
    };
    decoder.end()?;
    Ok(Entry { log_id: LogId { leader_id, index }, payload })
}

/// ```text
/// number of sets of voters 4, each: number of its nodes 4, their ids 8
/// number of nodes 4, each: id 8, address after its length 4, whether it is a watcher 1
/// ```
pub(crate) fn write_membership(membership: &Membership, encoder: &mut Encoder) {
    let number = |count: usize| u32::try_from(count).expect("a cluster has few nodes");
    let sets = membership.get_joint_config();
    encoder.u32(number(sets.len()));
    for set in sets {
        encoder.u32(number(set.len()));
        set.iter().for_each(|node| encoder.u64(*node));
    }
    encoder.u32(number(membership.nodes().count()));
    for (id, member) in membership.nodes() {
        encoder.u64(*id);
        encoder.text(&member.url);
        encoder.flag(member.is_watcher);
    }
}

/// Older builds wrote no watchers.
pub(crate) fn read_membership(
    decoder: &mut Decoder<'_>,
    has_watchers: bool,
) -> Result<Membership, Malformed> {
    let mut sets = Vec::new();
    for _ in 0..decoder.u32()? {
        let nodes = decoder.u32()?;
        sets.push((0..nodes).map(|_| decoder.u64()).collect::<Result<_, _>>()?);
    }
    let mut nodes = std::collections::BTreeMap::new();
    for _ in 0..decoder.u32()? {
        let (id, url) = (decoder.u64()?, decoder.text()?.to_owned());
        let is_watcher = has_watchers && decoder.flag()?;
        nodes.insert(id, Member { url, is_watcher });
    }
    Ok(Membership::new(sets, nodes))
}

pub(crate) fn write_log_id(log_id: &LogId) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.u64(log_id.leader_id.term);
    encoder.u64(log_id.leader_id.node_id);
    encoder.u64(log_id.index);
    encoder.finish()
}

pub(crate) fn read_log_id(bytes: &[u8]) -> Result<LogId, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let leader_id = CommittedLeaderId::new(decoder.u64()?, decoder.u64()?);
    let log_id = LogId { leader_id, index: decoder.u64()? };
    decoder.end()?;
    Ok(log_id)
}

pub(crate) fn put_vote(encoder: &mut Encoder, vote: &Vote<u64>) {
    encoder.u64(vote.leader_id.term);
    encoder.u64(vote.leader_id.node_id);
    encoder.flag(vote.committed);
}

pub(crate) fn take_vote(decoder: &mut Decoder<'_>) -> Result<Vote<u64>, Malformed> {
    let leader_id = LeaderId::new(decoder.u64()?, decoder.u64()?);
    Ok(Vote { leader_id, committed: decoder.flag()? })
}

pub(crate) fn put_log_id(encoder: &mut Encoder, log_id: Option<LogId>) {
    encoder.optional(log_id, |encoder, log_id| encoder.raw(&write_log_id(&log_id)));
}

pub(crate) fn take_log_id(decoder: &mut Decoder<'_>) -> Result<Option<LogId>, Malformed> {
    decoder.optional(|decoder| read_log_id(&decoder.fixed::<24>()?))
}
