//! The stored record of a collection.
//!
//! ```text
//!  0       version, 1
//!  1..8    not used, 0
//!  8..16   live documents, little-endian
//! 16..24   tombstones, little-endian
//! 24..     name in the spelling of the collection's first document
//! ```

use crate::error::DocumentError;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;

/// Name and counts of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionRecord<'a> {
    pub(crate) name: &'a str,
    pub(crate) documents: u64,
    pub(crate) tombstones: u64,
}

pub(crate) fn write(record: &CollectionRecord<'_>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0] = VERSION;
    bytes[8..16].copy_from_slice(&record.documents.to_le_bytes());
    bytes[16..24].copy_from_slice(&record.tombstones.to_le_bytes());
    bytes.extend_from_slice(record.name.as_bytes());
    bytes
}

pub(crate) fn read(bytes: &[u8]) -> Result<CollectionRecord<'_>, DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let Some((header, name)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("a collection's record is too short"));
    };
    if header[0] != VERSION {
        return Err(corrupt("a collection's record has an unknown version"));
    }
    let number = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[at + i]));
    let name = std::str::from_utf8(name).map_err(|_| corrupt("a collection's name is damaged"))?;
    Ok(CollectionRecord { name, documents: number(8), tombstones: number(16) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_where_the_drawing_says() {
        let record = CollectionRecord { name: "Users", documents: 258, tombstones: 3 };
        let bytes = write(&record);
        let golden = b"\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0Users";
        assert_eq!(bytes, golden);
        assert_eq!(read(&bytes).unwrap(), record);
        assert!(read(&bytes[..23]).is_err());
        assert!(read(&[0; 30]).is_err());
    }
}
