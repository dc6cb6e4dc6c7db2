//! Laws that hold for any document, checked on generated ones and against an independent model.

use blittable::{Document, Edit, Item, ParseLimits, Value, equal, modify, parse_document};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::{parse, print};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z ]{0,12}",
        2 => any::<String>(),
        1 => "[\"\\\\\n\t\u{0}-\u{1f}éß😀a]{0,20}",
        1 => "(the same words ){8,20}[a-z]{0,9}",
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[a-e]", 2 => "[A-Z][a-z]{0,9}", 1 => any::<String>()]
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-300i64..300).prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any_text().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            object_of(inner),
        ]
    })
}

fn object_of(inner: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    prop::collection::vec((any_name(), inner), 0..8)
        .prop_map(|members| Json::Object(members.into_iter().collect()))
}

fn any_document() -> impl Strategy<Value = Json> {
    object_of(any_json())
}

/// Reads a value through the views, as the independent library would hold it.
fn to_model(value: Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(value),
        Value::Integer(value) => Json::from(value),
        Value::Number(text) => serde_json::from_str(text).unwrap(),
        Value::String(text) => Json::from(text.as_cow().unwrap().into_owned()),
        Value::Array(array) => array.iter().map(|element| to_model(element.unwrap())).collect(),
        Value::Object(object) => object
            .iter()
            .map(|property| {
                let (name, value) = property.unwrap();
                (name.to_owned(), to_model(value))
            })
            .collect(),
    }
}

fn names_in_order(json: &Json) -> Vec<&String> {
    json.as_object().unwrap().keys().collect()
}

proptest! {
    #[test]
    fn documents_print_back_what_was_parsed(json in any_document()) {
        let text = serde_json::to_string(&json).unwrap();
        let document = parse(&text).unwrap();
        let printed: Json = serde_json::from_str(&print(&document)).unwrap();
        prop_assert_eq!(&printed, &json);
        prop_assert_eq!(names_in_order(&printed), names_in_order(&json));
        prop_assert_eq!(to_model(Value::Object(document.as_view().root())), json);
        // What was printed parses to the very same bytes.
        prop_assert_eq!(parse(print(&document)).unwrap(), document);
    }

    #[test]
    fn every_property_is_found_and_no_other(json in any_document(), other in any_name()) {
        let document = parse(serde_json::to_string(&json).unwrap()).unwrap();
        let root = document.as_view().root();
        let members = json.as_object().unwrap();
        for (name, value) in members {
            prop_assert_eq!(&to_model(root.get(name).unwrap().unwrap()), value);
        }
        prop_assert_eq!(root.contains(&other).unwrap(), members.contains_key(&other));
    }

    #[test]
    fn text_that_another_parser_takes_is_taken_with_the_same_meaning(
        json in any_document(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut text = serde_json::to_vec(&json).unwrap();
        for (index, byte) in edits {
            let at = index.index(text.len());
            text[at] = byte;
        }
        let ours = parse(&text);
        if let Ok(theirs) = serde_json::from_slice::<Json>(&text) {
            if theirs.is_object() {
                let printed: Json = serde_json::from_str(&print(&ours.unwrap())).unwrap();
                prop_assert_eq!(printed, theirs);
            }
        } else if let Ok(document) = ours {
            // Lenient input is still printed as strict JSON.
            prop_assert!(serde_json::from_str::<Json>(&print(&document)).is_ok());
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in prop::collection::vec(
        prop_oneof![prop::sample::select(br#"{}[]:,"'\-+.0123eEtrufalsn NI"#.to_vec()), any::<u8>()],
        0..60,
    )) {
        let mut wrapped = br#"{"a":"#.to_vec();
        wrapped.extend_from_slice(&text);
        for input in [&text, &wrapped] {
            let _ = parse_document(input, &ParseLimits::default());
            let mut reader = blittable::JsonReader::new(input);
            while reader.skip_value().is_ok() {}
        }
    }

    #[test]
    fn a_modified_copy_is_what_the_model_says(
        json in any_document(),
        edits in prop::collection::vec(
            (prop::collection::vec("[a-e]", 1..4), prop::option::of(any_json())), 0..6),
    ) {
        let document = parse(serde_json::to_string(&json).unwrap()).unwrap();
        let wrapped: Vec<_> = edits
            .iter()
            .map(|(_, item)| parse(serde_json::json!({ "item": item }).to_string()).unwrap())
            .collect();
        let paths: Vec<Vec<&str>> =
            edits.iter().map(|(path, _)| path.iter().map(String::as_str).collect()).collect();
        let mut model = json;
        let mut applied = Vec::new();
        for (index, (_, item)) in edits.iter().enumerate() {
            let path = paths[index].as_slice();
            applied.push(match item {
                Some(_) => {
                    let item = wrapped[index].as_view().root().get("item").unwrap().unwrap();
                    Edit::Set { path, item: Item::Copy(item) }
                }
                None => Edit::Remove { path },
            });
            edit_model(&mut model, path, item.as_ref());
        }
        let modified = modify(&document.as_view(), &applied).unwrap();
        // Maps of the model compare without regard to order.
        prop_assert_eq!(to_model(Value::Object(modified.as_view().root())), model);
        prop_assert_eq!(parse(print(&modified)).map(|again| print(&again)), Ok(print(&modified)));
    }

    #[test]
    fn equality_is_that_of_the_model(a in any_document(), b in any_document()) {
        let (first, second) = (parse(a.to_string()).unwrap(), parse(b.to_string()).unwrap());
        let same = |x: &blittable::BlittableBuf, y: &blittable::BlittableBuf| {
            let (x, y) = (x.as_view().root(), y.as_view().root());
            equal(&Value::Object(x), &Value::Object(y)).unwrap()
        };
        prop_assert_eq!(same(&first, &second), a == b);
        let reversed: Json =
            a.as_object().unwrap().clone().into_iter().rev().collect::<serde_json::Map<_, _>>().into();
        prop_assert!(same(&first, &parse(reversed.to_string()).unwrap()));
        let mut changed = a.clone();
        changed["a"] = Json::from("changed by the test");
        prop_assert!(!same(&first, &parse(changed.to_string()).unwrap()));
    }

    #[test]
    fn each_truncation_of_a_document_is_corrupt(json in any_document()) {
        let document = parse(json.to_string()).unwrap();
        let bytes = document.as_bytes();
        for length in 0..bytes.len() {
            prop_assert!(Document::new(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn each_truncation_of_json_is_an_unexpected_end(json in any_document()) {
        let text = json.to_string();
        for length in 0..text.len() {
            let error = parse(&text.as_bytes()[..length]).unwrap_err();
            let cut_character = !text.is_char_boundary(length);
            prop_assert!(error.is_unexpected_end() || cut_character, "{} {}", length, error);
        }
    }
}

fn edit_model(model: &mut Json, path: &[&str], item: Option<&Json>) {
    let (name, rest) = (path[0], &path[1..]);
    let members = model.as_object_mut().unwrap();
    match (item, rest.is_empty()) {
        (Some(item), true) => {
            members.insert(name.to_owned(), item.clone());
        }
        (None, true) => {
            members.shift_remove(name);
        }
        (Some(_), false) => {
            let inner = members.entry(name).or_insert(Json::Null);
            if !inner.is_object() {
                *inner = serde_json::json!({});
            }
            edit_model(inner, rest, item);
        }
        (None, false) => {
            if let Some(inner) = members.get_mut(name).filter(|inner| inner.is_object()) {
                edit_model(inner, rest, None);
            }
        }
    }
}

#[test]
fn numbers_are_equal_only_when_their_text_is() {
    let check = |a: &str, b: &str| {
        let (a, b) = (parse(a).unwrap(), parse(b).unwrap());
        equal(&Value::Object(a.as_view().root()), &Value::Object(b.as_view().root())).unwrap()
    };
    assert!(check(r#"{"a":1.0}"#, r#"{"a":1.0}"#));
    assert!(!check(r#"{"a":1}"#, r#"{"a":1.0}"#));
    assert!(!check(r#"{"a":1.0}"#, r#"{"a":1.00}"#));
    assert!(check(r#"{"a":[{"b":1,"c":2}]}"#, r#"{"a":[{"c":2,"b":1}]}"#));
    assert!(!check(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
    assert!(!check(r#"{"a":1,"b":2}"#, r#"{"a":1}"#));
}
