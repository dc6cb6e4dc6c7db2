//! Bodies with several commands or documents are parsed or rejected, with the same result
//! regardless of earlier bodies and of how the network splits them.
#![no_main]

use blittable::{Builder, ObjectScanner, ParseLimits, Scanned};
use libfuzzer_sys::fuzz_target;
use wire::{BatchCommand, BulkInsertCommand, DocumentCommand, ProtocolError};

const ELEMENT_BYTES_MAX: usize = 1 << 16;

fuzz_target!(|input: &[u8]| {
    // The first byte is the length of the pieces into which the stream is split.
    let Some((piece, body)) = input.split_first() else { return };
    let limits = ParseLimits { depth_max: 24, document_bytes_max: 4096, property_count_max: 64 };
    let mut used = Builder::new(limits);
    let first = commands(body, &mut used);
    assert_eq!(commands(body, &mut used), first, "a builder that was used before");
    assert_eq!(commands(body, &mut Builder::new(limits)), first, "a new builder");

    let whole = elements(body, usize::MAX, &mut used);
    let pieces = elements(body, usize::from(*piece).max(1), &mut used);
    assert_eq!(whole, pieces, "a stream in pieces");

    let _ = wire::read_multi_get(body);
    let _ = wire::read_ids(body);
    let _ = wire::read_query(body, &mut used);
    let _ = wire::read_document_body(body, &mut used);
    assert_eq!(commands(body, &mut used), first, "a builder after other bodies");
});

/// The commands as text, which distinguishes any two of them.
fn commands(body: &[u8], builder: &mut Builder) -> Result<Vec<String>, ProtocolError> {
    let body = wire::read_bulk_docs(body, builder, &mut |_| Ok(()))?;
    Ok(body.commands.iter().map(command).collect())
}

fn command(command: &BatchCommand) -> String {
    match command {
        BatchCommand::Document(DocumentCommand::Put { id, change_vector, document, .. }) => {
            let json = document.as_view().to_json().expect("a document that was read prints");
            let again = blittable::parse_document(&json, &ParseLimits::default());
            let again = again.expect("what was printed parses").as_view().to_json();
            assert_eq!(again.as_ref(), Ok(&json), "printed twice");
            format!("put {id:?} {change_vector:?} {json:?}")
        }
        other => format!("{other:?}"),
    }
}

/// The elements of a bulk insert that arrives in pieces, up to the first error, and whether there
/// was one.
fn elements(body: &[u8], piece: usize, builder: &mut Builder) -> (Vec<String>, bool) {
    let mut scanner = ObjectScanner::new(ELEMENT_BYTES_MAX);
    let (mut found, mut partial) = (Vec::new(), Vec::new());
    for mut piece in body.chunks(piece.min(body.len().max(1))) {
        loop {
            match scanner.scan(piece) {
                Ok(Scanned::Element { start, end }) => {
                    partial.extend_from_slice(&piece[start..end]);
                    found.push(element(&std::mem::take(&mut partial), builder));
                    piece = &piece[end..];
                }
                Ok(Scanned::Partial { start }) => {
                    partial.extend_from_slice(&piece[start..]);
                    break;
                }
                Ok(Scanned::Between) => break,
                Err(_) => return (found, false),
            }
        }
    }
    (found, scanner.finish().is_ok())
}

fn element(element: &[u8], builder: &mut Builder) -> String {
    match wire::read_bulk_insert_element(element, builder) {
        Ok(BulkInsertCommand::Put { id, document }) => {
            let json = document.as_view().to_json().expect("a document that was read prints");
            format!("put {id:?} {json:?}")
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{:?} {}", error.kind, error.message),
    }
}
