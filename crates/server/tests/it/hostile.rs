//! Invalid and malicious requests.

use serde_json::json;

use crate::test_server::TestServer;

#[test]
fn invalid_documents_are_rejected_and_nothing_is_stored() {
    let server = TestServer::with_database();
    let deep = "{\"a\":".repeat(200) + "1" + &"}".repeat(200);
    let table: &[(&[u8], &str)] = &[
        (b"", "System.IO.EndOfStreamException"),
        (b"{\"a\":", "System.IO.EndOfStreamException"),
        (b"hello", "System.IO.InvalidDataException"),
        (b"{\"a\":01}", "System.IO.InvalidDataException"),
        (b"{\"a\":1.79e309}", "System.IO.InvalidDataException"),
        (b"{\"a\":\"\xff\xfe\"}", "System.IO.InvalidDataException"),
        (b"{/* c */}", "System.IO.InvalidDataException"),
        (b"[1]", "Sparrow.Exceptions.InvalidStartOfObjectException"),
        (b"\"a\"", "Sparrow.Exceptions.InvalidStartOfObjectException"),
        (b"{\"@metadata\":5}", "System.FormatException"),
        (deep.as_bytes(), "System.IO.InvalidDataException"),
    ];
    for (body, name) in table {
        let reply = server.send("PUT", "/databases/db/docs?id=x", body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
        assert_eq!(reply.status, 500, "{shown}");
        let error = reply.json();
        assert_eq!(error["Type"], *name, "{shown}");
        assert_eq!(error["Url"], "/databases/db/docs?id=x");
        assert!(error["Error"].as_str().unwrap().starts_with(name), "{shown}");
    }
    assert!(server.document("x").is_null());
}

#[test]
fn lenient_json_is_parsed_as_intended() {
    let server = TestServer::with_database();
    let table = [
        (r#"{"a":1,"b":2,"a":3}"#, json!({"b": 2, "a": 3})),
        (r#"{'a':'single quotes',}"#, json!({"a": "single quotes"})),
        (r#"{"a":1} trailing"#, json!({"a": 1})),
        (
            r#"{"e":"\ud83d\ude00 😀","z":null,"A":{},"b":[]}"#,
            json!({"e": "😀 😀", "z": null, "A": {}, "b": []}),
        ),
    ];
    for (body, expected) in table {
        server.put("x", body);
        let mut document = server.document("x");
        document.as_object_mut().unwrap().remove("@metadata");
        assert_eq!(document, expected, "{body}");
    }
    server.put("n", r#"{"n":[1.0,1e5,0.10,100000000000000000000,-0.0]}"#);
    let text = server.get("/databases/db/docs?id=n").text();
    assert!(text.contains("[1.0,1e5,0.10,100000000000000000000,-0.0]"), "{text}");
}

#[test]
fn ids_are_limited_to_512_bytes() {
    let server = TestServer::with_database();
    server.put(&"x".repeat(512), "{}");
    let table = ["x".repeat(513), "%C3%A9".repeat(300)];
    for id in table {
        for (method, body) in [("PUT", "{}"), ("DELETE", ""), ("GET", "")] {
            let target = format!("/databases/db/docs?id={id}");
            let reply = server.send(method, &target, body.as_bytes());
            assert_eq!(reply.status, 500, "{method}");
            let message = reply.json()["Message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("Document ID cannot exceed 512 bytes"), "{message}");
        }
    }
}

#[test]
fn invalid_parameters_are_named_in_the_error() {
    let server = TestServer::with_database();
    let table = [
        ("PUT", "/databases/db/docs", "Query string value 'id' must have a non empty value"),
        ("PUT", "/databases/db/docs?id=a&id=b", "Query string value 'id' must appear exactly once"),
        ("DELETE", "/databases/db/docs?id=", "Query string value 'id' must have a non empty value"),
        (
            "GET",
            "/databases/db/docs?start=abc",
            "Could not parse header 'start' header as int, value was: abc",
        ),
        (
            "GET",
            "/databases/db/docs?id=a&metadataOnly=yes",
            "Could not parse query string 'metadataOnly' as bool, val yes",
        ),
        ("GET", "/databases/db/hilo/next", "Query string value 'tag' must have a non empty value"),
        (
            "PUT",
            "/databases/db/hilo/return?tag=a",
            "Query string end is mandatory, but wasn't specified.",
        ),
        (
            "GET",
            "/databases/db/operations/state",
            "Query string id is mandatory, but wasn't specified.",
        ),
        (
            "POST",
            "/databases/db/bulk_docs?waitForReplicasTimeout=xx",
            "Could not parse query string 'waitForReplicasTimeout' as timespan val xx",
        ),
        (
            "GET",
            "/databases/db/collections/docs",
            "Query string name is mandatory, but wasn't specified.",
        ),
        ("GET", "/topology", "Query string value 'name' must have a non empty value"),
        ("GET", "/databases/db/docs?id=%20", "Argument is null or whitespace (Parameter 'id')"),
    ];
    for (method, target, message) in table {
        let reply = server.send(method, target, if method == "PUT" { b"{}" } else { b"" });
        assert_eq!(reply.status, 500, "{target}");
        let error = reply.json();
        assert_eq!(
            (&error["Type"], &error["Message"]),
            (&json!("System.ArgumentException"), &json!(message))
        );
    }
}

#[test]
fn unknown_routes_are_reported_with_method_and_path() {
    let server = TestServer::with_database();
    let table = [
        ("GET", "/foo/bar?x=1"),
        ("GET", "/databases/db/foo"),
        ("DELETE", "/databases/db/stats"),
        ("GET", "/databases/db/docs/"),
        ("GET", "/databases/db"),
        ("RESET", "/databases/db/docs"),
        ("OPTIONS", "/databases/db/queries"),
    ];
    for (method, target) in table {
        let reply = server.send(method, target, b"");
        assert_eq!(reply.status, 400, "{method} {target}");
        let error = reply.json();
        assert_eq!(error["Type"], "Raven.Client.Exceptions.Routing.RouteNotFoundException");
        assert_eq!(error["Message"], format!("There is no handler for path: {method} {target}"));
    }
}

#[test]
fn routes_that_are_not_implemented_are_named_in_the_error() {
    let server = TestServer::with_database();
    let table = [
        (
            "GET",
            "/databases/db/ETL/performance/live?x=1",
            "GET /databases/*/etl/performance/live",
            "ETL and queue sinks",
        ),
        ("GET", "/rachis/waitfor", "GET /rachis/waitfor", "Clusters of several nodes"),
    ];
    for (method, target, name, feature) in table {
        let reply = server.send(method, target, b"");
        assert_eq!(reply.status, 500, "{method} {target}");
        let error = reply.json();
        assert_eq!(error["Type"], "System.NotSupportedException");
        let expected = format!(
            "'{name}' is not supported by this server yet: it belongs to the feature '{feature}'. \
             See docs/compatibility.md, \"Routes that are not implemented yet\"."
        );
        assert_eq!(error["Message"], expected);
    }
}

#[test]
fn bodies_that_are_too_large_are_rejected_before_they_are_read() {
    let platform = platform::Platform::memory();
    let server = TestServer::start(platform, &["--Http.MaxRequestBodySizeInMb=1"]);
    server.create("db");
    let mut connection = server.open();
    connection.send(
        b"PUT /databases/db/docs?id=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n",
    );
    let reply = connection.read_reply(false);
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert_eq!(reply.header("connection"), Some("close"));
    let bomb = zstd::encode_all(&vec![b' '; 2 << 20][..], 3).unwrap();
    let zstd = [("Content-Encoding", "zstd")];
    let reply = server.send_with("PUT", "/databases/db/docs?id=a", &zstd, &bomb);
    assert_eq!(reply.status, 413, "{}", reply.text());
    let plain = [("Content-Encoding", "gzip")];
    let reply = server.send_with("PUT", "/databases/db/docs?id=a", &plain, b"{}");
    assert_eq!(reply.json()["Type"], "System.IO.InvalidDataException");
    let unknown = [("Content-Encoding", "foo")];
    assert_eq!(server.send_with("PUT", "/databases/db/docs?id=a", &unknown, b"{}").status, 400);
    assert!(server.document("a").is_null());
}

#[test]
fn a_body_in_an_unknown_transfer_coding_is_not_stored() {
    let server = TestServer::start(platform::Platform::memory(), &[]);
    server.create("db");
    let mut connection = server.open();
    connection.send(
        b"PUT /databases/db/docs?id=a HTTP/1.1\r\nHost: localhost\r\n\
          Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    );
    let reply = connection.read_reply(false);
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(reply.text().contains("'chunked'"), "{}", reply.text());
    assert!(server.document("a").is_null());
}

#[test]
fn stalled_connections_are_closed() {
    let platform = platform::Platform::memory();
    let settings = ["--Http.IdleConnectionTimeoutInSec=1", "--Http.RequestHeadTimeoutInSec=1"];
    let server = TestServer::start(platform, &settings);
    server.create("db");
    let head =
        b"PUT /databases/db/docs?id=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    let mut in_body = server.open();
    in_body.send(head);
    let mut in_head = server.open();
    in_head.send(&head[..40]);
    let mut idle = server.open();
    assert_eq!(in_body.read_reply(false).status, 408);
    assert!(in_head.is_closed());
    assert!(idle.is_closed());
    server.stop();
}

#[test]
fn long_urls_and_malformed_requests_do_not_stop_the_server() {
    let server = TestServer::with_database();
    let target = format!("/databases/db/docs?id={}", "x".repeat(17 << 10));
    assert_eq!(server.get(&target).status, 414);
    for bytes in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"\0\0"] {
        server.open().send(bytes);
    }
    server.put("a", "{}");
    assert!(!server.document("a").is_null());
}
