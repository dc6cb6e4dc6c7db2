//! Tests of the public interface: facts of the protocol as tables, laws as properties.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its tests share")]

mod building;
mod facts;
mod golden;
mod hostile;
mod laws;
mod reading;
mod streaming;

use blittable::{BlittableBuf, ParseError, ParseLimits, parse_document};

/// Parses with the default limits.
fn parse(json: impl AsRef<[u8]>) -> Result<BlittableBuf, ParseError> {
    parse_document(json.as_ref(), &ParseLimits::default())
}

/// Prints as text.
fn print(document: &BlittableBuf) -> String {
    let json = document.as_view().to_json().expect("the document is sound");
    String::from_utf8(json).expect("sound documents print as UTF-8")
}
