//! Whether a client may do what it requests.

use std::{fmt, sync::Arc};

use crate::{
    certificate::Certificate, clearance::DatabaseAccess, registered::RegisteredCertificate,
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
    /// The server has no certificate: nobody is asked for one.
    Unsecured,
    /// It has no certificate.
    Anonymous,
    /// It has the private key of this certificate.
    Certified(Arc<Certificate>),
}

impl Client {
    /// Its certificate, if it has one.
    pub fn certificate(&self) -> Option<&Arc<Certificate>> {
        match self {
            Client::Unsecured | Client::Anonymous => None,
            Client::Certified(certificate) => Some(certificate),
        }
    }

    /// The client of a request, given the current standing of its certificate.
    pub fn caller(&self, standing_of: impl FnOnce(&Certificate) -> Standing) -> Caller {
        match self {
            Client::Unsecured => Caller::Unsecured,
            Client::Anonymous => Caller::Anonymous,
            Client::Certified(certificate) => {
                Caller::Certified(Arc::clone(certificate), standing_of(certificate))
            }
        }
    }
}

/// The client of a request at one moment: what is registered may change while it is connected.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The server has no certificate: anyone who can connect may do everything.
    Unsecured,
    /// A client without a certificate.
    Anonymous,
    /// A client that has proven to have the private key of this certificate.
    Certified(Arc<Certificate>, Standing),
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
            Caller::Unsecured | Caller::Anonymous => None,
            Caller::Certified(certificate, _) => Some(certificate),
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
        let (certificate, registered) = self.registered()?;
        let clearance = registered.security_clearance;
        let is_allowed = match (requirement, requirement.in_database(), database) {
            (Requirement::ClusterAdmin, _, _) => clearance.is_cluster_admin(),
            (Requirement::Operator, _, _) => clearance.is_operator(),
            (_, Some(needed), Some(database)) => {
                registered.access_to(database).is_some_and(|access| needed <= access)
            }
            (_, Some(_), None) => clearance.is_operator(),
            (_, None, Some(database)) => registered.access_to(database).is_some(),
            (_, None, None) => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(insufficient(certificate, requirement, database)),
        }
    }

    /// The certificate of the client, and as what it is registered.
    ///
    /// # Errors
    /// There is none, or it is not accepted.
    pub fn registered(&self) -> Result<(&Arc<Certificate>, &Arc<RegisteredCertificate>), Denial> {
        let (certificate, standing) = match self {
            Caller::Certified(certificate, standing) => (certificate, standing),
            Caller::Unsecured | Caller::Anonymous => return Err(no_certificate()),
        };
        let reason = match standing {
            Standing::Registered(registered) => return Ok((certificate, registered)),
            Standing::Unknown => {
                "is unknown to the server. In order to register your certificate please contact \
                                  your system administrator."
            }
            Standing::Expired => "has expired.",
            Standing::NotYetValid => "is not valid yet.",
            Standing::NotForClients => {
                "is not meant for clients: its extended key usage lacks clientAuth."
            }
        };
        let message =
            format!("The supplied client certificate '{}' {reason}", certificate.in_words());
        Err(Denial { message })
    }
}

fn no_certificate() -> Denial {
    let message = "This server requires client certificate for authentication, but none was provided by the \
                   client. Did you forget to install the certificate?";
    Denial { message: message.to_owned() }
}

fn insufficient(
    certificate: &Certificate,
    requirement: Requirement,
    database: Option<&str>,
) -> Denial {
    let place = match database {
        Some(database) => format!("database '{database}'"),
        None => "the server".to_owned(),
    };
    let needed = match requirement {
        Requirement::ClusterAdmin => {
            " ClusterAdmin access is required but not given to this certificate."
        }
        Requirement::Operator => {
            " Operator/ClusterAdmin access is required but not given to this certificate."
        }
        Requirement::DatabaseAdmin => {
            " DatabaseAdmin access is required but not given to this certificate."
        }
        _ => "",
    };
    let name = certificate.in_words();
    let message = format!(
        "Could not authorize access to {place} using provided client certificate '{name}'.{needed}"
    );
    Denial { message }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Denial {}
