//! The documents to include with the rows of a query.

use std::collections::HashSet;

use model::DocumentId;

use crate::error::QueryError;
use crate::plan::ShownRows;
use crate::row_document::RowDocument;

/// The ids that included paths found, and the ids of the rows, which are not repeated.
#[derive(Default)]
pub(crate) struct Included {
    pub(crate) in_order: Vec<DocumentId>,
    pub(crate) met: HashSet<DocumentId>,
    pub(crate) rows: HashSet<DocumentId>,
    /// Their approximate memory, in bytes.
    pub(crate) bytes: u64,
}

impl Included {
    pub(crate) fn add(
        &mut self,
        row: &RowDocument<'_>,
        shown: &ShownRows,
    ) -> Result<(), QueryError> {
        if shown.projection.is_none() {
            let id = row.id().and_then(|id| DocumentId::new(id).ok());
            self.bytes += id.as_ref().map_or(0, id_bytes);
            self.rows.extend(id);
        }
        for path in shown.includes.iter().filter_map(|include| include.in_document.as_ref()) {
            path.ids(row.root()?, &mut |id| {
                // A string that is too long for an id matches no document.
                if let Ok(id) = DocumentId::new(id)
                    && self.met.insert(id.clone())
                {
                    // Kept twice: in the set and, in order, in the list.
                    self.bytes += 3 * id_bytes(&id);
                    self.in_order.push(id);
                }
            })?;
        }
        Ok(())
    }
}

/// The memory of an id in a table: the id as written and in lower case.
fn id_bytes(id: &DocumentId) -> u64 {
    (2 * (size_of::<DocumentId>() + id.as_str().len())) as u64
}

/// Each once, in the order of the list.
pub(crate) fn distinct(ids: Vec<DocumentId>) -> impl Iterator<Item = DocumentId> {
    let mut met = HashSet::new();
    ids.into_iter().filter(move |id| met.insert(id.clone()))
}
