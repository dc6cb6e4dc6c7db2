//! Changing a tree with variable keys.
//!
//! A page splits when an entry does not fit even after it was rewritten, and is merged with a
//! neighbour when it falls under a quarter. A page that was filled in ascending order is left full
//! when it splits: sequential keys make full pages.

use super::node::{
    Entry, Node, Payload, VALUE_INLINE_MAX, entry_bytes, init_node, node_bytes, overwrite_value,
    remove_entry, set_leftmost, shortest_separator, try_insert, write_node,
};
use crate::{
    catalog::TreeState,
    error::StorageError,
    format::{KEY_BYTES_MAX, PAGE_BYTES, PageKind, PageNumber},
    snapshot::Pages,
    write_pages::WritePages,
};

/// Pages with fewer bytes in use are merged with a neighbour …
const UNDERFULL_BYTES: usize = PAGE_BYTES / 4;
/// … if together they leave some room.
const MERGED_BYTES_MAX: usize = PAGE_BYTES * 3 / 4;

/// The branches above a page and the child taken in each.
type Path = Vec<(PageNumber, usize)>;

/// Stores the value under the key; true when the key is new.
pub(crate) fn put(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: &[u8],
    value: &[u8],
) -> Result<bool, StorageError> {
    store(pages, state, key, value, true)
}

/// Stores the value under a new key; false, and nothing changes, when the key is there.
pub(crate) fn insert_new(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: &[u8],
    value: &[u8],
) -> Result<bool, StorageError> {
    store(pages, state, key, value, false)
}

/// True when the key is new. An existing key gets the value only when it may be replaced.
fn store(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: &[u8],
    value: &[u8],
    may_replace: bool,
) -> Result<bool, StorageError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(StorageError::KeyTooLong { bytes: key.len() });
    }
    if state.depth == 0 {
        state.root = pages.allocate_page(PageKind::TreeLeaf)?;
        init_node(&mut pages.page_mut(state.root)?, None);
        state.depth = 1;
    }
    let (mut path, leaf) = descend(pages, state, key)?;
    let found = Node::leaf(pages.page(leaf)?, leaf)?.search(key);
    if let Ok(index) = found {
        if !may_replace || overwrite_value(&mut pages.page_mut(leaf)?, index, value) {
            return Ok(false);
        }
        remove_value(pages, leaf, index)?;
    }
    let index = found.unwrap_or_else(|place| place);
    let payload = store_value(pages, value)?;
    insert(pages, state, &mut path, leaf, index, key, payload)?;
    if found.is_err() {
        state.entries += 1;
    }
    Ok(found.is_err())
}

/// Removes the key; false when it was not there.
pub(crate) fn delete(
    pages: &mut WritePages,
    state: &mut TreeState,
    key: &[u8],
) -> Result<bool, StorageError> {
    if state.depth == 0 {
        return Ok(false);
    }
    let (mut path, leaf) = descend(pages, state, key)?;
    let Ok(index) = Node::leaf(pages.page(leaf)?, leaf)?.search(key) else { return Ok(false) };
    remove_value(pages, leaf, index)?;
    state.entries -= 1;
    rebalance(pages, state, &mut path, leaf)?;
    Ok(true)
}

fn store_value<'a>(pages: &mut WritePages, value: &'a [u8]) -> Result<Payload<'a>, StorageError> {
    if value.len() <= VALUE_INLINE_MAX {
        return Ok(Payload::Value(value));
    }
    let page = pages.allocate_run(value)?;
    Ok(Payload::Run { page, bytes: value.len() as u32 })
}

fn remove_value(
    pages: &mut WritePages,
    leaf: PageNumber,
    index: usize,
) -> Result<(), StorageError> {
    if let Payload::Run { page, .. } = Node::leaf(pages.page(leaf)?, leaf)?.payload(index) {
        pages.free(page)?;
    }
    remove_entry(&mut pages.page_mut(leaf)?, index);
    Ok(())
}

fn descend(
    pages: &WritePages,
    state: &TreeState,
    key: &[u8],
) -> Result<(Path, PageNumber), StorageError> {
    let mut path = Path::with_capacity(usize::from(state.depth) + 1);
    let mut number = state.root;
    for _ in 1..state.depth {
        let node = Node::branch(pages.page(number)?, number)?;
        let index = node.child_for(key);
        path.push((number, index));
        number = node.child(index);
    }
    Ok((path, number))
}

/// Adds an entry to a page, splitting it (and the pages above) when it does not fit.
fn insert(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
    number: PageNumber,
    index: usize,
    key: &[u8],
    payload: Payload<'_>,
) -> Result<(), StorageError> {
    if try_insert(&mut pages.page_mut(number)?, index, key, payload) {
        return Ok(());
    }
    let old: Box<[u8]> = pages.page(number)?.into();
    let branch = matches!(payload, Payload::Child(_));
    let node = if branch { Node::branch(&old, number)? } else { Node::leaf(&old, number)? };
    let leftmost = branch.then(|| node.child(0));
    let mut entries: Vec<Entry<'_>> = node.entries().collect();
    entries.insert(index, Entry::new(key, payload));
    if node_bytes(&entries) <= PAGE_BYTES {
        write_node(&mut pages.page_mut(number)?, leftmost, &entries);
        return Ok(());
    }
    let last = entries.len() - 1;
    let at = if node.ascending() && index == last { last } else { middle(&entries) };
    let (separator, right) = if branch {
        split_branch(pages, number, leftmost, &entries, at)?
    } else {
        split_leaf(pages, number, &entries, at)?
    };
    add_child(pages, state, path, number, &separator, right)
}

/// The index that splits the bytes of the entries most evenly; both sides get at least one entry.
/// Neither side exceeds half of the total and half of the longest entry, so each fits in a page.
fn middle(entries: &[Entry<'_>]) -> usize {
    let total: usize = entries.iter().map(entry_bytes).sum();
    let mut left = 0;
    for (index, entry) in entries.iter().enumerate() {
        let bytes = entry_bytes(entry);
        if (left + bytes) * 2 >= total {
            let nearer_before = total - left * 2 < (left + bytes) * 2 - total;
            let at = if nearer_before { index } else { index + 1 };
            return at.clamp(1, entries.len() - 1);
        }
        left += bytes;
    }
    entries.len() - 1
}

fn split_leaf(
    pages: &mut WritePages,
    number: PageNumber,
    entries: &[Entry<'_>],
    at: usize,
) -> Result<(Vec<u8>, PageNumber), StorageError> {
    let separator = shortest_separator(&entries[at - 1].key(), &entries[at].key());
    let right = pages.allocate_page(PageKind::TreeLeaf)?;
    write_node(&mut pages.page_mut(right)?, None, &entries[at..]);
    write_node(&mut pages.page_mut(number)?, None, &entries[..at]);
    Ok((separator, right))
}

/// The entry at `at` moves up: its child becomes the leftmost of the right page.
fn split_branch(
    pages: &mut WritePages,
    number: PageNumber,
    leftmost: Option<PageNumber>,
    entries: &[Entry<'_>],
    at: usize,
) -> Result<(Vec<u8>, PageNumber), StorageError> {
    let Payload::Child(child) = entries[at].payload else {
        return Err(StorageError::structure(number, "a branch holds a value"));
    };
    let right = pages.allocate_page(PageKind::TreeBranch)?;
    write_node(&mut pages.page_mut(right)?, Some(child), &entries[at + 1..]);
    write_node(&mut pages.page_mut(number)?, leftmost, &entries[..at]);
    Ok((entries[at].key(), right))
}

/// Links a new page into the tree, to the right of `left`.
fn add_child(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
    left: PageNumber,
    separator: &[u8],
    right: PageNumber,
) -> Result<(), StorageError> {
    if let Some((parent, index)) = path.pop() {
        return insert(pages, state, path, parent, index, separator, Payload::Child(right));
    }
    let root = pages.allocate_page(PageKind::TreeBranch)?;
    let entry = Entry::new(separator, Payload::Child(right));
    write_node(&mut pages.page_mut(root)?, Some(left), &[entry]);
    state.root = root;
    state.depth += 1;
    Ok(())
}

/// Merges or removes a page that has become too empty.
fn rebalance(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
    number: PageNumber,
) -> Result<(), StorageError> {
    let branch = path.len() + 1 < usize::from(state.depth);
    let page = pages.page(number)?;
    let node = if branch { Node::branch(page, number)? } else { Node::leaf(page, number)? };
    if node.live_bytes() >= UNDERFULL_BYTES {
        return Ok(());
    }
    if !branch && node.count() == 0 {
        pages.free(number)?;
        return remove_child(pages, state, path);
    }
    let Some((parent, index)) = path.pop() else {
        if branch && node.count() == 0 {
            state.root = node.child(0);
            state.depth -= 1;
            pages.free(number)?;
        }
        return Ok(());
    };
    let siblings = Node::branch(pages.page(parent)?, parent)?.count();
    let merged = (index < siblings && merge(pages, parent, index, branch)?)
        || (index > 0 && merge(pages, parent, index - 1, branch)?);
    if merged { rebalance(pages, state, path, parent) } else { Ok(()) }
}

/// Removes a freed page from the branch above it, which may itself be removed in turn.
fn remove_child(
    pages: &mut WritePages,
    state: &mut TreeState,
    path: &mut Path,
) -> Result<(), StorageError> {
    let Some((parent, index)) = path.pop() else {
        state.root = PageNumber(0);
        state.depth = 0;
        return Ok(());
    };
    let node = Node::branch(pages.page(parent)?, parent)?;
    if node.count() == 0 {
        pages.free(parent)?;
        return remove_child(pages, state, path);
    }
    if index == 0 {
        let second = node.child(1);
        let mut page = pages.page_mut(parent)?;
        set_leftmost(&mut page, second);
        remove_entry(&mut page, 0);
    } else {
        remove_entry(&mut pages.page_mut(parent)?, index - 1);
    }
    rebalance(pages, state, path, parent)
}

/// Joins child `index` of the parent with the one after it, if they fit in one page.
fn merge(
    pages: &mut WritePages,
    parent: PageNumber,
    index: usize,
    branch: bool,
) -> Result<bool, StorageError> {
    let above = Node::branch(pages.page(parent)?, parent)?;
    let (left, right) = (above.child(index), above.child(index + 1));
    let separator = above.entry(index).key();
    let (left_bytes, right_bytes): (Box<[u8]>, Box<[u8]>) =
        (pages.page(left)?.into(), pages.page(right)?.into());
    let mut entries: Vec<Entry<'_>>;
    let mut leftmost = None;
    if branch {
        let (left_node, right_node) =
            (Node::branch(&left_bytes, left)?, Node::branch(&right_bytes, right)?);
        leftmost = Some(left_node.child(0));
        entries = left_node.entries().collect();
        entries.push(Entry::new(&separator, Payload::Child(right_node.child(0))));
        entries.extend(right_node.entries());
    } else {
        entries = Node::leaf(&left_bytes, left)?.entries().collect();
        entries.extend(Node::leaf(&right_bytes, right)?.entries());
    }
    if node_bytes(&entries) > MERGED_BYTES_MAX {
        return Ok(false);
    }
    write_node(&mut pages.page_mut(left)?, leftmost, &entries);
    pages.free(right)?;
    remove_entry(&mut pages.page_mut(parent)?, index);
    Ok(true)
}
