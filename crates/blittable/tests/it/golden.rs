//! Stored documents of each version of the format; they must stay readable forever.

use blittable::BlittableBuf;

use crate::{parse, print};

const VERSION_1: &str = "\
    b1 01 00 00 59 00 00 00 33 00 00 00 41 00 00 00 \
    04 00 00 00 05 4f 73 63 61 72 07 01 61 03 31 2e \
    35 00 03 05 06 04 04 00 00 04 41 64 61 0a 10 01 \
    06 00 05 10 04 05 00 1f 03 01 19 09 02 12 0a 03 \
    05 04 07 0b 10 01 00 03 02 4e 61 6d 65 41 67 65 \
    54 61 67 73 4f 77 6e 65 72";

const JSON: &str = r#"{"Name":"Oscar","Age":-4,"Tags":["a",1.5,null],"Owner":{"Name":"Ada\n"}}"#;

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn a_document_of_version_1_reads_back() {
    let document = BlittableBuf::from_bytes(bytes_of(VERSION_1)).unwrap();
    assert_eq!(print(&document), JSON);
}

#[test]
fn documents_are_written_as_the_documentation_shows() {
    assert_eq!(parse(JSON).unwrap().into_bytes(), bytes_of(VERSION_1));
}
