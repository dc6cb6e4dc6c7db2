//! Any bytes are a segment of a time series or an error; a segment can be encoded again, and its
//! entries are unchanged, bit by bit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeseries::{ENTRIES_MAX, Entries, VALUES_MAX, decode, encode};

type Shown<'a> = (i64, Vec<u64>, Option<&'a str>);

fn shown(entries: &Entries) -> Vec<Shown<'_>> {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect();
    entries.iter().map(|entry| (entry.timestamp_ms, bits(entry.values), entry.tag)).collect()
}

fuzz_target!(|input: &[u8]| {
    let mut entries = Entries::default();
    if decode(input, &mut entries).is_err() {
        return;
    }
    assert!((1..=ENTRIES_MAX).contains(&entries.len()));
    assert!(entries.timestamps().is_sorted());
    assert!(entries.iter().all(|entry| (1..=VALUES_MAX).contains(&entry.values.len())));
    let mut segment = Vec::new();
    encode(&entries, 0..entries.len(), &mut segment);
    let mut again = Entries::default();
    decode(&segment, &mut again).expect("what was encoded is decoded");
    assert_eq!(shown(&again), shown(&entries));
});
