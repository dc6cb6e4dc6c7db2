//! Whether a client may do what it requests.

use std::{fmt, sync::Arc};

use crate::{
    api_key::KeyStanding,
    certificate::Certificate,
    clearance::{Clearance, DatabaseAccess, Permissions},
    trust::Standing,
};

/// What a client must be allowed to do. Each route declares one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Nothing: any client that can connect.
    Anyone,
    /// To use the server at all.
    ValidUser,
    /// To read the database.
    Read,
    /// To write the database.
    Write,
    /// To configure the database.
    DatabaseAdmin,
    /// To configure the server.
    Operator,
    /// To administer the cluster.
    ClusterAdmin,
    /// To be a sink of one of the database's hubs, which know their sinks themselves: no clearance suffices.
    Sink,
}

impl Requirement {
    /// Its name in lists of routes.
    pub fn name(self) -> &'static str {
        match self {
            Requirement::Anyone => "Anyone",
            Requirement::ValidUser => "ValidUser",
            Requirement::Read => "Read",
            Requirement::Write => "Write",
            Requirement::DatabaseAdmin => "DatabaseAdmin",
            Requirement::Operator => "Operator",
            Requirement::ClusterAdmin => "ClusterAdmin",
            Requirement::Sink => "Sink",
        }
    }

    fn in_database(self) -> Option<DatabaseAccess> {
        match self {
            Requirement::Read => Some(DatabaseAccess::Read),
            Requirement::Write => Some(DatabaseAccess::ReadWrite),
            Requirement::DatabaseAdmin => Some(DatabaseAccess::Admin),
            _ => None,
        }
    }
}

/// The client of a connection, as the handshake has proven it.
#[derive(Clone, Debug)]
pub enum Client {
    /// The listener does not encrypt: nobody is asked for a certificate.
    Unsecured,
    /// It has no certificate.
    Anonymous,
    /// It has the private key of this certificate.
    Certified(Arc<Certificate>),
}

/// What a client was granted, whatever it is identified by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'r> {
    /// The name for people that it was given.
    pub name: &'r str,
    /// What it may do.
    pub clearance: Clearance,
    /// In which databases a [`Clearance::ValidUser`] may do what.
    pub permissions: &'r Permissions,
}

impl Grant<'_> {
    /// What its holder may do in a database.
    pub fn access_to(&self, database: &str) -> Option<DatabaseAccess> {
        match self.clearance {
            clearance if clearance.is_operator() => Some(DatabaseAccess::Admin),
            Clearance::ValidUser => self.permissions.of(database),
            _ => None,
        }
    }
}

/// By what a server identifies its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identification {
    /// By certificates alone.
    Certificates,
    /// By certificates and API keys.
    CertificatesAndKeys,
    /// By API keys alone: somebody else ends TLS.
    Keys,
}

/// The client of a request at one moment: what is registered may change while it is connected.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The server identifies nobody: anyone who can connect may do everything.
    Unsecured,
    /// A client without anything that the server identifies clients by.
    Anonymous(Identification),
    /// A client that has proven to have the private key of this certificate.
    Certified(Arc<Certificate>, Standing),
    /// A client that has presented an API key.
    Keyed(KeyStanding),
}

/// Why a request is not allowed. The texts are for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    message: String,
}

impl Caller {
    /// Its certificate, if it has one, whether accepted or not.
    pub fn certificate(&self) -> Option<&Arc<Certificate>> {
        match self {
            Caller::Unsecured | Caller::Anonymous(_) | Caller::Keyed(_) => None,
            Caller::Certified(certificate, _) => Some(certificate),
        }
    }

    /// How the API key that it has presented is called, whether accepted or not.
    pub fn api_key_in_words(&self) -> Option<String> {
        match self {
            Caller::Unsecured | Caller::Anonymous(_) | Caller::Certified(..) => None,
            Caller::Keyed(KeyStanding::Registered(key) | KeyStanding::Expired(key)) => {
                Some(key.in_words())
            }
            Caller::Keyed(KeyStanding::Unknown { id }) => {
                Some(format!("unknown ({})", id.as_deref().unwrap_or("unreadable")))
            }
        }
    }

    /// Whether the client may do this, in the database if the request names one.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self, requirement: Requirement, database: Option<&str>) -> Result<(), Denial> {
        if requirement == Requirement::Anyone || matches!(self, Caller::Unsecured) {
            return Ok(());
        }
        let grant = self.grant()?;
        let is_allowed = match (requirement, requirement.in_database(), database) {
            (Requirement::Sink, _, _) => false,
            (Requirement::ClusterAdmin, _, _) => grant.clearance.is_cluster_admin(),
            (Requirement::Operator, _, _) => grant.clearance.is_operator(),
            (_, Some(needed), Some(database)) => {
                grant.access_to(database).is_some_and(|access| needed <= access)
            }
            (_, Some(_), None) => grant.clearance.is_operator(),
            (_, None, Some(database)) => grant.access_to(database).is_some(),
            (_, None, None) => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(self.insufficient(requirement, database)),
        }
    }

    /// What the client was granted.
    ///
    /// # Errors
    /// Nothing: it has nothing that identifies it, or that is not accepted.
    pub fn grant(&self) -> Result<Grant<'_>, Denial> {
        let message = match self {
            Caller::Certified(certificate, standing) => {
                let reason = match standing {
                    Standing::Registered(registered) => return Ok(registered.grant()),
                    Standing::Unknown => {
                        "is unknown to the server. In order to register your certificate please contact your system \
                         administrator."
                    }
                    Standing::Expired => "has expired.",
                    Standing::NotYetValid => "is not valid yet.",
                    Standing::NotForClients => {
                        "is not meant for clients: its extended key usage lacks clientAuth."
                    }
                };
                let name = certificate.in_words();
                format!("The supplied client certificate '{name}' {reason}")
            }
            Caller::Keyed(KeyStanding::Registered(registered)) => return Ok(registered.grant()),
            Caller::Keyed(KeyStanding::Expired(key)) => {
                format!("The supplied API key '{}' has expired.", key.in_words())
            }
            Caller::Keyed(KeyStanding::Unknown { .. }) => {
                "The supplied API key is unknown to the server, or its secret is another one."
                    .to_owned()
            }
            Caller::Anonymous(identification) => missing(*identification).to_owned(),
            Caller::Unsecured => missing(Identification::Certificates).to_owned(),
        };
        Err(Denial { message })
    }

    fn insufficient(&self, requirement: Requirement, database: Option<&str>) -> Denial {
        let place = match database {
            Some(database) => format!("database '{database}'"),
            None => "the server".to_owned(),
        };
        let (kind, name) = match (self.certificate(), self.api_key_in_words()) {
            (Some(certificate), _) => ("certificate", certificate.in_words()),
            (None, name) => ("key", name.unwrap_or_default()),
        };
        let needed = match requirement {
            Requirement::ClusterAdmin => Some("ClusterAdmin"),
            Requirement::Operator => Some("Operator/ClusterAdmin"),
            Requirement::DatabaseAdmin => Some("DatabaseAdmin"),
            _ => None,
        };
        let needed = needed.map_or(String::new(), |needed| {
            format!(" {needed} access is required but not given to this {kind}.")
        });
        let kind = if kind == "key" { "API key" } else { "client certificate" };
        let message = format!(
            "Could not authorize access to {place} using provided {kind} '{name}'.{needed}"
        );
        Denial { message }
    }
}

/// What a client is told that has nothing by which it could be identified.
fn missing(identification: Identification) -> &'static str {
    match identification {
        Identification::Certificates => {
            "This server requires client certificate for authentication, but none was provided by the client. Did you \
             forget to install the certificate?"
        }
        Identification::CertificatesAndKeys => {
            "This server requires client certificate for authentication, or an API key in the header 'Authorization: \
             Bearer', but neither was provided by the client."
        }
        Identification::Keys => {
            "This server requires an API key in the header 'Authorization: Bearer', but none was provided by the client."
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Denial {}
