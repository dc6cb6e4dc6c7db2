//! Which requests a server accepts: those that no foreign web page can have sent. With certificates, too:
//! browsers send them with the requests of any page.
//!
//! A browser on a developer's machine can reach whatever listens on loopback, and runs pages from
//! anywhere. Three attacks are prevented here, before routing:
//!
//! - **An attacker's host name that resolves to this machine** (DNS rebinding). The page then has
//!   the "same origin", and only `Host` reveals it. So host names must be known, unless the browser has checked
//!   the name in the server's certificate, or clients need an API key, which such a page does not have. An IP address cannot be rebound: a browser that names it has connected
//!   to it.
//! - **Cross-site requests.** Browsers indicate them by `Origin` and `Sec-Fetch-Site`; any origin
//!   other than the server's own, or one of the settings, is rejected, on every route and for
//!   WebSockets.
//! - **Forms.** What a page may send without a preflight (a `POST` with a form's content type, or
//!   none) is rejected from a browser that does not show that the page is the server's own.
//!
//! A link of another site may open a page of the Studio: it is the same for everybody, and cannot be framed.
//!
//! Not here: preflights. No route answers `OPTIONS`, and no response has a CORS header. Invariant:
//! a client that is not a browser, and sends none of these headers, is affected only by the check
//! of `Host`.

use std::borrow::Cow;

use crate::api_error::ApiError;

use http::{HeaderMap, Method, Version, header, uri::Authority};
use settings::{Host, Scheme, ServerUrl, Settings};
use wire::ErrorKind;

/// The name that means this machine everywhere.
const LOOPBACK_NAME: &str = "localhost";
/// Content types that a page may send to any site without a preflight.
const FORM_TYPES: [&str; 3] =
    ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"];
/// The start of every browser's user agent, in lower case.
const BROWSER_MARK: &str = "mozilla/";
/// Maximum length of a header value repeated in an error.
const SHOWN_CHARS_MAX: usize = 200;
/// The beginning of the addresses of the Studio.
const STUDIO: &str = "/studio/";
/// States where the page that sends a request comes from, according to the browser.
const FETCH_SITE: &str = "sec-fetch-site";

/// A host and the port named with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamedHost {
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
}

impl NamedHost {
    /// Parses a `Host` header. Names are lower-cased; a trailing dot is kept.
    pub(crate) fn parse(text: &str) -> Option<NamedHost> {
        let authority: Authority = text.parse().ok()?;
        let host = authority.host();
        let port_text = text.strip_prefix(host)?;
        let port = match port_text.strip_prefix(':') {
            None if port_text.is_empty() => None,
            None => return None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse().ok()?)
            }
            Some(_) => return None,
        };
        let is_bracketed = host.starts_with('[');
        let address = host.trim_matches(['[', ']']).parse();
        let host = match address {
            Ok(address) => Host::Ip(address),
            Err(_) if is_bracketed || host.is_empty() => return None,
            Err(_) if host.bytes().all(is_permitted) => Host::Name(host.to_ascii_lowercase()),
            Err(_) => return None,
        };
        Some(NamedHost { host, port })
    }

    /// The normalized form: without the trailing dot of a fully qualified name, with a port.
    fn normal(&self, default_port: u16) -> (Host, u16) {
        let host = match &self.host {
            Host::Name(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                name.parse().map_or_else(|_| Host::Name(name.to_owned()), Host::Ip)
            }
            Host::Ip(address) => Host::Ip(*address),
        };
        (host, self.port.unwrap_or(default_port))
    }
}

fn is_permitted(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// The parts of a request that are checked.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) version: Version,
    pub(crate) method: &'a Method,
    /// The path that it is for, without the query.
    pub(crate) path: &'a str,
    /// The host in the target of the request, if it has one.
    pub(crate) authority: Option<&'a Authority>,
    pub(crate) headers: &'a HeaderMap,
}

/// The rules of a server.
pub(crate) struct Admission {
    /// Clients check the name in the server's certificate, so no page can use another one.
    is_secured: bool,
    /// Without certificates and without API keys, which a page of an attacker does not have.
    checks_names: bool,
    names: Vec<String>,
    origins: Vec<ServerUrl>,
}

impl Admission {
    /// From the settings of the server.
    pub(crate) fn new(settings: &Settings) -> Admission {
        let urls = settings.server_urls.iter().chain(&settings.public_server_url);
        let of_urls = urls.filter_map(|url| match &url.host {
            Host::Name(name) => Some(name.strip_suffix('.').unwrap_or(name).to_owned()),
            Host::Ip(_) => None,
        });
        let names = std::iter::once(LOOPBACK_NAME.to_owned())
            .chain(of_urls)
            .chain(settings.allowed_hosts.iter().cloned())
            .collect();
        let is_secured = settings.security.certificate.is_some();
        let checks_names = !is_secured && settings.security.api_keys.is_none();
        Admission { is_secured, checks_names, names, origins: settings.allowed_origins.clone() }
    }

    /// Whether the request is allowed.
    ///
    /// # Errors
    ///
    /// When it comes, or may come, from a foreign web page, or its host is unreadable; the message
    /// says what to do.
    pub(crate) fn admit(&self, head: Head<'_>) -> Result<(), ApiError> {
        let host = host_of(head)?;
        if let Some(host) = host.as_ref().filter(|_| self.checks_names) {
            self.check_name(host)?;
        }
        if opens_studio(head) {
            return Ok(());
        }
        let sender = self.sender_of(head.headers, host.as_ref())?;
        if sender != Sender::OwnPage && is_form(head, sender) {
            return Err(form_refused());
        }
        Ok(())
    }

    fn check_name(&self, host: &NamedHost) -> Result<(), ApiError> {
        match host.normal(0) {
            (Host::Ip(_), _) => Ok(()),
            (Host::Name(name), _) if self.names.contains(&name) => Ok(()),
            (Host::Name(name), _) => Err(name_refused(&name)),
        }
    }

    /// Who sends the request, according to its headers.
    fn sender_of(&self, headers: &HeaderMap, host: Option<&NamedHost>) -> Result<Sender, ApiError> {
        let origin = match values(headers, header::ORIGIN.as_str())[..] {
            [] => None,
            [ref origin] => Some(origin.clone()),
            [ref first, ..] => return Err(origin_refused(first)),
        };
        let is_listed = origin.as_deref().is_some_and(|origin| self.lists(origin));
        if let Some(origin) = origin.as_deref()
            && !is_listed
            && !self.is_own(origin, host)
        {
            return Err(origin_refused(origin));
        }
        let sites = values(headers, FETCH_SITE);
        let is_near = |site: &str| matches!(site, "same-origin" | "none");
        if let Some(site) = sites.iter().find(|site| !is_near(site))
            && !is_listed
        {
            return Err(site_refused(site));
        }
        let is_own_page = !sites.is_empty() && sites.iter().all(|site| site == "same-origin");
        Ok(if is_own_page || (origin.is_some() && !is_listed) {
            Sender::OwnPage
        } else if origin.is_some() || !sites.is_empty() {
            Sender::Browser
        } else {
            Sender::Unknown
        })
    }

    /// Whether an origin is the host that the request is for. Without TLS here, a proxy may have terminated it.
    fn is_own(&self, origin: &str, host: Option<&NamedHost>) -> bool {
        match (parse_origin(origin), host) {
            (Some((Scheme::Http, _)), _) if self.is_secured => false,
            (Some((scheme, named)), Some(host)) => {
                named.normal(default_port(scheme)) == host.normal(default_port(scheme))
            }
            _ => false,
        }
    }

    fn lists(&self, origin: &str) -> bool {
        parse_origin(origin).is_some_and(|(scheme, named)| {
            self.origins.iter().any(|listed| {
                let place = NamedHost { host: listed.host.clone(), port: Some(listed.port) };
                let port = default_port(scheme);
                listed.scheme == scheme && place.normal(port) == named.normal(port)
            })
        })
    }
}

/// Who sends a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// A page of the server itself.
    OwnPage,
    /// A browser, for a page that it does not name as the server's own.
    Browser,
    Unknown,
}

/// The host that the request is for; `None` when it has none, which no browser omits.
fn host_of(head: Head<'_>) -> Result<Option<NamedHost>, ApiError> {
    let hosts = head.headers.get_all(header::HOST).iter().collect::<Vec<_>>();
    let in_header = match hosts[..] {
        [] if head.version == Version::HTTP_11 => {
            return Err(bad_host("The header Host is missing".to_owned()));
        }
        [] => None,
        [host] => {
            let text = host.to_str().unwrap_or("\u{fffd}").trim();
            let unreadable = || bad_host(format!("The header Host is unusable: '{}'", shown(text)));
            if text.is_empty() {
                None
            } else {
                Some(NamedHost::parse(text).ok_or_else(unreadable)?)
            }
        }
        _ => return Err(bad_host("The header Host is there more than once".to_owned())),
    };
    let Some(authority) = head.authority else { return Ok(in_header) };
    let text = authority.as_str();
    let unreadable = || bad_host(format!("The host of the target is unusable: '{}'", shown(text)));
    let in_target = NamedHost::parse(text).ok_or_else(unreadable)?;
    let differs = in_header.is_some_and(|named| {
        named.normal(default_port(Scheme::Http)) != in_target.normal(default_port(Scheme::Http))
    });
    if differs {
        return Err(bad_host("The header Host and the target name different hosts".to_owned()));
    }
    Ok(Some(in_target))
}

/// `scheme://host:port` and nothing more; `null` and everything else is `None`.
fn parse_origin(origin: &str) -> Option<(Scheme, NamedHost)> {
    let (scheme, authority) = origin.split_once("://")?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    Some((scheme, NamedHost::parse(authority)?))
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Https => 443,
        Scheme::Http | Scheme::Tcp => 80,
    }
}

/// Whether a browser opens a page of the Studio in a window of its own, wherever the link to it was.
fn opens_studio(head: Head<'_>) -> bool {
    let is = |name, value: &str| values(head.headers, name) == [value];
    *head.method == Method::GET
        && head.path.starts_with(STUDIO)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Whether a browser sends this, and a page may send it without a preflight.
fn is_form(head: Head<'_>, sender: Sender) -> bool {
    let is_browser = sender == Sender::Browser
        || values(head.headers, header::USER_AGENT.as_str())
            .iter()
            .any(|agent| agent.starts_with(BROWSER_MARK));
    if *head.method != Method::POST || !is_browser {
        return false;
    }
    let types = values(head.headers, header::CONTENT_TYPE.as_str());
    let is_form_type = |value: &String| {
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.is_empty() || FORM_TYPES.contains(&essence)
    };
    types.is_empty() || types.iter().any(is_form_type)
}

/// The values of a header in lower case; a value that is not text becomes one that equals nothing.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let text = |value: &http::HeaderValue| {
        value
            .to_str()
            .map_or_else(|_| "\u{fffd}".to_owned(), |text| text.trim().to_ascii_lowercase())
    };
    headers.get_all(name).iter().map(text).collect()
}

fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

fn bad_host(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, format!("{message}. Name the host once."))
}

fn name_refused(name: &str) -> ApiError {
    let message = format!(
        "The server does not know itself as '{}'. Without certificates it answers only to known names, \
         because a web page could reach it under a name of its own (DNS rebinding). Use localhost or \
         an IP address, or add the name to the setting Security.AllowedHosts of the server.",
        shown(name)
    );
    ApiError::new(ErrorKind::MisdirectedRequest, message)
}

fn origin_refused(origin: &str) -> ApiError {
    let message = format!(
        "Requests of web pages from '{}' are refused. To allow them, add this origin to the setting \
         Security.AllowedOrigins of the server.",
        shown(origin)
    );
    ApiError::new(ErrorKind::ForeignOrigin, message)
}

fn site_refused(site: &str) -> ApiError {
    let message = format!(
        "Requests of other web sites are refused (Sec-Fetch-Site: {}). Open the address directly; to \
         allow a site's requests, add its origin to the setting Security.AllowedOrigins of the server.",
        shown(site)
    );
    ApiError::new(ErrorKind::ForeignOrigin, message)
}

fn form_refused() -> ApiError {
    let message = "A browser's POST needs a content type that is not a form's, such as \
                   application/json, so that a web page of another site cannot send it.";
    ApiError::new(ErrorKind::FormRefused, message)
}

#[cfg(test)]
mod tests;
