//! Small indexes whose answers can be read off.

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use storage::WorkingMemory;

use super::{Bench, Fields, apply, documents, entry, phrase, text};
use crate::{
    EntryId, FieldSet, IndexBatch, IndexReader, LikeWord, NumberSummary, Query, Scoring,
    SearchError, SortBy, SortKey, StringDistance, SuggestOptions, TermRange, TermValue, check,
};

fn people(bench: &Bench) -> Arc<storage::Environment> {
    let environment = bench.open();
    let mut fields = Fields::load(&environment);
    let mut batch = IndexBatch::new();
    let Fields { name, age, tag, body, .. } = &fields;
    let entries = [
        (
            "p/1",
            entry(|e| {
                e.text(name, "Anna");
                e.number(age, "30", 30, 30.0);
                e.text(tag, "X");
                e.text(body, "The quick brown fox");
            }),
        ),
        (
            "p/2",
            entry(|e| {
                e.text(name, "Bob");
                e.number(age, "1.5", 1, 1.5);
                e.text(tag, "x");
                e.text(body, "quick red fox jumps over the quick dog");
            }),
        ),
        (
            "p/3",
            entry(|e| {
                e.null(name);
                e.number(age, "-5", -5, -5.0);
                e.text(body, "brown bear");
            }),
        ),
        (
            "p/4",
            entry(|e| {
                e.text(name, "");
                e.text(age, "abc");
            }),
        ),
        (
            "p/5",
            entry(|e| {
                e.text(body, "the");
            }),
        ),
        (
            "p/6",
            entry(|e| {
                e.text(name, "anna");
                e.text(name, "ZOE");
                e.null(name);
                e.null(age);
            }),
        ),
    ];
    for (id, entry) in entries {
        batch.put(id, &[entry]).expect("puts");
    }
    let applied = apply(&environment, &mut fields, &mut batch).expect("applies");
    assert_eq!((applied.added, applied.removed), (6, 0));
    check(&environment.read()).expect("sound");
    environment
}

fn range_long(low: Bound<i64>, high: Bound<i64>) -> Query {
    Query::range("Age", TermRange::Long(low, high))
}

#[test]
fn every_kind_of_query_finds_what_it_says() {
    use Bound::{Excluded, Included, Unbounded};
    let environment = people(&Bench::new(1));
    let field = || "Name".to_owned();
    let cases = [
        (Query::All, "1 2 3 4 5 6"),
        (Query::None, ""),
        (Query::text("Name", "anna"), "1 6"),
        (Query::text("Name", "Anna"), ""),
        (Query::text("Tag", "X"), "1"),
        (Query::text("Nope", "x"), ""),
        (Query::text("id()", "p/3"), "3"),
        (Query::text("Name", ""), "4"),
        (Query::term("Name", TermValue::Null), "3 6"),
        (Query::term("Name", TermValue::Null).not(), "1 2 4 5"),
        (Query::term("Age", TermValue::Long(1)), "2"),
        (Query::term("Age", TermValue::Double(1.0)), ""),
        (Query::term("Age", TermValue::Double(1.5)), "2"),
        (Query::exists("Name"), "1 2 3 4 6"),
        (Query::exists("Body"), "1 2 3"),
        (Query::exists("Nope").not(), "1 2 3 4 5 6"),
        (range_long(Included(-5), Excluded(30)), "2 3"),
        (range_long(Excluded(-5), Unbounded), "1 2"),
        (Query::range("Name", TermRange::Text(Unbounded, Included("anna".to_owned()))), "1 4 6"),
        (Query::AnyOf { field: field(), values: vec![text("bob"), TermValue::Null] }, "2 3 6"),
        (Query::AnyOf { field: field(), values: vec![] }, ""),
        (Query::AllOf { field: field(), values: vec![text("anna"), text("zoe")] }, "6"),
        (Query::AllOf { field: field(), values: vec![] }, ""),
        (Query::Prefix { field: field(), text: "an".to_owned() }, "1 6"),
        (Query::Prefix { field: field(), text: String::new() }, "1 2 3 4 6"),
        (Query::Suffix { field: field(), text: "e".to_owned() }, "6"),
        (Query::Contains { field: field(), text: "o".to_owned() }, "2 6"),
        (Query::Wildcard { field: field(), pattern: "?o*".to_owned() }, "2 6"),
        (Query::Regex { field: field(), pattern: "^[AB]".to_owned() }, "1 2 6"),
        (Query::Fuzzy { field: field(), text: "bop".to_owned(), similarity: 0.5 }, "2"),
        (phrase("Body", &["quick", "brown"], 0), "1"),
        (phrase("Body", &["quick", "fox"], 0), ""),
        (phrase("Body", &["quick", "fox"], 1), "1 2"),
        (phrase("Body", &["fox", "quick"], 1), ""),
        (phrase("Body", &["quick", "quick"], 1), ""),
        (phrase("Body", &["quick", "quick"], 5), "2"),
        (Query::And(vec![]), "1 2 3 4 5 6"),
        (Query::And(vec![Query::exists("Age"), Query::text("Name", "anna").not()]), "2 3 4"),
        (Query::Or(vec![Query::text("Name", "bob"), Query::text("Tag", "X")]), "1 2"),
        (Query::Or(vec![]), ""),
        (Query::Entries(vec![EntryId(5), EntryId(2), EntryId(99)]), "2 5"),
        (Query::Boost(Box::new(Query::text("Name", "bob")), 3.0), "2"),
    ];
    for (query, expected) in cases {
        let found: Vec<String> =
            documents(&environment, &query).iter().map(|id| id.replace("p/", "")).collect();
        assert_eq!(found.join(" "), expected, "{query:?}");
    }
}

#[test]
fn orders_leave_no_entry_out_and_reverse_exactly() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let cases = [
        (SortBy::Text("Name".to_owned()), "5 3 4 1 2 6"),
        (SortBy::Text("Age".to_owned()), "5 6 3 2 1 4"),
        (SortBy::Long("Age".to_owned()), "5 6 4 3 2 1"),
        (SortBy::Double("Age".to_owned()), "5 6 4 3 2 1"),
        (SortBy::AlphaNumeric("Name".to_owned()), "5 3 4 1 2 6"),
        (SortBy::Text("Nope".to_owned()), "1 2 3 4 5 6"),
    ];
    for (by, expected) in cases {
        for descending in [false, true] {
            let sort = [SortKey { by: by.clone(), descending }];
            let hits = reader.search(&Query::All, &sort, 0, 100, Scoring::Off).expect("searches");
            let mut found: Vec<String> =
                hits.rows.iter().map(|hit| hit.entry.0.to_string()).collect();
            assert_eq!(hits.total, 6);
            if descending && by != SortBy::Text("Nope".to_owned()) {
                found.reverse();
            }
            assert_eq!(found.join(" "), expected, "{by:?} descending: {descending}");
        }
    }
}

#[test]
fn a_sorted_range_holds_only_entries_in_it() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let found = |range: Query, by: SortBy, descending| {
        let sort = [SortKey { by, descending }];
        let hits = reader.search(&range, &sort, 0, 10, Scoring::Off).expect("searches");
        let rows: Vec<String> = hits.rows.iter().map(|hit| hit.entry.0.to_string()).collect();
        (hits.total, rows.join(" "))
    };
    let (long, double) = (SortBy::Long("Age".to_owned()), SortBy::Double("Age".to_owned()));
    // 1.5 is not a match, though it is above 1.
    let from_two = || range_long(Bound::Included(2), Bound::Unbounded);
    for by in [&long, &double] {
        assert_eq!(found(from_two(), by.clone(), false), (1, "1".to_owned()), "{by:?}");
    }
    let below = || range_long(Bound::Unbounded, Bound::Excluded(30));
    assert_eq!(found(below(), long.clone(), false), (2, "3 2".to_owned()));
    assert_eq!(found(below(), long, true), (2, "2 3".to_owned()));
    assert_eq!(found(below(), double, true), (2, "2 3".to_owned()));
}

#[test]
fn the_best_match_comes_first() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let query = Query::Or(vec![Query::text("Body", "quick"), Query::text("Body", "brown")]);
    let by_score = [SortKey { by: SortBy::Score, descending: false }];
    let hits = reader.search(&query, &by_score, 0, 10, Scoring::On).expect("searches");
    let order: Vec<u64> = hits.rows.iter().map(|hit| hit.entry.0).collect();
    assert_eq!(order[0], 1, "it has both words");
    assert!(hits.rows.is_sorted_by(|left, right| left.score >= right.score));
    let boosted = Query::Or(vec![
        Query::text("Body", "quick"),
        Query::Boost(Box::new(Query::text("Body", "bear")), 10.0),
    ]);
    let hits = reader.search(&boosted, &by_score, 0, 1, Scoring::On).expect("searches");
    assert_eq!((hits.total, hits.rows[0].entry), (3, EntryId(3)));
}

#[test]
fn likeness_is_the_rarity_of_shared_words_whatever_the_length_of_texts() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let word = |text: &str, boost| LikeWord { field: "Body".into(), text: text.into(), boost };
    let scores = |words: Vec<LikeWord>| {
        let by_score = [SortKey { by: SortBy::Score, descending: false }];
        let query = Query::Likeness(words);
        let hits = reader.search(&query, &by_score, 0, 10, Scoring::On).expect("searches");
        let rounded = |score: f32| (score * 1e4).round() / 1e4;
        hits.rows.iter().map(|hit| (hit.entry.0, rounded(hit.score))).collect::<Vec<_>>()
    };
    // Two of six entries have either word, so its rarity is 1 + ln(6 / 3).
    let both = vec![word("quick", 1.0), word("brown", 1.0)];
    assert_eq!(scores(both), [(1, 2.3945), (2, 0.8466), (3, 0.5986)]);
    let one = vec![word("quick", 1.0), word("nowhere", 1.0)];
    assert_eq!(scores(one), [(2, 1.1972), (1, 0.8466)]);
    let boosted = vec![word("quick", 1.0), word("brown", 9.0)];
    assert_eq!(scores(boosted).iter().map(|(entry, _)| *entry).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!(scores(Vec::new()), []);
    let found = |scoring| {
        let query = Query::Likeness(vec![word("quick", 1.0), word("bear", 1.0)]);
        reader.search(&query, &[], 0, 10, scoring).expect("searches").total
    };
    assert_eq!((found(Scoring::On), found(Scoring::Off)), (3, 3));
}

#[test]
fn terms_entries_and_stored_values_can_be_read() {
    let bench = Bench::new(1);
    let environment = people(&bench);
    let mut fields = Fields::load(&environment);
    let mut batch = IndexBatch::new();
    let name = fields.name.clone();
    let stored = entry(|e| {
        e.text(&name, "Éva");
        e.stored(&name, b"one");
        e.stored(&name, b"\"Eva\"");
    });
    batch.put("p/1", &[stored]).expect("puts");
    batch.delete("p/2").expect("deletes");
    batch.delete("p/nope").expect("deletes");
    let applied = apply(&environment, &mut fields, &mut batch).expect("applies");
    assert_eq!((applied.added, applied.removed), (1, 2));
    let tx = environment.read();
    check(&tx).expect("sound");
    let reader = IndexReader::open(&tx).expect("opens");
    assert_eq!((reader.entry_count(), reader.next_entry()), (5, EntryId(8)));
    let id = reader.field("Name").expect("reads").expect("is there");
    let terms = reader.terms(id, None, 10).expect("reads");
    let names: Vec<(TermValue, u64)> =
        terms.into_iter().map(|term| (term.value, term.entries)).collect();
    let expected = vec![
        (TermValue::Null, 2),
        (text(""), 1),
        (text("anna"), 1),
        (text("zoe"), 1),
        (text("éva"), 1),
    ];
    assert_eq!(names, expected);
    assert_eq!(reader.terms(id, Some(&text("anna")), 1).expect("reads")[0].value, text("zoe"));
    assert_eq!(reader.term_count(id).expect("counts"), 4);
    assert_eq!(reader.entries_of("p/1").expect("reads"), [EntryId(7)]);
    let values = reader.stored(EntryId(7)).expect("reads").expect("is there");
    assert_eq!(values.get(id).expect("reads"), Some(&b"\"Eva\""[..]));
    let entry = reader.entry(EntryId(3)).expect("reads").expect("is there");
    let age = reader.field("Age").expect("reads").expect("is there");
    let expected = [text("-5"), TermValue::Long(-5), TermValue::Double(-5.0)];
    assert_eq!(entry.terms(age).expect("reads"), expected);
    let body = reader.field("Body").expect("reads").expect("is there");
    assert_eq!(entry.frequencies(body).expect("reads"), [("bear", 1), ("brown", 1)]);
}

#[test]
fn facets_count_matches_by_term_and_by_query_and_add_up_numbers() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let all = reader.matches(&Query::All).expect("finds");
    assert_eq!((all.len(), all.contains(EntryId(6)), all.contains(EntryId(7))), (6, true, false));
    let facets = reader
        .facet_by_term(&all, "Name", &["Age", "Nope"], &WorkingMemory::default())
        .expect("counts");
    let counted: Vec<(Option<TermValue>, u64, u64, f64)> = facets
        .into_iter()
        .map(|facet| (facet.value, facet.entries, facet.numbers[0].count, facet.numbers[0].sum))
        .collect();
    let expected = vec![
        (Some(TermValue::Null), 2, 1, -5.0),
        (Some(text("")), 1, 0, 0.0),
        (Some(text("anna")), 2, 1, 30.0),
        (Some(text("bob")), 1, 1, 1.5),
        (Some(text("zoe")), 1, 0, 0.0),
    ];
    assert_eq!(counted, expected);
    let quick = reader.matches(&Query::text("Body", "quick")).expect("finds");
    let ranges = [
        range_long(Bound::Unbounded, Bound::Excluded(30)),
        range_long(Bound::Included(100), Bound::Unbounded),
        Query::All,
    ];
    let facets = reader.facet_by_query(&quick, &ranges, &["Age"]).expect("counts");
    let counts: Vec<u64> = facets.iter().map(|facet| facet.entries).collect();
    assert_eq!(counts, [1, 0, 2]);
    let both = NumberSummary { count: 2, sum: 31.5, min: 1.5, max: 30.0 };
    assert_eq!(facets[2].numbers, [both]);
}

#[test]
fn suggestions_are_near_and_the_nearest_come_first() {
    let environment = Bench::new(1).open();
    let mut fields = FieldSet::load(&environment.read()).expect("loads");
    let field = fields.define("Word", crate::FieldOptions::default()).expect("defines");
    let mut batch = IndexBatch::new();
    for (number, word) in
        ["apple", "apply", "ape", "maple", "apples", "application", "apply"].iter().enumerate()
    {
        let word = entry(|entry| entry.text(&field, word));
        batch.put(&format!("w/{number}"), &[word]).expect("puts");
    }
    let mut tx = environment.write().expect("writer");
    batch.apply(&mut tx, &mut fields).expect("applies");
    let reader = IndexReader::open(&tx).expect("opens");
    let suggest = |text: &str, options: SuggestOptions| -> String {
        let found = reader.suggest("Word", text, &options).expect("suggests");
        let words: Vec<String> = found.into_iter().map(|found| found.text).collect();
        words.join(" ")
    };
    let default = SuggestOptions::default();
    assert_eq!(suggest("appel", default), "apples apply ape apple");
    assert_eq!(suggest("apple", default), "apples apply ape maple", "not the word itself");
    assert_eq!(suggest("appel", SuggestOptions { accuracy: 0.9, ..default }), "");
    assert_eq!(suggest("appel", SuggestOptions { count: 1, ..default }), "apples");
    let pairs = SuggestOptions { distance: StringDistance::NGram, ..default };
    assert_eq!(suggest("appel", pairs), "apply apple apples ape");
    let winkler =
        SuggestOptions { distance: StringDistance::JaroWinkler, accuracy: 0.9, ..default };
    assert_eq!(suggest("appel", winkler), "apple apples apply");
    assert_eq!(suggest("aple", default), "apple maple ape apply", "no group of apples is in it");
    // A term whose similarity is exactly the requested minimum.
    assert_eq!(suggest("aple", SuggestOptions { accuracy: 0.8, ..default }), "apple maple");
    assert_eq!(suggest("aple", SuggestOptions { accuracy: 0.75, ..default }), "apple maple ape");
    assert!(reader.suggest("Nope", "a", &default).expect("suggests").is_empty());
}

#[test]
fn a_query_can_be_stopped() {
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let flag = Arc::new(AtomicBool::new(false));
    let reader = IndexReader::open(&tx).expect("opens").interruptible(flag.clone());
    let pattern = Query::Contains { field: "Name".to_owned(), text: "n".to_owned() };
    let by_random = [SortKey { by: SortBy::Random(1), descending: false }];
    let ask = || {
        [
            reader.search(&pattern, &[], 0, 1, Scoring::Off).map(drop),
            reader.search(&Query::All, &by_random, 0, 10, Scoring::Off).map(drop),
            reader.count(&Query::Or(vec![Query::All, Query::None])).map(drop),
            reader.matches(&Query::All).map(drop),
            reader.suggest("Name", "a", &SuggestOptions::default()).map(drop),
        ]
    };
    assert!(ask().iter().all(Result::is_ok));
    flag.store(true, Ordering::Relaxed);
    assert!(ask().iter().all(|result| matches!(result, Err(SearchError::Interrupted))));
}

#[test]
fn what_reads_an_index_can_change_its_thread() {
    fn is_send(_: &impl Send) {}
    let environment = people(&Bench::new(1));
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    is_send(&reader);
    is_send(&reader.stream(&Query::All, Scoring::On).expect("streams"));
    let sort = [SortKey { by: SortBy::Text("Name".to_owned()), descending: false }];
    is_send(&reader.stream_sorted(&Query::All, &sort, Scoring::On).expect("streams"));
}
