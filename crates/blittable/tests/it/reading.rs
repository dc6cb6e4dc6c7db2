//! Reading documents in place.
use blittable::{BlittableBuf, Document, Value};

use crate::{parse, print};

#[test]
fn properties_are_found_by_name_at_any_size() {
    // Sizes around each width of ids, distances and permutations.
    for count in [0, 1, 2, 15, 16, 17, 255, 256, 257, 300, 70_000] {
        let members: Vec<String> = (0..count).map(|i| format!(r#""p{i}":{}"#, i * 3)).collect();
        let document = parse(format!("{{{}}}", members.join(","))).unwrap();
        let root = document.as_view().root();
        assert_eq!(root.len(), count);
        for index in (0..count).step_by(1 + count / 500) {
            let name = format!("p{index}");
            assert_eq!(root.get_i64(&name).unwrap(), Some(index as i64 * 3), "{name} of {count}");
            let (at_name, value) = root.at(index).unwrap().unwrap();
            assert_eq!((at_name, value.as_i64()), (name.as_str(), Some(index as i64 * 3)));
        }
        assert!(root.get("p").unwrap().is_none());
        assert!(root.get(&format!("p{count}")).unwrap().is_none());
        assert!(root.at(count).unwrap().is_none());
    }
}

#[test]
fn objects_whose_names_appeared_in_another_order_before_are_searched_as_well() {
    for count in [2, 300, 70_000] {
        let forward: Vec<String> = (0..count).map(|i| format!(r#""p{i}":{i}"#)).collect();
        let backward: Vec<String> = (0..count).rev().map(|i| format!(r#""p{i}":{i}"#)).collect();
        let json =
            format!(r#"{{"first":{{{}}},"second":{{{}}}}}"#, forward.join(","), backward.join(","));
        let document = parse(&json).unwrap();
        assert_eq!(print(&document), json);
        let second = document.as_view().root().get_object("second").unwrap().unwrap();
        for index in (0..count).step_by(1 + count / 500) {
            assert_eq!(second.get_i64(&format!("p{index}")).unwrap(), Some(index as i64));
        }
        assert!(second.get("first").unwrap().is_none(), "a name of another object");
    }
}

#[test]
fn typed_getters_return_none_for_other_types_and_missing_names() {
    let json = r#"{"s":"x","i":5,"n":1.5,"b":true,"z":null,"o":{"p":{"q":7}},"a":[1,"two"]}"#;
    let document = parse(json).unwrap();
    let root = document.as_view().root();
    assert_eq!(root.get_str("s").unwrap().as_deref(), Some("x"));
    assert_eq!(root.get_str("i").unwrap(), None);
    assert_eq!(root.get_i64("i").unwrap(), Some(5));
    assert_eq!(root.get_i64("n").unwrap(), None);
    assert_eq!(root.get("n").unwrap().unwrap().as_f64(), Some(1.5));
    assert_eq!(root.get("i").unwrap().unwrap().as_f64(), Some(5.0));
    assert_eq!(root.get_bool("b").unwrap(), Some(true));
    assert!(root.get("z").unwrap().unwrap().is_null());
    assert!(root.contains("z").unwrap() && !root.contains("q").unwrap());
    assert_eq!(root.get_path(&["o", "p", "q"]).unwrap().unwrap().as_i64(), Some(7));
    assert!(root.get_path(&["o", "x", "q"]).unwrap().is_none());
    assert!(root.get_path(&["s", "x"]).unwrap().is_none());
    let array = root.get_array("a").unwrap().unwrap();
    assert_eq!(array.len(), 2);
    assert!(array.get(1).unwrap().unwrap().as_text().unwrap().equals("two").unwrap());
    assert!(array.get(2).unwrap().is_none());
    assert!(matches!(root.get("n").unwrap(), Some(Value::Number("1.5"))));
    let names: Vec<&str> = root.iter().map(|property| property.unwrap().0).collect();
    assert_eq!(names, ["s", "i", "n", "b", "z", "o", "a"]);
}

#[test]
fn long_strings_are_packed_when_that_wins_and_read_back_the_same() {
    let repeated = "the same words again and again ".repeat(100);
    let accented = "é\n".repeat(200);
    let noise: String = (0u32..500).map(|i| (b'!' + (i * i % 89) as u8) as char).collect();
    for text in [repeated.as_str(), &accented, &noise, &"x".repeat(127), &"x".repeat(128)] {
        let json = serde_json::to_string(&serde_json::json!({ "t": text })).unwrap();
        let document = parse(&json).unwrap();
        let value = document.as_view().root().get("t").unwrap().unwrap();
        let read = value.as_text().unwrap();
        assert_eq!(read.len(), text.len());
        assert_eq!(read.as_cow().unwrap(), text);
        assert!(read.equals(text).unwrap());
        assert_eq!(print(&document), json);
    }
    assert!(parse(format!(r#"{{"t":"{repeated}"}}"#)).unwrap().as_bytes().len() < 200);
}

#[test]
fn a_builder_produces_the_same_bytes_whatever_it_parsed_before() {
    let documents = [
        r#"{"b":1,"a":{"c":[1,2,{"b":"x"}]}}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"broken":"#,
        r#"{"b":1,"a":2}"#,
        r#"{"a\n":1}"#,
        "{}",
        r#"{"b":1,"a":2}"#,
    ];
    let mut builder = blittable::Builder::new(blittable::ParseLimits::default());
    for json in documents {
        assert_eq!(builder.parse_document(json.as_bytes()), parse(json), "{json}");
    }
}

#[test]
fn stored_bytes_reopen_as_the_same_document() {
    let json = r#"{"a":1,"b":[{},[]]}"#;
    let bytes = parse(json).unwrap().into_bytes();
    let document = BlittableBuf::from_bytes(bytes.clone()).unwrap();
    assert_eq!(print(&document), json);
    let mut padded = bytes.clone();
    padded.push(0);
    assert!(Document::new(&padded).is_err());
    for (at, reason) in [(0, "first byte"), (1, "version"), (4, "length")] {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        let corrupt = Document::new(&changed).unwrap_err();
        assert!(corrupt.to_string().contains(reason), "{corrupt}");
    }
}
