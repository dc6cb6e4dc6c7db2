//! Checking an environment: every page is reachable or free, never both and never twice.

use std::ops::Bound;

use crate::{
    catalog::{TreeKind, TreeState},
    error::StorageError,
    fixed_tree,
    format::{PAGE_BYTES, PageNumber},
    free_space::{bitmap_page, is_free},
    rows::{self, RowId},
    snapshot::{Pages, ROOT_PAGE, View},
    transaction::ReadTransaction,
    tree,
};

/// After reading about this much, the memory for decrypted pages is released.
const RENEWED_BYTES: usize = 16 * 1024 * 1024;

/// What a check counted in a sound environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Pages in use.
    pub used_pages: u64,
    /// Pages that were used before and are free now.
    pub free_pages: u64,
    /// Named trees and tables.
    pub trees: u64,
    /// Entries of all trees, indexes of tables included.
    pub entries: u64,
    /// Rows of all tables.
    pub rows: u64,
}

impl ReadTransaction {
    /// Reads every page of the snapshot and checks that checksums, order, counts and references are
    /// right and that no page is used twice, lost, or both used and free. The first contradiction is
    /// the error.
    pub fn check(&self) -> Result<CheckReport, StorageError> {
        let snapshot = self.view();
        let mut check = Check {
            snapshot,
            used: vec![false; snapshot.root.next_page.get() as usize],
            report: CheckReport::default(),
        };
        check.fixed_places()?;
        check.trees()?;
        check.reachable_or_free()?;
        Ok(check.report)
    }
}

struct Check<'a> {
    snapshot: &'a View,
    used: Vec<bool>,
    report: CheckReport,
}

impl Check<'_> {
    fn mark(&mut self, page: PageNumber) -> Result<(), StorageError> {
        let pages = self.snapshot.bytes_of(page)? / PAGE_BYTES;
        for number in page.get()..page.get() + pages as u64 {
            match self.used.get_mut(number as usize) {
                Some(used) if !*used => *used = true,
                Some(_) => return Err(StorageError::structure(page, "it is used twice")),
                None => return Err(StorageError::structure(page, "it is past the end")),
            }
        }
        Ok(())
    }

    fn fixed_places(&mut self) -> Result<(), StorageError> {
        self.used[0] = true;
        self.used[1] = true;
        self.mark(ROOT_PAGE)?;
        let mut section = 0;
        while bitmap_page(section) < self.snapshot.root.next_page {
            self.mark(bitmap_page(section))?;
            section += 1;
        }
        Ok(())
    }

    fn trees(&mut self) -> Result<(), StorageError> {
        let (snapshot, root_tree) = (self.snapshot, self.snapshot.root.root_tree);
        tree::walk_pages(snapshot, &root_tree, &mut |page| self.mark(page))?;
        for entry in tree::range(snapshot, &root_tree, Bound::Unbounded)? {
            let (name, bytes) = entry?;
            let state = TreeState::read(bytes, root_tree.root)?;
            self.report.trees += 1;
            match state.kind {
                TreeKind::Variable => {
                    tree::walk_pages(snapshot, &state, &mut |page| self.mark(page))?;
                    self.report.entries += state.entries;
                    if let Some(table) = name.strip_suffix(b"/Primary")
                        && state.flags & TreeState::OWNED_BY_TABLE != 0
                    {
                        self.rows(table, &state)?;
                    }
                }
                TreeKind::Fixed => {
                    fixed_tree::walk_pages(snapshot, &state, &mut |page| self.mark(page))?;
                    self.report.entries += state.entries;
                }
                TreeKind::Rows => self.rows_without_keys(&name, &state)?,
            }
        }
        Ok(())
    }

    /// The rows of a table, found through its primary key.
    fn rows(&mut self, table: &[u8], primary: &TreeState) -> Result<(), StorageError> {
        let snapshot = self.snapshot;
        let name = [table, b"/Rows"].concat();
        let Some(bytes) = tree::get(snapshot, &snapshot.root.root_tree, &name)? else {
            return Err(StorageError::structure(primary.root, "a table has keys but no rows"));
        };
        let state = TreeState::read(bytes, snapshot.root.root_tree.root)?;
        let mut pages = std::collections::BTreeSet::new();
        if state.root.get() != 0 {
            pages.insert(state.root);
        }
        let (mut rows, mut bytes) = (0, 0);
        let mut after = None;
        loop {
            let view = snapshot.renewed();
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut entries = tree::range(&view, primary, from)?;
            let mut read_bytes = 0;
            after = loop {
                let Some(entry) = entries.next() else { break None };
                let (key, id) = entry?;
                let id = RowId::from_bytes(id)?;
                let row_bytes = rows::get(&view, id)?.len();
                bytes += row_bytes as u64;
                rows += 1;
                pages.insert(id.page());
                read_bytes += PAGE_BYTES + row_bytes;
                if RENEWED_BYTES < read_bytes {
                    break Some(key);
                }
            };
            if after.is_none() {
                break;
            }
        }
        if rows != state.entries || bytes != state.extra {
            return Err(StorageError::structure(primary.root, "a table miscounts its rows"));
        }
        self.report.rows += rows;
        pages.into_iter().try_for_each(|page| self.mark(page))
    }

    /// The page for the next row of a table that has had no row at the end of any transaction: such
    /// a table has no key tree through which the page could be found.
    fn rows_without_keys(&mut self, name: &[u8], state: &TreeState) -> Result<(), StorageError> {
        let table = name.strip_suffix(b"/Rows").unwrap_or(name);
        let primary = [table, b"/Primary"].concat();
        let snapshot = self.snapshot;
        if tree::get(snapshot, &snapshot.root.root_tree, &primary)?.is_some() {
            return Ok(());
        }
        if state.entries != 0 {
            return Err(StorageError::structure(state.root, "a table has rows but no keys"));
        }
        if state.root.get() == 0 { Ok(()) } else { self.mark(state.root) }
    }

    fn reachable_or_free(&mut self) -> Result<(), StorageError> {
        for number in 0..self.used.len() {
            let page = PageNumber(number as u64);
            let free = number >= 4 && is_free(self.snapshot, page)?;
            match (self.used[number], free) {
                (true, false) => self.report.used_pages += 1,
                (false, true) => self.report.free_pages += 1,
                (true, true) => return Err(StorageError::structure(page, "it is used and free")),
                (false, false) => return Err(StorageError::structure(page, "it is lost")),
            }
        }
        Ok(())
    }
}
