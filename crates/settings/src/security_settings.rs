//! How the server identifies itself and whom it trusts, as the rest of Corvus reads it.
//!
//! Invariant: no secret is in a debug text.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::problem::Contradiction;
use crate::settings::Picker;

/// How the server identifies itself, and whom it trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecuritySettings {
    /// The certificate of the server; without one, everybody who can connect may do everything.
    pub certificate: Option<CertificateSource>,
    /// The thumbprints, in upper case, of clients that may do everything.
    pub admin_thumbprints: Vec<String>,
    /// Whether clients may identify themselves by API keys.
    pub api_keys: Option<ApiKeySettings>,
    /// Whether something in front of the server ends TLS.
    pub tls_ends_elsewhere: bool,
    /// Where the master key is.
    pub master_key: MasterKeySource,
    /// Whether databases may be encrypted on a server without a certificate.
    pub encrypts_over_http: bool,
    /// The audit log, if there is one.
    pub audit_log: Option<AuditLogSettings>,
    /// Whether clients that may only read a database may run scripts in it.
    pub allows_scripts_of_readers: bool,
    /// Whether something is set that only has an effect with a certificate.
    pub(crate) needs_certificate: bool,
    /// Whether something is set that only has an effect with API keys.
    pub(crate) needs_api_keys: bool,
    /// Keys that are set although they contradict another one, or lack it: each with the other one.
    pub(crate) contradictions: Vec<Contradiction>,
}

/// Clients that identify themselves by API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeySettings {
    /// Keys that may do everything: the id, a dot, and the SHA-256 of the secret, in hexadecimal digits.
    pub admins: Vec<String>,
}

/// Where the audit log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogSettings {
    /// The directory of its files.
    pub directory: PathBuf,
    /// How long they are kept.
    pub kept_for: Duration,
}

/// Where the certificate of the server comes from, with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateSource {
    /// Where it is.
    pub place: CertificatePlace,
    /// The password, if it is in PKCS #12; may be empty.
    pub password: String,
}

/// Where a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatePlace {
    /// In files.
    Files {
        /// The certificate, in PKCS #12 or PEM.
        path: PathBuf,
        /// The private key in PEM, if it is in another file.
        key_path: Option<PathBuf>,
    },
    /// A program writes it to its standard output.
    Program(ProgramSettings),
}

/// A program that writes a secret to its standard output.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramSettings {
    /// The file that is executed.
    pub path: PathBuf,
    /// Its arguments, which may contain secrets.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub time_max: Duration,
}

/// Where the master key is, with which the keys of databases are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterKeySource {
    /// In a file of the data directory, which is made when it is needed.
    Made,
    /// In a file.
    File(PathBuf),
    /// A program writes it to its standard output.
    Program(ProgramSettings),
}

impl fmt::Debug for CertificateSource {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateSource").field("place", &self.place).finish_non_exhaustive()
    }
}

impl fmt::Debug for ProgramSettings {
    /// Without the arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramSettings").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SecuritySettings {
    pub(crate) fn pick(values: &mut Picker) -> SecuritySettings {
        let mut contradictions = Vec::new();
        let password = values.text_if_set("Security.Certificate.Password");
        let admin_thumbprints = values.names("Security.WellKnownCertificates.Admin");
        let place = certificate_place(values, &mut contradictions);
        let needs_certificate =
            place.is_none() && (password.is_some() || !admin_thumbprints.is_empty());
        let password = password.unwrap_or_default();
        let certificate = place.map(|place| CertificateSource { place, password });
        let has_keys = values.bool("Security.ApiKeys.Enabled");
        let key_admins = values.names("Security.ApiKeys.Admin");
        let tls_ends_elsewhere = values.bool("Security.TlsTerminatedByProxy");
        let needs_api_keys = !has_keys && (!key_admins.is_empty() || tls_ends_elsewhere);
        let api_keys = has_keys.then_some(ApiKeySettings { admins: key_admins });
        let kept_for = values.duration("Security.AuditLog.RetentionTimeInHrs");
        let audit_log = values.path("Security.AuditLog.FolderPath");
        let audit_log = audit_log.map(|directory| AuditLogSettings { directory, kept_for });
        SecuritySettings {
            certificate,
            admin_thumbprints,
            api_keys,
            tls_ends_elsewhere,
            master_key: master_key(values, &mut contradictions),
            encrypts_over_http: values.bool("Security.AllowEncryptedDatabasesOverHttp"),
            audit_log,
            allows_scripts_of_readers: values.bool("Security.AllowScriptsOfReaders"),
            needs_certificate,
            needs_api_keys,
            contradictions,
        }
    }
}

fn certificate_place(
    values: &mut Picker,
    contradictions: &mut Vec<Contradiction>,
) -> Option<CertificatePlace> {
    const FILE: &str = "Security.Certificate.Path";
    const KEY_FILE: &str = "Security.Certificate.Key.Path";
    let path = values.path(FILE);
    let key_path = values.path(KEY_FILE);
    let names = ["Security.Certificate.Load.Exec", "Security.Certificate.Load.Exec.Arguments"];
    let program = program(values, names, "Security.Certificate.Exec.TimeoutInSec", contradictions);
    match (path, program) {
        (Some(path), None) => Some(CertificatePlace::Files { path, key_path }),
        (None, Some(program)) => {
            if key_path.is_some() {
                contradictions.push(Contradiction::Both(KEY_FILE, names[0]));
            }
            Some(CertificatePlace::Program(program))
        }
        (Some(_), Some(program)) => {
            contradictions.push(Contradiction::Both(FILE, names[0]));
            Some(CertificatePlace::Program(program))
        }
        (None, None) => {
            if key_path.is_some() {
                contradictions.push(Contradiction::Lacks(KEY_FILE, FILE));
            }
            None
        }
    }
}

fn master_key(values: &mut Picker, contradictions: &mut Vec<Contradiction>) -> MasterKeySource {
    const FILE: &str = "Security.MasterKey.Path";
    let path = values.path(FILE);
    let names = ["Security.MasterKey.Exec", "Security.MasterKey.Exec.Arguments"];
    let program = program(values, names, "Security.MasterKey.Exec.TimeoutInSec", contradictions);
    match (path, program) {
        (None, None) => MasterKeySource::Made,
        (Some(path), None) => MasterKeySource::File(path),
        (None, Some(program)) => MasterKeySource::Program(program),
        (Some(_), Some(program)) => {
            contradictions.push(Contradiction::Both(FILE, names[0]));
            MasterKeySource::Program(program)
        }
    }
}

/// The program in two settings: its path, and its arguments.
fn program(
    values: &mut Picker,
    [path_name, arguments_name]: [&'static str; 2],
    timeout_name: &'static str,
    contradictions: &mut Vec<Contradiction>,
) -> Option<ProgramSettings> {
    let path = values.path(path_name);
    let arguments = values.names(arguments_name);
    let time_max = values.duration(timeout_name);
    if path.is_none() && !arguments.is_empty() {
        contradictions.push(Contradiction::Lacks(arguments_name, path_name));
    }
    path.map(|path| ProgramSettings { path, arguments, time_max })
}
