//! Documents, counters and compare exchange values that are loaded for a row.

use blittable::BlittableBuf;
use documents::{CounterRow, DocumentRow};

/// What `load` and projections loaded for one row.
pub(crate) enum Loaded<'t> {
    One(Option<DocumentRow<'t>>),
    Many(Vec<DocumentRow<'t>>),
    Counter(Option<CounterRow<'t>>),
    /// The compare exchange value stored for a key.
    Value(Option<BlittableBuf>),
}
