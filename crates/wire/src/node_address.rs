//! Addresses of servers, as connection strings and topologies name them: a scheme, a host and perhaps a port.
//!
//! Invariant: there is nothing else in one. What is requested of a server is decided by the caller alone, and never by a
//! path, a query or credentials that somebody wrote into an address.

use std::{fmt, net::Ipv6Addr, str::FromStr};

/// The longest name that DNS has, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// See the module. Printed without its port if the scheme implies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    is_encrypted: bool,
    /// Of an IPv6 address without its brackets.
    host: String,
    port: u16,
}

/// A text that is no address of a server. It is not shown: there may be a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNodeAddress;

impl fmt::Display for InvalidNodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an address of a server begins with http:// or https://, and has a host and perhaps a port, but no path, \
             query or credentials",
        )
    }
}

impl std::error::Error for InvalidNodeAddress {}

impl NodeAddress {
    /// Whether what is sent there is encrypted: `https`.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The name or the IP address; that of version 6 without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host, and the port unless the scheme implies it, as in the header `Host`.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == default_port(self.is_encrypted) {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }
}

fn default_port(is_encrypted: bool) -> u16 {
    if is_encrypted { 443 } else { 80 }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl FromStr for NodeAddress {
    type Err = InvalidNodeAddress;

    /// Reads an address; slashes at its end, and white space around it, mean nothing.
    fn from_str(text: &str) -> Result<Self, InvalidNodeAddress> {
        parse(text.trim()).ok_or(InvalidNodeAddress)
    }
}

fn parse(text: &str) -> Option<NodeAddress> {
    let (scheme, rest) = text.split_once("://")?;
    let is_encrypted = match () {
        () if scheme.eq_ignore_ascii_case("https") => true,
        () if scheme.eq_ignore_ascii_case("http") => false,
        () => return None,
    };
    let authority = rest.trim_end_matches('/');
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (host.parse::<Ipv6Addr>().ok()?.to_string(), port)
        }
        None => {
            let (host, port) = authority
                .split_once(':')
                .map_or((authority, None), |(host, port)| (host, Some(port)));
            (Some(host).filter(|host| is_host_name(host))?.to_ascii_lowercase(), port)
        }
    };
    let port = match port {
        None => default_port(is_encrypted),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0)?
        }
        Some(_) => return None,
    };
    Some(NodeAddress { is_encrypted, host, port })
}

fn is_host_name(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=HOST_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, shown, host, port) in [
            ("http://a", "http://a", "a", 80),
            (" HTTPS://A.b_c-d:8443// ", "https://a.b_c-d:8443", "a.b_c-d", 8443),
            ("https://10.0.0.7:443/", "https://10.0.0.7", "10.0.0.7", 443),
            ("https://[::1]:8080", "https://[::1]:8080", "::1", 8080),
            ("http://[2001:DB8::1]/", "http://[2001:db8::1]", "2001:db8::1", 80),
        ] {
            let address: NodeAddress = text.parse().unwrap();
            let shown_again: NodeAddress = address.to_string().parse().unwrap();
            assert_eq!((address.to_string().as_str(), &shown_again), (shown, &address), "{text}");
            assert_eq!((address.host(), address.port()), (host, port), "{text}");
            assert_eq!(address.is_encrypted(), shown.starts_with("https"));
        }
    }

    #[test]
    fn nothing_else_is_one() {
        for text in [
            "",
            "a:80",
            "ftp://a",
            "http://",
            "http:///x",
            "http://a/path",
            "http://a?x=",
            "http://a/?x=",
            "http://a#x",
            "http://user:hush@a",
            "http://user@a:80",
            "http://a:",
            "http://a:0",
            "http://a:99999",
            "http://a:+80",
            "http://a:80:80",
            "http://a\\@b",
            "http://a b",
            "http://a\r\nHost:b",
            "http://%61",
            "http://ü",
            "http://[::1",
            "http://[::1]x",
            "http://[a]",
            "http://::1",
        ] {
            let refused = text.parse::<NodeAddress>().unwrap_err();
            assert!(!refused.to_string().contains("hush"), "{text}");
        }
    }
}
