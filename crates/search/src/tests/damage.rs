//! Damaged bytes: whatever is in the trees, nothing panics and nothing runs away.

use std::{ops::Bound, sync::Arc};

use platform::simulated::Random;
use spatial::{Coordinate, Relation, Shape, Space, Units, parse_shape};
use storage::{Transaction, TreeName, WorkingMemory, WriteTransaction};

use super::{Bench, Fields, apply, entry, phrase, text};
use crate::{
    DistanceFrom, EntryId, FieldOptions, IndexBatch, IndexReader, Query, Scoring, SearchError,
    SortBy, SortKey, SpatialLayout, SuggestOptions, TermRange, TermValue, check, trees,
};

const ROUNDS: u64 = 120;

fn filled(bench: &Bench) -> std::sync::Arc<storage::Environment> {
    let environment = bench.open();
    let mut fields = Fields::load(&environment);
    let (name, age, body) = (fields.name.clone(), fields.age.clone(), fields.body.clone());
    let place = fields.set.define("Place", FieldOptions::default()).expect("defines");
    let mut batch = IndexBatch::new();
    for number in 0..2500u64 {
        let entry = entry(|entry| {
            entry.text(&name, &format!("name {}", number % 40));
            entry.number(&age, &number.to_string(), number as i64, number as f64);
            entry.text(&body, "one two three two");
            let (x, y) = ((number % 50) as f64, (number / 50) as f64);
            entry.place(&place, Coordinate { x, y });
            if number % 30 == 0 {
                entry.shape(&place, &shape(&format!("ENVELOPE({x}, 60, 60, {y})")));
            }
            if number % 9 == 0 {
                entry.text(&body, &format!("rare{}", number / 50));
                entry.null(&name);
                entry.stored(&name, b"stored");
                entry.boost(&name, 2.0);
                entry.boost_entry(0.5);
            }
        });
        batch.put(&format!("d/{number}"), &[entry]).expect("puts");
    }
    apply(&environment, &mut fields, &mut batch).expect("applies");
    environment
}

fn shape(text: &str) -> Shape {
    parse_shape(text, &Space::Geography, Units::Kilometers).expect("is a shape")
}

fn damage(tx: &mut WriteTransaction, random: &mut Random) -> Result<(), storage::StorageError> {
    let names: [&TreeName; 7] = [
        &trees::STATE,
        &trees::FIELDS,
        &trees::TERMS,
        &trees::POSTINGS,
        &trees::ENTRIES,
        &trees::STORED,
        &trees::BOOSTS,
    ];
    let name = names[(random.next_u64() % 7) as usize];
    let mut entries = Vec::new();
    for entry in tx.tree(name)?.range(Bound::Unbounded)? {
        let (key, value) = entry?;
        entries.push((key, value.to_vec()));
    }
    let (key, mut value) = entries.swap_remove(random.next_u64() as usize % entries.len());
    match random.next_u64() % 8 {
        0 => value.truncate(random.next_u64() as usize % (value.len() + 1)),
        1 => value.push(random.next_u64() as u8),
        2 => return tx.tree_mut(name)?.delete(&key).map(drop),
        kind if !value.is_empty() => {
            let at = random.next_u64() as usize % value.len().min(if kind < 5 { 12 } else { 4000 });
            value[at] = random.next_u64() as u8;
        }
        _ => {}
    }
    tx.tree_mut(name)?.put(&key, &value).map(drop)
}

/// Runs every kind of query; errors are fine.
fn query_everything(tx: &WriteTransaction) -> Result<(), SearchError> {
    let reader = IndexReader::open(tx)?;
    let name = || "Name".to_owned();
    let near = |relation| Query::Spatial {
        field: "Place".to_owned(),
        layout: SpatialLayout::default(),
        relation,
        shape: Arc::new(shape("CIRCLE(20 20 d=900)")),
    };
    let queries = [
        Query::All,
        Query::text("Name", "name 7"),
        Query::Or(vec![Query::text("Body", "two"), Query::text("Body", "rare3")]),
        Query::And(vec![Query::text("Name", "name 7"), Query::text("Body", "three")]),
        Query::term("Name", TermValue::Null).not(),
        Query::range("Age", TermRange::Long(Bound::Included(100), Bound::Unbounded)),
        Query::Prefix { field: name(), text: "name".to_owned() },
        Query::Fuzzy { field: name(), text: "nome 7".to_owned(), similarity: 0.5 },
        Query::Wildcard { field: name(), pattern: "*7".to_owned() },
        phrase("Body", &["two", "three"], 0),
        phrase("Body", &["three", "two", "two"], 3),
        Query::AnyOf { field: name(), values: vec![text("name 1"), text("name 2")] },
        near(Relation::Within),
        near(Relation::Contains),
        near(Relation::Disjoint),
    ];
    let from = DistanceFrom {
        at: Coordinate { x: 20.0, y: 20.0 },
        layout: SpatialLayout::default(),
        round_to: 0.0,
    };
    let distance = SortBy::Distance("Place".to_owned(), from);
    let orders = [SortBy::Text(name()), SortBy::Double("Age".to_owned()), SortBy::Score, distance];
    for query in &queries {
        for by in &orders {
            let sort = [SortKey { by: by.clone(), descending: true }];
            if let Ok(hits) = reader.search(query, &sort, 0, 20, Scoring::On) {
                for hit in hits.rows {
                    let _ = reader.document_id(hit.entry);
                    let _ = reader.entry(hit.entry).map(|entry| entry.map(|entry| entry.fields()));
                    let stored = reader.stored(hit.entry);
                    let _ = stored.map(|stored| stored.map(Iterator::count));
                }
            }
            if let Ok(sorted) = reader.stream_sorted(query, &sort, Scoring::Off) {
                assert!(sorted.take(10_000).count() < 10_000);
            }
        }
        let _ = reader.search(query, &[], 3, 20, Scoring::Off);
    }
    let all = reader.matches(&Query::All)?;
    let _ = reader.facet_by_term(&all, "Name", &["Age"], &WorkingMemory::default());
    let _ = reader.suggest("Name", "nam", &SuggestOptions::default());
    let _ = reader.entry(EntryId(1));
    reader.fields().map(drop)
}

#[test]
fn damaged_trees_never_panic() {
    let environment = filled(&Bench::new(1));
    let mut random = Random::new(4713);
    let mut found = 0;
    for round in 0..ROUNDS {
        let mut tx = environment.write().expect("writer");
        damage(&mut tx, &mut random).expect("damages");
        if round % 20 == 0 {
            found += u64::from(check(&tx).is_err());
        }
        let _ = query_everything(&tx);
        let mut fields = match crate::FieldSet::load(&tx) {
            Ok(fields) => fields,
            Err(_) => continue,
        };
        let mut batch = IndexBatch::new();
        for _ in 0..30 {
            let document = format!("d/{}", random.next_u64() % 2500);
            batch.delete(&document).expect("gathers");
        }
        let _ = batch.apply(&mut tx, &mut fields);
    }
    assert!(found > ROUNDS / 20 / 2, "the check finds most damage: {found}");
}
