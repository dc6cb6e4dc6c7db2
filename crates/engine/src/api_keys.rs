//! The API keys that clients are known by: registered ones, which all nodes share, and administrators that the
//! configuration names.
//!
//! Invariant: once a change is acknowledged, no request is judged by what was registered before.

use std::sync::Arc;

use database::CatalogError;
use security::{
    Caller, Client, Identification, NewApiKey, PresentedKey, RegisteredApiKey, TrustedKeys,
};

use crate::engine::Engine;

/// Server values with this prefix are registered keys, in JSON; the id follows.
const PREFIX: &str = "ApiKey/";
/// Keys that may be registered: all of them are in memory, and are read again after each change.
pub const API_KEYS_MAX: usize = 10_000;

impl Engine {
    /// The client of a request at this moment: by the API key that it has presented, if the server accepts any, and
    /// otherwise by the certificate of its connection.
    pub fn caller(&self, client: &Client, presented: Option<&PresentedKey>) -> Caller {
        let accepts_keys = self.settings().security.api_keys.is_some();
        match (client, presented) {
            (_, Some(key)) if accepts_keys => {
                let now = self.clock().now().ticks();
                Caller::Keyed(self.api_keys.trusted().standing(key, now))
            }
            (Client::Unsecured, _) if accepts_keys => Caller::Anonymous(Identification::Keys),
            (Client::Unsecured, _) => Caller::Unsecured,
            (Client::Anonymous, _) if accepts_keys => {
                Caller::Anonymous(Identification::CertificatesAndKeys)
            }
            (Client::Anonymous, _) => Caller::Anonymous(Identification::Certificates),
            (Client::Certified(certificate), _) => {
                Caller::Certified(Arc::clone(certificate), self.standing_of(certificate))
            }
        }
    }

    /// A new key, which is not registered yet.
    pub fn generate_api_key(&self) -> NewApiKey {
        NewApiKey::generate(|bytes| self.platform().entropy.fill(bytes))
    }

    /// The registered keys, ordered by id.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn registered_api_keys(&self) -> Result<Vec<RegisteredApiKey>, CatalogError> {
        let state = self.cluster_state();
        let values = state.server_values(PREFIX).map_err(CatalogError::Cluster)?;
        let read = values.iter().filter_map(|(name, value)| {
            let read = serde_json::from_slice(&value.bytes);
            read.inspect_err(|error| {
                tracing::error!(id = name.as_str(), %error, "a registered API key is unreadable");
            })
            .ok()
        });
        Ok(read.collect())
    }

    /// Changes what the key with this id is registered as: `decide` gets the present entry and the number of all, and
    /// returns the new one, or `None` to remove it. Nothing else changes meanwhile. Blocks.
    ///
    /// # Errors
    /// Those of `decide`; cluster errors.
    pub fn change_api_key<E: From<CatalogError>>(
        &self,
        id: &str,
        decide: impl FnOnce(Option<RegisteredApiKey>, usize) -> Result<Option<RegisteredApiKey>, E>,
    ) -> Result<(), E> {
        let _changing = self.api_keys.lock_changes();
        let all = self.registered_api_keys()?;
        let count = all.len();
        let before = all.into_iter().find(|key| key.id == id);
        let is_there = before.is_some();
        let after = decide(before, count)?;
        if after.is_none() && !is_there {
            return Ok(());
        }
        // An empty value removes it.
        let json = after.map_or(Vec::new(), |entry| serde_json::to_vec(&entry).unwrap_or_default());
        let put = self.catalog.put_value(&format!("{PREFIX}{id}"), &json);
        // Also after an error: it may have been stored nevertheless.
        self.trust_api_keys()?;
        Ok(put.map(drop)?)
    }

    /// Whether the configuration names the key with this id.
    pub fn is_configured_api_key(&self, id: &str) -> bool {
        self.configured_api_keys().iter().any(|entry| entry.split('.').next() == Some(id))
    }

    /// Brings what is stored and what the configuration names into force.
    ///
    /// # Errors
    /// The registered ones cannot be read.
    pub fn trust_api_keys(&self) -> Result<(), CatalogError> {
        let trusted = TrustedKeys::new(self.registered_api_keys()?, self.configured_api_keys());
        self.api_keys.replace(trusted);
        Ok(())
    }

    fn configured_api_keys(&self) -> &[String] {
        self.settings().security.api_keys.as_ref().map_or(&[], |keys| &keys.admins)
    }
}
