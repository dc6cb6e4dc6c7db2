//! spatial: shapes on the earth or on a plane, their relations, and the cells through which an
//! index finds them. Pure functions; it knows neither indexes nor queries.
//!
//! A shape is a list of parts: points, lines, polygons, circles. On the earth, x is a longitude and
//! y a latitude in degrees; lines are straight in them, as on a plate carrée map, and circles are
//! circles on the sphere.
//!
//! | file | what |
//! |---|---|
//! | `space` | the surface, its bounds, its units and distances |
//! | `shape`, `shape_bytes` | parts, their boxes and centers; how they are stored |
//! | `well_known_text` | shapes as clients write them |
//! | `polygon` | which polygons are refused |
//! | `planar` | points and segments on a plane |
//! | `sphere` | distances to segments and boxes, on either surface |
//! | `relation`, `covering` | within, contains, intersects, disjoint |
//! | `grid`, `cells` | cells, their numbers and names; which of them a box touches |
#![forbid(unsafe_code)]

mod cells;
mod covering;
mod error;
mod grid;
mod planar;
mod polygon;
mod relation;
mod shape;
mod shape_bytes;
mod space;
mod sphere;
mod well_known_text;

pub use crate::{
    cells::{Cell, CellRange, cells_around, ranges_of},
    error::ShapeError,
    grid::{Grid, GridKind},
    relation::{Prepared, Relation, intersects, within},
    shape::{Bounds, Coordinate, POINTS_MAX, Part, Shape},
    space::{Space, Units},
    sphere::{farthest_in_box, nearest_in_box},
    well_known_text::parse_shape,
};
