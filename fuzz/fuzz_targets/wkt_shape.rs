//! Any text is either rejected as a shape, or the shape is unchanged by encoding and decoding,
//! intersects itself, lies within its own boxes and cells, and is compared with others in bounded
//! time.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spatial::{
    Bounds, Coordinate, Grid, GridKind, Prepared, Relation, Shape, Space, Units, cells_around,
    intersects, parse_shape, ranges_of,
};

const PLANE: Space =
    Space::Cartesian(Bounds { min_x: -100.0, max_x: 100.0, min_y: -100.0, max_y: 100.0 });

/// The shapes with which every shape is compared.
static OTHERS: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    ["POINT(20 10)", "LINESTRING(0 0, 10 10)", "ENVELOPE(-5, 25, 15, -5)", "CIRCLE(20 10 d=50)"]
        .iter()
        .map(|text| parse_shape(text, &PLANE, Units::Kilometers).expect("is a shape"))
        .collect()
});

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    for space in [Space::Geography, PLANE] {
        if let Ok(shape) = parse_shape(text, &space, Units::Kilometers) {
            check(&space, &shape);
        }
    }
});

fn check(space: &Space, shape: &Shape) {
    assert_eq!(Shape::of_bytes(&shape.to_bytes()).as_ref(), Some(shape));
    assert_eq!(intersects(space, shape, shape), !shape.is_empty());
    assert_eq!(shape.center(space).is_none(), shape.is_empty());
    let grid = Grid::new(space.bounds(), GridKind::Geohash, 9);
    let boxes = shape.boxes(space);
    let ranges = ranges_of(&grid, &boxes);
    if let Some(Coordinate { x, y }) = shape.as_point() {
        let number = grid.number(Coordinate { x, y });
        assert!(ranges.iter().any(|range| (range.first..=range.last).contains(&number)));
    }
    boxes.iter().for_each(|bounds| assert!(!cells_around(&grid, bounds).is_empty()));
    let prepared = Prepared::new(*space, shape.clone());
    for other in OTHERS.iter() {
        let meets = prepared.is_related(Relation::Intersects, other);
        assert_eq!(prepared.is_related(Relation::Disjoint, other), !meets);
        // A shape within another one also intersects it.
        assert!(meets || !prepared.is_related(Relation::Within, other));
        assert!(meets || !prepared.is_related(Relation::Contains, other));
    }
}
