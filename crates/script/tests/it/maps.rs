//! Index definitions: what is found in them and the results of their functions, compared with the
//! entries that the real server creates from the same texts.

use std::fmt::Write;

use script::{Budget, FieldValue, IndexEntry, MapInfo, MapKind, MapScript, ScriptError};

use crate::world::{Notes, document, engine, json};

const FIRST: &str = r#"{"Name":"John Smith","Age":30,"Price":2.5,"Null":null,"Tags":["a","B",null],
    "Lines":[{"P":"x","Q":2},{"P":"y","Q":3}],"Addr":{"City":"Oz","Geo":{"Lat":10.5,"Lng":20.25}},
    "Dict":{"k1":1},"Ref":"r/1","Big":9007199254740993,"Date":"2020-03-05T10:20:30.1230000Z",
    "@metadata":{"@collection":"Docs","Foo":"bar","@counters":["likes"]}}"#;
const SECOND: &str =
    r#"{"Name":null,"Age":7,"Tags":[],"Lines":[],"@metadata":{"@collection":"Docs"}}"#;

/// Entries as text: `{Name: value, …}`, one after the other.
pub(crate) fn print(entries: &[IndexEntry]) -> String {
    let mut out = String::new();
    for entry in entries {
        let mut fields = Vec::new();
        for field in &entry.fields {
            let mut text = format!("{}: ", field.name);
            match &field.value {
                FieldValue::Plain(value) => text.push_str(&value.to_json().unwrap()),
                FieldValue::Point(lat, lng) => {
                    let (lat, lng) = (lat.to_json().unwrap(), lng.to_json().unwrap());
                    write!(text, "point {lat} {lng}").unwrap();
                }
                FieldValue::Shape(wkt) => write!(text, "shape {wkt}").unwrap(),
            }
            if let Some(options) = &field.options {
                let (indexing, storage) = (&options.indexing, options.storage);
                write!(text, " ({indexing:?} {storage:?} {:?})", options.term_vector).unwrap();
            }
            if let Some(boost) = field.boost {
                write!(text, " ^{boost}").unwrap();
            }
            fields.push(text);
        }
        write!(out, "{{{}}}", fields.join(", ")).unwrap();
        if let Some(boost) = entry.boost {
            write!(out, "^{boost}").unwrap();
        }
    }
    out
}

fn map_both(text: &str) -> Result<String, ScriptError> {
    let engine = engine();
    let script = MapScript::compile(&engine, &[text], None, &[])?;
    let mut host = Notes::default();
    host.documents.insert("r/1".to_owned(), r#"{"Title":"Ref One"}"#.to_owned());
    let mut out = String::new();
    for (index, text) in [FIRST, SECOND].into_iter().enumerate() {
        let mut entries = Vec::new();
        let document = document(&format!("d/{}", index + 1), text);
        script.map(&engine, 0, &document, Budget::default(), &mut host, &mut entries)?;
        write!(out, "{}{}", if index == 0 { "" } else { " | " }, print(&entries)).unwrap();
    }
    Ok(out)
}

#[rustfmt::skip]
const MAPS: &[(&str, &str)] = &[
    ("map('Docs', d => ({ Name: d.Name, Age: d.Age }))",
        r#"{Name: "John Smith", Age: 30} | {Name: null, Age: 7}"#),
    ("map('Docs', function (d) { return { N: null, U: undefined, Nope: d.Nope, E: '', F: 1.5, I: 3, B: true, T: d.Tags, O: {a:1}, D: new Date(0) }; })",
        concat!(r#"{N: null, E: "", F: 1.5, I: 3, B: true, T: ["a","B",null], O: {"a":1}, D: "1970-01-01T00:00:00.0000000Z"} | "#,
            r#"{N: null, E: "", F: 1.5, I: 3, B: true, T: [], O: {"a":1}, D: "1970-01-01T00:00:00.0000000Z"}"#)),
    ("map('Docs', d => ({ A: d.Age B: 2; 'C': 3\n 4: 4 }))",
        r#"{4: 4, A: 30, B: 2, C: 3} | {4: 4, A: 7, B: 2, C: 3}"#),
    ("map('Docs', d => { return d.Lines.map(l => ({ P: l.P, Q: l.Q })); })", r#"{P: "x", Q: 2}{P: "y", Q: 3} | "#),
    ("map('Docs', d => null)", " | "),
    ("map('Docs', d => undefined)", " | "),
    ("map('Docs', d => 5)", " | "),
    ("map('Docs', d => 'x')", " | "),
    ("map('Docs', d => ({}))", "{} | {}"),
    ("map('Docs', d => ({ A: undefined }))", " | "),
    ("map('Docs', d => [{A:1},null,5,'x',undefined,{B:2}])", "{A: 1}{B: 2} | {A: 1}{B: 2}"),
    ("map('Docs', d => ({ X: d.Nope.Deep }))", "{X: null} | {X: null}"),
    ("map('Docs', d => ({ X: d.Age / 4, Y: d.Age + '1', Z: d.Name && d.Name.toUpperCase(), L: d.Tags.length }))",
        r#"{X: 7.5, Y: "301", Z: "JOHN SMITH", L: 3} | {X: 1.75, Y: "71", Z: null, L: 0}"#),
    ("map('Docs', d => { if (d.Age > 10) return { A: d.Age }; })", "{A: 30} | "),
    ("map('Docs', d => { var r = load(d.Ref, 'Refs'); return { T: r ? r.Title : 'none' }; })",
        r#"{T: "Ref One"} | {T: "none"}"#),
    ("map('Docs', d => ({ T: load(d.Ref, 'Refs'), N: load(null, 'Refs'), Z: load('zz', 'Refs'), A: 1 }))",
        r#"{T: {"Title":"Ref One"}, A: 1} | {A: 1}"#),
    ("map('Docs', d => ({ I: id(d), C: d['@metadata']['@collection'], F: getMetadata(d).Foo }))",
        r#"{I: "d/1", C: "Docs", F: "bar"} | {I: "d/2", C: "Docs"}"#),
    ("map('Docs', d => ({ _: createField('Dyn', d.Name, { indexing: 'Exact', storage: true, termVector: null }) }))",
        r#"{Dyn: "John Smith" (Some("Exact") Some(true) None)} | {Dyn: null (Some("Exact") Some(true) None)}"#),
    ("map('Docs', d => ({ _: { $value: d.Age, $name: 'Dyn2', $options: { indexing: 'Exact' } } }))",
        r#"{Dyn2: 30 (Some("Exact") None None)} | {Dyn2: 7 (Some("Exact") None None)}"#),
    ("map('Docs', d => ({ _: d.Lines.map(l => createField('L_' + l.P, l.Q)), Age: d.Age }))",
        "{L_x: 2 (None None None), L_y: 3 (None None None), Age: 30} | {_: [], Age: 7}"),
    ("map('Docs', d => ({ L: createSpatialField(d.Addr.Geo.Lat, d.Addr.Geo.Lng), A: 1 }))",
        "{L: point 10.5 20.25, A: 1} | {A: 1}"),
    ("map('Docs', d => ({ L: [createSpatialField('POINT(1 2)'), createSpatialField(3, 4)] }))",
        "{L: shape POINT(1 2), L: point 3 4} | {L: shape POINT(1 2), L: point 3 4}"),
    ("map('Docs', d => ({ X: boost(d.Name, 2) }))", r#"{X: "John Smith" ^2} | {X: null ^2}"#),
    ("map('Docs', d => boost({ A: d.Age }, 2))", "{A: 30}^2 | {A: 7}^2"),
    ("map('Docs', d => ({ A: attachmentsFor(d).length, C: counterNamesFor(d), T: timeSeriesNamesFor(d), X: cmpxchg('k') }))",
        r#"{A: 0, C: ["likes"], T: []} | {A: 0, C: [], T: []}"#),
    ("map('Docs', d => ({ Y: new Date(d.Date).getFullYear(), Y2: Date.parse(d.Date) }))",
        r#"{Y: 2020, Y2: 1583403630123} | {Y: "NaN", Y2: "NaN"}"#),
    ("map('Docs', d => { d.Age = 5; delete d.Name; return { A: d.Age, N: d.Name }; })", "{A: 5} | {A: 5}"),
    ("map('Docs', d => ({ T: typeof foo, F: foo, G: foo(), H: foo.bar, I: d.Nope.foo(), L: d.Nope.length, M: d.Nope.map(x => x) }))",
        r#"{T: "undefined", F: null, H: null, L: 0, M: []} | {T: "undefined", F: null, H: null, L: 0, M: []}"#),
    ("map('Docs', d => ({ S: d.Nope + 'a', U: d.Nope.x + 1, V: d.Name + 'a' }))",
        r#"{S: "undefineda", U: 1, V: "John Smitha"} | {S: "undefineda", U: 1, V: "nulla"}"#),
    ("map('Docs', d => ({ Big: d.Big, A: d.Addr, D: d.Dict }))",
        r#"{Big: 9007199254740992, A: {"City":"Oz","Geo":{"Lat":10.5,"Lng":20.25}}, D: {"k1":1}} | "#),
    ("function f(d) { return { A: d.Age }; } map('Docs', f)", "{A: 30} | {A: 7}"),
    ("map('Docs', d => ({ A: d.Lines.filter(l => l.Q > 2).map(l => l.P), B: d.Tags.includes('a') }))",
        r#"{A: ["y"], B: true} | {A: [], B: false}"#),
];

#[test]
fn maps_yield_the_entries_of_the_real_server() {
    for (text, expected) in MAPS {
        assert_eq!(map_both(text).unwrap(), *expected, "{text}");
    }
}

#[test]
fn whole_documents_can_be_entries() {
    let actual = map_both("map('Docs', d => d)").unwrap();
    assert!(
        actual.starts_with(r#"{Name: "John Smith", Age: 30, Price: 2.5, Null: null"#),
        "{actual}"
    );
    assert!(
        actual.contains("Big: 9007199254740993"),
        "an untouched number keeps its digits: {actual}"
    );
}

#[test]
fn an_array_of_any_length_fails_for_its_document_alone() {
    let engine = engine();
    let text = "map('D', d => { var a = []; a[d.N] = 1; return { A: a, B: [a] } })";
    let script = MapScript::compile(&engine, &[text], None, &[]).unwrap();
    let map = |number: u32| {
        let (document, mut entries) =
            (document("d/1", &format!(r#"{{"N":{number}}}"#)), Vec::new());
        let budget = Budget::default();
        script.map(&engine, 0, &document, budget, &mut Notes::default(), &mut entries)
    };
    for number in [2_147_483_646, 2_147_483_647, 4_294_967_294] {
        let refused = map(number).unwrap_err();
        assert!(matches!(refused, ScriptError::Result(_)), "{number}: {refused:?}");
        map(1).unwrap();
    }
}

#[test]
fn definitions_report_what_they_map() {
    let engine = engine();
    let text =
        "map('Users', u => u); map('@all_docs', u => u); timeSeries.map('Users', 'HR', t => t);
        counters.map('Users', c => c); timeSeries.map('Users', t => t); timeSeries.map(t => t)";
    let script = MapScript::compile(&engine, &[text, "map('Dogs', d => d)"], None, &[]).unwrap();
    let info = |kind, collection: &str, name: Option<&str>| MapInfo {
        kind,
        collection: collection.to_owned(),
        name: name.map(str::to_owned),
    };
    assert_eq!(
        script.maps(),
        [
            info(MapKind::Documents, "Users", None),
            info(MapKind::Documents, "@all_docs", None),
            info(MapKind::TimeSeries, "Users", Some("HR")),
            info(MapKind::Counters, "Users", None),
            info(MapKind::TimeSeries, "Users", None),
            info(MapKind::TimeSeries, "@all_docs", None),
            info(MapKind::Documents, "Dogs", None),
        ]
    );
    assert!(!script.has_reduce());
}

#[test]
fn reduces_group_and_aggregate() {
    let engine = engine();
    let map = "map('Docs', d => ({ A: d.Age, B: d.Name, C: 1 }))";
    for (reduce, keys, reduced) in [
        (
            "groupBy(x => x.A).aggregate(g => ({ A: g.key, C: g.values.reduce((a, v) => a + v.C, 0) }))",
            "30 7 30",
            "{A: 30, C: 2}",
        ),
        (
            "groupBy(x => ({ A: x.A, B: x.B }))
                .aggregate(g => { return { A: g.key.A, B: g.key.B, N: g.values.length }; })",
            r#"{"A":30,"B":"x"} {"A":7,"B":null} {"A":30,"B":"x"}"#,
            r#"{A: 30, B: "x", N: 2}"#,
        ),
    ] {
        let script = MapScript::compile(&engine, &[map], Some(reduce), &[]).unwrap();
        assert!(script.has_reduce());
        let entries =
            [r#"{"A":30,"B":"x","C":1}"#, r#"{"A":7,"B":null,"C":1}"#, r#"{"A":30,"B":"x","C":1}"#]
                .map(|json| script::ScriptDocument::unstored(crate::world::parse(json)));
        let key = |entry| script.group_key(&engine, entry, Budget::default()).unwrap();
        let found = entries.iter().map(|entry| key(entry).to_json().unwrap()).collect::<Vec<_>>();
        assert_eq!(found.join(" "), keys);
        let mut out = Vec::new();
        let group = [entries[0].clone(), entries[2].clone()];
        script
            .aggregate(
                &engine,
                &key(&entries[0]),
                &group,
                Budget::default(),
                &mut script::NoHost,
                &mut out,
            )
            .unwrap();
        assert_eq!(print(&out), reduced);
    }
}

#[test]
fn names_of_fields_are_known_without_a_document() {
    let engine = engine();
    for (text, names, has_others) in [
        (
            "map('D', d => ({ Name: d.Name, Up: d.Name.toUpperCase(), C: d.A.B.C + 1 }))",
            "Name Up C",
            false,
        ),
        ("map('D', d => d.Lines.map(l => ({ P: l.P, Q: l.Q * 2 })))", "P Q", false),
        ("map('D', d => d.Lines.filter(l => l.Q > 5).map(l => ({ P: l.P })))", "P", false),
        (
            "map('D', function (d) { var r = []; for (const l of d.Lines) r.push({ P: l.P }); return r; })",
            "P",
            false,
        ),
        (
            "map('D', function (d) { var r = []; d.Lines.forEach(l => { r.push({ P: l.P }) }); return r; })",
            "P",
            false,
        ),
        (
            "map('D', d => { if (d.Age > 10) return { A: 1 }; return { B: d.Sum.reduce((a, x) => a + x, 0) } })",
            "B A",
            false,
        ),
        (
            "map('D', d => { if (!d.Name) return null; return { A: load(d.Ref, 'Rs').Title } })",
            "A",
            false,
        ),
        ("map('D', d => { if (d.Type !== 'x') return { A: 1 }; return { B: 1 } })", "A", false),
        (
            "map('D', d => ({ _: createField('Dyn', d.X), L: createSpatialField(d.Lat, d.Lng) }))",
            "Dyn L",
            false,
        ),
        (
            "map('D', d => ({ _: d.Tags.map(t => createField('T_' + t.Name, t.V)), A: boost(d.X, 2) }))",
            "A _",
            true,
        ),
        (
            "map('D', d => ({ M: getMetadata(d).Foo, I: id(d), X: cmpxchg(d.K), A: attachmentsFor(d).length }))",
            "M I X A",
            false,
        ),
        (
            "map('D', d => ({ X: cmpxchg('k').A.B, L: load('d/1', 'D').Name, Ks: cmpxchg(d.Ks) }))",
            "X L Ks",
            false,
        ),
        ("map('D', d => d)", "", true),
        ("map('D', d => { for (;;) {} })", "", true),
        ("map('D', d => { throw new Error('x') })", "", true),
        ("map('D', d => null)", "", false),
    ] {
        let script = MapScript::compile(&engine, &[text], None, &[]).unwrap();
        let fields = &script.fields()[0];
        assert_eq!(
            (fields.names.join(" ").as_str(), fields.has_others),
            (names, has_others),
            "{text}"
        );
    }
    let reduce = "groupBy(x => x.A).aggregate(g => ({ A: g.key, N: g.values.reduce((a, v) => a + v.N, 0) }))";
    let map = "var calls = 0; map('D', d => ({ A: d.A, N: ++calls }))";
    let script = MapScript::compile(&engine, &[map], Some(reduce), &[]).unwrap();
    assert_eq!(script.reduced_fields().unwrap().names, ["A", "N"]);
    let mut out = Vec::new();
    let document = document("d/1", "{}");
    script.map(&engine, 0, &document, Budget::default(), &mut Notes::default(), &mut out).unwrap();
    assert_eq!(print(&out), "{N: 1}", "the search for names leaves nothing behind");
}

#[test]
fn additional_sources_are_seen_by_the_maps() {
    let engine = engine();
    let helper = "function double(x) { return x * 2; } const WORD = 'k';";
    let map = "map('Docs', d => ({ A: double(d.Age), B: WORD }))";
    let script = MapScript::compile(&engine, &[map], None, &[helper]).unwrap();
    let mut out = Vec::new();
    let document = document("d/1", FIRST);
    script.map(&engine, 0, &document, Budget::default(), &mut Notes::default(), &mut out).unwrap();
    assert_eq!(print(&out), r#"{A: 60, B: "k"}"#);
}

#[test]
fn what_is_no_definition_is_refused() {
    let engine = engine();
    for (text, message) in [
        ("map(d => ({ A: d.Age }))", "map function #0 is not a function"),
        ("map(['A', 'B'], d => d)", "map function #0 collection name isn't a string"),
        ("map('Docs', 5)", "map function #0 is not a function"),
        ("map('Docs')", "map function #0 is not a function"),
        ("foo()", "the definition doesn't contain any map functions"),
        (
            "map('Docs', d => d); groupBy(5).aggregate(g => g)",
            "groupBy(…) and aggregate(…) both need a function",
        ),
        (
            "map('Docs', d => d); groupBy(x => x)",
            "groupBy(…) and aggregate(…) both need a function",
        ),
        (
            "map('Docs', d => d); groupBy(x => x).aggregate(g => g)",
            "a reduce must be groupBy(…).aggregate(…), and nothing else may be one",
        ),
    ] {
        match MapScript::compile(&engine, &[text], None, &[]) {
            Err(ScriptError::Definition(actual)) => assert_eq!(actual, message, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "map('Docs', d => ({ A: d.Age } )",
        "map('Docs', d => ({ A: 1,, B: 2 }))",
        "map('Docs', d => ({ A: [1 2] }))",
        "map('Docs', (d e) => ({ A: 1 }))",
    ] {
        let compiled = MapScript::compile(&engine, &[text], None, &[]);
        assert!(matches!(compiled, Err(ScriptError::Parse { .. })), "{text}");
    }
    assert!(matches!(
        MapScript::compile(&engine, &["throw new Error('x')"], None, &[]),
        Err(ScriptError::Runtime { .. })
    ));
}

#[test]
fn documents_are_not_changed_by_maps() {
    let engine = engine();
    let script =
        MapScript::compile(&engine, &["map('Docs', d => { d.Age = 0; return d; })"], None, &[])
            .unwrap();
    let document = document("d/1", r#"{"Age":1}"#);
    let mut out = Vec::new();
    script.map(&engine, 0, &document, Budget::default(), &mut Notes::default(), &mut out).unwrap();
    assert_eq!(print(&out), "{Age: 0}");
    assert_eq!(json(&document.document().to_buf()), r#"{"Age":1}"#);
}
