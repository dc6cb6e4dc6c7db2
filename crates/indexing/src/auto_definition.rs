//! Automatic indexes: what a query requires of one, how it is named, and how it is extended.
//!
//! Names are part of the protocol: clients and users refer to an automatic index by its name, so
//! the rules follow the measured ones exactly.

use std::{cmp::Ordering, fmt::Write as _};

use xxhash_rust::xxh64::xxh64;

use crate::auto_grouping::AutoGrouping;

/// Longer names are truncated to this length and end with a hash of the whole name.
const NAME_CHARACTERS_MAX: usize = 256;
/// The name of the source of queries over all documents, and its form in the names of indexes.
const ALL_DOCUMENTS: (&str, &str) = ("@all_docs", "AllDocs");

/// What a query can require of an automatic index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoIndexDefinition {
    /// The collection, in the spelling of the query that created the index, or `@all_docs`.
    pub collection: String,
    /// In the order of the index's name; no two have the same source.
    fields: Vec<AutoField>,
    /// The grouping, of an index that has no fields other than those of its groups.
    grouping: Option<AutoGrouping>,
}

/// One field of an automatic index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoField {
    /// Where the values are.
    pub source: AutoFieldSource,
    /// How they are indexed, in addition to the default.
    pub ways: AutoFieldWays,
}

/// Where an automatic index finds the values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoFieldSource {
    /// A path in the document.
    Path {
        /// Without quotes: `Lines[].Product`.
        path: String,
        /// Whether it is a single, quoted name.
        is_quoted: bool,
    },
    /// Two paths with a latitude and a longitude.
    Point {
        /// The path of the latitude.
        latitude: String,
        /// The path of the longitude.
        longitude: String,
    },
    /// A path with a shape as text.
    Shape {
        /// The path of the text.
        path: String,
    },
}

/// How a field is indexed, in addition to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoFieldWays {
    /// Analysed into words.
    pub search: bool,
    /// As one unanalyzed term.
    pub exact: bool,
    /// Analyzed and stored, with the positions of words.
    pub highlight: bool,
    /// With the data for suggestions.
    pub suggest: bool,
}

impl AutoFieldWays {
    /// The union of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            search: self.search || other.search,
            exact: self.exact || other.exact,
            highlight: self.highlight || other.highlight,
            suggest: self.suggest || other.suggest,
        }
    }

    /// Whether it supports everything in `wanted`.
    pub(crate) fn covers(self, wanted: Self) -> bool {
        self.union(wanted) == self
    }

    /// The field's part of an index name: `Search(Name)AndExact(Name)`.
    pub(crate) fn decorated(self, key: &str) -> String {
        let decorated: Vec<_> = self.decorations().map(|way| format!("{way}({key})")).collect();
        if decorated.is_empty() { key.to_owned() } else { decorated.join("And") }
    }

    /// The names of the ways, in the order of index names.
    fn decorations(self) -> impl Iterator<Item = &'static str> {
        [
            (self.search, "Search"),
            (self.exact, "Exact"),
            (self.highlight, "Highlight"),
            (self.suggest, "Suggest"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
    }
}

impl AutoField {
    /// A field at a path that is indexed only in the default way.
    pub fn of_path(path: impl Into<String>) -> Self {
        let source = AutoFieldSource::Path { path: path.into(), is_quoted: false };
        Self { source, ways: AutoFieldWays::default() }
    }

    /// Whether its values are points or shapes.
    pub fn is_spatial(&self) -> bool {
        !matches!(self.source, AutoFieldSource::Path { .. })
    }

    /// The name of the index's field: the path, or `spatial.point(Lat, Lng)`.
    pub fn name(&self) -> String {
        match &self.source {
            AutoFieldSource::Path { path, .. } => path.clone(),
            AutoFieldSource::Point { latitude, longitude } => {
                format!("spatial.point({latitude}, {longitude})")
            }
            AutoFieldSource::Shape { path } => format!("spatial.wkt({path})"),
        }
    }

    /// Whether [`AutoField::name`] is this one.
    pub fn is_named(&self, name: &str) -> bool {
        match &self.source {
            AutoFieldSource::Path { path, .. } => path == name,
            AutoFieldSource::Point { .. } | AutoFieldSource::Shape { .. } => self.name() == name,
        }
    }

    /// The field's part of the index's name.
    fn name_part(&self) -> String {
        let key = match &self.source {
            AutoFieldSource::Path { path, is_quoted: true } => format!("'{path}'"),
            AutoFieldSource::Path { path, is_quoted: false } => path.clone(),
            AutoFieldSource::Point { latitude, longitude } => {
                format!("Spatial.point({latitude}|{longitude})")
            }
            AutoFieldSource::Shape { path } => format!("Spatial.wkt({path})"),
        };
        self.ways.decorated(&key)
    }
}

impl AutoFieldSource {
    /// Whether both have the same values: a quoted name is a path of one step.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path { path, .. }, Self::Path { path: other, .. })
                if !path.contains(['.', '[']) =>
            {
                path == other
            }
            _ => self == other,
        }
    }
}

impl AutoIndexDefinition {
    /// The definition with these fields; fields of the same source are merged.
    pub fn new(collection: impl Into<String>, fields: impl IntoIterator<Item = AutoField>) -> Self {
        let collection = collection.into();
        let mut definition = Self { collection, fields: Vec::new(), grouping: None };
        for field in fields {
            definition.add(field);
        }
        let before = |left: &AutoField, right: &AutoField| {
            in_the_order_of_names(&left.name_part(), &right.name_part())
        };
        definition.fields.sort_by(before);
        definition
    }

    /// The definition of an index of groups.
    pub fn grouped(collection: impl Into<String>, grouping: AutoGrouping) -> Self {
        Self { grouping: Some(grouping), ..Self::new(collection, []) }
    }

    fn add(&mut self, field: AutoField) {
        match self.fields.iter_mut().find(|known| known.source.is_same_as(&field.source)) {
            Some(known) => known.ways = known.ways.union(field.ways),
            None => self.fields.push(field),
        }
    }

    /// The fields, in the order of the index's name.
    pub fn fields(&self) -> &[AutoField] {
        &self.fields
    }

    /// The grouping; `None` when each entry is a document.
    pub fn grouping(&self) -> Option<&AutoGrouping> {
        self.grouping.as_ref()
    }

    /// The number of fields.
    pub fn width(&self) -> usize {
        self.fields.len() + self.grouping.as_ref().map_or(0, |groups| groups.aggregates().len())
    }

    /// The name: `Auto/Users/ByAgeAndSearch(Name)`.
    pub fn name(&self) -> String {
        let collection =
            if self.collection == ALL_DOCUMENTS.0 { ALL_DOCUMENTS.1 } else { &self.collection };
        if let Some(grouping) = &self.grouping {
            return shortened(format!("Auto/{collection}{}", grouping.name_part()));
        }
        let mut name = format!("Auto/{collection}/By");
        if self.fields.is_empty() {
            name.push_str("Id()");
        }
        for (number, field) in self.fields.iter().enumerate() {
            let separator = if number == 0 { "" } else { "And" };
            write!(name, "{separator}{}", field.name_part())
                .expect("writing to a String cannot fail");
        }
        shortened(name)
    }

    /// Whether an index of this definition can answer queries that require `wanted`.
    pub fn covers(&self, wanted: &Self) -> bool {
        if let (Some(own), Some(wanted_groups)) = (&self.grouping, &wanted.grouping) {
            return self.is_over_the_same_documents_as(wanted) && own.covers(wanted_groups);
        }
        self.is_over_the_same_documents_as(wanted)
            && wanted.fields.iter().all(|field| {
                self.fields
                    .iter()
                    .any(|own| own.source.is_same_as(&field.source) && own.ways.covers(field.ways))
            })
    }

    /// The union of both definitions.
    pub fn extended_by(&self, wanted: &Self) -> Self {
        if let (Some(own), Some(wanted)) = (&self.grouping, &wanted.grouping) {
            return Self::grouped(self.collection.clone(), own.extended_by(wanted));
        }
        Self::new(self.collection.clone(), self.fields.iter().chain(&wanted.fields).cloned())
    }

    /// Whether both have entries for the same documents, or for the same groups. Collections are
    /// compared without regard to case.
    pub fn is_over_the_same_documents_as(&self, other: &Self) -> bool {
        let has_the_same_groups = match (&self.grouping, &other.grouping) {
            (None, None) => true,
            (Some(own), Some(other)) => own.has_the_groups_of(other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        has_the_same_groups && self.collection.eq_ignore_ascii_case(&other.collection)
    }

    /// What `wanted` requires and this lacks, as a message: `The following field is missing: Age`.
    pub fn describe_missing(&self, wanted: &Self) -> Option<String> {
        match (&self.grouping, &wanted.grouping) {
            (None, None) => {}
            (Some(own), Some(wanted)) => return own.describe_missing(wanted),
            (Some(_), None) => return Some("Its entries are groups of documents".to_owned()),
            (None, Some(_)) => return Some("It does not group documents".to_owned()),
        }
        wanted.fields.iter().find_map(|field| {
            let Some(own) = self.fields.iter().find(|own| own.source.is_same_as(&field.source))
            else {
                return Some(format!("The following field is missing: {}", field.name()));
            };
            if own.ways.covers(field.ways) {
                return None;
            }
            let ways: Vec<_> = field.ways.decorations().collect();
            Some(format!("The field {} is not indexed as {}", field.name(), ways.join(", ")))
        })
    }
}

/// Punctuation sorts before digits and digits before letters; punctuation sorts in this order.
const SIGNS: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// The order of the parts of a name: that of .NET's invariant comparison, so letters first without
/// regard to case, then lower case before upper case.
pub(crate) fn in_the_order_of_names(left: &str, right: &str) -> Ordering {
    let without_case = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let case = |text: &str| text.chars().map(char::is_uppercase).collect::<Vec<_>>();
    without_case(left).cmp(&without_case(right)).then_with(|| case(left).cmp(&case(right)))
}

fn weight(character: char) -> (u8, u32) {
    match SIGNS.find(character) {
        Some(at) => (0, at as u32),
        None if character.is_numeric() => (1, u32::from(character)),
        None => (2, character.to_lowercase().next().map_or(0, u32::from)),
    }
}

fn shortened(name: String) -> String {
    let Some((cut, _)) = name.char_indices().nth(NAME_CHARACTERS_MAX) else { return name };
    format!("{}...{}", &name[..cut], xxh64(name.as_bytes(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> AutoField {
        AutoField::of_path(path)
    }

    fn with(field: AutoField, ways: &[&str]) -> AutoField {
        let has = |way: &str| ways.contains(&way);
        let ways = AutoFieldWays {
            search: has("search"),
            exact: has("exact"),
            highlight: has("highlight"),
            suggest: has("suggest"),
        };
        AutoField { ways, ..field }
    }

    fn quoted(name: &str) -> AutoField {
        let source = AutoFieldSource::Path { path: name.to_owned(), is_quoted: true };
        AutoField { source, ways: AutoFieldWays::default() }
    }

    fn point(latitude: &str, longitude: &str) -> AutoField {
        let (latitude, longitude) = (latitude.to_owned(), longitude.to_owned());
        let source = AutoFieldSource::Point { latitude, longitude };
        AutoField { source, ways: AutoFieldWays::default() }
    }

    #[test]
    fn quotes_make_no_other_field_of_a_name() {
        let searched = AutoIndexDefinition::new("U", [with(quoted("Name"), &["search"])]);
        let plain = AutoIndexDefinition::new("U", [path("Name")]);
        assert!(searched.covers(&plain));
        assert_eq!(searched.extended_by(&plain).name(), "Auto/U/BySearch('Name')");
        let of_a_member = AutoIndexDefinition::new("U", [path("A.B")]);
        assert!(!of_a_member.covers(&AutoIndexDefinition::new("U", [quoted("A.B")])));
    }

    #[test]
    fn names_are_those_that_were_measured() {
        for (collection, fields, expected) in [
            ("U", vec![], "Auto/U/ById()"),
            ("U", vec![path("Name")], "Auto/U/ByName"),
            ("@all_docs", vec![path("Name")], "Auto/AllDocs/ByName"),
            ("@empty", vec![path("Name")], "Auto/@empty/ByName"),
            ("U", vec![path("Name"), path("Age")], "Auto/U/ByAgeAndName"),
            ("U", vec![with(path("Name"), &["search"])], "Auto/U/BySearch(Name)"),
            (
                "U",
                vec![with(path("Name"), &["exact"]), with(path("Name"), &["search"])],
                "Auto/U/BySearch(Name)AndExact(Name)",
            ),
            (
                "U",
                vec![with(path("Name"), &["search", "highlight"])],
                "Auto/U/BySearch(Name)AndHighlight(Name)",
            ),
            ("U", vec![with(path("Name"), &["suggest"])], "Auto/U/BySuggest(Name)"),
            ("U", vec![quoted("Some Name"), path("Name")], "Auto/U/By'Some Name'AndName"),
            ("U", vec![path("Address.Street Name")], "Auto/U/ByAddress.Street Name"),
            ("U", vec![path("Lines[].Product")], "Auto/U/ByLines[].Product"),
            (
                "C",
                vec![path("a-b"), path("Count"), with(path("Name"), &["search"]), path("Age")],
                "Auto/C/Bya-bAndAgeAndCountAndSearch(Name)",
            ),
            (
                "C",
                vec![
                    path("twins"),
                    with(path("name"), &["search"]),
                    path("country"),
                    path("population"),
                ],
                "Auto/C/BycountryAndpopulationAndSearch(name)Andtwins",
            ),
            ("C", vec![path("a"), path("B"), path("c"), path("A")], "Auto/C/ByaAndAAndBAndc"),
            (
                "C",
                vec![with(path("b"), &["search", "exact"]), path("t"), path("m")],
                "Auto/C/BymAndSearch(b)AndExact(b)Andt",
            ),
            (
                "C",
                vec![path("a_b"), path("aB"), path("ac"), path("a.b")],
                "Auto/C/Bya_bAnda.bAndaBAndac",
            ),
            (
                "C",
                vec![
                    path("@metadata.Foo"),
                    path("a"),
                    path("_x"),
                    path("z1"),
                    path("z10"),
                    path("z2"),
                ],
                "Auto/C/By_xAnd@metadata.FooAndaAndz1Andz10Andz2",
            ),
            (
                "C",
                vec![path("lines[].P"), path("lines.P"), path("lines")],
                "Auto/C/BylinesAndlines.PAndlines[].P",
            ),
            (
                "C",
                vec![quoted("Some Name"), path("Name"), path("Zoo"), path("apple")],
                "Auto/C/By'Some Name'AndappleAndNameAndZoo",
            ),
            ("U", vec![point("Lat", "Lng")], "Auto/U/BySpatial.point(Lat|Lng)"),
            (
                "U",
                vec![point("Address.Lat", "Address.Lng"), path("Name")],
                "Auto/U/ByNameAndSpatial.point(Address.Lat|Address.Lng)",
            ),
        ] {
            assert_eq!(AutoIndexDefinition::new(collection, fields).name(), expected);
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let long = |last: &str| {
            let fields =
                (0..60).map(|number| path(&format!("Field{number:02}"))).chain([path(last)]);
            AutoIndexDefinition::new("Users", fields).name()
        };
        let name = long("Zebra");
        assert!(name.starts_with("Auto/Users/ByField00AndField01"));
        assert_eq!(name.split_once("...").map(|(head, _)| head.chars().count()), Some(256));
        assert_ne!(name, long("Zoo"));
    }

    #[test]
    fn an_index_answers_what_it_has_and_grows_by_what_it_lacks() {
        let by_name = AutoIndexDefinition::new("Users", [path("Name")]);
        let by_age = AutoIndexDefinition::new("users", [path("Age")]);
        let grown = by_name.extended_by(&by_age);
        assert_eq!(grown.name(), "Auto/Users/ByAgeAndName");
        assert!(grown.covers(&by_name) && grown.covers(&by_age) && !by_name.covers(&grown));
        let search = AutoIndexDefinition::new("Users", [with(path("Name"), &["search"])]);
        assert!(search.covers(&by_name), "every way includes the default");
        assert!(!grown.covers(&search));
        assert_eq!(
            by_name.describe_missing(&grown).as_deref(),
            Some("The following field is missing: Age")
        );
        assert_eq!(
            grown.describe_missing(&search).as_deref(),
            Some("The field Name is not indexed as Search")
        );
        assert!(!by_name.covers(&AutoIndexDefinition::new("Orders", [path("Name")])));
    }
}
