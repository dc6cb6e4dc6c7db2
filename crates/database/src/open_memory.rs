//! The memory of open databases: reserved before one is opened, and held for as long as it is.
//!
//! What a database takes was measured: eight times its record, which is there as text and parsed, with the text of each
//! definition, its compiled form and what describes it; and what each index takes besides, whatever its definition. Caches,
//! transactions and batches are counted where they are used.

use model::RecordConfiguration;

/// How often an open database holds its record.
const RECORD_COPIES: u64 = 8;
/// Of an index, with its environment.
const INDEX_BYTES: u64 = 128 << 10;
/// Of a database without indexes.
const DATABASE_BYTES: u64 = 256 << 10;

/// What a database whose record configures this takes while it is open, in bytes.
pub(crate) fn open_bytes(configuration: &RecordConfiguration) -> u64 {
    let indexes = match &wire::sections_of(configuration).indexes {
        Ok(recorded) => recorded.indexes.len() + recorded.auto_indexes.len(),
        // They are not opened.
        Err(_) => 0,
    };
    DATABASE_BYTES
        + RECORD_COPIES * configuration.json().len() as u64
        + INDEX_BYTES * indexes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_more_with_a_larger_record_and_with_more_indexes() {
        let of = |json: &str| open_bytes(&RecordConfiguration::new(json.as_bytes()));
        assert_eq!(of("{}"), (256 << 10) + 16);
        let one = r#"{"Indexes":{"I":{"Name":"I","Maps":["from d in docs select new { d.A }"]}}}"#;
        assert_eq!(of(one), (384 << 10) + 8 * one.len() as u64);
    }
}
