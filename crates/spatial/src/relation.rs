//! What two shapes have to do with each other.
//!
//! Edges belong to shapes, and places that are nearer than [`TOLERANCE`] are the same. On the earth one
//! of the shapes is looked at where it is and a turn to the left and to the right, so that both sides of
//! the antimeridian meet.

use crate::{
    covering::{boundary_covers, is_covered},
    planar::{self, Side, TOLERANCE, segment_bounds, segments_meet, side_of},
    shape::{Coordinate, Part, Shape},
    space::Space,
    sphere::nearest_angle,
};

/// What a query asks of the shapes of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They lie inside of the query's shape.
    Within,
    /// The query's shape lies inside of them.
    Contains,
    /// They have a place in common with it.
    Intersects,
    /// They have none.
    Disjoint,
}

impl Relation {
    /// Whether `indexed` stands so to `asked`.
    pub fn holds(self, space: &Space, indexed: &Shape, asked: &Shape) -> bool {
        match self {
            Relation::Within => within(space, indexed, asked),
            Relation::Contains => within(space, asked, indexed),
            Relation::Intersects => intersects(space, indexed, asked),
            Relation::Disjoint => !intersects(space, indexed, asked),
        }
    }
}

/// Whether the shapes have a place in common.
pub fn intersects(space: &Space, left: &Shape, right: &Shape) -> bool {
    left.parts.iter().any(|part| {
        let near = parts_near(space, right, part);
        near.iter().any(|other| parts_meet(space, part, other))
    })
}

/// Whether every place of `inner` is one of `outer`. Nowhere is within nothing.
pub fn within(space: &Space, inner: &Shape, outer: &Shape) -> bool {
    !inner.is_empty()
        && inner.parts.iter().all(|part| is_covered(space, part, &parts_near(space, outer, part)))
}

/// The parts of a shape whose boxes touch that of `part`, each moved to where it does.
fn parts_near(space: &Space, shape: &Shape, part: &Part) -> Vec<Part> {
    let Some(bounds) = part.bounds(space) else { return Vec::new() };
    let turns: &[f64] = if space.is_round() { &[0.0, -1.0, 1.0, -2.0, 2.0] } else { &[0.0] };
    let mut near = Vec::new();
    for other in &shape.parts {
        let Some(own) = other.bounds(space) else { continue };
        for turn in turns {
            let by = turn * crate::shape::TURN;
            let mut moved = own;
            moved.min_x += by;
            moved.max_x += by;
            if moved.touches(&bounds, TOLERANCE) {
                near.push(if *turn == 0.0 { other.clone() } else { other.moved(*turn) });
            }
        }
    }
    near
}

/// Whether the place is one of the part.
pub(crate) fn has_place(space: &Space, part: &Part, at: Coordinate) -> bool {
    match part {
        Part::Point(own) => planar::is_same(*own, at),
        Part::Line(_) => {
            boundary_covers(part, at) || part.coordinates().any(|own| planar::is_same(own, at))
        }
        Part::Polygon(rings) => side_of(rings, at) != Side::Outside,
        Part::Circle { center, radius } => space.angle(*center, at) <= *radius,
    }
}

fn parts_meet(space: &Space, left: &Part, right: &Part) -> bool {
    match (left, right) {
        (Part::Point(at), other) | (other, Part::Point(at)) => has_place(space, other, *at),
        (Part::Circle { center, radius }, other) | (other, Part::Circle { center, radius }) => {
            circle_meets(space, *center, *radius, other)
        }
        _ => {
            any_segments_meet(left, right)
                || starts_inside(space, left, right)
                || starts_inside(space, right, left)
        }
    }
}

fn circle_meets(space: &Space, center: Coordinate, radius: f64, other: &Part) -> bool {
    match other {
        Part::Circle { center: own, radius: reach } => space.angle(center, *own) <= radius + reach,
        _ => {
            has_place(space, other, center)
                || other.coordinates().any(|at| space.angle(center, at) <= radius)
                || other.segments().any(|segment| nearest_angle(space, center, segment) <= radius)
        }
    }
}

fn any_segments_meet(left: &Part, right: &Part) -> bool {
    let others: Vec<_> = right.segments().collect();
    left.segments().any(|own| {
        let bounds = segment_bounds(own);
        others.iter().any(|other| {
            bounds.touches(&segment_bounds(*other), TOLERANCE) && segments_meet(own, *other)
        })
    })
}

/// Whether the first place of `inner` is one of `outer`; all are when no edges meet.
fn starts_inside(space: &Space, inner: &Part, outer: &Part) -> bool {
    inner.coordinates().next().is_some_and(|at| has_place(space, outer, at))
}
