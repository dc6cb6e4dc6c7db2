//! Generated documents and facets: counts equal those of a direct count over the documents.

use std::collections::BTreeMap;

use indexing::{AutoField, AutoIndexDefinition};
use query::{CountedFacet, FacetValue};

use crate::fixture::Database;

const HISTORIES: u64 = 60;
const DOCUMENTS: usize = 40;
const NAMES: [&str; 9] = ["Ada", "ada", "bee", "", "Cat 2", "Cat 10", "null", "Émile", "zoe"];
const COSTS: [&str; 7] = ["-3", "0", "1.5", "2", "10", "99.25", "1000"];

/// A small random number generator (xorshift); its seed determines the whole history.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// A document as the direct count sees it; an empty list stands for a missing field.
struct Model {
    /// Lower-cased names, each once; `None` for null.
    names: Vec<Option<String>>,
    cost: Option<f64>,
}

fn document(dice: &mut Dice) -> (String, Model) {
    let mut names = Vec::new();
    let mut name = |dice: &mut Dice| match dice.below(NAMES.len() + 1) {
        0 => {
            names.push(None);
            "null".to_owned()
        }
        at => {
            names.push(Some(NAMES[at - 1].to_lowercase()));
            format!("\"{}\"", NAMES[at - 1])
        }
    };
    let names_json = match dice.below(4) {
        0 => String::new(),
        1 => format!(r#","Name":[{},{}]"#, name(dice), name(dice)),
        _ => format!(r#","Name":{}"#, name(dice)),
    };
    names.sort();
    names.dedup();
    let (cost_json, cost) = match dice.below(COSTS.len() + 2) {
        0 => (String::new(), None),
        1 => (r#","Cost":null"#.to_owned(), None),
        at => (format!(r#","Cost":{}"#, COSTS[at - 2]), COSTS[at - 2].parse().ok()),
    };
    (format!(r#""Half":{}{names_json}{cost_json}"#, dice.below(2)), Model { names, cost })
}

/// Whether a number is in a range.
type IsInside = fn(f64) -> bool;
/// Count, and the numbers.
type Counted = (u64, Vec<f64>);

fn value(range: &str, (count, numbers): &Counted) -> FacetValue {
    let some = |number: f64| Some(if numbers.is_empty() { 0.0 } else { number });
    let sum: f64 = numbers.iter().sum();
    let mut value = FacetValue { range: range.to_owned(), count: *count, ..Default::default() };
    value.name = Some("Cost".to_owned());
    if 0 < *count {
        value.sum = Some(sum);
        value.average = some(sum / numbers.len() as f64);
        value.min = some(numbers.iter().copied().fold(f64::INFINITY, f64::min));
        value.max = some(numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    }
    value
}

fn add(counted: &mut Counted, model: &Model) {
    counted.0 += 1;
    counted.1.extend(model.cost);
}

fn shown(name: &Option<String>) -> String {
    match name.as_deref() {
        None => "NULL_VALUE".to_owned(),
        Some("") => "EMPTY_STRING".to_owned(),
        Some(name) => name.to_owned(),
    }
}

fn sorted(mut values: Vec<FacetValue>) -> Vec<FacetValue> {
    values.sort_by(|left, right| left.range.cmp(&right.range));
    values
}

#[test]
fn facets_count_what_documents_have() {
    for seed in 1..=HISTORIES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let database = Database::new();
        let mut models = Vec::new();
        for number in 0..DOCUMENTS {
            let (json, model) = document(&mut dice);
            database.put(&format!("u/{number}"), "U", &json);
            models.push((json.contains("\"Half\":1"), model));
        }
        let fields = ["Name", "Cost", "Half"].map(AutoField::of_path);
        let definition = AutoIndexDefinition::new("U", fields);
        let index = database.open_index(&format!("index-{seed}"), &definition);
        database.catch_up(&index);
        let (condition, is_half) = match dice.below(2) {
            0 => ("", false),
            _ => ("where Half = 1 ", true),
        };
        let chosen = || models.iter().filter(|(half, _)| *half || !is_half).map(|(_, model)| model);
        let all = "sum(Cost), avg(Cost), min(Cost), max(Cost)";
        let text = format!(
            "from index 'I' {condition}select facet(Name, {all}), facet({all}), facet(Cost < 2, \
             Cost >= 2 and Cost <= 10, Cost between 2.0 and 99.25, Cost > 5000, {all}) as Ranges"
        );
        let facets = database.facets(&index, &text).unwrap();
        let mut terms: BTreeMap<String, Counted> = BTreeMap::new();
        let mut everything = Counted::default();
        for model in chosen() {
            add(&mut everything, model);
            for name in &model.names {
                add(terms.entry(shown(name)).or_default(), model);
            }
        }
        let by_term: Vec<_> = terms.iter().map(|(term, counted)| value(term, counted)).collect();
        assert_eq!(sorted(facets[0].values.clone()), by_term, "seed {seed}");
        let of_all: Vec<_> =
            chosen().next().map(|_| value("@AllResults", &everything)).into_iter().collect();
        assert_eq!(facets[1].values, of_all, "seed {seed}");
        let mut expected = Vec::new();
        let ranges: [(&str, IsInside); 4] = [
            ("Cost < 2", |cost| cost < 2.0),
            ("Cost >= 2 and Cost <= 10", |cost| (2.0..=10.0).contains(&cost)),
            ("Cost between 2.0 and 99.25", |cost| (2.0..=99.25).contains(&cost)),
            ("Cost > 5000", |cost| cost > 5000.0),
        ];
        for (range, is_inside) in ranges {
            let mut counted = Counted::default();
            chosen()
                .filter(|model| model.cost.is_some_and(is_inside))
                .for_each(|model| add(&mut counted, model));
            expected.push(value(range, &counted));
        }
        assert_eq!(facets[2].values, expected, "seed {seed}");
        pages_are_parts_of_the_whole(
            &database
                .facets(
                    &index,
                    &format!(
                        "from index 'I' {condition}select facet(Name), facet(Name, \
             '{{\"Start\":1,\"PageSize\":2,\"IncludeRemainingTerms\":true}}') as P"
                    ),
                )
                .unwrap(),
        );
    }
}

fn pages_are_parts_of_the_whole(facets: &[CountedFacet]) {
    let [whole, page] = facets else { panic!("two facets, but {}", facets.len()) };
    let from = 1.min(whole.values.len());
    let to = 3.min(whole.values.len());
    assert_eq!(page.values, whole.values[from..to]);
    let remaining = &whole.values[to..];
    assert_eq!(page.remaining_terms_count, remaining.len() as u64);
    assert_eq!(page.remaining_hits, remaining.iter().map(|value| value.count).sum::<u64>());
    let names: Vec<_> = remaining.iter().map(|value| value.range.clone()).collect();
    assert_eq!(page.remaining_terms, names);
}
