//! Points and shapes from the request to the response: what RavenDB returned, and where the
//! exact answer differs.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn put(server: &TestServer, id: &str, mut document: Value) {
    document["@metadata"] = json!({"@collection": "U"});
    let path = format!("/databases/db/docs?id={id}");
    let reply = server.send("PUT", &path, document.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{id}");
}

fn answer(server: &TestServer, text: &str) -> Value {
    let parameters = json!({"r": 10, "a": 10, "b": 20, "u": "miles", "w": "CIRCLE(20 10 d=5)"});
    let body = json!({
        "Query": text, "QueryParameters": parameters, "WaitForNonStaleResults": true
    });
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The ids that a query finds, in order.
fn found(server: &TestServer, text: &str) -> String {
    let answer = answer(server, text);
    let rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{text}: {answer}"));
    let ids = rows.iter().map(|row| row["@metadata"]["@id"].as_str().unwrap());
    ids.collect::<Vec<_>>().join(" ")
}

fn define(server: &TestServer, name: &str, map: &str, spatial: Value) {
    let fields = json!({"Loc": {"Spatial": spatial}});
    let definition = json!({"Indexes": [{"Name": name, "Maps": [map], "Fields": fields}]});
    let body = definition.to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{name}: {}", reply.text());
}

fn with_places() -> TestServer {
    let server = TestServer::with_database();
    for (id, latitude, longitude) in
        [("p/1", 10.0, 20.0), ("p/2", 10.04, 20.0), ("p/3", 10.2, 20.1), ("p/4", -33.8, 151.2)]
    {
        let text = format!("POINT({longitude} {latitude})");
        put(&server, id, json!({"Lat": latitude, "Lng": longitude, "N": id, "W": text}));
    }
    put(&server, "p/5", json!({"Lat": 10.04, "Lng": 20, "N": "p/5"}));
    put(&server, "p/8", json!({"Lat": null, "Lng": 20, "N": "x"}));
    put(&server, "p/9", json!({"N": "y"}));
    put(&server, "p/a", json!({"Lat": "10.1", "Lng": "20.1", "N": "str"}));
    server
}

const POINT: &str = "spatial.point(Lat, Lng)";

#[test]
fn conditions_and_orders_match_recorded_results() {
    let server = with_places();
    let square = "POLYGON((19.9 9.9, 20.05 9.9, 20.05 10.05, 19.9 10.05, 19.9 9.9))";
    let from = |place: &str| format!("spatial.distance({POINT}, {place}");
    let here = from("spatial.point(10, 20)");
    for (condition, expected) in [
        (format!("where spatial.within({POINT}, spatial.circle(10, 10, 20))"), "p/1 p/2 p/5"),
        (format!("where spatial.within({POINT}, spatial.circle($r, $a, $b))"), "p/1 p/2 p/5"),
        (
            format!("where spatial.within({POINT}, spatial.circle($r, $a, $b, $u))"),
            "p/1 p/2 p/5 p/a",
        ),
        (format!("where spatial.within({POINT}, spatial.wkt($w))"), "p/1 p/2 p/5"),
        (format!("where spatial.within({POINT}, spatial.wkt('{square}'))"), "p/1 p/2 p/5"),
        (format!("where spatial.intersects({POINT}, spatial.wkt('{square}'))"), "p/1 p/2 p/5"),
        (
            format!("where spatial.within({POINT}, spatial.circle(10, 10, 20), 0.5) and N='p/1'"),
            "p/1",
        ),
        (
            format!("where spatial.within({POINT}, spatial.circle(30000, 10, 20))"),
            "p/1 p/2 p/3 p/4 p/5 p/a",
        ),
        (format!("where spatial.within({POINT}, spatial.wkt('POINT(20 10)', 'miles'))"), "p/1"),
        (format!("where spatial.contains({POINT}, spatial.wkt('POINT(20 10)'))"), "p/1"),
        (format!("where spatial.disjoint({POINT}, spatial.wkt('{square}'))"), "p/3 p/4 p/a"),
        (
            format!("where true and not spatial.within({POINT}, spatial.circle(10, 10, 20))"),
            "p/3 p/4 p/8 p/9 p/a",
        ),
        (
            format!(
                "where spatial.within({POINT}, spatial.circle(10, 10, 20)) \
                 and spatial.within({POINT}, spatial.circle(10, 10.1, 20))"
            ),
            "p/2 p/5",
        ),
        (format!("order by {here})"), "p/1 p/2 p/5 p/a p/3 p/4 p/8 p/9"),
        (
            "order by spatial.distance('spatial.point(Lat, Lng)', spatial.point(10, 20))"
                .to_owned(),
            "p/1 p/2 p/5 p/a p/3 p/4 p/8 p/9",
        ),
        (
            "order by spatial.distance(N, spatial.point(10, 20))".to_owned(),
            "p/1 p/2 p/3 p/4 p/5 p/8 p/9 p/a",
        ),
        (format!("order by {here}) desc"), "p/4 p/3 p/a p/2 p/5 p/1 p/8 p/9"),
        (format!("order by {here}, 10), N desc"), "p/5 p/2 p/1 p/a p/3 p/4 p/9 p/8"),
        (format!("order by {here}, 10) desc, N desc"), "p/4 p/3 p/a p/5 p/2 p/1 p/9 p/8"),
        (
            format!("order by {})", from(&format!("spatial.wkt('{square}')"))),
            "p/1 p/2 p/5 p/a p/3 p/4 p/8 p/9",
        ),
        (
            format!("order by {})", from("spatial.circle(10, 10, 20)")),
            "p/1 p/2 p/5 p/a p/3 p/4 p/8 p/9",
        ),
        (
            format!(
                "where spatial.within({POINT}, spatial.circle(10, 10, 20)) order by {})",
                from("spatial.point(20, 20)")
            ),
            "p/2 p/5 p/1",
        ),
    ] {
        assert_eq!(found(&server, &format!("from U {condition}")), expected, "{condition}");
    }
}

#[test]
fn rows_include_position_and_distance() {
    let server = with_places();
    let text = format!("from U order by spatial.distance({POINT}, spatial.point(10, 20))");
    let rows = answer(&server, &text);
    assert_eq!(rows["IndexName"], "Auto/U/BySpatial.point(Lat|Lng)");
    let spatial = |row: usize| rows["Results"][row]["@metadata"]["@spatial"].clone();
    assert_eq!(spatial(0), json!({"Distance": 0, "Latitude": 10, "Longitude": 20}));
    let second = json!({"Distance": 4.447583080062477, "Latitude": 10.04, "Longitude": 20});
    assert_eq!(spatial(1), second);
    assert_eq!(spatial(7), json!({"Distance": "NaN", "Latitude": "NaN", "Longitude": "NaN"}));
    let names: Vec<_> = rows["Results"][0]["@metadata"].as_object().unwrap().keys().collect();
    let order =
        ["@collection", "@change-vector", "@id", "@index-score", "@spatial", "@last-modified"];
    assert_eq!(names, order);
    let projected = answer(
        &server,
        &format!("{text} select N, spatial.distance(Lat, Lng, 10, 20) as D limit 1 offset 1"),
    );
    let row = &projected["Results"][0];
    assert_eq!((&row["N"], &row["D"]), (&json!("p/2"), &json!(4.447583080062477)));
    assert_eq!(row["@metadata"]["@spatial"], second);
    let scripted = answer(
        &server,
        "from U as u where u.N = 'p/2' select { D: spatial.distance(u.Lat, u.Lng, 10, 20, 'miles') }",
    );
    assert_eq!(scripted["Results"][0]["D"], json!(2.763599999977453));
    let plain = answer(&server, "from U select spatial.distance(Lat, Lng, $a, $b) as D, N");
    let distances: Vec<_> =
        plain["Results"].as_array().unwrap().iter().map(|row| row["D"].clone()).collect();
    assert_eq!(distances[..2], [json!(0.0), json!(4.447583080062477)]);
    // A string is not a number here.
    assert_eq!(distances[5..], [json!(null), json!(null), json!(null)]);
}

#[test]
fn static_indexes_support_spatial_fields() {
    let server = with_places();
    let point = "from u in docs.U select new { Loc = CreateSpatialField(u.Lat, u.Lng), u.N }";
    define(&server, "L", point, json!({}));
    define(&server, "Miles", point, json!({"Units": "Miles"}));
    define(&server, "Coarse", point, json!({"Strategy": "QuadPrefixTree", "MaxTreeLevel": 6}));
    define(&server, "Box", point, json!({"Strategy": "BoundingBox"}));
    let text = "from u in docs.U select new { Loc = CreateSpatialField(u.W), u.N }";
    define(&server, "Text", text, json!(null));
    let two = "from u in docs.U select new \
               { Loc = new[] { CreateSpatialField(u.Lat, u.Lng), CreateSpatialField(0, 0) } }";
    define(&server, "Two", two, json!(null));
    let script = "map('U', u => ({ Loc: createSpatialField(u.Lat, u.Lng), N: u.N }))";
    define(&server, "Script", script, json!(null));
    for (index, expected) in [
        ("L", "p/1 p/2 p/5"),
        ("Miles", "p/1 p/2 p/5 p/a"),
        ("Coarse", "p/1 p/2 p/5"),
        ("Box", "p/1 p/2 p/5"),
        ("Text", "p/1 p/2"),
        ("Two", "p/1 p/2 p/5"),
        ("Script", "p/1 p/2 p/5"),
    ] {
        let text =
            format!("from index '{index}' where spatial.within(Loc, spatial.circle(10, 10, 20))");
        assert_eq!(found(&server, &text), expected, "{index}");
    }
    let nearest = "order by spatial.distance(Loc, spatial.point(10, 20))";
    assert_eq!(
        found(&server, &format!("from index 'Two' {nearest}")),
        "p/1 p/2 p/5 p/a p/3 p/4 p/8 p/9"
    );
    let miles = answer(&server, &format!("from index 'Miles' {nearest} limit 1 offset 1"));
    let distance = &miles["Results"][0]["@metadata"]["@spatial"]["Distance"];
    assert_eq!(distance, &json!(2.763599999977453));
    let terms = |index: &str, after: &str| {
        let path = format!(
            "/databases/db/indexes/terms?name={index}&field=Loc&pageSize=3&fromValue={after}"
        );
        server.get(&path).json()["Terms"].clone()
    };
    assert_eq!(terms("L", ""), json!(["r", "r3", "r3g"]));
    assert_eq!(terms("L", "s3y0zh7w"), json!(["s3y0zh7w1", "s3y1", "s3y1p"]));
    assert_eq!(terms("Coarse", "BDBA"), json!(["D", "DB", "DBD"]));
    assert_eq!(terms("Box", ""), json!([]));
    let shown = server.get("/databases/db/indexes?name=Miles").json();
    let options = &shown["Results"][0]["Fields"]["Loc"]["Spatial"];
    let expected = json!({
        "Type": "Geography", "MaxTreeLevel": 9, "MaxX": 180, "MaxY": 90, "MinX": -180, "MinY": -90,
        "Strategy": "GeohashPrefixTree", "Units": "Miles"
    });
    assert_eq!(options, &expected);
}

#[test]
fn shapes_are_found_updated_and_removed() {
    let server = TestServer::with_database();
    for (id, text) in [
        ("s/a", json!("POINT(20 10)")),
        ("s/b", json!("POLYGON((19 9, 21 9, 21 11, 19 11, 19 9))")),
        ("s/c", json!("LINESTRING(19 9, 21 9, 21 12)")),
        ("s/d", json!("CIRCLE(20 10 d=0.5)")),
        ("s/e", json!("POLYGON((170 -10, -170 -10, -170 10, 170 10, 170 -10))")),
        ("s/f", json!(["POINT(0 0)", "30 30"])),
        ("s/g", json!("POINT EMPTY")),
        ("s/h", json!(5)),
        ("s/i", json!(null)),
        ("s/j", json!("10,20")),
    ] {
        put(&server, id, json!({"Loc": text}));
    }
    let queried = |method: &str, shape: &str| {
        found(&server, &format!("from U where spatial.{method}(spatial.wkt(Loc), {shape})"))
    };
    let circle = "spatial.circle(10, 10, 20)";
    assert_eq!(queried("intersects", circle), "s/a s/b s/d s/j");
    assert_eq!(queried("within", circle), "s/a s/d s/j");
    assert_eq!(queried("contains", circle), "s/b");
    assert_eq!(queried("disjoint", circle), "s/c s/e s/f");
    assert_eq!(queried("intersects", "spatial.wkt('POINT(180 0)')"), "s/e");
    assert_eq!(queried("within", "spatial.wkt('ENVELOPE(18, 22, 13, 8)')"), "s/a s/b s/c s/d s/j");
    put(&server, "s/b", json!({"Loc": "POINT(50 50)"}));
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=s/d", b"").status, 204);
    assert_eq!(queried("intersects", circle), "s/a s/j");
    let nearest =
        "from U order by spatial.distance(spatial.wkt(Loc), spatial.point(50, 50)) limit 1";
    assert_eq!(found(&server, nearest), "s/b");
}

/// A query, `=>`, the last part of the exception's name, `:`, and the first line of the message.
const REFUSALS: &str = r"
where within(@, spatial.circle(10, 200, 20)) => InvalidShapeException: Bad Y value 200 is not in boundary Rect(minX=-180,maxX=180,minY=-90,maxY=90)
where within(@, spatial.circle(10, 10, 220)) => InvalidShapeException: Bad X value 220 is not in boundary Rect(minX=-180,maxX=180,minY=-90,maxY=90)
where within(@, spatial.circle(-1, 10, 20)) => InvalidShapeException: distance must be >= 0; got -0.008993203677616636
where within(@, spatial.wkt('garbage')) => InvalidQueryException: Value 'garbage' is not a valid WKT value.
where within(@, spatial.wkt('POINT(20 200)')) => InvalidQueryException: Value 'POINT(20 200)' is not a valid WKT value.
where within(@, spatial.circle(10, 10)) => InvalidQueryException: Method 'circle()' expects three or four arguments to be provided
where within(@, spatial.circle('a', 10, 20)) => InvalidOperationException: Field '@' should be a 'Double' but was 'String'.
where within(@, spatial.circle(10, 10, 20, 'ells')) => InvalidOperationException: SpatialUnits value must be either 'Kilometers' or 'Miles' but was 'ells'.
where within(@, spatial.wkt(5)) => InvalidOperationException: Field '@' should be a 'String' but was 'Long'.
where within(@) => InvalidQueryException: Method spatial.within() expects 2-3 arguments to be provided
where within(@, 5) => InvalidQueryException: Method spatial.within() expects expression as second argument, got 5 (Long) type
where within(@, Lat) => InvalidQueryException: Method spatial.within() expects expression as second argument, got <Field>: Lat type
where within(@, spatial.point(10, 20)) => InvalidQueryException: Method 'Spatial_Point' is not supported.
where within(@, spatial.foo(10, 20)) => NotSupportedException: Method 'spatial.foo' is not supported.
where within(@, spatial.circle(1, 2, 3), 0.9) => ArgumentException: distErrPct 0.9 must be between [0 to 0.5] (Parameter 'distErrPct')
where within(spatial.point(Lat), spatial.circle(1, 2, 3)) => InvalidQueryException: Method spatial.within() expects first argument to be a point() method with 2 arguments
where within(spatial.wkt(Lat, Lng), spatial.circle(1, 2, 3)) => InvalidQueryException: Method spatial.within() expects first argument to be a wkt() method with 1 argument
where within(spatial.foo(Lat), spatial.circle(1, 2, 3)) => NotSupportedException: Method 'spatial.foo' is not supported.
where within(Name, 1) => InvalidQueryException: Method spatial.within() expects first argument to be a method expression
where spatial.foo(Name) => NotSupportedException: Method 'spatial.foo' is not supported.
order by distance(@, spatial.point(100, 20)) => InvalidShapeException: Bad Y value 100 is not in boundary Rect(minX=-180,maxX=180,minY=-90,maxY=90)
order by distance(@, spatial.point(10)) => InvalidQueryException: Method 'point()' expects two arguments to be provided
order by distance(@, spatial.point(10, 20), 'a') => FormatException: The input string 'a' was not in a correct format.
order by distance(@) => InvalidQueryException: Method spatial.distance() expects 2-3 arguments to be provided
select spatial.distance(Lat, Lng) as D => ArgumentException: Called with unexpected number of arguments, expected: spatial.distance(lat1, lng1, lat2, lng2, kilometers | miles | cartesian)
select spatial.distance(@, spatial.point(1, 2)) as D => InvalidQueryException: Invalid argument of type MethodExpression specified as an argument of spatial.distance(). Text: @.
from index 'L' where within(@, spatial.circle(1, 2, 3)) => InvalidQueryException: Method spatial.within() expects that first argument will be a field name when static index is queried
from index 'L' where within(Nope, spatial.circle(1, 2, 3)) => ArgumentException: The field 'Nope' is not indexed for index 'L', cannot query/sort on fields that are not indexed
";

#[test]
fn a_definition_can_limit_matching_to_bounding_boxes() {
    let server = TestServer::with_database();
    let shapes = [
        ("u", "POLYGON ((0 0, 0 5, 1 5, 1 1, 5 1, 5 5, 6 5, 6 0, 0 0))"),
        ("p", "POINT (3 3)"),
        ("l", "LINESTRING (0 0, 10 10)"),
    ];
    for (id, shape) in shapes {
        put(&server, id, json!({"Shape": shape}));
    }
    let map = "from d in docs.U select new { Loc = CreateSpatialField(d.Shape) }";
    let plane = json!({
        "Type": "Cartesian", "Strategy": "BoundingBox",
        "MinX": -100, "MaxX": 100, "MinY": -100, "MaxY": 100
    });
    define(&server, "Geography", map, json!({"Type": "Geography", "Strategy": "BoundingBox"}));
    define(&server, "Cartesian", map, plane);
    let triangle = "POLYGON((0 0, 20 0, 3 9, 0 0))";
    for (relation, queried, expected) in [
        ("intersects", "2 2 4 4", "u p l"),
        ("intersects", "CIRCLE(3 3 d=1)", "u p l"),
        ("intersects", "POINT(3 4)", "u l"),
        ("intersects", "LINESTRING(8 0, 9 1)", "l"),
        ("intersects", "6 6 10 10", "l"),
        ("within", "0 0 6 6", "u p"),
        ("within", triangle, "u p"),
        ("contains", "2 2 4 4", "u l"),
        ("contains", "POLYGON((2 2, 4 2, 3 4, 2 2))", "u l"),
        ("disjoint", "2 2 4 4", ""),
        ("disjoint", "6 6 10 10", "u p"),
    ] {
        for index in ["Geography", "Cartesian"] {
            let text = format!(
                "from index '{index}' where spatial.{relation}(Loc, spatial.wkt('{queried}'))"
            );
            assert_eq!(found(&server, &text), expected, "{text}");
        }
    }
}

#[test]
fn invalid_spatial_queries_are_rejected_with_the_errors_of_the_protocol() {
    let server = with_places();
    let script = "map('U', u => ({ Loc: createSpatialField(u.Lat, u.Lng), N: u.N }))";
    define(&server, "L", script, json!({}));
    for line in REFUSALS.trim().lines() {
        let (queried, refusal) = line.split_once(" => ").unwrap();
        let queried = queried
            .replace(" within(", " spatial.within(")
            .replace(" distance(", " spatial.distance(")
            .replace('@', POINT);
        let text = if queried.starts_with("from") { queried } else { format!("from U {queried}") };
        let error = answer(&server, &text);
        let kind = error["Type"].as_str().unwrap().rsplit('.').next().unwrap();
        let message = error["Message"].as_str().unwrap().lines().next().unwrap();
        assert_eq!(format!("{kind}: {message}"), refusal.replace('@', POINT), "{text}");
    }
}

#[test]
fn documents_with_invalid_coordinates_are_index_errors() {
    let server = TestServer::with_database();
    for number in 0..20 {
        put(&server, &format!("u/{number}"), json!({"Lat": 1, "Lng": 2}));
    }
    put(&server, "bad/1", json!({"Lat": 200, "Lng": 20}));
    put(&server, "bad/2", json!({"Lat": "abc", "Lng": 20}));
    assert_eq!(
        found(&server, &format!("from U where spatial.within({POINT}, spatial.circle(1, 50, 2))")),
        ""
    );
    let errors = server.get("/databases/db/indexes/errors").json();
    let errors = errors["Results"][0]["Errors"].as_array().unwrap();
    let shown: Vec<_> = errors.iter().map(|error| error["Error"].as_str().unwrap()).collect();
    let failed = |id: &str, what: &str| {
        format!("Failed to execute mapping function on {id}. Exception: {what}")
    };
    let outside = failed(
        "bad/1",
        "Spatial4n.Exceptions.InvalidShapeException: Bad Y value 200 is not in boundary \
         Rect(minX=-180,maxX=180,minY=-90,maxY=90)",
    );
    let text = failed(
        "bad/2",
        "System.FormatException: The input string 'abc' was not in a correct format.",
    );
    assert_eq!(shown, [outside, text]);
    let body = json!({"Indexes": [{
        "Name": "X", "Maps": ["from u in docs.U select new { Loc = CreateSpatialField(u.Lat, u.Lng) }"],
        "Fields": {"Loc": {"Spatial": {"MaxTreeLevel": 0}}}
    }]});
    let refused = server.send("PUT", "/databases/db/admin/indexes", body.to_string().as_bytes());
    assert_eq!(refused.status, 500);
    let message = refused.json()["Message"].as_str().unwrap().to_owned();
    assert!(message.contains("maxLen must be [1-24] but got 0"), "{message}");
}
