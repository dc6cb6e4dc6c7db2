//! The logs of several tables and collections as one.

use model::Etag;
use storage::{FixedRows, RowBy, Transaction};

use super::{
    entry::LogEntry,
    kinds::EntryKinds,
    selection::{SelectedTree, Selection, trees_of, trees_of_number},
    tables::LogTable,
};
use crate::error::DocumentError;

/// Entries of the log in the order of their etags.
///
/// One tree is scanned as it is; several are merged, by looking at the next row of each.
pub struct LogReader<'t, T: Transaction> {
    tx: &'t T,
    streams: Vec<Stream<'t, T>>,
    returned: Returned,
}

/// The entries that have been returned at one etag. A table has one row at an etag, so the table says which row it
/// was; where it lies in memory says nothing.
struct Returned {
    etag: Etag,
    /// A bit for each table.
    tables: u16,
}

impl Returned {
    fn contains(&self, etag: Etag, table: &LogTable) -> bool {
        etag == self.etag && self.tables & table.bit() != 0
    }

    fn add(&mut self, etag: Etag, table: &LogTable) {
        if etag != self.etag {
            *self = Self { etag, tables: 0 };
        }
        self.tables |= table.bit();
    }
}

/// Selected rows of one tree.
struct Stream<'t, T: Transaction> {
    table: &'static LogTable,
    /// The kinds that are selected; `None` when all of the table are.
    kinds: Option<EntryKinds>,
    /// The last etag that is selected.
    last: Etag,
    rows: FixedRows<'t, T>,
    /// The next row, where streams are merged.
    next: Option<RowBy<'t, u64>>,
}

/// Reads the log after an etag: what any of the selections selects.
///
/// # Errors
/// Storage errors; each entry may be a damaged row. An error of the storage comes before entries
/// that are not read yet, whatever their etags, and ends the tree that it is in.
pub fn read<'t, T: Transaction>(
    tx: &'t T,
    selections: &[Selection<'_>],
    after: Etag,
) -> Result<LogReader<'t, T>, DocumentError> {
    LogReader::over(tx, trees_of(tx, selections)?, after)
}

/// As [`read`], of the collection of that number.
pub(crate) fn read_number<'t, T: Transaction>(
    tx: &'t T,
    kinds: impl Into<EntryKinds>,
    number: u32,
    after: Etag,
) -> Result<LogReader<'t, T>, DocumentError> {
    LogReader::over(tx, trees_of_number(kinds.into(), number), after)
}

impl<'t, T: Transaction> LogReader<'t, T> {
    pub(super) fn over(
        tx: &'t T,
        trees: Vec<SelectedTree>,
        after: Etag,
    ) -> Result<Self, DocumentError> {
        // No change has the last of all etags, so nothing is missed behind it.
        let from = after.next().map_or(u64::MAX, |etag| etag.0);
        let is_merged = 1 < trees.len();
        let mut streams = Vec::with_capacity(trees.len());
        for selected in trees {
            let rows = tx.table(selected.table.schema).fixed_range(&selected.tree, from)?;
            let kinds = if selected.has_all_kinds() { None } else { Some(selected.kinds) };
            let SelectedTree { table, last, .. } = selected;
            let mut stream = Stream { table, kinds, last, rows, next: None };
            if is_merged {
                stream.next = stream.next_selected();
            }
            streams.push(stream);
        }
        Ok(Self { tx, streams, returned: Returned { etag: after, tables: 0 } })
    }

    fn next_row(&mut self) -> Option<(&'static LogTable, RowBy<'t, u64>)> {
        if let [stream] = self.streams.as_mut_slice() {
            return Some((stream.table, stream.next_selected()?));
        }
        // An error comes first: no entry behind it may be taken for the next one.
        let etag_of = |row: &RowBy<'t, u64>| row.as_ref().map_or(0, |(etag, _)| *etag);
        let streams = self.streams.iter_mut();
        let first = streams
            .filter_map(|stream| Some((etag_of(stream.next.as_ref()?), stream)))
            .min_by_key(|(etag, _)| *etag);
        let (_, stream) = first?;
        let row = stream.next.take()?;
        stream.next = stream.next_selected();
        Some((stream.table, row))
    }
}

impl<'t, T: Transaction> Iterator for LogReader<'t, T> {
    type Item = Result<LogEntry<'t>, DocumentError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (table, row) = self.next_row()?;
            let (etag, bytes) = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error.into())),
            };
            // More than one selection has it.
            if self.returned.contains(Etag(etag), table) {
                continue;
            }
            let entry = table.read(self.tx, bytes);
            if entry.is_ok() {
                self.returned.add(Etag(etag), table);
            }
            return Some(entry);
        }
    }
}

impl<'t, T: Transaction> Stream<'t, T> {
    #[inline]
    fn next_selected(&mut self) -> Option<RowBy<'t, u64>> {
        let row = match self.kinds {
            None => self.rows.next(),
            Some(kinds) => self.rows.find(|row| match row {
                Ok((etag, _)) if self.last.0 < *etag => true,
                Ok((_, bytes)) => self.table.kind_of(bytes).is_none_or(|kind| kinds.contains(kind)),
                Err(_) => true,
            }),
        };
        row.filter(|row| row.as_ref().map_or(true, |(etag, _)| *etag <= self.last.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tables::LOG_TABLES;

    #[test]
    fn entries_of_different_tables_at_one_etag_are_different_entries() {
        let mut returned = Returned { etag: Etag(4), tables: 0 };
        for table in LOG_TABLES {
            assert!(!returned.contains(Etag(5), table));
            returned.add(Etag(5), table);
            assert!(returned.contains(Etag(5), table) && !returned.contains(Etag(6), table));
        }
        returned.add(Etag(6), &LOG_TABLES[0]);
        assert!(!returned.contains(Etag(6), &LOG_TABLES[1]));
    }
}
