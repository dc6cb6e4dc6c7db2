//! From a client's certificate to what it is registered as.
//!
//! A certificate is trusted because it was registered, not because somebody signed it. A renewed one is another
//! one: with the same key and name anyone who has the key could make one that is valid for longer.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    certificate::Certificate,
    clearance::{Clearance, Permissions},
    registered::RegisteredCertificate,
};

/// As what a certificate is known, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is registered, and valid now.
    Registered(Arc<RegisteredCertificate>),
    /// It is not registered.
    Unknown,
    /// It is registered, but its validity has ended.
    Expired,
    /// It is registered, but its validity has not begun.
    NotYetValid,
    /// It is registered, but its extended key usage excludes clients.
    NotForClients,
}

/// All certificates that are trusted, as a value: it is replaced when one is registered or removed.
#[derive(Debug, Default)]
pub struct TrustedCertificates {
    /// By thumbprint; the whole certificate is compared.
    by_thumbprint: HashMap<String, Trusted>,
    /// Thumbprints that the configuration names.
    administrators: HashSet<String>,
}

#[derive(Debug)]
struct Trusted {
    certificate: Certificate,
    registered: Arc<RegisteredCertificate>,
}

impl TrustedCertificates {
    /// The registered ones, with their certificates.
    pub fn new(
        registered: impl IntoIterator<Item = (Certificate, RegisteredCertificate)>,
    ) -> TrustedCertificates {
        let mut trusted = TrustedCertificates::default();
        for (certificate, registered) in registered {
            trusted.add(certificate, registered);
        }
        trusted
    }

    /// Trusts the certificates with these thumbprints, in upper case, as administrators of the cluster, because
    /// the configuration names them.
    pub fn trust_thumbprints(&mut self, thumbprints: &[String]) {
        self.administrators.extend(thumbprints.iter().cloned());
    }

    /// Adds a certificate.
    pub fn add(&mut self, certificate: Certificate, registered: RegisteredCertificate) {
        let thumbprint = certificate.thumbprint().to_owned();
        self.by_thumbprint
            .insert(thumbprint, Trusted { certificate, registered: Arc::new(registered) });
    }

    /// As what a client's certificate is known at this moment, in ticks.
    pub fn standing(&self, certificate: &Certificate, now: i64) -> Standing {
        let found = self.administrator(certificate).or_else(|| self.find(certificate).cloned());
        let Some(registered) = found else { return Standing::Unknown };
        if certificate.not_after() < now {
            Standing::Expired
        } else if now < certificate.not_before() {
            Standing::NotYetValid
        } else if !certificate.is_for_clients() && !registered.security_clearance.is_cluster_admin()
        {
            Standing::NotForClients
        } else {
            Standing::Registered(registered)
        }
    }

    fn administrator(&self, certificate: &Certificate) -> Option<Arc<RegisteredCertificate>> {
        let is_named = self.administrators.contains(certificate.thumbprint());
        is_named.then(|| {
            let name = "Well Known Admin Certificate".to_owned();
            let (clearance, permissions) = (Clearance::ClusterAdmin, Permissions::default());
            Arc::new(RegisteredCertificate::new(certificate, name, clearance, permissions))
        })
    }

    fn find(&self, certificate: &Certificate) -> Option<&Arc<RegisteredCertificate>> {
        let trusted = self.by_thumbprint.get(certificate.thumbprint())?;
        // Two certificates with one SHA-1 can be made; only the registered one is trusted.
        (trusted.certificate == *certificate).then_some(&trusted.registered)
    }
}
