//! Shapes: lists of parts, their boxes and centers.
//!
//! On the earth a part that crosses the antimeridian has longitudes beyond 180: its coordinates are
//! continuous, and comparisons of two parts shift one of them by whole turns.

use crate::space::Space;

/// Coordinates of a shape, at most.
pub const POINTS_MAX: usize = 20_000;
/// A turn around the earth, in degrees.
pub(crate) const TURN: f64 = 360.0;

/// A place: longitude and latitude on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinate {
    /// From left to right; the longitude.
    pub x: f64,
    /// From bottom to top; the latitude.
    pub y: f64,
}

/// A box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least x.
    pub min_x: f64,
    /// The greatest x.
    pub max_x: f64,
    /// The least y.
    pub min_y: f64,
    /// The greatest y.
    pub max_y: f64,
}

/// One part of a shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A point.
    Point(Coordinate),
    /// Segments one after the other; at least one coordinate.
    Line(Vec<Coordinate>),
    /// Closed rings, the outer one first, the others being holes.
    Polygon(Vec<Vec<Coordinate>>),
    /// Everything up to a distance from a point.
    Circle {
        /// The point.
        center: Coordinate,
        /// The distance: an angle in degrees on the earth.
        radius: f64,
    },
}

/// A shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    pub(crate) parts: Vec<Part>,
}

impl Bounds {
    /// The box of one coordinate.
    pub(crate) fn of(at: Coordinate) -> Self {
        Self { min_x: at.x, max_x: at.x, min_y: at.y, max_y: at.y }
    }

    fn around(coordinates: impl IntoIterator<Item = Coordinate>) -> Option<Self> {
        coordinates.into_iter().map(Self::of).reduce(Self::union)
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min_x: self.min_x.min(other.min_x),
            max_x: self.max_x.max(other.max_x),
            min_y: self.min_y.min(other.min_y),
            max_y: self.max_y.max(other.max_y),
        }
    }

    /// Whether the boxes, each a little larger by `slack`, have a place in common.
    pub(crate) fn touches(&self, other: &Self, slack: f64) -> bool {
        self.min_x <= other.max_x + slack
            && other.min_x <= self.max_x + slack
            && self.min_y <= other.max_y + slack
            && other.min_y <= self.max_y + slack
    }

    fn center(&self) -> Coordinate {
        let middle = |low: f64, high: f64| low + (high - low) / 2.0;
        Coordinate { x: middle(self.min_x, self.max_x), y: middle(self.min_y, self.max_y) }
    }
}

impl Shape {
    /// A point.
    pub fn point(at: Coordinate) -> Self {
        Self { parts: vec![Part::Point(at)] }
    }

    /// A circle; the radius is that of [`Space::radius`] and not negative.
    pub fn circle(center: Coordinate, radius: f64) -> Self {
        Self { parts: vec![Part::Circle { center, radius }] }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The place, when it is a single point.
    pub fn as_point(&self) -> Option<Coordinate> {
        match self.parts.as_slice() {
            [Part::Point(at)] => Some(*at),
            _ => None,
        }
    }

    /// The place that distances are measured from: the centroid of a polygon, the middle of any other
    /// shape's box.
    pub fn center(&self, space: &Space) -> Option<Coordinate> {
        let center = match self.parts.as_slice() {
            [Part::Point(at)] | [Part::Circle { center: at, .. }] => *at,
            [Part::Polygon(rings)] => centroid(rings)?,
            parts => {
                let boxes = parts.iter().filter_map(|part| part.bounds(space));
                boxes.reduce(Bounds::union)?.center()
            }
        };
        Some(Coordinate { x: into_the_turn(center.x, space), y: center.y })
    }

    /// The least box around it, as a shape: a line or a point where it has no area.
    pub fn boxed(&self, space: &Space) -> Shape {
        let boxes = self.parts.iter().filter_map(|part| part.bounds(space));
        let Some(Bounds { min_x, max_x, min_y, max_y }) = boxes.reduce(Bounds::union) else {
            return Shape::default();
        };
        let corner = |x, y| Coordinate { x, y };
        let (low, high) = (corner(min_x, min_y), corner(max_x, max_y));
        let part = if low == high {
            Part::Point(low)
        } else if min_x == max_x || min_y == max_y {
            Part::Line(vec![low, high])
        } else {
            let ring = vec![low, corner(max_x, min_y), high, corner(min_x, max_y), low];
            Part::Polygon(vec![ring])
        };
        Shape { parts: vec![part] }
    }

    /// The boxes of its parts, none of which leaves the surface.
    pub fn boxes(&self, space: &Space) -> Vec<Bounds> {
        let mut boxes = Vec::with_capacity(self.parts.len());
        for bounds in self.parts.iter().filter_map(|part| part.bounds(space)) {
            cut(bounds, space, &mut boxes);
        }
        boxes
    }
}

impl Part {
    /// The coordinates of the part; none for a circle.
    pub(crate) fn coordinates(&self) -> impl Iterator<Item = Coordinate> + '_ {
        let (lines, single): (&[Vec<Coordinate>], _) = match self {
            Part::Point(at) => (&[], Some(*at)),
            Part::Line(line) => (std::slice::from_ref(line), None),
            Part::Polygon(rings) => (rings, None),
            Part::Circle { .. } => (&[], None),
        };
        lines.iter().flatten().copied().chain(single)
    }

    /// The segments of a line or of a polygon's rings.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (Coordinate, Coordinate)> + '_ {
        let lines: &[Vec<Coordinate>] = match self {
            Part::Line(line) => std::slice::from_ref(line),
            Part::Polygon(rings) => rings,
            Part::Point(_) | Part::Circle { .. } => &[],
        };
        lines.iter().flat_map(|line| line.windows(2).map(|pair| (pair[0], pair[1])))
    }

    /// The box around it; may go beyond the antimeridian.
    pub(crate) fn bounds(&self, space: &Space) -> Option<Bounds> {
        match self {
            Part::Circle { center, radius } => Some(circle_bounds(*center, *radius, space)),
            other => Bounds::around(other.coordinates()),
        }
    }

    /// The same part `turns` times around the earth.
    pub(crate) fn moved(&self, turns: f64) -> Part {
        let by = turns * TURN;
        let place = |at: &Coordinate| Coordinate { x: at.x + by, y: at.y };
        let line = |line: &Vec<Coordinate>| line.iter().map(place).collect();
        match self {
            Part::Point(at) => Part::Point(place(at)),
            Part::Line(points) => Part::Line(line(points)),
            Part::Polygon(rings) => Part::Polygon(rings.iter().map(line).collect()),
            Part::Circle { center, radius } => {
                Part::Circle { center: place(center), radius: *radius }
            }
        }
    }
}

/// The longitude between -180 and 180.
fn into_the_turn(x: f64, space: &Space) -> f64 {
    match space {
        Space::Geography if !(-180.0..=180.0).contains(&x) => (x + 180.0).rem_euclid(TURN) - 180.0,
        _ => x,
    }
}

fn circle_bounds(center: Coordinate, radius: f64, space: &Space) -> Bounds {
    let flat = Bounds {
        min_x: center.x - radius,
        max_x: center.x + radius,
        min_y: center.y - radius,
        max_y: center.y + radius,
    };
    if !space.is_round() {
        return flat;
    }
    let (min_y, max_y) = (flat.min_y.max(-90.0), flat.max_y.min(90.0));
    if flat.min_y <= -90.0 || 90.0 <= flat.max_y {
        return Bounds { min_x: -180.0, max_x: 180.0, min_y, max_y };
    }
    let ratio = radius.to_radians().sin() / center.y.to_radians().cos();
    // Rounding must not lose points on the edge.
    let reach = ratio.clamp(0.0, 1.0).asin().to_degrees() * (1.0 + 1e-12) + 1e-12;
    Bounds { min_x: center.x - reach, max_x: center.x + reach, min_y, max_y }
}

/// Adds the parts of a box that are on the surface, wrapping those beyond the antimeridian.
fn cut(bounds: Bounds, space: &Space, boxes: &mut Vec<Bounds>) {
    let whole = space.bounds();
    let (min_y, max_y) = (bounds.min_y.max(whole.min_y), bounds.max_y.min(whole.max_y));
    let mut add = |min_x: f64, max_x: f64| {
        let (min_x, max_x) = (min_x.max(whole.min_x), max_x.min(whole.max_x));
        if min_x <= max_x && min_y <= max_y {
            boxes.push(Bounds { min_x, max_x, min_y, max_y });
        }
    };
    add(bounds.min_x, bounds.max_x);
    if space.is_round() {
        if whole.max_x <= bounds.max_x {
            add(bounds.min_x - TURN, bounds.max_x - TURN);
        }
        if bounds.min_x <= whole.min_x {
            add(bounds.min_x + TURN, bounds.max_x + TURN);
        }
    }
}

/// The center of a polygon's area, without its holes.
fn centroid(rings: &[Vec<Coordinate>]) -> Option<Coordinate> {
    let origin = *rings.first()?.first()?;
    let (mut area, mut x, mut y) = (0.0, 0.0, 0.0);
    for (number, ring) in rings.iter().enumerate() {
        let (mut ring_area, mut ring_x, mut ring_y) = (0.0, 0.0, 0.0);
        for pair in ring.windows(2) {
            let (ax, ay) = (pair[0].x - origin.x, pair[0].y - origin.y);
            let (bx, by) = (pair[1].x - origin.x, pair[1].y - origin.y);
            let cross = ax * by - bx * ay;
            ring_area += cross;
            ring_x += (ax + bx) * cross;
            ring_y += (ay + by) * cross;
        }
        // Whichever way a ring goes around, the outer one counts and holes are taken away.
        let sign = if (number == 0) == (ring_area >= 0.0) { 1.0 } else { -1.0 };
        area += sign * ring_area;
        x += sign * ring_x;
        y += sign * ring_y;
    }
    if area <= 0.0 {
        return Bounds::around(rings.iter().flatten().copied()).map(|bounds| bounds.center());
    }
    Some(Coordinate { x: origin.x + x / (3.0 * area), y: origin.y + y / (3.0 * area) })
}
