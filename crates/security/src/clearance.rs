//! What a client may do: on the server, and in each database.

use std::collections::BTreeMap;

use model::lower_case;
use serde::{Deserialize, Serialize};

/// What a certificate allows. The names are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clearance {
    /// Nothing: such a certificate is not accepted.
    UnauthenticatedClients,
    /// Everything.
    ClusterAdmin,
    /// Everything, for a server of the same cluster.
    ClusterNode,
    /// Everything but administering the cluster and its administrators.
    Operator,
    /// What [`Permissions`] say, in the databases that they name.
    ValidUser,
}

impl Clearance {
    /// The clearance of this name, in any case.
    pub fn named(name: &str) -> Option<Clearance> {
        let all = [
            Clearance::UnauthenticatedClients,
            Clearance::ClusterAdmin,
            Clearance::ClusterNode,
            Clearance::Operator,
            Clearance::ValidUser,
        ];
        all.into_iter().find(|clearance| clearance.name().eq_ignore_ascii_case(name))
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Clearance::UnauthenticatedClients => "UnauthenticatedClients",
            Clearance::ClusterAdmin => "ClusterAdmin",
            Clearance::ClusterNode => "ClusterNode",
            Clearance::Operator => "Operator",
            Clearance::ValidUser => "ValidUser",
        }
    }

    /// Whether its holder may administer the cluster.
    pub fn is_cluster_admin(self) -> bool {
        matches!(self, Clearance::ClusterAdmin | Clearance::ClusterNode)
    }

    /// Whether its holder may administer the server.
    pub fn is_operator(self) -> bool {
        self.is_cluster_admin() || self == Clearance::Operator
    }
}

/// What a client may do in one database; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DatabaseAccess {
    /// Reading.
    Read,
    /// Writing, too.
    ReadWrite,
    /// Configuring, too.
    Admin,
}

impl DatabaseAccess {
    /// The access of this name, in any case.
    pub fn named(name: &str) -> Option<DatabaseAccess> {
        let all = [DatabaseAccess::Read, DatabaseAccess::ReadWrite, DatabaseAccess::Admin];
        all.into_iter().find(|access| access.name().eq_ignore_ascii_case(name))
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            DatabaseAccess::Read => "Read",
            DatabaseAccess::ReadWrite => "ReadWrite",
            DatabaseAccess::Admin => "Admin",
        }
    }
}

/// What a [`Clearance::ValidUser`] may do in each database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Permissions(BTreeMap<String, DatabaseAccess>);

impl Permissions {
    /// Those for databases by name.
    pub fn new(by_database: impl IntoIterator<Item = (String, DatabaseAccess)>) -> Permissions {
        Permissions(by_database.into_iter().collect())
    }

    /// What is allowed in a database, whose name may be in any case: as databases are found by their names. Of
    /// several entries for it, the one that allows least.
    pub fn of(&self, database: &str) -> Option<DatabaseAccess> {
        let name = lower_case(database);
        let entries = self.0.iter().filter(|(named, _)| lower_case(named) == name);
        entries.map(|(_, access)| *access).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_are_compared_without_case() {
        let permissions = Permissions::new([("Shop".to_owned(), DatabaseAccess::ReadWrite)]);
        assert_eq!(permissions.of("sHOP"), Some(DatabaseAccess::ReadWrite));
        assert_eq!(permissions.of("Shop2"), None);
    }

    /// Databases are found character by character; `to_lowercase` treats a last sigma in another way.
    #[test]
    fn a_name_allows_no_other_database_than_the_one_that_it_finds() {
        let names = ["ας", "ασ", "ΑΣ", "Αs", "shop", "SHOP", "İ", "i", "ß", "SS"];
        for (named, requested) in
            names.iter().flat_map(|one| names.iter().map(move |two| (one, two)))
        {
            let entry = ((*named).to_owned(), DatabaseAccess::Admin);
            let is_same = lower_case(named) == lower_case(requested);
            assert_eq!(
                Permissions::new([entry]).of(requested).is_some(),
                is_same,
                "{named} {requested}"
            );
        }
    }

    #[test]
    fn the_names_of_the_protocol_are_read_in_any_case() {
        assert_eq!(Clearance::named("validuser"), Some(Clearance::ValidUser));
        assert_eq!(DatabaseAccess::named("readwrite"), Some(DatabaseAccess::ReadWrite));
        assert_eq!(Clearance::named(""), None);
    }
}
