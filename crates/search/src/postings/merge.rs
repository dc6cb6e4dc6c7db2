//! Changing posting lists: what a batch adds to and removes from one term, in ascending order.

use std::{cmp::Ordering, ops::Bound};

use storage::{Transaction, WriteTransaction};

use super::{
    block::{self, BlockWriter},
    format::{
        BLOCK_BYTES_MIN, BLOCK_BYTES_TARGET, FLAG_WEIGHTED, INLINE_BYTES_MAX, Posting, TAG_INLINE,
        TAG_LARGE, TAG_SINGLE, TAG_SINGLE_WEIGHTED,
    },
    list::{PostingList, base_in, block_key},
};
use crate::{cursor::END, error::SearchError, trees, varint};

/// Large lists with at most this many entries are checked whether they fit inline again.
const SMALL_AGAIN_ENTRIES: u64 = 40;

/// What happens to one list. Both are ascending; an entry is in one of them at most.
#[derive(Clone, Copy)]
pub(crate) struct ListChange<'c> {
    pub(crate) added: &'c [Posting],
    pub(crate) removed: &'c [u64],
    pub(crate) weighted: bool,
}

impl<'c> ListChange<'c> {
    fn lowest(&self) -> Option<u64> {
        let added = self.added.first().map(|posting| posting.entry);
        let removed = self.removed.first().copied();
        match (added, removed) {
            (Some(added), Some(removed)) => Some(added.min(removed)),
            (one, other) => one.or(other),
        }
    }

    /// The part below `end`, and the rest.
    fn split(self, end: u64) -> (ListChange<'c>, ListChange<'c>) {
        let (added, later_added) =
            self.added.split_at(self.added.partition_point(|posting| posting.entry < end));
        let (removed, later_removed) =
            self.removed.split_at(self.removed.partition_point(|entry| *entry < end));
        let later = ListChange { added: later_added, removed: later_removed, ..self };
        (ListChange { added, removed, ..self }, later)
    }

    fn apply(&self, before: &[Posting]) -> Result<Vec<Posting>, SearchError> {
        let mut after = Vec::with_capacity(before.len() + self.added.len());
        let (mut added, mut removed) = (self.added, self.removed);
        for posting in before {
            if removed.first() == Some(&posting.entry) {
                removed = &removed[1..];
                continue;
            }
            while let Some((first, rest)) = added.split_first() {
                match first.entry.cmp(&posting.entry) {
                    Ordering::Less => after.push(*first),
                    Ordering::Equal => {
                        return Err(SearchError::corrupt(
                            "an entry is added to a list that has it",
                        ));
                    }
                    Ordering::Greater => break,
                }
                added = rest;
            }
            after.push(*posting);
        }
        if !removed.is_empty() {
            return Err(SearchError::corrupt("a posting list lacks an entry that has its term"));
        }
        after.extend_from_slice(added);
        Ok(after)
    }
}

/// Changes a list. Takes its value and returns the new one, `None` when the list is empty.
pub(crate) fn change_list(
    tx: &mut WriteTransaction,
    next_list: &mut u64,
    value: Option<&[u8]>,
    change: ListChange<'_>,
) -> Result<Option<Vec<u8>>, SearchError> {
    let mut before = Vec::new();
    match value.map(PostingList::parse).transpose()? {
        None => {}
        Some(PostingList::Single(posting, _)) => before.push(posting),
        Some(PostingList::Inline { block, .. }) => block::read_all(block, 0, &mut before)?,
        Some(PostingList::Large { list, count, .. }) => {
            return change_large(tx, list, count, change);
        }
    }
    let after = change.apply(&before)?;
    if let Some(value) = small_value(&after, change.weighted, INLINE_BYTES_MAX) {
        return Ok(value);
    }
    let list = *next_list;
    *next_list += 1;
    write_blocks(tx, list, 0, change.weighted, &after)?;
    Ok(Some(large_value(change.weighted, list, after.len() as u64)))
}

/// The value of a short list: `Some(None)` when it is empty, `None` when it is too long.
fn small_value(postings: &[Posting], weighted: bool, bytes_max: usize) -> Option<Option<Vec<u8>>> {
    let mut value = Vec::with_capacity(8);
    match postings {
        [] => return Some(None),
        [single] => single_value(single, weighted, &mut value),
        // No list of that many entries is short enough.
        _ if postings.len() > bytes_max * 32 => return None,
        _ => {
            value.push(TAG_INLINE);
            varint::write(&mut value, postings.len() as u64);
            value.extend(BlockWriter::new(weighted, 0).write_one(postings));
        }
    }
    (value.len() <= bytes_max).then_some(Some(value))
}

/// Leaves the value of a list with one entry in `value`.
pub(crate) fn single_value(single: &Posting, weighted: bool, value: &mut Vec<u8>) {
    value.clear();
    value.push(if weighted { TAG_SINGLE_WEIGHTED } else { TAG_SINGLE });
    varint::write(value, single.entry);
    if weighted {
        value.extend([single.weight.frequency, single.weight.length]);
    }
}

fn large_value(weighted: bool, list: u64, count: u64) -> Vec<u8> {
    let mut value = vec![TAG_LARGE, if weighted { FLAG_WEIGHTED } else { 0 }];
    value.extend(list.to_le_bytes());
    value.extend(count.to_le_bytes());
    value
}

fn write_blocks(
    tx: &mut WriteTransaction,
    list: u64,
    base: u64,
    weighted: bool,
    postings: &[Posting],
) -> Result<(), SearchError> {
    let mut tree = tx.tree_mut(&trees::POSTINGS)?;
    BlockWriter::new(weighted, base)
        .write_all(postings, |base, block| Ok(tree.put(&block_key(list, base), block).map(drop)?))
}

fn change_large(
    tx: &mut WriteTransaction,
    list: u64,
    count: u64,
    change: ListChange<'_>,
) -> Result<Option<Vec<u8>>, SearchError> {
    let count = count
        .saturating_add(change.added.len() as u64)
        .checked_sub(change.removed.len() as u64)
        .ok_or_else(|| SearchError::corrupt("a posting list has fewer entries than are removed"))?;
    let weighted = change.weighted;
    let mut rest = change;
    while let Some(lowest) = rest.lowest() {
        let (base, block) = block_for(tx, list, lowest)?;
        let next = next_block(tx, list, base)?;
        let (here, later) = rest.split(next.unwrap_or(END));
        rest = later;
        let mut before = Vec::new();
        if let Some(block) = block {
            block::read_all(&block, base, &mut before)?;
        }
        let mut after = here.apply(&before)?;
        if let Some(next) = next
            && rest.lowest().is_none()
        {
            join_if_small(tx, list, base, next, weighted, &mut after)?;
        }
        if after.is_empty() {
            tx.tree_mut(&trees::POSTINGS)?.delete(&block_key(list, base))?;
        } else {
            write_blocks(tx, list, base, weighted, &after)?;
        }
    }
    if count <= SMALL_AGAIN_ENTRIES
        && let Some(value) = inline_again(tx, list, weighted)?
    {
        return Ok(value);
    }
    Ok(Some(large_value(weighted, list, count)))
}

/// Base and bytes of the block in which the entry is or would be.
fn block_for(
    tx: &WriteTransaction,
    list: u64,
    entry: u64,
) -> Result<(u64, Option<Vec<u8>>), SearchError> {
    let tree = tx.tree(&trees::POSTINGS)?;
    if let Some(found) = tree.range_back(Bound::Included(&block_key(list, entry)))?.next() {
        let (key, block) = found?;
        if let Some(base) = base_in(&key, list)? {
            return Ok((base, Some(block.to_vec())));
        }
    }
    Ok((0, None))
}

/// The base of the block after the one with that base.
fn next_block(tx: &WriteTransaction, list: u64, base: u64) -> Result<Option<u64>, SearchError> {
    let tree = tx.tree(&trees::POSTINGS)?;
    match tree.range(Bound::Excluded(&block_key(list, base)))?.next() {
        Some(found) => base_in(&found?.0, list),
        None => Ok(None),
    }
}

/// Merges the next block into this one when this one has few postings and both fit.
fn join_if_small(
    tx: &mut WriteTransaction,
    list: u64,
    base: u64,
    next: u64,
    weighted: bool,
    postings: &mut Vec<Posting>,
) -> Result<(), SearchError> {
    let bytes = BlockWriter::new(weighted, base).write_one(postings).len();
    if bytes >= BLOCK_BYTES_MIN {
        return Ok(());
    }
    let mut tree = tx.tree_mut(&trees::POSTINGS)?;
    let key = block_key(list, next);
    let Some(block) = tree.get(&key)? else { return Ok(()) };
    if bytes + block.len() > BLOCK_BYTES_TARGET {
        return Ok(());
    }
    block::read_all(block, next, postings)?;
    tree.delete(&key)?;
    Ok(())
}

/// Removes the blocks of a list when it fits inline; `None` when it does not.
fn inline_again(
    tx: &mut WriteTransaction,
    list: u64,
    weighted: bool,
) -> Result<Option<Option<Vec<u8>>>, SearchError> {
    let mut postings = Vec::new();
    let mut keys = Vec::new();
    let tree = tx.tree(&trees::POSTINGS)?;
    for block in tree.range(Bound::Included(&block_key(list, 0)))? {
        let (key, block) = block?;
        let Some(base) = base_in(&key, list)? else { break };
        block::read_all(block, base, &mut postings)?;
        keys.push(key);
    }
    let Some(value) = small_value(&postings, weighted, INLINE_BYTES_MAX / 2) else {
        return Ok(None);
    };
    let mut tree = tx.tree_mut(&trees::POSTINGS)?;
    for key in keys {
        tree.delete(&key)?;
    }
    Ok(Some(value))
}
