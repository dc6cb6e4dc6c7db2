//! Checks that an index is consistent: every posting has its record, and vice versa.

use std::ops::Bound;

use rustc_hash::FxHashMap;
use spatial::Shape;
use storage::Transaction;

use crate::{
    boosts,
    error::SearchError,
    fields::FieldRecord,
    ids::FieldId,
    postings::PostingList,
    postings::format::length_code,
    record::RecordReader,
    state::IndexState,
    term::{self, TermKind},
    trees,
};

/// What a sound index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// Entries that are not deleted.
    pub entries: u64,
    /// Distinct terms, including the internal ones.
    pub terms: u64,
    /// Postings of all terms.
    pub postings: u64,
}

/// Reads the whole index. The time is that of looking up every posting's record.
pub fn check(tx: &impl Transaction) -> Result<IndexReport, SearchError> {
    let state = IndexState::load(tx)?;
    let mut report = IndexReport::default();
    let mut words: FxHashMap<FieldId, u64> = FxHashMap::default();
    let mut expected_postings = 0;
    for entry in tx.tree(&trees::ENTRIES)?.range(Bound::Unbounded)? {
        let (key, record) = entry?;
        let key: [u8; 8] =
            key[..].try_into().map_err(|_| corrupt("an entry's key is not 8 bytes"))?;
        ensure(u64::from_be_bytes(key) < state.next_entry, "an entry has a number of the future")?;
        expected_postings += postings_of(RecordReader::new(record)?, &mut words)?;
        report.entries += 1;
    }
    ensure(report.entries == state.live, "the count of live entries is not that of the records")?;
    let mut blocks = 0;
    for entry in tx.tree(&trees::TERMS)?.range(Bound::Unbounded)? {
        let (key, value) = entry?;
        let list = PostingList::parse(value)?;
        blocks += check_list(tx, &key, list)?;
        report.terms += 1;
        report.postings += list.count();
    }
    ensure(report.postings == expected_postings, "there are postings without a record")?;
    let all_blocks = tx.tree(&trees::POSTINGS)?.len();
    ensure(blocks == all_blocks, "there are blocks of postings that no term leads to")?;
    check_fields(tx, &words)?;
    check_boosts(tx)?;
    Ok(report)
}

fn corrupt(detail: &'static str) -> SearchError {
    SearchError::corrupt(detail)
}

fn ensure(holds: bool, detail: &'static str) -> Result<(), SearchError> {
    if holds { Ok(()) } else { Err(corrupt(detail)) }
}

/// In how many lists an entry is.
fn postings_of(
    mut record: RecordReader<'_>,
    words: &mut FxHashMap<FieldId, u64>,
) -> Result<u64, SearchError> {
    let mut postings = 1;
    let mut last_field = None;
    while let Some((field, mut section)) = record.next_field()? {
        ensure(last_field < Some(field), "the fields of a record are out of order")?;
        last_field = Some(field);
        postings += 1;
        section.shape()?.for_each(|_| postings += 1);
        if let Some(count) = section.words {
            *words.entry(field).or_default() += count;
        }
        let (mut last, mut occurrences) = (None, 0);
        while let Some(term) = section.next_term()? {
            let this = (term.kind, term.bytes().to_vec());
            ensure(last.as_ref() < Some(&this), "the terms of a record are out of order")?;
            last = Some(this);
            postings += u64::from(term.kind.is_listed());
            if term.kind == TermKind::Shape {
                ensure(Shape::of_bytes(term.bytes()).is_some(), "a record holds a broken shape")?;
            }
            if term.kind == TermKind::Text {
                occurrences += term.frequency;
            }
        }
        let counted = section.words.is_none_or(|words| words == occurrences);
        ensure(counted, "a record has not as many words as it says")?;
    }
    Ok(postings)
}

/// Checks that the record of every posting has the term; returns the number of blocks of the list.
fn check_list(
    tx: &impl Transaction,
    key: &[u8],
    list: PostingList<'_>,
) -> Result<u64, SearchError> {
    let (field, kind, bytes) = term::parse_key(key)?;
    let mut postings = Vec::new();
    list.for_each_chunk(tx, |chunk| postings.extend(chunk.postings()))?;
    ensure(postings.len() as u64 == list.count(), "a posting list is not as long as it says")?;
    ensure(!postings.is_empty(), "a term has no postings")?;
    let ascending = postings.is_sorted_by(|left, right| left.entry < right.entry);
    ensure(ascending, "a posting list is out of order")?;
    let entries = tx.tree(&trees::ENTRIES)?;
    for posting in postings {
        let record = entries.get(&posting.entry.to_be_bytes())?;
        let record = RecordReader::new(record.ok_or_else(|| corrupt("a posting has no record"))?)?;
        if field == FieldId::ALL_ENTRIES {
            continue;
        }
        let section =
            record.field(field)?.ok_or_else(|| corrupt("a posting's record lacks its field"))?;
        let found = match kind {
            TermKind::Exists => true,
            TermKind::Many => section.shape()?.many,
            TermKind::Numeric => section.shape()?.numeric,
            TermKind::Shape => false,
            TermKind::Null
            | TermKind::Text
            | TermKind::Long
            | TermKind::Double
            | TermKind::Point
            | TermKind::Center
            | TermKind::Cell => {
                let found =
                    section.find(kind, bytes)?.ok_or_else(|| corrupt("a record lacks a term"))?;
                section.words.is_none_or(|words| {
                    kind != TermKind::Text
                        || (u64::from(posting.weight.frequency) == found.frequency.min(255)
                            && posting.weight.length == length_code(words))
                })
            }
        };
        ensure(found, "a posting disagrees with its record")?;
    }
    list.block_count(tx)
}

fn check_fields(tx: &impl Transaction, words: &FxHashMap<FieldId, u64>) -> Result<(), SearchError> {
    for entry in tx.tree(&trees::FIELDS)?.range(Bound::Unbounded)? {
        let record = FieldRecord::read(entry?.1)?;
        let counted = words.get(&record.id).copied().unwrap_or_default();
        ensure(record.words == counted, "a field has not as many words as it says")?;
    }
    Ok(())
}

/// Every boost is one of a live entry, and of a field that it has.
fn check_boosts(tx: &impl Transaction) -> Result<(), SearchError> {
    let entries = tx.tree(&trees::ENTRIES)?;
    for boosted in tx.tree(&trees::BOOSTS)?.range(Bound::Unbounded)? {
        let (key, bytes) = boosted?;
        let record = entries.get(&key)?.ok_or_else(|| corrupt("a boost has no record"))?;
        let record = RecordReader::new(record)?;
        let mut last = None;
        boosts::read(bytes, |field, boost| {
            ensure(last < Some(field), "the boosts of an entry are out of order")?;
            ensure(boost != 1.0, "a boost is 1")?;
            last = Some(field);
            let has_field = record.field(field)?.is_some();
            ensure(has_field, "the record of a boost lacks its field")
        })?;
        ensure(last.is_some(), "an entry without boosts is listed as boosted")?;
    }
    Ok(())
}
