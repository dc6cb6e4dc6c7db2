//! A certificate as an operator has registered it.

use model::base64_text;
use serde::{Deserialize, Serialize};

use crate::{
    access::Grant,
    certificate::Certificate,
    clearance::{Clearance, Permissions},
};

/// What the server remembers of a certificate. Its JSON form is the protocol's, and what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RegisteredCertificate {
    /// A name for people.
    pub name: String,
    /// The SHA-1 of the certificate in upper-case hexadecimal digits.
    pub thumbprint: String,
    /// What its holder may do.
    pub security_clearance: Clearance,
    /// In which databases a [`Clearance::ValidUser`] may do what.
    pub permissions: Permissions,
    /// The last moment of its validity, as the protocol prints dates.
    pub not_after: String,
    /// The first moment of its validity.
    pub not_before: String,
    /// The thumbprints of further certificates that were uploaded with this one.
    pub collection_secondary_keys: Vec<String>,
    /// For such a further certificate: the thumbprint of the one it was uploaded with.
    pub collection_primary_key: String,
    /// The SHA-256 of the public key, in base64.
    pub public_key_pinning_hash: String,
    /// The certificate in DER, in base64.
    pub certificate: String,
}

impl RegisteredCertificate {
    /// How a certificate is registered under this name.
    pub fn new(
        certificate: &Certificate,
        name: String,
        security_clearance: Clearance,
        permissions: Permissions,
    ) -> RegisteredCertificate {
        RegisteredCertificate {
            name,
            thumbprint: certificate.thumbprint().to_owned(),
            security_clearance,
            permissions,
            not_after: date_of(certificate.not_after()),
            not_before: date_of(certificate.not_before()),
            collection_secondary_keys: Vec::new(),
            collection_primary_key: String::new(),
            public_key_pinning_hash: certificate.public_key_pin().to_owned(),
            certificate: base64_text(certificate.der()),
        }
    }

    /// What its holder may do.
    pub fn grant(&self) -> Grant<'_> {
        Grant {
            name: &self.name,
            clearance: self.security_clearance,
            permissions: &self.permissions,
        }
    }
}

/// A date as the protocol prints those of certificates, without the mark of UTC.
fn date_of(ticks: i64) -> String {
    model::date::format(ticks).trim_end_matches('Z').to_owned()
}
