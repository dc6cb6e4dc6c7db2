//! Reading a tree with variable keys.

use std::ops::Bound;

use super::node::{Node, Payload};
use crate::{
    catalog::TreeState, error::StorageError, format::PageNumber, snapshot::Pages,
    transaction::TreeEntry, write_pages::run_content,
};

pub(crate) fn get<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    key: &[u8],
) -> Result<Option<&'t [u8]>, StorageError> {
    if state.depth == 0 {
        return Ok(None);
    }
    let mut number = state.root;
    for _ in 1..state.depth {
        let node = Node::branch(pages.page(number)?, number)?;
        number = node.child(node.child_for(key));
    }
    let leaf = Node::leaf(pages.page(number)?, number)?;
    match leaf.search(key) {
        Ok(index) => value_of(pages, leaf.payload(index)).map(Some),
        Err(_) => Ok(None),
    }
}

fn value_of<'t, P: Pages>(pages: &'t P, payload: Payload<'t>) -> Result<&'t [u8], StorageError> {
    match payload {
        Payload::Value(value) => Ok(value),
        Payload::Run { page, bytes } => {
            let content = run_content(pages.page(page)?);
            if content.len() != bytes as usize {
                return Err(StorageError::structure(page, "a run has not the length of its value"));
            }
            Ok(content)
        }
        Payload::Child(page) => Err(StorageError::structure(page, "a leaf names a child")),
    }
}

/// A position in a tree: the way down and a place in the leaf.
struct Cursor<'t, P> {
    pages: &'t P,
    path: Vec<(Node<'t>, usize)>,
    leaf: Option<Node<'t>>,
    index: usize,
}

impl<'t, P: Pages> Cursor<'t, P> {
    /// Before the first entry whose key is at or above `key`.
    fn seek(pages: &'t P, state: &TreeState, key: &[u8]) -> Result<Self, StorageError> {
        let mut cursor = Self { pages, path: Vec::new(), leaf: None, index: 0 };
        if state.depth > 0 {
            let number = cursor.descend(state.root, state.depth, |node| node.child_for(key))?;
            let leaf = Node::leaf(pages.page(number)?, number)?;
            cursor.index = leaf.search(key).unwrap_or_else(|place| place);
            cursor.leaf = Some(leaf);
        }
        Ok(cursor)
    }

    /// After the last entry.
    fn seek_end(pages: &'t P, state: &TreeState) -> Result<Self, StorageError> {
        let mut cursor = Self { pages, path: Vec::new(), leaf: None, index: 0 };
        if state.depth > 0 {
            let number = cursor.descend(state.root, state.depth, |node| node.count())?;
            let leaf = Node::leaf(pages.page(number)?, number)?;
            cursor.index = leaf.count();
            cursor.leaf = Some(leaf);
        }
        Ok(cursor)
    }

    fn descend(
        &mut self,
        from: PageNumber,
        levels: u8,
        choose: impl Fn(&Node<'t>) -> usize,
    ) -> Result<PageNumber, StorageError> {
        let mut number = from;
        for _ in 1..levels {
            let node = Node::branch(self.pages.page(number)?, number)?;
            let index = choose(&node);
            number = node.child(index);
            self.path.push((node, index));
        }
        Ok(number)
    }

    /// Moves to the next leaf (or the previous one); false at the end.
    fn next_leaf(&mut self, forward: bool) -> Result<bool, StorageError> {
        let mut climbed = 1u8;
        loop {
            let Some((node, index)) = self.path.pop() else {
                self.leaf = None;
                return Ok(false);
            };
            let sibling = if forward {
                (index < node.count()).then(|| index + 1)
            } else {
                index.checked_sub(1)
            };
            if let Some(sibling) = sibling {
                self.path.push((node, sibling));
                let number = self.descend(node.child(sibling), climbed, |node| {
                    if forward { 0 } else { node.count() }
                })?;
                let leaf = Node::leaf(self.pages.page(number)?, number)?;
                self.index = if forward { 0 } else { leaf.count() };
                self.leaf = Some(leaf);
                return Ok(true);
            }
            climbed += 1;
        }
    }

    fn forward(&mut self) -> Result<Option<(Node<'t>, usize)>, StorageError> {
        while let Some(leaf) = self.leaf {
            if self.index < leaf.count() {
                self.index += 1;
                return Ok(Some((leaf, self.index - 1)));
            }
            self.next_leaf(true)?;
        }
        Ok(None)
    }

    fn backward(&mut self) -> Result<Option<(Node<'t>, usize)>, StorageError> {
        while let Some(leaf) = self.leaf {
            if self.index > 0 {
                self.index -= 1;
                return Ok(Some((leaf, self.index)));
            }
            self.next_leaf(false)?;
        }
        Ok(None)
    }

    fn entry(&self, leaf: Node<'t>, index: usize) -> TreeEntry<'t> {
        let entry = leaf.entry(index);
        value_of(self.pages, entry.payload).map(|value| (entry.key(), value))
    }
}

/// Entries of a tree in ascending order of their keys.
pub(crate) struct TreeRange<'t, P: Pages>(Cursor<'t, P>);

/// Entries of a tree in descending order of their keys.
pub(crate) struct TreeRangeBack<'t, P: Pages>(Cursor<'t, P>);

pub(crate) fn range<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    from: Bound<&[u8]>,
) -> Result<TreeRange<'t, P>, StorageError> {
    let key = match from {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    };
    let mut cursor = Cursor::seek(pages, state, key)?;
    if let Bound::Excluded(key) = from
        && cursor.leaf.is_some_and(|leaf| leaf.search(key) == Ok(cursor.index))
    {
        cursor.index += 1;
    }
    Ok(TreeRange(cursor))
}

pub(crate) fn range_back<'t, P: Pages>(
    pages: &'t P,
    state: &TreeState,
    to: Bound<&[u8]>,
) -> Result<TreeRangeBack<'t, P>, StorageError> {
    let (Bound::Included(key) | Bound::Excluded(key)) = to else {
        return Ok(TreeRangeBack(Cursor::seek_end(pages, state)?));
    };
    let mut cursor = Cursor::seek(pages, state, key)?;
    if matches!(to, Bound::Included(_))
        && cursor.leaf.is_some_and(|leaf| leaf.search(key) == Ok(cursor.index))
    {
        cursor.index += 1;
    }
    Ok(TreeRangeBack(cursor))
}

impl<'t, P: Pages> Iterator for TreeRange<'t, P> {
    type Item = TreeEntry<'t>;
    fn next(&mut self) -> Option<Self::Item> {
        match self.0.forward() {
            Ok(place) => place.map(|(leaf, index)| self.0.entry(leaf, index)),
            Err(error) => {
                self.0.leaf = None;
                Some(Err(error))
            }
        }
    }
}

impl<'t, P: Pages> Iterator for TreeRangeBack<'t, P> {
    type Item = TreeEntry<'t>;
    fn next(&mut self) -> Option<Self::Item> {
        match self.0.backward() {
            Ok(place) => place.map(|(leaf, index)| self.0.entry(leaf, index)),
            Err(error) => {
                self.0.leaf = None;
                Some(Err(error))
            }
        }
    }
}

/// Walks a tree in either direction without an allocation per entry.
pub(crate) struct Scan<'t, P: Pages> {
    cursor: Cursor<'t, P>,
    forward: bool,
}

impl<'t, P: Pages> Scan<'t, P> {
    pub(crate) fn forward(range: TreeRange<'t, P>) -> Self {
        Self { cursor: range.0, forward: true }
    }

    pub(crate) fn backward(range: TreeRangeBack<'t, P>) -> Self {
        Self { cursor: range.0, forward: false }
    }
}

/// A scan, whatever its pages are.
pub(crate) trait Step<'t> {
    /// The next value; its key is written over `key`.
    fn step(&mut self, key: &mut Vec<u8>) -> Result<Option<&'t [u8]>, StorageError>;
}

impl<'t, P: Pages> Step<'t> for Scan<'t, P> {
    fn step(&mut self, key: &mut Vec<u8>) -> Result<Option<&'t [u8]>, StorageError> {
        let place = if self.forward { self.cursor.forward()? } else { self.cursor.backward()? };
        let Some((leaf, index)) = place else { return Ok(None) };
        let entry = leaf.entry(index);
        key.clear();
        key.extend_from_slice(entry.prefix);
        key.extend_from_slice(entry.suffix);
        value_of(self.cursor.pages, entry.payload).map(Some)
    }
}

/// The children of a branch.
pub(crate) fn children<P: Pages>(
    pages: &P,
    number: PageNumber,
) -> Result<Vec<PageNumber>, StorageError> {
    let node = Node::branch(pages.page(number)?, number)?;
    Ok((0..=node.count()).map(|child| node.child(child)).collect())
}

/// Calls `visit` with every page of the tree and every run its values live in; checks the pages, the
/// order of keys and the count of entries on the way.
pub(crate) fn walk_pages<P: Pages>(
    pages: &P,
    state: &TreeState,
    visit: &mut dyn FnMut(PageNumber) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut walk = Walk { pages, visit, entries: 0, last: None };
    match state.depth {
        0 => {}
        1 => walk.leaf(pages, state.root)?,
        depth => walk.node(state.root, depth)?,
    }
    if walk.entries != state.entries {
        return Err(StorageError::structure(
            state.root,
            "a tree has not as many entries as it says",
        ));
    }
    Ok(())
}

struct Walk<'a, P> {
    pages: &'a P,
    visit: &'a mut dyn FnMut(PageNumber) -> Result<(), StorageError>,
    entries: u64,
    last: Option<Vec<u8>>,
}

impl<P: Pages> Walk<'_, P> {
    fn node(&mut self, number: PageNumber, levels: u8) -> Result<(), StorageError> {
        (self.visit)(number)?;
        let node = Node::branch(self.pages.page(number)?, number)?;
        if !node.is_well_formed() {
            return Err(StorageError::structure(number, "its entries are outside of it"));
        }
        if levels == 2 {
            let pages = self.pages.renewed();
            let mut children = (0..=node.count()).map(|child| node.child(child));
            return children.try_for_each(|child| self.leaf(&pages, child));
        }
        (0..=node.count()).try_for_each(|child| self.node(node.child(child), levels - 1))
    }

    fn leaf<Q: Pages>(&mut self, pages: &Q, number: PageNumber) -> Result<(), StorageError> {
        (self.visit)(number)?;
        let node = Node::leaf(pages.page(number)?, number)?;
        if !node.is_well_formed() {
            return Err(StorageError::structure(number, "its entries are outside of it"));
        }
        for entry in node.entries() {
            let key = entry.key();
            if self.last.as_ref().is_some_and(|last| *last >= key) {
                return Err(StorageError::structure(number, "the keys of a tree are out of order"));
            }
            self.last = Some(key);
            self.entries += 1;
            if let Payload::Run { page, .. } = entry.payload {
                (self.visit)(page)?;
                value_of(&pages.renewed(), entry.payload)?;
            }
        }
        Ok(())
    }
}
