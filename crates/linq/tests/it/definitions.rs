//! Whole maps and reduces: the results of RavenDB 5.4 for each.
//!
//! A line of the table is a map, or a map and a reduce, and the entries of the index, or `refused`
//! and the kind of the refusal.

use linq::{DefinitionError, DefinitionErrorKind, Map, Reduce};

use crate::fixture::{Fixture, entries};

const TABLE: &str = include_str!("definitions.txt");
const MEASURED: &str = include_str!("measured_definitions.txt");

fn compile(text: &str) -> Result<(Map, Option<Reduce>), DefinitionError> {
    let (map, reduce) = match text.split_once(" ||| ") {
        Some((map, reduce)) => (map, Some(reduce)),
        None => (text, None),
    };
    let map = Map::compile(map)?;
    let reduce = reduce.map(Reduce::compile).transpose()?;
    if let Some(reduce) = &reduce {
        reduce.check_maps(std::slice::from_ref(&map))?;
    }
    Ok((map, reduce))
}

fn sorted(entries: impl Iterator<Item = String>) -> Vec<String> {
    let mut entries: Vec<String> = entries.map(|entry| entry.to_lowercase()).collect();
    entries.sort();
    entries
}

/// Cuts `d/1:{A: x} d/2:{B: y}` between entries.
fn expected_entries(text: &str) -> Vec<String> {
    if text == "∅" {
        return Vec::new();
    }
    let text = text.replace("} {", "}\n{").replace(" d/2:", "\nd/2:");
    let text = text.replace("} d/", "}\nd/").replace("} r/", "}\nr/");
    sorted(text.lines().map(str::to_owned))
}

#[test]
fn definitions_yield_what_the_real_server_yields() {
    check(&Fixture::new(), TABLE);
}

#[test]
fn more_definitions_yield_what_the_real_server_yields() {
    check(&Fixture::measured(), MEASURED);
}

fn check(fixture: &Fixture, table: &str) {
    let mut differing = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (text, expected) = line.split_once('\t').unwrap();
        let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r");
        match (compile(&text), expected.strip_prefix("refused ")) {
            (Err(_), None) if expected == "declined" => {}
            (Ok(_), None) if expected == "wider" => {}
            (Err(error), Some(kind)) => {
                if kind != "any" && format!("{:?}", error.kind) != kind {
                    differing.push(format!("{text}\n    {:?} instead of {kind}", error.kind));
                }
            }
            (Ok(_), Some(_)) => differing.push(format!("{text}\n    is not refused")),
            (Err(error), None) => differing.push(format!("{text}\n    {error}")),
            (Ok((map, reduce)), None) => {
                let got = match entries(fixture, &map, reduce.as_ref()) {
                    Ok(shown) => sorted(shown.into_iter()),
                    Err(error) => vec![format!("!{:?}", error.kind).to_lowercase()],
                };
                let expected = expected_entries(expected);
                if got != expected {
                    differing.push(format!("{text}\n    {got:?}\n    {expected:?}"));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}\n{}", differing.join("\n"), differing.len());
}

#[test]
fn maps_of_one_index_have_the_same_fields() {
    let map = |text| Map::compile(text).unwrap();
    let one = map("from d in docs.A select new { d.X, d.Y }");
    let two = map("docs.B.Select(b => new { Y = b.Z, X = 1 })");
    let other = map("from d in docs.C select new { d.X, d.Z }");
    assert_eq!(linq::check_same_maps(&[one, two]), Ok(()));
    let one = map("from d in docs.A select new { d.X, d.Y }");
    let error = linq::check_same_maps(&[one, other]).unwrap_err();
    assert_eq!(error.kind, DefinitionErrorKind::DifferentFields);
    assert!(error.message.contains("missing here: [Y], additional: [Z]"), "{error}");
}
