//! Single expressions: the results of RavenDB 5.4 for each, for two documents.
//!
//! A line of the table is an expression and the terms of its value for `d/1` and `d/2`, or `!` and
//! the kind of the error, or `refused` and the kind of the refusal.

use linq::Map;

use crate::fixture::{Fixture, TestDocument, outputs, terms};

const TABLE: &str = include_str!("expressions.txt");
const MEASURED: &str = include_str!("measured_expressions.txt");

fn evaluated(fixture: &Fixture, map: &Map, document: &TestDocument) -> String {
    let mut host = fixture.host();
    let shown = outputs(map, document, &mut host, |output| terms(output.get("X").unwrap()));
    match shown {
        Ok(shown) => shown.join(" & "),
        Err(error) => format!("!{:?}", error.kind),
    }
}

fn agrees(got: &str, expected: &str) -> bool {
    if expected == "*" || (expected == "∅?" && matches!(got, "∅" | "(entry, no field)")) {
        return true;
    }
    match expected.split_once('…') {
        Some((start, _)) => got.to_lowercase().starts_with(&start.to_lowercase()),
        None => got.to_lowercase() == expected.to_lowercase(),
    }
}

#[test]
fn expressions_yield_what_the_real_server_yields() {
    check(&Fixture::new(), TABLE);
}

#[test]
fn every_pair_of_types_and_more_methods_yield_what_the_real_server_yields() {
    check(&Fixture::measured(), MEASURED);
}

fn check(fixture: &Fixture, table: &str) {
    let mut differing = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [expression, first, second] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let compiled =
            Map::compile(&format!("from d in docs.Docs select new {{ X = {expression} }}"));
        match (compiled, first.strip_prefix("refused ")) {
            (Err(error), Some(kind)) => {
                if kind != "any" && format!("{:?}", error.kind) != kind {
                    differing.push(format!("{expression}\n    {:?} instead of {kind}", error.kind));
                }
            }
            (Ok(_), Some(_)) => differing.push(format!("{expression}\n    is not refused")),
            (Err(error), None) => differing.push(format!("{expression}\n    {error}")),
            (Ok(map), None) => {
                for (document, expected) in fixture.documents.iter().zip([first, second]) {
                    let got = evaluated(fixture, &map, document);
                    if !agrees(&got, expected) {
                        let id = document.id;
                        differing
                            .push(format!("{expression}\n    {id}: {got} instead of {expected}"));
                    }
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}\n{}", differing.join("\n"), differing.len());
}
