//! Which polygons are refused: rings that are not closed, and rings that cross themselves.

use crate::{
    error::ShapeError,
    planar::{self, Segment, is_same, segment_bounds},
    shape::Coordinate,
};

/// Refuses a ring that encloses nothing in particular.
pub(crate) fn check_ring(ring: &[Coordinate]) -> Result<(), ShapeError> {
    let (Some(first), Some(last)) = (ring.first(), ring.last()) else { return Ok(()) };
    if !is_same(*first, *last) {
        return Err(ShapeError::new("points must form a closed linestring"));
    }
    let mut places: Vec<Coordinate> = Vec::with_capacity(ring.len());
    for at in ring {
        if places.last().is_none_or(|last| !is_same(*last, *at)) {
            places.push(*at);
        }
    }
    if places.len() < 4 {
        return Err(ShapeError::new("Too few distinct points in geometry component"));
    }
    match crossing(&places) {
        None => Ok(()),
        Some(Coordinate { x, y }) => {
            Err(ShapeError::new(format!("Self-intersection at or near point ({x}, {y}, NaN)")))
        }
    }
}

/// A place where two segments meet that are not neighbours. Segments are swept from left to right,
/// each compared with those that have not ended before it begins.
fn crossing(places: &[Coordinate]) -> Option<Coordinate> {
    let segments: Vec<Segment> = places.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let mut order: Vec<usize> = (0..segments.len()).collect();
    let left = |number: usize| segment_bounds(segments[number]).min_x;
    order.sort_by(|a, b| left(*a).total_cmp(&left(*b)));
    let mut open: Vec<usize> = Vec::new();
    for number in order {
        let begin = left(number);
        open.retain(|other| segment_bounds(segments[*other]).max_x >= begin);
        for other in &open {
            let meeting = match neighbours(number, *other, segments.len()) {
                true => folded(segments[number], segments[*other])
                    .or_else(|| folded(segments[*other], segments[number])),
                false => meeting(segments[number], segments[*other]),
            };
            if meeting.is_some() {
                return meeting;
            }
        }
        open.push(number);
    }
    None
}

fn neighbours(a: usize, b: usize, count: usize) -> bool {
    let between = a.abs_diff(b);
    between == 1 || between + 1 == count
}

fn meeting(a: Segment, b: Segment) -> Option<Coordinate> {
    if !planar::segments_meet(a, b) {
        return None;
    }
    let mut cuts = Vec::new();
    planar::cuts(a, b, &mut cuts);
    Some(cuts.first().map_or(b.0, |cut| planar::along(a, *cut)))
}

/// Where neighbours overlap beyond the end that they share.
fn folded(a: Segment, b: Segment) -> Option<Coordinate> {
    let mut cuts = Vec::new();
    planar::cuts(a, b, &mut cuts);
    let least = cuts.iter().copied().reduce(f64::min)?;
    let most = cuts.iter().copied().reduce(f64::max)?;
    let (from, to) = (planar::along(a, least), planar::along(a, most));
    (!is_same(from, to)).then_some(to)
}
