//! TLS for listeners: the certificate of the server, and asking clients for theirs.
//!
//! A client's certificate is accepted regardless of who signed it; the handshake only proves that the client has its
//! key. What it may do is decided for each request, by what is registered then.

use std::{
    fmt, fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use platform::program::{Program, ProgramError};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error as TlsError, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    version::{TLS12, TLS13},
};
use security::{Certificate, Client, KeyFileError, KeyPair};
use settings::{CertificatePlace, CertificateSource, ProgramSettings};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use zeroize::Zeroizing;

/// Permissions that a file with a private key must not have: any for other users, writing for its group.
const EXPOSED: u32 = 0o027;
/// Larger chains of a client are refused: each connection keeps its client's.
const CHAIN_BYTES_MAX: usize = 16 << 10;
/// A certificate with its chain and its key, as a program writes it.
const CERTIFICATE_BYTES_MAX: usize = 256 << 10;
/// What is encrypted and waits to be sent, per connection.
const SEND_BUFFER_BYTES: usize = 32 << 10;
/// The name of the entry in a file of the server's certificate.
const SERVER_NAME: &str = "server";
/// The protocol that is spoken after the handshake.
const HTTP_1: &[u8] = b"http/1.1";

/// The TLS of a server; its certificate is replaced when the file changes, or the program writes another one.
pub(crate) struct ServerTls {
    source: CertificateSource,
    config: RwLock<Arc<ServerConfig>>,
    key_pair: RwLock<Arc<KeyPair>>,
    /// The state of the files when they were last read with success.
    read_from: Mutex<Vec<FileState>>,
}

/// Why the certificate of the server cannot be used.
#[derive(Debug)]
pub enum CertificateError {
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: io::Error,
    },
    /// A file with a private key may be read by every user of the machine.
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A file contains no usable certificate with its key.
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KeyFileError,
    },
    /// The program that writes the certificate failed.
    Program(ProgramError),
    /// The certificate comes from a program, so it cannot be replaced here.
    FromProgram {
        /// The program.
        path: PathBuf,
    },
    /// A file cannot be replaced.
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: io::Error,
    },
    /// Certificate and key are in two files, which cannot be replaced at one moment.
    TwoFiles {
        /// The file of the certificate.
        path: PathBuf,
        /// The file of its key.
        key: PathBuf,
    },
    /// The key does not belong to the certificate, or has a form that cannot be used.
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What the library reports.
        source: TlsError,
    },
}

impl ServerTls {
    /// Reads the certificate and its key. `now` is in ticks. Blocks.
    ///
    /// # Errors
    /// They cannot be used, or should not be.
    pub(crate) fn load(
        source: &CertificateSource,
        now: i64,
    ) -> Result<ServerTls, CertificateError> {
        let read_from = changed(&source.place);
        let (key_pair, config) = read(source, now)?;
        Ok(ServerTls {
            source: source.clone(),
            config: RwLock::new(config),
            key_pair: RwLock::new(key_pair),
            read_from: Mutex::new(read_from),
        })
    }

    /// Whether the certificate comes from a program, which is run each time that another one is looked for.
    pub(crate) fn is_from_program(&self) -> bool {
        matches!(self.source.place, CertificatePlace::Program(_))
    }

    /// The certificate of the server with its key.
    pub(crate) fn key_pair(&self) -> Arc<KeyPair> {
        Arc::clone(&self.key_pair.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again if they have changed, or runs the program again; returns the certificate if it is another
    /// one. Connections that exist keep the former one. Blocks.
    ///
    /// # Errors
    /// As [`ServerTls::load`]; the former one stays in use.
    pub(crate) fn reload(&self, now: i64) -> Result<Option<Certificate>, CertificateError> {
        let mut read_from = self.read_from.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = changed(&self.source.place);
        if *read_from == changed && !self.is_from_program() {
            return Ok(None);
        }
        let (key_pair, config) = read(&self.source, now)?;
        // What cannot be used is tried again.
        *read_from = changed;
        let certificate = key_pair.certificate().clone();
        let is_other = *self.key_pair().certificate() != certificate;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        *self.key_pair.write().unwrap_or_else(PoisonError::into_inner) = key_pair;
        Ok(is_other.then_some(certificate))
    }

    /// Replaces the file of the certificate; [`ServerTls::reload`] brings it into use. The file is whole at every
    /// moment: what is there before or after, also after a power cut. `now` is in ticks.
    ///
    /// # Errors
    /// The server could not use it, or the file cannot be replaced; the former one stays.
    pub(crate) fn replace(&self, pair: &KeyPair, now: i64) -> Result<(), CertificateError> {
        let (path, key_path) = match &self.source.place {
            CertificatePlace::Files { path, key_path } => (path, key_path),
            CertificatePlace::Program(program) => {
                return Err(CertificateError::FromProgram { path: program.path.clone() });
            }
        };
        let unusable = |source| CertificateError::Unusable { path: path.clone(), source };
        pair.check_for_server(now).map_err(unusable)?;
        config_of(pair)
            .map_err(|source| CertificateError::Mismatch { path: path.clone(), source })?;
        if let Some(key_path) = key_path {
            return Err(CertificateError::TwoFiles { path: path.clone(), key: key_path.clone() });
        }
        // The format is recognised by its content when it is read.
        let bytes = pair.to_pfx(SERVER_NAME, &self.source.password).map_err(unusable)?;
        let unwritable = |source| CertificateError::Unwritable { path: path.clone(), source };
        // One replacement at a time: they share the name of the new file.
        let _reading = self.read_from.lock().unwrap_or_else(PoisonError::into_inner);
        replace_file(path, &bytes).map_err(unwritable)
    }

    /// Performs the handshake with a client.
    ///
    /// # Errors
    /// The handshake fails, or the client disconnects.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Client)> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        let mut stream = TlsAcceptor::from(config).accept(stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(SEND_BUFFER_BYTES));
        let client = match stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
            None => Client::Anonymous,
            Some(der) => match Certificate::from_der(der) {
                Ok(certificate) => Client::Certified(Arc::new(certificate)),
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            },
        };
        Ok((stream, client))
    }
}

/// What changes with the content of a file: its inode, its length, and the times of its last changes.
type FileState = Option<(u64, u64, i64, i64, i64, i64)>;

/// The states of the files; of a program nothing is known before it is run.
fn changed(place: &CertificatePlace) -> Vec<FileState> {
    let state = |path: &PathBuf| {
        let meta = fs::metadata(path).ok()?;
        let changed = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        Some((meta.ino(), meta.len(), changed.0, changed.1, changed.2, changed.3))
    };
    match place {
        CertificatePlace::Files { path, key_path } => {
            std::iter::once(path).chain(key_path).map(state).collect()
        }
        CertificatePlace::Program(_) => Vec::new(),
    }
}

fn read(
    source: &CertificateSource,
    now: i64,
) -> Result<(Arc<KeyPair>, Arc<ServerConfig>), CertificateError> {
    let (path, bytes, key) = match &source.place {
        CertificatePlace::Files { path, key_path } => {
            let bytes = contents(path, key_path.is_none())?;
            (path, bytes, key_path.as_deref().map(|path| contents(path, true)).transpose()?)
        }
        CertificatePlace::Program(program) => (&program.path, output_of(program)?, None),
    };
    let path = path.clone();
    let pair = KeyPair::from_file(&bytes, key.as_ref().map(|key| key.as_slice()), &source.password);
    let pair = pair.and_then(|pair| pair.check_for_server(now).map(|()| pair));
    let pair = match pair {
        Ok(pair) => pair,
        Err(source) => return Err(CertificateError::Unusable { path, source }),
    };
    let config = config_of(&pair).map_err(|source| CertificateError::Mismatch { path, source })?;
    Ok((Arc::new(pair), Arc::new(config)))
}

fn output_of(program: &ProgramSettings) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
    let ProgramSettings { path, arguments, time_max } = program.clone();
    let program = Program { path, arguments, time_max };
    program.output(CERTIFICATE_BYTES_MAX).map_err(CertificateError::Program)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file of the operator, outside of the data directory"
)]
fn contents(path: &Path, has_key: bool) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
    let unreadable = |source| CertificateError::Unreadable { path: path.to_path_buf(), source };
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if has_key && mode & EXPOSED != 0 {
        return Err(CertificateError::Exposed { path: path.to_path_buf() });
    }
    fs::read(path).map(Zeroizing::new).map_err(unreadable)
}

/// Writes a file that only its owner may read, and puts it in the place of another.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of the operator, outside of the data directory"
)]
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // A replacement that was interrupted left it.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn config_of(pair: &KeyPair) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = pair.chain().iter().map(|one| CertificateDer::from(one.der().to_vec())).collect();
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(Arc::new(AnyClient { provider }))
        .with_single_cert(chain, pair.private_key())?;
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}

/// Asks for a certificate, and accepts any and none: trust is decided later, possession of the key here.
#[derive(Debug)]
struct AnyClient {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        let bytes = certificate.len() + others.iter().map(|other| other.len()).sum::<usize>();
        match bytes <= CHAIN_BYTES_MAX {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(TlsError::General("the client's certificates are too long".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = "Security.Certificate.Path";
        match self {
            CertificateError::Unreadable { path, source } => {
                write!(f, "'{}' of {key} cannot be read: {source}", path.display())
            }
            CertificateError::Program(error) => {
                write!(f, "Security.Certificate.Load.Exec yields no certificate: {error}")
            }
            CertificateError::FromProgram { path } => write!(
                f,
                "the certificate comes from the program '{}' of Security.Certificate.Load.Exec, so it cannot be replaced \
                 here. Let the program write another one, and send POST /admin/certificates/refresh",
                path.display()
            ),
            CertificateError::Unwritable { path, source } => {
                write!(f, "'{}' of {key} cannot be replaced: {source}", path.display())
            }
            CertificateError::TwoFiles { path, key: key_path } => write!(
                f,
                "'{}' of {key} and its key '{}' are two files, which cannot be replaced at one moment. Replace \
                 them yourself: the server notices within a minute",
                path.display(),
                key_path.display()
            ),
            CertificateError::Exposed { path } => write!(
                f,
                "'{0}' of {key} contains a private key that other users of this machine can access. Remove \
                 that permission: chmod g-w,o= '{0}'",
                path.display()
            ),
            CertificateError::Unusable { path, source } => {
                write!(f, "'{}' of {key} cannot be used: {source}", path.display())
            }
            CertificateError::Mismatch { path, source } => write!(
                f,
                "the private key does not belong to the certificate '{}' of {key}, or cannot be used: {source}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CertificateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CertificateError::Unreadable { source, .. }
            | CertificateError::Unwritable { source, .. } => Some(source),
            CertificateError::Program(error) => Some(error),
            CertificateError::Exposed { .. }
            | CertificateError::TwoFiles { .. }
            | CertificateError::FromProgram { .. } => None,
            CertificateError::Unusable { source, .. } => Some(source),
            CertificateError::Mismatch { source, .. } => Some(source),
        }
    }
}
