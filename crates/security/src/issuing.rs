//! Making certificates: an authority, and with it those of servers and clients.

use std::{fmt, sync::Arc};

use getrandom::SysRng;
use model::{
    date::{add_months, calendar_date},
    ticks::{TICKS_MAX, TICKS_PER_DAY},
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, date_time_ymd,
};
use rsa::{PrivateKey, pkcs8::EncodePrivateKey, rand_core::UnwrapErr};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::{
    certificate::Certificate,
    key_pair::{KeyFileError, KeyPair},
};

/// How long an authority and what it certifies are valid.
const YEARS_OF_AUTHORITY: i64 = 20;
const YEARS_OF_CERTIFICATE: i64 = 5;
const RSA_BITS: usize = 2048;

/// The kind of a new key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// ECDSA on the curve P-256; takes less than a millisecond to make.
    #[default]
    Ecdsa,
    /// RSA with 2,048 bits, for clients that read nothing else; takes a tenth of a second of a processor on average, and
    /// seconds on a small machine.
    Rsa,
}

/// A certificate that can certify others, with its key.
pub struct Authority {
    key_pair: Arc<KeyPair>,
}

/// The certificate of a server.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// The names and addresses under which clients reach it; the first is its subject.
    pub hosts: Vec<String>,
    /// The kind of its key.
    pub key: KeyAlgorithm,
}

/// The certificate of a client.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Its subject.
    pub name: String,
    /// The last day of its validity, in ticks; five years from now by default.
    pub not_after: Option<i64>,
    /// The kind of its key.
    pub key: KeyAlgorithm,
}

/// Why a certificate cannot be made.
#[derive(Debug)]
pub enum IssueError {
    /// The library refuses, for instance a name that no certificate can contain.
    Refused {
        /// What it reports.
        detail: String,
    },
    /// What was made, or the authority's key, cannot be used.
    Key(KeyFileError),
}

impl Authority {
    /// A new authority with this subject. `now` is in ticks.
    ///
    /// # Errors
    /// The library refuses.
    pub fn generate(name: &str, now: i64) -> Result<Authority, IssueError> {
        let mut params = params(name, &[], now, years_after(now, YEARS_OF_AUTHORITY))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Authority { key_pair: Arc::new(key_pair_of(&[certificate.der()], &key)?) })
    }

    /// The authority of a certificate that was made before. It need not be one: clients are trusted because they
    /// are registered.
    pub fn from_key_pair(key_pair: Arc<KeyPair>) -> Authority {
        Authority { key_pair }
    }

    /// Its certificate and key.
    pub fn key_pair(&self) -> &KeyPair {
        &self.key_pair
    }

    /// Makes the certificate of a server, followed by the chain of the authority.
    ///
    /// # Errors
    /// A host is not a name or an address.
    pub fn issue_server(&self, request: &ServerRequest, now: i64) -> Result<KeyPair, IssueError> {
        let subject = request.hosts.first().map_or("server", String::as_str);
        let not_after = years_after(now, YEARS_OF_CERTIFICATE);
        let mut params = params(subject, &request.hosts, now, not_after)?;
        // Servers of a cluster are clients of each other.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, request.key)
    }

    /// Makes the certificate of a client, followed by the chain of the authority. Where the authority's key is in a form
    /// that cannot sign here, the certificate signs itself: it is trusted because it is registered.
    ///
    /// # Errors
    /// The name cannot be a subject.
    pub fn issue_client(&self, request: &ClientRequest, now: i64) -> Result<KeyPair, IssueError> {
        let not_after = request.not_after.unwrap_or_else(|| years_after(now, YEARS_OF_CERTIFICATE));
        let mut params = params(&request.name, &[], now, not_after)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if self.key_pair.pkcs8().is_some() {
            return self.issue(params, request.key);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = request.key.generate()?;
        let certificate = params.self_signed(&key)?;
        key_pair_of(&[certificate.der()], &key)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        key: KeyAlgorithm,
    ) -> Result<KeyPair, IssueError> {
        params.use_authority_key_identifier_extension = true;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let own_key = rcgen::KeyPair::try_from(&self.key_pair.private_key())?;
        let own_certificate = CertificateDer::from(self.key_pair.certificate().der());
        let issuer = Issuer::from_ca_cert_der(&own_certificate, own_key)?;
        let key = key.generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        // With those that certify the authority, its holder can tell who else was certified by them.
        let of_authority = self.key_pair.chain().iter();
        let of_authority: Vec<_> =
            of_authority.map(|one| CertificateDer::from(one.der())).collect();
        let chain: Vec<&CertificateDer<'_>> =
            std::iter::once(certificate.der()).chain(&of_authority).collect();
        key_pair_of(&chain, &key)
    }
}

impl KeyAlgorithm {
    fn generate(self) -> Result<rcgen::KeyPair, IssueError> {
        match self {
            KeyAlgorithm::Ecdsa => Ok(rcgen::KeyPair::generate()?),
            KeyAlgorithm::Rsa => {
                let refused = |detail: String| IssueError::Refused { detail };
                let mut random = UnwrapErr(SysRng);
                let key = PrivateKey::new(&mut random, RSA_BITS)
                    .map_err(|error| refused(error.to_string()))?;
                let der = key.to_pkcs8_der().map_err(|error| refused(error.to_string()))?;
                Ok(rcgen::KeyPair::try_from(der.as_bytes())?)
            }
        }
    }
}

/// What all certificates have in common. `not_after` is in ticks, and rounded up to a whole day.
fn params(
    subject: &str,
    hosts: &[String],
    now: i64,
    not_after: i64,
) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    // Clocks differ a little.
    let (year, month, day) = day_of(now - TICKS_PER_DAY);
    params.not_before = date_time_ymd(year, month, day);
    let (year, month, day) = day_of(not_after + TICKS_PER_DAY);
    params.not_after = date_time_ymd(year, month, day);
    Ok(params)
}

/// Year, month and day of a moment, within the calendar.
fn day_of(moment: i64) -> (i32, u8, u8) {
    let (year, month, day) = calendar_date(moment.clamp(0, TICKS_MAX) / TICKS_PER_DAY);
    // Years have four digits, months and days two.
    (year as i32, month as u8, day as u8)
}

fn years_after(now: i64, years: i64) -> i64 {
    add_months(now, 12 * years)
}

fn key_pair_of(chain: &[&CertificateDer<'_>], key: &rcgen::KeyPair) -> Result<KeyPair, IssueError> {
    let chain = chain.iter().map(|der| Certificate::from_der(der));
    let chain = chain.collect::<Result<_, _>>().map_err(KeyFileError::from)?;
    Ok(KeyPair::new_pkcs8(chain, Zeroizing::new(key.serialize_der()))?)
}

impl fmt::Display for IssueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssueError::Refused { detail } => write!(f, "the certificate cannot be made: {detail}"),
            IssueError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for IssueError {}

impl From<rcgen::Error> for IssueError {
    fn from(error: rcgen::Error) -> Self {
        IssueError::Refused { detail: error.to_string() }
    }
}

impl From<KeyFileError> for IssueError {
    fn from(error: KeyFileError) -> Self {
        IssueError::Key(error)
    }
}
