//! Any text is either rejected as a query or unchanged by printing and parsing again, and is
//! planned, with and without parameters, as a query on documents and on an automatic index.
#![no_main]

use std::sync::LazyLock;

use blittable::{BlittableBuf, ParseLimits, parse_document};
use libfuzzer_sys::fuzz_target;
use query::{Paging, needed_index, plan};

const PARAMETERS: &str = r#"{"p":5,"p0":"a","p1":2.5,"q":[1,["x",null]],"r":{"A":1},"s":null,
"t":"2020-01-02T03:04:05Z","u":true}"#;
static GIVEN: LazyLock<BlittableBuf> = LazyLock::new(|| {
    parse_document(PARAMETERS.as_bytes(), &ParseLimits::default())
        .expect("the parameters are sound")
});

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(update) = rql::parse_update(text) {
        let printed = update.to_string();
        assert_eq!(rql::parse_update(&printed).expect("what was printed parses"), update);
    }
    let Ok(query) = rql::parse(text) else { return };
    let printed = query.to_string();
    let again = rql::parse(&printed).expect("what was printed parses");
    assert_eq!(again, query, "{printed}");
    assert_eq!(again.to_string(), printed);
    for parameters in [None, Some(GIVEN.as_view().root())] {
        if let Err(error) = plan(&query, parameters, Paging::default(), None) {
            let _ = error.to_string();
        }
        if let Ok(needed) = needed_index(&query, parameters) {
            assert!(needed.covers(&needed));
            assert_eq!(needed.extended_by(&needed), needed);
        }
    }
});
