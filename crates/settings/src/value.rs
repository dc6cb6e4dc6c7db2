//! Reading the text of a value by the type of its key.
//!
//! Not here: where the text came from, and comparing one key with another (`merge`).
//! Invariant: a [`Value`] is in the range that its key names; sizes are bytes from here on.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::key::{Choice, Only, ValueType};
use crate::table::find_key;
use crate::url::{Host, Scheme, ServerUrl};

/// The largest number of addresses in one list.
const URLS_MAX: usize = 16;

/// A value that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// No value and no default.
    Unset,
    Text(String),
    Bool(bool),
    Integer(u64),
    Bytes(u64),
    Duration(Duration),
    Urls(Vec<ServerUrl>),
    TcpAddresses(Vec<TcpAddress>),
    Names(Vec<String>),
    Path(PathBuf),
    Paths(Vec<PathBuf>),
    Choice(&'static str),
    Access(UnsecuredAccess),
    Version(ProtocolVersion),
}

/// An address of the TCP protocol as it may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TcpAddress {
    /// Only a port: on the hosts of `ServerUrl`.
    Port(u16),
    Url(ServerUrl),
}

/// From which addresses a server without certificates may be reached. A later one includes the
/// earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsecuredAccess {
    /// From nowhere.
    None,
    /// From this machine (loopback addresses).
    Local,
    /// From private networks too (RFC 1918, link-local, and unique local IPv6 addresses).
    PrivateNetwork,
    /// From everywhere.
    PublicNetwork,
}

impl UnsecuredAccess {
    const ALL: [(&'static str, UnsecuredAccess); 4] = [
        ("None", UnsecuredAccess::None),
        ("Local", UnsecuredAccess::Local),
        ("PrivateNetwork", UnsecuredAccess::PrivateNetwork),
        ("PublicNetwork", UnsecuredAccess::PublicNetwork),
    ];

    /// The narrowest access that listening on `address` needs.
    pub fn needed_for(address: IpAddr) -> UnsecuredAccess {
        match address.to_canonical() {
            address if address.is_loopback() => UnsecuredAccess::Local,
            IpAddr::V4(v4) if v4.is_private() || v4.is_link_local() => {
                UnsecuredAccess::PrivateNetwork
            }
            IpAddr::V6(v6) if is_private_v6(v6) => UnsecuredAccess::PrivateNetwork,
            IpAddr::V4(_) | IpAddr::V6(_) => UnsecuredAccess::PublicNetwork,
        }
    }

    /// Whether a server without certificates may listen on `address`.
    ///
    /// Names are resolved by the listener, so this must be called again for the addresses that a
    /// name resolves to.
    pub fn allows(self, address: IpAddr) -> bool {
        UnsecuredAccess::needed_for(address) <= self
    }

    /// The word for this access.
    pub fn name(self) -> &'static str {
        match self {
            UnsecuredAccess::None => "None",
            UnsecuredAccess::Local => "Local",
            UnsecuredAccess::PrivateNetwork => "PrivateNetwork",
            UnsecuredAccess::PublicNetwork => "PublicNetwork",
        }
    }

    /// Reads words joined by commas; the widest one applies.
    fn parse(text: &str) -> Option<UnsecuredAccess> {
        let mut widest = UnsecuredAccess::None;
        for word in text.split(',') {
            let (_, access) =
                Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(word.trim()))?;
            widest = widest.max(*access);
        }
        Some(widest)
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_unique_local() || address.is_unicast_link_local()
}

/// A version of four numbers, as in `5.4.207.54178`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolVersion(String);

impl ProtocolVersion {
    /// The version as text, safe to send in a header.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Option<ProtocolVersion> {
        let parts: Vec<u32> =
            text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [major, minor, patch, build] = parts[..] else { return None };
        Some(ProtocolVersion(format!("{major}.{minor}.{patch}.{build}")))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How hard to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionLevel {
    /// Least time.
    Fastest,
    /// A balance.
    Optimal,
    /// Least bytes.
    SmallestSize,
    /// None at all.
    NoCompression,
}

impl CompressionLevel {
    pub(crate) fn from_name(name: &str) -> Option<CompressionLevel> {
        match name {
            "Fastest" => Some(CompressionLevel::Fastest),
            "Optimal" => Some(CompressionLevel::Optimal),
            "SmallestSize" => Some(CompressionLevel::SmallestSize),
            "NoCompression" => Some(CompressionLevel::NoCompression),
            _ => None,
        }
    }
}

/// Reads `text`, which is not empty, as a value of `value_type`.
///
/// The error is what is expected, worded as a sentence without its full stop.
pub(crate) fn parse_value(value_type: ValueType, text: &str) -> Result<Value, String> {
    let (whole, text) = (text, text.trim());
    match value_type {
        ValueType::Unchecked => Ok(Value::Text(text.to_owned())),
        ValueType::Text => Ok(Value::Text(whole.to_owned())),
        ValueType::Arguments => shlex::split(whole)
            .map(Value::Names)
            .ok_or_else(|| "A quotation mark is never closed".to_owned()),
        ValueType::Thumbprints => parse_list(text, parse_thumbprint).map(Value::Names),
        ValueType::ApiKeyHashes => parse_list(text, parse_api_key_hash).map(Value::Names),
        ValueType::Bool => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err("Write true or false".to_owned()),
        },
        ValueType::WholeNumber => match text.parse::<i64>() {
            Ok(_) => Ok(Value::Text(text.to_owned())),
            Err(_) => Err("Write a whole number".to_owned()),
        },
        ValueType::Number => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Text(text.to_owned())),
            Ok(_) | Err(_) => Err("Write a number".to_owned()),
        },
        ValueType::Integer { min, max } => parse_number(text, min, max, "").map(Value::Integer),
        ValueType::Size { unit, min, max } => parse_number(text, min, max, unit.word())
            .map(|number| Value::Bytes(number.saturating_mul(unit.bytes()))),
        ValueType::Duration { unit, min, max } => parse_number(text, min, max, unit.word())
            .map(|number| Value::Duration(unit.duration(number))),
        ValueType::HttpUrls => parse_list(text, parse_http_url).map(Value::Urls),
        ValueType::TcpUrls => parse_list(text, parse_tcp_address).map(Value::TcpAddresses),
        ValueType::PublicHttpUrl => {
            parse_public_url(text, &[Scheme::Http, Scheme::Https]).map(|url| Value::Urls(vec![url]))
        }
        ValueType::PublicTcpUrl => {
            parse_public_url(text, &[Scheme::Tcp]).map(|url| Value::Urls(vec![url]))
        }
        ValueType::HostNames => parse_list(text, parse_host_name).map(Value::Names),
        ValueType::Origins => {
            parse_list(text, |text| parse_public_url(text, &[Scheme::Http, Scheme::Https]))
                .map(Value::Urls)
        }
        ValueType::Path | ValueType::Paths if text.contains('\0') => {
            Err("A path cannot contain the character NUL".to_owned())
        }
        ValueType::Path => Ok(Value::Path(PathBuf::from(text))),
        ValueType::Paths => parse_list(text, |path| Ok(PathBuf::from(path))).map(Value::Paths),
        ValueType::Choice(choices) => parse_choice(text, choices),
        ValueType::UnsecuredAccess => {
            UnsecuredAccess::parse(text).map(Value::Access).ok_or_else(|| {
                "Write None, Local, PrivateNetwork or PublicNetwork, or several joined by commas"
                    .to_owned()
            })
        }
        ValueType::Version => ProtocolVersion::parse(text)
            .map(Value::Version)
            .ok_or_else(|| "Write four numbers joined by dots, such as 5.4.207.54178".to_owned()),
    }
}

/// Whether a setting in the configuration of one index has a value that its key may have. Names that are not in
/// the table are not judged.
///
/// # Errors
/// What is expected, as a sentence without its full stop.
pub fn check_of_index(name: &str, text: &str) -> Result<(), String> {
    let Some(key) = find_key(name) else { return Ok(()) };
    match (parse_value(key.value_type, text), key.only) {
        (Err(expected), _) => Err(expected),
        (Ok(_), Some(only)) if !READ_OF_INDEXES.contains(&key.name) => check_only(only, text),
        (Ok(_), _) => Ok(()),
    }
}

/// Keys that are read from the configuration of an index, and nowhere else.
const READ_OF_INDEXES: [&str; 2] =
    ["Indexing.IndexEmptyEntries", "Indexing.IndexMissingFieldsAsNull"];

pub(crate) fn check_only(only: Only, text: &str) -> Result<(), String> {
    match only.value.eq_ignore_ascii_case(text.trim()) {
        true => Ok(()),
        false => Err(only.reason.to_owned()),
    }
}

fn parse_number(text: &str, min: u64, max: u64, unit: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if min <= number && number <= max => Ok(number),
        Ok(_) | Err(_) => {
            let unit = if unit.is_empty() { String::new() } else { format!(" of {unit}") };
            Err(format!("Write a whole number{unit} from {min} to {max}"))
        }
    }
}

fn parse_list<T>(
    text: &str,
    parse_one: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let parts: Vec<&str> = text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || URLS_MAX < parts.len() {
        return Err(format!("Write 1 to {URLS_MAX} addresses, separated by ;"));
    }
    parts.into_iter().map(parse_one).collect()
}

fn parse_http_url(text: &str) -> Result<ServerUrl, String> {
    let url = parse_url(text, "http://127.0.0.1:8080")?;
    match url.scheme {
        Scheme::Http | Scheme::Https => Ok(url),
        Scheme::Tcp => Err("The address must begin with http:// or https://".to_owned()),
    }
}

/// Reads a thumbprint, which may be written in any case and with separators, into upper case.
fn parse_thumbprint(text: &str) -> Result<String, String> {
    let digits = text.chars().filter(|character| !matches!(character, ' ' | ':'));
    let digits = digits.collect::<String>().to_ascii_uppercase();
    let is_hash = digits.len() == 40 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    match is_hash {
        true => Ok(digits),
        false => Err("Write thumbprints of 40 hexadecimal digits, separated by ;".to_owned()),
    }
}

/// Reads the id of an API key and the SHA-256 of its secret, in lower case.
fn parse_api_key_hash(text: &str) -> Result<String, String> {
    let is_hex = |digits: &str, length| {
        digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    match text.split_once('.') {
        Some((id, hash)) if is_hex(id, 16) && is_hex(hash, 64) => Ok(text.to_ascii_lowercase()),
        _ => Err("Write the id of a key (16 hexadecimal digits), a dot and the SHA-256 of its secret (64), as `corvus \
                  setup api-key` prints them, separated by ;"
            .to_owned()),
    }
}

fn parse_tcp_address(text: &str) -> Result<TcpAddress, String> {
    if let Ok(port) = text.parse() {
        return Ok(TcpAddress::Port(port));
    }
    let url = parse_url(text, "tcp://127.0.0.1:38888")?;
    match url.scheme {
        Scheme::Tcp => Ok(TcpAddress::Url(url)),
        Scheme::Http | Scheme::Https => {
            Err("Write a port, or an address that begins with tcp://".to_owned())
        }
    }
}

fn parse_public_url(text: &str, schemes: &[Scheme]) -> Result<ServerUrl, String> {
    let url = parse_url(text, "http://db.example.org:8080")?;
    if !schemes.contains(&url.scheme) {
        let expected =
            if schemes.contains(&Scheme::Tcp) { "tcp://" } else { "http:// or https://" };
        return Err(format!("The address must begin with {expected}"));
    }
    if url.port == 0 || url.host.is_unspecified() {
        return Err(
            "Others must be able to reach the address, so it needs a real host and port".to_owned()
        );
    }
    Ok(url)
}

/// In lower case, without the dot that may end a full name.
fn parse_host_name(text: &str) -> Result<String, String> {
    match Host::parse(text.strip_suffix('.').unwrap_or(text)) {
        Ok(Host::Name(name)) => Ok(name),
        Ok(Host::Ip(_)) => Err("IP addresses are always allowed; list names only".to_owned()),
        Err(_) => {
            Err("Write names alone, without a port and without *, such as db.example.org"
                .to_owned())
        }
    }
}

fn parse_url(text: &str, example: &str) -> Result<ServerUrl, String> {
    ServerUrl::parse(text)
        .map_err(|reason| format!("It is not an address: {reason}. An example is {example}"))
}

fn parse_choice(text: &str, choices: &'static [Choice]) -> Result<Value, String> {
    match choices.iter().find(|choice| choice.name.eq_ignore_ascii_case(text)) {
        Some(Choice { name, unavailable: None }) => Ok(Value::Choice(name)),
        Some(Choice { unavailable: Some(reason), .. }) => Err((*reason).to_owned()),
        None => {
            let names: Vec<&str> = choices
                .iter()
                .filter(|choice| choice.unavailable.is_none())
                .map(|choice| choice.name)
                .collect();
            Err(format!("Write {}", names.join(" or ")))
        }
    }
}

/// The narrowest access that listening on `host` needs, as far as its text shows: names other than
/// `localhost` are checked after they are resolved.
pub(crate) fn access_needed_for(host: &Host) -> Option<UnsecuredAccess> {
    match host {
        Host::Ip(address) => Some(UnsecuredAccess::needed_for(*address)),
        Host::Name(name) if name == "localhost" => Some(UnsecuredAccess::Local),
        Host::Name(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{SizeUnit, TimeUnit};

    const MEGABYTES: ValueType = ValueType::Size { unit: SizeUnit::Megabytes, min: 1, max: 64 };
    const SECONDS: ValueType = ValueType::Duration { unit: TimeUnit::Seconds, min: 0, max: 900 };
    const MODES: &[Choice] = &[
        Choice { name: "Plain", unavailable: None },
        Choice { name: "Fancy", unavailable: Some("Fancy is not built") },
    ];

    #[test]
    fn settings_of_an_index_are_judged_by_their_keys() {
        for (name, text, is_right) in [
            ("Indexing.MapTimeoutInSec", "-1", true),
            ("indexing.maptimeoutinsec", "x", false),
            ("Indexing.MapTimeoutInSec", "1.5", false),
            ("Indexing.MapTimeoutInSec", "", false),
            ("Indexing.Static.SearchEngineType", "corax", true),
            ("Indexing.Static.SearchEngineType", "Nope", false),
            ("Indexing.IndexEmptyEntries", "true", true),
            ("Indexing.Analyzers.Default", "LowerCaseKeywordAnalyzer", true),
            ("Indexing.Analyzers.Default", "KeywordAnalyzer", false),
            ("Nope.Nope", "x", true),
        ] {
            assert_eq!(check_of_index(name, text).is_ok(), is_right, "{name}: {text}");
        }
    }

    #[test]
    fn values_are_read_by_the_type_of_their_key() {
        let url = |text| ServerUrl::parse(text).unwrap();
        for (value_type, text, value) in [
            (ValueType::Bool, "True", Value::Bool(true)),
            (ValueType::Bool, " false ", Value::Bool(false)),
            (ValueType::Integer { min: 1, max: 8 }, "8", Value::Integer(8)),
            (MEGABYTES, "2", Value::Bytes(2 * 1024 * 1024)),
            (SECONDS, "0", Value::Duration(Duration::ZERO)),
            (SECONDS, "900", Value::Duration(Duration::from_secs(900))),
            (
                ValueType::Arguments,
                "--name 'a b' \"c\"",
                Value::Names(["--name", "a b", "c"].map(str::to_owned).to_vec()),
            ),
            (ValueType::Path, "/var/lib/x", Value::Path(PathBuf::from("/var/lib/x"))),
            (
                ValueType::Paths,
                "/var/a; b",
                Value::Paths(vec![PathBuf::from("/var/a"), PathBuf::from("b")]),
            ),
            (ValueType::Choice(MODES), "plain", Value::Choice("Plain")),
            (ValueType::Unchecked, "-1", Value::Text("-1".to_owned())),
            (
                ValueType::HttpUrls,
                "http://127.0.0.1:0; http://[::1]:0;",
                Value::Urls(vec![url("http://127.0.0.1:0"), url("http://[::1]:0")]),
            ),
            (ValueType::TcpUrls, "38888", Value::TcpAddresses(vec![TcpAddress::Port(38888)])),
            (
                ValueType::TcpUrls,
                "tcp://127.0.0.1:1",
                Value::TcpAddresses(vec![TcpAddress::Url(url("tcp://127.0.0.1:1"))]),
            ),
            (
                ValueType::PublicHttpUrl,
                "https://db.example.org",
                Value::Urls(vec![url("https://db.example.org:443")]),
            ),
            (
                ValueType::HostNames,
                "DB.example.; corvus",
                Value::Names(vec!["db.example".to_owned(), "corvus".to_owned()]),
            ),
            (
                ValueType::Origins,
                "https://studio.example; http://localhost:3000",
                Value::Urls(vec![url("https://studio.example"), url("http://localhost:3000")]),
            ),
            (
                ValueType::Version,
                "5.4.207.54178",
                Value::Version(ProtocolVersion("5.4.207.54178".to_owned())),
            ),
        ] {
            assert_eq!(parse_value(value_type, text), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_value_outside_its_type_is_refused_with_what_is_expected() {
        for (value_type, text, expected) in [
            (ValueType::Arguments, "a 'b", "never closed"),
            (ValueType::Bool, "yes", "true or false"),
            (ValueType::Integer { min: 1, max: 8 }, "0", "from 1 to 8"),
            (ValueType::Integer { min: 1, max: 8 }, "9", "from 1 to 8"),
            (ValueType::Integer { min: 1, max: 8 }, "-1", "from 1 to 8"),
            (ValueType::Integer { min: 1, max: 8 }, "1.5", "from 1 to 8"),
            (MEGABYTES, "64mb", "megabytes from 1 to 64"),
            (SECONDS, "901", "seconds from 0 to 900"),
            (ValueType::HttpUrls, ";", "1 to 16 addresses"),
            (ValueType::HttpUrls, "tcp://127.0.0.1:1", "begin with http://"),
            (ValueType::TcpUrls, "http://127.0.0.1:1", "begins with tcp://"),
            (ValueType::TcpUrls, "70000", "not an address"),
            (ValueType::PublicHttpUrl, "http://0.0.0.0:80", "real host and port"),
            (ValueType::PublicHttpUrl, "http://db:0", "real host and port"),
            (ValueType::PublicHttpUrl, "tcp://db:1", "http:// or https://"),
            (ValueType::PublicTcpUrl, "http://db:1", "tcp://"),
            (ValueType::HostNames, "db:80", "without a port"),
            (ValueType::HostNames, "*", "without *"),
            (ValueType::HostNames, "10.0.0.1", "always allowed"),
            (ValueType::Origins, "null", "not an address"),
            (ValueType::Origins, "http://a/b", "only a host and a port"),
            (ValueType::Path, "a\0b", "NUL"),
            (ValueType::Choice(MODES), "other", "Write Plain"),
            (ValueType::Choice(MODES), "fancy", "Fancy is not built"),
            (ValueType::UnsecuredAccess, "Local,Moon", "PublicNetwork"),
            (ValueType::UnsecuredAccess, "Local,", "PublicNetwork"),
            (ValueType::ApiKeyHashes, "0123456789abcdef", "SHA-256"),
            (ValueType::ApiKeyHashes, "0123456789abcdef.00", "SHA-256"),
            (ValueType::Version, "5.4", "four numbers"),
            (ValueType::Version, "5.4.207.x", "four numbers"),
        ] {
            let message = parse_value(value_type, text).unwrap_err();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_list_longer_than_the_maximum_is_refused() {
        let list = vec!["1"; URLS_MAX].join(";");
        assert!(parse_value(ValueType::TcpUrls, &list).is_ok());
        assert!(parse_value(ValueType::TcpUrls, &format!("{list};1")).is_err());
    }

    #[test]
    fn the_widest_named_access_counts() {
        for (text, access) in [
            ("none", UnsecuredAccess::None),
            ("Local", UnsecuredAccess::Local),
            ("Local, PrivateNetwork", UnsecuredAccess::PrivateNetwork),
            ("PublicNetwork,Local", UnsecuredAccess::PublicNetwork),
        ] {
            assert_eq!(UnsecuredAccess::parse(text), Some(access), "{text}");
        }
    }

    #[test]
    fn each_address_needs_the_range_it_is_in() {
        use UnsecuredAccess::{Local, PrivateNetwork, PublicNetwork};
        for (address, needed) in [
            ("127.0.0.1", Local),
            ("127.8.9.10", Local),
            ("::1", Local),
            ("::ffff:127.0.0.1", Local),
            ("10.1.2.3", PrivateNetwork),
            ("172.16.0.1", PrivateNetwork),
            ("172.32.0.1", PublicNetwork),
            ("192.168.1.1", PrivateNetwork),
            ("169.254.1.1", PrivateNetwork),
            ("::ffff:10.0.0.1", PrivateNetwork),
            ("fd00::1", PrivateNetwork),
            ("fe80::1", PrivateNetwork),
            ("0.0.0.0", PublicNetwork),
            ("::", PublicNetwork),
            ("8.8.8.8", PublicNetwork),
            ("2001:db8::1", PublicNetwork),
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert_eq!(UnsecuredAccess::needed_for(parsed), needed, "{address}");
            assert!(needed.allows(parsed), "{address}");
            assert!(!UnsecuredAccess::None.allows(parsed), "{address}");
        }
    }
}
