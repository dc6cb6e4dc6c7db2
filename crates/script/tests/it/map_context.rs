//! What maps see besides their document, and what is missing there: as the real server indexes it.

use script::{Budget, MapScript, ScriptError};

use crate::{
    maps::print,
    world::{Notes, document, engine},
};

/// Keeps the entry when the value is left out.
const KEPT: &str = "K: 1";

/// The result of `expression` in a map over a nearly empty document, and what it requested of the
/// host.
fn mapped(expression: &str) -> Result<(String, Vec<String>), ScriptError> {
    let engine = engine();
    let text = format!("map('Docs', d => {{ return {{ X: {expression}, {KEPT} }}; }})");
    let script = MapScript::compile(&engine, &[&text], None, &[])?;
    let mut host = Notes::default();
    host.documents.insert("r/1".to_owned(), r#"{"Title":"One","Next":"r/2"}"#.to_owned());
    host.documents.insert("r/2".to_owned(), r#"{"Title":"Two","Next":"R/1"}"#.to_owned());
    let own = r#"{"N":null,"Ref":"r/1","L":[1,2],"Kids":[{"A":1,"Kids":[{"A":2},{"A":3,
        "Kids":[{"A":4}]}]},{"A":5}],"@metadata":{"@collection":"Docs"}}"#;
    let mut entries = Vec::new();
    let (own, budget) = (document("d/1", own), Budget::default());
    script.map(&engine, 0, &own, budget, &mut host, &mut entries)?;
    Ok((print(&entries), host.log))
}

fn check(cases: &[(&str, &str)]) {
    for (expression, value) in cases {
        let expected = match *value {
            "" => format!("{{{KEPT}}}"),
            value => format!("{{X: {value}, {KEPT}}}"),
        };
        assert_eq!(mapped(expression).unwrap().0, expected, "{expression}");
    }
}

#[test]
fn what_is_not_found_is_null_to_the_script_and_left_out_of_the_index() {
    check(&[
        ("load('x', 'Docs')", ""),
        ("load('x', 'Docs').A", ""),
        ("load('x', 'Docs').A.B", ""),
        ("load('x', 'Docs').foo()", ""),
        ("load('x', 'Docs').map(x => x)", ""),
        ("load('x', 'Docs').length", ""),
        ("load('x', 'Docs') === null", "true"),
        ("load(d.X, 'Docs')", ""),
        ("load(d.N, 'Docs') === null", "true"),
        ("load(d.N.A, 'Docs').B", ""),
        ("cmpxchg('k')", ""),
        ("cmpxchg('k').A", ""),
        ("cmpxchg('k') === null", "true"),
        ("cmpxchg(['k', 'l'])", "[]"),
        ("boost(load('x', 'Docs').A, 2)", ""),
        ("[load('x', 'Docs').A, 'b']", r#"["b"]"#),
    ]);
}

#[test]
fn the_null_of_a_document_is_indexed_and_its_members_are_not() {
    check(&[
        ("d.N", "null"),
        ("d.N.A", ""),
        ("d.N.A.B", ""),
        ("d.N.length", ""),
        ("d.N['A']", ""),
        ("d.N.foo()", "null"),
        ("[d.N, 'b']", r#"[null,"b"]"#),
        ("[d.N.A, 'b']", r#"["b"]"#),
        ("[[d.N.A], [1]]", "[[],[1]]"),
        ("[undefined, 'b']", r#"["b"]"#),
        ("{ A: d.N.A, B: d.N }", r#"{"A":null,"B":null}"#),
        ("d.N.A === null", "true"),
        ("d.N.A === undefined", "false"),
        ("d.N.A == null", "true"),
        ("d.N.A === null || d.N", "true"),
        ("typeof d.N.A", r#""object""#),
        ("d.N.A + 1", "1"),
        ("d.N.A * 2", "0"),
        ("d.N.A < 1", "true"),
        ("~d.N.A", "-1"),
        ("d.N.A + 'x'", r#""nullx""#),
        ("!d.N.A", "true"),
        ("d.N.A || 'd'", r#""d""#),
        ("d.N.A ?? 'd'", r#""d""#),
        ("d.N.A && 'd'", ""),
        ("d.N || d.N.A", ""),
        ("(x => x)(d.N.A)", ""),
        ("[d.N.A].map(x => x)[0]", ""),
        ("d.N.A ? 1 : 2", "2"),
        ("JSON.stringify([d.N.A, d.N])", r#""[null,null]""#),
        ("[...new Set([d.N.A, d.N, null])].length", "1"),
        ("String(d.N.A)", r#""null""#),
    ]);
}

#[test]
fn nulls_of_scripts_and_members_of_undefined_are_indexed() {
    check(&[
        ("null", "null"),
        ("null.A", "null"),
        ("d.X", ""),
        ("d.X.A", "null"),
        ("d.X.A.B", "null"),
        ("d.X.foo()", ""),
        ("d.L.foo.bar", "null"),
        ("foo.bar", "null"),
        ("getMetadata(d).X.Y", "null"),
    ]);
}

#[test]
fn attachments_are_read() {
    check(&[
        ("loadAttachment(d, 'a.TXT').Name", r#""A.txt""#),
        ("loadAttachment(d, 'A.txt').ContentType", r#""text/plain""#),
        ("loadAttachment(d, 'A.txt').Size", "6"),
        ("loadAttachment(d, 'A.txt').Hash", r#""h""#),
        ("loadAttachment(d, 'A.txt').Nope", ""),
        ("loadAttachment(d, 'A.txt').getContentAsString()", r#""hellö""#),
        ("loadAttachment(d, 'A.txt').getContentAsString('ASCII')", r#""hell??""#),
        ("loadAttachment(d, 'nope')", ""),
        ("loadAttachment(d, 'nope') === null", "true"),
        ("loadAttachment(d, 'nope').Name", ""),
        ("loadAttachment(d, 'nope').getContentAsString()", ""),
        ("loadAttachment(null, 'A.txt')", ""),
        ("loadAttachments(d).map(a => a.Name)", r#"["A.txt","b"]"#),
        ("loadAttachments(d).map(a => a.getContentAsString())", r#"["hellö",""]"#),
        ("loadAttachments(load('r/1', 'Docs')).length", "0"),
        ("loadAttachments(load('x', 'Docs'))", ""),
    ]);
    for (expression, message) in [
        ("loadAttachment(d)", "LoadAttachment may only be called with two arguments, but '1' were"),
        ("loadAttachment('d/1', 'A.txt')", "a non-null entity as a first parameter"),
        ("loadAttachment(d, 5)", "LoadAttachment may only be called with a string"),
        ("loadAttachments('d/1')", "a non-null entity as a parameter"),
        ("loadAttachments()", "LoadAttachments may only be called with one argument, but '0' were"),
        ("loadAttachment(d, 'b').getContentAsString('utf-16')", "one of utf8, ascii"),
        ("loadAttachment(d, 'b').getContentAsString(5)", "one of utf8, ascii"),
    ] {
        let error = mapped(expression).unwrap_err().to_string();
        assert!(error.contains(message), "{expression}: {error}");
    }
}

#[test]
fn names_of_counters_series_and_attachments_are_those_of_one_document() {
    for name in ["counterNamesFor", "timeSeriesNamesFor", "attachmentsFor"] {
        check(&[
            (&format!("{name}(load('r/1', 'Docs')).length"), "0"),
            (&format!("{name}(load('r/1', 'Docs')).join('|')"), r#""""#),
        ]);
        let alone = format!("{name}(doc) must be called with a single entity argument");
        for (arguments, message) in [
            ("", alone.as_str()),
            ("d, 1", &alone),
            ("{}", &alone),
            ("[d]", &alone),
            ("null", "The value is not an object"),
            ("d.Missing", "The value is not an object"),
            ("load('x', 'Docs')", "The value is not an object"),
            ("'d/1'", "The value is not an object"),
        ] {
            let error = mapped(&format!("{name}({arguments})")).unwrap_err().to_string();
            assert!(error.contains(message), "{name}({arguments}): {error}");
        }
    }
}

#[test]
fn recursion_proceeds_level_by_level_and_ends_in_cycles() {
    check(&[
        ("recurse(d, x => x.Kids).map(x => x.A)", "[1,5,2,3,4]"),
        ("recurse(d, x => x.Kids).length", "6"),
        (
            "recurse({ a: 1 }, x => x.a < 4 ? [{ a: x.a + 1 }, { a: x.a + 2 }] : []).map(x => x.a)",
            "[1,2,3,3,4,4,5,4,5]",
        ),
        ("recurse({ a: 1 }, x => x.a < 3 ? { a: x.a + 1 } : undefined).map(x => x.a)", "[1,2,3]"),
        ("JSON.stringify(recurse(5, x => x < 8 ? x + 1 : null))", r#""[5,6,7,8,null,1,2,3,4]""#),
        ("JSON.stringify(recurse(null, x => x.Kids))", r#""[null]""#),
        ("recurse(d.Missing, x => x.A).length", "0"),
        ("recurse(d, x => id(x) === 'd/1' ? 'id d/1' : undefined).length", "2"),
        (
            "recurse(load('r/1', 'Docs'), x => load(x.Next, 'Docs')).map(x => x.Title)",
            r#"["One","Two"]"#,
        ),
    ]);
    for expression in ["recurse(d)", "recurse(d.L, 5)"] {
        assert!(mapped(expression).is_err(), "{expression}");
    }
}

#[test]
fn untracked_loads_are_requested_separately() {
    let (entry, asked) = mapped("noTracking.load(d.Ref, 'Docs').Title").unwrap();
    assert_eq!(
        (entry.as_str(), asked.join(" ")),
        (r#"{X: "One", K: 1}"#, "load untracked r/1 Docs".into())
    );
    check(&[
        ("noTracking.load('x', 'Docs').A", ""),
        ("noTracking.load(d.N, 'Docs') === null", "true"),
    ]);
    for expression in
        ["load(d.Ref)", "noTracking.load(d.Ref)", "load(5, 'Docs')", "load(['a'], 'Docs')"]
    {
        assert!(mapped(expression).is_err(), "{expression}");
    }
}
