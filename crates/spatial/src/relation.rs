//! Relations between two shapes.
//!
//! Edges belong to shapes, and places that are nearer than [`TOLERANCE`] are the same. On the earth
//! one of the shapes is compared in place and shifted by a turn to the left and to the right, so
//! that both sides of the antimeridian meet.

use crate::{
    covering::{boundary_covers, is_covered},
    planar::{self, Side, TOLERANCE, segment_bounds, segments_meet, side_of},
    shape::{Bounds, Coordinate, Part, Shape, TURN},
    space::Space,
    sphere::nearest_angle,
};

/// The relation that a query requires of indexed shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They are inside the query's shape.
    Within,
    /// The query's shape is inside them.
    Contains,
    /// They have a place in common with it.
    Intersects,
    /// They have no place in common with it.
    Disjoint,
}

/// A shape that many others are compared with.
#[derive(Clone, Debug)]
pub struct Prepared {
    space: Space,
    shape: Shape,
    /// Its parts and their boxes, on the earth repeated for every turn.
    parts: Vec<(Bounds, Part)>,
}

impl Prepared {
    /// Prepares a shape.
    pub fn new(space: Space, shape: Shape) -> Self {
        let turns: &[f64] = if space.is_round() { &[0.0, -1.0, 1.0, -2.0, 2.0] } else { &[0.0] };
        let mut parts = Vec::with_capacity(shape.parts.len() * turns.len());
        for part in &shape.parts {
            let Some(own) = part.bounds(&space) else { continue };
            for turn in turns {
                let by = turn * TURN;
                let bounds = Bounds { min_x: own.min_x + by, max_x: own.max_x + by, ..own };
                parts.push((bounds, part.moved(*turn)));
            }
        }
        Self { space, shape, parts }
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether the place is one of the shape.
    pub fn has_place(&self, at: Coordinate) -> bool {
        let own = Bounds::of(at);
        self.parts.iter().any(|(bounds, part)| {
            bounds.touches(&own, TOLERANCE) && has_place(&self.space, part, at)
        })
    }

    /// Whether the shapes have a place in common.
    pub fn intersects(&self, other: &Shape) -> bool {
        other
            .parts
            .iter()
            .any(|part| self.near(part).iter().any(|own| parts_meet(&self.space, part, own)))
    }

    /// Whether every place of the other is one of this. An empty shape is within nothing.
    pub fn covers(&self, other: &Shape) -> bool {
        let is_inside = |part: &Part| is_covered(&self.space, part, &self.near(part));
        !other.is_empty() && other.parts.iter().all(is_inside)
    }

    /// Whether an indexed shape is in this relation to this one.
    pub fn is_related(&self, relation: Relation, indexed: &Shape) -> bool {
        match relation {
            Relation::Within => self.covers(indexed),
            Relation::Contains => Prepared::new(self.space, indexed.clone()).covers(&self.shape),
            Relation::Intersects => self.intersects(indexed),
            Relation::Disjoint => !self.intersects(indexed),
        }
    }

    /// [`Prepared::is_related`] for a point.
    pub fn is_related_to_point(&self, relation: Relation, at: Coordinate) -> bool {
        match relation {
            Relation::Within | Relation::Intersects => self.has_place(at),
            Relation::Disjoint => !self.has_place(at),
            Relation::Contains => {
                let point = Prepared::new(self.space, Shape::point(at));
                self.has_place(at) && point.covers(&self.shape)
            }
        }
    }

    /// The parts whose boxes touch that of `part`, each where it does.
    fn near(&self, part: &Part) -> Vec<&Part> {
        let Some(bounds) = part.bounds(&self.space) else { return Vec::new() };
        let touching = |(own, _): &&(Bounds, Part)| own.touches(&bounds, TOLERANCE);
        self.parts.iter().filter(touching).map(|(_, part)| part).collect()
    }
}

/// Whether the shapes have a place in common.
pub fn intersects(space: &Space, left: &Shape, right: &Shape) -> bool {
    Prepared::new(*space, right.clone()).intersects(left)
}

/// Whether every place of `inner` is one of `outer`. An empty shape is within nothing.
pub fn within(space: &Space, inner: &Shape, outer: &Shape) -> bool {
    Prepared::new(*space, outer.clone()).covers(inner)
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
