//! What maps see beside the thing that they map.

use cluster::DatabaseValues;
use storage::ReadTransaction;

/// The other documents, and the values of compare exchange, each as they are at one moment.
#[derive(Clone, Copy)]
pub struct Beside<'t> {
    /// The documents.
    pub documents: &'t ReadTransaction,
    /// The values; there are none without.
    pub values: Option<&'t DatabaseValues>,
}
