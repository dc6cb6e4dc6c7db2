//! Documents as JavaScript objects: read lazily, equal to themselves, and never wrong about their names.

use proptest::prelude::*;
use script::NoHost;

use crate::world::{document, engine, json, outcome, parse, patch};

#[test]
fn documents_behave_like_objects() {
    let engine = engine();
    let text = r#"{"a":{"b":1},"l":[{"c":1}],"constructor":5,"1":"one"}"#;
    for (expression, expected) in [
        ("this.a === this.a", "true"),
        ("this.l === this.l && this.l[0] === this.l[0]", "true"),
        ("this.constructor", "5"),
        ("this[1] + this['1']", r#""oneone""#),
        ("typeof this.toString", r#""function""#),
        ("this.a.hasOwnProperty('b') && !this.a.hasOwnProperty('c')", "true"),
        ("this.a + ''", r#""[object Object]""#),
        ("Object.entries(this.a)", r#"[["b",1]]"#),
        ("JSON.stringify(this.a)", r#""{\"b\":1}""#),
        ("Object.keys(this)", r#"["a","l","constructor","1","@metadata"]"#),
        ("(delete this.a, Object.keys(this))", r#"["l","constructor","1"]"#),
        ("(this.z = 1, delete this.z, 'z' in this)", "false"),
        ("{ ...this.a, d: 2 }", r#"{"b":1,"d":2}"#),
        ("this.a == this.l[0]", "false"),
        ("[this.a].indexOf(this.a)", "0"),
        ("new Map([[this.a, 7]]).get(this.a)", "7"),
        ("Object.getOwnPropertyDescriptor(this.a, 'b').value", "1"),
        ("this.a[Symbol.toPrimitive]", "absent"),
        ("structuredClone", "null"),
    ] {
        let actual = outcome(&engine, &document("d/1", text), expression);
        if expression.contains("keys(this)") {
            let names = |json: &str| json.replace("\"@metadata\"", "").replace(",]", "]");
            assert_eq!(names(&actual), names(expected), "{expression}");
        } else {
            assert_eq!(actual, expected, "{expression}");
        }
    }
}

/// JSON objects as people write them, numbers in all their spellings among them.
fn any_json() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[a-c]{1,2}", "\\PC{0,6}"].prop_map(|name| format!("{name:?}"));
    let name =
        name.prop_filter("Rust's escapes are not those of JSON", |name| !name.contains("\\u{"));
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("{value:?}")),
        Just("1.50".to_owned()),
        Just("1e5".to_owned()),
        "[a-zé😀 ]{0,12}".prop_map(|text| format!("{text:?}")),
    ];
    let value = leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map(name.clone(), inner, 0..5).prop_map(|members| {
                let members = members.iter().map(|(name, value)| format!("{name}:{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    prop::collection::vec(value, 0..5).prop_map(|values| {
        let members =
            values.iter().enumerate().map(|(index, value)| format!("\"p{index}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn walking_through_a_document_does_not_change_it(text in any_json()) {
        let engine = engine();
        let walk = "function walk(v) { if (v !== null && typeof v === 'object') for (const k in v) walk(v[k]); } walk(this)";
        let before = parse(&text);
        let document = script::ScriptDocument::unstored(before.clone());
        let patched = patch(&engine, &document, walk, &mut NoHost).unwrap();
        if let Some(after) = patched.document {
            prop_assert_eq!(json(&after), json(&before));
        }
    }

    #[test]
    fn adding_and_removing_leaves_the_rest_as_it_was(text in any_json()) {
        let engine = engine();
        let before = parse(&text);
        let document = script::ScriptDocument::unstored(before.clone());
        let script = "const walk = v => { if (Array.isArray(v)) v.forEach(walk); else if (v !== null && typeof v === 'object') { v.added = 1; for (const k in v) walk(v[k]); delete v.added; } }; walk(this)";
        let after = patch(&engine, &document, script, &mut NoHost).unwrap().document.unwrap();
        prop_assert_eq!(json(&after), json(&before));
    }
}
