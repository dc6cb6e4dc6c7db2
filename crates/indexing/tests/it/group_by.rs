//! Automatic indexes of groups return the measured results of the real server.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use indexing::{
    Aggregate, ArrayGroups, AutoFieldWays, AutoGrouping, AutoIndexDefinition, GroupKey, IndexKind,
};
use platform::Platform;

use crate::fixture::Documents;
use crate::results::{results_of, sorted_results_of};

/// `T[]`, `array(T)` or `T`.
fn key(text: &str) -> GroupKey {
    let inside = text.strip_prefix("array(").and_then(|text| text.strip_suffix(')'));
    let arrays = match inside {
        Some(_) => ArrayGroups::Content,
        None if text.contains("[]") => ArrayGroups::Elements,
        None => ArrayGroups::Whole,
    };
    let (path, is_quoted) = (inside.unwrap_or(text).to_owned(), false);
    GroupKey { path, is_quoted, arrays, ways: AutoFieldWays::default() }
}

fn grouped(keys: &[&str], sums: &[&str]) -> IndexKind {
    let sums = sums.iter().map(|path| Aggregate::Sum((*path).to_owned()));
    let grouping = AutoGrouping::new(
        keys.iter().map(|text| key(text)),
        [Aggregate::Count].into_iter().chain(sums),
    );
    IndexKind::Auto(AutoIndexDefinition::grouped("G", grouping))
}

/// The results over these documents, in the order of their entries.
fn groups_of(documents: &[&str], keys: &[&str], sums: &[&str]) -> (Vec<String>, Vec<String>) {
    let stage = Documents::new();
    for (number, json) in documents.iter().enumerate() {
        let members = json.trim_start_matches('{').trim_end_matches('}');
        let comma = if members.is_empty() { "" } else { "," };
        let json =
            format!(r#"{{{}{comma}"@metadata":{{"@collection":"G"}}}}"#, &json[1..json.len() - 1]);
        stage.put(&format!("g/{number}"), &json);
    }
    let index = stage.open(&Platform::memory(), &grouped(keys, sums)).unwrap();
    // An index that has stopped has results all the same.
    stage.follow(&index);
    let errors = index.errors().unwrap().into_iter().map(|error| error.document);
    (results_of(&index), errors.collect())
}

fn check(documents: &[&str], keys: &[&str], sums: &[&str], expected: &str) {
    let (results, errors) = groups_of(documents, keys, sums);
    let expected: Vec<_> = expected.split_whitespace().map(|text| text.replace('~', " ")).collect();
    assert_eq!(results, expected, "{keys:?} {sums:?} {errors:?}");
}

const DOCUMENTS: [&str; 5] = [
    r#"{"C":"x","N":1,"D":1.5,"T":["a","b"],"L":[{"P":"p","Q":1},{"P":"q","Q":2},{"P":"p","Q":5}],"A":{"City":"Oz"},"W":"2020-01-02T03:04:05Z","B":true}"#,
    r#"{"C":"X","N":2,"T":["b"],"L":[{"P":"q","Q":2.5}],"A":{"City":"oz"},"W":"2020-01-02T03:04:05.000Z","B":false}"#,
    r#"{"C":null,"N":3,"D":2,"L":[]}"#,
    r#"{"N":4,"L":null}"#,
    r#"{"C":"x","N":null,"T":[],"A":null}"#,
];

#[test]
fn values_missing_ones_and_sums() {
    let of = |keys: &[&str], sums: &[&str], expected| check(&DOCUMENTS, keys, sums, expected);
    of(
        &["C"],
        &["N", "D"],
        r#"{"C":"x","Count":2,"D":1.5,"N":1} {"C":"X","Count":1,"D":0,"N":2} {"C":null,"Count":2,"D":2,"N":7}"#,
    );
    of(
        &["N", "C"],
        &[],
        r#"{"C":"x","N":1,"Count":1} {"C":"X","N":2,"Count":1} {"C":null,"N":3,"Count":1}
           {"C":null,"N":4,"Count":1} {"C":"x","N":null,"Count":1}"#,
    );
    of(
        &["A.City"],
        &[],
        r#"{"A.City":"Oz","Count":1} {"A.City":"oz","Count":1} {"A.City":null,"Count":3}"#,
    );
    of(
        &["A"],
        &[],
        r#"{"A":{"City":"Oz"},"Count":1} {"A":{"City":"oz"},"Count":1} {"A":null,"Count":3}"#,
    );
    of(&["W"], &[], r#"{"W":"2020-01-02T03:04:05.0000000Z","Count":2} {"W":null,"Count":3}"#);
    of(&["B"], &[], r#"{"B":true,"Count":1} {"B":false,"Count":1} {"B":null,"Count":3}"#);
    of(&["@metadata.@collection"], &[], r#"{"@metadata.@collection":"G","Count":5}"#);
}

#[test]
fn arrays_by_element_and_by_content() {
    let of = |keys: &[&str], sums: &[&str], expected| check(&DOCUMENTS, keys, sums, expected);
    of(&["T[]"], &[], r#"{"T[]":"a","Count":1} {"T[]":"b","Count":2} {"T[]":null,"Count":2}"#);
    let content = r#"{"T":["a","b"],"Count":1} {"T":["b"],"Count":1} {"T":null,"Count":2} {"T":[],"Count":1}"#;
    of(&["T"], &[], content);
    of(&["array(T)"], &[], content);
    // The number at the element's position is added; 5.4 drops the fraction, see docs/compatibility.md.
    of(
        &["L[].P"],
        &["L[].Q"],
        r#"{"L[].P":"p","Count":2,"L[].Q":6} {"L[].P":"q","Count":2,"L[].Q":4.5} {"L[].P":null,"Count":2,"L[].Q":0}"#,
    );
    of(
        &["L[].P", "T[]"],
        &[],
        r#"{"L[].P":"p","T[]":"a","Count":1} {"L[].P":"q","T[]":"b","Count":2}
           {"L[].P":"p","T[]":"b","Count":1} {"L[].P":null,"T[]":null,"Count":1}"#,
    );
    of(
        &["array(L[].P)"],
        &[],
        r#"{"L[].P":["p","q","p"],"Count":1} {"L[].P":["q"],"Count":1} {"L[].P":[],"Count":1} {"L[].P":null,"Count":2}"#,
    );
}

#[test]
fn arrays_of_different_lengths_go_side_by_side() {
    let documents = [
        r#"{"A":["a","b","c"],"B":["x","y"],"N":1}"#,
        r#"{"A":["d"],"B":["z","w"],"N":2}"#,
        r#"{"A":["e","f"],"N":3}"#,
        r#"{"B":["u"],"N":4}"#,
        r#"{"A":["g",null],"B":"s","N":5}"#,
    ];
    let rows = [
        ("\"a\"", "\"x\"", 1),
        ("\"b\"", "\"y\"", 1),
        ("\"c\"", "\"y\"", 1),
        ("\"d\"", "\"z\"", 2),
        ("\"d\"", "\"w\"", 2),
        ("\"e\"", "null", 3),
        ("\"f\"", "null", 3),
        ("null", "\"u\"", 4),
        ("\"g\"", "null", 5),
        ("null", "null", 5),
    ];
    let rows = rows.map(|(a, b, n)| format!(r#"{{"A[]":{a},"B[]":{b},"Count":1,"N":{n}}}"#));
    check(&documents, &["A[]", "B[]"], &["N"], &rows.join(" "));
}

#[test]
fn numbers_keep_their_kind_and_what_is_none_is_an_error_of_the_key() {
    let of = |key: &str, values: &[&str]| {
        values.iter().map(|value| format!(r#"{{"K":"{key}","N":{value}}}"#)).collect::<Vec<_>>()
    };
    let more: Vec<_> = (0..60).flat_map(|number| of(&format!("z{number}"), &["1"])).collect();
    let documents = [
        of("a", &["1", "2"]),
        of("b", &["1", "2.5"]),
        of("c", &["1.0", "2.0"]),
        of("d", &["[1,2]", "null"]),
        of("e", &["9223372036854775807"]),
        of("f", &["true"]),
        of("g", &["1", "\"5\""]),
        of("h", &["9223372036854775807", "1"]),
        more,
    ]
    .concat();
    let documents: Vec<_> = documents.iter().map(String::as_str).collect();
    let (results, mut errors) = groups_of(&documents, &["K"], &["N"]);
    assert_eq!(
        results[..5],
        [
            r#"{"K":"a","Count":2,"N":3}"#,
            r#"{"K":"b","Count":2,"N":3.5}"#,
            r#"{"K":"c","Count":2,"N":3.0}"#,
            r#"{"K":"d","Count":2,"N":3}"#,
            r#"{"K":"e","Count":1,"N":9223372036854775807}"#,
        ]
    );
    assert_eq!(results.len(), 65);
    errors.sort();
    assert_eq!(errors, ["f", "g", "h"].map(|key| format!("Reduce key: {{ 'K' : {key} }}")));
}

#[test]
fn kinds_of_keys() {
    let documents = [
        "1",
        "1.0",
        "1.10",
        "1.1",
        "1e0",
        "\"1\"",
        "true",
        "\"true\"",
        "\"2020-01-01\"",
        "\"\"",
        "\"abc\"",
        "\"ABC\"",
        r#"{"a":1,"b":2}"#,
        r#"{"b":2,"a":1}"#,
        "[1,2]",
        "[1.0,2]",
        "[]",
    ];
    let documents = documents.map(|value| format!(r#"{{"K":{value}}}"#));
    let documents: Vec<_> = documents.iter().map(String::as_str).collect();
    check(
        &documents,
        &["K"],
        &[],
        r#"{"K":1,"Count":1} {"K":1.0,"Count":2} {"K":1.1,"Count":2} {"K":"1","Count":1}
           {"K":true,"Count":1} {"K":"true","Count":1} {"K":"2020-01-01","Count":1} {"K":"","Count":1}
           {"K":"abc","Count":1} {"K":"ABC","Count":1} {"K":{"a":1,"b":2},"Count":1}
           {"K":{"b":2,"a":1},"Count":1} {"K":[1,2],"Count":1} {"K":[1.0,2],"Count":1}
           {"K":[],"Count":1}"#,
    );
}

#[test]
fn groups_follow_their_documents() {
    let stage = Documents::new();
    let index = stage.open(&Platform::memory(), &grouped(&["T[]"], &["N"])).unwrap();
    let put = |id: &str, tags: &str, n: u32| {
        let json = format!(r#"{{"T":{tags},"N":{n},"@metadata":{{"@collection":"G"}}}}"#);
        stage.put(id, &json);
    };
    put("g/1", r#"["a","b"]"#, 1);
    put("g/2", r#"["b","b"]"#, 10);
    assert!(stage.follow(&index));
    let row = |tag, count, n| format!(r#"{{"T[]":"{tag}","Count":{count},"N":{n}}}"#);
    assert_eq!(results_of(&index), [row("a", 1, 1), row("b", 3, 21)]);
    put("g/2", r#"["c"]"#, 10);
    assert!(stage.follow(&index));
    assert_eq!(sorted_results_of(&index), [row("a", 1, 1), row("b", 1, 1), row("c", 1, 10)]);
    stage.delete("g/1");
    assert!(stage.follow(&index));
    assert_eq!(results_of(&index), [row("c", 1, 10)]);
}
