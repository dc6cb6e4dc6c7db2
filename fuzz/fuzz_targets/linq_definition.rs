//! Any text is either rejected as an index definition or can be evaluated within its budget, with
//! deterministic outputs.
#![no_main]

use std::sync::LazyLock;

use blittable::{BlittableBuf, ObjectBuilder, ParseLimits, parse_document};
use libfuzzer_sys::fuzz_target;
use linq::{Budget, DocumentInput, Map, NoHost, Output, Reduce, put_value};

const JSON: &str = r#"{"Name":"John Smith","Age":30,"Price":2.5,"Null":null,"Active":true,
"Date":"2020-03-05T10:20:30.1230000Z","Span":"01:02:03","Tags":["a","B",null],
"Lines":[{"P":"x","Q":2},{"P":"y","Q":3.5}],"Addr":{"City":"Oz"},"Nest":[[1,2],[3]],
"@metadata":{"@collection":"Docs"}}"#;
static DOCUMENT: LazyLock<BlittableBuf> = LazyLock::new(|| {
    parse_document(JSON.as_bytes(), &ParseLimits::default()).expect("the document is sound")
});
const BUDGET: Budget = Budget {
    steps_max: 20_000,
    memory_bytes_max: 16 * 1024 * 1024,
    outputs_max: 1_000,
    sequence_length_max: 10_000,
    string_bytes_max: 100_000,
    recurse_length_max: 1_000,
    content_bytes_max: 100_000,
};

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(map) = Map::compile(text) {
        assert_eq!(mapped(&map), mapped(&map), "{text}");
    }
    if let Ok(reduce) = Reduce::compile(text) {
        let root = DOCUMENT.as_view().root();
        let mut items = [root, root].into_iter();
        let _ = reduce.evaluate(&mut items, &BUDGET, &mut |output| drop(stored(output)));
    }
});

fn mapped(map: &Map) -> Vec<Vec<u8>> {
    let document = DocumentInput {
        id: "docs/1",
        body: DOCUMENT.as_view().root(),
        change_vector: "A:1-AAAAAAAAAAAAAAAAAAAAAA",
        last_modified_ticks: 639_000_000_000_000_000,
    };
    let mut outputs = Vec::new();
    let result = map.evaluate(&document, &mut NoHost, &BUDGET, &mut |output| {
        outputs.push(stored(output));
    });
    if let Err(error) = result {
        outputs.push(error.to_string().into_bytes());
    }
    outputs
}

/// The comparable form of an output, which must always be printable.
fn stored(output: Output<'_, '_>) -> Vec<u8> {
    let mut builder = ObjectBuilder::new();
    for (name, value) in output.fields() {
        put_value(&mut builder, name, value).expect("values of a sound document can be written");
    }
    builder.finish().expect("the builder is balanced").into_bytes()
}
