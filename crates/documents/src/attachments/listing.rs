//! `@attachments`: the list of a document's attachments as its metadata shows it.

use blittable::ObjectBuilder;
use storage::Transaction;

use super::{read::of_owner, row::Owner};
use crate::{error::DocumentError, metadata::ATTACHMENTS};

/// Adds the list under its name in metadata; `false` when there is no attachment.
pub(crate) fn add_listing(
    tx: &impl Transaction,
    lower_id: &str,
    builder: &mut ObjectBuilder,
) -> Result<bool, DocumentError> {
    let mut rows = of_owner(tx, Owner::Document(lower_id))?.peekable();
    if rows.peek().is_none() {
        return Ok(false);
    }
    builder.begin_array(ATTACHMENTS);
    for row in rows {
        let row = row?;
        let bytes = i64::try_from(row.content_bytes()).unwrap_or(i64::MAX);
        builder
            .push_object()
            .put("Name", row.name())
            .put("Hash", row.hash().to_string().as_str())
            .put("ContentType", row.content_type())
            .put("Size", bytes)
            .end();
    }
    builder.end();
    Ok(true)
}
