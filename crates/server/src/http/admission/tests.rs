//! Request heads and the decision about each.

use http::{HeaderName, HeaderValue};

use super::*;

fn admission() -> Admission {
    let host = |name: &str| Host::Name(name.to_owned());
    Admission {
        checks_names: true,
        is_secured: false,
        names: ["localhost", "db.example"].map(str::to_owned).to_vec(),
        origins: vec![
            ServerUrl { scheme: Scheme::Https, host: host("studio.example"), port: 443 },
            ServerUrl { scheme: Scheme::Http, host: host("localhost"), port: 3000 },
        ],
    }
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

type Lines<'a> = &'a [(&'a str, &'a str)];

/// The status of a rejection; 200 for none.
fn status(
    version: Version,
    method: &Method,
    authority: Option<&str>,
    lines: &[(&str, &str)],
) -> u16 {
    let headers = headers(lines);
    let authority = authority.map(|text| text.parse().unwrap());
    let path = "/databases";
    let head = Head { version, method, path, authority: authority.as_ref(), headers: &headers };
    admission().admit(head).map_or_else(|error| error.kind.status(), |()| 200)
}

#[test]
fn only_known_names_and_ip_addresses_are_hosts_of_the_server() {
    let table = [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("LocalHost.:8080", 200),
        ("127.0.0.1:8080", 200),
        ("127.9.9.9", 200),
        ("127.0.0.1.:80", 200),
        ("[::1]:8080", 200),
        ("[::ffff:127.0.0.1]", 200),
        ("10.1.2.3:8080", 200),
        ("DB.example:9000", 200),
        ("db.example.", 200),
        ("", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("evil.localhost", 421),
        ("xdb.example", 421),
        ("db.example..", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.1", 421),
        ("2130706433", 421),
        ("0x7f000001", 421),
        ("user@localhost", 400),
        ("localhost@evil.example", 400),
        ("localhost:80@evil.example", 400),
        ("http://localhost", 400),
        ("localhost/", 400),
        ("localhost, evil.example", 400),
        ("localhost evil.example", 400),
        ("localhost:80:80", 400),
        ("localhost:+80", 400),
        ("localhost:", 400),
        (":80", 400),
        ("::1", 400),
        ("[localhost]", 400),
        ("[::1", 400),
        ("[fe80::1%25eth0]", 400),
        ("\u{131}ocalhost", 400),
    ];
    for (host, expected) in table {
        let judged = status(Version::HTTP_11, &Method::GET, None, &[("host", host)]);
        assert_eq!(judged, expected, "{host:?}");
    }
}

#[test]
fn the_host_is_named_once_and_may_be_missing_only_before_http_1_1() {
    let twice: &[(&str, &str)] = &[("host", "localhost"), ("host", "localhost")];
    let table: [(Version, Option<&str>, Lines, u16); 9] = [
        (Version::HTTP_11, None, twice, 400),
        (Version::HTTP_11, None, &[("host", "localhost"), ("host", "evil.example")], 400),
        (Version::HTTP_11, None, &[], 400),
        (Version::HTTP_10, None, &[], 200),
        (Version::HTTP_10, Some("evil.example"), &[], 421),
        (Version::HTTP_11, Some("evil.example"), &[("host", "localhost")], 400),
        (Version::HTTP_11, Some("evil.example"), &[("host", "evil.example")], 421),
        (Version::HTTP_11, Some("LOCALHOST"), &[("host", "localhost:80")], 200),
        (Version::HTTP_11, Some("user@localhost"), &[("host", "localhost")], 400),
    ];
    for (version, authority, lines, expected) in table {
        let judged = status(version, &Method::GET, authority, lines);
        assert_eq!(judged, expected, "{version:?} {authority:?} {lines:?}");
    }
}

#[test]
fn requests_of_other_sites_are_refused_whatever_they_ask() {
    let table: &[(&[(&str, &str)], u16)] = &[
        (&[], 200),
        (&[("origin", "http://localhost:8080")], 200),
        (&[("origin", "HTTP://LocalHost:8080")], 200),
        (&[("origin", "https://localhost:8080")], 200),
        (&[("origin", "http://localhost")], 403),
        (&[("origin", "http://localhost:8081")], 403),
        (&[("origin", "http://127.0.0.1:8080")], 403),
        (&[("origin", "http://evil.example")], 403),
        (&[("origin", "http://evil.example:8080")], 403),
        (&[("origin", "http://localhost:8080.evil.example")], 403),
        (&[("origin", "http://localhost:8080@evil.example")], 403),
        (&[("origin", "http://localhost:8080/")], 403),
        (&[("origin", "null")], 403),
        (&[("origin", "")], 403),
        (&[("origin", "file://")], 403),
        (&[("origin", "chrome-extension://abcdef")], 403),
        (&[("origin", "\u{fc}")], 403),
        (&[("origin", "http://localhost:8080"), ("origin", "http://localhost:8080")], 403),
        (&[("origin", "http://localhost:8080 http://evil.example")], 403),
        (&[("origin", "https://studio.example")], 200),
        (&[("origin", "https://studio.example:443")], 200),
        (&[("origin", "http://studio.example")], 403),
        (&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], 200),
        (&[("sec-fetch-site", "same-origin")], 200),
        (&[("sec-fetch-site", "none")], 200),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("sec-fetch-site", "Cross-Site")], 403),
        (&[("sec-fetch-site", "something-new")], 403),
        (&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], 403),
        (&[("origin", "http://localhost:8080"), ("sec-fetch-site", "cross-site")], 403),
        // Not only browsers send this one: Node.js does.
        (&[("sec-fetch-mode", "cors")], 200),
    ];
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::PATCH] {
        for (lines, expected) in table {
            let lines = [&[("host", "localhost:8080")], *lines].concat();
            let judged = status(Version::HTTP_11, &method, None, &lines);
            assert_eq!(judged, *expected, "{method} {lines:?}");
        }
    }
}

#[test]
fn an_origin_is_held_against_the_host_with_the_ports_that_schemes_have() {
    let table = [
        ("db.example", "http://db.example", 200),
        ("db.example:80", "http://db.example", 200),
        ("db.example", "https://db.example", 200),
        ("db.example:443", "https://db.example", 200),
        ("db.example:80", "https://db.example", 403),
        ("[::1]:8080", "http://[::1]:8080", 200),
        ("db.example.:1", "http://db.example:1", 200),
        ("", "http://db.example", 403),
    ];
    for (host, origin, expected) in table {
        let lines = [("host", host), ("origin", origin)];
        assert_eq!(status(Version::HTTP_11, &Method::GET, None, &lines), expected, "{lines:?}");
    }
}

#[test]
fn a_form_is_taken_only_from_the_servers_own_pages_and_from_what_is_no_browser() {
    const BROWSER: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11) Gecko/1 Firefox/60.0");
    const LISTED: (&str, &str) = ("origin", "https://studio.example");
    const OWN: (&str, &str) = ("origin", "http://localhost:8080");
    let senders: [(&[(&str, &str)], bool); 8] = [
        (&[], true),
        (&[("user-agent", "curl/8.0")], true),
        (&[("sec-fetch-mode", "cors")], true),
        (&[OWN], true),
        (&[OWN, BROWSER], true),
        (&[("sec-fetch-site", "same-origin"), LISTED], true),
        (&[LISTED], false),
        (&[BROWSER], false),
    ];
    let types: [(&[(&str, &str)], bool); 8] = [
        (&[], true),
        (&[("content-type", "")], true),
        (&[("content-type", "text/plain")], true),
        (&[("content-type", "Text/Plain ; charset=utf-8")], true),
        (&[("content-type", "multipart/form-data; boundary=x")], true),
        (&[("content-type", "application/x-www-form-urlencoded")], true),
        (&[("content-type", "application/json; charset=utf-8")], false),
        (&[("content-type", "multipart/mixed; boundary=x")], false),
    ];
    for (sender, may_send_forms) in senders {
        for (content_type, is_form) in types {
            let lines = [&[("host", "localhost:8080")], sender, content_type].concat();
            let expected = if is_form && !may_send_forms { 415 } else { 200 };
            let judged = status(Version::HTTP_11, &Method::POST, None, &lines);
            assert_eq!(judged, expected, "{lines:?}");
            assert_eq!(status(Version::HTTP_11, &Method::GET, None, &lines), 200, "{lines:?}");
        }
    }
}
