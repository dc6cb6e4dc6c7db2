//! One consistent state of an environment: what a read transaction reads and a write transaction
//! builds on. Immutable once published.

use std::sync::Arc;

use crate::{
    catalog::TreeState,
    error::StorageError,
    format::{PAGE_BYTES, PageKind, PageNumber, init_page, page_kind, read_u64},
    free_space::FreeSpaceSummary,
    page_mut::{Lines, PageMut},
    page_table::PageTable,
};

/// Where pages come from: a snapshot, or a write transaction on top of one.
pub(crate) trait Pages: Sync {
    /// The page, or the whole run that starts there.
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError>;
}

/// Where the pages at rest come from. Today they are mapped as they are ([`MappedPages`]); an encrypted
/// environment decrypts them.
///
/// [`MappedPages`]: crate::data_file::MappedPages
pub(crate) trait PageSource: Send + Sync {
    /// The page, or the whole run that starts there; the bytes are verified.
    ///
    /// # Errors
    /// The device cannot read it, or it is damaged: an error of the request that wants it.
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError>;
}

/// The page that holds the [`EnvironmentRoot`]; 0 and 1 hold the header's two copies.
pub(crate) const ROOT_PAGE: PageNumber = PageNumber(2);

const NEXT_PAGE: usize = 64;
const ROOT_TREE: usize = 72;

/// What the root page says.
///
/// ```text
/// 64 next page u64 · 72 state of the tree of named trees (32 bytes, see catalog.rs)
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvironmentRoot {
    /// The first page that was never allocated.
    pub(crate) next_page: PageNumber,
    /// The tree that maps names to trees.
    pub(crate) root_tree: TreeState,
}

impl EnvironmentRoot {
    pub(crate) fn read(page: &[u8]) -> Result<Self, StorageError> {
        if page_kind(page) != Some(PageKind::Root) {
            return Err(StorageError::structure(ROOT_PAGE, "it is not a root page"));
        }
        Ok(Self {
            next_page: PageNumber(read_u64(page, NEXT_PAGE)),
            root_tree: TreeState::read(&page[ROOT_TREE..ROOT_TREE + TreeState::BYTES], ROOT_PAGE)?,
        })
    }

    pub(crate) fn write_to(&self, page: &mut PageMut<'_>) {
        page.write_u64(NEXT_PAGE, self.next_page.0);
        page.write(ROOT_TREE, &self.root_tree.to_bytes());
    }

    /// The root page of a new environment.
    pub(crate) fn first_page(&self) -> Box<[u8]> {
        let mut page = vec![0; PAGE_BYTES].into_boxed_slice();
        init_page(&mut page, ROOT_PAGE, PageKind::Root);
        let mut lines = Lines::NONE;
        self.write_to(&mut PageMut::new(&mut page, &mut lines));
        page
    }
}

pub(crate) struct Snapshot {
    /// The newest transaction in it.
    pub(crate) transaction: u64,
    pub(crate) table: PageTable,
    pub(crate) root: EnvironmentRoot,
    pub(crate) data: Arc<dyn PageSource>,
    pub(crate) free_space: Arc<FreeSpaceSummary>,
}

impl Pages for Snapshot {
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        match self.table.get(page) {
            Some(version) => Ok(version.bytes()),
            None => self.data.page(page),
        }
    }
}
