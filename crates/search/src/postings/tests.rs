//! Long lists: changed in many ways, walked and jumped through, against a set.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use storage::{Environment, EnvironmentOptions, Transaction, WriteTransaction};

use super::{
    Posting, PostingList, Weight,
    merge::{ListChange, change_list},
};
use crate::{cursor::END, error::SearchError, trees};

/// What a batch does to the list.
#[derive(Clone, Debug)]
struct Change {
    /// New entries: how many, and how far apart.
    added: usize,
    step: u64,
    /// Of the entries there are, those from this share of them on …
    removed_from: f64,
    /// … so many, each so many after the one before.
    removed: usize,
    removed_step: usize,
}

fn change() -> impl Strategy<Value = Change> {
    let added = prop_oneof![3 => 0usize..3, 3 => 100usize..900, 1 => 3000usize..5000];
    let step = prop_oneof![3 => Just(1u64), 1 => 1u64..4, 1 => 1u64..100_000];
    let removed = prop_oneof![3 => 0usize..3, 2 => 100usize..3000];
    (added, step, 0.0f64..1.0, removed, 1usize..3).prop_map(
        |(added, step, removed_from, removed, removed_step)| Change {
            added,
            step,
            removed_from,
            removed,
            removed_step,
        },
    )
}

/// Moves of a cursor: a number of single steps, then a seek by a distance.
fn moves() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let jump = prop_oneof![4 => 0u64..5, 4 => 0u64..300, 3 => 0u64..5000, 1 => 0u64..1_000_000];
    prop::collection::vec((prop_oneof![4 => 0usize..3, 1 => 100usize..200], jump), 0..60)
}

fn weight(entry: u64, weighted: bool) -> Weight {
    match weighted {
        true => {
            Weight { frequency: (entry / 512 % 2 * (entry % 5) + 1) as u8, length: entry as u8 }
        }
        false => Weight::ONE,
    }
}

/// A list in an environment, and what it should be.
struct Bench {
    environment: Arc<Environment>,
    value: Option<Vec<u8>>,
    next_list: u64,
    weighted: bool,
    model: BTreeMap<u64, Weight>,
    next_entry: u64,
}

impl Bench {
    fn new(weighted: bool) -> Self {
        let options = EnvironmentOptions::new("/index");
        let platform = platform::Platform::memory();
        let environment = Environment::open(&platform, options).expect("opens");
        let (value, model) = (None, BTreeMap::new());
        Self { environment, value, next_list: 1, weighted, model, next_entry: 1 }
    }

    fn apply(&mut self, change: &Change) -> Result<(), SearchError> {
        let from = (change.removed_from * self.model.len() as f64) as usize;
        let entries = self.model.keys().copied();
        let removed: Vec<u64> =
            entries.skip(from).step_by(change.removed_step).take(change.removed).collect();
        let mut added = Vec::new();
        for _ in 0..change.added {
            let entry = self.next_entry;
            self.next_entry += change.step;
            added.push(Posting { entry, weight: weight(entry, self.weighted) });
        }
        let mut tx = self.environment.write()?;
        let list_change = ListChange { added: &added, removed: &removed, weighted: self.weighted };
        self.value = change_list(&mut tx, &mut self.next_list, self.value.as_deref(), list_change)?;
        tx.commit()?;
        self.model.retain(|entry, _| removed.binary_search(entry).is_err());
        self.model.extend(added.iter().map(|posting| (posting.entry, posting.weight)));
        Ok(())
    }

    fn compare(&self, moves: &[(usize, u64)]) -> Result<(), TestCaseError> {
        let tx = self.environment.read();
        let Some(value) = &self.value else {
            prop_assert!(self.model.is_empty());
            prop_assert_eq!(tx.tree(&trees::POSTINGS).expect("opens").len(), 0);
            return Ok(());
        };
        let list = PostingList::parse(value).expect("parses");
        prop_assert_eq!(list.count(), self.model.len() as u64);
        let blocks = tx.tree(&trees::POSTINGS).expect("opens").len();
        prop_assert_eq!(list.block_count(&tx).expect("counts"), blocks, "no block is left behind");
        let mut postings = Vec::new();
        list.for_each_chunk(&tx, |chunk| postings.extend(chunk.postings())).expect("reads");
        let expected = self.model.iter().map(|(entry, weight)| (*entry, *weight));
        let found = postings.iter().map(|posting| (posting.entry, posting.weight));
        prop_assert!(found.eq(expected));

        let mut cursor = list.cursor(&tx).expect("opens");
        let mut at = 0;
        for (steps, jump) in moves {
            let here = |at: u64| self.model.range(at..).next().map_or(END, |(entry, _)| *entry);
            prop_assert_eq!(cursor.current(), here(at));
            at = here(at);
            if at != END {
                prop_assert_eq!(cursor.weight(), self.model[&at]);
            }
            for _ in 0..*steps {
                at = here(at.saturating_add(1));
                prop_assert_eq!(cursor.advance().expect("reads"), at);
            }
            at = here(at.saturating_add(*jump));
            prop_assert_eq!(cursor.seek(at).expect("reads"), at);
            at = at.saturating_add(*jump);
            prop_assert_eq!(cursor.seek(at).expect("reads"), here(at));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_list_behaves_like_a_set(
        weighted: bool,
        changes in prop::collection::vec((change(), moves()), 1..10),
    ) {
        let mut bench = Bench::new(weighted);
        for (change, moves) in &changes {
            bench.apply(change).expect("applies");
            bench.compare(moves)?;
        }
        let all = Change { added: 0, step: 1, removed_from: 0.0, removed: usize::MAX, removed_step: 1 };
        bench.apply(&all).expect("applies");
        bench.compare(&[])?;
    }
}

#[test]
fn a_change_that_contradicts_the_list_is_corruption() {
    for weighted in [false, true] {
        for count in [1, 50, 5000] {
            let mut bench = Bench::new(weighted);
            let add =
                Change { added: count, step: 2, removed_from: 0.0, removed: 0, removed_step: 1 };
            bench.apply(&add).expect("applies");
            let change = |added: &[Posting], removed: &[u64]| {
                let mut tx: WriteTransaction = bench.environment.write().expect("writer");
                let change = ListChange { added, removed, weighted };
                change_list(&mut tx, &mut 100, bench.value.as_deref(), change)
            };
            let there = Posting { entry: 1, weight: Weight::ONE };
            for result in [change(&[there], &[]), change(&[], &[2]), change(&[], &[1_000_000])] {
                assert!(matches!(result, Err(SearchError::Corrupt { .. })), "{result:?}");
            }
        }
    }
}
