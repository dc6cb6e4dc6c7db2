//! What was planned about the source of a query's rows, without the snapshots.

use std::sync::Arc;

use crate::index_rows::{IndexPlan, Page};
use crate::plan::Plan;

/// What was planned about the source of the rows.
#[derive(Clone)]
pub(crate) enum PlannedSource {
    /// Documents, which are read directly.
    Documents(Arc<Plan>),
    /// The entries of an index, and the page if it was found.
    Index(Arc<IndexPlan>, Option<Arc<Page>>),
}
