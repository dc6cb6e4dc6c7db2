//! The results of an index with a reduce, and what else its files hold.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use blittable::Document;
use indexing::{Index, IndexKind, RESULT_FIELD};
use model::IndexDefinition;
use search::{IndexReader, Query, Scoring};
use storage::{Transaction, TreeName};

/// A definition of this map and reduce.
pub(crate) fn definition(maps: &[&str], reduce: &str) -> IndexKind {
    IndexKind::Static(Box::new(IndexDefinition {
        name: "I".to_owned(),
        maps: maps.iter().map(|map| (*map).to_owned()).collect(),
        reduce: Some(reduce.to_owned()),
        ..IndexDefinition::default()
    }))
}

/// The results as JSON, in the order of their entries.
pub(crate) fn results_of(index: &Index) -> Vec<String> {
    let tx = index.read();
    search::check(&tx).unwrap();
    let reader = IndexReader::open(&tx).unwrap();
    let Some(field) = reader.field(RESULT_FIELD).unwrap() else { return Vec::new() };
    let hits = reader.stream(&Query::All, Scoring::Off).unwrap();
    hits.map(|hit| {
        let stored = reader.stored(hit.unwrap().entry).unwrap().unwrap();
        let result = Document::new(stored.get(field).unwrap().unwrap()).unwrap();
        String::from_utf8(result.to_json().unwrap()).unwrap()
    })
    .collect()
}

/// The results in the order of their texts.
pub(crate) fn sorted_results_of(index: &Index) -> Vec<String> {
    let mut results = results_of(index);
    results.sort();
    results
}

/// How many documents, keys, rows and nodes are kept.
pub(crate) fn kept_by(index: &Index) -> [u64; 4] {
    let tx = index.read();
    ["Documents", "Keys", "Rows", "Nodes"]
        .map(|name| tx.tree(&TreeName::of(&[format!("Reduce/{name}").as_bytes()])).unwrap().len())
}
