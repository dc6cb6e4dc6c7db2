//! The number of entries in a part of the log, and its last etag.

use model::Etag;
use storage::{StorageError, Transaction};

use super::{
    reader::LogReader,
    selection::{SelectedTree, Selection, trees_of},
};
use crate::error::DocumentError;

/// How many selected entries come after an etag; counting ends at `at_most`. Entries that more than one
/// selection has are counted for each. Reads no rows, unless only one of two kinds that share a table is
/// selected.
///
/// # Errors
/// Storage errors.
pub fn count_after(
    tx: &impl Transaction,
    selections: &[Selection<'_>],
    after: Etag,
    at_most: u64,
) -> Result<u64, DocumentError> {
    let Some(from) = after.next() else { return Ok(0) };
    let mut counted = 0;
    for selected in trees_of(tx, selections)? {
        let at_most = at_most.saturating_sub(counted);
        counted += if selected.is_whole() {
            tx.fixed_tree(&selected.tree)?.count_from(from.0, at_most)?
        } else if selected.has_all_kinds() {
            let keys = tx.fixed_tree(&selected.tree)?.range(from.0)?;
            let keys = keys.take_while(|entry| is_up_to(entry.as_ref(), selected.last));
            counted_up_to(keys.map(|entry| Ok(entry.map(drop)?)), at_most)?
        } else {
            let entries = LogReader::over(tx, vec![selected], after)?;
            counted_up_to(entries.map(|entry| entry.map(drop)), at_most)?
        };
    }
    Ok(counted)
}

fn is_up_to(entry: Result<&(u64, &[u8]), &StorageError>, last: Etag) -> bool {
    entry.map_or(true, |(etag, _)| *etag <= last.0)
}

fn counted_up_to(
    entries: impl Iterator<Item = Result<(), DocumentError>>,
    at_most: u64,
) -> Result<u64, DocumentError> {
    let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
    entries.take(at_most).map(|entry| entry.map(|()| 1)).sum()
}

/// The etag of the last selected entry; zero when there is none. Reads no rows, unless only one of two kinds
/// that share a table is selected, or the selection ends at an etag.
///
/// # Errors
/// Storage errors.
pub fn last_etag(
    tx: &impl Transaction,
    selections: &[Selection<'_>],
) -> Result<Etag, DocumentError> {
    let mut last = Etag::ZERO;
    for selected in trees_of(tx, selections)? {
        last = last.max(match selected.is_whole() {
            true => {
                tx.fixed_tree(&selected.tree)?.last()?.map_or(Etag::ZERO, |(etag, _)| Etag(etag))
            }
            false => last_row(tx, &selected)?,
        });
    }
    Ok(last)
}

fn last_row(tx: &impl Transaction, selected: &SelectedTree) -> Result<Etag, DocumentError> {
    for row in tx.table(selected.table.schema).fixed_range_back(&selected.tree, selected.last.0)? {
        let (etag, bytes) = row?;
        if selected.table.kind_of(bytes).is_some_and(|kind| selected.kinds.contains(kind)) {
            return Ok(Etag(etag));
        }
    }
    Ok(Etag::ZERO)
}
