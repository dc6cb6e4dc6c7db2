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
    plaintext::Plaintext,
};

/// Where pages come from: a snapshot, or a write transaction on top of one.
pub(crate) trait Pages: Sync {
    /// What [`Pages::renewed`] returns.
    type Renewed<'p>: Pages
    where
        Self: 'p;

    /// The page, or the whole run that starts there.
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError>;

    /// The same pages. Those that are read there do not occupy memory beyond its life: for walks over
    /// very many pages of an encrypted environment.
    fn renewed(&self) -> Self::Renewed<'_>;
}

/// Where the pages at rest come from: the mapped data file ([`MappedPages`]).
///
/// [`MappedPages`]: crate::data_file::MappedPages
pub(crate) trait PageSource: Send + Sync {
    /// The page, or the whole run that starts there; the bytes are verified.
    ///
    /// # Errors
    /// The device cannot read it, or it is damaged: an error of the request that wants it.
    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError>;

    /// The same in an encrypted environment, encrypted as it is and not verified.
    ///
    /// # Errors
    /// The device cannot read it.
    fn sealed_page(&self, page: PageNumber) -> Result<&[u8], StorageError>;

    /// Records that the page could be decrypted, until it is written again: the device need not be asked
    /// for it.
    fn note_verified(&self, page: PageNumber);
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

/// A snapshot as a transaction sees it. Clones share the decrypted pages.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// `None` unless the environment is encrypted.
    pub(crate) plaintext: Option<Arc<Plaintext>>,
}

impl std::ops::Deref for View {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl View {
    /// The decrypted form of a version in memory.
    pub(crate) fn open<'v>(
        &'v self,
        page: PageNumber,
        version: &'v [u8],
    ) -> Result<&'v [u8], StorageError> {
        match &self.plaintext {
            Some(plaintext) => plaintext.open(page, version),
            None => Ok(version),
        }
    }

    /// Bytes of the page, or of the whole run that starts there; an encrypted one is not decrypted for that.
    pub(crate) fn bytes_of(&self, page: PageNumber) -> Result<usize, StorageError> {
        Ok(self.stored_bytes_of(page)?.len())
    }

    /// The page or run as it is stored: one of an encrypted environment is not decrypted, and only its number, its
    /// transaction and its kind can be read.
    pub(crate) fn stored_bytes_of(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        match (self.table.get(page), &self.plaintext) {
            (Some(version), _) => Ok(version.bytes()),
            (None, Some(_)) => self.data.sealed_page(page),
            (None, None) => self.data.page(page),
        }
    }

    /// The same, verified. The content of a run, which may be long, is not kept in memory for that.
    pub(crate) fn verified_bytes_of(&self, page: PageNumber) -> Result<usize, StorageError> {
        let Some(plaintext) = &self.plaintext else { return Ok(self.page(page)?.len()) };
        match self.table.get(page) {
            Some(version) => Ok(version.bytes().len()),
            None => plaintext.verify(page, self.data.sealed_page(page)?),
        }
    }

    /// The page in the data file, whatever is in memory.
    pub(crate) fn page_at_rest(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        let Some(plaintext) = &self.plaintext else { return self.data.page(page) };
        let opened = plaintext.open(page, self.data.sealed_page(page)?)?;
        self.data.note_verified(page);
        Ok(opened)
    }
}

impl Pages for View {
    type Renewed<'p> = View;

    fn page(&self, page: PageNumber) -> Result<&[u8], StorageError> {
        match self.table.get(page) {
            Some(version) => self.open(page, version.bytes()),
            None => self.page_at_rest(page),
        }
    }

    fn renewed(&self) -> View {
        let plaintext = self.plaintext.as_ref().map(|plaintext| Arc::new(plaintext.renewed()));
        View { snapshot: self.snapshot.clone(), plaintext }
    }
}
