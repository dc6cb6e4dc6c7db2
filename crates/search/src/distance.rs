//! Distances of entries from a place.

use spatial::Coordinate;
use storage::Transaction;

use crate::{
    error::SearchError,
    ids::{EntryId, FieldId},
    place::{self, SpatialLayout},
    reader::IndexReader,
    record::RecordReader,
    term::TermKind,
};

/// Where distances are measured from, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceFrom {
    /// The position from which distances are measured.
    pub at: Coordinate,
    /// How the field stores places.
    pub layout: SpatialLayout,
    /// Distances are cut to multiples of this before they are compared; 0 for as they are.
    pub round_to: f64,
}

/// The place of an entry, and how far away it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    /// The nearest of the entry's places; the middle of a shape.
    pub at: Coordinate,
    /// The distance, not cut.
    pub distance: f64,
}

impl DistanceFrom {
    /// The distance as it is compared.
    pub(crate) fn rounded(&self, distance: f64) -> f64 {
        if self.round_to > 0.0 { distance - distance % self.round_to } else { distance }
    }

    pub(crate) fn distance_to(&self, at: Coordinate) -> f64 {
        self.layout.space.distance(self.at, at, self.layout.units)
    }

    /// The distance to the nearest place of the field, and that place.
    pub(crate) fn nearest_in(
        &self,
        record: RecordReader<'_>,
        field: FieldId,
    ) -> Result<Option<(f64, Coordinate)>, SearchError> {
        let Some(mut section) = record.field(field)? else { return Ok(None) };
        let mut nearest: Option<(f64, Coordinate)> = None;
        while let Some(term) = section.next_term()? {
            if matches!(term.kind, TermKind::Point | TermKind::Center) {
                let at = place::place_of(term.bytes())?;
                let distance = self.distance_to(at);
                if nearest.is_none_or(|(least, _)| distance < least) {
                    nearest = Some((distance, at));
                }
            }
        }
        Ok(nearest)
    }
}

impl<T: Transaction> IndexReader<'_, T> {
    /// The location of an entry relative to a place; `None` without a place in the field.
    pub fn location(
        &self,
        entry: EntryId,
        field: FieldId,
        from: &DistanceFrom,
    ) -> Result<Option<Location>, SearchError> {
        let nearest = from.nearest_in(self.record(entry.0)?, field)?;
        Ok(nearest.map(|(distance, at)| Location { at, distance }))
    }
}
