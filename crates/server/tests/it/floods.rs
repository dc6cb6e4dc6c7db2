//! Floods of connections that send nothing, or send very slowly: the number of connections stays
//! limited and other clients are served.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use platform::Platform;
use serde_json::json;

use crate::{tcp_client::TcpClient, test_server::TestServer};

/// Maximum number of connections of the servers in these tests.
const PLACES: usize = 48;
/// Number of connections in a flood.
const FLOOD: usize = 120;
/// Number of requests served during a flood.
const REQUESTS: usize = 20;

fn crowded(settings: &[&str]) -> TestServer {
    let places = format!("--Server.MaxConnections={PLACES}");
    let settings: Vec<&str> =
        [places.as_str()].into_iter().chain(settings.iter().copied()).collect();
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    server
}

fn connections(server: &TestServer, first: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        // The server may have closed it already.
        drop(stream.write_all(first));
        stream
    };
    (0..FLOOD).map(connect).collect()
}

fn serves(server: &TestServer) {
    for number in 0..REQUESTS {
        server.put(&format!("users/{number}"), r#"{"@metadata":{"@collection":"Users"}}"#);
    }
}

#[test]
fn silent_connections_and_incomplete_requests_are_closed_to_make_room() {
    let half_head = b"GET /build/version HTTP/1.1\r\nHos";
    let half_header = br#"{"DatabaseName":"db","Operation":"Subscr"#;
    let agreed = br#"{"DatabaseName":"db","Operation":"Subscription","OperationVersion":1}"#;
    for first in [b"".as_slice(), half_head, half_header, agreed] {
        let server = crowded(&[]);
        let flood = connections(&server, first);
        serves(&server);
        drop(flood);
        serves(&server);
    }
}

#[test]
fn idle_connections_are_closed_to_make_room() {
    let server = crowded(&[]);
    let mut idle: Vec<_> = (0..PLACES).map(|_| server.open()).collect();
    let request = b"GET /build/version HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for connection in &mut idle {
        connection.send(request);
        assert_eq!(connection.read_reply(false).status, 200);
    }
    serves(&server);
}

#[test]
fn clients_that_send_a_byte_at_a_time_do_not_delay_others() {
    let server = crowded(&[]);
    let is_over = Arc::new(AtomicBool::new(false));
    let beginnings = [
        "GET /databases/db/docs?id=a HTTP/1.1\r\nHost: localhost\r\nX-Long: 0123456789\r\n",
        r#"{"DatabaseName":"db","Operation":"Subscription","OperationVersion":53000,"#,
    ];
    let drips: Vec<_> = (0..PLACES * 2)
        .map(|number| {
            let (is_over, address) = (Arc::clone(&is_over), server.address);
            let bytes = beginnings[number % 2].as_bytes();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(address) else { continue };
                    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                    for byte in bytes.iter().cycle() {
                        let is_closed = stream.write_all(&[*byte]).is_err()
                            || stream.read(&mut [0; 64]).is_ok_and(|count| count == 0);
                        if is_closed || is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    serves(&server);
    is_over.store(true, Ordering::Relaxed);
    drips.into_iter().for_each(|drip| drip.join().unwrap());
    serves(&server);
}

#[test]
fn bodies_that_stall_give_up_their_connections_one_for_each_that_waits() {
    let settings = ["--Http.MinDataRateGracePeriodInSec=1", "--Http.MinDataRateBytesPerSec=0"];
    let server = crowded(&settings);
    // No memory is charged for them, and they do not count as unused.
    let heads = ["PUT /databases/db/docs?id=a", "POST /databases/db/bulk_insert?id=1"];
    let mut stalled: Vec<_> = (0..PLACES)
        .map(|number| {
            let mut connection = server.open();
            let head = heads[number % heads.len()];
            let rest = "Host: localhost\r\nContent-Length: 9000\r\n\r\n[";
            connection.send(format!("{head} HTTP/1.1\r\n{rest}").as_bytes());
            connection
        })
        .collect();
    serves(&server);
    let given_up = stalled.iter_mut().filter_map(|connection| connection.received_now());
    let given_up: Vec<String> = given_up.collect();
    // The requests come one after the other, each on a connection of its own.
    assert!((1..=3).contains(&given_up.len()), "{given_up:?}");
    for answer in given_up {
        assert!(answer.contains("Other requests wait for a connection"), "{answer}");
    }
}

#[test]
fn bulk_inserts_that_drip_give_up_their_connections() {
    let server = crowded(&["--Http.MinDataRateGracePeriodInSec=1"]);
    let is_over = Arc::new(AtomicBool::new(false));
    let drips: Vec<_> = (0..PLACES)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let head = "POST /databases/db/bulk_insert?id=1 HTTP/1.1\r\nHost: localhost\r\n";
            write!(stream, "{head}Content-Length: 9000\r\n\r\n[").unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) && stream.write_all(b" ").is_ok() {
                    let is_closed = stream.read(&mut [0; 64]).is_ok_and(|count| count == 0);
                    if is_closed {
                        break;
                    }
                }
            })
        })
        .collect();
    serves(&server);
    is_over.store(true, Ordering::Relaxed);
    drips.into_iter().for_each(|drip| drip.join().unwrap());
}

#[test]
fn workers_that_do_not_read_block_neither_requests_nor_writers() {
    let server = TestServer::with_database();
    let long = "x".repeat(200_000);
    for number in 0..40 {
        let document = json!({"Long": long, "@metadata": {"@collection": "Users"}});
        server.put(&format!("users/{number}"), &document.to_string());
    }
    let mut workers = Vec::new();
    for number in 0..8 {
        let body = json!({"Name": format!("s{number}"), "Query": "from Users"}).to_string();
        server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
        let options = json!({"SubscriptionName": format!("s{number}")});
        workers.push(TcpClient::accepted(&server, &options));
    }
    // None of them reads its batch of 8 MB.
    serves(&server);
    let reply = server.send("DELETE", "/databases/db/docs?id=users/0", b"");
    assert_eq!(reply.status, 204);
    let mut last = workers.pop().unwrap();
    assert!(39 <= last.batch().items.len());
    last.acknowledge();
    server.stop();
}

#[test]
fn a_connected_worker_is_served_during_a_flood() {
    let server = crowded(&[]);
    let body = json!({"Name": "s", "Query": "from Users"}).to_string();
    server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    let mut worker = TcpClient::accepted(&server, &json!({"SubscriptionName": "s"}));
    let flood = connections(&server, b"");
    serves(&server);
    let mut received = 0;
    while received < REQUESTS {
        received += worker.batch().items.len();
        worker.acknowledge();
    }
    drop(flood);
}
