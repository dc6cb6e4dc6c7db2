//! Tests whether some parts together cover another one.
//!
//! Edges are cut wherever they meet edges of the others; between two cuts nothing changes, so the
//! middle of a piece is representative of all of it.

use crate::{
    planar::{self, Segment, Side, TOLERANCE, along, is_same, side_of},
    relation::has_place,
    shape::{Coordinate, Part},
    space::Space,
    sphere::{farthest_angle, nearest_angle},
};

/// The distance from an edge at which its sides are probed.
const ASIDE: f64 = 1e-7;

/// Whether every place of `part` is one of the others.
pub(crate) fn is_covered(space: &Space, part: &Part, others: &[&Part]) -> bool {
    if others.iter().any(|other| is_covered_by_circle(space, part, other)) {
        return true;
    }
    match part {
        Part::Point(at) => others.iter().any(|other| has_place(space, other, *at)),
        Part::Line(line) if line.len() < 2 => {
            line.iter().all(|at| others.iter().any(|other| has_place(space, other, *at)))
        }
        Part::Line(_) => {
            let has_edges = |other: &&Part| matches!(other, Part::Line(_) | Part::Polygon(_));
            let others: Vec<&Part> = others.iter().copied().filter(has_edges).collect();
            edges_are_covered(space, part, &others)
        }
        Part::Polygon(rings) => {
            let is_area = |other: &&Part| matches!(other, Part::Polygon(_));
            let areas: Vec<&Part> = others.iter().copied().filter(is_area).collect();
            edges_are_covered(space, part, &areas) && has_no_gap(space, rings, part, &areas)
        }
        Part::Circle { center, radius } => {
            others.iter().any(|other| covers_circle(space, other, *center, *radius))
        }
    }
}

/// Whether the place is on an edge of the part.
pub(crate) fn boundary_covers(part: &Part, at: Coordinate) -> bool {
    part.segments().any(|segment| planar::is_on_segment(segment, at))
}

fn is_covered_by_circle(space: &Space, part: &Part, other: &Part) -> bool {
    let Part::Circle { center, radius } = other else { return false };
    let is_inside = |at: Coordinate| space.angle(*center, at) <= *radius;
    match part {
        Part::Point(at) => is_inside(*at),
        Part::Circle { center: own, radius: reach } => {
            space.angle(*center, *own) + reach <= *radius
        }
        Part::Line(_) | Part::Polygon(_) => {
            part.coordinates().all(is_inside)
                && part.segments().all(|segment| farthest_angle(space, *center, segment) <= *radius)
                && !has_opposite(space, part, *center, *radius)
        }
    }
}

/// Whether the part holds the place on the other side of the earth, beyond a circle's reach.
fn has_opposite(space: &Space, part: &Part, center: Coordinate, radius: f64) -> bool {
    if !space.is_round() || radius >= 180.0 {
        return false;
    }
    let opposite = Coordinate { x: center.x + 180.0, y: -center.y };
    [0.0, -1.0, 1.0].iter().any(|turn| has_place(space, &part.moved(*turn), opposite))
}

fn covers_circle(space: &Space, other: &Part, center: Coordinate, radius: f64) -> bool {
    match other {
        Part::Circle { .. } => false, // Checked above.
        Part::Polygon(_) => {
            has_place(space, other, center)
                && other
                    .segments()
                    .all(|segment| nearest_angle(space, center, segment) + TOLERANCE >= radius)
        }
        Part::Point(_) | Part::Line(_) => radius <= 0.0 && has_place(space, other, center),
    }
}

fn edges_are_covered(space: &Space, part: &Part, others: &[&Part]) -> bool {
    let edges: Vec<Segment> = others.iter().flat_map(|other| other.segments()).collect();
    let covers = |at: Coordinate| others.iter().any(|other| has_place(space, other, at));
    part.segments().all(|segment| pieces(segment, &edges).all(covers))
}

/// The middles of the pieces that the edges cut a segment into.
fn pieces(segment: Segment, edges: &[Segment]) -> impl Iterator<Item = Coordinate> + use<> {
    let mut cuts = vec![0.0, 1.0];
    for edge in edges {
        planar::cuts(segment, *edge, &mut cuts);
    }
    cuts.sort_unstable_by(f64::total_cmp);
    let count = cuts.len();
    (1..count).filter_map(move |number| {
        let (from, to) = (cuts[number - 1], cuts[number]);
        let is_piece = !is_same(along(segment, from), along(segment, to)) || count == 2;
        is_piece.then(|| along(segment, from + (to - from) / 2.0))
    })
}

/// Whether no edge of the others runs through the inside of the polygon with a gap on one of its sides.
fn has_no_gap(space: &Space, rings: &[Vec<Coordinate>], part: &Part, others: &[&Part]) -> bool {
    let edges: Vec<Segment> = part.segments().collect();
    let covers = |at: Coordinate| others.iter().any(|other| has_place(space, other, at));
    others.iter().flat_map(|other| other.segments()).all(|segment| {
        let (a, b) = segment;
        let length = (b.x - a.x).hypot(b.y - a.y);
        if length <= 0.0 {
            return true;
        }
        let (x, y) = (-(b.y - a.y) / length * ASIDE, (b.x - a.x) / length * ASIDE);
        pieces(segment, &edges).all(|at| {
            side_of(rings, at) != Side::Inside
                || (covers(Coordinate { x: at.x + x, y: at.y + y })
                    && covers(Coordinate { x: at.x - x, y: at.y - y }))
        })
    })
}
