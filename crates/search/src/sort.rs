//! Sorting: keys, and an entry's value for each.
//!
//! An entry is sorted by the greatest of its values in a field. Ascending, entries without the
//! field come first, then those with null only, then (when sorting by number) those without a
//! number, then the rest; descending is the exact reverse. Equal entries stay in entry order in
//! both directions, and no entry is ever left out.

use std::cmp::Ordering;

use storage::Transaction;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    alphanumeric, distance::DistanceFrom, error::SearchError, ids::FieldId, reader::IndexReader,
    record::RecordReader, term::TermKind,
};

/// What to sort by.
#[derive(Clone, Debug, PartialEq)]
pub enum SortBy {
    /// The best match first; descending, the worst.
    Score,
    /// The bytes of the field's greatest text.
    Text(String),
    /// The field's greatest number, cut to an integer.
    Long(String),
    /// The field's greatest number.
    Double(String),
    /// The field's greatest text, its digits compared as numbers.
    AlphaNumeric(String),
    /// An order that depends on the seed only.
    Random(u64),
    /// The distance of the field's nearest place. Entries without one come last in both directions.
    Distance(String, DistanceFrom),
}

/// One key of an order.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// What to sort by.
    pub by: SortBy,
    /// Whether the greatest values come first.
    pub descending: bool,
}

/// An order: by the first key, then by the second, …; by entry when there is none.
pub type Sort = [SortKey];

/// An entry's value for a key, in ascending order of the variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SortValue<'t> {
    Missing,
    Null,
    /// A value that is not a number, when sorting by number.
    NoNumber,
    Text(&'t str),
    AlphaNumeric(&'t str),
    /// The bytes of a number, which compare as it does.
    Number([u8; 8]),
    Random(u64),
    /// Greater scores come first.
    Score(f32),
    Distance(f64),
    /// Without a place, when sorting by distance; after all others in both directions.
    Nowhere,
}

impl SortValue<'_> {
    fn rank(&self) -> u8 {
        match self {
            SortValue::Missing => 0,
            SortValue::Null => 1,
            SortValue::NoNumber => 2,
            SortValue::Text(_)
            | SortValue::AlphaNumeric(_)
            | SortValue::Number(_)
            | SortValue::Random(_)
            | SortValue::Score(_)
            | SortValue::Distance(_) => 3,
            SortValue::Nowhere => 4,
        }
    }

    pub(crate) fn compare(&self, other: &SortValue<'_>) -> Ordering {
        match (self, other) {
            (SortValue::Text(left), SortValue::Text(right)) => left.cmp(right),
            (SortValue::AlphaNumeric(left), SortValue::AlphaNumeric(right)) => {
                alphanumeric::compare(left, right)
            }
            (SortValue::Number(left), SortValue::Number(right)) => left.cmp(right),
            (SortValue::Random(left), SortValue::Random(right)) => left.cmp(right),
            (SortValue::Score(left), SortValue::Score(right)) => right.total_cmp(left),
            (SortValue::Distance(left), SortValue::Distance(right)) => left.total_cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// A key whose field is looked up.
pub(crate) struct ResolvedKey {
    pub(crate) by: ResolvedBy,
    pub(crate) descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResolvedBy {
    Score,
    Random(u64),
    /// A field that the index does not have: all are equal.
    Nothing,
    Field {
        field: FieldId,
        kind: FieldOrder,
    },
    Distance {
        field: FieldId,
        from: DistanceFrom,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOrder {
    Text,
    AlphaNumeric,
    Long,
    Double,
}

impl FieldOrder {
    pub(crate) fn term_kind(self) -> TermKind {
        match self {
            FieldOrder::Text | FieldOrder::AlphaNumeric => TermKind::Text,
            FieldOrder::Long => TermKind::Long,
            FieldOrder::Double => TermKind::Double,
        }
    }

    pub(crate) fn is_numeric(self) -> bool {
        matches!(self, FieldOrder::Long | FieldOrder::Double)
    }
}

impl ResolvedKey {
    pub(crate) fn resolve<T: Transaction>(
        reader: &IndexReader<'_, T>,
        key: &SortKey,
    ) -> Result<Self, SearchError> {
        let by = match &key.by {
            SortBy::Score => ResolvedBy::Score,
            SortBy::Random(seed) => ResolvedBy::Random(*seed),
            SortBy::Text(field) => Self::field(reader, field, FieldOrder::Text)?,
            SortBy::Long(field) => Self::field(reader, field, FieldOrder::Long)?,
            SortBy::Double(field) => Self::field(reader, field, FieldOrder::Double)?,
            SortBy::AlphaNumeric(field) => Self::field(reader, field, FieldOrder::AlphaNumeric)?,
            SortBy::Distance(field, from) => {
                let field = reader.field(field)?;
                let by = |field| ResolvedBy::Distance { field, from: *from };
                field.map_or(ResolvedBy::Nothing, by)
            }
        };
        Ok(Self { by, descending: key.descending })
    }

    fn field<T: Transaction>(
        reader: &IndexReader<'_, T>,
        field: &str,
        kind: FieldOrder,
    ) -> Result<ResolvedBy, SearchError> {
        let field = reader.field(field)?;
        Ok(field.map_or(ResolvedBy::Nothing, |field| ResolvedBy::Field { field, kind }))
    }

    pub(crate) fn compare(&self, left: &SortValue<'_>, right: &SortValue<'_>) -> Ordering {
        let order = left.compare(right);
        let has_nowhere = *left == SortValue::Nowhere || *right == SortValue::Nowhere;
        if self.descending && !has_nowhere { order.reverse() } else { order }
    }

    /// The value of an entry; `record` is its record, read by the first key that needs it.
    pub(crate) fn value<'t, T: Transaction>(
        &self,
        reader: &IndexReader<'t, T>,
        entry: u64,
        score: f32,
        record: &mut Option<RecordReader<'t>>,
    ) -> Result<SortValue<'t>, SearchError> {
        match self.by {
            ResolvedBy::Nothing => Ok(SortValue::Missing),
            ResolvedBy::Score => Ok(SortValue::Score(score)),
            ResolvedBy::Random(seed) => {
                Ok(SortValue::Random(xxh3_64_with_seed(&entry.to_le_bytes(), seed)))
            }
            ResolvedBy::Field { field, kind } => {
                value_in(read_once(reader, entry, record)?, field, kind)
            }
            ResolvedBy::Distance { field, from } => {
                let nearest = from.nearest_in(read_once(reader, entry, record)?, field)?;
                Ok(nearest.map_or(SortValue::Nowhere, |(distance, _)| {
                    SortValue::Distance(from.rounded(distance))
                }))
            }
        }
    }
}

/// The record of an entry, read by the first key that needs it.
fn read_once<'t, T: Transaction>(
    reader: &IndexReader<'t, T>,
    entry: u64,
    record: &mut Option<RecordReader<'t>>,
) -> Result<RecordReader<'t>, SearchError> {
    Ok(match record {
        Some(record) => *record,
        None => *record.insert(reader.record(entry)?),
    })
}

/// The greatest value of a field in a record.
pub(crate) fn value_in<'t>(
    record: RecordReader<'t>,
    field: FieldId,
    order: FieldOrder,
) -> Result<SortValue<'t>, SearchError> {
    let Some(mut section) = record.field(field)? else { return Ok(SortValue::Missing) };
    let mut value = SortValue::Null;
    while let Some(term) = section.next_term()? {
        match (term.kind, order) {
            (TermKind::Text, FieldOrder::Text) => value = SortValue::Text(term.text()?),
            (TermKind::Text, FieldOrder::AlphaNumeric) => {
                let own = SortValue::AlphaNumeric(term.text()?);
                if value.compare(&own).is_lt() {
                    value = own;
                }
            }
            (TermKind::Text, FieldOrder::Long | FieldOrder::Double) => value = SortValue::NoNumber,
            (kind, order) if kind == order.term_kind() => {
                let bytes = term.bytes().try_into();
                let bytes = bytes.map_err(|_| SearchError::corrupt("a number is too short"))?;
                value = SortValue::Number(bytes);
            }
            _ => {}
        }
    }
    Ok(value)
}
