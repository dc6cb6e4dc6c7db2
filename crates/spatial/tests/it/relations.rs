//! Relations against the crate `geo`, and circles against sampled places.

use geo::{
    Area, Contains, CoordsIter, Geometry, Intersects, Validation,
    algorithm::{Relate, Rotate},
};
use proptest::prelude::*;
use spatial::{
    Bounds, Coordinate, Part, Shape, Space, Units, farthest_in_box, intersects, nearest_in_box,
    parse_shape, within,
};

const PLANE: Space =
    Space::Cartesian(Bounds { min_x: -100.0, max_x: 100.0, min_y: -100.0, max_y: 100.0 });

type Place = (i32, i32);

/// Places on a coarse lattice, so that edges touch, overlap and share ends all the time.
fn place() -> impl Strategy<Value = Place> {
    (-4i32..=4, -4i32..=4)
}

fn text_of(places: &[Place]) -> String {
    let places: Vec<_> = places.iter().map(|(x, y)| format!("{x} {y}")).collect();
    format!("({})", places.join(", "))
}

/// A ring around a place: corners by their angle.
fn ring() -> impl Strategy<Value = Vec<Place>> {
    (place(), prop::collection::vec((-4i32..=4, -4i32..=4), 3..8)).prop_map(
        |((x, y), mut corners)| {
            let angle = |(x, y): &Place| f64::from(*y).atan2(f64::from(*x));
            corners.sort_by(|a, b| angle(a).total_cmp(&angle(b)));
            corners.dedup();
            let mut ring: Vec<_> = corners.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            ring.push(ring[0]);
            ring
        },
    )
}

fn shape_text() -> impl Strategy<Value = String> {
    prop_oneof![
        place().prop_map(|at| format!("POINT{}", text_of(&[at]))),
        prop::collection::vec(place(), 1..4).prop_map(|all| format!("MULTIPOINT{}", text_of(&all))),
        prop::collection::vec(place(), 2..5).prop_map(|all| format!("LINESTRING{}", text_of(&all))),
        ring().prop_map(|ring| format!("POLYGON({})", text_of(&ring))),
        Just("POLYGON((-4 -4, 4 -4, 4 4, -4 4, -4 -4),(-2 -2, 2 -2, 2 2, -2 2, -2 -2))".to_owned()),
        Just(
            "MULTIPOLYGON(((-4 -4, -1 -4, -1 4, -4 4, -4 -4)),((1 -4, 4 -4, 4 4, 1 4, 1 -4)))"
                .to_owned()
        ),
    ]
}

fn geo_of(shape: &Shape) -> Geometry {
    let place = |at: &Coordinate| geo::Coord { x: at.x, y: at.y };
    let line = |places: &[Coordinate]| geo::LineString::new(places.iter().map(place).collect());
    let polygon = |rings: &[Vec<Coordinate>]| {
        geo::Polygon::new(line(&rings[0]), rings[1..].iter().map(|ring| line(ring)).collect())
    };
    let parts = shape.parts();
    match &parts[0] {
        Part::Point(_) => Geometry::MultiPoint(
            parts
                .iter()
                .flat_map(|part| match part {
                    Part::Point(at) => Some(geo::Point(place(at))),
                    _ => None,
                })
                .collect(),
        ),
        Part::Line(places) => Geometry::LineString(line(places)),
        Part::Polygon(_) => Geometry::MultiPolygon(
            parts
                .iter()
                .flat_map(|part| match part {
                    Part::Polygon(rings) => Some(polygon(rings)),
                    _ => None,
                })
                .collect(),
        ),
        Part::Circle { .. } => unreachable!("no circles here"),
    }
}

fn in_plane(text: &str) -> Option<Shape> {
    parse_shape(text, &PLANE, Units::Kilometers).ok()
}

/// One geometry of `geo` for each point, one for everything else.
fn geometries(shape: &Shape) -> Vec<Geometry> {
    match geo_of(shape) {
        Geometry::MultiPoint(points) => points.into_iter().map(Geometry::Point).collect(),
        other => vec![other],
    }
}

fn meet_by_geo(left: &Shape, right: &Shape) -> bool {
    let others = geometries(right);
    geometries(left).iter().any(|one| others.iter().any(|other| one.intersects(other)))
}

fn is_covered_by_geo(left: &Shape, right: &Shape) -> bool {
    let others = geometries(right);
    geometries(left).iter().all(|one| others.iter().any(|other| one.relate(other).is_coveredby()))
}

/// `geo` does not accept a line that is a single place.
fn is_degenerate(shape: &Shape) -> bool {
    matches!(geo_of(shape), Geometry::LineString(line) if line.coords_iter().all(|at| at == line.0[0]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn relations_are_those_of_geo(left in shape_text(), right in shape_text()) {
        let (Some(left), Some(right)) = (in_plane(&left), in_plane(&right)) else { return Ok(()) };
        if is_degenerate(&left) || is_degenerate(&right) {
            return Ok(());
        }
        prop_assert_eq!(intersects(&PLANE, &left, &right), meet_by_geo(&left, &right));
        prop_assert_eq!(within(&PLANE, &left, &right), is_covered_by_geo(&left, &right));
        prop_assert_eq!(within(&PLANE, &right, &left), is_covered_by_geo(&right, &left));
    }

    #[test]
    fn turned_shapes_keep_their_relations(left in ring(), right in ring(), angle in 0.0..360.0f64) {
        let (left, right) = (format!("POLYGON({})", text_of(&left)), format!("POLYGON({})", text_of(&right)));
        let (Some(left), Some(right)) = (in_plane(&left), in_plane(&right)) else { return Ok(()) };
        let turned = |shape: &Shape| {
            let geometry = geo_of(shape).rotate_around_point(angle, geo::point!(x: 0.0, y: 0.0));
            let Geometry::MultiPolygon(polygons) = geometry else { unreachable!() };
            let places: Vec<_> = polygons.0[0].exterior().0.iter().map(|at| format!("{} {}", at.x, at.y)).collect();
            in_plane(&format!("POLYGON(({}))", places.join(","))).expect("turned rings are rings")
        };
        let (one, other) = (turned(&left), turned(&right));
        prop_assert_eq!(intersects(&PLANE, &left, &right), intersects(&PLANE, &one, &other));
        prop_assert_eq!(within(&PLANE, &left, &right), within(&PLANE, &one, &other));
    }

    #[test]
    fn rings_are_refused_as_geo_does(mut places in prop::collection::vec(place(), 3..8)) {
        places.dedup();
        if places.len() < 3 {
            return Ok(());
        }
        places.push(places[0]);
        let points: Vec<_> = places.iter().map(|(x, y)| geo::Coord { x: f64::from(*x), y: f64::from(*y) }).collect();
        let polygon = geo::Polygon::new(geo::LineString::new(points), vec![]);
        let text = format!("POLYGON({})", text_of(&places));
        if polygon.unsigned_area() == 0.0 {
            return Ok(()); // `geo` accepts some of them.
        }
        prop_assert_eq!(in_plane(&text).is_some(), polygon.is_valid(), "{}", text);
    }

    #[test]
    fn circles_on_a_plane_are_fine_polygons(
        text in shape_text(), x in -5.0..5.0f64, y in -5.0..5.0f64, radius in 0.05..6.0f64,
    ) {
        let Some(shape) = in_plane(&text) else { return Ok(()) };
        let circle = Shape::circle(Coordinate { x, y }, radius);
        let round = |radius: f64| {
            let corner = |number: u32| {
                let (sine, cosine) = (f64::from(number) / 256.0 * std::f64::consts::TAU).sin_cos();
                geo::Coord { x: x + radius * cosine, y: y + radius * sine }
            };
            geo::Polygon::new(geo::LineString::new((0..256).map(corner).collect()), vec![])
        };
        // The circle is between a polygon inside it and one around it.
        let (inner, outer) = (round(radius), round(radius * 1.0002));
        let other = geo_of(&shape);
        let meets = intersects(&PLANE, &shape, &circle);
        prop_assert!(meets || !other.intersects(&inner));
        prop_assert!(!meets || other.intersects(&outer));
        let inside = within(&PLANE, &shape, &circle);
        prop_assert!(inside || !other.relate(&inner).is_coveredby());
        prop_assert!(!inside || other.relate(&outer).is_coveredby());
        let around = within(&PLANE, &circle, &shape);
        prop_assert!(around || !other.contains(&outer));
        prop_assert!(!around || other.contains(&round(radius * 0.9999)));
    }

    #[test]
    fn boxes_are_no_nearer_and_no_farther_than_they_say(
        at in (-180.0..=180.0f64, -90.0..=90.0f64), low in (-180.0..=180.0f64, -90.0..=90.0f64),
        size in (0.0..=1.0f64, 0.0..=1.0f64), inside in (0.0..=1.0f64, 0.0..=1.0f64), flat: bool,
    ) {
        let space = if flat { PLANE } else { Space::Geography };
        let bounds = Bounds {
            min_x: low.0,
            max_x: low.0 + (180.0 - low.0) * size.0,
            min_y: low.1,
            max_y: low.1 + (90.0 - low.1) * size.1,
        };
        let at = Coordinate { x: at.0, y: at.1 };
        let place = Coordinate {
            x: low.0 + (bounds.max_x - low.0) * inside.0,
            y: low.1 + (bounds.max_y - low.1) * inside.1,
        };
        let angle = |distance: f64| space.distance_of_angle(distance, Units::Kilometers);
        let distance = space.distance(at, place, Units::Kilometers);
        prop_assert!(angle(nearest_in_box(&space, at, &bounds)) <= distance + 1e-3);
        prop_assert!(distance <= angle(farthest_in_box(&space, at, &bounds)) + 1e-3);
    }
}

/// Circles on the earth against places of the other shape, one every few kilometers.
#[test]
fn circles_on_the_earth_reach_as_far_as_they_say() {
    let space = Space::Geography;
    let shape = |text: &str| parse_shape(text, &space, Units::Kilometers).expect(text);
    for (text, circle, meets, inside, around) in [
        // The middle of a parallel is farther from the pole's side than its ends.
        ("LINESTRING(-60 60, 60 60)", "CIRCLE(0 75 d=100)", false, false, false),
        ("LINESTRING(-60 60, 60 60)", "CIRCLE(0 75 d=1700)", true, false, false),
        ("LINESTRING(-60 60, 60 60)", "CIRCLE(0 75 d=2900)", true, true, false),
        ("LINESTRING(170 0, -170 0)", "CIRCLE(-175 0 d=100)", true, false, false),
        ("LINESTRING(170 0, -170 0)", "CIRCLE(-175 3 d=100)", false, false, false),
        (
            "POLYGON((170 -9, -170 -9, -170 9, 170 9, 170 -9))",
            "CIRCLE(-179 0 d=500)",
            true,
            false,
            true,
        ),
        (
            "POLYGON((170 -9, -170 -9, -170 9, 170 9, 170 -9))",
            "CIRCLE(-179 0 d=2000)",
            true,
            true,
            false,
        ),
        (
            "POLYGON((-179 80, 0 80, 179 80, 179 89, 0 89, -179 89, -179 80))",
            "CIRCLE(0 90 d=1200)",
            true,
            true,
            false,
        ),
        ("ENVELOPE(-180, 180, 90, -90)", "CIRCLE(0 0 d=19000)", true, false, false),
        ("ENVELOPE(-180, 180, 90, -90)", "CIRCLE(0 0 d=20100)", true, true, false),
        ("CIRCLE(0 0 d=100)", "CIRCLE(0 1 d=12)", true, false, false),
        ("CIRCLE(0 0 d=100)", "CIRCLE(0 1 d=11)", false, false, false),
        ("CIRCLE(0 0 d=100)", "CIRCLE(0 1 d=212)", true, true, false),
    ] {
        let (one, other) = (shape(text), shape(circle));
        assert_eq!(intersects(&space, &one, &other), meets, "{text} meets {circle}");
        assert_eq!(intersects(&space, &other, &one), meets, "{circle} meets {text}");
        assert_eq!(within(&space, &one, &other), inside, "{text} within {circle}");
        assert_eq!(within(&space, &other, &one), around, "{circle} within {text}");
    }
}
