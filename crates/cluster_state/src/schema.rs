//! The trees of the server-wide state, all in the server's own environment. The log of the consensus, in
//! the same environment, is described in `cluster`.
//!
//! ```text
//! tree                              key                             value
//! Cluster/CompareExchange           database 16, lower-cased key    index 8, blittable value
//! Cluster/CompareExchangeChanges    database 16, index 8 BE, key    1 deleted or 0
//! Cluster/CompareExchangeDeleted    database 16, lower-cased key    index 8 of the change that did it
//! Cluster/CompareExchangeDue        ticks 8 BE, database 16, key    nothing
//! Cluster/Identities                database 16, lower-cased name    i64
//! Cluster/Transactions              database 16, index 8 BE         see transactions.rs
//! Cluster/Executed                  database 16, tag of a node        index 8
//! Cluster/Requests                  database 16, id of a request    index 8, outcome
//! Cluster/RequestsByIndex           index 8 BE                      its key in Cluster/Requests
//! Cluster/Subscriptions             database 16, number 8 BE        see subscriptions.rs
//! Cluster/SubscriptionNames         database 16, lower-cased name   number 8 BE
//! Cluster/SubscriptionProgress      database 16, number 8 BE        see subscriptions.rs
//! Cluster/Counts                    database 16, kind 1             u64
//! Cluster/Deleted                   database 16                     index 8 of the deletion, lower-cased name
//! Counters                          LastIndex                       u64
//! Databases                         lower-cased name                see database_record.rs
//! Values                            name                            see server_values.rs
//! ```
//!
//! Four more trees belong to this node alone. The first three also change when commands are applied, but no outcome
//! depends on them; `database` writes the last.
//!
//! ```text
//! Deletions                         index of the deletion 8 BE      the record of the database
//! DeletedEnvironments               index of the deletion 8 BE      its row of Environments, or nothing
//! Environments                      lower-cased name                point in the history of its files 32
//! Node                              name                            a value, such as the id of the server
//! ```
//!
//! Integers are little-endian, except BE: big-endian, so that keys sort by number. Pages carry checksums.

use model::DatabaseId;
use storage::TreeName;

/// The format version of these trees. A newer one is refused.
pub const FORMAT_VERSION: u32 = 7;
/// Older versions that can be read as they are. In version 1, subscription positions had no point in the
/// history of their database; before version 3, records and values changed outside of the log; before version 4,
/// a database was deleted in any version, and its entries were not listed for removal; before version 5, the settings
/// of a subscription were replaced in any version; before version 6, a cluster had one node; before version 7, positions
/// of subscriptions said nothing to other nodes, and transactions were kept where a database had several nodes.
pub const READABLE_VERSIONS: [u32; 6] = [1, 2, 3, 4, 5, 6];

pub(crate) const LAST_INDEX: &[u8] = b"LastIndex";

/// Bytes of the database id that keys start with.
pub(crate) const DATABASE_BYTES: usize = 16;

pub(crate) fn counters() -> TreeName {
    TreeName::from("Counters")
}

pub(crate) fn databases() -> TreeName {
    TreeName::from("Databases")
}

pub(crate) fn server_values() -> TreeName {
    TreeName::from("Values")
}

pub(crate) fn deletions() -> TreeName {
    TreeName::from("Deletions")
}

pub(crate) fn deleted_environments() -> TreeName {
    TreeName::from("DeletedEnvironments")
}

pub(crate) fn deleted_databases() -> TreeName {
    TreeName::from("Cluster/Deleted")
}

/// Lower-case name of a database → the point in the history of its files that this node knows. The tree is
/// local: every node has its own files.
pub fn environments() -> TreeName {
    TreeName::from("Environments")
}

pub(crate) fn compare_exchange() -> TreeName {
    TreeName::from("Cluster/CompareExchange")
}

pub(crate) fn compare_exchange_changes() -> TreeName {
    TreeName::from("Cluster/CompareExchangeChanges")
}

pub(crate) fn compare_exchange_deleted() -> TreeName {
    TreeName::from("Cluster/CompareExchangeDeleted")
}

pub(crate) fn compare_exchange_due() -> TreeName {
    TreeName::from("Cluster/CompareExchangeDue")
}

pub(crate) fn identities() -> TreeName {
    TreeName::from("Cluster/Identities")
}

pub(crate) fn transactions() -> TreeName {
    TreeName::from("Cluster/Transactions")
}

pub(crate) fn executed() -> TreeName {
    TreeName::from("Cluster/Executed")
}

pub(crate) fn requests() -> TreeName {
    TreeName::from("Cluster/Requests")
}

pub(crate) fn requests_by_index() -> TreeName {
    TreeName::from("Cluster/RequestsByIndex")
}

pub(crate) fn subscriptions() -> TreeName {
    TreeName::from("Cluster/Subscriptions")
}

pub(crate) fn subscription_names() -> TreeName {
    TreeName::from("Cluster/SubscriptionNames")
}

pub(crate) fn subscription_progress() -> TreeName {
    TreeName::from("Cluster/SubscriptionProgress")
}

pub(crate) fn counts() -> TreeName {
    TreeName::from("Cluster/Counts")
}

/// The trees whose keys start with a database id and which hold nothing but data of that database.
pub(crate) fn trees_by_database() -> [TreeName; 11] {
    [
        compare_exchange(),
        compare_exchange_changes(),
        compare_exchange_deleted(),
        identities(),
        transactions(),
        executed(),
        requests(),
        subscriptions(),
        subscription_names(),
        subscription_progress(),
        counts(),
    ]
}

/// A key that starts with the id of a database.
pub(crate) fn key_of(database: DatabaseId, rest: &[u8]) -> Vec<u8> {
    [&database.0[..], rest].concat()
}

/// Per-database counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Compare exchange values.
    CompareExchange,
    /// Deleted compare exchange values.
    CompareExchangeDeleted,
    /// Documents of cluster-wide transactions, including deletions.
    TransactionDocuments,
    /// Not a count: the index of the last transaction with documents.
    LastTransaction,
    /// Not a count: the index of the newest deletion of a compare exchange value that was forgotten.
    ForgottenDeletion,
}

impl Counted {
    pub(crate) fn key(self, database: DatabaseId) -> Vec<u8> {
        let kind = match self {
            Self::CompareExchange => b'x',
            Self::CompareExchangeDeleted => b'd',
            Self::TransactionDocuments => b'n',
            Self::LastTransaction => b't',
            Self::ForgottenDeletion => b'f',
        };
        key_of(database, &[kind])
    }
}
