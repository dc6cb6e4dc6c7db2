//! Entries whose places and shapes are in a certain relation to a shape.
//!
//! The candidates are in the cells that the shape's boxes touch, and each is compared exactly:
//! places by the coordinates in their terms, shapes by those in the records.

use std::ops::Bound;

use spatial::{CellRange, Prepared, Relation, Shape, ranges_of};
use storage::Transaction;

use crate::{
    entry_set::EntrySet,
    error::SearchError,
    ids::FieldId,
    place::{self, CELL_BYTES, SpatialLayout},
    reader::IndexReader,
    term::TermKind,
};

/// A search by shape in a field.
pub(crate) struct SpatialSearch<'r, 't, T> {
    reader: &'r IndexReader<'t, T>,
    field: FieldId,
    shape: Prepared,
    ranges: Vec<CellRange>,
}

impl<'r, 't, T: Transaction> SpatialSearch<'r, 't, T> {
    pub(crate) fn new(
        reader: &'r IndexReader<'t, T>,
        field: FieldId,
        layout: &SpatialLayout,
        shape: &Shape,
    ) -> Self {
        let ranges = ranges_of(&layout.grid, &shape.boxes(&layout.space));
        Self { reader, field, shape: Prepared::new(layout.space, shape.clone()), ranges }
    }

    /// The entries with a value in this relation to the shape.
    pub(crate) fn entries(&self, relation: Relation) -> Result<EntrySet, SearchError> {
        let mut found = EntrySet::new(self.reader.state.next_entry);
        if relation != Relation::Disjoint {
            self.add_places(relation, &mut found)?;
            self.add_shapes(relation, &mut found)?;
            return Ok(found);
        }
        if let Some(all) = self.reader.list(self.field, TermKind::Exists, &[])? {
            all.insert_into(self.reader.tx, &mut found)?;
        }
        self.entries(Relation::Intersects)?.iter().for_each(|entry| found.remove(entry));
        Ok(found)
    }

    fn add_places(&self, relation: Relation, found: &mut EntrySet) -> Result<(), SearchError> {
        for range in &self.ranges {
            let first = range.first.to_be_bytes();
            let from = Bound::Included(&first[..]);
            let mut scan = self.reader.scan_terms(self.field, TermKind::Point, from)?;
            while let Some((bytes, list)) = scan.next()? {
                if place::number_of(bytes)? > range.last {
                    break;
                }
                if self.shape.is_related_to_point(relation, place::place_of(bytes)?) {
                    list.insert_into(self.reader.tx, found)?;
                }
            }
        }
        Ok(())
    }

    fn add_shapes(&self, relation: Relation, found: &mut EntrySet) -> Result<(), SearchError> {
        let mut candidates = EntrySet::new(self.reader.state.next_entry);
        let mut level = 0;
        // Only levels at which some shape is stored are searched.
        while let Some(next) = self.level_from(level)? {
            self.add_candidates(next, &mut candidates)?;
            match next.checked_add(1) {
                Some(above) => level = above,
                None => break,
            }
        }
        for entry in candidates.iter() {
            self.reader.interrupt.check()?;
            if !found.contains(entry) && self.has_related_shape(relation, entry)? {
                found.insert(entry);
            }
        }
        Ok(())
    }

    /// The first level at or above `level` that cells of the field have.
    fn level_from(&self, level: u8) -> Result<Option<u8>, SearchError> {
        let from = Bound::Included(&[level][..]);
        let mut scan = self.reader.scan_terms(self.field, TermKind::Cell, from)?;
        Ok(scan.next()?.and_then(|(bytes, _)| bytes.first().copied()))
    }

    fn add_candidates(&self, level: u8, candidates: &mut EntrySet) -> Result<(), SearchError> {
        let inside = u64::MAX.checked_shr(u32::from(level) * 2).unwrap_or(0);
        for range in &self.ranges {
            let mut first = [0; CELL_BYTES];
            first[0] = level;
            first[1..].copy_from_slice(&(range.first & !inside).to_be_bytes());
            let from = Bound::Included(&first[..]);
            let mut scan = self.reader.scan_terms(self.field, TermKind::Cell, from)?;
            while let Some((bytes, list)) = scan.next()? {
                let [own, rest @ ..] = bytes else { break };
                if *own != level || place::number_of(rest)? > range.last {
                    break;
                }
                list.insert_into(self.reader.tx, candidates)?;
            }
        }
        Ok(())
    }

    fn has_related_shape(&self, relation: Relation, entry: u64) -> Result<bool, SearchError> {
        let Some(mut section) = self.reader.record(entry)?.field(self.field)? else {
            return Ok(false);
        };
        while let Some(term) = section.next_term()? {
            if term.kind == TermKind::Shape {
                let shape = Shape::of_bytes(term.bytes())
                    .ok_or_else(|| SearchError::corrupt("a record holds a broken shape"))?;
                if self.shape.is_related(relation, &shape) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
