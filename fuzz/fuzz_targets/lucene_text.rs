//! Any text either is refused as a text of Lucene's query syntax, or is printed as one that means the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rql::lucene::parse;

fuzz_target!(|text: &[u8]| {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match parse(text) {
        Ok(group) => {
            let printed = group.to_string();
            assert_eq!(parse(&printed).as_ref(), Ok(&group), "{text} is printed as {printed}");
        }
        Err(error) => assert!(error.to_string().starts_with("Cannot parse '")),
    }
});
