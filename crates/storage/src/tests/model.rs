//! Generated operations against a `BTreeMap`.

use std::{borrow::Cow, collections::BTreeMap, ops::Bound};

use proptest::prelude::*;

use super::{Bench, entries, name, put};
use crate::{FixedIndexSchema, IndexSchema, IndexTree, TableSchema, Transaction, TreeName};

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, usize),
    InsertNew(Vec<u8>, usize),
    Delete(usize),
    Commit,
    Flush,
    RollBack(Vec<(Vec<u8>, usize)>),
    Reopen,
    Close,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u32..3000).prop_map(|n| format!("documents/{n:08}-a").into_bytes()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 200usize..1024).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn value_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..60, 4 => 100usize..900, 2 => 1900usize..2100, 1 => 5000usize..40_000]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (key(), value_bytes()).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        20 => (key(), value_bytes()).prop_map(|(key, bytes)| Step::InsertNew(key, bytes)),
        25 => (0usize..10_000).prop_map(Step::Delete),
        5 => Just(Step::Commit),
        2 => Just(Step::Flush),
        3 => prop::collection::vec((key(), value_bytes()), 1..20).prop_map(Step::RollBack),
        1 => Just(Step::Reopen),
        1 => Just(Step::Close),
    ]
}

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + bytes) as u8).collect()
}

fn nth_key(model: &BTreeMap<Vec<u8>, Vec<u8>>, nth: usize) -> Option<Vec<u8>> {
    model.keys().nth(nth.checked_rem(model.len())?).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_tree_behaves_like_a_map(steps in prop::collection::vec(step(), 1..700)) {
        let bench = Bench::new(1);
        let mut environment = bench.open();
        let mut tx = environment.write().expect("writer");
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(key, bytes) => {
                    let new = tx.tree_mut(&name("t")).expect("tree").put(&key, &value(bytes));
                    prop_assert_eq!(new.expect("put"), model.insert(key, value(bytes)).is_none());
                }
                Step::InsertNew(key, bytes) => {
                    let mut tree = tx.tree_mut(&name("t")).expect("tree");
                    let new = tree.insert_new(&key, &value(bytes)).expect("insert");
                    prop_assert_eq!(new, !model.contains_key(&key));
                    model.entry(key).or_insert_with(|| value(bytes));
                }
                Step::Delete(nth) => {
                    let Some(key) = nth_key(&model, nth) else { continue };
                    model.remove(&key);
                    prop_assert!(tx.tree_mut(&name("t")).expect("tree").delete(&key).expect("delete"));
                }
                Step::RollBack(puts) => {
                    let savepoint = tx.savepoint();
                    for (key, bytes) in puts {
                        put(&mut tx, &key, &value(bytes));
                        if let Some(key) = nth_key(&model, bytes) {
                            tx.tree_mut(&name("t")).expect("tree").delete(&key).expect("delete");
                        }
                        put(&mut tx, b"another tree's page", &value(bytes));
                    }
                    tx.roll_back_to(savepoint);
                }
                Step::Commit | Step::Flush | Step::Reopen | Step::Close => {
                    tx.commit().expect("commits");
                    if matches!(step, Step::Flush | Step::Reopen) {
                        environment.flush().expect("flushes");
                    }
                    if matches!(step, Step::Close) {
                        environment.close().expect("closes");
                    }
                    if matches!(step, Step::Reopen | Step::Close) {
                        drop(environment);
                        environment = bench.open();
                    }
                    environment.read().check().expect("sound");
                    tx = environment.write().expect("writer");
                }
            }
        }
        let expected: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(entries(&tx), expected.clone());
        tx.commit().expect("commits");
        let read = environment.read();
        read.check().expect("sound");
        let tree = read.tree(&name("t")).expect("tree");
        prop_assert_eq!(tree.len(), model.len() as u64);
        for (key, value) in &model {
            prop_assert_eq!(tree.get(key).expect("get"), Some(&value[..]));
        }
        let mut backwards: Vec<_> = tree
            .range_back(Bound::Unbounded)
            .expect("range")
            .map(|entry| entry.map(|(key, value)| (key, value.to_vec())).expect("entry"))
            .collect();
        backwards.reverse();
        prop_assert_eq!(backwards, expected);
        drop(environment);
        prop_assert_eq!(entries(&bench.open().read()).len(), model.len());
    }

    #[test]
    fn ranges_start_and_end_where_a_map_says(
        keys in prop::collection::btree_set("[ab]{1,6}", 1..300),
        probes in prop::collection::vec("[ab]{0,7}", 1..30),
    ) {
        let bench = Bench::new(2);
        let environment = bench.open();
        let mut tx = environment.write().expect("writer");
        for key in &keys {
            put(&mut tx, key.as_bytes(), &[0; 300]);
        }
        let tree = tx.tree(&name("t")).expect("tree");
        for probe in &probes {
            for bound in [Bound::Included(probe.as_str()), Bound::Excluded(probe.as_str())] {
                let bytes = bound.map(str::as_bytes);
                let found: Vec<_> =
                    tree.range(bytes).expect("range").map(|e| e.expect("entry").0).collect();
                let expected: Vec<_> = keys
                    .range::<str, _>((bound, Bound::Unbounded))
                    .map(|key| key.as_bytes().to_vec())
                    .collect();
                prop_assert_eq!(found, expected);
                let found: Vec<_> =
                    tree.range_back(bytes).expect("range").map(|e| e.expect("entry").0).collect();
                let expected: Vec<_> = keys
                    .range::<str, _>((Bound::Unbounded, bound))
                    .rev()
                    .map(|key| key.as_bytes().to_vec())
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_fixed_tree_behaves_like_a_map(
        steps in prop::collection::vec((0u64..4000, 0u8..10), 1..6000),
        ascending in 0u64..4000,
    ) {
        let bench = Bench::new(3);
        let environment = bench.open();
        let mut tx = environment.write().expect("writer");
        let mut model = BTreeMap::new();
        let tree = name("f");
        for key in 10_000..10_000 + ascending {
            tx.fixed_tree_mut(&tree, 8).expect("tree").put(key, &key.to_le_bytes()).expect("put");
            model.insert(key, key);
        }
        for (key, action) in steps {
            let mut fixed = tx.fixed_tree_mut(&tree, 8).expect("tree");
            let victim = model.range(key * 3..).next().map_or(key, |(key, _)| *key);
            if action < 5 {
                let new = fixed.put(key, &key.to_le_bytes()).expect("put");
                prop_assert_eq!(new, model.insert(key, key).is_none());
            } else {
                let there = fixed.delete(victim).expect("delete");
                prop_assert_eq!(there, model.remove(&victim).is_some());
            }
        }
        tx.commit().expect("commits");
        let read = environment.read();
        read.check().expect("sound");
        let fixed = read.fixed_tree(&tree).expect("tree");
        let found: Vec<_> = fixed.range(0).expect("range").map(|e| e.expect("entry").0).collect();
        prop_assert_eq!(&found, &model.keys().copied().collect::<Vec<_>>());
        for probe in [0, 77, 1999, 9_999, 10_001, u64::MAX] {
            let up = fixed.range(probe).expect("range").next().map(|e| e.expect("entry").0);
            prop_assert_eq!(up, model.range(probe..).next().map(|(key, _)| *key));
            let down = fixed.range_back(probe).expect("range").next().map(|e| e.expect("entry").0);
            prop_assert_eq!(down, model.range(..=probe).next_back().map(|(key, _)| *key));
            let behind = model.range(probe..).count() as u64;
            for at_most in [0, 1, 100, u64::MAX] {
                let counted = fixed.count_from(probe, at_most).expect("count");
                prop_assert_eq!(counted, behind.min(at_most));
            }
            let got = fixed.get(probe).expect("get").is_some();
            prop_assert_eq!(got, model.contains_key(&probe));
        }
    }

    #[test]
    fn a_table_keeps_every_index_true(
        steps in prop::collection::vec((0u8..40, 0u8..3, 0u8..4, row_bytes()), 1..400),
    ) {
        let bench = Bench::new(4);
        let environment = bench.open();
        let mut tx = environment.write().expect("writer");
        let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (number, (key, group, action, bytes)) in steps.into_iter().enumerate() {
            let number = number as u64;
            if action == 0 {
                let there = tx.table_mut(&TABLE).delete(&[key]).expect("delete");
                prop_assert_eq!(there, model.remove(&key).is_some());
            } else {
                let row = row(key, group, number, bytes);
                tx.table_mut(&TABLE).insert(&row).expect("insert");
                model.insert(key, row);
            }
            if number % 50 == 49 {
                tx.commit().expect("commits");
                environment.read().check().expect("sound");
                tx = environment.write().expect("writer");
            }
        }
        tx.commit().expect("commits");
        let read = environment.read();
        read.check().expect("sound");
        let table = read.table(&TABLE);
        prop_assert_eq!(table.len().expect("len"), model.len() as u64);
        let rows: Vec<_> =
            table.range(Bound::Unbounded).expect("range").map(|r| r.expect("row").1.to_vec()).collect();
        prop_assert_eq!(&rows, &model.values().cloned().collect::<Vec<_>>());
        for group in 0..3 {
            let tree = group_tree(&[0, group]);
            let found: Vec<_> = table
                .fixed_range(&tree, 0)
                .expect("range")
                .map(|row| row.expect("row").1.to_vec())
                .collect();
            let mut expected: Vec<_> =
                model.values().filter(|row| row[1] == group).cloned().collect();
            expected.sort_by_key(|row| number_of(row));
            prop_assert_eq!(found, expected);
        }
    }
}

fn row_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![10 => 0usize..600, 3 => 3000usize..4100, 1 => 8000usize..20_000]
}

/// key u8 · group u8 · number u64 · filler
fn row(key: u8, group: u8, number: u64, filler: usize) -> Vec<u8> {
    let mut row = vec![key, group];
    row.extend_from_slice(&number.to_le_bytes());
    row.extend(value(filler));
    row
}

fn number_of(row: &[u8]) -> u64 {
    u64::from_le_bytes(row[2..10].try_into().expect("eight bytes"))
}

fn group_tree(row: &[u8]) -> TreeName {
    TreeName::of(&[b"Rows/ByNumber/", &row[1..2]])
}

static TABLE: TableSchema = TableSchema {
    name: "Rows",
    primary: |row| Cow::Borrowed(&row[..1]),
    fixed: &[FixedIndexSchema { tree: IndexTree::PerRow(group_tree), key: number_of }],
    indexes: &[IndexSchema {
        tree: IndexTree::One("Rows/ByGroup"),
        key: |row| Cow::Owned(vec![row[1], row[0]]),
    }],
};

#[test]
fn a_table_may_be_empty_again_when_its_first_transaction_ends() {
    let environment = Bench::new(13).open();
    for round in 1..=3 {
        let mut tx = environment.write().expect("begins");
        tx.table_mut(&TABLE).insert_new(&row(1, 2, round, 100)).expect("inserts");
        assert!(tx.table_mut(&TABLE).delete(&[1]).expect("deletes"));
        tx.commit().expect("commits");
        let report = environment.read().check().expect("nothing is lost");
        assert_eq!(report.rows, 0);
    }
}

#[test]
fn a_row_that_is_not_as_new_as_its_writer_says_is_refused() {
    let environment = Bench::new(12).open();
    let mut tx = environment.write().expect("writer");
    tx.table_mut(&TABLE).insert_new(&row(1, 2, 3, 100)).expect("inserts");
    let again = tx.table_mut(&TABLE).insert_new(&row(1, 2, 4, 100));
    assert!(matches!(again, Err(crate::StorageError::Corrupt(_))), "{again:?}");
}

#[test]
fn sequential_keys_fill_their_pages() {
    let bench = Bench::new(5);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    for number in 0..20_000u64 {
        put(&mut tx, format!("users/{number:019}-A").as_bytes(), &number.to_le_bytes());
    }
    tx.commit().expect("commits");
    let report = environment.read().check().expect("sound");
    // 20,000 entries of 24 + 12 bytes (the shared prefix is stored once) are 88 full pages.
    assert!(report.used_pages < 110, "{} pages", report.used_pages);
}

#[test]
fn an_emptied_tree_frees_all_its_pages() {
    let bench = Bench::new(6);
    let environment = bench.open();
    for drop_it in [false, true] {
        let mut tx = environment.write().expect("writer");
        for number in 0..3000u32 {
            put(&mut tx, &number.to_be_bytes(), &value(number as usize % 3000));
        }
        tx.commit().expect("commits");
        let mut tx = environment.write().expect("writer");
        if drop_it {
            tx.drop_tree(&name("t")).expect("drops");
        } else {
            for number in 0..3000u32 {
                tx.tree_mut(&name("t"))
                    .expect("tree")
                    .delete(&number.to_be_bytes())
                    .expect("delete");
            }
        }
        tx.commit().expect("commits");
        let report = environment.read().check().expect("sound");
        assert_eq!(report.entries, 0);
        // Headers, root, bitmap, and the leaf that names the tree.
        assert_eq!(report.used_pages, 5);
    }
}

#[test]
fn a_table_that_was_emptied_by_its_first_transaction_loses_no_page() {
    let bench = Bench::new(9);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    let row = row(1, 0, 1, 10);
    tx.table_mut(&TABLE).insert(&row).expect("insert");
    let key = (TABLE.primary)(&row).into_owned();
    assert!(tx.table_mut(&TABLE).delete(&key).expect("delete"));
    tx.commit().expect("commits");
    environment.read().check().expect("sound");
}

#[test]
fn keys_and_values_have_limits() {
    let bench = Bench::new(7);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    let mut tree = tx.tree_mut(&name("t")).expect("tree");
    assert!(tree.put(&[1; crate::KEY_BYTES_MAX], b"").is_ok());
    assert!(tree.put(&[1; crate::KEY_BYTES_MAX + 1], b"").is_err());
    assert!(tree.put(b"large", &vec![1; crate::VALUE_BYTES_MAX + 1]).is_err());
}

#[test]
fn the_report_accounts_for_every_page() {
    let bench = Bench::new(8);
    let environment = bench.open();
    let mut tx = environment.write().expect("writer");
    for key in 0..5000u32 {
        put(&mut tx, &key.to_be_bytes(), &value(key as usize % 100));
        tx.fixed_tree_mut(&name("f"), 8).expect("tree").put(key.into(), &[1; 8]).expect("put");
    }
    for key in 0..40 {
        tx.table_mut(&TABLE).insert(&row(key, key % 3, key.into(), 700)).expect("insert");
    }
    tx.commit().expect("commits");
    let report = environment.report().expect("reports");
    let used = environment.read().check().expect("sound").used_pages;
    let tree_pages: u64 = report.trees.iter().map(|tree| tree.branch_pages + tree.leaf_pages).sum();
    assert_eq!(report.system_pages + tree_pages + report.row_and_run_pages, used);
    assert_eq!(report.row_and_run_pages, 4, "40 rows of 710 bytes, eleven to a page");
    let tree = report.trees.iter().find(|tree| tree.name == "t").expect("listed");
    assert_eq!((tree.entries, tree.depth, tree.branch_pages), (5000, 2, 1));
    let table = report.tables.iter().find(|table| table.name == "Rows").expect("listed");
    assert_eq!((table.rows, table.row_bytes), (40, 40 * 710));
    assert_eq!(report.journals.len(), 1);
    assert_eq!(report.journals[0].last_transaction, Some(1));
}
