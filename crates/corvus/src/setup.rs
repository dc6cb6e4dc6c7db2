//! `corvus setup secure`: makes the certificates of a server and of its first administrator, and the settings
//! that use them. `corvus setup api-key`: makes the API key of an administrator.
//!
//! Nothing that exists is overwritten. Exit codes: 0 done; 1 something could not be written; 2 the command was
//! not understood, or the directory has files of that name.

use std::{
    ffi::OsString,
    fmt, fs,
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
};

use platform::Platform;
use security::{
    Authority, ClientRequest, IssueError, KeyAlgorithm, KeyFileError, NewApiKey, ServerRequest,
};
use serde_json::json;
use zeroize::Zeroizing;

const HELP: &str = "\
Usage: corvus setup secure [<directory>] [--host=<name or address>]... [--port=<port>]
                           [--admin=<name>] [--password=<password>] [--key=ecdsa|rsa]
       corvus setup api-key

secure makes a certificate authority, a certificate for the server and one for its first administrator, and
writes them with a settings file to the directory (by default ./secure).

--host      under which clients reach the server; may be repeated, the first is what the server
            tells clients; localhost always works. With a host other than localhost the server
            listens on all addresses
--port      where it listens; 8443 by default
--admin     the name in the administrator's certificate; admin by default
--password  of admin.pfx alone, which browsers and clients import; empty by default. Other users of
            this machine may see it in the list of processes
--key       the kind of the keys; ecdsa by default. The Node.js client reads PEM files with RSA keys only

api-key makes an API key for an administrator, where client certificates cannot go, and prints it with the
settings of a server that trusts it. The settings contain only the hash of its secret.
";
const HELP_WORDS: [&str; 4] = ["--help", "-h", "-?", "help"];
/// Permissions of users other than the owner.
const OTHERS: u32 = 0o077;
const DONE: u8 = 0;
const FAILED: u8 = 1;
const NOTHING_DONE: u8 = 2;
const DIRECTORY: &str = "secure";
const PORT: u16 = 8443;
/// These mean this machine alone.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Runs `corvus setup` with the arguments that follow this word.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let mut out = io::stdout();
    if arguments.first().and_then(|word| word.to_str()) == Some("api-key") && arguments.len() == 1 {
        drop(out.write_all(api_key(&Platform::real()).as_bytes()).and_then(|()| out.flush()));
        return ExitCode::from(DONE);
    }
    let (text, code) = match Setup::read(arguments) {
        Ok(None) => (HELP.to_owned(), DONE),
        Ok(Some(setup)) => match setup.make(&Platform::real()) {
            Ok(text) => (text, DONE),
            Err(error) => {
                let code =
                    if matches!(error, SetupError::Exists { .. } | SetupError::Exposed { .. }) {
                        NOTHING_DONE
                    } else {
                        FAILED
                    };
                (format!("corvus setup: {error}\n"), code)
            }
        },
        Err(problem) => (format!("corvus setup: {problem}\n\n{HELP}"), NOTHING_DONE),
    };
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    ExitCode::from(code)
}

/// A new key for an administrator, and the settings that trust it.
fn api_key(platform: &Platform) -> Zeroizing<String> {
    let key = NewApiKey::generate(|bytes| platform.entropy.fill(bytes));
    let settings = json!({
        "Security.ApiKeys.Enabled": true,
        "Security.ApiKeys.Admin": format!("{}.{}", key.id(), key.hash()),
    });
    Zeroizing::new(format!(
        "The key, which is shown only now:
    {}

Settings of the server, where only the hash of its secret is:
{settings:#}

A server without a certificate listens beyond this machine only with Security.TlsTerminatedByProxy=true, which says that
something in front of it ends TLS. Clients send the key with each request:
    curl -H 'Authorization: Bearer <key>' <address>/databases
Further keys come from the server: POST /admin/api-keys.
",
        *key.text()
    ))
}

/// What is to be made.
struct Setup {
    directory: PathBuf,
    hosts: Vec<String>,
    port: u16,
    admin: String,
    password: Zeroizing<String>,
    key: KeyAlgorithm,
}

/// Why it could not be made.
enum SetupError {
    Exists { path: PathBuf },
    Exposed { path: PathBuf },
    Write { path: PathBuf, source: io::Error },
    Issue(IssueError),
}

impl Setup {
    /// `None` if the help text is wanted.
    fn read(arguments: &[OsString]) -> Result<Option<Setup>, String> {
        let mut words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
        match words.next().as_deref() {
            None => return Ok(None),
            Some(word) if HELP_WORDS.contains(&word) => return Ok(None),
            Some("secure") => {}
            Some(other) => return Err(format!("'{other}' is not known")),
        }
        let mut setup = Setup {
            directory: PathBuf::from(DIRECTORY),
            hosts: Vec::new(),
            port: PORT,
            admin: "admin".to_owned(),
            password: Zeroizing::default(),
            key: KeyAlgorithm::Ecdsa,
        };
        let mut has_directory = false;
        for word in words {
            match word.split_once('=') {
                _ if HELP_WORDS.contains(&word.as_str()) => return Ok(None),
                Some(("--host", host)) => setup.hosts.push(read_host(host)?),
                Some(("--port", port)) => {
                    let usable = port.parse().ok().filter(|port| *port != 0);
                    setup.port = usable
                        .ok_or_else(|| format!("'{port}' is not a port that clients can use"))?;
                }
                Some(("--key", "ecdsa")) => setup.key = KeyAlgorithm::Ecdsa,
                Some(("--key", "rsa")) => setup.key = KeyAlgorithm::Rsa,
                Some(("--admin", name)) if !name.is_empty() => setup.admin = name.to_owned(),
                Some(("--password", password)) => {
                    setup.password = Zeroizing::new(password.to_owned())
                }
                _ if !word.starts_with('-') && !has_directory => {
                    (setup.directory, has_directory) = (PathBuf::from(word), true);
                }
                _ => return Err(format!("'{word}' is not understood")),
            }
        }
        Ok(Some(setup))
    }

    /// Makes everything, and says what to do next.
    fn make(&self, platform: &Platform) -> Result<String, SetupError> {
        let now = platform.clock.now().ticks();
        let authority = Authority::generate("Corvus", now)?;
        let names = self.hosts.iter().map(String::as_str).chain(LOCAL_HOSTS);
        let mut hosts: Vec<String> = Vec::new();
        for name in names {
            if !hosts.iter().any(|host| host == name) {
                hosts.push(name.to_owned());
            }
        }
        let server = authority.issue_server(&ServerRequest { hosts, key: self.key }, now)?;
        let request = ClientRequest { name: self.admin.clone(), not_after: None, key: self.key };
        let admin = authority.issue_client(&request, now)?;
        let directory = self.create_directory()?;
        let path = |name: &str| directory.join(name);
        let settings = json!({
            "ServerUrl": self.listen_url(),
            "PublicServerUrl": self.public_url(),
            "Security.Certificate.Path": path("server.pfx"),
            "Security.WellKnownCertificates.Admin": admin.certificate().thumbprint(),
        });
        let settings = format!("{settings:#}\n");
        let public = |text: String| Zeroizing::new(text.into_bytes());
        let files = [
            ("authority.pfx", authority.key_pair().to_pfx("authority", "")?),
            ("authority.crt", public(authority.key_pair().chain_pem())),
            ("server.pfx", server.to_pfx("server", "")?),
            ("admin.pfx", admin.to_pfx(&self.admin, &self.password)?),
            ("admin.crt", public(admin.chain_pem())),
            ("admin.key", Zeroizing::new(admin.key_pem().as_bytes().to_vec())),
            ("settings.json", public(settings)),
        ];
        if let Some((name, _)) = files.iter().find(|(name, _)| path(name).exists()) {
            return Err(SetupError::Exists { path: path(name) });
        }
        for (name, bytes) in &files {
            write_private(&path(name), bytes)?;
        }
        Ok(self.next_steps(&directory))
    }

    fn create_directory(&self) -> Result<PathBuf, SetupError> {
        let failed = |source| SetupError::Write { path: self.directory.clone(), source };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(failed)?;
        let mode = fs::metadata(&self.directory).map_err(failed)?.permissions().mode();
        if mode & OTHERS != 0 {
            return Err(SetupError::Exposed { path: self.directory.clone() });
        }
        std::path::absolute(&self.directory).map_err(failed)
    }

    fn is_local(&self) -> bool {
        self.hosts.iter().all(|host| LOCAL_HOSTS.contains(&host.as_str()))
    }

    fn listen_url(&self) -> String {
        let host = match (self.is_local(), self.hosts.first().map(String::as_str)) {
            (true, Some("::1")) => "[::1]",
            (true, _) => "127.0.0.1",
            (false, _) => "0.0.0.0",
        };
        format!("https://{host}:{}", self.port)
    }

    fn public_url(&self) -> String {
        let host = self.hosts.first().map_or("localhost", String::as_str);
        match host.contains(':') {
            true => format!("https://[{host}]:{}", self.port),
            false => format!("https://{host}:{}", self.port),
        }
    }

    fn next_steps(&self, directory: &Path) -> String {
        let (shown, url) = (directory.display(), self.public_url());
        format!(
            "Certificates and settings are in {shown}

Start the server:
    corvus --config-path {shown}/settings.json

Try it, with the administrator's certificate:
    curl --cacert {shown}/authority.crt --cert {shown}/admin.crt --key {shown}/admin.key {url}/databases

Import admin.pfx into a browser, or give it to a client library, and authority.crt to whatever should trust
the server. Keep authority.pfx elsewhere: it is needed to make another certificate for the server. Further
clients get theirs from the server: POST {url}/admin/certificates.
"
        )
    }
}

/// A name or an address under which others reach this machine, as a certificate contains it.
fn read_host(text: &str) -> Result<String, String> {
    let refused = || format!("'{text}' is neither a name of this machine nor an address");
    let host = text.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    if let Ok(address) = host.parse::<IpAddr>() {
        return if address.is_unspecified() { Err(refused()) } else { Ok(address.to_string()) };
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if host.split('.').all(is_label) { Ok(host) } else { Err(refused()) }
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), SetupError> {
    let failed = |source| SetupError::Write { path: path.to_path_buf(), source };
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Exists { path } => {
                write!(f, "'{}' exists already, and nothing is overwritten", path.display())
            }
            SetupError::Exposed { path } => write!(
                f,
                "other users of this machine may access '{0}': chmod go= '{0}', or name a new directory",
                path.display()
            ),
            SetupError::Write { path, source } => {
                write!(f, "'{}' cannot be written: {source}", path.display())
            }
            SetupError::Issue(error) => error.fmt(f),
        }
    }
}

impl From<IssueError> for SetupError {
    fn from(error: IssueError) -> Self {
        SetupError::Issue(error)
    }
}

impl From<KeyFileError> for SetupError {
    fn from(error: KeyFileError) -> Self {
        SetupError::Issue(error.into())
    }
}
