//! The certificates that clients are known by: registered ones, which all nodes share, and those that the
//! configuration names.
//!
//! Invariant: once a change is acknowledged, no request is judged by what was registered before.

use database::CatalogError;
use model::base64_bytes;
use security::{Certificate, Clearance, RegisteredCertificate, Standing, TrustedCertificates};

use crate::engine::Engine;

/// Server values with this prefix are registered certificates, in JSON; the thumbprint follows.
const PREFIX: &str = "Certificate/";
/// How the list names the certificate that the server itself uses.
const SERVER_CERTIFICATE: &str = "Server Certificate";

impl Engine {
    /// The standing of a client's certificate now.
    pub fn standing_of(&self, certificate: &Certificate) -> Standing {
        self.certificates.trusted().standing(certificate, self.clock().now().ticks())
    }

    /// Sets the certificate with which the server listens; any client that has its key may do everything.
    ///
    /// # Errors
    /// The registered ones cannot be read.
    pub fn set_server_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError> {
        let _changing = self.certificates.lock_changes();
        self.certificates.set_own(certificate.clone());
        self.trust_registered()
    }

    /// The certificate with which the server listens, as the list shows it.
    pub fn server_certificate(&self) -> Option<RegisteredCertificate> {
        self.certificates.own().as_ref().map(own_registration)
    }

    /// The registered certificates, ordered by thumbprint.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn registered_certificates(&self) -> Result<Vec<RegisteredCertificate>, CatalogError> {
        let state = self.cluster_state();
        let values = state.server_values(PREFIX).map_err(CatalogError::Cluster)?;
        let read = values.iter().filter_map(|(name, value)| {
            let read = serde_json::from_slice(&value.bytes);
            read.inspect_err(|error| {
                tracing::error!(thumbprint = name.as_str(), %error, "a registered certificate is unreadable");
            })
            .ok()
        });
        Ok(read.collect())
    }

    /// The registered certificate with this thumbprint.
    ///
    /// # Errors
    /// As [`Engine::registered_certificates`].
    pub fn registered_certificate(
        &self,
        thumbprint: &str,
    ) -> Result<Option<RegisteredCertificate>, CatalogError> {
        let stored = self.catalog.value(&name_of(thumbprint))?;
        Ok(stored.and_then(|value| serde_json::from_slice(&value.bytes).ok()))
    }

    /// Changes what the certificate with this thumbprint is registered as: `decide` gets the present entry, and
    /// returns the new one, or `None` to remove it. Nothing else changes meanwhile. Blocks.
    ///
    /// # Errors
    /// Those of `decide`; cluster errors.
    pub fn change_certificate<E: From<CatalogError>>(
        &self,
        thumbprint: &str,
        decide: impl FnOnce(Option<RegisteredCertificate>) -> Result<Option<RegisteredCertificate>, E>,
    ) -> Result<(), E> {
        let _changing = self.certificates.lock_changes();
        let before = self.registered_certificate(thumbprint)?;
        let (is_there, after) = (before.is_some(), decide(before)?);
        if after.is_none() && !is_there {
            return Ok(());
        }
        // An empty value removes it.
        let json = after.map_or(Vec::new(), |entry| serde_json::to_vec(&entry).unwrap_or_default());
        let put = self.catalog.put_value(&name_of(thumbprint), &json);
        // Also after an error: it may have been stored nevertheless.
        self.trust_registered()?;
        Ok(put.map(drop)?)
    }

    /// Whether the configuration names the certificate with this thumbprint: as the server's own, or as an
    /// administrator's. What it may do cannot be changed by registering it.
    pub fn is_configured_certificate(&self, thumbprint: &str) -> bool {
        let own = self.certificates.own();
        let is_own = own.is_some_and(|own| own.thumbprint() == thumbprint);
        is_own || self.settings.security.admin_thumbprints.iter().any(|one| one == thumbprint)
    }

    /// Brings what is stored into force.
    fn trust_registered(&self) -> Result<(), CatalogError> {
        let registered = self.registered_certificates()?.into_iter().filter_map(|entry| {
            let certificate = Certificate::from_der(&base64_bytes(&entry.certificate)?).ok()?;
            Some((certificate, entry))
        });
        let mut trusted = TrustedCertificates::new(registered);
        if let Some(own) = self.certificates.own() {
            let registered = own_registration(&own);
            trusted.add(own, registered);
        }
        trusted.trust_thumbprints(&self.settings.security.admin_thumbprints);
        self.certificates.replace(trusted);
        Ok(())
    }
}

fn own_registration(own: &Certificate) -> RegisteredCertificate {
    let name = SERVER_CERTIFICATE.to_owned();
    RegisteredCertificate::new(own, name, Clearance::ClusterNode, Default::default())
}

fn name_of(thumbprint: &str) -> String {
    format!("{PREFIX}{}", thumbprint.to_uppercase())
}
