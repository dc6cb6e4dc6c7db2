//! Every name that a script finds on RavenDB is there, or calling it is an error that says why: an
//! unknown name would be null, and the script would continue.

use script::{Argument, Budget, MapScript, Projection};

use crate::{
    maps::print,
    world::{Notes, document, engine, outcome},
};

const NAMES: &str = include_str!("names.txt");
const DOCUMENT: &str = r#"{"A":1,"@metadata":{"@collection":"Docs"}}"#;

/// Places, or objects, and the names there.
fn lists() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once('\t').unwrap())
        .map(|(place, names)| (place, names.split(' ').collect()))
}

fn names_of(place: &str) -> Vec<&'static str> {
    lists().find(|(own, _)| *own == place).map(|(_, names)| names).unwrap()
}

/// An expression whose value is the list of missing names.
fn missing(names: &[&str]) -> String {
    let missing =
        names.iter().map(|name| format!("(typeof {name} === 'undefined' ? ' {name}' : '')"));
    missing.collect::<Vec<_>>().join(" + ")
}

#[test]
fn patches_find_every_name() {
    let own = document("d/1", DOCUMENT);
    assert_eq!(outcome(&engine(), &own, &missing(&names_of("patch"))), r#""""#);
}

#[test]
fn projections_find_every_name() {
    let engine = engine();
    let text = format!("{{ X: {} }}", missing(&names_of("projection")));
    let projection = Projection::new(&["d"], &[], &text);
    let bound = projection.bind(&engine, |_| None).unwrap();
    let own = [Argument::Document(document("d/1", DOCUMENT))];
    let actual = bound.evaluate(&own, Budget::default(), &mut Notes::default());
    assert_eq!(actual.unwrap().to_json().unwrap(), r#"{"X":""}"#);
}

#[test]
fn maps_and_reduces_find_every_name() {
    let engine = engine();
    let map = format!("map('Docs', d => ({{ X: {} }}))", missing(&names_of("map")));
    let reduce = format!(
        "groupBy(d => d.X).aggregate(g => ({{ X: g.key, Y: {} }}))",
        missing(&names_of("reduce"))
    );
    let script = MapScript::compile(&engine, &[&map], Some(&reduce), &[]).unwrap();
    let (own, budget) = (document("d/1", DOCUMENT), Budget::default());
    let (mut entries, mut results) = (Vec::new(), Vec::new());
    let host = &mut Notes::default();
    script.map(&engine, 0, &own, budget, host, &mut entries).unwrap();
    assert_eq!(print(&entries), r#"{X: ""}"#);
    let key = script.group_key(&engine, &own, budget).unwrap();
    script.aggregate(&engine, &key, &[own], budget, host, &mut results).unwrap();
    assert!(print(&results).ends_with(r#"Y: ""}"#), "{}", print(&results));
}

#[test]
fn objects_have_every_member() {
    let (engine, own) = (engine(), document("d/1", DOCUMENT));
    let places = ["patch", "projection", "map", "reduce"];
    for (object, names) in lists().filter(|(object, _)| !places.contains(object)) {
        let names = format!("{names:?}.filter(name => !(name in Object({object}))).join(' ')");
        assert_eq!(outcome(&engine, &own, &names), r#""""#, "{object}");
    }
}

#[test]
fn names_that_are_not_here_say_so_when_they_are_called() {
    let (engine, own) = (engine(), document("d/1", DOCUMENT));
    for (call, name) in [
        ("eval('1 + 1')", "eval"),
        ("new Proxy({}, {})", "Proxy"),
        ("count()", "count"),
        ("key()", "key"),
        ("sum(x => x.A)", "sum"),
        ("Raven_ExplodeArgs(this, args)", "Raven_ExplodeArgs"),
    ] {
        let outcome = outcome(&engine, &own, call);
        assert!(
            outcome.starts_with("error: ") && outcome.contains(&format!("{name}: ")),
            "{outcome}"
        );
    }
}
