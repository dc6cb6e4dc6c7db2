//! Clients that do not read their responses: each occupies only its own place, and receives the
//! reason when it is cut off.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use platform::Platform;
use serde_json::json;

use crate::{resources::wait_until, test_server::TestServer};

/// The memory limit of the servers in these tests: a database has 32 places for long responses,
/// which together are accounted for as this many bytes.
const LITTLE: &str = "--Memory.LimitInMb=256";
const PLACES_BYTES: u64 = 16 << 20;
/// The number of places for long responses of a database with this memory limit.
const PLACES: usize = 32;
/// More clients than there are places, threads for responses, and threads for other work.
const CLIENTS: usize = 100;
const LONG_ANSWERS: &[&str] = &[
    "/databases/db/streams/docs",
    "/databases/db/docs?startsWith=d/&pageSize=1000",
    "/databases/db/queries?query=from%20@all_docs",
    "/databases/db/streams/queries?query=from%20@all_docs",
    "/databases/db/queries?query=from%20@all_docs%20order%20by%20n%20as%20long%20limit%20200",
];

/// A database `db` whose documents exceed socket buffers and response chunks.
fn with_documents(settings: &[&str]) -> TestServer {
    // Memory that other tests of this process use is not counted.
    let memory = Platform::simulated(1).platform.memory;
    let server = TestServer::start(Platform { memory, ..Platform::memory() }, settings);
    server.create("db");
    let text = "x".repeat(64 << 10);
    for n in 0..300 {
        server.put(&format!("d/{n:04}"), &json!({"n": n, "t": text}).to_string());
    }
    server
}

/// Clients that send requests and do not read. Their connections end with the response, so that
/// reading it to its end does not wait for another request.
fn slow(server: &TestServer, target: &str, count: usize) -> Vec<TcpStream> {
    let ask = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    (0..count).map(ask).collect()
}

#[test]
fn clients_that_do_not_read_do_not_delay_other_databases() {
    for target in LONG_ANSWERS {
        let server = with_documents(&[LITTLE]);
        server.create("other");
        let put = |n: usize| {
            let target = format!("/databases/other/docs?id=d/{n}");
            let document = json!({"t": "x".repeat(64 << 10)}).to_string();
            let reply = server.send("PUT", &target, document.as_bytes());
            assert_eq!(reply.status, 201, "{}", reply.text());
        };
        (0..40).for_each(put);
        let clients = slow(&server, target, CLIENTS);
        for target in ["/databases/other/streams/docs", "/databases/other/docs?startsWith=d/"] {
            let reply = server.get(target);
            assert_eq!((reply.status, reply.ids().len() >= 25), (200, true), "{}", reply.text());
        }
        let taken = || {
            let stats = server.get("/admin/debug/memory/stats").json();
            stats["Usage"]["AnswersBytes"].as_u64().unwrap()
        };
        // The place of the response that was just read is released a moment after its last byte.
        wait_until(|| taken() <= PLACES_BYTES);
        drop(clients);
    }
}

#[test]
fn a_client_that_does_not_read_loses_its_place_to_one_that_does() {
    let server = with_documents(&[LITTLE, "--Http.MinDataRateGracePeriodInSec=1"]);
    let mut clients = slow(&server, "/databases/db/streams/docs", PLACES);
    // Each occupies its place once its response has started.
    clients.iter_mut().for_each(|client| client.read_exact(&mut [0]).unwrap());
    let reply = server.get("/databases/db/streams/docs");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.ids().len(), 300);
    let whole = |stream: &mut TcpStream| {
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        answer.ends_with(b"0\r\n\r\n")
    };
    // A client whose response was aborted must not take it for a complete one.
    assert!(clients.iter_mut().any(|client| !whole(client)));
}

#[test]
fn an_early_error_is_a_status_and_a_late_one_ends_the_body_with_the_reason() {
    let server = with_documents(&[]);
    let failing = |when: &str| {
        let query = format!(
            "declare function f(d) {{ if ({when}) throw new Error('planned'); return {{n: d.n, t: d.t}}; }} \
             from @all_docs as d select f(d)"
        );
        query.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>()
    };
    for route in ["queries", "streams/queries"] {
        let reply = server.get(&format!("/databases/db/{route}?query={}", failing("true")));
        assert_eq!(reply.status, 500, "{route}");
        assert!(reply.json()["Message"].as_str().unwrap().contains("planned"), "{}", reply.text());
        let mut connection = server.open();
        let target = format!("/databases/db/{route}?query={}", failing("d.n == 150"));
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let answer = connection.read_to_end();
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        let end =
            String::from_utf8_lossy(&answer[answer.len().saturating_sub(1000)..]).into_owned();
        assert!(end.contains("],\"Error\":\"") && end.contains("planned"), "{route}: {end}");
        assert!(!answer.ends_with(b"0\r\n\r\n"), "{route}: it looks like a complete response");
    }
}

#[test]
fn a_client_below_the_minimum_rate_is_disconnected() {
    let settings =
        ["--Http.MinDataRateBytesPerSec=100000000", "--Http.MinDataRateGracePeriodInSec=1"];
    let server = with_documents(&settings);
    let mut client = slow(&server, "/databases/db/streams/docs", 1).remove(0);
    // The end of the connection arrives after the data in the socket buffers.
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    // Each of these takes as long as the server tolerates slow clients.
    for _ in 0..4 {
        let mut pauses = server.open();
        let head = "POST /databases/db/queries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
        pauses.send(head.as_bytes());
        let refused = pauses.read_reply(false);
        assert_eq!(refused.status, 408, "{}", refused.text());
        assert!(refused.text().contains("Http.MinDataRateBytesPerSec"), "{}", refused.text());
    }
    let mut answer = Vec::new();
    drop(client.read_to_end(&mut answer));
    assert!(!answer.ends_with(b"0\r\n\r\n"), "all {} bytes came", answer.len());
}

/// A query is cancelled when its client disconnects, even if it scans or computes and has sent
/// nothing yet.
#[test]
fn a_query_is_cancelled_soon_after_its_client_disconnects() {
    let server = TestServer::with_database();
    for number in 0..1_500 {
        let document = format!(r#"{{"N":{number},"@metadata":{{"@collection":"Things"}}}}"#);
        server.put(&format!("things/{number}"), &document);
    }
    let slow = "declare function f(t) { var a = []; for (var i = 0; i < 3000; i++) a.push({ x: i, \
                y: t.N + 'q'.repeat(3000) }); return { n: a.length } } from Things as t select f(t)";
    let scanning = "from Things as t filter f(t) select t.N".replace("from", "declare function f(t) { \
                    var a = []; for (var i = 0; i < 3000; i++) a.push({ x: i, y: t.N + 'q'.repeat(3000) }); \
                    return a.length < 0 } from");
    for (query, encoding) in [(slow, "identity"), (slow, "gzip"), (scanning.as_str(), "identity")] {
        let body = serde_json::json!({ "Query": query }).to_string();
        let running = || {
            let listed = server.get("/databases/db/debug/queries/running").json();
            // By index, in addition to the metadata.
            listed.as_object().unwrap().len() - 1
        };
        let mut client = TcpStream::connect(server.address).unwrap();
        let head = format!(
            "POST /databases/db/queries HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {encoding}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.write_all((head + &body).as_bytes()).unwrap();
        wait_until(|| running() == 1);
        let clock = Platform::memory().clock;
        let left = clock.monotonic();
        drop(client);
        wait_until(|| running() == 0);
        let took = clock.monotonic() - left;
        assert!(took.as_secs() < 5, "{query}: {took:?}");
    }
}
