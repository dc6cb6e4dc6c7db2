//! Which documents the rows of a query name to be given along.

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
}

impl Included {
    pub(crate) fn add(
        &mut self,
        row: &RowDocument<'_>,
        shown: &ShownRows,
    ) -> Result<(), QueryError> {
        if shown.projection.is_none() {
            self.rows.extend(row.id().and_then(|id| DocumentId::new(id).ok()));
        }
        for path in shown.includes.iter().filter_map(|include| include.in_document.as_ref()) {
            path.ids(row.root()?, &mut |id| {
                // A text that is too long for an id names no document.
                if let Ok(id) = DocumentId::new(id)
                    && self.met.insert(id.clone())
                {
                    self.in_order.push(id);
                }
            })?;
        }
        Ok(())
    }
}

/// Each once, in the order of the list.
pub(crate) fn distinct(ids: Vec<DocumentId>) -> impl Iterator<Item = DocumentId> {
    let mut met = HashSet::new();
    ids.into_iter().filter(move |id| met.insert(id.clone()))
}
