//! Any text is either rejected by the parser of Lucene's query syntax, or printed as an equivalent
//! text.
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
