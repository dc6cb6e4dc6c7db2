//! Reads the server-wide state.

use std::collections::BTreeMap;

use model::{DatabaseId, lower_case};
use storage::ReadTransaction;

use crate::{
    change_index,
    compare_exchange::{self, CompareExchangeEntry},
    deletions::{self, DeletedDatabase},
    error::ClusterError,
    executed, identities,
    refusals::Refusals,
    schema::Counted,
    server_values::{self, ServerValue},
    subscriptions::{self, SubscriptionRecord},
    transactions::{self, StoredTransaction},
};

/// An immutable snapshot of the state. Includes every change whose outcome has been reported.
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
    /// Storage errors.
    pub fn last_index(&self) -> Result<u64, ClusterError> {
        Ok(change_index::last_index(&self.tx)?)
    }

    /// The server value of this name.
    ///
    /// # Errors
    /// Storage errors; a damaged value.
    pub fn server_value(&self, name: &str) -> Result<Option<ServerValue>, ClusterError> {
        server_values::read(&self.tx, name)
    }

    /// The server values whose names start with a prefix, in byte order of their names, which are returned
    /// without it.
    ///
    /// # Errors
    /// As [`ClusterState::server_value`].
    pub fn server_values(&self, prefix: &str) -> Result<Vec<(String, ServerValue)>, ClusterError> {
        server_values::with_prefix(&self.tx, prefix)
    }

    /// The deleted databases whose entries are still to be removed, by
    /// [`Command::RemoveDatabase`](crate::Command::RemoveDatabase).
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn deleted_databases(&self) -> Result<Vec<DeletedDatabase>, ClusterError> {
        deletions::with_entries(&self.tx)
    }

    /// The compare exchange value under a key, in any case.
    ///
    /// # Errors
    /// Storage errors; a damaged value.
    pub fn compare_exchange(
        &self,
        database: DatabaseId,
        key: &str,
    ) -> Result<Option<CompareExchangeEntry<'_>>, ClusterError> {
        self.refusals.check(database)?;
        compare_exchange::present(&self.tx, database, &lower_case(key))
    }

    /// The compare exchange values whose keys start with a prefix, in any case, in byte order of their keys;
    /// only those after `after`, if there is one.
    ///
    /// # Errors
    /// Storage errors; each entry may be damaged.
    pub fn compare_exchange_with_prefix<'s>(
        &'s self,
        database: DatabaseId,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<
        impl Iterator<Item = Result<CompareExchangeEntry<'s>, ClusterError>> + use<'s>,
        ClusterError,
    > {
        self.refusals.check(database)?;
        compare_exchange::with_prefix(&self.tx, database, &lower_case(prefix), after)
    }

    /// All identities of a database: the lower-case name with its `|`, and the last value.
    ///
    /// # Errors
    /// Storage errors; a damaged value.
    pub fn identities(&self, database: DatabaseId) -> Result<Vec<(String, i64)>, ClusterError> {
        self.refusals.check(database)?;
        identities::all(&self.tx, database)
    }

    /// The index of the last transaction with documents that was stored for a database; 0 if there was none.
    ///
    /// # Errors
    /// Storage errors.
    pub fn last_transaction(&self, database: DatabaseId) -> Result<u64, ClusterError> {
        compare_exchange::counted_so_far(&self.tx, database, Counted::LastTransaction)
    }

    /// The stored parts of cluster-wide transactions after this index, for the documents of a database, in
    /// order.
    ///
    /// # Errors
    /// Storage errors; each entry may be damaged.
    pub fn transactions_after(
        &self,
        database: DatabaseId,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<StoredTransaction, ClusterError>>, ClusterError> {
        self.refusals.check(database)?;
        transactions::stored_after(&self.tx, database, index)
    }

    /// Up to where each node has said that it has executed the transactions of a database, by its tag.
    ///
    /// # Errors
    /// Storage errors; a damaged row.
    pub fn executed_transactions(
        &self,
        database: DatabaseId,
    ) -> Result<BTreeMap<String, u64>, ClusterError> {
        executed::executed_by(&self.tx, database)
    }

    /// The first stored part of a cluster-wide transaction after this index, also of a database that is
    /// refused.
    ///
    /// # Errors
    /// Storage errors; a damaged transaction.
    pub fn first_transaction_after(
        &self,
        database: DatabaseId,
        index: u64,
    ) -> Result<Option<StoredTransaction>, ClusterError> {
        transactions::stored_after(&self.tx, database, index)?.next().transpose()
    }

    /// The number of compare exchange values of a database.
    ///
    /// # Errors
    /// Storage errors; a damaged count.
    pub fn compare_exchange_count(&self, database: DatabaseId) -> Result<u64, ClusterError> {
        compare_exchange::counted_so_far(&self.tx, database, Counted::CompareExchange)
    }

    /// The number of compare exchange values that were deleted and not put again.
    ///
    /// # Errors
    /// Storage errors; a damaged count.
    pub fn deleted_compare_exchange_count(
        &self,
        database: DatabaseId,
    ) -> Result<u64, ClusterError> {
        compare_exchange::counted_so_far(&self.tx, database, Counted::CompareExchangeDeleted)
    }

    /// The subscription with this name, in any case.
    ///
    /// # Errors
    /// Storage errors; a damaged record.
    pub fn subscription(
        &self,
        database: DatabaseId,
        name: &str,
    ) -> Result<Option<SubscriptionRecord>, ClusterError> {
        subscriptions::by_name(&self.tx, database, name)
    }

    /// The subscription with this id.
    ///
    /// # Errors
    /// Storage errors; a damaged record.
    pub fn subscription_by_id(
        &self,
        database: DatabaseId,
        id: u64,
    ) -> Result<Option<SubscriptionRecord>, ClusterError> {
        subscriptions::by_id(&self.tx, database, id)
    }

    /// The subscriptions of a database, ordered by lower-case name.
    ///
    /// # Errors
    /// Storage errors; each record may be damaged.
    pub fn subscriptions(
        &self,
        database: DatabaseId,
    ) -> Result<impl Iterator<Item = Result<SubscriptionRecord, ClusterError>>, ClusterError> {
        subscriptions::all(&self.tx, database)
    }
}
