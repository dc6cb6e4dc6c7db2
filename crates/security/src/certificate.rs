//! What is known of a certificate: X.509 (RFC 5280) in DER.

use std::{fmt, sync::Arc};

use model::{
    base64_text,
    ticks::{TICKS_MAX, TICKS_PER_SECOND, UNIX_EPOCH_TICKS},
};
use ring::digest;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{
    asn1_rs::FromDer, certificate::X509Certificate, extensions::ParsedExtension,
    public_key::PublicKey, time::ASN1Time,
};

use crate::key_pair::pem;

/// A subject of a client is repeated up to this length.
const SHOWN_CHARS_MAX: usize = 200;

/// A certificate without its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Arc<[u8]>,
    thumbprint: String,
    public_key_pin: String,
    subject: String,
    issuer: String,
    not_before: i64,
    not_after: i64,
    is_for_clients: bool,
    is_for_servers: bool,
    rsa_bits: Option<usize>,
}

/// Bytes that are not one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCertificate {
    detail: String,
}

impl Certificate {
    /// Reads a certificate in DER. Whether a client has its private key is what a handshake proves.
    ///
    /// # Errors
    /// The bytes are not exactly one certificate.
    pub fn from_der(der: &[u8]) -> Result<Certificate, InvalidCertificate> {
        let invalid = |detail: String| InvalidCertificate { detail };
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|error| invalid(error.to_string()))?;
        if !rest.is_empty() {
            return Err(invalid(format!("{} bytes follow it", rest.len())));
        }
        let (is_for_servers, is_for_clients) = usages(&parsed);
        Ok(Certificate {
            der: Arc::from(der),
            thumbprint: hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der).as_ref()),
            public_key_pin: base64_text(
                digest::digest(&digest::SHA256, parsed.public_key().raw).as_ref(),
            ),
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            not_before: ticks_of(parsed.validity().not_before),
            not_after: ticks_of(parsed.validity().not_after),
            is_for_clients,
            is_for_servers,
            rsa_bits: rsa_bits(&parsed),
        })
    }

    /// Reads the first certificate in a PEM text.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Certificate, InvalidCertificate> {
        let der = CertificateDer::from_pem_slice(text)
            .map_err(|error| InvalidCertificate { detail: error.to_string() })?;
        Certificate::from_der(&der)
    }

    /// The certificate as it was read.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate as PEM text.
    pub fn to_pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }

    /// The SHA-1 of the certificate in upper-case hexadecimal digits, by which the protocol names it. What is
    /// registered is compared as a whole; only administrators in the configuration are known by it alone.
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// The SHA-256 of its public key (SubjectPublicKeyInfo), in base64.
    pub fn public_key_pin(&self) -> &str {
        &self.public_key_pin
    }

    /// Who has certified it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The subject, such as `CN=app`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The first moment of its validity, in ticks.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// The last moment of its validity, in ticks.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Whether its extended key usage allows identifying a client; one without that extension may be used
    /// for anything.
    pub fn is_for_clients(&self) -> bool {
        self.is_for_clients
    }

    /// The same for servers.
    pub fn is_for_servers(&self) -> bool {
        self.is_for_servers
    }

    /// The length of its key, if that is an RSA key.
    pub fn rsa_bits(&self) -> Option<usize> {
        self.rsa_bits
    }

    /// How error messages name it. A client chooses its subject, so only the beginning is shown.
    pub fn in_words(&self) -> String {
        let shown: String = self.subject.chars().take(SHOWN_CHARS_MAX).collect();
        format!("{shown}(Thumbprint: {})", self.thumbprint)
    }
}

fn usages(parsed: &X509Certificate<'_>) -> (bool, bool) {
    let extensions = parsed.extensions().iter();
    let usage = extensions.map(|extension| extension.parsed_extension()).find_map(|parsed| {
        let ParsedExtension::ExtendedKeyUsage(usage) = parsed else { return None };
        Some((usage.any || usage.server_auth, usage.any || usage.client_auth))
    });
    usage.unwrap_or((true, true))
}

fn ticks_of(time: ASN1Time) -> i64 {
    let seconds = time.timestamp().saturating_mul(TICKS_PER_SECOND);
    UNIX_EPOCH_TICKS.saturating_add(seconds).clamp(0, TICKS_MAX)
}

fn rsa_bits(parsed: &X509Certificate<'_>) -> Option<usize> {
    match parsed.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()),
        _ => None,
    }
}

/// Upper-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.in_words())
    }
}

impl fmt::Display for InvalidCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bytes are not a certificate: {}", self.detail)
    }
}

impl std::error::Error for InvalidCertificate {}
