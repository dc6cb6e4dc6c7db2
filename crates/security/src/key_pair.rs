//! A certificate chain with its private key, from and to files: PKCS #12 (RFC 7292) and PEM (RFC 7468).

use std::fmt;

use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy, PrivateKey, PrivateKeyChain};
use rsa::pkcs8::{PrivateKeyInfoRef, der::Decode};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use zeroize::Zeroizing;

use crate::certificate::{Certificate, InvalidCertificate};

/// The smallest accepted RSA key, in bits.
const RSA_BITS_MIN: usize = 2048;

/// A certificate, those that certify it, and its private key. The key is overwritten when this is dropped.
pub struct KeyPair {
    /// The certificate first, then those that certify it; never empty.
    chain: Vec<Certificate>,
    key: PrivateKeyBytes,
}

/// A private key in DER.
enum PrivateKeyBytes {
    Pkcs8(Zeroizing<Vec<u8>>),
    Pkcs1(Zeroizing<Vec<u8>>),
    Sec1(Zeroizing<Vec<u8>>),
}

/// Why files do not contain a usable certificate with its key.
#[derive(Debug)]
pub enum KeyFileError {
    /// A PKCS #12 file cannot be read: damaged, or another password.
    Pkcs12 {
        /// What the library reports.
        detail: String,
    },
    /// A PEM file cannot be read.
    Pem {
        /// What the library reports.
        detail: String,
    },
    /// There is no certificate.
    NoCertificate,
    /// There is no private key.
    NoKey,
    /// A certificate cannot be read.
    Certificate(InvalidCertificate),
    /// The certificate is not valid any more.
    Expired {
        /// The last moment of its validity.
        not_after: String,
    },
    /// The certificate is not valid yet.
    NotYetValid {
        /// The first moment of its validity.
        not_before: String,
    },
    /// The extended key usage of the certificate excludes servers.
    NotForServers,
    /// The key is too short to protect anything.
    WeakKey {
        /// Its length.
        bits: usize,
    },
}

impl KeyPair {
    /// From the bytes of a PKCS #12 file (`.pfx`). A file without a password has an empty one.
    ///
    /// # Errors
    /// The file is damaged or has another password, or lacks a certificate or its key.
    pub fn from_pfx(bytes: &[u8], password: &str) -> Result<KeyPair, KeyFileError> {
        let store = KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed);
        let store = store.map_err(|error| KeyFileError::Pkcs12 { detail: error.to_string() })?;
        let (_, chain) = store.private_key_chain().ok_or(KeyFileError::NoKey)?;
        let certificates = chain.certs().iter().map(|one| Certificate::from_der(one.as_der()));
        let key = PrivateKeyBytes::Pkcs8(Zeroizing::new(chain.key().as_der().to_vec()));
        KeyPair::new(certificates.collect::<Result<_, _>>()?, key)
    }

    /// From PEM texts: certificates in the first, the key in the second, which may be the same.
    ///
    /// # Errors
    /// A text is damaged, or lacks a certificate or a key.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<KeyPair, KeyFileError> {
        let damaged =
            |error: rustls_pki_types::pem::Error| KeyFileError::Pem { detail: error.to_string() };
        let chain = CertificateDer::pem_slice_iter(certificates)
            .map(|one| Ok(Certificate::from_der(&one.map_err(damaged)?)?))
            .collect::<Result<Vec<_>, KeyFileError>>()?;
        let key = match PrivateKeyDer::from_pem_slice(key) {
            Ok(key) => PrivateKeyBytes::of(&key),
            Err(rustls_pki_types::pem::Error::NoItemsFound) => return Err(KeyFileError::NoKey),
            Err(error) => return Err(damaged(error)),
        };
        KeyPair::new(chain, key)
    }

    /// From the bytes of a file in either format. `key` is the separate file of the key, if there is one.
    ///
    /// # Errors
    /// As [`KeyPair::from_pfx`] and [`KeyPair::from_pem`].
    pub fn from_file(
        bytes: &[u8],
        key: Option<&[u8]>,
        password: &str,
    ) -> Result<KeyPair, KeyFileError> {
        let is_pem = bytes.windows(10).any(|window| window == b"-----BEGIN");
        match is_pem {
            true => KeyPair::from_pem(bytes, key.unwrap_or(bytes)),
            false => KeyPair::from_pfx(bytes, password),
        }
    }

    /// From a certificate that was just made, with its key in PKCS #8.
    pub(crate) fn new_pkcs8(
        chain: Vec<Certificate>,
        key: Zeroizing<Vec<u8>>,
    ) -> Result<KeyPair, KeyFileError> {
        KeyPair::new(chain, PrivateKeyBytes::Pkcs8(key))
    }

    fn new(chain: Vec<Certificate>, key: PrivateKeyBytes) -> Result<KeyPair, KeyFileError> {
        match chain.is_empty() {
            true => Err(KeyFileError::NoCertificate),
            false => Ok(KeyPair { chain, key }),
        }
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.chain[0]
    }

    /// The certificate, then those that certify it.
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// A copy of the private key, for a library. It is not overwritten when it is dropped.
    pub fn private_key(&self) -> PrivateKeyDer<'static> {
        match &self.key {
            PrivateKeyBytes::Pkcs8(der) => PrivateKeyDer::Pkcs8(der.to_vec().into()),
            PrivateKeyBytes::Pkcs1(der) => PrivateKeyDer::Pkcs1(der.to_vec().into()),
            PrivateKeyBytes::Sec1(der) => PrivateKeyDer::Sec1(der.to_vec().into()),
        }
    }

    /// The key in PKCS #8, if it is in that form.
    pub(crate) fn pkcs8(&self) -> Option<PrivatePkcs8KeyDer<'_>> {
        match &self.key {
            PrivateKeyBytes::Pkcs8(der) => Some(PrivatePkcs8KeyDer::from(der.as_slice())),
            PrivateKeyBytes::Pkcs1(_) | PrivateKeyBytes::Sec1(_) => None,
        }
    }

    /// Whether a server may use it at this moment, in ticks.
    ///
    /// # Errors
    /// The certificate is expired, not valid yet, not for servers, or its key is too short.
    pub fn check_for_server(&self, now: i64) -> Result<(), KeyFileError> {
        let certificate = self.certificate();
        let date = model::date::format;
        if certificate.not_after() < now {
            return Err(KeyFileError::Expired { not_after: date(certificate.not_after()) });
        }
        if now < certificate.not_before() {
            return Err(KeyFileError::NotYetValid { not_before: date(certificate.not_before()) });
        }
        if !certificate.is_for_servers() {
            return Err(KeyFileError::NotForServers);
        }
        match certificate.rsa_bits() {
            Some(bits) if bits < RSA_BITS_MIN => Err(KeyFileError::WeakKey { bits }),
            Some(_) | None => Ok(()),
        }
    }

    /// A PKCS #12 file with this password, which may be empty.
    ///
    /// # Errors
    /// The key is not in PKCS #8.
    pub fn to_pfx(&self, name: &str, password: &str) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        let failed =
            |error: p12_keystore::error::Error| KeyFileError::Pkcs12 { detail: error.to_string() };
        let key = self.pkcs8().ok_or(KeyFileError::NoKey)?;
        let key = PrivateKey::from_der(key.secret_pkcs8_der()).map_err(failed)?;
        let certificates = self.chain.iter();
        let certificates = certificates.map(|one| p12_keystore::Certificate::from_der(one.der()));
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let chain = PrivateKeyChain::new(b"1".to_vec(), key, certificates);
        let mut store = KeyStore::new();
        store.add_entry(name, KeyStoreEntry::PrivateKeyChain(chain));
        store.writer(password).write().map(Zeroizing::new).map_err(failed)
    }

    /// The chain as PEM text.
    pub fn chain_pem(&self) -> String {
        self.chain.iter().map(Certificate::to_pem).collect()
    }

    /// The private key as PEM text. One of RSA is in PKCS #1 (`RSA PRIVATE KEY`): some clients read nothing else.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(match &self.key {
            PrivateKeyBytes::Pkcs8(der) => match rsa_key_in(der) {
                Some(key) => pem("RSA PRIVATE KEY", key),
                None => pem("PRIVATE KEY", der),
            },
            PrivateKeyBytes::Pkcs1(der) => pem("RSA PRIVATE KEY", der),
            PrivateKeyBytes::Sec1(der) => pem("EC PRIVATE KEY", der),
        })
    }
}

impl PrivateKeyBytes {
    fn of(key: &PrivateKeyDer<'_>) -> PrivateKeyBytes {
        let bytes = Zeroizing::new(key.secret_der().to_vec());
        match key {
            PrivateKeyDer::Pkcs1(_) => PrivateKeyBytes::Pkcs1(bytes),
            PrivateKeyDer::Sec1(_) => PrivateKeyBytes::Sec1(bytes),
            _ => PrivateKeyBytes::Pkcs8(bytes),
        }
    }
}

/// The key in PKCS #1 that is inside one in PKCS #8, if it is one of RSA.
fn rsa_key_in(pkcs8: &[u8]) -> Option<&[u8]> {
    let info = PrivateKeyInfoRef::from_der(pkcs8).ok()?;
    (info.algorithm.oid == rsa::pkcs1::ALGORITHM_OID).then(|| info.private_key.as_bytes())
}

/// Lines of base64 between a begin and an end.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    const BYTES_OF_A_LINE: usize = 48;
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(BYTES_OF_A_LINE) {
        text.push_str(&model::base64_text(line));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.certificate().in_words())
    }
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFileError::Pkcs12 { detail } => {
                write!(
                    f,
                    "it is not a readable PKCS #12 file, or its password is another one: {detail}"
                )
            }
            KeyFileError::Pem { detail } => write!(f, "it is not a readable PEM file: {detail}"),
            KeyFileError::NoCertificate => f.write_str("it contains no certificate"),
            KeyFileError::NoKey => f.write_str("it contains no private key"),
            KeyFileError::Certificate(error) => error.fmt(f),
            KeyFileError::Expired { not_after } => {
                write!(f, "the certificate expired at {not_after}")
            }
            KeyFileError::NotYetValid { not_before } => {
                write!(f, "the certificate is not valid before {not_before}")
            }
            KeyFileError::NotForServers => {
                f.write_str("the extended key usage of the certificate lacks serverAuth")
            }
            KeyFileError::WeakKey { bits } => write!(
                f,
                "its RSA key has {bits} bits; at least {RSA_BITS_MIN} are needed to protect anything"
            ),
        }
    }
}

impl std::error::Error for KeyFileError {}

impl From<InvalidCertificate> for KeyFileError {
    fn from(error: InvalidCertificate) -> Self {
        KeyFileError::Certificate(error)
    }
}
