//! What administrators send about a client that is to be registered, by a certificate or by an API key.
//!
//! An administrator may not grant more than they hold themselves.

use std::collections::HashSet;

use model::{date, lower_case};
use security::{Clearance, DatabaseAccess, Permissions};
use serde_json::{Map, Value};
use wire::ErrorKind;

use crate::{api_error::ApiError, call::Call, request_json::object_of};

/// Longer names are refused: they are in every list, and in messages.
const NAME_BYTES_MAX: usize = 512;

/// What an administrator wants a client to be registered as.
#[derive(Clone)]
pub(crate) struct GrantedAccess {
    /// A name for people.
    pub(crate) name: String,
    pub(crate) clearance: Clearance,
    /// In which databases a [`Clearance::ValidUser`] may do what.
    pub(crate) permissions: Permissions,
}

impl GrantedAccess {
    /// Reads it from a request, whose `kind` errors name: a certificate or an API key.
    pub(crate) fn read(
        sent: &Map<String, Value>,
        kind: &'static str,
    ) -> Result<GrantedAccess, ApiError> {
        let name = sent.get("Name").and_then(Value::as_str).unwrap_or_default().trim();
        if name.is_empty() {
            let message = format!("Name is a required field in the {kind} definition");
            return Err(ApiError::argument(message));
        }
        if NAME_BYTES_MAX < name.len() {
            let message = format!("Name is longer than {NAME_BYTES_MAX} bytes");
            return Err(ApiError::argument(message));
        }
        let named = sent.get("SecurityClearance").and_then(Value::as_str).unwrap_or_default();
        let clearance = Clearance::named(named).ok_or_else(|| {
            let message = format!("Could not convert '{named}' to a security clearance");
            ApiError::new(ErrorKind::Format, message)
        })?;
        if clearance == Clearance::UnauthenticatedClients {
            let message =
                format!("The {kind} of a client cannot be registered for clients without any");
            return Err(ApiError::argument(message));
        }
        let (mut permissions, mut known) = (Vec::new(), HashSet::new());
        for (database, access) in object_of(sent, "Permissions")?.into_iter().flatten() {
            let named = access.as_str().unwrap_or_default();
            let access = DatabaseAccess::named(named);
            let unknown =
                || ApiError::argument(format!("Requested value '{named}' was not found."));
            if !known.insert(lower_case(database).into_owned()) {
                let message =
                    format!("The database '{database}' is named twice in the permissions");
                return Err(ApiError::argument(message));
            }
            permissions.push((database.clone(), access.ok_or_else(unknown)?));
        }
        let (name, permissions) = (name.to_owned(), Permissions::new(permissions));
        Ok(GrantedAccess { name, clearance, permissions })
    }

    /// An operator must not make an administrator of the cluster.
    pub(crate) fn check_not_above(
        &self,
        call: &Call,
        (verb, kind): (&str, &str),
    ) -> Result<(), ApiError> {
        let own = call.caller.grant()?;
        if !self.clearance.is_cluster_admin() || own.clearance.is_cluster_admin() {
            return Ok(());
        }
        Err(ApiError::invalid_operation(format!(
            "Cannot {verb} the client {kind} '{}' with 'Cluster Admin' security clearance because the client itself has \
             a lower clearance: {}",
            self.name,
            own.clearance.name()
        )))
    }
}

/// The moment of a date in a request, in ticks.
pub(crate) fn date_of(value: &Value) -> Result<i64, ApiError> {
    let parsed = value.as_str().and_then(date::parse);
    parsed.map(date::ParsedDate::utc_ticks).ok_or_else(|| {
        ApiError::new(ErrorKind::Format, format!("Could not convert {value} to a date"))
    })
}
