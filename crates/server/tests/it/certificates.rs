//! A server with a certificate: who may do what, and how certificates are registered.

#![expect(clippy::disallowed_methods, reason = "certificates are files of the real disk")]

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use platform::Platform;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use security::{Authority, ClientRequest, KeyAlgorithm, KeyPair, ServerRequest};
use serde_json::{Value, json};

use crate::{resources::wait_until, test_server::TestServer};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corvus-certificates-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A server with a certificate, and the authority that made it.
pub(crate) struct Secured {
    pub(crate) server: TestServer,
    pub(crate) authority: Authority,
    pub(crate) own: KeyPair,
    file: PathBuf,
    _scratch: Scratch,
}

fn now() -> i64 {
    Platform::memory().clock.now().ticks()
}

fn write_private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn issue_server(authority: &Authority) -> KeyPair {
    let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    authority.issue_server(&ServerRequest { hosts, key: KeyAlgorithm::Ecdsa }, now()).unwrap()
}

pub(crate) fn secured() -> Secured {
    secured_with(None)
}

fn secured_with(audit: Option<server::AuditSink>) -> Secured {
    secured_by(&[], audit)
}

/// A server with further arguments.
fn secured_by(further: &[&str], audit: Option<server::AuditSink>) -> Secured {
    let scratch = Scratch::new();
    let authority = Authority::generate("tests", now()).unwrap();
    let own = issue_server(&authority);
    let file = scratch.0.join("server.pfx");
    write_private(&file, &own.to_pfx("server", "secret").unwrap());
    let path = format!("--Security.Certificate.Path={}", file.display());
    let password = "--Security.Certificate.Password=secret";
    let mut arguments = vec!["--ServerUrl=https://127.0.0.1:0", &path, password];
    arguments.extend(further);
    let server = TestServer::try_start_audited(Platform::memory(), &arguments, audit).unwrap();
    Secured { server, authority, own, file, _scratch: scratch }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn message(&self) -> String {
        self.json()["Message"].as_str().unwrap().to_owned()
    }
}

/// A client that accepts any server.
#[derive(Debug)]
struct AnyServer(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Secured {
    pub(crate) fn client(&self, name: &str) -> KeyPair {
        let request =
            ClientRequest { name: name.to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
        self.authority.issue_client(&request, now()).unwrap()
    }

    fn connect(&self, client: Option<&KeyPair>) -> StreamOwned<ClientConnection, TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider)));
        let config = match client {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let chain = pair.chain().iter();
                let chain = chain.map(|one| CertificateDer::from(one.der().to_vec())).collect();
                config.with_client_auth_cert(chain, pair.private_key()).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(connection, TcpStream::connect(self.server.address).unwrap())
    }

    pub(crate) fn send(
        &self,
        client: Option<&KeyPair>,
        method: &str,
        target: &str,
        body: &str,
    ) -> Reply {
        self.send_with(client, method, target, "", body)
    }

    /// `headers` are lines, each with its end.
    pub(crate) fn send_with(
        &self,
        client: Option<&KeyPair>,
        method: &str,
        target: &str,
        headers: &str,
        body: &str,
    ) -> Reply {
        let mut stream = self.connect(client);
        let (host, length) = (self.server.address, body.len());
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // Whether the server says that it closes is of no interest here.
        drop(stream.read_to_end(&mut bytes));
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").expect("a response") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = bytes[end..].to_vec();
        if head.to_lowercase().contains("transfer-encoding: chunked") {
            body = dechunk(&body);
        }
        Reply { status, head, body }
    }

    /// The status of the response; its body is not awaited.
    fn status_of(&self, client: Option<&KeyPair>, method: &str, target: &str) -> u16 {
        self.status_with(client, None, method, target)
    }

    /// The same with an API key.
    fn status_with(
        &self,
        client: Option<&KeyPair>,
        key: Option<&str>,
        method: &str,
        target: &str,
    ) -> u16 {
        let mut stream = self.connect(client);
        let key = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
        let host = self.server.address;
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{key}Content-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        std::str::from_utf8(&start[9..]).unwrap().parse().unwrap()
    }

    /// A client whose certificate was made, and is valid, relative to another time.
    fn client_of_another_time(&self, name: &str, moment: i64) -> KeyPair {
        let request =
            ClientRequest { name: name.to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
        self.authority.issue_client(&request, moment).unwrap()
    }

    /// A new API key, which ends at that moment if there is one.
    fn api_key(&self, clearance: &str, permissions: Value, not_after: Option<i64>) -> String {
        let not_after = not_after.map(model::date::format);
        let body = json!({"Name": "key", "SecurityClearance": clearance, "Permissions": permissions, "NotAfter": not_after});
        let reply = self.send(Some(&self.own), "POST", "/admin/api-keys", &body.to_string());
        assert_eq!(reply.status, 201);
        reply.json()["Key"].as_str().unwrap().to_owned()
    }

    pub(crate) fn create(&self, name: &str) {
        let target = format!("/admin/databases?name={name}");
        let body = json!({ "DatabaseName": name }).to_string();
        assert_eq!(self.send(Some(&self.own), "PUT", &target, &body).status, 201);
    }

    pub(crate) fn register(
        &self,
        by: &KeyPair,
        pair: &KeyPair,
        clearance: &str,
        permissions: Value,
    ) -> Reply {
        let body = json!({
            "Name": pair.certificate().subject(),
            "Certificate": model::base64_text(pair.certificate().der()),
            "SecurityClearance": clearance,
            "Permissions": permissions,
        });
        self.send(Some(by), "PUT", "/admin/certificates", &body.to_string())
    }
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|part| part == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&bytes[line + 2..line + 2 + size]);
        bytes = &bytes[line + 4 + size..];
        if size == 0 {
            break;
        }
    }
    body
}

#[test]
fn without_a_certificate_nothing_is_shown_but_that_one_is_needed() {
    let secured = secured();
    secured.create("db");
    for target in ["/databases", "/databases/db/stats", "/admin/databases", "/no/such/route"] {
        let reply = secured.send(None, "GET", target, "");
        assert_eq!(reply.status, 403, "{target}");
        assert!(reply.message().starts_with("This server requires client certificate"), "{target}");
        assert_eq!(reply.json()["Type"], "InvalidAuth");
    }
    let stranger = secured.client("stranger");
    let reply = secured.send(Some(&stranger), "GET", "/databases/db/stats", "");
    assert_eq!(reply.status, 403);
    assert!(reply.message().contains("'CN=stranger(Thumbprint: "), "{}", reply.message());
    assert!(reply.message().contains("is unknown to the server"), "{}", reply.message());
    assert_eq!(secured.send(None, "GET", "/setup/alive", "").status, 204);
    let page = secured.send_with(None, "GET", "/", "Accept: text/html\r\n", "");
    let page = String::from_utf8(page.body).unwrap();
    assert!(page.contains("certificate that is registered here"), "{page}");
}

#[test]
fn the_servers_own_certificate_may_do_everything() {
    let secured = secured();
    secured.create("db");
    let who = secured.send(Some(&secured.own), "GET", "/certificates/whoami", "").json();
    assert_eq!(who["SecurityClearance"], "ClusterNode");
    assert_eq!(who["Thumbprint"], secured.own.certificate().thumbprint());
    let topology = secured.send(Some(&secured.own), "GET", "/topology?name=db", "").json();
    let url = topology["Nodes"][0]["Url"].as_str().unwrap();
    assert_eq!(url, format!("https://{}", secured.server.address));
}

/// What a registered client may do is decided anew for each request.
#[test]
fn a_client_may_do_what_it_is_registered_for() {
    let secured = secured();
    secured.create("db");
    secured.create("other");
    let client = secured.client("app");
    let put = |target: &str| secured.send(Some(&client), "PUT", target, "{}").status;
    let get = |target: &str| secured.send(Some(&client), "GET", target, "").status;
    let document = "/databases/db/docs?id=a";
    let steps = [
        ("ValidUser", json!({"db": "Read"}), [200, 403, 403, 403]),
        ("ValidUser", json!({"DB": "ReadWrite"}), [200, 201, 403, 403]),
        ("ValidUser", json!({"db": "Admin"}), [200, 201, 403, 403]),
        ("Operator", json!({}), [200, 201, 200, 200]),
        ("ValidUser", json!({}), [403, 403, 403, 403]),
    ];
    for (clearance, permissions, expected) in steps {
        let registered = secured.register(&secured.own, &client, clearance, permissions.clone());
        assert_eq!(registered.status, 201);
        let seen = [
            get("/databases/db/stats"),
            put(document),
            get("/databases/other/stats"),
            get("/admin/certificates"),
        ];
        assert_eq!(seen, expected, "{clearance} {permissions}");
    }
    let configured = |permissions| {
        secured.register(&secured.own, &client, "ValidUser", permissions);
        let body = r#"{"Disabled":true}"#;
        secured.send(Some(&client), "POST", "/databases/db/admin/expiration/config", body).status
    };
    assert_eq!(configured(json!({"db": "ReadWrite"})), 403);
    assert_eq!(configured(json!({"db": "Admin"})), 200);
    let deleted = format!("/admin/certificates?thumbprint={}", client.certificate().thumbprint());
    assert_eq!(secured.send(Some(&secured.own), "DELETE", &deleted, "").status, 204);
    assert_eq!(get("/databases/db/stats"), 403);
}

#[test]
fn databases_of_others_are_not_listed() {
    let secured = secured();
    secured.create("mine");
    secured.create("theirs");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"mine": "Read"}));
    let listed = secured.send(Some(&client), "GET", "/databases?namesOnly=true", "").json();
    assert_eq!(listed["Databases"], json!(["mine"]));
    for target in
        ["/databases?name=theirs", "/topology?name=theirs", "/debug/is-loaded?name=theirs"]
    {
        assert_eq!(secured.send(Some(&client), "GET", target, "").status, 403, "{target}");
    }
    let known = secured.send(Some(&client), "GET", "/databases/missing/stats", "");
    assert_eq!(known.status, 403, "whether a database exists is not shown");
}

#[test]
fn the_parts_of_a_request_are_checked_one_by_one() {
    let secured = secured();
    secured.create("db");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"db": "Read"}));
    let part = |url: &str, method: &str| json!({"Url": url, "Method": method, "Query": "?id=a", "Content": "{}"});
    let body = json!({"Requests": [
        part("/databases/db/docs", "GET"),
        part("/databases/db/docs", "PUT"),
        part("/databases/db/docs", "DELETE"),
    ]});
    let target = "/databases/db/multi_get";
    let reply = secured.send(Some(&client), "POST", target, &body.to_string()).json();
    let statuses: Vec<_> =
        reply["Results"].as_array().unwrap().iter().map(|one| &one["StatusCode"]).collect();
    assert_eq!(statuses, [&json!(404), &json!(403), &json!(403)], "{reply}");
}

#[test]
fn an_operator_makes_no_administrator() {
    let secured = secured();
    let (operator, admin) = (secured.client("operator"), secured.client("admin"));
    assert_eq!(secured.register(&secured.own, &operator, "Operator", json!({})).status, 201);
    let refused = secured.register(&operator, &admin, "ClusterAdmin", json!({}));
    assert_eq!(refused.status, 500);
    assert!(refused.message().contains("lower clearance: Operator"), "{}", refused.message());
    assert_eq!(secured.register(&secured.own, &admin, "ClusterAdmin", json!({})).status, 201);
    // Nor does it change or remove one.
    assert_eq!(secured.register(&operator, &admin, "ValidUser", json!({})).status, 500);
    let target = format!("/admin/certificates?thumbprint={}", admin.certificate().thumbprint());
    assert_eq!(secured.send(Some(&operator), "DELETE", &target, "").status, 500);
    let own = format!("/admin/certificates?thumbprint={}", operator.certificate().thumbprint());
    let reply = secured.send(Some(&operator), "DELETE", &own, "");
    assert!(reply.message().contains("current client certificate"), "{}", reply.message());
    assert_eq!(secured.send(Some(&admin), "DELETE", &own, "").status, 204);
    let refresh = "/admin/certificates/refresh";
    assert_eq!(secured.send(Some(&admin), "POST", refresh, "").status, 204);
}

#[test]
fn a_generated_certificate_can_be_used_at_once() {
    let secured = secured();
    secured.create("db");
    let body = json!({
        "Name": "app one", "SecurityClearance": "ValidUser", "Permissions": {"db": "ReadWrite"}, "Password": "pw",
    });
    let reply = secured.send(Some(&secured.own), "POST", "/admin/certificates", &body.to_string());
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    assert!(reply.head.contains("filename=app_one.zip"), "{}", reply.head);
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(reply.body)).unwrap();
    let mut file = |name: &str| {
        let mut bytes = Vec::new();
        archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    let (pfx, pem, key) = (file("app_one.pfx"), file("app_one.crt"), file("app_one.key"));
    let from_pfx = KeyPair::from_file(&pfx, None, "pw").unwrap();
    let from_pem = KeyPair::from_file(&pem, Some(&key), "").unwrap();
    let from_one = KeyPair::from_file(&file("app_one.pem"), None, "").unwrap();
    assert_eq!(from_one.certificate(), from_pem.certificate());
    // Clients upload what is between the first line of the file and the last.
    assert_eq!(String::from_utf8(pem).unwrap().matches("-----BEGIN").count(), 1);
    assert_eq!(from_pfx.certificate(), from_pem.certificate());
    for pair in [from_pfx, from_pem] {
        assert_eq!(secured.send(Some(&pair), "PUT", "/databases/db/docs?id=a", "{}").status, 201);
    }
    let listed = secured.send(Some(&secured.own), "GET", "/admin/certificates?name=app%20one", "");
    assert_eq!(listed.json()["Results"][0]["Permissions"], json!({"db": "ReadWrite"}));
}

#[test]
fn what_is_no_certificate_or_clearance_is_refused() {
    let secured = secured();
    let client = secured.client("app");
    let certificate = model::base64_text(client.certificate().der());
    let table = [
        (
            json!({"Certificate": certificate, "SecurityClearance": "Operator"}),
            "Name is a required",
        ),
        (json!({"Name": "a", "SecurityClearance": "Operator"}), "Certificate is a mandatory"),
        (
            json!({"Name": "a", "Certificate": "xxxx", "SecurityClearance": "Operator"}),
            "Unable to load",
        ),
        (json!({"Name": "a", "Certificate": certificate, "SecurityClearance": "Bogus"}), "Bogus"),
        (
            json!({"Name": "a", "Certificate": certificate, "SecurityClearance": "ValidUser",
                "Permissions": {"db": "All"}}),
            "Requested value 'All' was not found.",
        ),
    ];
    for (body, expected) in table {
        let reply =
            secured.send(Some(&secured.own), "PUT", "/admin/certificates", &body.to_string());
        assert_eq!(reply.status, 500, "{body}");
        assert!(reply.message().contains(expected), "{}", reply.message());
    }
}

#[test]
fn registered_certificates_survive_a_restart() {
    let scratch = Scratch::new();
    let authority = Authority::generate("tests", now()).unwrap();
    let own = issue_server(&authority);
    let file = scratch.0.join("server.pem");
    write_private(&file, format!("{}{}", own.chain_pem(), *own.key_pem()).as_bytes());
    let path = format!("--Security.Certificate.Path={}", file.display());
    let clock = Platform::real().clock;
    let platform = Platform { clock, ..Platform::simulated(1).platform };
    let start = || {
        let arguments = ["--ServerUrl=https://127.0.0.1:0", &path];
        TestServer::start(platform.clone(), &arguments)
    };
    let request =
        ClientRequest { name: "app".to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
    let client = authority.issue_client(&request, now()).unwrap();
    let mut secured = Secured { server: start(), authority, own, file, _scratch: scratch };
    secured.register(&secured.own, &client, "Operator", json!({}));
    let server = std::mem::replace(&mut secured.server, start_elsewhere());
    server.stop();
    secured.server = start();
    assert_eq!(secured.send(Some(&client), "GET", "/databases", "").status, 200);
}

/// Any server, while another one is being started again.
fn start_elsewhere() -> TestServer {
    TestServer::start(Platform::memory(), &[])
}

#[test]
fn a_client_that_does_not_encrypt_is_told_to() {
    let secured = secured();
    let mut stream = TcpStream::connect(secured.server.address).unwrap();
    stream.write_all(b"GET /databases HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(text.contains("InsufficientTransportLayerProtectionException"), "{text}");
}

#[test]
fn a_newer_certificate_is_used_without_a_restart() {
    let secured = secured();
    let renewed = issue_server(&secured.authority);
    write_private(&secured.file, &renewed.to_pfx("server", "secret").unwrap());
    let refresh = "/admin/certificates/refresh";
    assert_eq!(secured.send(Some(&secured.own), "POST", refresh, "").status, 204);
    let listed = secured.send(Some(&renewed), "GET", "/admin/certificates", "").json();
    assert_eq!(listed["LoadedServerCert"], renewed.certificate().thumbprint());
    write_private(&secured.file, b"damaged");
    let refused = secured.send(Some(&renewed), "POST", refresh, "");
    assert_eq!(refused.status, 500);
    assert_eq!(secured.send(Some(&renewed), "GET", "/databases", "").status, 200);
}

#[test]
fn a_program_writes_the_certificate_and_another_one_is_used_after_a_refresh() {
    let scratch = Scratch::new();
    let authority = Authority::generate("tests", now()).unwrap();
    let own = issue_server(&authority);
    let file = scratch.0.join("server.pfx");
    write_private(&file, &own.to_pfx("server", "secret").unwrap());
    let start = |program: &str, arguments: &str| {
        let program = format!("--Security.Certificate.Load.Exec={program}");
        let arguments = format!("--Security.Certificate.Load.Exec.Arguments={arguments}");
        let time = "--Security.Certificate.Exec.TimeoutInSec=1";
        let password = "--Security.Certificate.Password=secret";
        let all = ["--ServerUrl=https://127.0.0.1:0", &program, &arguments, time, password];
        TestServer::try_start(Platform::memory(), &all)
    };
    for (program, arguments, expected) in [
        ("/no/such", "x", "cannot be started"),
        ("/bin/sh", "-c 'echo sealed >&2; exit 3'", "failed (exit status: 3): sealed"),
        ("/bin/sleep", "100", "took longer than 1 seconds"),
        ("/bin/cat", "/dev/zero", "wrote more than"),
        ("/bin/echo", "hush", "cannot be used"),
    ] {
        let error = start(program, arguments).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{program}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let server = start("/bin/cat", &format!("'{}'", file.display())).unwrap();
    let secured = Secured { server, authority, own, file, _scratch: scratch };
    let renewed = issue_server(&secured.authority);
    write_private(&secured.file, &renewed.to_pfx("server", "secret").unwrap());
    let refresh = "/admin/certificates/refresh";
    assert_eq!(secured.send(Some(&secured.own), "POST", refresh, "").status, 204);
    let listed = secured.send(Some(&renewed), "GET", "/admin/certificates", "").json();
    assert_eq!(listed["LoadedServerCert"], renewed.certificate().thumbprint());
    write_private(&secured.file, b"damaged");
    assert_eq!(secured.send(Some(&renewed), "POST", refresh, "").status, 500);
    assert_eq!(secured.send(Some(&renewed), "GET", "/databases", "").status, 200);
    let pfx = model::base64_text(&renewed.to_pfx("server", "").unwrap());
    let replace = "/admin/certificates/replace-cluster-cert";
    let body = json!({ "Certificate": pfx }).to_string();
    let refused = secured.send(Some(&renewed), "POST", replace, &body);
    assert!(refused.json()["Error"].to_string().contains("comes from the program"));
}

#[test]
fn the_certificate_of_the_server_is_replaced_by_an_upload() {
    let secured = secured();
    let replace = |by: &KeyPair, file: &[u8]| {
        let target = "/admin/certificates/replace-cluster-cert?replaceImmediately=true";
        let body = json!({"Certificate": model::base64_text(file)});
        secured.send(Some(by), "POST", target, &body.to_string())
    };
    let client = secured.client("app");
    let year_2000 = 630_822_816_000_000_000;
    let hosts = vec!["localhost".to_owned()];
    let expired = secured
        .authority
        .issue_server(&ServerRequest { hosts, key: KeyAlgorithm::Ecdsa }, year_2000)
        .unwrap();
    for (file, expected) in [
        (b"damaged".to_vec(), "Unable to load the provided certificate."),
        (secured.own.chain_pem().into_bytes(), "it contains no private key"),
        (client.to_pfx("app", "").unwrap().to_vec(), "lacks serverAuth"),
        (expired.to_pfx("server", "").unwrap().to_vec(), "the certificate expired at"),
    ] {
        let reply = replace(&secured.own, &file);
        assert_eq!(reply.status, 500);
        let error = reply.json()["Error"].to_string();
        assert!(error.contains(expected), "{error}");
    }
    secured.register(&secured.own, &client, "Operator", json!({}));
    let renewed = issue_server(&secured.authority);
    let file = renewed.to_pfx("server", "").unwrap();
    assert_eq!(replace(&client, &file).status, 403);
    assert_eq!(replace(&secured.own, &file).status, 201);
    let listed = secured.send(Some(&renewed), "GET", "/admin/certificates", "").json();
    assert_eq!(listed["LoadedServerCert"], renewed.certificate().thumbprint());
    // A restart reads the same: the password of the settings is that of the new file, too.
    let bytes = fs::read(&secured.file).unwrap();
    let stored = KeyPair::from_file(&bytes, None, "secret").unwrap();
    assert_eq!(stored.certificate(), renewed.certificate());
    let mode = fs::metadata(&secured.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_certificate_that_should_not_be_used_keeps_the_server_from_starting() {
    let scratch = Scratch::new();
    let authority = Authority::generate("tests", now()).unwrap();
    let own = issue_server(&authority);
    let request =
        ClientRequest { name: "app".to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
    let client = authority.issue_client(&request, now()).unwrap();
    let file = scratch.0.join("server.pfx");
    let start = |arguments: &[&str]| {
        let path = format!("--Security.Certificate.Path={}", file.display());
        let base = ["--ServerUrl=https://127.0.0.1:0", &path];
        let all: Vec<_> = base.into_iter().chain(arguments.iter().copied()).collect();
        match TestServer::try_start(Platform::memory(), &all) {
            Ok(_) => "it started".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert!(start(&[]).contains("cannot be read"));
    write_private(&file, b"nothing");
    assert!(start(&[]).contains("not a readable PKCS #12 file"), "{}", start(&[]));
    write_private(&file, &own.to_pfx("server", "secret").unwrap());
    assert!(start(&[]).contains("its password is another one"), "{}", start(&[]));
    write_private(&file, &client.to_pfx("app", "").unwrap());
    assert!(start(&[]).contains("lacks serverAuth"), "{}", start(&[]));
    write_private(&file, own.chain_pem().as_bytes());
    assert!(start(&[]).contains("no private key"), "{}", start(&[]));
    let other_key = scratch.0.join("other.key");
    write_private(&other_key, client.key_pem().as_bytes());
    let key = format!("--Security.Certificate.Key.Path={}", other_key.display());
    assert!(start(&[&key]).contains("does not belong to the certificate"), "{}", start(&[&key]));
    write_private(&file, &own.to_pfx("server", "").unwrap());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start(&[]).contains("other users of this machine can access"), "{}", start(&[]));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(start(&[]), "it started");
}

#[test]
fn a_worker_needs_access_to_its_database() {
    let secured = secured();
    secured.create("db");
    let client = secured.client("app");
    let header = |database: &str| {
        json!({"DatabaseName": database, "Operation": "Subscription", "OperationVersion": 53000})
            .to_string()
    };
    let begin = |client: Option<&KeyPair>, database: &str| {
        let mut stream = secured.connect(client);
        stream.write_all(header(database).as_bytes()).unwrap();
        let mut bytes = vec![0; 16 << 10];
        let length = stream.read(&mut bytes).unwrap();
        serde_json::from_slice::<Value>(&bytes[..length]).unwrap()
    };
    let refused = begin(None, "db");
    assert_eq!(refused["Status"], "AuthorizationFailed");
    assert!(refused["Message"].as_str().unwrap().contains("requires client certificate"));
    assert_eq!(begin(Some(&client), "db")["Status"], "AuthorizationFailed");
    secured.register(&secured.own, &client, "ValidUser", json!({"db": "Read"}));
    assert_eq!(begin(Some(&client), "db")["Status"], "Ok");
    assert_eq!(begin(Some(&client), "other")["Status"], "AuthorizationFailed");
    assert_eq!(begin(Some(&secured.own), "db")["Status"], "Ok");
}

#[test]
fn a_session_of_a_web_socket_needs_access_to_its_database() {
    let secured = secured();
    secured.create("db");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"db": "Read"}));
    let headers = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let open = |client: Option<&KeyPair>, target: &str| {
        let mut stream = secured.connect(client);
        let host = secured.server.address;
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = vec![0; 16 << 10];
        let length = stream.read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        text.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(open(None, "/databases/db/changes"), 403);
    assert_eq!(open(Some(&client), "/databases/db/changes"), 101);
    assert_eq!(open(Some(&client), "/databases/other/changes"), 403);
    assert_eq!(open(Some(&client), "/admin/traffic-watch"), 403);
    assert_eq!(open(Some(&secured.own), "/admin/traffic-watch"), 101);
}

/// A client of the matrix: which requests it may make is in its column.
struct MatrixClient {
    name: &'static str,
    certificate: Option<KeyPair>,
    key: Option<String>,
}

fn clients_of_matrix(secured: &Secured) -> Vec<MatrixClient> {
    let certified = certified_clients(secured).into_iter();
    let certified =
        certified.map(|(name, certificate)| MatrixClient { name, certificate, key: None });
    let keyed = keyed_clients(secured).into_iter();
    let keyed = keyed.map(|(name, key)| MatrixClient { name, certificate: None, key: Some(key) });
    certified.chain(keyed).collect()
}

fn keyed_clients(secured: &Secured) -> Vec<(&'static str, String)> {
    const SOON: i64 = 200 * model::ticks::TICKS_PER_SECOND / 1000;
    let key = |clearance, permissions| secured.api_key(clearance, permissions, None);
    let expired = secured.api_key("ClusterAdmin", json!({}), Some(now() + SOON));
    while secured.status_with(None, Some(&expired), "GET", "/databases") != 403 {}
    let known = key("Operator", json!({}));
    let unknown = format!("{}{}", &known[..17], "0".repeat(64));
    vec![
        ("API key, unknown", "0".repeat(16) + &unknown[16..]),
        ("API key, with another secret", unknown),
        ("API key, unreadable", known[..40].to_owned()),
        ("API key of an administrator, expired", expired),
        ("API key of another database", key("ValidUser", json!({"other": "Admin"}))),
        ("API key, Read", key("ValidUser", json!({"db": "Read"}))),
        ("API key, ReadWrite", key("ValidUser", json!({"db": "ReadWrite"}))),
        ("API key, Admin", key("ValidUser", json!({"db": "Admin"}))),
        ("API key of an operator", known),
        ("API key of an administrator", key("ClusterAdmin", json!({}))),
    ]
}

fn certified_clients(secured: &Secured) -> Vec<(&'static str, Option<KeyPair>)> {
    let ten_years = 10 * 366 * model::ticks::TICKS_PER_DAY;
    let registered = |name, clearance, permissions| {
        let client = secured.client(name);
        assert_eq!(secured.register(&secured.own, &client, clearance, permissions).status, 201);
        Some(client)
    };
    let at = |name, moment| {
        let client = secured.client_of_another_time(name, moment);
        let clearance = "ClusterAdmin";
        assert_eq!(secured.register(&secured.own, &client, clearance, json!({})).status, 201);
        Some(client)
    };
    vec![
        ("no certificate", None),
        ("unknown", Some(secured.client("unknown"))),
        ("administrator, expired", at("expired", now() - ten_years)),
        ("administrator, not yet valid", at("early", now() + ten_years)),
        ("user of no database", registered("nothing", "ValidUser", json!({}))),
        ("user of another database", registered("other", "ValidUser", json!({"other": "Admin"}))),
        ("user, Read", registered("read", "ValidUser", json!({"db": "Read"}))),
        ("user, ReadWrite", registered("write", "ValidUser", json!({"db": "ReadWrite"}))),
        ("user, Admin", registered("admin", "ValidUser", json!({"db": "Admin"}))),
        ("operator", registered("operator", "Operator", json!({}))),
        ("administrator", registered("cluster", "ClusterAdmin", json!({}))),
    ]
}

/// Every route with every kind of client: what is allowed is what the stored matrix says. A route that is not in
/// it, or is gone, fails. `UPDATE_MATRIX=1` writes it again: read the difference before it is committed.
#[test]
fn each_route_is_open_to_those_in_the_matrix() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/access_matrix.txt");
    let secured = secured_by(&["--Security.ApiKeys.Enabled=true"], None);
    secured.create("db");
    secured.create("other");
    let clients = clients_of_matrix(&secured);
    let mut routes: Vec<_> = server::route_requirements().collect();
    routes.sort_by_key(|(method, path, _)| (*path, *method));
    let column = |client: &MatrixClient| -> Vec<char> {
        let allowed = |(method, path, _): &(&str, &str, &str)| {
            let target = path.replace("/databases/*", "/databases/db");
            let (certificate, key) = (client.certificate.as_ref(), client.key.as_deref());
            match secured.status_with(certificate, key, method, &target) {
                403 => '-',
                _ => '+',
            }
        };
        routes.iter().map(allowed).collect()
    };
    let columns: Vec<Vec<char>> = std::thread::scope(|scope| {
        let column = &column;
        let running = clients.iter().map(|client| scope.spawn(move || column(client)));
        let running: Vec<_> = running.collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut matrix = String::from("# What each client may request, from left to right:\n");
    for client in &clients {
        matrix.push_str(&format!("# {}\n", client.name));
    }
    for (row, (method, path, requirement)) in routes.iter().enumerate() {
        let marks: String = columns.iter().map(|column| column[row]).collect();
        matrix.push_str(&format!("{marks} {method} {path} {requirement}\n"));
    }
    if std::env::var_os("UPDATE_MATRIX").is_some() {
        fs::write(FILE, &matrix).unwrap();
    }
    let stored = fs::read_to_string(FILE).unwrap();
    let differing = matrix.lines().zip(stored.lines()).find(|(is, was)| is != was);
    assert_eq!(differing, None, "what is, and what is stored");
    assert_eq!(matrix.lines().count(), stored.lines().count());
}

#[test]
fn what_administers_and_what_is_refused_is_in_the_audit_log() {
    let (sender, entries) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let sink = move |entry: &[u8]| sender.lock().unwrap().send(entry.to_vec()).unwrap();
    let secured = secured_with(Some(Box::new(sink)));
    secured.create("db");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"db": "ReadWrite"}));
    secured.send(Some(&client), "PUT", "/databases/db/docs?id=a", "{}");
    secured.send(Some(&secured.own), "GET", "/admin/certificates", "");
    secured.send(Some(&client), "DELETE", "/admin/databases", r#"{"DatabaseNames":["db"]}"#);
    secured.send(None, "GET", "/databases/db/docs?id=a", "");
    let inner = json!({"Requests": [{
        "Url": "/databases/db/admin/configuration/client", "Query": "", "Method": "PUT", "Content": {"Disabled": true},
    }]});
    for by in [&secured.own, &client] {
        secured.send(Some(by), "POST", "/databases/db/multi_get", &inner.to_string());
    }
    let seen: Vec<Value> =
        entries.iter().take(6).map(|entry| serde_json::from_slice(&entry).unwrap()).collect();
    let shown = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        (text("Method"), text("Target"), entry["Status"].as_u64(), entry["Denied"] == true)
    };
    let expected = [
        ("PUT", "/admin/databases?name=db", 201, false),
        ("PUT", "/admin/certificates", 201, false),
        ("DELETE", "/admin/databases", 403, true),
        ("GET", "/databases/db/docs?id=a", 403, true),
        ("PUT", "/databases/db/admin/configuration/client", 201, false),
        ("PUT", "/databases/db/admin/configuration/client", 403, true),
    ];
    let expected = expected.map(|(method, target, status, is_denied)| {
        (method.to_owned(), target.to_owned(), Some(status), is_denied)
    });
    assert_eq!(seen.iter().map(shown).collect::<Vec<_>>(), expected);
    assert!(seen[2]["Certificate"].as_str().unwrap().starts_with("CN=app(Thumbprint: "));
    assert_eq!(seen[3]["Certificate"], Value::Null);
    assert!(seen[0]["From"].as_str().unwrap().starts_with("127.0.0.1:"));
}

/// Whoever sends a key means it: what its connection has besides does not help.
#[test]
fn a_key_counts_instead_of_the_certificate_of_its_connection() {
    let secured = secured_by(&["--Security.ApiKeys.Enabled=true"], None);
    secured.create("db");
    let reader = secured.api_key("ValidUser", json!({"db": "Read"}), None);
    let stranger = secured.client("proxy");
    let status = |client, key| secured.status_with(client, key, "GET", "/admin/certificates");
    assert_eq!(status(Some(&secured.own), None), 200);
    assert_eq!(status(Some(&secured.own), Some(&*reader)), 403);
    assert_eq!(status(Some(&secured.own), Some("unreadable")), 403);
    let stats = "/databases/db/stats";
    assert_eq!(secured.status_with(Some(&stranger), None, "GET", stats), 403);
    assert_eq!(secured.status_with(Some(&stranger), Some(&reader), "GET", stats), 200);
    let reply = secured.send(None, "GET", stats, "");
    assert!(reply.message().contains("client certificate for authentication, or an API key"));
}

#[test]
fn readers_run_no_scripts_where_they_should_not() {
    let secured = secured_by(&["--Security.AllowScriptsOfReaders=false"], None);
    secured.create("db");
    let (reader, writer) = (secured.client("reader"), secured.client("writer"));
    secured.register(&secured.own, &reader, "ValidUser", json!({"db": "Read"}));
    secured.register(&secured.own, &writer, "ValidUser", json!({"db": "ReadWrite"}));
    let queries = [
        ("from Users select Name", false),
        ("from Users filter Age > 3", false),
        ("from Users as u select { N: u.Name }", true),
        ("declare function f(u) { return u.Name } from Users as u select f(u)", true),
        ("declare function f(u) { return u.Age > 3 } from Users as u filter f(u)", true),
    ];
    for (text, has_script) in queries {
        let query = json!({"Query": text}).to_string();
        let inner =
            json!({"Url": "/databases/db/queries", "Method": "POST", "Content": {"Query": text}});
        let inner = json!({"Requests": [inner]}).to_string();
        // Subscriptions have no filters, and select by scripts alone.
        let places = if has_script && !text.contains("filter") { 3 } else { 2 };
        for (by, status) in [(&reader, if has_script { 403 } else { 200 }), (&writer, 200)] {
            for place in &["queries", "streams/queries", "subscriptions/try"][..places] {
                let target = format!("/databases/db/{place}");
                let reply = secured.send(Some(by), "POST", &target, &query);
                assert_eq!(reply.status, status, "{place} {text}");
            }
            let reply = secured.send(Some(by), "POST", "/databases/db/multi_get", &inner);
            assert_eq!(reply.json()["Results"][0]["StatusCode"], status, "{text}");
        }
    }
}

#[test]
fn a_renewed_certificate_is_another_one() {
    let secured = secured();
    let client = secured.client("app");
    secured.register(&secured.own, &client, "Operator", json!({}));
    let again = secured.client("app");
    assert_eq!(secured.status_of(Some(&again), "GET", "/databases"), 403);
}

#[test]
fn a_certificate_is_removed_however_its_thumbprint_is_written() {
    let secured = secured();
    let client = secured.client("app");
    secured.register(&secured.own, &client, "Operator", json!({}));
    let thumbprint = client.certificate().thumbprint().to_lowercase();
    let pairs: Vec<String> =
        thumbprint.as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).into()).collect();
    let target = format!("/admin/certificates?thumbprint={}%20", pairs.join(":"));
    assert_eq!(secured.send(Some(&secured.own), "DELETE", &target, "").status, 204);
    assert_eq!(secured.status_of(Some(&client), "GET", "/databases"), 403);
}

#[test]
fn what_the_configuration_names_cannot_be_registered_otherwise() {
    let secured = secured();
    let operator = secured.client("operator");
    secured.register(&secured.own, &operator, "Operator", json!({}));
    let refused = secured.register(&operator, &secured.own, "ValidUser", json!({}));
    assert!(refused.message().contains("is that of the server"), "{}", refused.message());
    assert_eq!(secured.status_of(Some(&secured.own), "GET", "/admin/certificates"), 200);
}

/// Changes and removals at the same time: what was removed last stays removed.
#[test]
fn an_edit_does_not_bring_back_what_is_removed() {
    let secured = secured();
    for _ in 0..10 {
        let client = secured.client("app");
        secured.register(&secured.own, &client, "Operator", json!({}));
        let thumbprint = client.certificate().thumbprint();
        let body = json!({"Thumbprint": thumbprint, "Name": "b", "SecurityClearance": "Operator"})
            .to_string();
        let target = format!("/admin/certificates?thumbprint={thumbprint}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                secured.send(Some(&secured.own), "POST", "/admin/certificates/edit", &body)
            });
            let deleted =
                scope.spawn(|| secured.send(Some(&secured.own), "DELETE", &target, "").status);
            assert_eq!(deleted.join().unwrap(), 204);
        });
        assert_eq!(secured.status_of(Some(&client), "GET", "/databases"), 403);
    }
}

#[test]
fn a_user_neither_learns_of_other_databases_nor_changes_what_is_the_servers() {
    let secured = secured();
    secured.create("mine");
    secured.create("secret-plan");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"mine": "Admin"}));
    for (method, path, _) in server::route_requirements().filter(|(method, ..)| *method == "GET") {
        let endless = ["/tail", "/changes", "/watch", "/live", "/notification-center/watch"];
        if endless.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let target = path.replace("/databases/*", "/databases/mine");
        let reply = secured.send(Some(&client), method, &target, "");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(!text.contains("secret-plan"), "{method} {path}: {text}");
    }
    for target in [
        "/server/notification-center/dismiss?id=a",
        "/server/notification-center/postpone?id=a&timeInSec=1",
    ] {
        assert_eq!(secured.status_of(Some(&client), "POST", target), 403);
    }
}

#[test]
fn routes_that_are_not_implemented_need_a_clearance_too() {
    let secured = secured();
    secured.create("db");
    let client = secured.client("app");
    secured.register(&secured.own, &client, "ValidUser", json!({"db": "Read"}));
    let import = "/databases/db/admin/smuggler/migrate?operationId=9223372036854775807";
    assert_eq!(secured.status_of(Some(&client), "POST", import), 403);
    assert_eq!(secured.status_of(Some(&secured.own), "POST", import), 500);
    let next = "/databases/db/operations/next-operation-id";
    assert_eq!(secured.send(Some(&secured.own), "GET", next, "").json()["Id"], 1);
}

/// The destination is another database of the same server: its own certificate may write there.
#[test]
fn an_etl_task_uses_the_certificate_of_the_server() {
    let secured = secured();
    secured.create("db");
    secured.create("other");
    let url = format!("https://{}", secured.server.address);
    let own = Some(&secured.own);
    let put = |target: &str, body: Value| {
        let reply = secured.send(own, "PUT", target, &body.to_string());
        assert!(reply.status < 300, "{}", String::from_utf8_lossy(&reply.body));
    };
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": "other", "TopologyDiscoveryUrls": [url]
    });
    put("/databases/db/admin/connection-strings", string);
    put("/databases/db/docs?id=a", json!({"N": 1, "@metadata": {"@collection": "As"}}));
    let transforms = json!([{"Name": "all", "ApplyToAllDocuments": true}]);
    let task = json!({
        "EtlType": "Raven", "Name": "t", "ConnectionStringName": "to", "Transforms": transforms
    });
    put("/databases/db/admin/etl", task);
    wait_until(|| secured.send(own, "GET", "/databases/other/docs?id=a", "").status == 200);
}

/// The server of a bucket may be any in the network, as the server sees it.
#[test]
fn a_dump_names_no_server_of_a_bucket_unless_an_operator_imports_it() {
    let secured = secured();
    secured.create("db");
    let (admin, own) = (secured.client("admin"), Some(&secured.own));
    secured.register(&secured.own, &admin, "ValidUser", json!({"db": "Admin"}));
    let task = |name: &str, server: Value| {
        let settings = json!({
            "BucketName": "b", "AwsRegionName": "eu-west-1", "AwsAccessKey": "k", "AwsSecretKey": "hush",
            "customServerUrl": server
        });
        json!({"Name": name, "FullBackupFrequency": "0 0 1 1 *", "S3Settings": settings})
    };
    let tasks = json!([task("away", json!("http://127.0.0.1:1")), task("amazon", Value::Null)]);
    let dump = json!({"BuildVersion": 54000, "DatabaseRecord": {"PeriodicBackups": tasks}});
    let body = format!(
        "--bound\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n\"\r\n\r\n{dump}\r\n--bound--\r\n"
    );
    let import = |client: &KeyPair| {
        let headers = "Content-Type: multipart/form-data; boundary=bound\r\n";
        let target = "/databases/db/smuggler/import";
        let reply = secured.send_with(Some(client), "POST", target, headers, &body);
        let shown = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        let tasks = secured.send(own, "GET", "/databases/db/tasks", "").json();
        let tasks = tasks["OngoingTasksList"].as_array().unwrap().clone();
        let names = tasks.iter().map(|task| task["TaskName"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), shown)
    };
    let (names, shown) = import(&admin);
    assert_eq!(names, ["amazon"]);
    assert!(shown.contains("'away' was not imported: only clients with the clearance Operator"));
    let (mut names, _) = import(&secured.own);
    names.sort();
    names.dedup();
    assert_eq!(names, ["amazon", "away"]);
}

/// The server sends with its own certificate, so where tasks send to is not changed by a dump of somebody who could not
/// change it otherwise.
#[test]
fn a_dump_changes_no_connection_string_of_a_task_unless_an_operator_imports_it() {
    let secured = secured();
    secured.create("db");
    let (admin, own) = (secured.client("admin"), Some(&secured.own));
    secured.register(&secured.own, &admin, "ValidUser", json!({"db": "Admin"}));
    let string = |name: &str, url: &str| json!({"Type": "Raven", "Name": name, "Database": "d", "TopologyDiscoveryUrls": [url]});
    let put = |target: &str, body: Value| {
        assert_eq!(secured.send(own, "PUT", target, &body.to_string()).status, 200);
    };
    put("/databases/db/admin/connection-strings", string("used", "https://127.0.0.1:1"));
    put("/databases/db/admin/connection-strings", string("unused", "https://127.0.0.1:1"));
    let transforms = json!([{"Name": "all", "ApplyToAllDocuments": true}]);
    let task = json!({
        "EtlType": "Raven", "Name": "t", "ConnectionStringName": "used", "Transforms": transforms
    });
    put("/databases/db/admin/etl", task);
    let sent = |name: &str| {
        let mut string = string(name, "https://127.0.0.1:2");
        string.as_object_mut().unwrap().remove("Type");
        string
    };
    let invalid = json!({"Database": "d", "TopologyDiscoveryUrls": ["https://u:hush@a"]});
    let strings = json!({
        "used": sent("used"), "unused": sent("unused"), "new": sent("new"), "invalid": invalid
    });
    let dump =
        json!({"BuildVersion": 54000, "DatabaseRecord": {"RavenConnectionStrings": strings}});
    let body = format!(
        "--bound\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n\"\r\n\r\n{dump}\r\n--bound--\r\n"
    );
    let import = |client: &KeyPair| {
        let headers = "Content-Type: multipart/form-data; boundary=bound\r\n";
        let target = "/databases/db/smuggler/import";
        let reply = secured.send_with(Some(client), "POST", target, headers, &body);
        let shown = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{shown}");
        assert!(shown.contains("'invalid' was not imported") && !shown.contains("hush"), "{shown}");
        let known = secured.send(own, "GET", "/databases/db/admin/connection-strings", "").json();
        let known = known["RavenConnectionStrings"].clone();
        let url = |name: &str| known[name]["TopologyDiscoveryUrls"][0].as_str().map(str::to_owned);
        (["used", "unused", "new", "invalid"].map(url), shown)
    };
    let (one, two) =
        (Some("https://127.0.0.1:1".to_owned()), Some("https://127.0.0.1:2".to_owned()));
    let (known, shown) = import(&admin);
    assert_eq!(known, [one, two.clone(), two.clone(), None]);
    assert!(shown.contains("'used' was not imported: a task uses it"), "{shown}");
    assert_eq!(import(&secured.own).0, [two.clone(), two.clone(), two, None]);
}
