//! Boosts that entries were indexed with.
//!
//! ```text
//! tree SearchBoosts   entry u64 big-endian -> (field u16 · boost f32) …     little-endian, ascending
//! ```
//!
//! Field 0 is the whole entry. Only entries whose boost is not 1 are in the tree, so an index without
//! boosts has an empty one and its queries look nothing up. What is boosted is found as before; its
//! scores by terms are multiplied.

use storage::Transaction;

use crate::{
    cursor::{BoxedCursor, Cursor},
    error::SearchError,
    ids::FieldId,
    term::TermKind,
    trees,
    varint::ByteReader,
};

/// The greatest boost of a field or an entry: products of many stay finite.
pub const BOOST_MAX: f32 = 1e9;

/// A boost that can be stored: a negative one or NaN counts as 0.
pub(crate) fn sound(boost: f64) -> f32 {
    boost.max(0.0).min(f64::from(BOOST_MAX)) as f32
}

/// The bytes of an entry's boosts, which are ascending by field; `None` when all are 1.
pub(crate) fn write(boosts: impl Iterator<Item = (FieldId, f32)>) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    for (field, boost) in boosts.filter(|(_, boost)| *boost != 1.0) {
        bytes.extend(field.0.to_le_bytes());
        bytes.extend(boost.to_le_bytes());
    }
    (!bytes.is_empty()).then(|| bytes.into_boxed_slice())
}

/// Calls `each` with the boosts of an entry.
pub(crate) fn read(
    bytes: &[u8],
    mut each: impl FnMut(FieldId, f32) -> Result<(), SearchError>,
) -> Result<(), SearchError> {
    let mut reader = ByteReader::new(bytes);
    while !reader.is_empty() {
        let field = FieldId(u16::from_le_bytes(reader.array()?));
        let boost = f32::from_le_bytes(reader.array()?);
        if !(0.0..=BOOST_MAX).contains(&boost) {
            return Err(SearchError::corrupt("an entry has an impossible boost"));
        }
        each(field, boost)?;
    }
    Ok(())
}

/// Whether boosts apply to terms of that kind: to texts and null, in all fields but `id()`.
pub(crate) fn counts_for(field: FieldId, kind: TermKind) -> bool {
    matches!(kind, TermKind::Text | TermKind::Null) && field != FieldId::DOCUMENT_ID
}

/// What the scores of an entry by terms of the field are multiplied by.
pub(crate) fn boost_of(
    tx: &impl Transaction,
    entry: u64,
    field: FieldId,
) -> Result<f32, SearchError> {
    let mut product = 1.0;
    if let Some(bytes) = tx.tree(&trees::BOOSTS)?.get(&entry.to_be_bytes())? {
        read(bytes, |of, boost| {
            if of == field || of == FieldId::DOCUMENT_ID {
                product *= boost;
            }
            Ok(())
        })?;
    }
    Ok(product)
}

/// The entries of a cursor, their scores multiplied by the boosts they have in a field.
pub(crate) struct BoostedCursor<'c, T> {
    inner: BoxedCursor<'c>,
    tx: &'c T,
    field: FieldId,
}

impl<'c, T: Transaction> BoostedCursor<'c, T> {
    pub(crate) fn new(inner: BoxedCursor<'c>, tx: &'c T, field: FieldId) -> Self {
        Self { inner, tx, field }
    }
}

impl<T: Transaction> Cursor for BoostedCursor<'_, T> {
    fn current(&self) -> u64 {
        self.inner.current()
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        self.inner.advance()
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        self.inner.seek(target)
    }

    fn estimate(&self) -> u64 {
        self.inner.estimate()
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(self.inner.score()? * boost_of(self.tx, self.inner.current(), self.field)?)
    }
}
