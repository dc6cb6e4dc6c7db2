//! The bytes of rows by document, of a key's state, and of a node's results; the layout is in
//! `docs/internals/map-reduce.md`.

use std::collections::BTreeMap;

use blittable::Document;
use storage::TreeName;

use super::key::{KEY_BYTES, ReduceKey};
use crate::error::IndexError;

const DOCUMENTS: &[u8] = b"Reduce/Documents";
const KEYS: &[u8] = b"Reduce/Keys";
const ROWS: &[u8] = b"Reduce/Rows";
const NODES: &[u8] = b"Reduce/Nodes";

/// Rows of a key that take more bytes are stored in a tree.
const INLINE_BYTES_MAX: usize = 1536;
const INLINE: u8 = 1;
const SPREAD: u8 = 2;
const STATE_HEADER_BYTES: usize = 17;
const INLINE_ROW_HEADER_BYTES: usize = 12;
const FAILED: u8 = 0;
const GIVEN: u8 = 1;

pub(crate) fn documents_tree() -> TreeName {
    TreeName::of(&[DOCUMENTS])
}

pub(super) fn keys_tree() -> TreeName {
    TreeName::of(&[KEYS])
}

pub(super) fn rows_tree() -> TreeName {
    TreeName::of(&[ROWS])
}

pub(super) fn nodes_tree() -> TreeName {
    TreeName::of(&[NODES])
}

/// The location of a row: its key, and its number within the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPlace {
    pub(super) key: ReduceKey,
    pub(super) number: u64,
}

impl RowPlace {
    const BYTES: usize = KEY_BYTES + 8;

    pub(super) fn write_all(places: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(places.len() * Self::BYTES);
        for place in places {
            bytes.extend_from_slice(place.key.bytes());
            bytes.extend_from_slice(&place.number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn read_all(bytes: &[u8]) -> Result<Vec<Self>, IndexError> {
        let chunks = bytes.chunks_exact(Self::BYTES);
        if !chunks.remainder().is_empty() {
            return Err(IndexError::corrupt("the rows of a document have an unknown format"));
        }
        Ok(chunks
            .map(|bytes| {
                let (key, number) = bytes.split_at(KEY_BYTES);
                let key = ReduceKey::from_bytes(key.try_into().expect("`KEY_BYTES` of them"));
                Self { key, number: u64::from_le_bytes(number.try_into().expect("eight bytes")) }
            })
            .collect())
    }
}

/// The key of a row in its tree.
pub(super) fn row_key(key: &ReduceKey, number: u64) -> [u8; KEY_BYTES + 8] {
    let mut bytes = [0; KEY_BYTES + 8];
    bytes[..KEY_BYTES].copy_from_slice(key.bytes());
    bytes[KEY_BYTES..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The key of a node in its tree.
pub(super) fn node_key(key: &ReduceKey, level: u8, number: u64) -> [u8; KEY_BYTES + 9] {
    let mut bytes = [0; KEY_BYTES + 9];
    bytes[..KEY_BYTES].copy_from_slice(key.bytes());
    bytes[KEY_BYTES] = level;
    bytes[KEY_BYTES + 1..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number at the end of the key of a row or node.
pub(super) fn number_in(key: &[u8]) -> Result<u64, IndexError> {
    let number = key.last_chunk().copied().map(u64::from_be_bytes);
    number.ok_or_else(|| IndexError::corrupt("a row or node has no number"))
}

/// The stored state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyState {
    /// The number of the next row.
    pub(super) next: u64,
    /// Rows.
    pub(super) count: u64,
    pub(super) rows: KeyRows,
}

/// The location of a key's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyRows {
    /// In the state, by number.
    Inline(BTreeMap<u64, Vec<u8>>),
    /// In the tree of rows.
    Spread,
}

impl Default for KeyRows {
    fn default() -> Self {
        Self::Inline(BTreeMap::new())
    }
}

impl KeyRows {
    /// Whether inline rows should be moved to the tree.
    pub(super) fn is_too_long(&self) -> bool {
        let Self::Inline(rows) = self else { return false };
        let bytes = rows.values().map(|row| row.len() + INLINE_ROW_HEADER_BYTES);
        INLINE_BYTES_MAX < bytes.sum::<usize>()
    }
}

impl KeyState {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STATE_HEADER_BYTES);
        bytes.push(match self.rows {
            KeyRows::Inline(_) => INLINE,
            KeyRows::Spread => SPREAD,
        });
        bytes.extend_from_slice(&self.next.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        if let KeyRows::Inline(rows) = &self.rows {
            for (number, row) in rows {
                bytes.extend_from_slice(&number.to_le_bytes());
                push_with_length(row, &mut bytes);
            }
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, IndexError> {
        let corrupt = || IndexError::corrupt("the state of a reduce key has an unknown format");
        let (header, mut rest) =
            bytes.split_first_chunk::<STATE_HEADER_BYTES>().ok_or_else(corrupt)?;
        let number =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let rows = match header[0] {
            SPREAD => KeyRows::Spread,
            INLINE => {
                let mut rows = BTreeMap::new();
                while let Some((number, behind)) = rest.split_first_chunk::<8>() {
                    let (row, behind) = split_length(behind).ok_or_else(corrupt)?;
                    rows.insert(u64::from_le_bytes(*number), row.to_vec());
                    rest = behind;
                }
                KeyRows::Inline(rows)
            }
            _ => return Err(corrupt()),
        };
        Ok(Self { next: number(1), count: number(9), rows })
    }
}

/// The result of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeResult<R> {
    /// The reduce failed here or below.
    Failed,
    /// Documents, usually one.
    Results(Vec<R>),
}

impl<R: AsRef<[u8]>> NodeResult<R> {
    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            Self::Failed => vec![FAILED],
            Self::Results(results) => {
                let mut bytes = vec![GIVEN];
                results.iter().for_each(|result| push_with_length(result.as_ref(), &mut bytes));
                bytes
            }
        }
    }
}

impl<'a> NodeResult<Document<'a>> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, IndexError> {
        let corrupt = || IndexError::corrupt("the result of a reduce has an unknown format");
        match bytes.split_first() {
            Some((&FAILED, [])) => Ok(Self::Failed),
            Some((&GIVEN, mut rest)) => {
                let mut results = Vec::new();
                while !rest.is_empty() {
                    let (result, behind) = split_length(rest).ok_or_else(corrupt)?;
                    results.push(Document::new(result).map_err(documents::DocumentError::from)?);
                    rest = behind;
                }
                Ok(Self::Results(results))
            }
            Some(_) | None => Err(corrupt()),
        }
    }
}

fn push_with_length(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("a document has at most 4 GB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn split_length(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn key(number: u8) -> ReduceKey {
        ReduceKey::from_bytes([number; KEY_BYTES])
    }

    #[test]
    fn what_is_written_is_read_again() {
        let places =
            [RowPlace { key: key(1), number: 7 }, RowPlace { key: key(2), number: u64::MAX }];
        let bytes = RowPlace::write_all(&places);
        assert_eq!(RowPlace::read_all(&bytes).unwrap(), places);
        assert!(RowPlace::read_all(&bytes[1..]).is_err());

        let rows = KeyRows::Inline([(3, vec![1, 2]), (9, Vec::new())].into());
        for state in [
            KeyState { next: 10, count: 2, rows },
            KeyState { next: 1 << 40, count: 5, rows: KeyRows::Spread },
            KeyState::default(),
        ] {
            assert_eq!(KeyState::read(&state.write()).unwrap(), state);
        }
        assert!(KeyState::read(&[INLINE; 30]).is_err());
        assert!(KeyState::read(&[]).is_err());

        let document = parse_document(br#"{"A":1}"#, &ParseLimits::default()).unwrap();
        let bytes = NodeResult::Results(vec![document.as_bytes(); 2]).write();
        let NodeResult::Results(read) = NodeResult::read(&bytes).unwrap() else {
            panic!("it failed")
        };
        assert!(read.iter().all(|result| result.as_bytes() == document.as_bytes()));
        assert_eq!(read.len(), 2);
        assert!(matches!(
            NodeResult::read(&NodeResult::<&[u8]>::Failed.write()).unwrap(),
            NodeResult::Failed
        ));
        assert!(NodeResult::read(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn keys_of_rows_and_nodes_sort_by_level_and_number() {
        assert!(row_key(&key(1), 255) < row_key(&key(1), 256));
        assert!(row_key(&key(1), u64::MAX) < row_key(&key(2), 0));
        assert!(node_key(&key(1), 0, u64::MAX) < node_key(&key(1), 1, 0));
        assert_eq!(number_in(&node_key(&key(3), 2, 77)).unwrap(), 77);
    }
}
