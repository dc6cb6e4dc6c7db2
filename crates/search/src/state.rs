//! The counters of an index.
//!
//! ```text
//! tree SearchState   "state" -> version u8 (1) · 7 bytes 0 · next entry u64 · next list u64 · live u64
//! ```

use storage::{Transaction, WriteTransaction};

use crate::{error::SearchError, trees, varint::ByteReader};

const KEY: &[u8] = b"state";
const VERSION: u8 = 1;
/// No index ever reaches this number.
const NUMBER_MAX: u64 = 1 << 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexState {
    /// The number of the next entry.
    pub(crate) next_entry: u64,
    /// The number of the next large posting list.
    pub(crate) next_list: u64,
    /// Live entries.
    pub(crate) live: u64,
}

impl IndexState {
    pub(crate) fn load(tx: &impl Transaction) -> Result<Self, SearchError> {
        match tx.tree(&trees::STATE)?.get(KEY)? {
            Some(bytes) => Self::read(bytes),
            None => Ok(Self { next_entry: 1, next_list: 1, live: 0 }),
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, SearchError> {
        let mut reader = ByteReader::new(bytes);
        if reader.array::<8>()?[0] != VERSION {
            return Err(SearchError::corrupt("the state of an index has an unknown version"));
        }
        let state =
            Self { next_entry: reader.u64()?, next_list: reader.u64()?, live: reader.u64()? };
        if state.next_entry.max(state.next_list).max(state.live) > NUMBER_MAX {
            return Err(SearchError::corrupt("a counter of an index is impossibly high"));
        }
        Ok(state)
    }

    pub(crate) fn save(&self, tx: &mut WriteTransaction) -> Result<(), SearchError> {
        let mut bytes = vec![VERSION, 0, 0, 0, 0, 0, 0, 0];
        for number in [self.next_entry, self.next_list, self.live] {
            bytes.extend(number.to_le_bytes());
        }
        tx.tree_mut(&trees::STATE)?.put(KEY, &bytes)?;
        Ok(())
    }
}
