//! The stored state of reduce keys, to inspect how a result was computed: the rows, the nodes above
//! them, and the reduce's result for each.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use documents::DocumentError;
use model::DocumentId;
use storage::{ReadTransaction, StorageError, Transaction, pass_over};

use super::{
    Reducer,
    format::{
        KeyRows, KeyState, NodeResult, RowPlace, documents_tree, keys_tree, node_key, nodes_tree,
        number_in, row_key, rows_tree,
    },
    key::{KEY_BYTES, ReduceKey},
    key_tree::{FANOUT, document_of, top_level},
};
use crate::{error::IndexError, mapper::MapError};

/// A key with more rows is shown only along the paths to the requested documents.
const ROWS_SHOWN_MAX: u64 = 1_000;
/// The number of keys that are shown at once.
const TREES_MAX: usize = 64;

/// The stored state of one reduce key.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceTree {
    /// A number that identifies it.
    pub hash: u64,
    /// The values of the key, as a JSON object.
    pub key: Vec<u8>,
    /// Whether its rows are stored in nodes; otherwise there is a single node, which is not stored.
    pub is_spread: bool,
    /// The number of levels of nodes.
    pub depth: u32,
    /// Nodes, including empty ones.
    pub nodes: u64,
    /// The number of rows of the key.
    pub rows: u64,
    /// The node with the result.
    pub root: ReduceNode,
}

/// A node of a reduce key.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceNode {
    /// The reduce's results for the items below, as JSON objects; `None` when it failed.
    pub results: Option<Vec<Vec<u8>>>,
    /// What is below it.
    pub items: ReduceItems,
}

/// The items of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum ReduceItems {
    /// Other nodes.
    Nodes(Vec<ReduceNode>),
    /// Rows.
    Rows(Vec<ReduceRow>),
}

/// A map's output for a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceRow {
    /// The row, as a JSON object.
    pub data: Vec<u8>,
    /// The document, if it is one of the requested ones.
    pub source: Option<String>,
}

/// The lower-cased ids of the documents that have rows and begin with `prefix`, in order.
pub(crate) fn documents_with_rows(
    entries: &ReadTransaction,
    prefix: &str,
    skip: usize,
    take: usize,
) -> Result<Vec<String>, IndexError> {
    let tree = entries.tree(&documents_tree())?;
    let ids = tree.range(Bound::Included(prefix.as_bytes()))?.map(|entry| Ok(entry?.0));
    let found = ids.take_while(|id: &Result<Vec<u8>, StorageError>| {
        id.as_ref().map_or(true, |id| id.starts_with(prefix.as_bytes()))
    });
    let text = |id: Result<_, StorageError>| {
        String::from_utf8(id?).map_err(|_| IndexError::corrupt("the id of a document is not UTF-8"))
    };
    found.skip_while(pass_over(skip)).take(take).map(text).collect()
}

/// The keys in which documents have rows, in the order in which they are found.
pub(crate) fn trees_of(
    entries: &ReadTransaction,
    reducer: &dyn Reducer,
    documents: &[DocumentId],
) -> Result<Vec<ReduceTree>, MapError> {
    let mut keys: Vec<ReduceKey> = Vec::new();
    let mut sources: HashMap<ReduceKey, BTreeMap<u64, String>> = HashMap::new();
    for document in documents {
        let id = document.lower_cased();
        let Some(bytes) = entries.tree(&documents_tree())?.get(id.as_bytes())? else { continue };
        for RowPlace { key, number } in RowPlace::read_all(bytes)? {
            let rows = sources.entry(key).or_default();
            if rows.is_empty() {
                keys.push(key);
            }
            rows.insert(number, document.as_str().to_owned());
        }
    }
    keys.truncate(TREES_MAX);
    keys.into_iter()
        .map(|key| {
            let sources = sources.remove(&key).unwrap_or_default();
            Reading { entries, reducer, key, sources, shows_all: false }.tree()
        })
        .collect()
}

/// One key while it is read.
struct Reading<'r> {
    entries: &'r ReadTransaction,
    reducer: &'r dyn Reducer,
    key: ReduceKey,
    /// The requested documents, by the numbers of their rows.
    sources: BTreeMap<u64, String>,
    shows_all: bool,
}

impl Reading<'_> {
    fn tree(mut self) -> Result<ReduceTree, MapError> {
        let Some(state) = self.entries.tree(&keys_tree())?.get(self.key.bytes())? else {
            return Err(IndexError::corrupt("a document has a row in a missing key").into());
        };
        let state = KeyState::read(state)?;
        self.shows_all = state.count <= ROWS_SHOWN_MAX;
        let (depth, nodes, root) = match &state.rows {
            KeyRows::Inline(rows) => (1, 1, self.inline_root(rows)?),
            KeyRows::Spread => {
                let top = top_level(state.next);
                let of_level = |level: u8| {
                    state.next.div_ceil(FANOUT.saturating_pow(u32::from(level) + 1)).max(1)
                };
                let nodes = (0..=top).map(of_level).sum();
                (u32::from(top) + 1, nodes, self.node(top, 0)?)
            }
        };
        let sample = match &state.rows {
            KeyRows::Inline(rows) => rows.values().next().map(Vec::as_slice),
            KeyRows::Spread => self.first_row()?,
        };
        let key = match sample {
            Some(row) => self.reducer.key_json(&document_of(row)?)?,
            None => b"{}".to_vec(),
        };
        Ok(ReduceTree {
            hash: self.key.number(),
            key,
            is_spread: matches!(state.rows, KeyRows::Spread),
            depth,
            nodes,
            rows: state.count,
            root,
        })
    }

    /// The root of a key whose rows are inline; it is computed on every change and stored only in
    /// its entry.
    fn inline_root(&self, rows: &BTreeMap<u64, Vec<u8>>) -> Result<ReduceNode, MapError> {
        let items: Vec<_> = rows.values().map(|row| document_of(row)).collect::<Result<_, _>>()?;
        let mut given = Vec::new();
        let results = match items.first() {
            Some(sample) => match self.reducer.reduce(sample, &items, &mut given) {
                Ok(()) => Some(
                    given
                        .iter()
                        .map(|result| result.as_view().to_json())
                        .collect::<Result<_, _>>()
                        .map_err(DocumentError::from)?,
                ),
                Err(MapError::Document { .. }) => None,
                Err(error) => return Err(error),
            },
            None => Some(Vec::new()),
        };
        let shown = rows.iter().map(|(number, row)| self.row(*number, row));
        Ok(ReduceNode { results, items: ReduceItems::Rows(shown.collect::<Result<_, _>>()?) })
    }

    fn row(&self, number: u64, row: &[u8]) -> Result<ReduceRow, IndexError> {
        let data = document_of(row)?.to_json().map_err(DocumentError::from)?;
        Ok(ReduceRow { data, source: self.sources.get(&number).cloned() })
    }

    fn first_row(&self) -> Result<Option<&[u8]>, IndexError> {
        let tree = self.entries.tree(&rows_tree())?;
        let from = row_key(&self.key, 0);
        let first = tree.range(Bound::Included(&from))?.next().transpose()?;
        Ok(first.filter(|(place, _)| place.starts_with(self.key.bytes())).map(|(_, row)| row))
    }

    /// A node and, as far as it is shown, its items.
    fn node(&self, level: u8, number: u64) -> Result<ReduceNode, IndexError> {
        let place = node_key(&self.key, level, number);
        let kept = self.entries.tree(&nodes_tree())?.get(&place)?;
        let results = match kept.map(NodeResult::read).transpose()? {
            None => Some(Vec::new()),
            Some(NodeResult::Failed) => None,
            Some(NodeResult::Results(results)) => {
                let shown = results.iter().map(|result| result.to_json());
                Some(shown.collect::<Result<_, _>>().map_err(DocumentError::from)?)
            }
        };
        let is_open = self.shows_all || self.leads_to_a_source(level, number);
        let items = match level.checked_sub(1) {
            None => ReduceItems::Rows(if is_open { self.rows_of(number)? } else { Vec::new() }),
            Some(below) => {
                ReduceItems::Nodes(if is_open { self.nodes_of(below, number)? } else { Vec::new() })
            }
        };
        Ok(ReduceNode { results, items })
    }

    fn leads_to_a_source(&self, level: u8, number: u64) -> bool {
        let width = FANOUT.saturating_pow(u32::from(level) + 1);
        let from = number.saturating_mul(width);
        self.sources.range(from..=from.saturating_add(width - 1)).next().is_some()
    }

    fn nodes_of(&self, level: u8, above: u64) -> Result<Vec<ReduceNode>, IndexError> {
        let tree = self.entries.tree(&nodes_tree())?;
        let from = node_key(&self.key, level, above * FANOUT);
        let mut found = Vec::new();
        for entry in tree.range(Bound::Included(&from))? {
            let (place, _) = entry?;
            let number = number_in(&place)?;
            if !place.starts_with(&from[..=KEY_BYTES]) || number / FANOUT != above {
                break;
            }
            found.push(self.node(level, number)?);
        }
        Ok(found)
    }

    fn rows_of(&self, node: u64) -> Result<Vec<ReduceRow>, IndexError> {
        let tree = self.entries.tree(&rows_tree())?;
        let from = row_key(&self.key, node * FANOUT);
        let mut found = Vec::new();
        for entry in tree.range(Bound::Included(&from))? {
            let (place, row) = entry?;
            let number = number_in(&place)?;
            if !place.starts_with(self.key.bytes()) || number / FANOUT != node {
                break;
            }
            found.push(self.row(number, row)?);
        }
        Ok(found)
    }
}
