//! Any text is either rejected or unchanged by printing and parsing again, byte for byte.
#![no_main]

use blittable::{JsonReader, ObjectScanner, ParseLimits, Value, equal, parse_document};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let limits = ParseLimits::default();
    let _ = JsonReader::new(text).skip_value();
    let _ = ObjectScanner::new(1 << 16).scan(text);
    let Ok(document) = parse_document(text, &limits) else { return };
    let printed = document.as_view().to_json().expect("a parsed document prints");
    let again = parse_document(&printed, &limits).expect("what was printed parses");
    let (root, root_again) = (document.as_view().root(), again.as_view().root());
    assert!(equal(&Value::Object(root), &Value::Object(root_again)).expect("both are sound"));
    assert_eq!(again.as_view().to_json().expect("it prints again"), printed);
});
