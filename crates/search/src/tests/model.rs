//! Generated changes and queries against a naive evaluator, which looks at every entry.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use proptest::{prelude::*, sample::select};
use storage::{Environment, WorkingMemory};

use super::{Bench, Fields, apply, entry, phrase, text};
use crate::{
    EntryBuilder, Facet, Hit, IndexBatch, IndexReader, LikeWord, Query, Scoring, SearchError,
    SortBy, SortKey, TermRange, TermValue, alphanumeric, check,
};

const NAMES: [&str; 12] =
    ["", "a", "B", "ab", "abc", "ABD", "b", "ba", "É", "éa", "zz top", "日本"];
const WORDS: [&str; 7] = ["the", "quick", "brown", "fox", "quickly", "Fox", "bear"];
const NUMBERS: [f64; 8] = [-5.0, -0.5, 0.0, 1.0, 1.5, 2.0, 10.0, 1e300];
const FIELDS: [&str; 4] = ["Name", "Age", "Tag", "Body"];
const DOCUMENTS: u8 = 12;

#[derive(Clone, Debug)]
enum Value {
    Null,
    Text(&'static str),
    Number(f64),
    Words(Vec<&'static str>),
}

/// The values of an entry by field, in the order of `FIELDS`.
#[derive(Clone, Debug)]
struct ModelEntry {
    document: u8,
    values: [Vec<Value>; 4],
    boosts: Boosts,
}

/// Of the whole entry, and of `Name` and `Body`.
type Boosts = [f64; 3];
/// The parts of a generated entry.
type EntryParts = ([Vec<Value>; 4], Boosts);

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<EntryParts>),
    Delete(u8),
    Apply,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        4 => select(&NAMES[..]).prop_map(Value::Text),
        4 => select(&NUMBERS[..]).prop_map(Value::Number),
    ]
}

fn words() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        6 => prop::collection::vec(select(&WORDS[..]), 0..9).prop_map(Value::Words),
    ]
}

fn values() -> impl Strategy<Value = [Vec<Value>; 4]> {
    let some = || prop::collection::vec(value(), 0..3);
    (some(), some(), some(), prop::collection::vec(words(), 0..3))
        .prop_map(|(name, age, tag, body)| [name, age, tag, body])
}

fn boosts() -> impl Strategy<Value = Boosts> {
    let boost = || select(&[1.0, 1.0, 1.0, 0.0, 0.5, 4.0][..]);
    prop_oneof![
        3 => Just([1.0; 3]),
        1 => [boost(), boost(), boost()],
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..DOCUMENTS, prop::collection::vec((values(), boosts()), 0..4))
            .prop_map(|(document, entries)| Step::Put(document, entries)),
        2 => (0..DOCUMENTS).prop_map(Step::Delete),
        3 => Just(Step::Apply),
    ]
}

fn term_value() -> impl Strategy<Value = TermValue> {
    prop_oneof![
        1 => Just(TermValue::Null),
        4 => term_text().prop_map(TermValue::Text),
        2 => select(&NUMBERS[..]).prop_map(|number| TermValue::Long(number as i64)),
        2 => select(&NUMBERS[..]).prop_map(TermValue::Double),
    ]
}

fn term_text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(&NAMES[..]).prop_map(str::to_lowercase),
        select(&NAMES[..]).prop_map(str::to_owned),
        select(&WORDS[..]).prop_map(str::to_lowercase),
        select(&["1", "1.5", "-5", "nope"][..]).prop_map(str::to_owned),
    ]
}

fn bound<V: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = V>,
) -> impl Strategy<Value = Bound<V>> {
    (0..3, value).prop_map(|(kind, value)| match kind {
        0 => Bound::Included(value),
        1 => Bound::Excluded(value),
        _ => Bound::Unbounded,
    })
}

fn range() -> impl Strategy<Value = TermRange> {
    let long = || bound(select(&NUMBERS[..]).prop_map(|number| number as i64));
    let double = || bound(select(&NUMBERS[..]));
    prop_oneof![
        (bound(term_text()), bound(term_text())).prop_map(|(low, high)| TermRange::Text(low, high)),
        (long(), long()).prop_map(|(low, high)| TermRange::Long(low, high)),
        (double(), double()).prop_map(|(low, high)| TermRange::Double(low, high)),
    ]
}

fn field() -> impl Strategy<Value = String> {
    select(&["Name", "Age", "Tag", "Body", "Name", "Age", "Nope", "id()"][..])
        .prop_map(str::to_owned)
}

fn leaf() -> impl Strategy<Value = Query> {
    let many = || prop::collection::vec(term_value(), 0..4);
    let body = prop::collection::vec(select(&WORDS[..]), 1..4);
    let pattern = select(&["*", "?", "a*", "*a", "?b*", "*o*", "q*k", "*?*"][..]);
    let regex = select(&["^a", "B", "a|é", "o.$", "^$"][..]);
    prop_oneof![
        1 => Just(Query::All),
        1 => Just(Query::None),
        6 => (field(), term_value()).prop_map(|(field, value)| Query::Term { field, value }),
        2 => (field(), many()).prop_map(|(field, values)| Query::AnyOf { field, values }),
        2 => (field(), many()).prop_map(|(field, values)| Query::AllOf { field, values }),
        4 => (field(), range()).prop_map(|(field, range)| Query::Range { field, range }),
        1 => (field(), term_text()).prop_map(|(field, text)| Query::Prefix { field, text }),
        1 => (field(), term_text()).prop_map(|(field, text)| Query::Suffix { field, text }),
        1 => (field(), term_text()).prop_map(|(field, text)| Query::Contains { field, text }),
        1 => (field(), pattern)
            .prop_map(|(field, pattern)| Query::Wildcard { field, pattern: pattern.to_owned() }),
        1 => (field(), regex)
            .prop_map(|(field, pattern)| Query::Regex { field, pattern: pattern.to_owned() }),
        1 => (field(), term_text(), 0.0f32..1.0)
            .prop_map(|(field, text, similarity)| Query::Fuzzy { field, text, similarity }),
        2 => (body, 0u32..4).prop_map(|(words, slop)| {
            let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            phrase("Body", &words, slop)
        }),
        2 => prop::collection::vec(like_word(), 0..4).prop_map(Query::Likeness),
        2 => field().prop_map(|field| Query::Exists { field }),
    ]
}

fn like_word() -> impl Strategy<Value = LikeWord> {
    let boost = select(&[1.0, 0.5, 3.0][..]);
    (field(), term_text(), boost).prop_map(|(field, text, boost)| LikeWord { field, text, boost })
}

fn query() -> impl Strategy<Value = Query> {
    leaf().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Query::And),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Query::Or),
            inner.clone().prop_map(Query::not),
            (inner.clone(), prop::collection::vec(inner.clone(), 0..3))
                .prop_map(|(required, preferred)| Query::Preferring(Box::new(required), preferred)),
            inner.prop_map(|query| Query::Boost(Box::new(query), 2.0)),
        ]
    })
}

fn sort() -> impl Strategy<Value = Vec<SortKey>> {
    let by = (0..5, field()).prop_map(|(kind, field)| match kind {
        0 | 1 => SortBy::Text(field),
        2 => SortBy::Long(field),
        3 => SortBy::Double(field),
        _ => SortBy::AlphaNumeric(field),
    });
    let key = (by, any::<bool>()).prop_map(|(by, descending)| SortKey { by, descending });
    prop::collection::vec(key, 0..3)
}

fn number_text(number: f64) -> String {
    format!("{number:?}").trim_end_matches(".0").to_owned()
}

/// The model's entry as the index takes it.
fn build(fields: &Fields, (values, boosts): &EntryParts, with_boosts: bool) -> EntryBuilder {
    let handles = [&fields.name, &fields.age, &fields.tag, &fields.body];
    entry(|entry| {
        for (field, values) in handles.into_iter().zip(values) {
            for value in values {
                match value {
                    Value::Null => entry.null(field),
                    Value::Text(text) => entry.text(field, text),
                    Value::Number(number) => {
                        entry.number(field, &number_text(*number), *number as i64, *number);
                    }
                    Value::Words(words) => entry.text(field, &words.join(" ")),
                }
            }
        }
        if with_boosts {
            entry.boost(&fields.body, boosts[2]);
            entry.boost_entry(boosts[0]);
            entry.boost(&fields.name, boosts[1]);
        }
    })
}

/// How steps become an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    InBatches,
    AtOnce,
    WithoutBoosts,
}

fn run(environment: &Arc<Environment>, steps: &[Step], how: Build) -> Result<(), SearchError> {
    let mut batch = IndexBatch::new();
    let mut fields = Fields::load(environment);
    for step in steps {
        match step {
            Step::Put(document, entries) => {
                let with_boosts = how != Build::WithoutBoosts;
                let entries: Vec<_> =
                    entries.iter().map(|parts| build(&fields, parts, with_boosts)).collect();
                batch.put(&format!("d/{document}"), &entries)?;
            }
            Step::Delete(document) => batch.delete(&format!("d/{document}"))?,
            Step::Apply if how != Build::InBatches => {}
            Step::Apply => {
                apply(environment, &mut fields, &mut batch)?;
                fields = Fields::load(environment);
            }
        }
    }
    apply(environment, &mut fields, &mut batch).map(drop)
}

fn model(steps: &[Step]) -> Vec<ModelEntry> {
    let mut entries: Vec<ModelEntry> = Vec::new();
    for step in steps {
        match step {
            Step::Put(document, parts) => {
                entries.retain(|entry| entry.document != *document);
                let document = *document;
                entries.extend(parts.iter().map(|(values, boosts)| ModelEntry {
                    document,
                    values: values.clone(),
                    boosts: *boosts,
                }));
            }
            Step::Delete(document) => entries.retain(|entry| entry.document != *document),
            Step::Apply => {}
        }
    }
    entries
}

impl ModelEntry {
    /// The terms of a field, each once.
    fn terms(&self, field: &str) -> Vec<TermValue> {
        if field == "id()" {
            return vec![text(&format!("d/{}", self.document))];
        }
        let Some(at) = FIELDS.iter().position(|name| *name == field) else { return Vec::new() };
        let mut terms: Vec<TermValue> = Vec::new();
        for value in &self.values[at] {
            match value {
                Value::Null => terms.push(TermValue::Null),
                Value::Text(value) if field == "Tag" => terms.push(text(value)),
                Value::Text(value) => terms.push(text(&value.to_lowercase())),
                Value::Number(number) => terms.extend([
                    text(&number_text(*number)),
                    TermValue::Long(*number as i64),
                    TermValue::Double(*number),
                ]),
                Value::Words(words) if words.is_empty() => terms.push(text("")),
                Value::Words(words) => {
                    let kept = words.iter().filter(|word| **word != "the");
                    terms.extend(kept.map(|word| text(&word.to_lowercase())));
                }
            }
        }
        terms
    }

    fn texts(&self, field: &str) -> Vec<String> {
        let texts = self.terms(field).into_iter().filter_map(|term| match term {
            TermValue::Text(text) => Some(text),
            _ => None,
        });
        texts.collect()
    }

    /// Words of the body by position.
    fn body(&self) -> Vec<(String, i64)> {
        let mut places = Vec::new();
        let mut next = 0;
        for value in &self.values[3] {
            let Value::Words(words) = value else { continue };
            if words.is_empty() {
                places.push((String::new(), next));
                next += 1;
                continue;
            }
            for word in words.iter().filter(|word| **word != "the") {
                places.push((word.to_lowercase(), next));
                next += 1;
            }
        }
        places
    }

    fn matches(&self, query: &Query) -> bool {
        let texts_match = |field: &str, test: &dyn Fn(&str) -> bool| {
            self.texts(field).iter().any(|text| test(text))
        };
        let part = |field: &str, part: &str, test: &dyn Fn(&str) -> bool| match part.is_empty() {
            true => !self.terms(field).is_empty(),
            false => texts_match(field, test),
        };
        match query {
            Query::All => true,
            Query::None | Query::Entries(_) | Query::Spatial { .. } => false,
            Query::Term { field, value } => self.terms(field).contains(value),
            Query::AnyOf { field, values } => {
                values.iter().any(|value| self.terms(field).contains(value))
            }
            Query::AllOf { field, values } => {
                !values.is_empty() && values.iter().all(|value| self.terms(field).contains(value))
            }
            Query::Range { field, range } => {
                self.terms(field).iter().any(|term| is_in_range(term, range))
            }
            Query::Prefix { field, text } => part(field, text, &|own| own.starts_with(&**text)),
            Query::Suffix { field, text } => part(field, text, &|own| own.ends_with(&**text)),
            Query::Contains { field, text } => part(field, text, &|own| own.contains(&**text)),
            Query::Wildcard { field, pattern } => {
                let stars = pattern.trim_matches('*');
                part(field, stars, &|own| naive_wildcard(&chars(pattern), &chars(own)))
            }
            Query::Regex { field, pattern } => {
                let regex = regex::Regex::new(&format!("(?i){pattern}")).expect("compiles");
                texts_match(field, &|own| regex.is_match(own))
            }
            Query::Fuzzy { field, text, similarity } => texts_match(field, &|own| {
                let edits = naive_distance(&chars(text), &chars(own));
                let shorter = text.chars().count().min(own.chars().count());
                edits == 0 || (edits as f32) < (1.0 - similarity) * shorter as f32
            }),
            Query::Phrase { words, slop, .. } => {
                let words: Vec<(&str, i64)> =
                    words.iter().map(|word| (&*word.text, i64::from(word.position))).collect();
                naive_phrase(&self.body(), &words, i64::from(*slop), &mut Vec::new())
            }
            Query::Exists { field } => !self.terms(field).is_empty(),
            Query::And(queries) => queries.iter().all(|query| self.matches(query)),
            Query::Or(queries) => queries.iter().any(|query| self.matches(query)),
            Query::Likeness(words) => words
                .iter()
                .any(|LikeWord { field, text, .. }| texts_match(field, &|own| own == text)),
            Query::Not(query) => !self.matches(query),
            Query::Boost(query, _) | Query::Preferring(query, _) => self.matches(query),
        }
    }

    /// Rank and greatest value of the field.
    fn sort_value(&self, by: &SortBy) -> (u8, Option<TermValue>) {
        let (SortBy::Text(field)
        | SortBy::Long(field)
        | SortBy::Double(field)
        | SortBy::AlphaNumeric(field)) = by
        else {
            return (0, None);
        };
        let terms = self.terms(field);
        let wanted = terms.iter().filter(|term| match by {
            SortBy::Long(_) => matches!(term, TermValue::Long(_)),
            SortBy::Double(_) => matches!(term, TermValue::Double(_)),
            _ => matches!(term, TermValue::Text(_)),
        });
        let greatest = wanted.max_by(|left, right| compare_terms(by, left, right)).cloned();
        match greatest {
            Some(value) => (3, Some(value)),
            None if terms.iter().any(|term| *term != TermValue::Null) => (2, None),
            None if !terms.is_empty() => (1, None),
            None => (0, None),
        }
    }
}

fn compare_terms(by: &SortBy, left: &TermValue, right: &TermValue) -> Ordering {
    match (left, right) {
        (TermValue::Text(left), TermValue::Text(right)) => match by {
            SortBy::AlphaNumeric(_) => alphanumeric::compare(left, right),
            _ => left.cmp(right),
        },
        (TermValue::Long(left), TermValue::Long(right)) => left.cmp(right),
        (TermValue::Double(left), TermValue::Double(right)) => left.total_cmp(right),
        _ => panic!("two kinds"),
    }
}

fn compare_entries(sort: &[SortKey], left: &ModelEntry, right: &ModelEntry) -> Ordering {
    for key in sort {
        let (left, right) = (left.sort_value(&key.by), right.sort_value(&key.by));
        let order = left.0.cmp(&right.0).then_with(|| match (&left.1, &right.1) {
            (Some(left), Some(right)) => compare_terms(&key.by, left, right),
            _ => Ordering::Equal,
        });
        let order = if key.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn is_in_range(term: &TermValue, range: &TermRange) -> bool {
    fn inside<V: PartialOrd>(value: &V, low: &Bound<V>, high: &Bound<V>) -> bool {
        let above = match low {
            Bound::Included(low) => value >= low,
            Bound::Excluded(low) => value > low,
            Bound::Unbounded => true,
        };
        above
            && match high {
                Bound::Included(high) => value <= high,
                Bound::Excluded(high) => value < high,
                Bound::Unbounded => true,
            }
    }
    match (term, range) {
        (TermValue::Text(value), TermRange::Text(low, high)) => inside(value, low, high),
        (TermValue::Long(value), TermRange::Long(low, high)) => inside(value, low, high),
        (TermValue::Double(value), TermRange::Double(low, high)) => inside(value, low, high),
        _ => false,
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn naive_wildcard(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => {
            (0..=text.len()).any(|swallowed| naive_wildcard(rest, &text[swallowed..]))
        }
        (Some((wanted, rest)), Some((found, text))) => {
            (*wanted == '?' || wanted == found) && naive_wildcard(rest, text)
        }
        _ => false,
    }
}

fn naive_distance(left: &[char], right: &[char]) -> usize {
    match (left.split_first(), right.split_first()) {
        (None, _) => right.len(),
        (_, None) => left.len(),
        (Some((a, left_rest)), Some((b, right_rest))) if a == b => {
            naive_distance(left_rest, right_rest)
        }
        (Some((_, left_rest)), Some((_, right_rest))) => {
            let replaced = naive_distance(left_rest, right_rest);
            let shorter = naive_distance(left_rest, right).min(naive_distance(left, right_rest));
            1 + replaced.min(shorter)
        }
    }
}

/// Tries every position for every word.
fn naive_phrase(
    body: &[(String, i64)],
    words: &[(&str, i64)],
    slop: i64,
    places: &mut Vec<i64>,
) -> bool {
    let Some((word, _)) = words.get(places.len()) else {
        let starts = || places.iter().zip(words).map(|(place, (_, offset))| place - offset);
        let distinct: BTreeSet<_> = places.iter().collect();
        return distinct.len() == places.len()
            && starts().max().unwrap_or(0) - starts().min().unwrap_or(0) <= slop;
    };
    body.iter().filter(|(own, _)| own == word).any(|(_, place)| {
        places.push(*place);
        let found = naive_phrase(body, words, slop, places);
        places.pop();
        found
    })
}

fn rows(environment: &Arc<Environment>, found: &[Hit]) -> Vec<String> {
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let document = |hit: &Hit| reader.document_id(hit.entry).expect("reads").expect("is there");
    found.iter().map(|hit| document(hit).to_owned()).collect()
}

fn compare_with_model(
    environment: &Arc<Environment>,
    entries: &[ModelEntry],
    query: &Query,
    sort: &[SortKey],
    page: (u64, u64),
) -> Result<(), TestCaseError> {
    let mut expected: Vec<&ModelEntry> =
        entries.iter().filter(|entry| entry.matches(query)).collect();
    let document = |entry: &&ModelEntry| format!("d/{}", entry.document);
    let unordered: Vec<String> = expected.iter().map(document).collect();
    expected.sort_by(|left, right| compare_entries(sort, left, right));
    let expected: Vec<String> = expected.iter().map(document).collect();

    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    prop_assert_eq!(reader.count(query).expect("counts"), expected.len() as u64);
    let streamed: Vec<Hit> = reader
        .stream(query, Scoring::On)
        .expect("streams")
        .map(|hit| hit.expect("reads"))
        .collect();
    prop_assert_eq!(rows(environment, &streamed), unordered);
    let sorted = reader.stream_sorted(query, sort, Scoring::On).expect("streams");
    let sorted: Vec<Hit> = sorted.map(|hit| hit.expect("reads")).collect();
    prop_assert_eq!(rows(environment, &sorted), expected.clone());
    let all = reader.search(query, sort, 0, u64::MAX, Scoring::On).expect("searches");
    for hit in &sorted {
        let same = all.rows.iter().find(|one| one.entry == hit.entry);
        prop_assert_eq!(same.map(|same| same.score), Some(hit.score));
    }
    let (skip, take) = page;
    for scoring in [Scoring::Off, Scoring::On] {
        let hits = reader.search(query, sort, skip, take, scoring).expect("searches");
        prop_assert_eq!(hits.total, expected.len() as u64);
        let page = expected.iter().skip(skip as usize).take(take as usize);
        prop_assert_eq!(rows(environment, &hits.rows), page.cloned().collect::<Vec<_>>());
        for hit in &hits.rows {
            let same = streamed.iter().find(|streamed| streamed.entry == hit.entry);
            prop_assert!(hit.score.is_finite());
            prop_assert!(scoring == Scoring::Off || same == Some(hit), "one score per entry");
        }
    }
    let matching: Vec<&ModelEntry> = entries.iter().filter(|entry| entry.matches(query)).collect();
    let matches = reader.matches(query).expect("matches");
    for field in FIELDS {
        let facets = reader
            .facet_by_term(&matches, field, &["Age"], &WorkingMemory::default())
            .expect("counts");
        compare_facets(&facets, &matching, field)?;
    }
    Ok(())
}

impl ModelEntry {
    /// What the score by a query of one field is multiplied by.
    fn boost(&self, query: &Query) -> f32 {
        let field = match query {
            Query::Term { field, value: TermValue::Text(_) | TermValue::Null } => field,
            Query::Phrase { field, .. } => field,
            _ => return 1.0,
        };
        let [whole, name, body] = self.boosts.map(|boost| boost as f32);
        match &**field {
            "Name" => whole * name,
            "Body" => whole * body,
            "id()" => 1.0,
            _ => whole,
        }
    }
}

/// The scores of an index with boosts are those without, multiplied.
fn compare_boosts(
    environment: &Arc<Environment>,
    without_boosts: &Arc<Environment>,
    entries: &[ModelEntry],
    query: &Query,
) -> Result<(), TestCaseError> {
    let is_leaf = !matches!(
        query,
        Query::And(_)
            | Query::Or(_)
            | Query::Likeness(_)
            | Query::Not(_)
            | Query::Boost(..)
            | Query::Preferring(..)
            | Query::AnyOf { .. }
            | Query::AllOf { .. }
    );
    if !is_leaf {
        return Ok(());
    }
    let scores = |environment: &Arc<Environment>| -> Vec<f32> {
        let tx = environment.read();
        let reader = IndexReader::open(&tx).expect("opens");
        let hits = reader.stream(query, Scoring::On).expect("streams");
        hits.map(|hit| hit.expect("reads").score).collect()
    };
    let matching = entries.iter().filter(|entry| entry.matches(query));
    let boosts: Vec<f32> = matching.map(|entry| entry.boost(query)).collect();
    let (found, plain) = (scores(environment), scores(without_boosts));
    prop_assert_eq!(found.len(), boosts.len());
    for ((found, plain), boost) in found.iter().zip(plain).zip(boosts) {
        let expected = plain * boost;
        prop_assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{} {}", found, expected);
    }
    Ok(())
}

/// The different values of an entry that a test picks out of its terms.
fn different<V>(terms: Vec<TermValue>, pick: impl Fn(TermValue) -> Option<V>) -> Vec<V>
where
    V: PartialEq,
{
    let mut values = Vec::new();
    for value in terms.into_iter().filter_map(pick) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn compare_facets(
    facets: &[Facet],
    matching: &[&ModelEntry],
    field: &str,
) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<Option<String>, (u64, Vec<f64>)> = BTreeMap::new();
    for entry in matching {
        let numbers = different(entry.terms("Age"), |term| match term {
            TermValue::Double(number) => Some(number),
            TermValue::Null | TermValue::Text(_) | TermValue::Long(_) => None,
        });
        let keys = different(entry.terms(field), |term| match term {
            TermValue::Null => Some(None),
            TermValue::Text(text) => Some(Some(text)),
            TermValue::Long(_) | TermValue::Double(_) => None,
        });
        for key in keys {
            let counted = expected.entry(key).or_default();
            counted.0 += 1;
            counted.1.extend(&numbers);
        }
    }
    prop_assert_eq!(facets.len(), expected.len(), "{}", field);
    for (facet, (key, (entries, numbers))) in facets.iter().zip(expected) {
        let value = key.map_or(TermValue::Null, TermValue::Text);
        prop_assert_eq!((facet.value.as_ref(), facet.entries), (Some(&value), entries));
        let summary = facet.numbers[0];
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let found = (summary.count, summary.min, summary.max);
        prop_assert_eq!(found, (numbers.len() as u64, least, greatest));
        let sum: f64 = numbers.iter().sum();
        let is_near = (summary.sum - sum).abs() <= 1e-9 * sum.abs().max(1.0);
        prop_assert!(is_near || !sum.is_finite(), "{} is not {sum}", summary.sum);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn queries_find_what_looking_at_every_entry_finds(
        steps in prop::collection::vec(step(), 0..40),
        questions in prop::collection::vec((query(), sort(), (0u64..5, 0u64..6)), 40),
    ) {
        let open = |how| {
            let environment = Bench::new(1).open();
            run(&environment, &steps, how).expect("applies");
            environment
        };
        let (in_batches, at_once) = (open(Build::InBatches), open(Build::AtOnce));
        let without_boosts = open(Build::WithoutBoosts);
        let entries = model(&steps);
        for environment in [&in_batches, &at_once] {
            let report = check(&environment.read()).expect("sound");
            prop_assert_eq!(report.entries, entries.len() as u64);
            for (query, sort, page) in &questions {
                compare_with_model(environment, &entries, query, sort, *page)?;
                compare_boosts(environment, &without_boosts, &entries, query)?;
            }
        }
    }
}
