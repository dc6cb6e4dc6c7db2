//! A grid: cells within cells, and a number for every place that begins with those of its cells.
//!
//! ```text
//! number   u64: 32 times one bit of each axis, the highest first
//!            Geohash   x, then y; five bits are a letter
//!            Quad      y from the top, then x; two bits are a letter from A to D
//! ```

use crate::shape::{Bounds, Coordinate};

/// The letters of geohashes, ascending.
const GEOHASH_LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
const QUAD_LETTERS: &[u8; 4] = b"ABCD";
/// Bits of one axis.
const AXIS_BITS: u32 = 32;
const STEPS: f64 = (1u64 << AXIS_BITS) as f64;

/// How cells are divided and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridKind {
    /// Into 32 at each level.
    #[default]
    Geohash,
    /// Into four at each level.
    Quad,
    /// Into four, without names.
    Unnamed,
}

/// The cells of a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    bounds: Bounds,
    kind: GridKind,
    levels: u32,
}

impl Grid {
    /// A grid over `bounds` whose cells have names of up to `levels` letters.
    pub fn new(bounds: Bounds, kind: GridKind, levels: u32) -> Self {
        Self { bounds, kind, levels: levels.min(64 / Self::letter_bits_of(kind)) }
    }

    fn letter_bits_of(kind: GridKind) -> u32 {
        match kind {
            GridKind::Geohash => 5,
            GridKind::Quad | GridKind::Unnamed => 2,
        }
    }

    /// The number of the finest cell that has the place.
    pub fn number(&self, at: Coordinate) -> u64 {
        let (x, y) = (
            self.step(at.x, self.bounds.min_x, self.bounds.max_x),
            self.step(at.y, self.bounds.min_y, self.bounds.max_y),
        );
        self.number_of_steps(x, y)
    }

    /// Which of 2³² steps along an axis a value is on.
    fn step(&self, value: f64, low: f64, high: f64) -> u32 {
        let steps = (value - low) / (high - low) * STEPS;
        // Casts to integers stop at their ends.
        match self.kind {
            // An edge belongs to the cell below it: the place 0, 0 is in `7`.
            GridKind::Geohash => (steps.ceil() - 1.0) as u32,
            GridKind::Quad | GridKind::Unnamed => steps as u32,
        }
    }

    pub(crate) fn number_of_steps(&self, x: u32, y: u32) -> u64 {
        match self.kind {
            GridKind::Geohash => (spread(x) << 1) | spread(y),
            GridKind::Quad | GridKind::Unnamed => (spread(!y) << 1) | spread(x),
        }
    }

    pub(crate) fn steps_at(&self, number: u64) -> (u32, u32) {
        match self.kind {
            GridKind::Geohash => (gather(number >> 1), gather(number)),
            GridKind::Quad | GridKind::Unnamed => (gather(number), !gather(number >> 1)),
        }
    }

    /// The steps of both axes where the box begins and ends.
    pub(crate) fn steps_of(&self, bounds: &Bounds) -> [(u32, u32); 2] {
        let own = &self.bounds;
        let x = |value| self.step(value, own.min_x, own.max_x);
        let y = |value| self.step(value, own.min_y, own.max_y);
        [(x(bounds.min_x), x(bounds.max_x)), (y(bounds.min_y), y(bounds.max_y))]
    }

    /// The box of the cell whose numbers begin with the first `bits` of `number`, a multiple of two.
    pub fn cell_bounds(&self, number: u64, bits: u32) -> Bounds {
        let inside = if bits >= 64 { 0 } else { u64::MAX >> bits };
        let (first_x, first_y) = self.steps_at(number & !inside);
        let (last_x, last_y) = self.steps_at(number | inside);
        let own = &self.bounds;
        let place = |step: f64, low: f64, high: f64| low + (high - low) * (step / STEPS);
        let low = |a: u32, b: u32| f64::from(a.min(b));
        let high = |a: u32, b: u32| f64::from(a.max(b)) + 1.0;
        Bounds {
            min_x: place(low(first_x, last_x), own.min_x, own.max_x),
            max_x: place(high(first_x, last_x), own.min_x, own.max_x),
            min_y: place(low(first_y, last_y), own.min_y, own.max_y),
            max_y: place(high(first_y, last_y), own.min_y, own.max_y),
        }
    }

    /// How many letters the name of a finest cell has; none have names when it is 0.
    pub fn name_letters(&self) -> usize {
        if self.kind == GridKind::Unnamed { 0 } else { self.levels as usize }
    }

    /// The name of the finest named cell with the number. Its beginnings are the names of the cells
    /// around it.
    pub fn name(&self, number: u64) -> String {
        let bits = Self::letter_bits_of(self.kind);
        (1..=self.name_letters() as u32)
            .map(|letter| {
                let value = (number >> (64 - letter * bits)) & ((1 << bits) - 1);
                char::from(match self.kind {
                    GridKind::Geohash => GEOHASH_LETTERS[value as usize],
                    GridKind::Quad | GridKind::Unnamed => QUAD_LETTERS[value as usize],
                })
            })
            .collect()
    }

    /// The least number whose name is not before `name`.
    pub fn first_number_at(&self, name: &str) -> u64 {
        let bits = Self::letter_bits_of(self.kind);
        let letters: &[u8] = match self.kind {
            GridKind::Geohash => GEOHASH_LETTERS,
            GridKind::Quad | GridKind::Unnamed => QUAD_LETTERS,
        };
        let mut number = 0;
        for (at, letter) in (1..=64 / bits).zip(name.bytes()) {
            let shift = 64 - at * bits;
            match letters.binary_search(&letter) {
                Ok(value) => number |= (value as u64) << shift,
                Err(value) if value < letters.len() => return number | ((value as u64) << shift),
                Err(_) => return number | (u64::MAX >> ((at - 1) * bits)),
            }
        }
        number
    }
}

/// The bits of `value`, each with a zero before it.
fn spread(value: u32) -> u64 {
    let mut value = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        value = (value | (value << shift)) & mask;
    }
    value
}

/// Every second bit of `value`, the lowest included.
fn gather(value: u64) -> u32 {
    let mut value = value & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        value = (value | (value >> shift)) & mask;
    }
    value as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Space;

    fn world(kind: GridKind, levels: u32) -> Grid {
        Grid::new(Space::Geography.bounds(), kind, levels)
    }

    #[test]
    fn names_are_those_that_were_measured() {
        let name = |grid: Grid, y, x| grid.name(grid.number(Coordinate { x, y }));
        let geohash = world(GridKind::Geohash, 9);
        for (y, x, expected) in [
            (10.0, 20.0, "s3y0zh7w1"),
            (10.5, 20.25, "s3y7sz3wg"),
            (10.04, 20.0, "s3y1p5ex1"),
            (-33.8, 151.2, "r3gx8wukx"),
            (33.8, 151.2, "xq5829h7r"),
            (0.0, 0.0, "7zzzzzzzz"),
        ] {
            assert_eq!(name(geohash, y, x), expected);
        }
        assert_eq!(name(world(GridKind::Quad, 6), 10.0, 20.0), "BCCCBB");
        assert_eq!(name(world(GridKind::Quad, 6), 33.8, 151.2), "BDBADC");
        let bounds = Bounds { min_x: 0.0, max_x: 200.0, min_y: 0.0, max_y: 100.0 };
        let quad = Grid::new(bounds, GridKind::Quad, 8);
        assert_eq!(name(quad, 10.2, 20.1), "CCCBBCAD");
        assert_eq!(name(quad, 33.8, 151.2), "DBCACAAD");
        assert_eq!(name(world(GridKind::Unnamed, 9), 1.0, 1.0), "");
    }

    fn place() -> impl Strategy<Value = Coordinate> {
        (-180.0..=180.0, -90.0..=90.0).prop_map(|(x, y)| Coordinate { x, y })
    }

    proptest! {
        #[test]
        fn cells_hold_their_places_and_names_are_ordered(
            a in place(), b in place(), quad: bool, bits in 0u32..=30,
        ) {
            let grid = world(if quad { GridKind::Quad } else { GridKind::Geohash }, 12);
            let (one, other) = (grid.number(a), grid.number(b));
            let cell = grid.cell_bounds(one, bits * 2);
            prop_assert!((cell.min_x..=cell.max_x).contains(&a.x), "{cell:?}");
            prop_assert!((cell.min_y..=cell.max_y).contains(&a.y), "{cell:?}");
            let (left, right) = (grid.name(one), grid.name(other));
            prop_assert!(one == other || left == right || one.cmp(&other) == left.cmp(&right));
            prop_assert!(grid.first_number_at(&left) <= one);
            prop_assert_eq!(grid.name(grid.first_number_at(&left)), left);
        }
    }
}
