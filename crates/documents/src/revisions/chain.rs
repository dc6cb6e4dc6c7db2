//! The record of one document's revisions.
//!
//! ```text
//!  0       version, 1
//!  1..8    not used, 0
//!  8..16   revisions of the document, little-endian
//! 16..24   etag of the deletion under which it is in the bin, little-endian; 0 when it is not there
//! ```
//!
//! A document without revisions has no chain.

use model::Etag;
use storage::{Transaction, WriteTransaction};

use super::schema;
use crate::error::DocumentError;

const VERSION: u8 = 1;
const BYTES: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) count: u64,
    /// Zero: the document is not in the bin.
    pub(super) deletion: Etag,
}

/// The chain of a document; an empty one when it has none.
pub(super) fn get(tx: &impl Transaction, lower_id: &str) -> Result<Chain, DocumentError> {
    let record = tx.tree(&schema::chains())?.get(lower_id.as_bytes())?;
    record.map_or(Ok(Chain::default()), read)
}

/// Stores the chain and updates the bin accordingly.
pub(super) fn replace(
    tx: &mut WriteTransaction,
    lower_id: &str,
    old: Chain,
    new: Chain,
) -> Result<(), DocumentError> {
    if old.deletion != new.deletion {
        let mut bin = tx.tree_mut(&schema::bin())?;
        if old.deletion != Etag::ZERO {
            bin.delete(&schema::bin_key(old.deletion))?;
        }
        if new.deletion != Etag::ZERO {
            bin.put(&schema::bin_key(new.deletion), lower_id.as_bytes())?;
        }
    }
    let mut chains = tx.tree_mut(&schema::chains())?;
    if new.count == 0 {
        chains.delete(lower_id.as_bytes())?;
    } else {
        chains.put(lower_id.as_bytes(), &write(new))?;
    }
    Ok(())
}

fn write(chain: Chain) -> [u8; BYTES] {
    let mut record = [0; BYTES];
    record[0] = VERSION;
    record[8..16].copy_from_slice(&chain.count.to_le_bytes());
    record[16..].copy_from_slice(&chain.deletion.0.to_le_bytes());
    record
}

pub(super) fn read(record: &[u8]) -> Result<Chain, DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let Ok(record) = <&[u8; BYTES]>::try_from(record) else {
        return Err(corrupt("a chain of revisions has another length"));
    };
    if record[0] != VERSION {
        return Err(corrupt("a chain of revisions has an unknown version"));
    }
    let number = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| record[at + i]));
    Ok(Chain { count: number(8), deletion: Etag(number(16)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_lies_where_the_drawing_says() {
        let chain = Chain { count: 258, deletion: Etag(3) };
        let record = write(chain);
        assert_eq!(&record, b"\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(read(&record).unwrap(), chain);
        assert!(read(&record[1..]).is_err());
        assert!(read(&[2; BYTES]).is_err());
    }
}
