//! Random texts of JavaScript fragments: whatever they mean, they end, and nothing breaks.

use std::time::Duration;

use proptest::prelude::*;
use script::{Budget, Engine, NoHost, PatchScript, PatchText};

use crate::world::{document, engine, json, outcome};

const PIECES: &[&str] = &[
    "this",
    "this.a",
    "this.l",
    "this.l[0]",
    "this.n",
    "this.nope",
    "this['@metadata']",
    "null",
    "undefined",
    "x",
    "y",
    "foo",
    "0",
    "1",
    "-1",
    "1e9",
    "'s'",
    "''",
    "`t${x}`",
    "/a+/g",
    "[]",
    "[1, 2]",
    "{}",
    "({ a: 1 })",
    ".a",
    ".b",
    ".length",
    ".map",
    ".filter",
    ".reduce",
    ".push",
    ".join",
    ".toString",
    ".constructor",
    ".prototype",
    ".__proto__",
    "[0]",
    "['a']",
    "[x]",
    "(",
    ")",
    "()",
    "(x)",
    "(1)",
    "(x => x)",
    "(this)",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "===",
    "<",
    "&&",
    "||",
    "??",
    "?.",
    "?",
    ":",
    ",",
    "=",
    "+=",
    "++",
    "--",
    "!",
    "typeof ",
    "delete ",
    "void ",
    "new ",
    "in ",
    "instanceof ",
    "...",
    "{",
    "}",
    "[",
    "]",
    ";",
    "\n",
    "var x",
    "let y",
    "const z",
    "if ",
    "else ",
    "for ",
    "while ",
    "do ",
    "of ",
    "return ",
    "throw ",
    "try ",
    "catch ",
    "finally ",
    "function f",
    "function* g",
    "class C ",
    "async ",
    "await ",
    "yield ",
    "=> ",
    "break",
    "continue",
    "switch ",
    "case ",
    "get ",
    "set ",
    "static ",
    "super",
    "arguments",
    "eval",
    "Object",
    "Array",
    "JSON.stringify",
    "JSON.parse",
    "Object.keys",
    "Object.assign",
    "Object.defineProperty",
    "Object.freeze",
    "Symbol.iterator",
    "Symbol.absentMembers",
    "globalThis",
    "load",
    "put",
    "id",
    "getMetadata",
    "output",
    "new Map",
    "new Set",
    "new Date",
    "RegExp",
    "Reflect.ownKeys",
    "structuredClone",
    "with ",
];

/// A few shapes that parse more often than pieces in a row do.
fn any_text() -> impl Strategy<Value = String> {
    let piece = || prop::sample::select(PIECES);
    let soup = prop::collection::vec(piece(), 1..12).prop_map(|pieces| pieces.concat());
    let value = || prop::sample::select(&PIECES[..24]);
    let member = || prop::sample::select(&PIECES[24..46]);
    let chain = (value(), prop::collection::vec(member(), 0..4))
        .prop_map(|(value, members)| format!("{value}{}", members.concat()));
    let chain = chain.boxed();
    let statement = prop_oneof![
        (chain.clone(), chain.clone()).prop_map(|(a, b)| format!("this.r = {a} + {b}")),
        (chain.clone(), chain.clone()).prop_map(|(a, b)| format!("{a}.q = {b}")),
        (chain.clone(), chain.clone()).prop_map(|(a, b)| format!("Object.assign({a}, {b})")),
        (chain.clone(), chain.clone())
            .prop_map(|(a, b)| format!("for (const x of {a}) {{ delete {b} }}")),
        (chain.clone(), chain.clone())
            .prop_map(|(a, b)| format!("for (var x in {a}) this[x] = {b}")),
        (chain.clone(), chain.clone())
            .prop_map(|(a, b)| format!("var {{ a, ...y }} = {a}; this.y = [{b}, y]")),
        (chain.clone(), chain.clone())
            .prop_map(|(a, b)| format!("this.s = [{a}, {b}].sort().join()")),
        (chain.clone(), chain)
            .prop_map(|(a, b)| format!("Object.defineProperty({a}, 'w', {{ value: {b} }})")),
        soup,
    ];
    prop::collection::vec(statement, 1..4).prop_map(|statements| {
        let guarded =
            statements.iter().map(|text| format!("try {{ {text} }} catch (e) {{ this.e = e }}"));
        if statements.len() == 1 {
            statements[0].clone()
        } else {
            guarded.collect::<Vec<_>>().join("\n")
        }
    })
}

fn run(engine: &Engine, text: &str) {
    let before = document(
        "d/1",
        r#"{"a":{"b":1},"l":[{"c":1},2.50],"n":null,"@metadata":{"@collection":"D"}}"#,
    );
    let budget =
        Budget { steps_max: 1_000, time_max: Duration::from_millis(100), ..Budget::default() };
    let Ok(script) = PatchScript::compile(engine, &PatchText::of(text)) else { return };
    if let Ok(patched) = script.run(engine, &before, None, budget, &mut NoHost)
        && let Some(after) = patched.document
    {
        let parsed = crate::world::parse(&json(&after));
        assert_eq!(json(&parsed), json(&after), "{text}");
    }
}

proptest! {
    #[test]
    fn whatever_the_text_it_ends_and_nothing_breaks(texts in prop::collection::vec(any_text(), 1..8)) {
        let engine = engine();
        for text in &texts {
            run(&engine, text);
        }
        prop_assert_eq!(outcome(&engine, &document("d/1", "{}"), "[1, 2].map(x => x * 2).join() + this.x"), r#""2,4undefined""#);
    }
}
