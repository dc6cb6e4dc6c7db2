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
//! Cluster/Requests                  database 16, id of a request    index 8, outcome
//! Cluster/RequestsByIndex           index 8 BE                      its key in Cluster/Requests
//! Cluster/Subscriptions             database 16, number 8 BE        see subscriptions.rs
//! Cluster/SubscriptionNames         database 16, lower-cased name   number 8 BE
//! Cluster/SubscriptionProgress      database 16, number 8 BE        see subscriptions.rs
//! Cluster/Counts                    database 16, kind 1             u64
//! Counters                          LastIndex                       u64; shared with the catalog
//! ```
//!
//! Integers are little-endian but where BE stands: there the order of the bytes is that of the numbers.
//! The pages below carry checksums.

use model::DatabaseId;
use storage::TreeName;

/// The version of everything here. A newer one is refused.
pub const FORMAT_VERSION: u32 = 2;
/// The version in which positions of subscriptions had no point in the history of their database. What it
/// wrote is read as it is.
pub const VERSION_WITHOUT_POINTS: u32 = 1;

pub(crate) const LAST_INDEX: &[u8] = b"LastIndex";

/// Bytes of a database's id in front of a key.
pub(crate) const DATABASE_BYTES: usize = 16;

pub(crate) fn counters() -> TreeName {
    TreeName::from("Counters")
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

/// The trees whose keys start with the id of a database, and nothing but the database's own.
pub(crate) fn trees_by_database() -> [TreeName; 10] {
    [
        compare_exchange(),
        compare_exchange_changes(),
        compare_exchange_deleted(),
        identities(),
        transactions(),
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

/// What is counted, for each database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Values of compare exchange.
    CompareExchange,
    /// Deleted ones.
    CompareExchangeDeleted,
    /// Documents of cluster-wide transactions, deleted ones, too.
    TransactionDocuments,
    /// Not a count: the index of the last transaction with documents.
    LastTransaction,
}

impl Counted {
    pub(crate) fn key(self, database: DatabaseId) -> Vec<u8> {
        let kind = match self {
            Self::CompareExchange => b'x',
            Self::CompareExchangeDeleted => b'd',
            Self::TransactionDocuments => b'n',
            Self::LastTransaction => b't',
        };
        key_of(database, &[kind])
    }
}
