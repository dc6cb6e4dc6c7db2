//! Reads whatever can be reached of a tree with damaged pages, for salvage.

use super::node::{Node, Payload};
use crate::{
    catalog::TreeState,
    format::{PageKind, PageNumber, page_kind},
    page_buffer::PageBuffer,
};

/// The value under a key of a leaf.
pub(crate) enum LeafValue<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// The run that holds the value.
    Run(PageNumber),
}

/// Returns a page if it can be read and is sound.
pub(crate) type ReadPage<'r> = &'r dyn Fn(PageNumber) -> Option<PageBuffer>;

/// Calls `visit` with every entry that can be reached. Returns the number of pages that could not
/// be read; what is below them is missing. Inconsistent pages cannot make it loop: it never
/// descends deeper than the tree's depth, nor visits more than `pages_max` pages.
pub(crate) fn surviving_entries(
    read: ReadPage<'_>,
    state: &TreeState,
    pages_max: u64,
    visit: &mut dyn FnMut(&[u8], LeafValue<'_>),
) -> u64 {
    let mut unreadable = 0;
    let mut pages_left = pages_max;
    let mut pending = Vec::new();
    if state.depth > 0 {
        pending.push((state.root, state.depth));
    }
    while let Some((number, levels)) = pending.pop() {
        let Some(left) = pages_left.checked_sub(1) else { return unreadable + 1 };
        pages_left = left;
        let Some(page) = read(number) else {
            unreadable += 1;
            continue;
        };
        if levels == 1 {
            if page_kind(&page) == Some(PageKind::TreeLeaf) {
                leaf_entries(&page, visit);
            } else {
                unreadable += 1;
            }
        } else if let Ok(node) = Node::branch(&page, number) {
            let children = (0..=node.count()).rev().map(|child| (node.child(child), levels - 1));
            pending.extend(children);
        } else {
            unreadable += 1;
        }
    }
    unreadable
}

/// Calls `visit` with every entry of a sound leaf.
pub(crate) fn leaf_entries(page: &[u8], visit: &mut dyn FnMut(&[u8], LeafValue<'_>)) {
    let Ok(node) = Node::leaf(page, PageNumber(0)) else { return };
    for entry in node.entries() {
        match entry.payload {
            Payload::Value(value) => visit(&entry.key(), LeafValue::Inline(value)),
            Payload::Run { page, .. } => visit(&entry.key(), LeafValue::Run(page)),
            Payload::Child(_) => {}
        }
    }
}
