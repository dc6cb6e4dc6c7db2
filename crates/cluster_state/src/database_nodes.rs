//! The encoding of the nodes of a database, in its record and in commands.
//!
//! ```text
//! members, promotables, rehabs: each the number of nodes 4, then their tags after their lengths
//! replication factor 4, whether a node that stays away is replaced 1
//! ```

use model::{DatabaseTopology, NodeTag};

use crate::encoding::{Decoder, Encoder, Malformed};

pub(crate) fn write_nodes(topology: &DatabaseTopology, encoder: &mut Encoder) {
    for list in [&topology.members, &topology.promotables, &topology.rehabs] {
        encoder.list(list, |encoder, tag| encoder.text(tag.as_str()));
    }
    encoder.u32(u32::from(topology.replication_factor));
    encoder.flag(topology.is_dynamic);
}

pub(crate) fn read_nodes(decoder: &mut Decoder<'_>) -> Result<DatabaseTopology, Malformed> {
    let invalid = |_| Malformed("a database is on a node without a tag");
    let tag = |decoder: &mut Decoder<'_>| decoder.text()?.parse::<NodeTag>().map_err(invalid);
    Ok(DatabaseTopology {
        members: decoder.list(tag)?,
        promotables: decoder.list(tag)?,
        rehabs: decoder.list(tag)?,
        replication_factor: u16::try_from(decoder.u32()?)
            .map_err(|_| Malformed("the replication factor of a database is too large"))?,
        is_dynamic: decoder.flag()?,
    })
}
