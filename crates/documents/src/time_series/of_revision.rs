//! `@timeseries-snapshot`: the extent of a document's series when a revision was created.

use blittable::{BlittableBuf, Document, Edit, Item, ObjectBuilder, modify};
use model::{DocumentId, date, ticks::TICKS_PER_MILLISECOND};
use storage::Transaction;

use super::read::series_of;
use crate::{
    error::DocumentError,
    metadata::{METADATA, TIME_SERIES},
};

/// The property of a revision's metadata that replaces the names.
const SNAPSHOT: &str = "@timeseries-snapshot";

/// The body of a revision: the document's, with the extent of its series instead of their names.
pub(crate) fn with_snapshot(
    tx: &impl Transaction,
    lower_id: &str,
    body: &Document<'_>,
) -> Result<BlittableBuf, DocumentError> {
    let mut snapshot = ObjectBuilder::new();
    for found in series_of(tx, &DocumentId::new(lower_id)?)? {
        let found = found?;
        let text = |moment: i64| date::format(moment.saturating_mul(TICKS_PER_MILLISECOND));
        let entries = i64::try_from(found.entries).unwrap_or(i64::MAX);
        snapshot
            .begin_object(&found.name)
            .put("Count", entries)
            .put("Start", text(found.start_ms).as_str())
            .put("End", text(found.end_ms).as_str())
            .end();
    }
    let snapshot = snapshot.finish()?;
    let snapshot = snapshot.as_view();
    Ok(modify(
        body,
        &[
            Edit::Remove { path: &[METADATA, TIME_SERIES] },
            Edit::Set {
                path: &[METADATA, SNAPSHOT],
                item: Item::Copy(blittable::Value::Object(snapshot.root())),
            },
        ],
    )?)
}

/// The body of a document that is restored from a revision.
pub(crate) fn without_snapshot(body: &Document<'_>) -> Result<BlittableBuf, DocumentError> {
    Ok(modify(body, &[Edit::Remove { path: &[METADATA, SNAPSHOT] }])?)
}
