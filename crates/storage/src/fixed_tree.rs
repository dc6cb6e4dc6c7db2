//! B+trees with 8-byte keys and values of one length: etag → row, page → nothing, ….
//!
//! ```text
//! leaf     64 value bytes u16 · 72 …  key u64 · value      sorted by key
//! branch   72 …  key u64 · child u64                       child i holds the keys at or above key i
//! ```
//!
//! The first key of a branch is never compared: child 0 also holds everything below it.

use crate::{
    catalog::TreeState,
    error::StorageError,
    format::{
        PAGE_BYTES, PageKind, PageNumber, page_count, page_kind, read_u16, read_u64, write_u64,
    },
    page_mut::PageMut,
    snapshot::Pages,
    transaction::FixedEntry,
    write_pages::WritePages,
};

const VALUE_BYTES: usize = 64;
const ENTRIES: usize = 72;
const CHILD_BYTES: usize = 8;
/// The longest value, in bytes.
pub(crate) const FIXED_VALUE_BYTES_MAX: usize = 64;

/// A page of a fixed tree, for reading.
#[derive(Clone, Copy)]
struct Node<'a> {
    page: &'a [u8],
    stride: usize,
}

impl<'a> Node<'a> {
    fn leaf(page: &'a [u8], number: PageNumber, value_bytes: u16) -> Result<Self, StorageError> {
        if page_kind(page) != Some(PageKind::FixedLeaf)
            || read_u16(page, VALUE_BYTES) != value_bytes
        {
            return Err(StorageError::structure(number, "it is not a leaf of that fixed tree"));
        }
        Ok(Self { page, stride: 8 + usize::from(value_bytes) })
    }

    fn branch(page: &'a [u8], number: PageNumber) -> Result<Self, StorageError> {
        if page_kind(page) != Some(PageKind::FixedBranch) || page_count(page) == 0 {
            return Err(StorageError::structure(number, "it is not a branch of a fixed tree"));
        }
        Ok(Self { page, stride: 8 + CHILD_BYTES })
    }

    fn count(&self) -> usize {
        page_count(self.page)
    }

    fn at(&self, index: usize) -> usize {
        ENTRIES + index * self.stride
    }

    fn key(&self, index: usize) -> u64 {
        read_u64(self.page, self.at(index))
    }

    fn value(&self, index: usize) -> &'a [u8] {
        &self.page[self.at(index) + 8..self.at(index) + self.stride]
    }

    fn child(&self, index: usize) -> PageNumber {
        PageNumber(read_u64(self.page, self.at(index) + 8))
    }

    /// Entries whose key is below `key`.
    fn lower_bound(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn child_for(&self, key: u64) -> usize {
        let place = self.lower_bound(key);
        if place < self.count() && self.key(place) == key { place } else { place.saturating_sub(1) }
    }
}

fn capacity(stride: usize) -> usize {
    (PAGE_BYTES - ENTRIES) / stride
}

fn insert_at(page: &mut PageMut<'_>, stride: usize, index: usize, key: u64, value: &[u8]) {
    let (count, at) = (page_count(page), ENTRIES + index * stride);
    page.shift(at..ENTRIES + count * stride, at + stride);
    page.write_u64(at, key);
    page.write(at + 8, value);
    page.set_count(count + 1);
}

fn remove_at(page: &mut PageMut<'_>, stride: usize, index: usize) {
    let (count, at) = (page_count(page), ENTRIES + index * stride);
    page.shift(at + stride..ENTRIES + count * stride, at);
    page.set_count(count - 1);
}

/// The branches above a page and the child taken in each.
type Path = Vec<(PageNumber, usize)>;

pub(crate) fn get<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    key: u64,
) -> Result<Option<&'t [u8]>, StorageError> {
    if state.depth == 0 {
        return Ok(None);
    }
    let (_, number) = descend(pages, state, key)?;
    let leaf = Node::leaf(pages.page(number)?, number, state.value_bytes)?;
    let index = leaf.lower_bound(key);
    Ok((index < leaf.count() && leaf.key(index) == key).then(|| leaf.value(index)))
}

fn descend<P: Pages>(
    pages: &P,
    state: &TreeState,
    key: u64,
) -> Result<(Path, PageNumber), StorageError> {
    let mut path = Path::new();
    let mut number = state.root;
    for _ in 1..state.depth {
        let node = Node::branch(pages.page(number)?, number)?;
        let index = node.child_for(key);
        path.push((number, index));
        number = node.child(index);
    }
    Ok((path, number))
}

/// Stores the value (of `state.value_bytes` bytes) under the key; true when the key is new.
pub(crate) fn put(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: u64,
    value: &[u8],
) -> Result<bool, StorageError> {
    if value.len() != usize::from(state.value_bytes) || value.len() > FIXED_VALUE_BYTES_MAX {
        return Err(StorageError::ValueTooLong { bytes: value.len() });
    }
    if state.depth == 0 {
        state.root = new_leaf(pages, state)?;
        state.depth = 1;
    }
    let (mut path, number) = descend(pages, state, key)?;
    let leaf = Node::leaf(pages.page(number)?, number, state.value_bytes)?;
    let (index, stride) = (leaf.lower_bound(key), leaf.stride);
    if index < leaf.count() && leaf.key(index) == key {
        let at = leaf.at(index) + 8;
        pages.page_mut(number)?.write(at, value);
        return Ok(false);
    }
    state.entries += 1;
    if leaf.count() < capacity(stride) {
        insert_at(&mut pages.page_mut(number)?, stride, index, key, value);
        return Ok(true);
    }
    let right = new_leaf(pages, state)?;
    let first = split(pages, number, right, stride, index)?;
    let (target, index) = place_after_split(pages, number, right, index)?;
    insert_at(&mut pages.page_mut(target)?, stride, index, key, value);
    let separator = if target == right && index == 0 { key } else { first.unwrap_or(key) };
    add_child(pages, state, &mut path, number, separator, right)?;
    Ok(true)
}

fn new_leaf(pages: &mut WritePages, state: &TreeState) -> Result<PageNumber, StorageError> {
    let number = pages.allocate_page(PageKind::FixedLeaf)?;
    pages.page_mut(number)?.write_u16(VALUE_BYTES, state.value_bytes);
    Ok(number)
}

/// Moves the upper half of a full page to the empty `right`; moves nothing when the new entry goes
/// at the end, so that ascending keys leave full pages behind. Returns the first key of `right`.
fn split(
    pages: &mut WritePages,
    left: PageNumber,
    right: PageNumber,
    stride: usize,
    index: usize,
) -> Result<Option<u64>, StorageError> {
    let page = pages.page(left)?;
    let count = page_count(page);
    if index == count {
        return Ok(None);
    }
    let keep = count / 2;
    let moved = page[ENTRIES + keep * stride..ENTRIES + count * stride].to_vec();
    pages.page_mut(left)?.set_count(keep);
    let mut page = pages.page_mut(right)?;
    page.write(ENTRIES, &moved);
    page.set_count(count - keep);
    Ok(Some(read_u64(&moved, 0)))
}

fn place_after_split(
    pages: &WritePages,
    left: PageNumber,
    right: PageNumber,
    index: usize,
) -> Result<(PageNumber, usize), StorageError> {
    let kept = page_count(pages.page(left)?);
    let moved = page_count(pages.page(right)?);
    Ok(if index > kept || moved == 0 { (right, index - kept) } else { (left, index) })
}

fn add_child(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
    left: PageNumber,
    separator: u64,
    right: PageNumber,
) -> Result<(), StorageError> {
    let stride = 8 + CHILD_BYTES;
    let child = right.0.to_le_bytes();
    let Some((parent, below)) = path.pop() else {
        let root = pages.allocate_page(PageKind::FixedBranch)?;
        let mut page = pages.page_mut(root)?;
        insert_at(&mut page, stride, 0, 0, &left.0.to_le_bytes());
        insert_at(&mut page, stride, 1, separator, &child);
        state.root = root;
        state.depth += 1;
        return Ok(());
    };
    let index = below + 1;
    if page_count(pages.page(parent)?) < capacity(stride) {
        insert_at(&mut pages.page_mut(parent)?, stride, index, separator, &child);
        return Ok(());
    }
    let sibling = pages.allocate_page(PageKind::FixedBranch)?;
    let first = split(pages, parent, sibling, stride, index)?;
    let (target, index) = place_after_split(pages, parent, sibling, index)?;
    insert_at(&mut pages.page_mut(target)?, stride, index, separator, &child);
    let first =
        if target == sibling && index == 0 { separator } else { first.unwrap_or(separator) };
    add_child(pages, state, path, parent, first, sibling)
}

/// Removes the key; false when it was not there.
pub(crate) fn delete(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: u64,
) -> Result<bool, StorageError> {
    if state.depth == 0 {
        return Ok(false);
    }
    let (mut path, number) = descend(pages, state, key)?;
    let leaf = Node::leaf(pages.page(number)?, number, state.value_bytes)?;
    let (index, stride) = (leaf.lower_bound(key), leaf.stride);
    if index >= leaf.count() || leaf.key(index) != key {
        return Ok(false);
    }
    state.entries -= 1;
    remove_at(&mut pages.page_mut(number)?, stride, index);
    shrink(pages, state, &mut path, number, stride)?;
    Ok(true)
}

/// Removes an empty page from the tree, or merges an underfull one with a neighbour.
fn shrink(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
    number: PageNumber,
    stride: usize,
) -> Result<(), StorageError> {
    let page = pages.page(number)?;
    let (count, branch) = (page_count(page), page_kind(page) == Some(PageKind::FixedBranch));
    if count >= capacity(stride) / 4 {
        return Ok(());
    }
    let Some((parent, index)) = path.pop() else {
        return shrink_root(pages, state, number, count, branch);
    };
    let parent_stride = 8 + CHILD_BYTES;
    if count == 0 {
        pages.free(number)?;
        remove_at(&mut pages.page_mut(parent)?, parent_stride, index);
        return shrink(pages, state, path, parent, parent_stride);
    }
    let siblings = page_count(pages.page(parent)?);
    let merged = (index + 1 < siblings && merge(pages, parent, index, stride)?)
        || (index > 0 && merge(pages, parent, index - 1, stride)?);
    if merged { shrink(pages, state, path, parent, parent_stride) } else { Ok(()) }
}

fn shrink_root(
    pages: &mut WritePages,
    state: &mut TreeState,
    number: PageNumber,
    count: usize,
    branch: bool,
) -> Result<(), StorageError> {
    if count == 0 {
        pages.free(number)?;
        state.root = PageNumber(0);
        state.depth = 0;
    } else if branch && count == 1 {
        state.root = Node::branch(pages.page(number)?, number)?.child(0);
        state.depth -= 1;
        pages.free(number)?;
    }
    Ok(())
}

/// Joins child `index` of the parent with the next one, if both leave a quarter of a page free.
fn merge(
    pages: &mut WritePages,
    parent: PageNumber,
    index: usize,
    stride: usize,
) -> Result<bool, StorageError> {
    let above = Node::branch(pages.page(parent)?, parent)?;
    let (left, right, separator) =
        (above.child(index), above.child(index + 1), above.key(index + 1));
    let (kept, moved) = (page_count(pages.page(left)?), page_count(pages.page(right)?));
    if kept + moved > capacity(stride) * 3 / 4 {
        return Ok(false);
    }
    let mut bytes = pages.page(right)?[ENTRIES..ENTRIES + moved * stride].to_vec();
    if page_kind(pages.page(right)?) == Some(PageKind::FixedBranch) && moved > 0 {
        // The first key of a branch may be wrong, since it is never compared. Here it will be.
        write_u64(&mut bytes, 0, separator);
    }
    let mut page = pages.page_mut(left)?;
    page.write(ENTRIES + kept * stride, &bytes);
    page.set_count(kept + moved);
    pages.free(right)?;
    remove_at(&mut pages.page_mut(parent)?, 8 + CHILD_BYTES, index + 1);
    Ok(true)
}

/// Calls `visit` with every entry that can be reached in a tree some of whose pages are damaged,
/// and returns the number of pages that could not be read; for salvage. Visits at most `pages_max`
/// pages.
pub(crate) fn surviving_entries(
    read: crate::tree::ReadPage<'_>,
    state: &TreeState,
    pages_max: u64,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> u64 {
    let mut unreadable = 0;
    let mut pages_left = pages_max;
    let mut pending = vec![(state.root, state.depth)];
    while let Some((number, levels)) = pending.pop() {
        let Some(left) = pages_left.checked_sub(1) else { return unreadable + 1 };
        pages_left = left;
        let page = if levels == 0 { continue } else { read(number) };
        let Some(page) = page else {
            unreadable += 1;
            continue;
        };
        if levels == 1 {
            match Node::leaf(&page, number, state.value_bytes) {
                Ok(leaf) => {
                    (0..leaf.count()).for_each(|index| visit(leaf.key(index), leaf.value(index)));
                }
                Err(_) => unreadable += 1,
            }
        } else {
            match Node::branch(&page, number) {
                Ok(node) => pending
                    .extend((0..node.count()).rev().map(|index| (node.child(index), levels - 1))),
                Err(_) => unreadable += 1,
            }
        }
    }
    unreadable
}

/// The children of a branch.
pub(crate) fn children<P: Pages>(
    pages: &P,
    number: PageNumber,
) -> Result<Vec<PageNumber>, StorageError> {
    let node = Node::branch(pages.page(number)?, number)?;
    Ok((0..node.count()).map(|child| node.child(child)).collect())
}

/// Calls `visit` with every page of the tree; checks order and count on the way.
pub(crate) fn walk_pages<P: Pages>(
    pages: &P,
    state: &TreeState,
    visit: &mut dyn FnMut(PageNumber) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut entries = 0;
    let mut last = None;
    let mut pending = Vec::new();
    if state.depth > 0 {
        pending.push((state.root, state.depth));
    }
    // The pages of the leaves below one branch, which are read once, do not stay in memory.
    let mut of_leaves = pages.renewed();
    while let Some((number, levels)) = pending.pop() {
        visit(number)?;
        let page = if levels == 1 { of_leaves.page(number)? } else { pages.page(number)? };
        let node = match levels {
            1 => Node::leaf(page, number, state.value_bytes),
            _ => Node::branch(page, number),
        }?;
        if node.count() > capacity(node.stride) {
            return Err(StorageError::structure(number, "its entries are outside of it"));
        }
        if levels > 1 {
            pending.extend((0..node.count()).rev().map(|index| (node.child(index), levels - 1)));
            of_leaves = pages.renewed();
            continue;
        }
        for index in 0..node.count() {
            if last.is_some_and(|last| last >= node.key(index)) {
                return Err(StorageError::structure(number, "fixed keys are out of order"));
            }
            last = Some(node.key(index));
        }
        entries += node.count() as u64;
    }
    if entries != state.entries {
        return Err(StorageError::structure(state.root, "a fixed tree miscounts its entries"));
    }
    Ok(())
}

/// A position in a fixed tree.
struct Cursor<'t, P> {
    pages: &'t P,
    value_bytes: u16,
    path: Vec<(Node<'t>, usize)>,
    leaf: Option<Node<'t>>,
    /// Entries of the leaf before the position.
    index: usize,
}

impl<'t, P: Pages> Cursor<'t, P> {
    /// Before the first entry at or above `key`.
    fn seek(pages: &'t P, state: &TreeState, key: u64) -> Result<Self, StorageError> {
        let mut cursor =
            Self { pages, value_bytes: state.value_bytes, path: Vec::new(), leaf: None, index: 0 };
        if state.depth > 0 {
            cursor.descend(state.root, state.depth, |node| node.child_for(key))?;
            cursor.index = cursor.leaf.map_or(0, |leaf| leaf.lower_bound(key));
        }
        Ok(cursor)
    }

    fn descend(
        &mut self,
        from: PageNumber,
        levels: u8,
        choose: impl Fn(&Node<'t>) -> usize,
    ) -> Result<(), StorageError> {
        let mut number = from;
        for _ in 1..levels {
            let node = Node::branch(self.pages.page(number)?, number)?;
            let index = choose(&node);
            number = node.child(index);
            self.path.push((node, index));
        }
        self.leaf = Some(Node::leaf(self.pages.page(number)?, number, self.value_bytes)?);
        Ok(())
    }

    fn next_leaf(&mut self, forward: bool) -> Result<(), StorageError> {
        let mut climbed = 1u8;
        self.leaf = None;
        while let Some((node, index)) = self.path.pop() {
            let sibling = if forward { Some(index + 1) } else { index.checked_sub(1) };
            if let Some(sibling) = sibling.filter(|sibling| *sibling < node.count()) {
                self.path.push((node, sibling));
                self.descend(node.child(sibling), climbed, |node| {
                    if forward { 0 } else { node.count() - 1 }
                })?;
                self.index = if forward { 0 } else { self.leaf.map_or(0, |leaf| leaf.count()) };
                return Ok(());
            }
            climbed += 1;
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<Option<(u64, &'t [u8])>, StorageError> {
        while let Some(leaf) = self.leaf {
            if self.index < leaf.count() {
                self.index += 1;
                return Ok(Some((leaf.key(self.index - 1), leaf.value(self.index - 1))));
            }
            self.next_leaf(true)?;
        }
        Ok(None)
    }

    fn backward(&mut self) -> Result<Option<(u64, &'t [u8])>, StorageError> {
        while let Some(leaf) = self.leaf {
            if self.index > 0 {
                self.index -= 1;
                return Ok(Some((leaf.key(self.index), leaf.value(self.index))));
            }
            self.next_leaf(false)?;
        }
        Ok(None)
    }
}

/// Entries of a fixed tree in ascending or descending order.
pub(crate) struct FixedRange<'t, P: Pages> {
    cursor: Cursor<'t, P>,
    forward: bool,
}

impl<'t, P: Pages> Iterator for FixedRange<'t, P> {
    type Item = FixedEntry<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = if self.forward { self.cursor.forward() } else { self.cursor.backward() };
        if step.is_err() {
            self.cursor.leaf = None;
        }
        step.transpose()
    }
}

/// Ascending from `from`, inclusive.
pub(crate) fn range<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    from: u64,
) -> Result<FixedRange<'t, P>, StorageError> {
    Ok(FixedRange { cursor: Cursor::seek(pages, state, from)?, forward: true })
}

/// How many entries there are from `from`, inclusive; counting ends at `at_most`. Reads one page
/// per leaf, however many entries it holds.
pub(crate) fn count_from<P: Pages>(
    pages: &P,
    state: &TreeState,
    from: u64,
    at_most: u64,
) -> Result<u64, StorageError> {
    let mut cursor = Cursor::seek(pages, state, from)?;
    let mut counted = 0;
    while let Some(leaf) = cursor.leaf {
        counted += (leaf.count() - cursor.index) as u64;
        if at_most <= counted {
            return Ok(at_most);
        }
        cursor.next_leaf(true)?;
    }
    Ok(counted)
}

/// Descending from `to`, inclusive.
pub(crate) fn range_back<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    to: u64,
) -> Result<FixedRange<'t, P>, StorageError> {
    let mut cursor = Cursor::seek(pages, state, to)?;
    if let Some(leaf) = cursor.leaf
        && cursor.index < leaf.count()
        && leaf.key(cursor.index) == to
    {
        cursor.index += 1;
    }
    Ok(FixedRange { cursor, forward: false })
}
