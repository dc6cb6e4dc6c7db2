//! What maps can read besides the item that they map.

use cluster_state::DatabaseValues;
use documents::{DocumentError, DocumentRow};
use model::{DocumentId, EMPTY_COLLECTION};
use storage::ReadTransaction;

/// The other documents, and the values of compare exchange, each as of one snapshot.
#[derive(Clone, Copy)]
pub struct MapContext<'t> {
    /// The snapshot from which documents are loaded.
    pub documents: &'t ReadTransaction,
    /// The values, if there are any.
    pub values: Option<&'t DatabaseValues>,
}

impl<'t> MapContext<'t> {
    /// Loads a document for a map; `None` unless it is in one of the named collections, if any.
    pub(crate) fn load(
        &self,
        id: &DocumentId,
        collection: Option<&str>,
    ) -> Result<Option<DocumentRow<'t>>, DocumentError> {
        let Some(document) = documents::get(self.documents, id)? else { return Ok(None) };
        let own = document.collection()?;
        let is_meant = collection
            .is_none_or(|named| own.eq_ignore_ascii_case(named) || own == EMPTY_COLLECTION);
        Ok(is_meant.then_some(document))
    }
}
