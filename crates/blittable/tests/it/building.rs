//! Documents built through the API, modified, and printed with changes.

use blittable::{
    BuildError, Edit, Handled, Item, ObjectBuilder, modify, write_json_string, write_members_with,
    write_object_with,
};

use crate::{parse, print};

#[test]
fn a_built_document_equals_the_parsed_one() {
    let source = parse(r#"{"deep":{"x":[1,{"y":"z"}],"long":"\n"}}"#).unwrap();
    let mut builder = ObjectBuilder::new();
    builder.put("null", Item::Null).put("yes", true).put("int", -5).put("text", "a\"b");
    builder.put("big", Item::Number("1e400".get(..3).unwrap())).put("double", 2.0);
    builder.put("tiny", 1e-300).put("nan", f64::NAN).put("minus", f64::NEG_INFINITY);
    builder.put("none", None::<&str>).put("some", Some(7));
    builder.put("empty", Item::EmptyObject).put("nothing", Item::EmptyArray);
    builder.begin_array("list").push(1).push("two").push_object().put("three", 3).end();
    builder.push_array().push(Item::Null).end().end();
    builder.begin_object("copied");
    builder.put("deep", source.as_view().root().get("deep").unwrap().unwrap()).end();
    let expected = concat!(
        r#"{"null":null,"yes":true,"int":-5,"text":"a\"b","big":1e4,"double":2.0,"#,
        r#""tiny":1e-300,"nan":"NaN","minus":"-Infinity","none":null,"some":7,"#,
        r#""empty":{},"nothing":[],"list":[1,"two",{"three":3},[null]],"#,
        r#""copied":{"deep":{"x":[1,{"y":"z"}],"long":"\n"}}}"#
    );
    let built = builder.finish().unwrap();
    assert_eq!(print(&built), expected);
    assert_eq!(built, parse(expected).unwrap());
}

#[test]
fn a_property_that_is_put_twice_keeps_the_last_value() {
    let mut builder = ObjectBuilder::new();
    builder.put("a", 1).put("b", 2).put("a", 3);
    assert_eq!(print(&builder.finish().unwrap()), r#"{"b":2,"a":3}"#);
}

#[test]
fn mistakes_in_building_are_reported_at_the_end() {
    type Steps = fn(&mut ObjectBuilder) -> &mut ObjectBuilder;
    let rows: [(Steps, BuildError); 6] = [
        (|builder| builder.end(), BuildError::Unbalanced),
        (|builder| builder.begin_array("a"), BuildError::Unbalanced),
        (|builder| builder.push(1), BuildError::Unbalanced),
        (|builder| builder.begin_array("a").put("b", 1).end(), BuildError::Unbalanced),
        (|builder| builder.put("a", Item::Number("1x")), BuildError::NotANumber),
        (|builder| builder.put("a", Item::Number("1e999")), BuildError::NotANumber),
    ];
    for (steps, expected) in rows {
        let mut builder = ObjectBuilder::new();
        steps(&mut builder);
        assert_eq!(builder.finish(), Err(expected));
        assert_eq!(print(&builder.finish().unwrap()), "{}", "the next document starts afresh");
    }
}

#[test]
fn edits_keep_places_and_add_at_the_end() {
    let old = parse(r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1]}"#).unwrap();
    let set = |path, item| Edit::Set { path, item };
    let rows: [(&[Edit<'_>], &str); 12] = [
        (&[], r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1]}"#),
        (
            &[set(&["x", "y"], Item::Null), Edit::Remove { path: &["x", "y"] }],
            r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1],"x":{}}"#,
        ),
        (&[set(&["a"], Item::Bool(true))], r#"{"a":true,"b":{"c":2,"d":{"e":3}},"f":[1]}"#),
        (&[Edit::Remove { path: &["b"] }], r#"{"a":1,"f":[1]}"#),
        (&[Edit::Remove { path: &["b", "d", "e"] }], r#"{"a":1,"b":{"c":2,"d":{}},"f":[1]}"#),
        (&[Edit::Remove { path: &["x", "y"] }], r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1]}"#),
        (&[Edit::Remove { path: &["a", "y"] }], r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1]}"#),
        (&[set(&["z"], Item::Null)], r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":[1],"z":null}"#),
        (
            &[set(&["b", "x", "y"], Item::Integer(9))],
            r#"{"a":1,"b":{"c":2,"d":{"e":3},"x":{"y":9}},"f":[1]}"#,
        ),
        (&[set(&["f", "x"], Item::Null)], r#"{"a":1,"b":{"c":2,"d":{"e":3}},"f":{"x":null}}"#),
        (
            &[set(&["b"], Item::EmptyObject), set(&["b", "n"], Item::String("m"))],
            r#"{"a":1,"b":{"n":"m"},"f":[1]}"#,
        ),
        (
            &[
                set(&["b", "c"], Item::Null),
                Edit::Remove { path: &["b"] },
                set(&["b", "q"], Item::Null),
            ],
            r#"{"a":1,"b":{"q":null},"f":[1]}"#,
        ),
    ];
    for (edits, expected) in rows {
        assert_eq!(print(&modify(&old.as_view(), edits).unwrap()), expected);
    }
    let too_long = ["a"; blittable::EDIT_PATH_LENGTH_MAX + 1];
    for path in [&[][..], &too_long] {
        let refused = modify(&old.as_view(), &[Edit::Remove { path }]);
        assert_eq!(refused, Err(BuildError::InvalidPath));
    }
}

#[test]
fn a_hook_replaces_omits_and_appends_properties_while_printing() {
    let document = parse(r#"{"a":1,"b":{"c":[]},"@metadata":{"x":1},"d":"e"}"#).unwrap();
    let root = document.as_view().root();
    let mut out = Vec::new();
    write_object_with(&root, &mut out, |name, value, out| {
        Ok(match name {
            "a" => Handled::Omitted,
            "@metadata" => {
                out.push(b'{');
                let any = write_members_with(&value.as_object().unwrap(), out, |_, _, _| {
                    Ok(Handled::No)
                })?;
                assert!(any);
                out.extend_from_slice(b",\"@id\":");
                write_json_string("users/\"1\"", out);
                out.push(b'}');
                Handled::Printed
            }
            _ => Handled::No,
        })
    })
    .unwrap();
    let expected = r#"{"b":{"c":[]},"@metadata":{"x":1,"@id":"users/\"1\""},"d":"e"}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    write_object_with(&root, &mut out, |_, _, _| Ok(Handled::Omitted)).unwrap();
    assert_eq!(out, b"{}");
}

#[test]
fn json_strings_escape_what_json_demands_and_nothing_else() {
    for (text, expected) in [
        ("", r#""""#),
        ("plain/text'", r#""plain/text'""#),
        ("a\"b\\c", r#""a\"b\\c""#),
        (
            "\u{0}\u{8}\u{b}\u{c}\n\r\t\u{1f}\u{7f}",
            "\"\\u0000\\b\\u000B\\f\\n\\r\\t\\u001F\u{7f}\"",
        ),
        ("é\u{2028}😀", "\"é\u{2028}😀\""),
    ] {
        let mut out = Vec::new();
        write_json_string(text, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn builders_and_documents_can_move_between_threads() {
    fn check<T: Send>() {}
    check::<ObjectBuilder>();
    check::<blittable::Builder>();
    check::<blittable::BlittableBuf>();
    check::<blittable::Document<'_>>();
}
