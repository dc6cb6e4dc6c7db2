//! The addresses in settings: scheme, host, port, and nothing after them.
//!
//! Not here: resolving names and listening. Invariant: a [`ServerUrl`] prints as text that parses
//! back to the same value.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;

/// An address such as `http://127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// The protocol.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port; 0 means any free port and is refused in public addresses.
    pub port: u16,
}

/// The protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP without TLS.
    Http,
    /// HTTP with TLS.
    Https,
    /// RavenDB's TCP protocol.
    Tcp,
}

/// The host of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A literal address.
    Ip(IpAddr),
    /// A name to resolve, in lower case.
    Name(String),
}

impl Scheme {
    /// The scheme as it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Tcp => "tcp",
        }
    }

    /// The port that an address without one means; TCP addresses always name theirs.
    const fn default_port(self) -> Option<u16> {
        match self {
            Scheme::Http => Some(80),
            Scheme::Https => Some(443),
            Scheme::Tcp => None,
        }
    }
}

impl ServerUrl {
    /// Reads an address.
    ///
    /// The error is what is wrong with the text, worded to follow "it is not an address: ".
    pub(crate) fn parse(text: &str) -> Result<ServerUrl, &'static str> {
        let Some((scheme, rest)) = text.trim().split_once("://") else {
            return Err("it must begin with http://, https:// or tcp://");
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "tcp" => Scheme::Tcp,
            _ => return Err("it must begin with http://, https:// or tcp://"),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err("only a host and a port may follow ://");
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            Some(port) => port.parse().map_err(|_| "the port must be a number from 0 to 65535")?,
            None => scheme.default_port().ok_or("the port is missing")?,
        };
        Ok(ServerUrl { scheme, host: Host::parse(host)?, port })
    }
}

/// Splits `host:port`; an IPv6 address is in brackets, which are removed.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or("a ] is missing")?;
        host.parse::<Ipv6Addr>().map_err(|_| "only an IPv6 address may be in brackets")?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err("only a port may follow the ]"),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => Err("an IPv6 address must be in brackets"),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

impl Host {
    pub(crate) fn parse(text: &str) -> Result<Host, &'static str> {
        if let Ok(address) = text.parse() {
            return Ok(Host::Ip(address));
        }
        if matches!(text, "*" | "+") {
            return Err("for every address of this machine write 0.0.0.0 or [::]");
        }
        let permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if text.is_empty() || !text.chars().all(permitted) {
            return Err("the host must be an IP address or a name");
        }
        Ok(Host::Name(text.to_ascii_lowercase()))
    }

    /// Whether this means every address of the machine (`0.0.0.0` or `[::]`).
    pub fn is_unspecified(&self) -> bool {
        match self {
            Host::Ip(address) => address.is_unspecified(),
            Host::Name(_) => false,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(IpAddr::V4(address)) => address.fmt(f),
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.text(), self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_in_one_form() {
        for (text, printed) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            (" HTTP://LocalHost/ ", "http://localhost:80"),
            ("https://db.example.org", "https://db.example.org:443"),
            ("tcp://[::1]:0", "tcp://[::1]:0"),
            ("http://[::]", "http://[::]:80"),
            ("http://0.0.0.0:65535/", "http://0.0.0.0:65535"),
        ] {
            let url = ServerUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), printed, "{text}");
            assert_eq!(ServerUrl::parse(printed).unwrap(), url, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", "must begin with"),
            ("127.0.0.1:8080", "must begin with"),
            ("ftp://127.0.0.1:8080", "must begin with"),
            ("http://127.0.0.1:8080/studio", "only a host and a port"),
            ("http://user@host:8080", "only a host and a port"),
            ("http://127.0.0.1:65536", "0 to 65535"),
            ("http://127.0.0.1:", "0 to 65535"),
            ("http://127.0.0.1:-1", "0 to 65535"),
            ("tcp://127.0.0.1", "port is missing"),
            ("http://::1:8080", "in brackets"),
            ("http://[::1:8080", "] is missing"),
            ("http://[::1]8080", "follow the ]"),
            ("http://[localhost]:80", "only an IPv6"),
            ("http://*:8080", "0.0.0.0"),
            ("http://:8080", "an IP address or a name"),
            ("http://a b:8080", "an IP address or a name"),
        ] {
            let message = ServerUrl::parse(text).unwrap_err();
            assert!(message.contains(reason), "{text:?}: {message}");
        }
    }
}
