//! Any text is either rejected as an index definition in JavaScript or runs within its budget. The
//! text after `|||` is the reduce.
#![no_main]

use std::{sync::LazyLock, time::Duration};

use blittable::{BlittableBuf, ObjectBuilder, ParseLimits, parse_document};
use libfuzzer_sys::fuzz_target;
use platform::Platform;
use script::{
    Budget, DocumentInfo, FieldValue, IndexEntry, MapScript, NoHost, ScriptDocument, ScriptPool,
};

const JSON: &str = r#"{"Name":"John Smith","Age":30,"Price":2.5,"Null":null,"Active":true,
"Date":"2020-03-05T10:20:30.1230000Z","Tags":["a","B",null],"Large":9223372036854775807,
"Lines":[{"P":"x","Q":2},{"P":"y","Q":3.5}],"Addr":{"City":"Oz"},"Nest":[[1,2],[3]],
"@metadata":{"@collection":"Docs"}}"#;
const MEMORY_BYTES_MAX: usize = 16 << 20;
const BUDGET: Budget =
    Budget { steps_max: 2_000, time_max: Duration::from_secs(2), result_bytes_max: 1 << 20 };
static DOCUMENT: LazyLock<BlittableBuf> = LazyLock::new(|| {
    parse_document(JSON.as_bytes(), &ParseLimits::default()).expect("the document is sound")
});
static POOL: LazyLock<ScriptPool> =
    LazyLock::new(|| ScriptPool::with_memory(Platform::memory().clock, MEMORY_BYTES_MAX));

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (map, reduce) = match text.split_once("|||") {
        Some((map, reduce)) => (map, Some(reduce)),
        None => (text, None),
    };
    let engine = POOL.engine();
    let Ok(script) = MapScript::compile(&engine, &[map], reduce, &[]) else { return };
    let info = DocumentInfo {
        id: "docs/1".into(),
        change_vector: "A:1-AAAAAAAAAAAAAAAAAAAAAA".into(),
        last_modified_ticks: 639_000_000_000_000_000,
    };
    let document = ScriptDocument::new(DOCUMENT.clone(), info);
    let mut entries = Vec::new();
    for number in 0..script.maps().len() {
        let _ = script.map(&engine, number, &document, BUDGET, &mut NoHost, &mut entries);
    }
    entries.iter().for_each(store);
    if script.has_reduce()
        && let Ok(key) = script.group_key(&engine, &document, BUDGET)
    {
        let (values, mut reduced) = ([document.clone(), document], Vec::new());
        let _ = script.aggregate(&engine, &key, &values, BUDGET, &mut NoHost, &mut reduced);
        reduced.iter().for_each(store);
    }
});

/// The comparable form of an entry, which must always be printable.
fn store(entry: &IndexEntry) {
    for field in &entry.fields {
        let FieldValue::Plain(value) = &field.value else { continue };
        let mut builder = ObjectBuilder::new();
        if value.put_into(&field.name, &mut builder).is_ok() {
            builder.finish().expect("the builder is balanced");
        }
    }
}
