//! The acknowledged content of a database.

use std::collections::BTreeMap;

/// One database as its only client knows it. Every write is acknowledged before the next one is
/// sent, so exactly one state is correct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// The number in each document, by id.
    pub(crate) documents: BTreeMap<String, u64>,
    /// Values of compare exchange by key: the number and the index of the change.
    pub(crate) values: BTreeMap<String, (u64, u64)>,
    /// The last value of each identity.
    pub(crate) identities: BTreeMap<String, u64>,
    /// The number of acknowledged cluster-wide transactions.
    pub(crate) transactions: u64,
}

impl Model {
    /// How many documents have this number.
    pub(crate) fn count_of(&self, number: u64) -> u64 {
        self.documents.values().filter(|found| **found == number).count() as u64
    }
}
