//! Shapes as clients write them.

use proptest::prelude::*;
use spatial::{Bounds, Coordinate, POINTS_MAX, Shape, Space, Units, parse_shape, within};

fn parsed(text: &str) -> Result<Shape, String> {
    parse_shape(text, &Space::Geography, Units::Kilometers).map_err(|error| error.to_string())
}

fn point(x: f64, y: f64) -> Shape {
    Shape::point(Coordinate { x, y })
}

#[test]
fn points_have_many_forms() {
    for text in [
        "POINT(20 10)",
        " point ( 20   10 ) ",
        "POINT Z(20 10 5)",
        "POINT ZM (20 10 5 6)",
        "POINT(2e1 1.0E+1)",
        "20 10",
        "10,20",
        " 10, 20 ",
        "geo:10,20",
        "GEO:10,20;u=5",
        "BOX(20 10, 20 10)",
        "MULTIPOINT(20 10)",
    ] {
        assert_eq!(parsed(text), Ok(point(20.0, 10.0)), "{text}");
    }
}

#[test]
fn other_shapes_hold_what_they_should() {
    for (text, inside, outside) in [
        (
            "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0),(1 1, 2 1, 2 2, 1 2, 1 1))",
            (1.0, 0.5),
            (1.5, 1.5),
        ),
        ("POLYGON((0 0, 0 10, 10 10, 10 0, 0 0))", (5.0, 5.0), (10.1, 5.0)),
        ("MULTIPOLYGON(((0 0, 1 0, 0 1, 0 0)),((5 5, 6 5, 5 6, 5 5)))", (5.1, 5.1), (3.0, 3.0)),
        ("LINESTRING(0 0, 10 10)", (5.0, 5.0), (5.0, 5.1)),
        ("MULTILINESTRING((0 0, 1 1),(2 2, 3 3))", (2.5, 2.5), (1.5, 1.5)),
        ("MULTIPOINT((1 1), (2 2))", (2.0, 2.0), (1.5, 1.5)),
        ("MULTIPOINT(1 1, 2 2)", (1.0, 1.0), (1.5, 1.5)),
        ("GEOMETRYCOLLECTION(POINT(5 5), LINESTRING(6 6, 7 6))", (6.5, 6.0), (5.5, 5.5)),
        ("ENVELOPE(19, 21, 11, 9)", (20.0, 10.0), (20.0, 12.0)),
        ("BOX(19 9, 21 11)", (19.0, 9.0), (18.9, 9.0)),
        ("19 9 21 11", (19.0, 9.0), (18.9, 9.0)),
        ("CIRCLE(20 10 d=111)", (20.0, 10.9), (20.0, 11.0)),
        ("Circle(20 10, distance=111)", (20.0, 10.9), (20.0, 11.0)),
        ("BUFFER(POINT(20 10), 1)", (20.0, 10.99), (20.0, 11.01)),
        // Across the antimeridian.
        ("POLYGON((170 -10, -170 -10, -170 10, 170 10, 170 -10))", (-175.0, 0.0), (0.0, 0.0)),
        ("POLYGON((-170 -10, 170 -10, 170 10, -170 10, -170 -10))", (180.0, 0.0), (165.0, 0.0)),
        ("LINESTRING(170 0, -170 0)", (-180.0, 0.0), (0.0, 0.0)),
        ("ENVELOPE(170, -170, 10, -10)", (175.0, 0.0), (0.0, 0.0)),
        ("CIRCLE(179 0 d=500)", (-179.0, 0.0), (0.0, 0.0)),
        ("CIRCLE(0 89 d=500)", (180.0, 88.0), (180.0, 80.0)),
        (
            "POLYGON((170 -9, -170 -9, -170 9, 170 9, 170 -9),(-179 -1,-178 -1,-178 1,-179 1,-179 -1))",
            (-177.0, 0.0),
            (-178.5, 0.0),
        ),
        // Wide ones.
        ("ENVELOPE(-100, 100, 50, -50)", (0.0, 0.0), (150.0, 0.0)),
        (
            "POLYGON((-100 -50, 0 -60, 100 -50, 100 50, 0 60, -100 50, -100 -50))",
            (0.0, 0.0),
            (150.0, 0.0),
        ),
        ("POLYGON((-180 -90, 180 -90, 180 80, -180 80, -180 -90))", (-180.0, 0.0), (0.0, 81.0)),
    ] {
        let shape = parsed(text).expect(text);
        let holds = |(x, y)| within(&Space::Geography, &point(x, y), &shape);
        assert!(holds(inside), "{text} lacks {inside:?}");
        assert!(!holds(outside), "{text} has {outside:?}");
    }
}

#[test]
fn empty_shapes_are_nowhere() {
    for text in
        ["POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION(POINT EMPTY)", "multipoint z empty"]
    {
        assert!(parsed(text).expect(text).is_empty(), "{text}");
    }
}

#[test]
fn what_is_no_shape_is_refused() {
    let deep = format!("{}POINT(1 1){}", "GEOMETRYCOLLECTION(".repeat(5000), ")".repeat(5000));
    let long = format!("LINESTRING({}0 0)", "0 0,".repeat(POINTS_MAX));
    let boundary = "is not in boundary Rect(minX=-180,maxX=180,minY=-90,maxY=90)";
    for (text, message) in [
        ("garbage", "Unknown Shape definition [garbage]"),
        ("", "Unknown Shape definition []"),
        ("é", "Unknown Shape definition []"),
        ("POINT(20 10", "Expected [)] found EOF"),
        ("POINT(20 10) x", "Unexpected text after the shape: [x]"),
        ("POINT(20)", "Expected a number found [)]"),
        ("POINT(1e999 0)", "Expected a number found [1e999 0)]"),
        ("POINT(nan 0)", "Expected a number found [nan 0)]"),
        ("POINT(500 10)", &format!("Bad X value 500 {boundary}")),
        ("200,20", &format!("Bad Y value 200 {boundary}")),
        ("10;20", "Unknown Shape definition [10;20]"),
        ("geo:", "Unknown Shape definition [geo:]"),
        ("POLYGON((19 9, 21 9, 21 11, 19 11))", "points must form a closed linestring"),
        ("POLYGON((0 0, 1 1, 0 0))", "Too few distinct points in geometry component"),
        (
            "POLYGON((19 9, 21 11, 21 9, 19 11, 19 9))",
            "Self-intersection at or near point (20, 10, NaN)",
        ),
        ("POLYGON((0 0, 5 0, 3 0, 3 3, 0 0))", "Self-intersection at or near point (5, 0, NaN)"),
        ("CIRCLE(20 10 5)", "Expected [d=] found [)]"),
        ("CIRCLE(20 10 d=-5)", "distance must be >= 0; got -0.04496601838808317"),
        (
            "BUFFER(LINESTRING(0 0, 1 1), 2)",
            "a BUFFER around anything but a POINT is not supported yet",
        ),
        (
            "LINESTRING(0 0, 120 0, -120 0, 0 0, 120 0)",
            "a line goes around the earth more than once",
        ),
        (&deep, "Collections of shapes are nested deeper than 16 levels"),
        (&long, "a shape has more than 20000 points"),
    ] {
        assert_eq!(
            parsed(text).expect_err("is refused"),
            message,
            "{}",
            &text[..text.len().min(60)]
        );
    }
}

#[test]
fn a_plane_has_bounds_and_no_antimeridian() {
    let bounds = Bounds { min_x: 0.0, max_x: 200.0, min_y: 0.0, max_y: 100.0 };
    let plane = Space::Cartesian(bounds);
    let refused = parse_shape("POINT(5 -1)", &plane, Units::Kilometers).unwrap_err();
    let message = "Bad Y value -1 is not in boundary Rect(minX=0,maxX=200,minY=0,maxY=100)";
    assert_eq!(refused.to_string(), message);
    let wide = "POLYGON((0 0, 200 0, 200 100, 0 100, 0 0))";
    let wide = parse_shape(wide, &plane, Units::Kilometers).unwrap();
    assert!(within(&plane, &point(100.0, 50.0), &wide));
    let circle = parse_shape("CIRCLE(20 10 d=5)", &plane, Units::Miles).unwrap();
    assert!(within(&plane, &point(24.9, 10.0), &circle));
    assert!(!within(&plane, &point(25.1, 10.0), &circle));
}

#[test]
fn centers_are_where_distances_are_measured_from() {
    for (text, x, y) in [
        ("POLYGON((0 0, 10 0, 0 6, 0 0))", 10.0 / 3.0, 2.0),
        ("LINESTRING(0 0, 0 10, 5 10)", 2.5, 5.0),
        ("CIRCLE(20 10 d=5)", 20.0, 10.0),
        ("ENVELOPE(19, 25, 11, 9)", 22.0, 10.0),
        ("LINESTRING(170 0, -170 0)", 180.0, 0.0),
        ("ENVELOPE(170, -160, 10, -10)", -175.0, 0.0),
        ("MULTIPOINT(0 0, 4 8)", 2.0, 4.0),
    ] {
        let center = parsed(text).unwrap().center(&Space::Geography).unwrap();
        assert!((center.x - x).abs() < 1e-9 && (center.y - y).abs() < 1e-9, "{text}: {center:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_comes_back_from_its_bytes(
        text in "(POINT|LINESTRING|POLYGON|MULTIPOINT|GEOMETRYCOLLECTION|CIRCLE|ENVELOPE|BOX)? ?\\(?\\(?([0-9]{1,3} [0-9]{1,2}, ?){0,6}[-0-9d=., ()]{0,12}\\)?\\)?",
        other in "\\PC{0,40}",
    ) {
        for text in [text, other] {
            if let Ok(shape) = parsed(&text) {
                prop_assert_eq!(Shape::of_bytes(&shape.to_bytes()), Some(shape));
            }
        }
    }

    #[test]
    fn damaged_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Shape::of_bytes(&bytes);
    }
}
