//! The address of this node as reported to clients.
//!
//! Only the client knows under which name it reached the server: through a mapped port of a
//! container, a host name, another network. So, unless `PublicServerUrl` is set, it receives what
//! its own `Host` header says. Invariant: the address is never `0.0.0.0` or `[::]`, to which no
//! other machine can connect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, header};
use settings::{Host, Scheme};
use wire::ErrorKind;

use crate::{api_error::ApiError, http::admission::NamedHost};

/// The port that an address without one means.
fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Https => 443,
        Scheme::Http | Scheme::Tcp => 80,
    }
}

/// The address of a listener, for clients that do not say how they reached it.
pub(crate) fn of_listener(scheme: Scheme, bound: SocketAddr) -> String {
    let host = reachable(bound.ip());
    format!("{}://{}", scheme.text(), SocketAddr::new(host, bound.port()))
}

/// The address that the client used, from its `Host` header.
///
/// # Errors
///
/// When the header is missing, or is not a host with an optional port.
pub(crate) fn of_request(scheme: Scheme, headers: &HeaderMap) -> Result<String, ApiError> {
    let host = headers.get(header::HOST).map(|value| value.to_str().unwrap_or("\u{fffd}").trim());
    let Some(text) = host.filter(|text| !text.is_empty()) else {
        return Err(unusable(scheme, ErrorKind::InvalidOperation, ""));
    };
    let unreadable = || unusable(scheme, ErrorKind::BadRequest, text);
    let named = NamedHost::parse(text).ok_or_else(unreadable)?;
    let host = match named.host {
        Host::Ip(address) => Host::Ip(reachable(address)),
        Host::Name(name) => Host::Name(name),
    };
    let default_port = default_port(scheme);
    let (scheme, port) = (scheme.text(), named.port.unwrap_or(default_port));
    Ok(match port == default_port {
        true => format!("{scheme}://{host}"),
        false => format!("{scheme}://{host}:{port}"),
    })
}

/// The address for the TCP protocol of a node with this HTTP address: the same one, as both are
/// served there, or another port of its host.
pub(crate) fn for_tcp(address: &str, port: Option<u16>) -> String {
    let (scheme, authority) = address.split_once("://").unwrap_or(("http", address));
    let authority = authority.split('/').next().unwrap_or(authority);
    let default_port = default_port(if scheme == "https" { Scheme::Https } else { Scheme::Http });
    let (host, own_port) = match authority.rsplit_once(':') {
        Some((host, digits)) if !digits.contains(']') => {
            (host, digits.parse().unwrap_or(default_port))
        }
        Some(_) | None => (authority, default_port),
    };
    format!("tcp://{host}:{}", port.unwrap_or(own_port))
}

/// A wildcard address is replaced by the machine's own one.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) if address.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    }
}

fn unusable(scheme: Scheme, kind: ErrorKind, host: &str) -> ApiError {
    let slashes = if host.is_empty() { "" } else { "//" };
    let scheme = scheme.text();
    ApiError::new(kind, format!("Could not parse server web url: {scheme}:{slashes}{host}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn address_of(host: &[u8]) -> Result<String, ErrorKind> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_bytes(host).unwrap());
        of_request(Scheme::Http, &headers).map_err(|error| error.kind)
    }

    #[test]
    fn a_client_receives_the_host_that_it_used() {
        let table: [(&[u8], &str); 10] = [
            (b"foo:1234", "http://foo:1234"),
            (b"foo", "http://foo"),
            (b"FOO.example:80", "http://foo.example"),
            (b"foo_bar:1", "http://foo_bar:1"),
            (b"10.1.2.3:8080", "http://10.1.2.3:8080"),
            (b"[::1]:8080", "http://[::1]:8080"),
            (b"[2001:DB8::1]", "http://[2001:db8::1]"),
            (b"0.0.0.0:5", "http://127.0.0.1:5"),
            (b"[::]:5", "http://[::1]:5"),
            (b" foo:1 ", "http://foo:1"),
        ];
        for (host, expected) in table {
            assert_eq!(address_of(host).as_deref(), Ok(expected), "{}", host.escape_ascii());
        }
    }

    #[test]
    fn a_host_that_is_none_is_refused() {
        let table: [&[u8]; 17] = [
            b"a b",
            b"http://x",
            b":80",
            b"foo:99999",
            b"foo:bar",
            b"::1",
            b"\xc3\xbc:1",
            b"user@foo:1",
            b"foo/bar",
            b"foo:",
            b"%41",
            b"a,b",
            b"foo?x",
            b"\"",
            b"[foo]:1",
            b"[::1]x",
            b"foo:1:2",
        ];
        for host in table {
            assert_eq!(address_of(host), Err(ErrorKind::BadRequest), "{}", host.escape_ascii());
        }
        assert_eq!(address_of(b""), Err(ErrorKind::InvalidOperation));
        let missing = of_request(Scheme::Http, &HeaderMap::new()).unwrap_err();
        assert_eq!(missing.message, "Could not parse server web url: http:");
    }

    #[test]
    fn the_address_for_tcp_is_that_for_http_with_another_port_perhaps() {
        let table = [
            ("http://foo:1234", None, "tcp://foo:1234"),
            ("http://foo", None, "tcp://foo:80"),
            ("https://foo", None, "tcp://foo:443"),
            ("http://[::1]", None, "tcp://[::1]:80"),
            ("http://[::1]:8080", Some(5), "tcp://[::1]:5"),
            ("http://foo:1234", Some(38888), "tcp://foo:38888"),
        ];
        for (address, port, expected) in table {
            assert_eq!(for_tcp(address, port), expected, "{address} {port:?}");
        }
    }

    #[test]
    fn a_listener_on_every_address_is_reported_as_one_of_this_machine() {
        let table = [
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
            ("10.0.0.7:1", "http://10.0.0.7:1"),
        ];
        for (bound, expected) in table {
            assert_eq!(of_listener(Scheme::Http, bound.parse().unwrap()), expected);
        }
    }
}
