//! The layout of a database's record in the tree `Databases`.
//!
//! ```text
//! offset  bytes  what
//!      0      1  version, 4
//!      1      1  flags: bit 0 = switched off, bit 1 = the client configuration has changed since the creation
//!      2      2  length of the name
//!      4      8  etag: index of the change that wrote the record
//!     12      8  index of the last change of the topology
//!     20      8  when the database was created, in ticks
//!     28     16  topology id
//!     44     16  cluster transaction id
//!     60      2  length of the requests; version 1 has neither it nor them
//!     62      8  index of the last change of the client configuration; versions before 3 have none
//!     70      2  length of the nodes; versions before 4 have neither it nor them: such a database is that of node A
//!     72      -  name, UTF-8
//!      -      -  requests: for each its index (8), the length of its id (1) and its id, UTF-8
//!      -      -  the nodes, see database_nodes.rs
//!      -      -  the configuration as clients sent it, JSON, to the end
//! ```
//!
//! Integers are little-endian. Pages carry checksums, so the record needs none of its own.

use model::{
    DatabaseId, DatabaseName, DatabaseRecord, DatabaseTopology, NodeTag, RecordConfiguration,
    RecordRequest,
};

use crate::{
    database_nodes::{read_nodes, write_nodes},
    encoding::{Decoder, Encoder},
};

const VERSION: u8 = 4;
const HEADER_BYTES: usize = 72;
/// Header size of version 3, which has no nodes.
const HEADER_BYTES_OF_3: usize = 70;
/// Header size of version 2, which has no index of the client configuration.
const HEADER_BYTES_OF_2: usize = 62;
/// Header size of version 1, which has no requests.
const HEADER_BYTES_OF_1: usize = 60;
const FLAG_DISABLED: u8 = 1;
const FLAG_CLIENT_CHANGED: u8 = 2;

/// Requests remembered by a record; the oldest are dropped first.
const REQUESTS_MAX: usize = 8;
/// Longer ids are not remembered.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Remembers the request that writes the record with this index.
pub(crate) fn remember(record: &mut DatabaseRecord, request_id: Option<&str>, index: u64) {
    let fits = |id: &&str| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len());
    let Some(id) = request_id.filter(fits) else { return };
    if record.requests.len() == REQUESTS_MAX {
        record.requests.remove(0);
    }
    record.requests.push(RecordRequest { id: id.to_owned(), index });
}

/// The index of the change made by the request with this id.
pub(crate) fn index_of(record: &DatabaseRecord, request_id: &str) -> Option<u64> {
    let found = record.requests.iter().find(|request| request.id == request_id)?;
    Some(found.index)
}

/// The bytes of a record.
pub(crate) fn write_record(record: &DatabaseRecord) -> Vec<u8> {
    let name = record.name.as_str().as_bytes();
    let mut bytes =
        Vec::with_capacity(HEADER_BYTES + name.len() + record.configuration.json().len());
    bytes.push(VERSION);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let client_changed = flag(record.is_client_changed, FLAG_CLIENT_CHANGED);
    bytes.push(flag(record.disabled, FLAG_DISABLED) | client_changed);
    let name_bytes = u16::try_from(name.len()).expect("a name has at most 128 characters");
    bytes.extend_from_slice(&name_bytes.to_le_bytes());
    bytes.extend_from_slice(&record.etag.to_le_bytes());
    bytes.extend_from_slice(&record.topology_index.to_le_bytes());
    bytes.extend_from_slice(&record.created_ticks.to_le_bytes());
    bytes.extend_from_slice(&record.topology_id.0);
    bytes.extend_from_slice(&record.cluster_transaction_id.0);
    let requests = write_requests(&record.requests);
    let requests_bytes = u16::try_from(requests.len()).expect("8 requests of up to 137 bytes");
    bytes.extend_from_slice(&requests_bytes.to_le_bytes());
    bytes.extend_from_slice(&record.client_index.to_le_bytes());
    let mut nodes = Encoder::default();
    write_nodes(&record.topology, &mut nodes);
    let nodes = nodes.finish();
    let nodes_bytes = u16::try_from(nodes.len()).expect("a cluster has few nodes");
    bytes.extend_from_slice(&nodes_bytes.to_le_bytes());
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&requests);
    bytes.extend_from_slice(&nodes);
    bytes.extend_from_slice(record.configuration.json());
    bytes
}

fn write_requests(requests: &[RecordRequest]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(&request.index.to_le_bytes());
        bytes.push(u8::try_from(request.id.len()).expect("longer ids are not remembered"));
        bytes.extend_from_slice(request.id.as_bytes());
    }
    bytes
}

fn read_requests(mut bytes: &[u8]) -> Option<Vec<RecordRequest>> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let (index, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first()?;
        let (id, rest) = rest.split_at_checked(usize::from(*length))?;
        let id = std::str::from_utf8(id).ok()?.to_owned();
        requests.push(RecordRequest { id, index: u64::from_le_bytes(*index) });
        bytes = rest;
    }
    Some(requests)
}

/// Decodes a record; `None` if the bytes are malformed or of a newer version.
pub(crate) fn read_record(bytes: &[u8]) -> Option<DatabaseRecord> {
    let header_bytes = match bytes.first()? {
        1 => HEADER_BYTES_OF_1,
        2 => HEADER_BYTES_OF_2,
        3 => HEADER_BYTES_OF_3,
        &VERSION => HEADER_BYTES,
        _ => return None,
    };
    let (header, rest) = bytes.split_at_checked(header_bytes)?;
    let requests_bytes = match header_bytes {
        HEADER_BYTES_OF_1 => 0,
        _ => u16::from_le_bytes(fixed(header, HEADER_BYTES_OF_1)),
    };
    let client_index = match header_bytes {
        HEADER_BYTES | HEADER_BYTES_OF_3 => u64::from_le_bytes(fixed(header, HEADER_BYTES_OF_2)),
        _ => 0,
    };
    let nodes_bytes = match header_bytes {
        HEADER_BYTES => u16::from_le_bytes(fixed(header, HEADER_BYTES_OF_3)),
        _ => 0,
    };
    let name_bytes = u16::from_le_bytes(fixed(header, 2));
    let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
    let (requests, rest) = rest.split_at_checked(usize::from(requests_bytes))?;
    let (nodes, body) = rest.split_at_checked(usize::from(nodes_bytes))?;
    let topology = match nodes.is_empty() {
        true => DatabaseTopology::only(NodeTag::A),
        false => read_nodes(&mut Decoder::new(nodes)).ok()?,
    };
    Some(DatabaseRecord {
        name: DatabaseName::new(std::str::from_utf8(name).ok()?).ok()?,
        disabled: header[1] & FLAG_DISABLED != 0,
        etag: u64::from_le_bytes(fixed(header, 4)),
        topology,
        topology_index: u64::from_le_bytes(fixed(header, 12)),
        client_index,
        is_client_changed: header[1] & FLAG_CLIENT_CHANGED != 0,
        created_ticks: i64::from_le_bytes(fixed(header, 20)),
        topology_id: DatabaseId(fixed(header, 28)),
        cluster_transaction_id: DatabaseId(fixed(header, 44)),
        requests: read_requests(requests)?,
        configuration: RecordConfiguration::new(body),
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

    fn record() -> DatabaseRecord {
        DatabaseRecord {
            name: DatabaseName::new("Größe-1").unwrap(),
            disabled: true,
            etag: 7,
            topology: DatabaseTopology::only(NodeTag::A),
            topology_index: 3,
            client_index: 5,
            is_client_changed: true,
            created_ticks: 638_000_000_000_000_001,
            topology_id: DatabaseId([1; 16]),
            cluster_transaction_id: DatabaseId([2; 16]),
            requests: Vec::new(),
            configuration: RecordConfiguration::new(b"{\"Settings\":{}}"),
        }
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let mut record = record();
        for _ in 0..2 {
            let bytes = write_record(&record);
            assert_eq!(format!("{:?}", read_record(&bytes).unwrap()), format!("{record:?}"));
            record.topology = DatabaseTopology::of(vec!["B".parse().unwrap(), NodeTag::A]);
            record.topology.rehabs.push("ZZZZ".parse().unwrap());
            remember(&mut record, Some("größer"), 7);
            remember(&mut record, Some(&"x".repeat(REQUEST_ID_BYTES_MAX)), 8);
        }
    }

    #[test]
    fn a_record_of_an_older_version_is_read() {
        let mut record = record();
        record.client_index = 0;
        let mut nodes = Encoder::default();
        write_nodes(&record.topology, &mut nodes);
        let nodes_bytes = nodes.bytes_written();
        for (version, header_bytes) in
            [(1, HEADER_BYTES_OF_1), (2, HEADER_BYTES_OF_2), (3, HEADER_BYTES_OF_3)]
        {
            let mut bytes = write_record(&record);
            bytes[0] = version;
            let nodes_end = bytes.len() - record.configuration.json().len();
            bytes.drain(nodes_end - nodes_bytes..nodes_end);
            bytes.drain(header_bytes..HEADER_BYTES);
            assert_eq!(format!("{:?}", read_record(&bytes).unwrap()), format!("{record:?}"));
            if version == 1 {
                remember(&mut record, Some("request"), 7);
            }
        }
    }

    #[test]
    fn only_the_newest_requests_are_remembered() {
        let mut record = record();
        for index in 0..=REQUESTS_MAX as u64 {
            remember(&mut record, Some(&format!("r{index}")), index);
        }
        remember(&mut record, None, 100);
        remember(&mut record, Some(""), 101);
        remember(&mut record, Some(&"x".repeat(REQUEST_ID_BYTES_MAX + 1)), 102);
        assert_eq!(record.requests.len(), REQUESTS_MAX);
        assert_eq!((index_of(&record, "r0"), index_of(&record, "r1")), (None, Some(1)));
    }

    #[test]
    fn bytes_of_another_shape_are_not_a_record() {
        for bytes in [
            &b""[..],
            &[1; 59],
            &[2; 61],
            &[3; 69],
            &[4; 71],
            &[2; 200],
            &[9; 80],
            &[1, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(read_record(bytes).is_none());
        }
    }
}
