//! Which cells a box touches: as ranges of numbers to look through, and as the few cells that a shape is
//! entered under.

use crate::{grid::Grid, shape::Bounds};

/// Ranges of numbers that a box is cut into, at most.
const RANGES_MAX: usize = 48;
/// Cells that a shape is entered under, at most, for each of its boxes.
const CELLS_MAX: u64 = 16;
/// Levels of four.
const LEVELS: u32 = 32;

/// Numbers from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRange {
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
}

/// A cell: all numbers that begin as `number` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// From 0, the whole surface, to 32.
    pub level: u8,
    /// The least number in it.
    pub number: u64,
}

impl Cell {
    /// Its numbers.
    pub fn range(self) -> CellRange {
        let bits = u32::from(self.level) * 2;
        let inside = if bits >= 64 { 0 } else { u64::MAX >> bits };
        CellRange { first: self.number & !inside, last: self.number | inside }
    }

    /// The four cells in it; only itself at the finest level.
    pub fn quarters(self) -> impl Iterator<Item = Cell> {
        let level = self.level + 1;
        let count = if u32::from(self.level) < LEVELS { 4 } else { 0 };
        (0..count).map(move |quarter: u64| {
            let shift = 64 - u32::from(level) * 2;
            Cell { level, number: self.number | (quarter << shift) }
        })
    }
}

/// Ascending, disjoint ranges that together contain the number of every place in the boxes, and
/// possibly others.
pub fn ranges_of(grid: &Grid, boxes: &[Bounds]) -> Vec<CellRange> {
    let mut ranges = Vec::new();
    for bounds in boxes {
        ranges_of_box(grid, bounds, &mut ranges);
    }
    ranges.sort_unstable_by_key(|range| range.first);
    let mut joined: Vec<CellRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Cuts cells that the box touches in part, the largest first, until there are enough.
fn ranges_of_box(grid: &Grid, bounds: &Bounds, ranges: &mut Vec<CellRange>) {
    let steps = grid.steps_of(bounds);
    let mut open = std::collections::VecDeque::from([Cell { level: 0, number: 0 }]);
    let mut done = 0;
    while let Some(cell) = open.pop_front() {
        let is_whole = is_inside(grid, cell, steps);
        if is_whole || done + open.len() >= RANGES_MAX || u32::from(cell.level) == LEVELS {
            ranges.push(cell.range());
            done += 1;
            continue;
        }
        open.extend(cell.quarters().filter(|quarter| touches(grid, *quarter, steps)));
    }
}

type Steps = [(u32, u32); 2];

/// The steps that the cell spans.
fn steps_of_cell(grid: &Grid, cell: Cell) -> Steps {
    let CellRange { first, last } = cell.range();
    let ((ax, ay), (bx, by)) = (grid.steps_at(first), grid.steps_at(last));
    [(ax.min(bx), ax.max(bx)), (ay.min(by), ay.max(by))]
}

fn touches(grid: &Grid, cell: Cell, steps: Steps) -> bool {
    let own = steps_of_cell(grid, cell);
    own.iter().zip(&steps).all(|(own, wanted)| own.0 <= wanted.1 && wanted.0 <= own.1)
}

fn is_inside(grid: &Grid, cell: Cell, steps: Steps) -> bool {
    let own = steps_of_cell(grid, cell);
    own.iter().zip(&steps).all(|(own, wanted)| wanted.0 <= own.0 && own.1 <= wanted.1)
}

/// The cells of the finest level at which a box touches only a few.
pub fn cells_around(grid: &Grid, bounds: &Bounds) -> Vec<Cell> {
    let steps = grid.steps_of(bounds);
    let count_at = |level: u32| {
        steps
            .iter()
            .map(|(low, high)| {
                let shift = LEVELS - level;
                let side = |step: u32| u64::from(step) >> shift;
                side(*high) - side(*low) + 1
            })
            .fold(1u64, u64::saturating_mul)
    };
    let level = (0..=LEVELS).rev().find(|level| count_at(*level) <= CELLS_MAX).unwrap_or(0);
    let mut cells = vec![Cell { level: 0, number: 0 }];
    for _ in 0..level {
        let quarters = cells.iter().flat_map(|cell| cell.quarters());
        cells = quarters.filter(|cell| touches(grid, *cell, steps)).collect();
    }
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Coordinate, GridKind, Space};

    fn bounds() -> impl Strategy<Value = Bounds> {
        let side = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f64, 0.0..1e-6];
        (-180.0..=180.0, -90.0..=90.0, side.clone(), side).prop_map(
            |(min_x, min_y, x, y): (f64, f64, f64, f64)| Bounds {
                min_x,
                max_x: min_x + (180.0 - min_x) * x,
                min_y,
                max_y: min_y + (90.0 - min_y) * y,
            },
        )
    }

    proptest! {
        #[test]
        fn ranges_and_cells_hold_every_place_of_the_box(
            bounds in bounds(), x in 0.0..=1.0f64, y in 0.0..=1.0f64, quad: bool,
        ) {
            let kind = if quad { GridKind::Quad } else { GridKind::Geohash };
            let grid = Grid::new(Space::Geography.bounds(), kind, 9);
            let at = Coordinate {
                x: bounds.min_x + (bounds.max_x - bounds.min_x) * x,
                y: bounds.min_y + (bounds.max_y - bounds.min_y) * y,
            };
            let number = grid.number(at);
            let holds = |range: &CellRange| (range.first..=range.last).contains(&number);
            let ranges = ranges_of(&grid, &[bounds]);
            prop_assert!(ranges.len() <= RANGES_MAX + 4);
            prop_assert!(ranges.iter().any(holds), "{ranges:?}");
            prop_assert!(ranges.is_sorted_by(|left, right| left.last < right.first));
            let cells = cells_around(&grid, &bounds);
            prop_assert!(!cells.is_empty() && cells.len() as u64 <= CELLS_MAX);
            prop_assert!(cells.iter().any(|cell| holds(&cell.range())), "{cells:?}");
        }
    }
}
