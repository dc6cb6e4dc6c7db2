//! A web page in a browser of this machine cannot do anything to the server.

use platform::Platform;
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};

use crate::{http_client::Reply, test_server::TestServer};

/// A host, headers, and the status of the refusal.
type Attack = (&'static str, &'static [(&'static str, &'static str)], u16);

const REBOUND: &str = "evil.example:8080";

/// Headers of requests that web pages of other sites can make browsers send, and the status of the
/// rejection. `{own}` stands for the address of the server.
const ATTACKS: [Attack; 8] = [
    (REBOUND, &[], 421),
    (REBOUND, &[("Origin", "http://evil.example:8080"), ("Sec-Fetch-Site", "same-origin")], 421),
    ("{own}", &[("Origin", "http://evil.example")], 403),
    ("{own}", &[("Origin", "null"), ("Content-Type", "text/plain")], 403),
    ("{own}", &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], 403),
    ("{own}", &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "websocket")], 403),
    ("{own}", &[("Origin", "http://localhost:1"), ("Sec-Fetch-Site", "same-site")], 403),
    ("{own}", &[("Host", "{own}")], 400),
];

const HANDSHAKE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Sends what a page could send, with the headers of a WebSocket handshake, which other routes
/// ignore.
fn attack(
    server: &TestServer,
    (method, target): (&str, &str),
    (host, headers, _): Attack,
    body: &[u8],
) -> Reply {
    let own = server.address.to_string();
    let lines = headers.iter().map(|(name, value)| (*name, value.replace("{own}", &own)));
    let lines: Vec<(&str, String)> = lines.collect();
    let mut lines: Vec<(&str, &str)> = lines.iter().map(|(n, v)| (*n, v.as_str())).collect();
    lines.extend(HANDSHAKE);
    server.send_from(&host.replace("{own}", &own), method, target, &lines, body)
}

fn shares_nothing(reply: &Reply) -> bool {
    reply.headers.iter().all(|(name, _)| !name.to_ascii_lowercase().starts_with("access-control"))
}

#[test]
fn every_route_rejects_a_foreign_page() {
    let server = TestServer::with_database();
    let unknown = [("GET", "/no/such/route"), ("POST", "/databases/*/no/such"), ("OPTIONS", "/")];
    let routes = server::route_requirements().map(|(method, path, _)| (method, path));
    for (method, path) in routes.chain(unknown) {
        let target = path.replace('*', "db");
        for one in ATTACKS {
            let reply = attack(&server, (method, &target), one, b"");
            assert_eq!(reply.status, one.2, "{method} {target} {one:?}: {}", reply.text());
            assert!(shares_nothing(&reply), "{reply:?}");
            if method != "HEAD" {
                let error = reply.json();
                assert!(error["Type"].as_str().unwrap().contains("Exception"), "{error}");
                assert!(error["Message"].as_str().unwrap().len() > 20, "{error}");
            }
        }
    }
}

#[test]
fn a_foreign_page_cannot_change_data() {
    let server = TestServer::with_database();
    server.put("a", "{}");
    let delete = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
    let batch = br#"{"Commands":[{"Type":"DELETE","Id":"a"}]}"#;
    for one in ATTACKS {
        attack(&server, ("DELETE", "/admin/databases"), one, delete);
        attack(&server, ("POST", "/databases/db/bulk_docs"), one, batch);
        attack(
            &server,
            ("POST", "/databases/db/identity/seed?name=x&value=7&force=true"),
            one,
            b"",
        );
    }
    assert!(server.document("a").is_object());
    assert_eq!(
        server.send("POST", "/databases/db/identity/next?name=x", b"").json()["NewIdentityValue"],
        1
    );
}

#[test]
fn a_preflight_request_is_denied() {
    let server = TestServer::start(Platform::memory(), &[LISTED]);
    server.create("db");
    for origin in ["https://studio.example", "http://evil.example"] {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "content-type"),
        ];
        let reply = server.send_with("OPTIONS", "/databases/db/docs?id=a", &headers, b"");
        assert!(400 <= reply.status && shares_nothing(&reply), "{reply:?}");
    }
}

const LISTED: &str = "--Security.AllowedOrigins=https://studio.example;http://localhost:3000";

#[test]
fn pages_of_the_server_and_of_configured_origins_are_accepted() {
    let server = TestServer::start(Platform::memory(), &[LISTED, "--Security.AllowedHosts=corvus"]);
    server.create("db");
    let own = format!("http://{}", server.address);
    let batch = br#"{"Commands":[]}"#;
    let json = ("Content-Type", "application/json");
    let table: [(&[(&str, &str)], u16); 5] = [
        (&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")], 201),
        (&[("Origin", &own)], 201),
        (&[("Origin", "https://studio.example"), json], 201),
        (&[("Origin", "https://studio.example")], 415),
        (&[("User-Agent", "Mozilla/5.0 (X11; Linux)")], 415),
    ];
    for (headers, expected) in table {
        let reply = server.send_with("POST", "/databases/db/bulk_docs", headers, batch);
        assert_eq!(reply.status, expected, "{headers:?}: {}", reply.text());
    }
    assert_eq!(server.send_from("corvus:80", "GET", "/databases", &[], b"").status, 200);
    let refused = server.send_from("raven", "GET", "/databases", &[], b"");
    assert_eq!(refused.status, 421);
    assert!(refused.json()["Message"].as_str().unwrap().contains("Security.AllowedHosts"));
}

#[test]
fn a_web_socket_is_accepted_only_from_pages_of_the_server() {
    let server = TestServer::start(Platform::memory(), &[LISTED]);
    server.create("db");
    let own = format!("http://{}", server.address);
    let table = [
        (None, 101),
        (Some(own.as_str()), 101),
        (Some("https://studio.example"), 101),
        (Some("http://evil.example"), 403),
        (Some("null"), 403),
    ];
    for (origin, expected) in table {
        let url = format!("ws://{}/databases/db/changes", server.address);
        let mut request = url.into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("Origin", origin.parse().unwrap());
        }
        let stream = std::net::TcpStream::connect(server.address).unwrap();
        let status = match tungstenite::client(request, stream) {
            Ok((_, answer)) => answer.status().as_u16(),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                answer.status().as_u16()
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(status, expected, "{origin:?}");
    }
}

#[test]
fn hosts_in_absolute_targets_and_missing_hosts_are_checked() {
    let server = TestServer::with_database();
    let table = [
        ("GET /build/version HTTP/1.0\r\n\r\n", 200),
        ("GET /build/version HTTP/1.1\r\n\r\n", 400),
        ("GET /build/version HTTP/1.1\r\nHost:\r\n\r\n", 200),
        ("GET http://localhost/build/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET http://evil.example/build/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET http://evil.example/build/version HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET http://evil.example/build/version HTTP/1.0\r\n\r\n", 421),
        ("GET http://me@localhost/build/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ];
    for (head, expected) in table {
        let mut connection = server.open();
        connection.send(head.as_bytes());
        assert_eq!(connection.read_reply(false).status, expected, "{head}");
    }
}
