//! The record of a series in the tree `TimeSeries`.
//!
//! ```text
//!  0       version, 1
//!  1..4    not used, 0
//!  4..8    number of the collection
//!  8..16   entries
//! 16..24   etag of the last change
//! 24..32   of a rollup: etag of the last change of its source that it knows; else 0
//! 32..40   of a rollup: the moment up to which it is complete; else 0
//! 40..     name, as the first entry of the series was written
//! ```

use model::Etag;

use crate::error::DocumentError;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 40;

/// The progress of a rollup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolledUp {
    /// The etag of the last change of its source that it includes.
    pub source_changed: Etag,
    /// The moment up to which it is complete.
    pub closed_to: i64,
}

/// The record of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesRecord<'a> {
    pub(super) name: &'a str,
    pub(super) collection_number: u32,
    /// How many entries a reader sees.
    pub(super) entries: u64,
    pub(super) changed: Etag,
    pub(super) rolled_up: RolledUp,
}

pub(super) fn write(record: &SeriesRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + record.name.len());
    bytes.extend_from_slice(&[VERSION, 0, 0, 0]);
    bytes.extend_from_slice(&record.collection_number.to_le_bytes());
    bytes.extend_from_slice(&record.entries.to_le_bytes());
    bytes.extend_from_slice(&record.changed.0.to_le_bytes());
    bytes.extend_from_slice(&record.rolled_up.source_changed.0.to_le_bytes());
    bytes.extend_from_slice(&record.rolled_up.closed_to.to_le_bytes());
    bytes.extend_from_slice(record.name.as_bytes());
    bytes
}

pub(super) fn read(bytes: &[u8]) -> Result<SeriesRecord<'_>, DocumentError> {
    let corrupt = |detail| DocumentError::Corrupt { detail };
    let Some((header, name)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("the record of a time series is too short"));
    };
    if header[0] != VERSION {
        return Err(corrupt("the record of a time series has an unknown version"));
    }
    let name = std::str::from_utf8(name);
    let number = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[at + i]));
    Ok(SeriesRecord {
        name: name.map_err(|_| corrupt("the name of a time series is not UTF-8"))?,
        collection_number: u32::from_le_bytes([header[4], header[5], header[6], header[7]]),
        entries: number(8),
        changed: Etag(number(16)),
        rolled_up: RolledUp {
            source_changed: Etag(number(24)),
            closed_to: number(32).cast_signed(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_as_it_is_drawn() {
        let rolled_up = RolledUp { source_changed: Etag(5), closed_to: 9 };
        let record = SeriesRecord {
            name: "HR",
            collection_number: 3,
            entries: 258,
            changed: Etag(7),
            rolled_up,
        };
        let bytes = write(&record);
        let golden = [
            b"\x01\0\0\0\x03\0\0\0".as_slice(),
            b"\x02\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
            b"\x05\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0HR",
        ];
        assert_eq!(bytes, golden.concat());
        assert_eq!(read(&bytes).unwrap(), record);
        assert!(read(&bytes[..39]).is_err());
        let other = [&[2], &bytes[1..]].concat();
        assert!(read(&other).is_err());
    }
}
