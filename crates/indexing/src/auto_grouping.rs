//! The groups of an automatic index and their aggregates. Names follow the measured ones exactly,
//! as in `auto_definition`.

use crate::auto_definition::{AutoFieldWays, in_the_order_of_names};

/// The name of the number of documents in a group.
const COUNT: &str = "Count";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoGrouping {
    /// In the order of the index's name; no two have the same path.
    keys: Vec<GroupKey>,
    /// In the order of the index's name.
    aggregates: Vec<Aggregate>,
}

/// One of the fields that determine a document's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey {
    /// Where the values are, without quotes: `Lines[].Product`.
    pub path: String,
    /// Whether it is a single, quoted name.
    pub is_quoted: bool,
    /// How arrays are grouped.
    pub arrays: ArrayGroups,
    /// How the values are indexed, in addition to the default.
    pub ways: AutoFieldWays,
}

/// The groups of a document whose key is an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayGroups {
    /// The query does not mention arrays; an array is a value like any other.
    Whole,
    /// The group of the whole array: `array(Tags)`.
    Content,
    /// The groups of its elements: `Tags[]`.
    Elements,
}

/// An aggregate of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of documents, or of elements of documents.
    Count,
    /// The sum of the numbers at this path.
    Sum(String),
}

impl GroupKey {
    /// The same field, however it is indexed.
    fn is_same_as(&self, other: &Self) -> bool {
        self.path == other.path && self.arrays == other.arrays
    }

    /// The key's part of the index's name.
    fn name_part(&self) -> String {
        let key = match (self.is_quoted, self.arrays) {
            (true, _) => format!("'{}'", self.path),
            (false, ArrayGroups::Content) => format!("Array({})", self.path),
            (false, ArrayGroups::Whole | ArrayGroups::Elements) => self.path.clone(),
        };
        self.ways.decorated(&key)
    }
}

impl Aggregate {
    /// The name of the result's property: `Count`, or the path that is summed.
    pub fn name(&self) -> &str {
        match self {
            Self::Count => COUNT,
            Self::Sum(path) => path,
        }
    }

    /// The operation, as a database record names it.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Sum(_) => "Sum",
        }
    }
}

impl AutoGrouping {
    /// These keys and aggregates, each once.
    pub fn new(
        keys: impl IntoIterator<Item = GroupKey>,
        aggregates: impl IntoIterator<Item = Aggregate>,
    ) -> Self {
        let mut grouping = Self::default();
        for key in keys {
            match grouping.keys.iter_mut().find(|own| own.is_same_as(&key)) {
                Some(own) => own.ways = own.ways.union(key.ways),
                None => grouping.keys.push(key),
            }
        }
        for aggregate in aggregates {
            if !grouping.aggregates.contains(&aggregate) {
                grouping.aggregates.push(aggregate);
            }
        }
        grouping
            .keys
            .sort_by(|left, right| in_the_order_of_names(&left.name_part(), &right.name_part()));
        grouping.aggregates.sort_by(|left, right| in_the_order_of_names(left.name(), right.name()));
        grouping
    }

    /// The keys, in the order of the name.
    pub fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The aggregates of each group, in the order of the name.
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// The end of the index's name: `/ByCountReducedByCompany`, or `ReducedByCompany`.
    pub(crate) fn name_part(&self) -> String {
        let aggregates: Vec<_> = self.aggregates.iter().map(Aggregate::name).collect();
        let keys: Vec<_> = self.keys.iter().map(GroupKey::name_part).collect();
        let by = if aggregates.is_empty() { "" } else { "/By" };
        format!("{by}{}ReducedBy{}", aggregates.join("And"), keys.join("And"))
    }

    /// Whether the groups are the same.
    pub(crate) fn has_the_groups_of(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
            && self.keys.iter().all(|key| other.keys.iter().any(|other| other.is_same_as(key)))
    }

    /// Whether it has all aggregates of `wanted`.
    pub(crate) fn covers(&self, wanted: &Self) -> bool {
        self.has_the_groups_of(wanted)
            && wanted.aggregates.iter().all(|aggregate| self.aggregates.contains(aggregate))
            && wanted.keys.iter().all(|key| {
                self.keys.iter().any(|own| own.is_same_as(key) && own.ways.covers(key.ways))
            })
    }

    /// The aggregates of both.
    pub(crate) fn extended_by(&self, wanted: &Self) -> Self {
        let keys = self.keys.iter().chain(&wanted.keys).cloned();
        Self::new(keys, self.aggregates.iter().chain(&wanted.aggregates).cloned())
    }

    /// What `wanted` requires and this lacks, as a message.
    pub(crate) fn describe_missing(&self, wanted: &Self) -> Option<String> {
        if !self.has_the_groups_of(wanted) {
            let keys: Vec<_> = self.keys.iter().map(|key| key.path.as_str()).collect();
            return Some(format!("It groups by {}", keys.join(", ")));
        }
        let lacks = |aggregate: &&Aggregate| !self.aggregates.contains(aggregate);
        if let Some(aggregate) = wanted.aggregates.iter().find(lacks) {
            return Some(format!("The following field is missing: {}", aggregate.name()));
        }
        let key = wanted.keys.iter().find(|key| {
            !self.keys.iter().any(|own| own.is_same_as(key) && own.ways.covers(key.ways))
        })?;
        Some(format!("The field {} is not indexed in the requested way", key.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto_definition::AutoIndexDefinition;

    fn key(path: &str) -> GroupKey {
        let (is_quoted, ways) = (false, AutoFieldWays::default());
        let arrays = if path.contains("[]") { ArrayGroups::Elements } else { ArrayGroups::Whole };
        GroupKey { path: path.to_owned(), is_quoted, arrays, ways }
    }

    fn sum(path: &str) -> Aggregate {
        Aggregate::Sum(path.to_owned())
    }

    fn definition(keys: Vec<GroupKey>, aggregates: Vec<Aggregate>) -> AutoIndexDefinition {
        AutoIndexDefinition::grouped("G", AutoGrouping::new(keys, aggregates))
    }

    #[test]
    fn names_are_those_that_were_measured() {
        let search = AutoFieldWays { search: true, ..Default::default() };
        let exact = AutoFieldWays { exact: true, ..Default::default() };
        let content = |path| GroupKey { arrays: ArrayGroups::Content, ..key(path) };
        for (keys, aggregates, expected) in [
            (vec![key("C")], vec![Aggregate::Count], "Auto/G/ByCountReducedByC"),
            (vec![key("C")], vec![sum("N"), Aggregate::Count], "Auto/G/ByCountAndNReducedByC"),
            (vec![key("N"), key("C")], vec![], "Auto/GReducedByCAndN"),
            (
                vec![key("C")],
                vec![sum("N"), sum("D"), Aggregate::Count, sum("N")],
                "Auto/G/ByCountAndDAndNReducedByC",
            ),
            (
                vec![key("L[].P")],
                vec![Aggregate::Count, sum("L[].Q")],
                "Auto/G/ByCountAndL[].QReducedByL[].P",
            ),
            (
                vec![key("A[]")],
                vec![Aggregate::Count, sum("B[]")],
                "Auto/G/ByB[]AndCountReducedByA[]",
            ),
            (vec![content("T")], vec![Aggregate::Count], "Auto/G/ByCountReducedByArray(T)"),
            (
                vec![GroupKey { ways: search, ..key("Name") }],
                vec![Aggregate::Count],
                "Auto/G/ByCountReducedBySearch(Name)",
            ),
            (
                vec![GroupKey { ways: exact, ..key("Name") }],
                vec![Aggregate::Count],
                "Auto/G/ByCountReducedByExact(Name)",
            ),
            (
                vec![GroupKey { is_quoted: true, ..key("S p") }],
                vec![Aggregate::Count],
                "Auto/G/ByCountReducedBy'S p'",
            ),
        ] {
            assert_eq!(definition(keys, aggregates).name(), expected);
        }
    }

    #[test]
    fn an_index_answers_for_the_same_groups_and_grows_by_what_it_lacks() {
        let count = definition(vec![key("C")], vec![Aggregate::Count]);
        let total = definition(vec![key("C")], vec![sum("N")]);
        let other = definition(vec![key("C"), key("D")], vec![Aggregate::Count]);
        let content = GroupKey { arrays: ArrayGroups::Content, ..key("C") };
        let arrays = definition(vec![content], vec![Aggregate::Count]);
        let plain = AutoIndexDefinition::new("G", []);
        assert!(!count.covers(&total) && !count.covers(&other) && !count.covers(&arrays));
        assert!(!plain.covers(&count) && !count.covers(&plain));
        assert!(count.is_over_the_same_documents_as(&total));
        assert!(!count.is_over_the_same_documents_as(&other));
        assert!(!count.is_over_the_same_documents_as(&plain));
        let grown = count.extended_by(&total);
        assert_eq!(grown.name(), "Auto/G/ByCountAndNReducedByC");
        assert!(grown.covers(&count) && grown.covers(&total));
        assert_eq!(
            count.describe_missing(&total).as_deref(),
            Some("The following field is missing: N")
        );
        assert_eq!(AutoIndexDefinition::of_shape(&grown.to_shape()), grown);
        assert_eq!(AutoIndexDefinition::of_shape(&arrays.to_shape()), arrays);
    }
}
