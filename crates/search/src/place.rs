//! Places and shapes as terms.
//!
//! ```text
//! Point, Center   number u64 big-endian · y · x       both as the bytes of a Double's term
//! Cell            level u8 · first number u64 big-endian
//! ```
//!
//! The number of a place begins with those of all cells around it, so the places of a cell are neighbours
//! in the tree of terms, and one term is enough for all levels. The exact coordinates stand in the key:
//! what a query looks at is decided without the record of the entry. A shape is entered under the few
//! cells that its boxes touch; the shape itself is in the record.

use std::{borrow::Cow, collections::BTreeSet, ops::Bound};

use spatial::{Cell, Coordinate, Grid, GridKind, Shape, Space, Units, cells_around};
use storage::Transaction;

use crate::{
    error::SearchError,
    ids::FieldId,
    reader::IndexReader,
    term::{TermKind, double_bytes, double_of},
};

/// Bytes of a place's term.
pub(crate) const BYTES: usize = 24;
/// Bytes of a cell's term.
pub(crate) const CELL_BYTES: usize = 9;
/// Cells that a shape is entered under, at most; one with more is entered under the whole surface.
const SHAPE_CELLS_MAX: usize = 64;
/// Letters of a geohash unless a definition says otherwise.
const LEVELS: u32 = 9;

/// How the places and shapes of a field are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpatialLayout {
    /// The surface of the places.
    pub space: Space,
    /// The cells that they are found by.
    pub grid: Grid,
    /// The unit of distances.
    pub units: Units,
    /// Whether only the bounding boxes of shapes count, both of stored ones and of those in
    /// queries.
    pub has_boxes_only: bool,
}

impl SpatialLayout {
    /// A layout whose grid covers the whole surface.
    pub fn new(space: Space, kind: GridKind, levels: u32, units: Units) -> Self {
        let grid = Grid::new(space.bounds(), kind, levels);
        Self { space, grid, units, has_boxes_only: false }
    }

    /// The part of a shape that is compared.
    pub fn shape<'s>(&self, shape: &'s Shape) -> Cow<'s, Shape> {
        if self.has_boxes_only {
            Cow::Owned(shape.boxed(&self.space))
        } else {
            Cow::Borrowed(shape)
        }
    }
}

impl Default for SpatialLayout {
    fn default() -> Self {
        Self::new(Space::Geography, GridKind::Geohash, LEVELS, Units::Kilometers)
    }
}

pub(crate) fn bytes_of(grid: &Grid, at: Coordinate) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&grid.number(at).to_be_bytes());
    bytes[8..16].copy_from_slice(&double_bytes(at.y));
    bytes[16..].copy_from_slice(&double_bytes(at.x));
    bytes
}

/// The number at the start of a place's term or of the rest of a cell's term.
pub(crate) fn number_of(bytes: &[u8]) -> Result<u64, SearchError> {
    match bytes.first_chunk() {
        Some(number) => Ok(u64::from_be_bytes(*number)),
        None => Err(SearchError::corrupt("the term of a place is too short")),
    }
}

pub(crate) fn place_of(bytes: &[u8]) -> Result<Coordinate, SearchError> {
    if bytes.len() != BYTES {
        return Err(SearchError::corrupt("the term of a place has a wrong length"));
    }
    Ok(Coordinate { x: double_of(&bytes[16..])?, y: double_of(&bytes[8..16])? })
}

pub(crate) fn cell_bytes(cell: Cell) -> [u8; CELL_BYTES] {
    let mut bytes = [0; CELL_BYTES];
    bytes[0] = cell.level;
    bytes[1..].copy_from_slice(&cell.number.to_be_bytes());
    bytes
}

/// The cells that a shape is entered under, each once.
pub(crate) fn cells_of(layout: &SpatialLayout, shape: &Shape) -> Vec<Cell> {
    let boxes = shape.boxes(&layout.space);
    let mut cells = Vec::new();
    for bounds in &boxes {
        cells.extend(cells_around(&layout.grid, bounds));
        cells.sort_unstable();
        cells.dedup();
        if cells.len() > SHAPE_CELLS_MAX {
            return vec![Cell { level: 0, number: 0 }];
        }
    }
    cells
}

/// The names of all cells around the places, ascending.
pub fn cell_names(layout: &SpatialLayout, places: &[Coordinate]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for at in places {
        let name = layout.grid.name(layout.grid.number(*at));
        names.extend((1..=name.len()).map(|letters| name[..letters].to_owned()));
    }
    names
}

impl<T: Transaction> IndexReader<'_, T> {
    /// The names of the cells around a field's places, ascending: up to `limit` after the one named.
    pub fn cell_names(
        &self,
        field: FieldId,
        layout: &SpatialLayout,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, SearchError> {
        let grid = &layout.grid;
        let mut names = Vec::new();
        if grid.name_letters() == 0 {
            return Ok(names);
        }
        let first = grid.first_number_at(after).to_be_bytes();
        let mut scan = self.scan_terms(field, TermKind::Point, Bound::Included(&first))?;
        // Names shared with the previous place are emitted only once.
        let mut last = String::new();
        while let Some((bytes, _)) = scan.next()? {
            let name = grid.name(number_of(bytes)?);
            let shared = name.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
            for letters in shared + 1..=name.len() {
                if names.len() >= limit {
                    return Ok(names);
                }
                if &name[..letters] > after {
                    names.push(name[..letters].to_owned());
                }
            }
            last = name;
        }
        Ok(names)
    }
}
