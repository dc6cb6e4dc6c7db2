//! A segment.
//!
//! ```text
//! 0      version, 1
//! 1      positions: the most values of any entry
//! 2..4   entries u16
//! 4..12  the first moment, milliseconds, signed
//! then   differences of the moments, packed numbers
//!        tags, see tags
//!        0 when every entry has a value at every position; else 1 and how many each entry has, packed
//!        a column for each position, of the entries that have a value there, see value_column
//! ```
//!
//! All numbers are little-endian.

use std::ops::Range;

use crate::{
    ENTRIES_MAX, Entries, VALUES_MAX,
    bytes::{Damaged, damaged, take_byte, take_u16, take_u64},
    packed::{pack, unpack},
    tags, value_column,
};

const VERSION: u8 = 1;
const ALL_VALUES: u8 = 0;
const COUNTED_VALUES: u8 = 1;

/// Appends a segment of the entries in the range: at least one and at most [`ENTRIES_MAX`], in order of
/// their moments, with one to [`VALUES_MAX`] values and tags of at most
/// [`TAG_BYTES_MAX`](crate::TAG_BYTES_MAX) bytes.
pub fn encode(entries: &Entries, range: Range<usize>, out: &mut Vec<u8>) {
    let timestamps = &entries.timestamps()[range.clone()];
    let counts = || range.clone().map(|position| entries.values_of(position).len());
    let positions = counts().max().unwrap_or_default();
    debug_assert!(
        (1..=ENTRIES_MAX).contains(&range.len()) && (1..=VALUES_MAX).contains(&positions)
    );
    out.extend_from_slice(&[VERSION, positions as u8]);
    out.extend_from_slice(&(range.len() as u16).to_le_bytes());
    out.extend_from_slice(&timestamps[0].to_le_bytes());
    let differences: Vec<i64> =
        timestamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    pack(&differences, out);
    tags::write(range.clone().map(|position| entries.tag_of(position)), out);
    if counts().all(|count| count == positions) {
        out.push(ALL_VALUES);
    } else {
        out.push(COUNTED_VALUES);
        pack(&counts().map(|count| count as i64).collect::<Vec<_>>(), out);
    }
    let mut column = Vec::with_capacity(range.len());
    for position in 0..positions {
        column.clear();
        let values = range.clone().filter_map(|entry| entries.values_of(entry).get(position));
        column.extend(values);
        value_column::write(&column, out);
    }
}

/// Adds the entries of a segment to others.
///
/// # Errors
/// When the bytes are not a segment; `into` is then left in an unspecified state.
pub fn decode(mut bytes: &[u8], into: &mut Entries) -> Result<(), Damaged> {
    let bytes = &mut bytes;
    if take_byte(bytes)? != VERSION {
        return Err(damaged("it has an unknown version"));
    }
    let positions = usize::from(take_byte(bytes)?);
    let count = usize::from(take_u16(bytes)?);
    if !(1..=VALUES_MAX).contains(&positions) || !(1..=ENTRIES_MAX).contains(&count) {
        return Err(damaged("it has too many entries or values, or none"));
    }
    let mut numbers = Vec::with_capacity(count);
    let mut timestamp = take_u64(bytes)?.cast_signed();
    unpack(bytes, count - 1, &mut numbers)?;
    into.push_timestamp(timestamp);
    for difference in &numbers {
        let next = timestamp.checked_add(*difference).filter(|next| timestamp <= *next);
        timestamp = next.ok_or(damaged("its moments are out of order"))?;
        into.push_timestamp(timestamp);
    }
    tags::read(bytes, count, into, &mut numbers)?;
    match take_byte(bytes)? {
        ALL_VALUES => numbers.clear(),
        COUNTED_VALUES => unpack(bytes, count, &mut numbers)?,
        _ => return Err(damaged("its values are counted in an unknown way")),
    }
    decode_values(bytes, (count, positions), numbers, into)?;
    if bytes.is_empty() { Ok(()) } else { Err(damaged("something follows its end")) }
}

/// The columns of values; `counts` is empty when every entry has one at every position.
fn decode_values(
    bytes: &mut &[u8],
    (count, positions): (usize, usize),
    counts: Vec<i64>,
    into: &mut Entries,
) -> Result<(), Damaged> {
    let (mut column, mut numbers) = (Vec::with_capacity(count), Vec::new());
    if counts.is_empty() {
        let start = into.extend_values((0..count).map(|_| positions));
        for position in 0..positions {
            value_column::read(bytes, count, &mut column, &mut numbers)?;
            let places = into.values_from(start)[position..].iter_mut().step_by(positions);
            places.zip(&column).for_each(|(place, value)| *place = *value);
        }
        return Ok(());
    }
    let is_possible = |count: &i64| (1..=positions as i64).contains(count);
    if !counts.iter().all(is_possible) {
        return Err(damaged("an entry has an impossible number of values"));
    }
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let start = into.extend_values(counts.iter().copied());
    for position in 0..positions {
        let present = counts.iter().filter(|count| position < **count).count();
        value_column::read(bytes, present, &mut column, &mut numbers)?;
        let values = into.values_from(start);
        let (mut at, mut column) = (0, column.iter());
        for count in &counts {
            if position < *count
                && let Some(value) = column.next()
            {
                values[at + position] = *value;
            }
            at += count;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Entry;

    type Owned = (i64, Vec<f64>, Option<String>);

    fn entries_of(all: &[Owned]) -> Entries {
        let mut entries = Entries::default();
        for (timestamp_ms, values, tag) in all {
            entries.push(Entry { timestamp_ms: *timestamp_ms, values, tag: tag.as_deref() });
        }
        entries
    }

    fn shown(entries: &Entries) -> Vec<(i64, Vec<u64>, Option<&str>)> {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect();
        entries.iter().map(|entry| (entry.timestamp_ms, bits(entry.values), entry.tag)).collect()
    }

    fn any_entries() -> impl Strategy<Value = Vec<Owned>> {
        let value = prop_oneof![
            3 => any::<i16>().prop_map(|number| f64::from(number) / 100.0),
            1 => any::<u64>().prop_map(f64::from_bits)
        ];
        let values = proptest::collection::vec(value, 1..6);
        let tag = prop_oneof![Just(None), "[a-c]{0,2}".prop_map(Some), "\\PC{0,60}".prop_map(Some)];
        let entry = (prop_oneof![Just(1000_i64), 0..100_000_i64], values, tag);
        proptest::collection::vec(entry, 1..80).prop_map(|mut entries| {
            let mut timestamp = 0;
            for entry in &mut entries {
                timestamp += entry.0;
                entry.0 = timestamp;
            }
            entries
        })
    }

    #[test]
    fn a_segment_has_the_documented_layout() {
        let entries = entries_of(&[
            (0x0102, vec![1.5], Some("w/1".to_owned())),
            (0x0103, vec![2.0, 3.0], None),
        ]);
        let mut bytes = Vec::new();
        encode(&entries, 0..2, &mut bytes);
        let golden = [
            [1, 2, 2, 0].as_slice(),
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 2],
            &[1, 0, 3, b'w', b'/', b'1', 1, 0, 0, 0, 0b01],
            &[1, 1, 0, 0, 2, 0b10],
            &[1, 1, 0, 0, 3, 0, 0, 30, 0b00_101_000],
        ];
        assert_eq!(bytes[..33], golden[..5].concat());
        assert_eq!(shown(&decoded(&bytes).unwrap()), shown(&entries));
    }

    fn decoded(bytes: &[u8]) -> Result<Entries, Damaged> {
        let mut entries = Entries::default();
        decode(bytes, &mut entries).map(|()| entries)
    }

    #[test]
    fn a_regular_walk_takes_little_more_than_a_byte_for_an_entry() {
        let mut cents = 10_000_i64;
        let all = (0..ENTRIES_MAX as i64).map(|i| {
            cents += i * 7919 % 201 - 100;
            (i * 1000, vec![cents as f64 / 100.0], None)
        });
        let mut bytes = Vec::new();
        encode(&entries_of(&all.collect::<Vec<_>>()), 0..ENTRIES_MAX, &mut bytes);
        assert!(bytes.len() < 1100, "{}", bytes.len());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(all in any_entries(), from in 0_usize..10, behind: u8) {
            let entries = entries_of(&all);
            let from = from.min(entries.len() - 1);
            let mut bytes = Vec::new();
            encode(&entries, from..entries.len(), &mut bytes);
            // Entries may be added to others.
            let mut found = entries_of(&all[..from]);
            decode(&bytes, &mut found).unwrap();
            prop_assert_eq!(shown(&found), shown(&entries));
            bytes.push(behind);
            prop_assert!(decoded(&bytes).is_err());
        }

        #[test]
        fn damaged_segments_are_errors_or_segments(
            all in any_entries(), damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4)
        ) {
            let mut bytes = Vec::new();
            encode(&entries_of(&all), 0..all.len(), &mut bytes);
            for length in 0..bytes.len() {
                prop_assert!(decoded(&bytes[..length]).is_err());
            }
            for (at, byte) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(entries) = decoded(&bytes) {
                prop_assert!(entries.timestamps().is_sorted());
                prop_assert!(entries.len() <= ENTRIES_MAX);
                let again = shown(&entries).len();
                prop_assert_eq!(again, entries.len());
            }
        }
    }
}
