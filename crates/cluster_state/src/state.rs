//! Reading the server-wide state.

use model::{DatabaseId, lower_case};
use storage::ReadTransaction;

use crate::{
    change_index,
    compare_exchange::{self, CompareExchangeEntry},
    error::ClusterError,
    identities,
    refusals::Refusals,
    schema::Counted,
    server_values::{self, ServerValue},
    subscriptions::{self, SubscriptionRecord},
    transactions::{self, StoredTransaction},
};

/// The state at one moment, which never changes. Everything whose outcome was told before is in it.
pub struct ClusterState {
    pub(crate) tx: ReadTransaction,
    refusals: Refusals,
}

impl ClusterState {
    pub(crate) fn new(tx: ReadTransaction, refusals: Refusals) -> Self {
        Self { tx, refusals }
    }

    /// The index of the newest change.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn last_index(&self) -> Result<u64, ClusterError> {
        Ok(change_index::last_index(&self.tx)?)
    }

    /// The value that the servers share under a name.
    ///
    /// # Errors
    /// Those of the storage; a damaged value.
    pub fn server_value(&self, name: &str) -> Result<Option<ServerValue>, ClusterError> {
        server_values::read(&self.tx, name)
    }

    /// The value of compare exchange under a key, in any case.
    ///
    /// # Errors
    /// Those of the storage; a damaged value.
    pub fn compare_exchange(
        &self,
        database: DatabaseId,
        key: &str,
    ) -> Result<Option<CompareExchangeEntry<'_>>, ClusterError> {
        self.refusals.check(database)?;
        compare_exchange::present(&self.tx, database, &lower_case(key))
    }

    /// The values of compare exchange whose keys start with a text, in any case, in the order of the
    /// bytes of their keys.
    ///
    /// # Errors
    /// Those of the storage; each entry may be damaged.
    pub fn compare_exchange_with_prefix(
        &self,
        database: DatabaseId,
        prefix: &str,
    ) -> Result<impl Iterator<Item = Result<CompareExchangeEntry<'_>, ClusterError>>, ClusterError>
    {
        self.refusals.check(database)?;
        compare_exchange::with_prefix(&self.tx, database, &lower_case(prefix))
    }

    /// All identities of a database, by name: the lower-cased name with its `|`, and the value given last.
    ///
    /// # Errors
    /// Those of the storage; a damaged value.
    pub fn identities(&self, database: DatabaseId) -> Result<Vec<(String, i64)>, ClusterError> {
        self.refusals.check(database)?;
        identities::all(&self.tx, database)
    }

    /// What cluster-wide transactions behind this index have for the documents of a database, in order.
    ///
    /// # Errors
    /// Those of the storage; each entry may be damaged.
    pub fn transactions_after(
        &self,
        database: DatabaseId,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<StoredTransaction, ClusterError>>, ClusterError> {
        self.refusals.check(database)?;
        transactions::stored_after(&self.tx, database, index)
    }

    /// How many values of compare exchange a database has.
    ///
    /// # Errors
    /// Those of the storage; a damaged count.
    pub fn compare_exchange_count(&self, database: DatabaseId) -> Result<u64, ClusterError> {
        compare_exchange::counted_so_far(&self.tx, database, Counted::CompareExchange)
    }

    /// How many values of compare exchange were deleted and have not been put again since.
    ///
    /// # Errors
    /// Those of the storage; a damaged count.
    pub fn deleted_compare_exchange_count(
        &self,
        database: DatabaseId,
    ) -> Result<u64, ClusterError> {
        compare_exchange::counted_so_far(&self.tx, database, Counted::CompareExchangeDeleted)
    }

    /// The subscription of a name, in any case.
    ///
    /// # Errors
    /// Those of the storage; a damaged record.
    pub fn subscription(
        &self,
        database: DatabaseId,
        name: &str,
    ) -> Result<Option<SubscriptionRecord>, ClusterError> {
        subscriptions::by_name(&self.tx, database, name)
    }

    /// The subscription of a number.
    ///
    /// # Errors
    /// Those of the storage; a damaged record.
    pub fn subscription_by_id(
        &self,
        database: DatabaseId,
        id: u64,
    ) -> Result<Option<SubscriptionRecord>, ClusterError> {
        subscriptions::by_id(&self.tx, database, id)
    }

    /// The subscriptions of a database, in the order of their names in lower case.
    ///
    /// # Errors
    /// Those of the storage; each record may be damaged.
    pub fn subscriptions(
        &self,
        database: DatabaseId,
    ) -> Result<impl Iterator<Item = Result<SubscriptionRecord, ClusterError>>, ClusterError> {
        subscriptions::all(&self.tx, database)
    }
}
