//! The nodes of one key: each stores the reduce's result for up to 64 items, so that a change
//! recomputes its own node and those above it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use blittable::{BlittableBuf, Document};
use documents::DocumentError;
use storage::{Transaction, TreeName, WriteTransaction};

use super::{
    Reducing,
    format::{NodeResult, node_key, nodes_tree, number_in, row_key, rows_tree},
    key::{KEY_BYTES, ReduceKey},
};
use crate::{error::IndexError, mapper::MapError};

/// Items of a node.
pub(super) const FANOUT: u64 = 64;
/// A node with a larger result fails.
const NODE_BYTES_MAX: usize = 16 << 20;

/// The statistics of reducing.
#[derive(Default)]
pub(super) struct Counts {
    /// Rows that were reduced.
    pub(super) attempts: u64,
    /// Those for which the reduce failed.
    pub(super) errors: u64,
    /// The last failure.
    pub(super) failure: Option<String>,
}

/// The result of a key.
pub(super) type KeyResult = NodeResult<Vec<u8>>;

/// Reduces the rows of a key that is stored inline.
pub(super) fn reduce_inline(
    reducing: &Reducing<'_>,
    rows: &BTreeMap<u64, Vec<u8>>,
    counts: &mut Counts,
) -> Result<KeyResult, IndexError> {
    let items: Vec<_> = rows.values().map(|row| document_of(row)).collect::<Result<_, _>>()?;
    let Some(sample) = items.first() else { return Ok(NodeResult::Results(Vec::new())) };
    counts.attempts += items.len() as u64;
    let given = reduce_items(reducing, sample, &items, counts)?;
    if given == NodeResult::Failed {
        counts.errors += items.len() as u64;
    }
    Ok(given)
}

/// A key that is stored in nodes.
pub(super) struct KeyTree<'t> {
    pub(super) tx: &'t mut WriteTransaction,
    pub(super) reducing: &'t Reducing<'t>,
    pub(super) key: ReduceKey,
    /// The number of the next row.
    pub(super) next: u64,
}

impl KeyTree<'_> {
    /// Recomputes the nodes of level 0 with these numbers, and those above them; returns the result
    /// of the top. The rows are already in their tree.
    pub(super) fn reduce(
        &mut self,
        mut changed: BTreeSet<u64>,
        counts: &mut Counts,
    ) -> Result<KeyResult, IndexError> {
        let sample = self.sample()?;
        let top = top_level(self.next);
        let mut result = NodeResult::Results(Vec::new());
        for level in 0..=top {
            for number in &changed {
                let given = match &sample {
                    Some(sample) => self.reduce_node(level, *number, &sample.as_view(), counts)?,
                    None => None,
                };
                let place = node_key(&self.key, level, *number);
                let mut nodes = self.tx.tree_mut(&nodes_tree())?;
                match given {
                    Some(given) => {
                        nodes.put(&place, &given.write())?;
                        result = given;
                    }
                    None => {
                        nodes.delete(&place)?;
                        result = NodeResult::Results(Vec::new());
                    }
                }
            }
            changed = changed.into_iter().map(|number| number / FANOUT).collect();
        }
        Ok(result)
    }

    /// The first row.
    pub(super) fn sample(&self) -> Result<Option<BlittableBuf>, IndexError> {
        let rows = self.tx.tree(&rows_tree())?;
        let from = row_key(&self.key, 0);
        let Some(first) = rows.range(Bound::Included(&from))?.next().transpose()? else {
            return Ok(None);
        };
        if !first.0.starts_with(self.key.bytes()) {
            return Ok(None);
        }
        Ok(Some(document_of(first.1)?.to_buf()))
    }

    /// The result of a node; `None` when it has no items.
    fn reduce_node(
        &self,
        level: u8,
        number: u64,
        sample: &Document<'_>,
        counts: &mut Counts,
    ) -> Result<Option<KeyResult>, IndexError> {
        let (mut items, mut rows) = (Vec::new(), 0);
        let (mut has_items, mut has_failed) = (false, false);
        match level.checked_sub(1) {
            None => self.for_each_item(&rows_tree(), &[], number, &mut |row| {
                items.push(document_of(row)?);
                (has_items, rows) = (true, rows + 1);
                Ok(())
            })?,
            Some(below) => self.for_each_item(&nodes_tree(), &[below], number, &mut |given| {
                has_items = true;
                match NodeResult::read(given)? {
                    NodeResult::Failed => has_failed = true,
                    NodeResult::Results(results) => items.extend(results),
                }
                Ok(())
            })?,
        }
        if !has_items {
            return Ok(None);
        }
        if has_failed {
            return Ok(Some(NodeResult::Failed));
        }
        counts.attempts += rows;
        let given = reduce_items(self.reducing, sample, &items, counts)?;
        if given == NodeResult::Failed {
            counts.errors += rows.max(1);
        }
        Ok(Some(given))
    }

    /// Iterates over the items of a node: the values below it in a tree.
    fn for_each_item<'a>(
        &'a self,
        tree: &TreeName,
        level: &[u8],
        number: u64,
        each: &mut dyn FnMut(&'a [u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut from = [self.key.bytes().as_slice(), level].concat();
        let prefix_bytes = KEY_BYTES + level.len();
        from.extend_from_slice(&(number * FANOUT).to_be_bytes());
        for entry in self.tx.tree(tree)?.range(Bound::Included(&from))? {
            let (place, value) = entry?;
            let is_below =
                place.starts_with(&from[..prefix_bytes]) && number_in(&place)? / FANOUT == number;
            if !is_below {
                break;
            }
            each(value)?;
        }
        Ok(())
    }
}

/// The lowest level at which one node covers all numbers below `next`.
pub(super) fn top_level(next: u64) -> u8 {
    let mut last = next.saturating_sub(1) / FANOUT;
    let mut level = 0;
    while 0 < last {
        last /= FANOUT;
        level += 1;
    }
    level
}

pub(super) fn document_of(bytes: &[u8]) -> Result<Document<'_>, IndexError> {
    Ok(Document::new(bytes).map_err(DocumentError::from)?)
}

fn reduce_items<'a>(
    reducing: &'a Reducing<'_>,
    sample: &Document<'a>,
    items: &[Document<'a>],
    counts: &mut Counts,
) -> Result<KeyResult, IndexError> {
    let mut results = Vec::new();
    if items.is_empty() {
        return Ok(NodeResult::Results(Vec::new()));
    }
    reducing.check_closing()?;
    match reducing.reducer.reduce(sample, items, &mut results) {
        Ok(()) => {}
        Err(MapError::Document { message }) => {
            counts.failure = Some(message);
            return Ok(NodeResult::Failed);
        }
        Err(MapError::Index(error)) => return Err(error),
    }
    let bytes: usize = results.iter().map(|result| result.as_bytes().len()).sum();
    if NODE_BYTES_MAX < bytes {
        let message = format!("The reduce returns {bytes} bytes, more than {NODE_BYTES_MAX}");
        counts.failure = Some(message);
        return Ok(NodeResult::Failed);
    }
    Ok(NodeResult::Results(results.into_iter().map(BlittableBuf::into_bytes).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_covers_all_numbers() {
        for (next, level) in
            [(0, 0), (1, 0), (64, 0), (65, 1), (4096, 1), (4097, 2), (1_000_000, 3), (u64::MAX, 10)]
        {
            assert_eq!(top_level(next), level, "{next}");
        }
    }
}
