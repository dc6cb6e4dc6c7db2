//! Requests of `corvus export`, `import` and `cluster` to a running server: HTTP/1.1 with or without TLS, by `ureq`, which
//! blocks.

use std::{io::Read, path::PathBuf, sync::Arc, time::Duration};

use platform::Disk;
use security::KeyPair;
use ureq::{
    Agent, Body, SendBody,
    http::{Request, Response},
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
};
use zeroize::Zeroizing;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// Of a text that is shown, or read as JSON.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// How the user is known to a server, and how the server is.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// A file with the client's certificate, PEM or PKCS #12, and its key, unless that is in another one.
    pub(crate) certificate: Option<PathBuf>,
    /// A file with the key, PEM.
    pub(crate) certificate_key: Option<PathBuf>,
    /// A file with the password of that one.
    pub(crate) password: Option<PathBuf>,
    /// A file with an API key.
    pub(crate) api_key: Option<PathBuf>,
    /// A file with certificates that are trusted besides those of the system, PEM.
    pub(crate) trust: Option<PathBuf>,
}

/// The options that [`Access::take`] reads.
pub(crate) const ACCESS_HELP: &str = "\
  --certificate=<file>     the client's certificate, PEM or PKCS #12
  --certificate-key=<file> its key, if that is a file of its own (PEM)
  --password-file=<file>   the password of a PKCS #12 file
  --api-key-file=<file>    an API key, instead of a certificate
  --trust=<file>           certificates that are trusted besides those of the system, PEM
";

impl Access {
    /// Reads the value of an option; `false` if it has another meaning.
    ///
    /// # Errors
    /// The option has no value.
    pub(crate) fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let place = match name {
            "certificate" => &mut self.certificate,
            "certificate-key" => &mut self.certificate_key,
            "password-file" => &mut self.password,
            "api-key-file" => &mut self.api_key,
            "trust" => &mut self.trust,
            _ => return Ok(false),
        };
        *place = Some(parser.value().map_err(|error| error.to_string())?.into());
        Ok(true)
    }
}

/// A server.
pub(crate) struct RemoteServer {
    agent: Agent,
    url: String,
    api_key: Option<String>,
}

impl RemoteServer {
    /// Connects to nothing yet.
    pub(crate) fn new(disk: &dyn Disk, url: &str, access: &Access) -> Result<RemoteServer, String> {
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(format!(
                "'{url}' is no address of a server: it begins with http:// or https://"
            ));
        }
        let read = |path: &PathBuf| {
            let read = disk.read_file(path);
            read.map_err(|error| format!("Cannot read {}: {error}", path.display()))
        };
        let api_key = access.api_key.as_ref().map(read).transpose()?;
        let api_key = api_key.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .user_agent(concat!("corvus/", env!("CARGO_PKG_VERSION")))
            .max_redirects(0)
            .tls_config(tls_config(access, &read)?)
            .build();
        Ok(RemoteServer { agent: config.into(), url, api_key })
    }

    /// `GET`. The path begins with a slash.
    pub(crate) fn get(&self, path: &str) -> Result<Response<Body>, String> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.call().map_err(|error| self.failed(&error))
    }

    /// Whether a `GET` is answered within a time, whatever the answer is; otherwise why it is not.
    pub(crate) fn answers_within(&self, path: &str, time_max: Duration) -> Result<(), String> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let request = request.config().timeout_global(Some(time_max)).build();
        request.call().map(drop).map_err(|error| self.failed(&error))
    }

    /// A request without a body. The path begins with a slash.
    pub(crate) fn request(&self, method: &str, path: &str) -> Result<Response<Body>, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(()).map_err(|error| format!("{}: {error}", self.url))?;
        self.agent.run(request).map_err(|error| self.failed(&error))
    }

    /// `PUT` with a body in JSON. The path begins with a slash.
    pub(crate) fn put(&self, path: &str, body: &str) -> Result<Response<Body>, String> {
        let request = self.agent.put(format!("{}{path}", self.url));
        let mut request = request.header("content-type", "application/json");
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        request.send(body).map_err(|error| self.failed(&error))
    }

    /// `POST` with a body that is sent as it is read.
    pub(crate) fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &mut dyn Read,
    ) -> Result<Response<Body>, String> {
        let request = self.agent.post(format!("{}{path}", self.url));
        let mut request = request.header("content-type", content_type);
        if let Some(key) = &self.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut body = body;
        let body = SendBody::from_reader(&mut body);
        request.send(body).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &ureq::Error) -> String {
        format!("{}: {error}", self.url)
    }
}

/// The body of an answer that is short.
pub(crate) fn text_of(response: Response<Body>) -> Result<String, String> {
    let mut text = Vec::new();
    let mut body = response.into_body().into_reader().take(TEXT_BYTES_MAX);
    body.read_to_end(&mut text).map_err(|error| format!("the answer breaks off: {error}"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What a server says of an error.
pub(crate) fn message_of(status: u16, text: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let said = body["Message"].as_str().or_else(|| body["Error"].as_str());
    match said {
        Some(said) => said.lines().next().unwrap_or_default().to_owned(),
        None => format!("the server answered with status {status}"),
    }
}

fn tls_config(
    access: &Access,
    read: &dyn Fn(&PathBuf) -> Result<Vec<u8>, String>,
) -> Result<TlsConfig, String> {
    // Those that cannot be read are missing when they are needed.
    let of_system = rustls_native_certs::load_native_certs().certs;
    let mut roots: Vec<_> =
        of_system.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    if let Some(path) = &access.trust {
        let trusted = certificates_in(&read(path)?);
        if trusted.is_empty() {
            return Err(format!("{} has no certificate in PEM", path.display()));
        }
        roots.extend(trusted);
    }
    let mut client = None;
    if let Some(path) = &access.certificate {
        let password = access.password.as_ref().map(read).transpose()?.unwrap_or_default();
        let password = String::from_utf8_lossy(&password).trim_end_matches(['\r', '\n']).to_owned();
        let key = access.certificate_key.as_ref().map(read).transpose()?.map(Zeroizing::new);
        let pair = KeyPair::from_file(&read(path)?, key.as_ref().map(|key| &key[..]), &password);
        let pair = pair.map_err(|error| format!("{}: {error}", path.display()))?;
        // The authority of the certificate is that of the server, too, where `corvus setup` made both.
        let chain = certificates_in(pair.chain_pem().as_bytes());
        roots.extend(chain.iter().cloned());
        let key = PrivateKey::from_pem(pair.key_pem().as_bytes());
        let key = key.map_err(|error| format!("{}: {error}", path.display()))?;
        client = Some(ClientCert::new_with_certs(&chain, key));
    } else if access.certificate_key.is_some() || access.password.is_some() {
        return Err("--certificate-key and --password-file belong to --certificate".to_owned());
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .client_cert(client)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

fn certificates_in(pem: &[u8]) -> Vec<Certificate<'static>> {
    let items = parse_pem(pem).filter_map(Result::ok);
    let certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    items.filter_map(certificate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_in_a_line() {
        let text = r#"{"Message":"No.\n  at x","Error":"long"}"#;
        assert_eq!(message_of(500, text), "No.");
        assert_eq!(message_of(502, "<html>"), "the server answered with status 502");
    }
}
