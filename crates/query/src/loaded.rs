//! Documents, counters and compare exchange values that are fetched for a row.

use blittable::BlittableBuf;
use documents::{CounterRow, DocumentRow};

/// What `load` and projections fetched for one row.
pub(crate) enum Loaded<'t> {
    One(Option<DocumentRow<'t>>),
    Many(Vec<DocumentRow<'t>>),
    Counter(Option<CounterRow<'t>>),
    /// The value of compare exchange that is stored for a key.
    Value(Option<BlittableBuf>),
}
