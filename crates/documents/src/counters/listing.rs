//! `@counters`: the names of a document's counters as its metadata shows them.

use blittable::ObjectBuilder;
use storage::Transaction;

use super::read::of_document;
use crate::{error::DocumentError, metadata::COUNTERS};

/// Adds the list under its name in metadata; `false` when there is no counter.
pub(crate) fn add_listing(
    tx: &impl Transaction,
    lower_id: &str,
    builder: &mut ObjectBuilder,
) -> Result<bool, DocumentError> {
    let rows = of_document(tx, lower_id)?;
    let names = rows.map(|row| row.map(|row| (row.name().to_uppercase(), row.name())));
    let mut names = names.collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Ok(false);
    }
    // In lower case, `_` would sort before the letters; the protocol sorts it after them.
    names.sort_unstable();
    builder.begin_array(COUNTERS);
    for (_, name) in &names {
        builder.push(*name);
    }
    builder.end();
    Ok(true)
}
