//! The nearest and farthest distances of segments and boxes, in the unit of radii: degrees of a
//! great circle on the earth, plain distances on a plane.

use crate::{
    planar::{self, Segment, along},
    shape::{Bounds, Coordinate},
    space::Space,
};

/// On the earth a segment is divided into pieces of this many degrees: being straight in longitude
/// and latitude, a longer one may approach a place more than once.
const PIECE_DEGREES: f64 = 2.0;
/// Halvings until a nearest place is found to about 1e-9 of its piece.
const REFINEMENTS: usize = 40;

/// The least distance from `at` to a place on the segment.
pub(crate) fn nearest_angle(space: &Space, at: Coordinate, segment: Segment) -> f64 {
    match space {
        Space::Cartesian(_) => space.angle(at, along(segment, planar::nearest_on(segment, at))),
        Space::Geography => least_along(segment, |place| space.angle(at, place)),
    }
}

/// The greatest distance from `at` to a place on the segment.
pub(crate) fn farthest_angle(space: &Space, at: Coordinate, segment: Segment) -> f64 {
    match space {
        Space::Cartesian(_) => space.angle(at, segment.0).max(space.angle(at, segment.1)),
        Space::Geography => -least_along(segment, |place| -space.angle(at, place)),
    }
}

/// The least value along a segment.
fn least_along(segment: Segment, value: impl Fn(Coordinate) -> f64) -> f64 {
    let (a, b) = segment;
    let longest = (b.x - a.x).abs().max((b.y - a.y).abs());
    let pieces = (longest / PIECE_DEGREES).ceil().clamp(1.0, 1000.0);
    let at = |t: f64| value(along(segment, t.clamp(0.0, 1.0)));
    let mut best = (at(0.0), 0.0);
    for piece in 1..=pieces as usize {
        let t = piece as f64 / pieces;
        let own = at(t);
        if own < best.0 {
            best = (own, t);
        }
    }
    let (mut low, mut high) = (best.1 - 1.0 / pieces, best.1 + 1.0 / pieces);
    for _ in 0..REFINEMENTS {
        let third = (high - low) / 3.0;
        if at(low + third) < at(high - third) { high -= third } else { low += third }
    }
    best.0.min(at((low + high) / 2.0))
}

/// No place in the box is nearer to `at` than this.
pub fn nearest_in_box(space: &Space, at: Coordinate, bounds: &Bounds) -> f64 {
    let gap = |low: f64, value: f64, high: f64| (low - value).max(value - high).max(0.0);
    let y = gap(bounds.min_y, at.y, bounds.max_y);
    match space {
        Space::Cartesian(_) => gap(bounds.min_x, at.x, bounds.max_x).hypot(y),
        Space::Geography => {
            let x = [-360.0, 0.0, 360.0]
                .map(|turn| gap(bounds.min_x, at.x + turn, bounds.max_x))
                .into_iter()
                .fold(180.0, f64::min);
            y.max(angle_to_meridian(at.y, x))
        }
    }
}

/// No place in the box is farther from `at` than this.
pub fn farthest_in_box(space: &Space, at: Coordinate, bounds: &Bounds) -> f64 {
    match space {
        Space::Cartesian(_) => {
            let reach = |low: f64, value: f64, high: f64| (value - low).max(high - value);
            reach(bounds.min_x, at.x, bounds.max_x).hypot(reach(bounds.min_y, at.y, bounds.max_y))
        }
        Space::Geography => {
            let opposite = if at.x > 0.0 { at.x - 180.0 } else { at.x + 180.0 };
            180.0 - nearest_in_box(space, Coordinate { x: opposite, y: -at.y }, bounds)
        }
    }
}

/// The distance of a point at this latitude from the meridian that is `away` degrees to its side.
fn angle_to_meridian(latitude: f64, away: f64) -> f64 {
    if away >= 90.0 {
        // Across the nearer pole.
        return 90.0 - latitude.abs();
    }
    let sine = latitude.to_radians().cos() * away.to_radians().sin();
    sine.clamp(0.0, 1.0).asin().to_degrees()
}
