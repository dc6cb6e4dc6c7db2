//! How a database's record lies in the server's catalog.
//!
//! ```text
//! offset  bytes  what
//!      0      1  version, 1
//!      1      1  flags: bit 0 = switched off
//!      2      2  length of the name
//!      4      8  etag: index of the change that wrote the record
//!     12      8  index of the change that created the database
//!     20      8  when the database was created, in ticks
//!     28     16  topology id
//!     44     16  cluster transaction id
//!     60      -  name, UTF-8
//!      -      -  the record as the client sent it, JSON, to the end
//! ```
//!
//! Integers are little-endian. The pages below carry checksums, so the record has none of its own.

use model::{DatabaseId, DatabaseName};
use platform::Timestamp;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 60;
const FLAG_DISABLED: u8 = 1;

/// One database as the catalog knows it.
#[derive(Clone, Debug)]
pub struct DatabaseRecord {
    /// Its name in the spelling of its creation.
    pub name: DatabaseName,
    /// Whether it is switched off.
    pub disabled: bool,
    /// The index of the change that wrote the record.
    pub etag: u64,
    /// The index of the change that created the database; clients call it the topology's etag.
    pub topology_index: u64,
    /// When the database was created.
    pub created: Timestamp,
    /// The id of its group of nodes.
    pub topology_id: DatabaseId,
    /// The id of its cluster transactions.
    pub cluster_transaction_id: DatabaseId,
    /// The record as the client sent it: a JSON object.
    pub body: Vec<u8>,
}

/// The bytes of a record.
pub(crate) fn write_record(record: &DatabaseRecord) -> Vec<u8> {
    let name = record.name.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + name.len() + record.body.len());
    bytes.push(VERSION);
    bytes.push(if record.disabled { FLAG_DISABLED } else { 0 });
    let name_bytes = u16::try_from(name.len()).expect("a name has at most 128 characters");
    bytes.extend_from_slice(&name_bytes.to_le_bytes());
    bytes.extend_from_slice(&record.etag.to_le_bytes());
    bytes.extend_from_slice(&record.topology_index.to_le_bytes());
    bytes.extend_from_slice(&record.created.ticks().to_le_bytes());
    bytes.extend_from_slice(&record.topology_id.0);
    bytes.extend_from_slice(&record.cluster_transaction_id.0);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&record.body);
    bytes
}

/// Reads the bytes of a record; `None` when they are not one of this version.
pub(crate) fn read_record(bytes: &[u8]) -> Option<DatabaseRecord> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    if header[0] != VERSION {
        return None;
    }
    let name_bytes = u16::from_le_bytes(fixed(header, 2));
    let (name, body) = rest.split_at_checked(usize::from(name_bytes))?;
    Some(DatabaseRecord {
        name: DatabaseName::new(std::str::from_utf8(name).ok()?).ok()?,
        disabled: header[1] & FLAG_DISABLED != 0,
        etag: u64::from_le_bytes(fixed(header, 4)),
        topology_index: u64::from_le_bytes(fixed(header, 12)),
        created: Timestamp::from_ticks(i64::from_le_bytes(fixed(header, 20))),
        topology_id: DatabaseId(fixed(header, 28)),
        cluster_transaction_id: DatabaseId(fixed(header, 44)),
        body: body.to_vec(),
    })
}

fn fixed<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let record = DatabaseRecord {
            name: DatabaseName::new("Größe-1").unwrap(),
            disabled: true,
            etag: 7,
            topology_index: 3,
            created: Timestamp::from_ticks(638_000_000_000_000_001),
            topology_id: DatabaseId([1; 16]),
            cluster_transaction_id: DatabaseId([2; 16]),
            body: b"{\"Settings\":{}}".to_vec(),
        };
        let bytes = write_record(&record);
        assert_eq!(format!("{:?}", read_record(&bytes).unwrap()), format!("{record:?}"));
    }

    #[test]
    fn bytes_of_another_shape_are_not_a_record() {
        for bytes in [&b""[..], &[1; 59], &[9; 80], &[1, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(read_record(bytes).is_none());
        }
    }
}
