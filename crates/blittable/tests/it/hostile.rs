//! Bytes that are not a document, and documents that try to exhaust the machine.

use blittable::{
    Builder, Document, Edit, Item, JsonReader, Object, ParseErrorKind, ParseLimits, Value, equal,
    modify,
};
use proptest::prelude::*;

use crate::{parse, print};

/// Exercises every way of reading on arbitrary bytes.
fn read_everything(bytes: &[u8]) {
    let Ok(document) = Document::new(bytes) else { return };
    let root = document.root();
    let _ = document.to_json();
    let _ = equal(&Value::Object(root), &Value::Object(root));
    let _ = modify(&document, &[Edit::Set { path: &["a", "b"], item: Item::Null }]);
    let _ = blittable::write_object_with(&root, &mut Vec::new(), |_, value, _| {
        touch(value);
        Ok(blittable::Handled::No)
    });
    for name in ["", "a", "b", "Name", "@metadata", "zzz"] {
        let _ = root.get_path(&[name, "a", "b"]);
        let _ = root.get_str(name);
    }
    touch_members(&root);
}

fn touch_members(object: &Object<'_>) {
    for property in object.iter().take(1000) {
        match property {
            Ok((name, value)) => {
                let _ = object.get(name);
                touch(value);
            }
            Err(corrupt) => assert!(!corrupt.to_string().is_empty()),
        }
    }
}

fn touch(value: Value<'_>) {
    match value {
        Value::String(text) => drop(text.as_cow()),
        Value::Array(array) => {
            for element in array.iter().take(100).flatten() {
                let _ = element.as_f64();
            }
        }
        Value::Object(object) => {
            let _ = object.at(object.len() / 2);
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {}
    }
}

const SAMPLE: &str = r#"{"Name":"x\ty","b":[1,-300,2.5,[],{},[[{"a":null}]]],
    "a":{"b":{"b":true,"a":"é"},"Name":false},
    "long":"words words words words words words words words words words words words words words words words words words words words words words words words",
    "@metadata":{"@collection":"Things","a":1}}"#;

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_in_the_reader(body in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&body);
        // With a plausible header the reader gets further.
        let mut bytes = vec![0xB1, 1, 0, 0];
        let total = body.len() as u32 + 20;
        for field in [total, 20, total, 0] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&body);
        read_everything(&bytes);
    }

    #[test]
    fn damaged_documents_never_panic_in_the_reader(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = parse(SAMPLE).unwrap().into_bytes();
        for (index, byte) in damage {
            // The first eight bytes are checked separately and would hide the rest.
            let at = 8 + index.index(bytes.len() - 8);
            bytes[at] = byte;
        }
        read_everything(&bytes);
    }
}

#[test]
fn every_single_byte_may_be_damaged_in_any_way() {
    let bytes = parse(SAMPLE).unwrap().into_bytes();
    for at in 8..bytes.len() {
        for byte in [0, 1, 2, 3, 0x0F, 0x7F, 0x80, 0xFE, 0xFF, bytes[at] ^ 1, bytes[at] ^ 0x10] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            read_everything(&damaged);
        }
    }
}

/// Arrays that each hold the next one twice: 2^60 values in a few hundred bytes.
fn shared_values() -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(&[0, 1, 0]); // An array of one null.
    let mut previous = 20;
    for _ in 0..60 {
        let position = bytes.len();
        let distance = (position - previous) as u8;
        bytes.extend_from_slice(&[0, 2, 9, distance, 9, distance]);
        previous = position;
    }
    let root = bytes.len();
    bytes.extend_from_slice(&[0x10, 1, 9, 0, (root - previous) as u8]);
    let names = bytes.len();
    bytes.extend_from_slice(&[1, 0, b'a']);
    let total = bytes.len();
    bytes[..4].copy_from_slice(&[0xB1, 1, 0, 0]);
    for (at, field) in [(4, total), (8, root), (12, names), (16, 1)] {
        bytes[at..at + 4].copy_from_slice(&(field as u32).to_le_bytes());
    }
    bytes
}

#[test]
fn values_shared_by_crafted_bytes_are_corrupt_instead_of_endless() {
    let bytes = shared_values();
    let document = Document::new(&bytes).unwrap();
    let root = Value::Object(document.root());
    assert!(document.root().get_array("a").unwrap().is_some());
    assert!(document.to_json().is_err());
    assert!(equal(&root, &root).is_err());
    assert!(modify(&document, &[]).is_err());
}

#[test]
fn a_packed_string_may_not_claim_what_it_cannot_hold() {
    let json = format!(r#"{{"t":"{}"}}"#, "word ".repeat(100));
    let bytes = parse(json).unwrap().into_bytes();
    // The length 500 is the varint F4 03 at the start of the values.
    assert_eq!(&bytes[20..22], [0xF4, 0x03]);
    let mut damaged = bytes.clone();
    damaged[21] = 0x04;
    assert!(Document::new(&damaged).unwrap().to_json().is_err(), "wrong length");
    let mut damaged = bytes;
    damaged[21..25].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0x0F]);
    assert!(Document::new(&damaged).unwrap().root().get("t").is_err(), "absurd length");
}

#[test]
fn deep_nesting_needs_no_deep_stack() {
    let on_small_stack = || {
        let limits = ParseLimits { depth_max: 200_000, ..ParseLimits::default() };
        let mut builder = Builder::new(limits);
        let deep = 100_000;
        for (open, inner, close) in [("[", "", "]"), (r#"{"a":"#, "1", "}")] {
            let json = format!(r#"{{"a":{}{inner}{}}}"#, open.repeat(deep), close.repeat(deep));
            let document = builder.parse_document(json.as_bytes()).unwrap();
            assert_eq!(print(&document), json);
            let root = Value::Object(document.as_view().root());
            assert!(equal(&root, &root).unwrap());
            let copy = builder.modify(&document.as_view(), &[]).unwrap();
            assert_eq!(copy, document);
        }
        let json = format!(r#"{{"a":{}{}}}"#, "[".repeat(600), "]".repeat(600));
        assert!(parse(&json).is_ok(), "600 levels are within the default");
        let json = format!(r#"{{"a":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
        assert_eq!(parse(&json).unwrap_err().kind, ParseErrorKind::TooDeep { depth_max: 1000 });
        let endless = "[".repeat(1 << 20);
        let error = JsonReader::new(endless.as_bytes()).skip_value().unwrap_err();
        assert_eq!(error.kind, ParseErrorKind::TooDeep { depth_max: 1024 });
    };
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(on_small_stack)
        .unwrap()
        .join()
        .unwrap();
}
