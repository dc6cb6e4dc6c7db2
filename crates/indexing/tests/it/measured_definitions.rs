//! Whole definitions, from documents to entries: what RavenDB 5.4 made of each. The tables are those of
//! the crate `linq`, which has them without an index; texts in JavaScript are added here.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::HashMap;

use indexing::{Index, IndexKind};
use model::IndexDefinition;
use platform::Platform;
use search::{IndexReader, Query, Scoring, TermValue};

use crate::fixture::Documents;

const TABLE: &str = include_str!("../../../linq/tests/it/definitions.txt");

const IN_JAVASCRIPT: &str = r"
map('Docs', d => ({ A: d.Age, C: 1 })) ||| groupBy(x => x.A).aggregate(g => ({ A: g.key, C: g.values.reduce((a, v) => a + v.C, 0) }))	{A: 30, C: 1} {A: 7, C: 1}
map('Docs', d => ({ A: d.Age, B: d.Name, C: 1 })) ||| groupBy(x => ({ A: x.A, B: x.B })).aggregate(g => ({ A: g.key.A, B: g.key.B, C: g.values.reduce((a, v) => a + v.C, 0) }))	{A: 30, B: john smith, C: 1} {A: 7, B: NULL, C: 1}
map('Docs', d => ({ A: d.Age, C: 1 })) ||| groupBy(x => x.A).aggregate(g => { return { A: g.key, D: 1 }; })	{A: 30, D: 1} {A: 7, D: 1}
map('Docs', d => { return d.Lines.map(l => ({ P: l.P, Q: l.Q })); })	d/1:{P: x, Q: 2} d/1:{P: y, Q: 3}
";

/// Definitions whose entries differ: of shapes, time series and counters, which indexes do not have yet;
/// and the term of a decimal, which keeps its zeros there.
const DIFFERING: [&str; 4] = ["Spatial", "timeSeries", "counters", "l.Q * l.Pr"];

const DOCUMENTS: [(&str, &str, &str); 4] = [
    (
        "d/1",
        "Docs",
        r#""Name":"John Smith","Age":30,"Price":2.5,"Dec":10.10,"Null":null,"Empty":"","Active":true,
        "Date":"2020-03-05T10:20:30.1230000Z","DateL":"2020-03-05T10:20:30","Tags":["a","B",null],
        "Lines":[{"P":"x","Q":2,"Pr":1.5},{"P":"y","Q":3,"Pr":2}],
        "Addr":{"City":"Oz","Geo":{"Lat":10.5,"Lng":20.25}},"Dict":{"k1":1,"k2":"v2"},"Ref":"r/1",
        "Refs":["r/1","r/2","r/nope"],
        "Children":[{"Name":"c1","Children":[{"Name":"c11","Children":[]}]},{"Name":"c2"}],
        "Span":"01:02:03","Guid":"f3a0c0de-0000-0000-0000-000000000001","Num":"42",
        "Big":9007199254740993,"WKT":"POINT(20 10)","Nest":[[1,2],[3]]"#,
    ),
    ("d/2", "Docs", r#""Name":null,"Age":7,"Tags":[],"Lines":[]"#),
    ("r/1", "Refs", r#""Title":"Ref One","N":5"#),
    ("r/2", "Refs", r#""Title":"Ref Two","N":6"#),
];

fn kind_of(text: &str) -> IndexKind {
    let (map, reduce) = match text.split_once(" ||| ") {
        Some((map, reduce)) => (map, Some(reduce.to_owned())),
        None => (text, None),
    };
    IndexKind::Static(Box::new(IndexDefinition {
        name: "I".to_owned(),
        maps: vec![map.to_owned()],
        reduce,
        ..IndexDefinition::default()
    }))
}

/// The entries as the tables show them: terms in the order of fields, all in lower case.
fn entries_of(index: &Index) -> Vec<String> {
    let tx = index.read();
    let reader = IndexReader::open(&tx).unwrap();
    let names = reader.fields().unwrap().into_iter().map(|field| (field.id, field.name));
    let names: HashMap<_, _> = names.collect();
    let mut entries = Vec::new();
    for hit in reader.stream(&Query::All, Scoring::Off).unwrap() {
        let view = reader.entry(hit.unwrap().entry).unwrap().unwrap();
        let mut fields = Vec::new();
        for field in view.fields().unwrap() {
            let name = &names[&field.field];
            let mut terms: Vec<_> = field.terms.into_iter().filter_map(shown).collect();
            terms.sort();
            match terms.as_slice() {
                [] => {}
                [term] => fields.push(format!("{name}: {term}")),
                _ => fields.push(format!("{name}: [{}]", terms.join(", "))),
            }
        }
        fields.retain(|field| !field.contains("_Time: ") && !field.starts_with("array("));
        fields.sort_by_key(|field| field.to_lowercase().replace(':', "\0"));
        let id = match index.has_reduce() {
            true => String::new(),
            false => format!("{}:", view.document_id().unwrap()),
        };
        entries.push(format!("{id}{{{}}}", fields.join(", ")).to_lowercase());
    }
    entries.sort();
    entries
}

fn shown(term: TermValue) -> Option<String> {
    match term {
        TermValue::Null => Some("NULL".to_owned()),
        TermValue::Text(text) if text.is_empty() => Some("EMPTY_STRING".to_owned()),
        TermValue::Text(text) => Some(text.to_lowercase().replace('"', "\\")),
        TermValue::Long(_) | TermValue::Double(_) => None,
    }
}

/// Cuts `d/1:{A: x} d/2:{B: y}` between entries.
fn expected_entries(text: &str) -> Vec<String> {
    if text == "∅" {
        return Vec::new();
    }
    let text = text.replace("} {", "}\n{").replace("} d/", "}\nd/").replace("} r/", "}\nr/");
    let mut entries: Vec<_> = text.lines().map(str::to_lowercase).collect();
    entries.sort();
    entries
}

#[test]
fn definitions_give_the_entries_that_were_measured() {
    let documents = Documents::new();
    for (id, collection, members) in DOCUMENTS {
        let metadata = format!(r#""@metadata":{{"@collection":"{collection}","Foo":"bar"}}"#);
        documents.put(id, &format!("{{{members},{metadata}}}"));
    }
    let (mut differing, mut count) = (Vec::new(), 0);
    let lines = TABLE.lines().chain(IN_JAVASCRIPT.lines());
    let is_compared =
        |line: &&str| !line.starts_with('#') && !DIFFERING.iter().any(|part| line.contains(part));
    for line in lines.filter(is_compared) {
        let Some((text, expected)) = line.split_once('\t') else { continue };
        let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r");
        let opened = documents.open(&Platform::memory(), &kind_of(&text));
        if expected.starts_with("refused ") {
            if opened.is_some() {
                differing.push(format!("{text}\n  is not refused"));
            }
            continue;
        }
        if expected.starts_with('!') || matches!(expected, "declined" | "wider") {
            continue;
        }
        let Some(index) = opened else {
            differing.push(format!("{text}\n  is refused"));
            continue;
        };
        documents.follow(&index);
        count += 1;
        let (found, expected) = (entries_of(&index), expected_entries(expected));
        if found != expected {
            differing.push(format!("{text}\n  is {found:?}\n not {expected:?}"));
        }
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(40 < count, "only {count} definitions");
}
