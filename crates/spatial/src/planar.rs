//! Points and segments on a plane.

use crate::shape::{Bounds, Coordinate};

/// Places that are nearer to each other are the same: a tenth of a millimetre on the earth.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// Two ends.
pub(crate) type Segment = (Coordinate, Coordinate);

/// Where a place is, relative to a polygon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Inside,
    Boundary,
    Outside,
}

/// The point at the fraction `t` of a segment.
pub(crate) fn along((a, b): Segment, t: f64) -> Coordinate {
    Coordinate { x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * t }
}

pub(crate) fn is_same(a: Coordinate, b: Coordinate) -> bool {
    (a.x - b.x).abs() <= TOLERANCE && (a.y - b.y).abs() <= TOLERANCE
}

pub(crate) fn segment_bounds((a, b): Segment) -> Bounds {
    Bounds::of(a).union(Bounds::of(b))
}

/// The point of the segment that is nearest to `at`, as a fraction of its length.
pub(crate) fn nearest_on((a, b): Segment, at: Coordinate) -> f64 {
    let (x, y) = (b.x - a.x, b.y - a.y);
    let length = x * x + y * y;
    if length <= 0.0 {
        return 0.0;
    }
    (((at.x - a.x) * x + (at.y - a.y) * y) / length).clamp(0.0, 1.0)
}

pub(crate) fn is_on_segment(segment: Segment, at: Coordinate) -> bool {
    let bounds = segment_bounds(segment);
    bounds.touches(&Bounds::of(at), TOLERANCE)
        && is_near(along(segment, nearest_on(segment, at)), at)
}

fn is_near(a: Coordinate, b: Coordinate) -> bool {
    let (x, y) = (a.x - b.x, a.y - b.y);
    x * x + y * y <= TOLERANCE * TOLERANCE
}

/// Where the place is, relative to the area enclosed by the rings.
pub(crate) fn side_of(rings: &[Vec<Coordinate>], at: Coordinate) -> Side {
    let mut inside = false;
    for ring in rings {
        for pair in ring.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if is_on_segment((a, b), at) {
                return Side::Boundary;
            }
            let is_across = (a.y > at.y) != (b.y > at.y);
            if is_across && at.x < a.x + (b.x - a.x) * ((at.y - a.y) / (b.y - a.y)) {
                inside = !inside;
            }
        }
    }
    if inside { Side::Inside } else { Side::Outside }
}

/// Twice the area of the triangle, positive when it turns left.
fn turn(a: Coordinate, b: Coordinate, c: Coordinate) -> f64 {
    (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)
}

/// Whether two segments have a place in common.
pub(crate) fn segments_meet(left: Segment, right: Segment) -> bool {
    if !segment_bounds(left).touches(&segment_bounds(right), TOLERANCE) {
        return false;
    }
    let ((a, b), (c, d)) = (left, right);
    let crosses = (turn(a, b, c) > 0.0) != (turn(a, b, d) > 0.0)
        && (turn(c, d, a) > 0.0) != (turn(c, d, b) > 0.0)
        && turn(a, b, c) != 0.0
        && turn(c, d, a) != 0.0;
    crosses
        || is_on_segment(left, c)
        || is_on_segment(left, d)
        || is_on_segment(right, a)
        || is_on_segment(right, b)
}

/// Adds the fractions of `segment` at which it meets `other`; both ends of the overlap when they
/// are collinear.
pub(crate) fn cuts(segment: Segment, other: Segment, cuts: &mut Vec<f64>) {
    if !segment_bounds(segment).touches(&segment_bounds(other), TOLERANCE) {
        return;
    }
    let ((a, b), (c, d)) = (segment, other);
    for end in [c, d] {
        if is_on_segment(segment, end) {
            cuts.push(nearest_on(segment, end));
        }
    }
    let (from_a, from_b) = (turn(c, d, a), turn(c, d, b));
    if (from_a > 0.0) != (from_b > 0.0) && from_a != from_b {
        let t = from_a / (from_a - from_b);
        if (0.0..=1.0).contains(&t) && is_on_segment(other, along(segment, t)) {
            cuts.push(t);
        }
    }
}
