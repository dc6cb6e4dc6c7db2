//! Any bytes can be read as a document without a panic, an endless loop or a read out of bounds.
#![no_main]

use blittable::{Document, Edit, Item, Value, equal, modify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 8 {
        // Magic, version and length are checked first; they are corrected, so that the rest is
        // reached.
        let length = (bytes.len() as u32).to_le_bytes();
        bytes[..2].copy_from_slice(&[0xB1, 1]);
        bytes[4..8].copy_from_slice(&length);
    }
    let Ok(document) = Document::new(&bytes) else { return };
    let root = document.root();
    let _ = document.to_json();
    let _ = equal(&Value::Object(root), &Value::Object(root));
    let _ = modify(&document, &[Edit::Set { path: &["a", "b"], item: Item::Null }]);
    for (name, value) in root.iter().take(100).flatten() {
        let _ = root.get(name);
        if let Value::String(text) = value {
            let _ = text.as_cow();
        }
    }
});
