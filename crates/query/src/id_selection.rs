//! A set of document ids, defined by single ids and by prefixes.
//!
//! Kept in a normal form — no prefix starts with another one and no id starts with a prefix — so
//! that the sets are closed under "and" and "or" and can be read from storage in id order without
//! visiting a document twice. All strings are lower-cased, as storage keys are.

use std::collections::BTreeSet;
use std::ops::Bound;

/// The ids that a condition selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdSelection {
    /// Every id: the condition does not restrict ids.
    Everything,
    /// The listed ids, and those with a listed prefix.
    Listed(IdList),
}

/// Ids and prefixes in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdList {
    ids: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

/// One contiguous range of ids in id order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdSelector {
    /// The document with this lower-cased id.
    Id(String),
    /// The documents whose lower-cased ids start with this.
    Prefix(String),
}

impl IdSelection {
    /// No id at all.
    pub fn nothing() -> IdSelection {
        IdSelection::Listed(IdList::default())
    }

    /// Exactly these lower-cased ids.
    pub fn ids(ids: impl IntoIterator<Item = String>) -> IdSelection {
        let list = IdList { ids: ids.into_iter().collect(), prefixes: BTreeSet::new() };
        IdSelection::Listed(list)
    }

    /// The ids that start with the lower-cased `prefix`.
    pub fn prefix(prefix: String) -> IdSelection {
        let list = IdList { ids: BTreeSet::new(), prefixes: BTreeSet::from([prefix]) };
        IdSelection::Listed(list)
    }

    /// The ids that are in both.
    pub fn and(self, other: IdSelection) -> IdSelection {
        match (self, other) {
            (IdSelection::Everything, other) | (other, IdSelection::Everything) => other,
            (IdSelection::Listed(left), IdSelection::Listed(right)) => {
                IdSelection::Listed(left.and(&right))
            }
        }
    }

    /// The ids that are in either.
    pub fn or(self, other: IdSelection) -> IdSelection {
        match (self, other) {
            (IdSelection::Everything, _) | (_, IdSelection::Everything) => IdSelection::Everything,
            (IdSelection::Listed(mut left), IdSelection::Listed(right)) => {
                left.add(right);
                IdSelection::Listed(left)
            }
        }
    }
}

impl IdList {
    /// Whether the list includes `id`.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id) || self.is_covered(id)
    }

    /// The ranges in id order, without overlaps.
    pub fn into_selectors(self) -> Vec<IdSelector> {
        let mut selectors: Vec<IdSelector> = self.ids.into_iter().map(IdSelector::Id).collect();
        selectors.extend(self.prefixes.into_iter().map(IdSelector::Prefix));
        selectors.sort_by(|left, right| left.text().cmp(right.text()));
        selectors
    }

    /// Whether `id` starts with a prefix of the list. No prefix starts with another one, so the
    /// greatest one that is not above the id is the only candidate.
    fn is_covered(&self, id: &str) -> bool {
        let up_to = (Bound::Unbounded, Bound::Included(id));
        let candidate = self.prefixes.range::<str, _>(up_to).next_back();
        candidate.is_some_and(|prefix| id.starts_with(prefix.as_str()))
    }

    fn and(&self, other: &IdList) -> IdList {
        let ids = self.ids.iter().filter(|id| other.contains(id));
        let ids = ids.chain(other.ids.iter().filter(|id| self.contains(id)));
        let prefixes = self.prefixes.iter().filter(|prefix| other.is_covered(prefix));
        let prefixes =
            prefixes.chain(other.prefixes.iter().filter(|prefix| self.is_covered(prefix)));
        IdList { ids: ids.cloned().collect(), prefixes: prefixes.cloned().collect() }
    }

    fn add(&mut self, other: IdList) {
        for prefix in other.prefixes {
            if self.is_covered(&prefix) {
                continue;
            }
            remove_covered(&mut self.prefixes, &prefix);
            remove_covered(&mut self.ids, &prefix);
            self.prefixes.insert(prefix);
        }
        for id in other.ids {
            if !self.is_covered(&id) {
                self.ids.insert(id);
            }
        }
    }
}

/// Removes the strings that start with `prefix`; they follow it directly.
fn remove_covered(texts: &mut BTreeSet<String>, prefix: &str) {
    let mut behind = texts.split_off(prefix);
    let after = behind.iter().find(|text| !text.starts_with(prefix)).cloned();
    if let Some(after) = after {
        texts.append(&mut behind.split_off(&after));
    }
}

impl IdSelector {
    /// The id or prefix.
    pub fn text(&self) -> &str {
        match self {
            IdSelector::Id(text) | IdSelector::Prefix(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A condition on ids, to compare the sets with a plain evaluation.
    #[derive(Clone, Debug)]
    enum Condition {
        Id(String),
        Prefix(String),
        Everything,
        And(Box<Condition>, Box<Condition>),
        Or(Box<Condition>, Box<Condition>),
    }

    impl Condition {
        fn holds(&self, id: &str) -> bool {
            match self {
                Condition::Id(text) => id == text,
                Condition::Prefix(prefix) => id.starts_with(prefix.as_str()),
                Condition::Everything => true,
                Condition::And(left, right) => left.holds(id) && right.holds(id),
                Condition::Or(left, right) => left.holds(id) || right.holds(id),
            }
        }

        fn selection(&self) -> IdSelection {
            match self {
                Condition::Id(text) => IdSelection::ids([text.clone()]),
                Condition::Prefix(prefix) => IdSelection::prefix(prefix.clone()),
                Condition::Everything => IdSelection::Everything,
                Condition::And(left, right) => left.selection().and(right.selection()),
                Condition::Or(left, right) => left.selection().or(right.selection()),
            }
        }
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        let leaf = prop_oneof![
            4 => "[ab]{0,3}".prop_map(Condition::Id),
            4 => "[ab]{0,2}".prop_map(Condition::Prefix),
            1 => Just(Condition::Everything),
        ];
        leaf.prop_recursive(5, 24, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone())
                    .prop_map(|(left, right)| Condition::And(Box::new(left), Box::new(right))),
                (inner.clone(), inner)
                    .prop_map(|(left, right)| Condition::Or(Box::new(left), Box::new(right))),
            ]
        })
    }

    fn all_ids() -> Vec<String> {
        let mut ids = vec![String::new()];
        for length in 1..=3 {
            let shorter: Vec<String> =
                ids.iter().filter(|id| id.len() == length - 1).cloned().collect();
            for id in shorter {
                ids.push(format!("{id}a"));
                ids.push(format!("{id}b"));
            }
        }
        ids.sort();
        ids
    }

    proptest! {
        #[test]
        fn a_selection_reads_exactly_the_ids_of_its_condition_in_order(condition in conditions()) {
            let expected: Vec<String> =
                all_ids().into_iter().filter(|id| condition.holds(id)).collect();
            let read = match condition.selection() {
                IdSelection::Everything => all_ids(),
                IdSelection::Listed(list) => list
                    .into_selectors()
                    .iter()
                    .flat_map(|selector| {
                        let chosen = |id: &String| match selector {
                            IdSelector::Id(text) => id == text,
                            IdSelector::Prefix(prefix) => id.starts_with(prefix.as_str()),
                        };
                        all_ids().into_iter().filter(chosen).collect::<Vec<_>>()
                    })
                    .collect(),
            };
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_prefix_swallows_what_starts_with_it() {
        let selection = IdSelection::ids(["crews/1".to_owned(), "boats/7".to_owned()])
            .or(IdSelection::prefix("crews/12".to_owned()))
            .or(IdSelection::prefix("crews/".to_owned()));
        let IdSelection::Listed(list) = selection else { panic!("not everything") };
        assert_eq!(
            list.into_selectors(),
            [IdSelector::Id("boats/7".to_owned()), IdSelector::Prefix("crews/".to_owned())]
        );
    }
}
