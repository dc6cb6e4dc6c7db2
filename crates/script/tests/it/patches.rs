//! Patches: the document after a script, and its calls of the host.

use script::{Budget, PatchLoad, PatchScript, PatchText, ScriptDocument, ScriptError};

use crate::world::{Notes, document, engine, json, parse, patch};

const DOCUMENT: &str = r#"{"Name":"John","Age":30,"Price":2.50,"Big":9007199254740993,"Tags":["a","b"],"Lines":[{"P":"x","Q":2.0},{"P":"y","Q":3}],"Addr":{"City":"Oz"},"@metadata":{"@collection":"Docs"}}"#;

/// Script, and its effect on the document: text that must replace other text in the result.
#[rustfmt::skip]
const PATCHES: &[(&str, &[(&str, &str)])] = &[
    ("this.Age = 31", &[("\"Age\":30", "\"Age\":31")]),
    ("this.Age += 0.5", &[("\"Age\":30", "\"Age\":30.5")]),
    ("this.Tags.push('c')", &[("[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]")]),
    ("this.Tags = this.Tags.filter(t => t != 'a')", &[("[\"a\",\"b\"]", "[\"b\"]")]),
    ("this.Tags.length = 0", &[("[\"a\",\"b\"]", "[]")]),
    ("this.Tags.sort().reverse()", &[("[\"a\",\"b\"]", "[\"b\",\"a\"]")]),
    ("this.Addr.Zip = 5", &[("{\"City\":\"Oz\"}", "{\"City\":\"Oz\",\"Zip\":5}")]),
    ("this.Lines[0].Q = 9", &[("\"Q\":2.0", "\"Q\":9")]),
    ("this.Lines.push({ P: 'z' })", &[("\"Q\":3}]", "\"Q\":3},{\"P\":\"z\"}]")]),
    ("for (const l of this.Lines) l.T = l.Q * 2", &[("\"Q\":2.0}", "\"Q\":2.0,\"T\":4}"), ("\"Q\":3}", "\"Q\":3,\"T\":6}")]),
    ("delete this.Addr", &[("\"Addr\":{\"City\":\"Oz\"},", "")]),
    ("this.Addr = undefined", &[("{\"City\":\"Oz\"}", "null")]),
    ("this.Addr = null", &[("{\"City\":\"Oz\"}", "null")]),
    ("this.x = 1; this.b = 2; delete this.x; this.x = 3", &[("\"Docs\"}}", "\"Docs\"},\"x\":3,\"b\":2}")]),
    ("this.u = undefined; this.n = null", &[("\"Docs\"}}", "\"Docs\"},\"n\":null}")]),
    ("this['@metadata'].Foo = 1; this['@metadata']['@id'] = 'x/1'", &[("\"Docs\"}}", "\"Docs\",\"Foo\":1}}")]),
    ("getMetadata(this)['@expires'] = 'soon'", &[("\"Docs\"}}", "\"Docs\",\"@expires\":\"soon\"}}")]),
    ("this.d = new Date(0)", &[("\"Docs\"}}", "\"Docs\"},\"d\":\"1970-01-01T00:00:00.0000000Z\"}")]),
    ("this.self = this", &[("\"Docs\"}}", "\"Docs\"},\"self\":null}")]),
    ("this.copy = this.Addr; this.copy.City = 'Zo'", &[("Oz", "Zo"), ("\"Docs\"}}", "\"Docs\"},\"copy\":{\"City\":\"Zo\"}}")]),
    ("var n = this.Lines.length + this.Big; this.Tags.map(x => x); this.Addr.City; this['@metadata']['@id']", &[]),
    ("this.Price = this.Price * 1; this.Big = this.Big", &[]),
    ("this.Copy = scalarToRawString(this, x => x.Price)", &[("\"Docs\"}}", "\"Docs\"},\"Copy\":2.50}")]),
    ("this.Age = 31; this.Copy = scalarToRawString(this, x => x.Age)", &[("\"Age\":30", "\"Age\":31"), ("\"Docs\"}}", "\"Docs\"},\"Copy\":31}")]),
    ("const o = Object.create({}); o['digits of a stored number'] = '5'; this.o = o", &[("\"Docs\"}}", "\"Docs\"},\"o\":{\"digits of a stored number\":\"5\"}}")]),
    ("if (this.Age > 3) return; this.q = 1", &[]),
    ("this.Nope.push(1); this.Nope.x.y; foo(); bar.baz", &[]),
    ("return { A: 1 }", &[]),
    ("for (const k in this) if (k.length == 4) this[k] = k", &[("\"John\"", "\"Name\""), ("[\"a\",\"b\"]", "\"Tags\""), ("{\"City\":\"Oz\"}", "\"Addr\"")]),
    ("Object.assign(this, { Name: 'J', New: [1, , 2] })", &[("John", "J"), ("\"Docs\"}}", "\"Docs\"},\"New\":[1,2]}")]),
    ("const { Name, ...rest } = this; this.Rest = Object.keys(rest).length", &[("\"Docs\"}}", "\"Docs\"},\"Rest\":7}")]),
    ("this.Name = this.Name.replace(/o/, '0') + `${this.Age}`", &[("John", "J0hn30")]),
];

#[test]
fn patches_change_what_they_name_and_nothing_else() {
    let engine = engine();
    for (text, changes) in PATCHES {
        let before = document("d/1", DOCUMENT);
        let patched = patch(&engine, &before, text, &mut Notes::default()).unwrap();
        let mut expected = DOCUMENT.to_owned();
        for (old, new) in *changes {
            assert!(expected.contains(old), "{text}: {old} is not there");
            expected = expected.replacen(old, new, 1);
        }
        let after = patched.document.map_or(DOCUMENT.to_owned(), |document| json(&document));
        assert_eq!(after, expected, "{text}");
        assert_eq!(json(&before.document().to_buf()), DOCUMENT, "{text} changed the original");
    }
}

#[test]
fn a_patch_without_changes_returns_no_document() {
    let engine = engine();
    for text in ["", "var x = this.Name + args.y", "return 1"] {
        let patched =
            patch(&engine, &document("d/1", DOCUMENT), text, &mut Notes::default()).unwrap();
        assert!(patched.document.is_none(), "{text}");
    }
}

#[rustfmt::skip]
const CALLS: &[(&str, &[&str])] = &[
    ("put('a/1', { A: 1, u: undefined, d: new Date(0), '@metadata': { '@collection': 'As' } })",
        &[r#"put a/1 {"A":1,"d":"1970-01-01T00:00:00.0000000Z","@metadata":{"@collection":"As"}} -"#]),
    ("put(null, this.Addr, 'A:1'); put(undefined, {})", &[r#"put generated {"City":"Oz"} A:1"#, "put generated {} -"]),
    ("put('b/1', this)", &[r#"put b/1 {"Name":"John","Age":30,"Price":2.50,"Big":9007199254740993,"Tags":["a","b"],"Lines":[{"P":"x","Q":2.0},{"P":"y","Q":3}],"Addr":{"City":"Oz"},"@metadata":{"@collection":"Docs"}} -"#]),
    ("put('q/1', { a: 1 }); this.z = load('q/1').a", &[r#"put q/1 {"a":1} -"#, "load q/1 -"]),
    ("output(del('nope')); output(del(id(this)))", &["delete nope", "output False", "delete d/1", "output False"]),
    ("load(['x', 'y']); load(null); load(this.Nope); load('z', 'Zs')", &["load x -", "load y -", "load z Zs"]),
    ("output('a'); output({ a: 1, b: [1, null] }); output(1.5); output(null); output(undefined); output(true); console.log([1, 'a'])",
        &["output a", r#"output {"a":1,"b":[1,null]}"#, "output 1.5", "output null", "output undefined", "output True", r#"output [1,"a"]"#]),
    ("output(this.Addr)", &[r#"output {"City":"Oz"}"#]),
    ("incrementCounter(this, 'c'); incrementCounter('x/1', 'c', 5); deleteCounter(this, 'c')",
        &["increment d/1 c 1", "increment x/1 c 5", "delete counter d/1 c"]),
    ("timeseries(this, 'hr').append(new Date(5), [1, 2], 'tag'); timeseries('x/1', 'hr').append('1970-01-01T00:00:00.0070000Z', 3)",
        &[r#"append d/1 hr 5 Some("tag") [1.0, 2.0]"#, "append x/1 hr 7 None [3.0]"]),
    ("timeseries(this, 'hr').get(null, new Date(9))", &["series d/1 hr None Some(9.0)"]),
    ("timeseries(this, 'hr').get('1970', '1970-01-01T00:01')", &["series d/1 hr Some(0.0) Some(60000.0)"]),
    ("for (const text of ['1970-01-01T00:00:01Z', '1970-13', 'x', '', '1970-01-01T00:00:00.00']) try { timeseries(this, 'hr').get(text, text) } catch (e) { output(e.message.split('\\n')[0]) }",
        &["output Unable to parse timeseries from/to values. Got: 1970-01-01T00:00:01Z",
          "output Unable to parse timeseries from/to values. Got: 1970-13",
          "output Unable to parse timeseries from/to values. Got: x",
          "output Unable to parse timeseries from/to values. Got: ",
          "output Unable to parse timeseries from/to values. Got: 1970-01-01T00:00:00.00"]),
    ("include('x/1'); include(['y/1', null])", &["include x/1", "include y/1"]),
    ("output(cmpxchg('known').a[0]); output(cmpxchg('unknown')); output(counter(this, 'likes')); output(counterRaw('x', 'likes'))",
        &["output 1", "output null", "output 3", r#"output {"A-x":7}"#]),
    ("output(loadPath(this, 'Addr.City')); output(loadPath(this, 'Lines[].P'))",
        &["load Oz -", "output null", "load x -", "load y -", "output [null,null]"]),
    ("output(id(load('l/1'))); output(load('l/1').A); var l = load('l/1'); l.A = 2; put('l/1', l)",
        &["load l/1 -", "output l/1", "load l/1 -", "output 1", "load l/1 -", r#"put l/1 {"A":2} -"#]),
    ("output(id({})); output(id(null)); output(id(this.Addr)); output(id(this.Nope))",
        &["output null", "output null", "output null", "output undefined"]),
];

#[test]
fn patches_reach_their_host() {
    let engine = engine();
    for (text, expected) in CALLS {
        let mut host = Notes::default();
        host.documents.insert("l/1".to_owned(), r#"{"A":1}"#.to_owned());
        patch(&engine, &document("d/1", DOCUMENT), text, &mut host).unwrap();
        assert_eq!(host.log, *expected, "{text}");
    }
}

#[test]
fn wrong_calls_are_reported() {
    let engine = engine();
    for (text, message) in [
        (
            "put()",
            "put(id, doc, changeVector) must be called with called with 2 or 3 arguments only",
        ),
        ("put(1, {})", "The first parameter to put(id, doc, changeVector) must be a string"),
        (
            "put('x', 5)",
            "Created document must be a valid object which is not null or empty. Document ID: 'x'.",
        ),
        (
            "put('zz|', {})",
            "Document ids cannot end with '|', but was called with zz|. Identities are only generated for external requests, not calls to PutDocument and such.",
        ),
        ("del()", "delete(id, changeVector) must be called with at least one parameter"),
        ("del(5)", "delete(id, changeVector) id argument must be a string"),
        ("load()", "load(id | ids) must be called with a single string argument"),
        ("load(5)", "load(id | ids) must be called with a single string or array argument"),
        ("id()", "id(doc) must be called with a single argument"),
        ("getMetadata('x')", "The value is not an object"),
        ("cmpxchg(5)", "cmpxchg(key) must be called with a single string argument"),
        ("PutDocument('x', {})", "The method PutDocument was renamed to 'put'"),
        ("this.d = new Date('bad')", "an invalid date cannot become JSON: its value is NaN"),
    ] {
        let error =
            patch(&engine, &document("d/1", DOCUMENT), text, &mut Notes::default()).unwrap_err();
        let actual = match error {
            ScriptError::Refused { message, .. } | ScriptError::Result(message) => message,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(actual, message, "{text}");
    }
}

#[test]
fn arguments_are_there_under_both_names() {
    let engine = engine();
    let text = "this.a = args.x; this.b = $x; this.c = $nope; this.d = args.list.length + $list[0]";
    let script = PatchScript::compile(&engine, &PatchText::of(text)).unwrap();
    let args = ScriptDocument::unstored(parse(r#"{"x":1,"list":[4,5]}"#));
    let empty = document("d/1", "{}");
    let patched =
        script.run(&engine, &empty, Some(&args), Budget::default(), &mut Notes::default()).unwrap();
    assert_eq!(json(&patched.document.unwrap()), r#"{"a":1,"b":1,"d":6}"#);
}

#[test]
fn queries_patch_through_their_aliases() {
    let engine = engine();
    let load = |name: &str, from: &str, path: &str, many: bool| PatchLoad {
        name: name.to_owned(),
        from: from.to_owned(),
        path: path.to_owned(),
        many,
    };
    let patch = PatchText {
        alias: Some("o".to_owned()),
        declarations: vec!["function next(n) { return n + 1; }".to_owned()],
        loads: vec![
            load("c", "o", "Company", false),
            load("boss", "c", "Boss", false),
            load("all", "o", "Lines[].P", true),
            load("one", "o", "Lines[].P", false),
            load("none", "o", "Nope.Nope", false),
        ],
        text:
            "o.Age = next(this.Age); o.r = [c.Name, id(boss), all.map(p => id(p)), id(one), none]"
                .to_owned(),
    };
    let script = PatchScript::compile(&engine, &patch).unwrap();
    let mut host = Notes::default();
    for (id, json) in
        [("c/1", r#"{"Name":"Comp","Boss":"b/1"}"#), ("b/1", "{}"), ("p/1", "{}"), ("p/2", "{}")]
    {
        host.documents.insert(id.to_owned(), json.to_owned());
    }
    let order =
        r#"{"Age":1,"Company":"c/1","Lines":[{"P":"p/0"},{"P":"p/1"},{"P":"p/2"}],"r":null}"#;
    let order = document("d/1", order);
    let patched = script.run(&engine, &order, None, Budget::default(), &mut host).unwrap();
    let patched = json(&patched.document.unwrap());
    assert!(patched.starts_with(r#"{"Age":2,"#), "{patched}");
    assert!(patched.ends_with(r#""r":["Comp","b/1",["p/1","p/2"],"p/1",null]}"#), "{patched}");
}
