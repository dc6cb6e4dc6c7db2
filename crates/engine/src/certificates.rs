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
    /// As what a client's certificate is known now.
    pub fn standing_of(&self, certificate: &Certificate) -> Standing {
        self.certificates.trusted().standing(certificate, self.clock().now().ticks())
    }

    /// Sets the certificate with which the server listens; whoever has its key may do everything.
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

    /// Registers a certificate, or replaces what it is registered as; returns the index of the change. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn register_certificate(&self, entry: &RegisteredCertificate) -> Result<u64, CatalogError> {
        let json = serde_json::to_vec(entry).unwrap_or_default();
        self.change_certificate(&entry.thumbprint, &json)
    }

    /// Removes a certificate, if it is registered; returns the index of the change. Blocks.
    ///
    /// # Errors
    /// Cluster errors.
    pub fn remove_certificate(&self, thumbprint: &str) -> Result<u64, CatalogError> {
        self.change_certificate(thumbprint, &[])
    }

    fn change_certificate(&self, thumbprint: &str, json: &[u8]) -> Result<u64, CatalogError> {
        let _changing = self.certificates.lock_changes();
        let index = self.catalog.put_value(&name_of(thumbprint), json)?;
        self.trust_registered()?;
        Ok(index)
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
