//! `filter`: which rows pass it and what is reported about the others, as RavenDB does it.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn server_with_rows() -> TestServer {
    let server = TestServer::with_database();
    let put = |id: &str, document: Value| {
        let body = document.to_string().replacen('{', r#"{"@metadata":{"@collection":"Pg"},"#, 1);
        server.put(id, &body);
    };
    for i in 0..20_u32 {
        let half = if i % 2 == 1 { json!(f64::from(i) + 0.5) } else { json!(i) };
        let tags = &["x", "y"][..(i % 3) as usize];
        put(
            &format!("p/{i:02}"),
            json!({
                "N": i, "G": format!("g{}", i % 3), "D": half, "S": tags, "B": i % 2 == 0,
                "O": {"Y": i % 4, "L": [{"P": i}, {"P": i + 1}]},
                "Dt": format!("2020-01-{:02}T00:00:00", i + 1),
                "Txt": if i % 5 == 0 { "The Quick Fox" } else { "slow dog" },
            }),
        );
    }
    put("p/98", json!({"N": null, "G": null}));
    put("p/99", json!({"X": 1}));
    server
}

fn ask(server: &TestServer, body: &Value) -> Value {
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The numbers of the rows, the total, and how many rows were skipped and scanned.
fn summary(server: &TestServer, text: &str, more: &Value) -> String {
    let mut body = json!({"Query": text, "WaitForNonStaleResults": true});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let answer = ask(server, &body);
    let Some(rows) = answer["Results"].as_array() else {
        let message = answer["Message"].as_str().unwrap();
        return message.lines().next().unwrap().to_owned();
    };
    let ids = rows.iter().map(|row| {
        let id = row["@metadata"]["@id"].as_str().unwrap();
        id[2..].trim_start_matches('0').to_owned()
    });
    let ids: Vec<_> = ids.map(|id| if id.is_empty() { "0".to_owned() } else { id }).collect();
    let mut text = format!(
        "{} T{} S{} Sc{}",
        ids.join(" "),
        answer["TotalResults"],
        answer["SkippedResults"],
        answer["ScannedResults"]
    );
    if let Some(capped) = answer.get("CappedMaxResults") {
        text.push_str(&format!(" C{capped}"));
    }
    text
}

#[test]
fn values_are_compared_as_in_javascript() {
    let server = server_with_rows();
    let all_but = |left_out: &[u32]| {
        let rows = (0..20).chain([98, 99]).filter(|row| !left_out.contains(row));
        rows.map(|row| row.to_string()).collect::<Vec<_>>().join(" ")
    };
    let parameters = json!({"p": "g1", "n": 3, "l": ["g0", "g1"]});
    for (filter, expected) in [
        ("G='g1'", "1 4 7 10 13 16 19"),
        ("G='G1'", ""),
        ("N > 15", "16 17 18 19"),
        ("N > 15.5", "16 17 18 19"),
        ("D > 15.2", "15 16 17 18 19"),
        ("N > '15'", "16 17 18 19"),
        ("N = '15'", ""),
        ("N = 15.0", "15"),
        ("N != 3", &all_but(&[3])),
        ("N = null", "98"),
        ("N != null", &all_but(&[98])),
        ("X = null", ""),
        ("X > 0", "99"),
        ("N < 3", "0 1 2 98"),
        ("N <= null", "0 98"),
        ("N between 3 and 5", "3 4 5"),
        ("G in ('g0','g1') and N < 4", "0 1 3"),
        ("G in ('G0')", ""),
        ("S in ('x')", ""),
        ("S = 'x'", ""),
        ("S all in ('x','y')", "2 5 8 11 14 17"),
        ("O.Y = 2", "2 6 10 14 18"),
        ("O.L.P = 3", ""),
        ("O.L[0].P = 3", "3"),
        ("S.length = 2", "2 5 8 11 14 17"),
        ("B = true and N < 5", "0 2 4"),
        ("B = 'true'", ""),
        ("Dt > '2020-01-15'", "14 15 16 17 18 19"),
        ("Dt = '2020-01-15T00:00:00'", "14"),
        ("Txt = 'the quick fox'", ""),
        ("Txt = 'The Quick Fox'", "0 5 10 15"),
        ("startsWith(G,'G1')", "1 4 7 10 13 16 19"),
        ("endsWith(G,'1') and N > 8", "10 13 16 19"),
        ("regex(G,'^g[12]$') and N < 5", "1 2 4"),
        ("exists(G)", &all_but(&[99])),
        ("exists(O.Y) and N < 2", "0 1"),
        ("exists(O.Nope) or exists(Nope.Y)", ""),
        ("id() = 'p/03'", "3"),
        ("id() in ('p/03','p/04')", "3 4"),
        ("startsWith(id(),'p/0')", "0 1 2 3 4 5 6 7 8 9"),
        ("true and not N < 19", "19 99"),
        ("G='g1' and N > 10 or N = 3", "3 13 16 19"),
        ("true", &all_but(&[])),
        ("G = $p", "1 4 7 10 13 16 19"),
        ("N = $n", "3"),
        ("G in ($l) and N < 4", "0 1 3"),
        ("N = G", "98 99"),
        ("@metadata.@collection = 'Pg' and N = 1", "1"),
        ("@metadata.@id = 'p/03'", "3"),
        ("N = -1 or N = 2", "2"),
    ] {
        let found = summary(
            &server,
            &format!("from Pg filter {filter}"),
            &json!({"QueryParameters": parameters}),
        );
        assert_eq!(found.split(" T").next(), Some(expected), "{filter}: {found}");
    }
}

#[test]
fn invalid_filters_are_rejected() {
    let server = server_with_rows();
    for (filter, message) in [
        ("search(Txt,'fox')", "'search' query method is not supported for this type of query"),
        (
            "spatial.within(spatial.point(N,N),spatial.circle(1,1,1))",
            "'spatial.within' query method is not supported for this type of query",
        ),
        ("startWith(G,'g')", "Method 'startWith' is not supported. Did you mean 'startsWith'?"),
        ("foo(G)", "Method 'foo' is not supported."),
        ("G = $nope", "Value of parameter 'nope' was not provided"),
        ("N = 1 filter_limit 0", "FilterLimit cannot be negative or zero, but was 0."),
        ("N = 1 filter_limit -1", "FilterLimit cannot be negative or zero, but was -1."),
        ("N = 1 filter_limit 'x'", "Value should be a 'Long' but was 'String'."),
        (
            "S[] = 'x'",
            "'[]' cannot be used in FILTER, which compares single values; write 'in' or a \
             declared function",
        ),
        ("startsWith(G)", "Method startsWith() takes 2 arguments in FILTER, but was called with 1"),
    ] {
        let more = json!({"QueryParameters": {"p": 1}});
        assert_eq!(summary(&server, &format!("from Pg filter {filter}"), &more), message);
    }
    let body = br#"{"Query":"from Pg where N > 1 filter N = 2"}"#;
    assert_eq!(server.send("POST", "/databases/db/queries", body).status, 200);
    let refused = server.send("POST", "/databases/db/queries?debug=entries", body);
    assert_eq!(refused.json()["Type"], "System.NotSupportedException");
}

#[test]
fn page_sizes_count_scanned_rows() {
    let server = server_with_rows();
    let none = json!({});
    for (text, more, expected) in [
        ("from Pg filter G='g1'", json!({"PageSize": 2}), "1 4 T2 S3 Sc5"),
        ("from Pg filter G='g1'", json!({"PageSize": 2, "Start": 2}), "4 7 T2 S4 Sc6"),
        ("from Pg filter G='g1'", json!({"PageSize": 0}), " T7 S15 Sc22"),
        ("from Pg filter G='g1'", json!({"Start": 100}), " T0 S0 Sc0"),
        ("from Pg filter G='g1' limit 2", none.clone(), "1 4 T2 S3 Sc5 C2"),
        ("from Pg filter G='g1' limit 2 offset 1", none.clone(), "1 4 T2 S2 Sc4 C1"),
        ("from Pg filter G='g1' limit 1, 2", none.clone(), "1 4 T2 S2 Sc4 C1"),
        ("from Pg filter G='g1' filter_limit 4", none.clone(), "1 T1 S3 Sc4"),
        ("from Pg filter G='g1' limit 1 filter_limit 4", none.clone(), "1 T1 S1 Sc2 C1"),
        ("from Pg filter G='g1' limit 1 offset 1 filter_limit 8", none.clone(), "1 T1 S0 Sc1 C0"),
        ("from Pg where N > 5 filter G='g1' filter_limit 4", none.clone(), "7 T14 S3 Sc4"),
        ("from Pg where N > 5 filter G='g1'", none.clone(), "7 10 13 16 19 T14 S9 Sc14"),
        ("from Pg where N > 5 filter G='g1'", json!({"PageSize": 2}), "7 10 T14 S3 Sc5"),
        (
            "from Pg where N > 5 filter G='g1'",
            json!({"PageSize": 2, "Start": 1}),
            "7 10 T14 S2 Sc4",
        ),
        ("from Pg where N > 5 filter G='g1'", json!({"PageSize": 0}), " T14 S0 Sc0"),
        (
            "from Pg where N > 5 order by N as long desc filter G='g1'",
            json!({"PageSize": 2}),
            "19 16 T14 S2 Sc4",
        ),
        (
            "from Pg where id() in ('p/01','p/02','p/04') filter G='g1'",
            none.clone(),
            "1 4 T2 S1 Sc3",
        ),
        (
            "from Pg where startsWith(id(),'p/0') filter G='g1'",
            json!({"PageSize": 1}),
            "1 T-1 S1 Sc2",
        ),
        ("from Pg filter N<9 select distinct G", none.clone(), "0 1 2 98 T10 S18 Sc22"),
        ("from Pg filter N<9 select distinct G", json!({"PageSize": 2}), "0 1 T2 S0 Sc2"),
        ("from Pg where N >= 0 filter N<9 select distinct G", none.clone(), "0 1 2 T20 S17 Sc20"),
        (
            "from Pg where N >= 0 filter N<9 select distinct G",
            json!({"PageSize": 1, "Start": 1}),
            "1 T20 S0 Sc1",
        ),
        ("from Pg where N = 'x' filter G='g1'", none.clone(), " T0 S0 Sc0"),
    ] {
        assert_eq!(summary(&server, text, &more), expected, "{text} {more}");
    }
}

#[test]
fn declared_functions_loads_streams_and_deletes_support_filters() {
    let server = server_with_rows();
    let none = json!({});
    for (text, expected) in [
        (
            "declare function f(p) { return p.N > 15; } from Pg as p filter f(p)",
            "16 17 18 19 T4 S18 Sc22",
        ),
        (
            "declare function f(p) { return p.N; } from Pg as p filter f(p) = 17 and p.G = 'g2'",
            "17 T1 S21 Sc22",
        ),
        ("from Pg as p load p.G as g filter g = null and p.N = 98", " T0 S22 Sc22"),
        ("from Pg as p filter id(p) = 'p/03'", "3 T1 S21 Sc22"),
        ("from Pg as p filter p.O.Y=1 select { N: p.N }", "1 5 9 13 17 T5 S17 Sc22"),
    ] {
        assert_eq!(summary(&server, text, &none), expected, "{text}");
    }
    let stream =
        server.get("/databases/db/streams/queries?query=from%20Pg%20filter%20N%20%3E%2017");
    let stream = stream.json();
    assert_eq!(stream["Results"].as_array().unwrap().len(), 2);
    assert_eq!(stream["TotalResults"], 22);
    let body = br#"{"Query":"from Pg filter N > 2"}"#;
    let id = server.send("DELETE", "/databases/db/queries", body).json()["OperationId"].clone();
    loop {
        let state = server.get(&format!("/databases/db/operations/state?id={id}")).json();
        match state["Status"].as_str() {
            Some("InProgress") => std::thread::yield_now(),
            status => break assert_eq!(status, Some("Completed"), "{state}"),
        }
    }
    assert_eq!(summary(&server, "from Pg", &none), "0 1 2 98 99 T5 S0 Sc0");
}
