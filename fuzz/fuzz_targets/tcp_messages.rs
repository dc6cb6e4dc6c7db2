//! Messages of the TCP protocol are found in a stream regardless of how it is split, and are parsed
//! or rejected; the negotiated version is always a supported one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use query::LogQuery;
use wire::{
    ObjectSplitter, SubscriptionBody,
    tcp_shapes::{Negotiated, SubscriptionOptions, TcpHeader, WorkerMessage},
};

/// Maximum number of proposals until both sides agree or give up.
const PROPOSALS_MAX: usize = 8;

fuzz_target!(|input: &[u8]| {
    // The first byte says into how long pieces the stream is cut.
    let Some((piece, stream)) = input.split_first() else { return };
    let whole = messages(stream, usize::MAX);
    assert_eq!(messages(stream, usize::from(*piece).max(1)), whole, "a stream in pieces");
    for message in whole.0 {
        if let Ok(header) = TcpHeader::read(message) {
            negotiate(header);
        }
        let _ = SubscriptionOptions::read(message);
        let _ = WorkerMessage::read(message);
        if let Ok(body) = SubscriptionBody::read(message) {
            let _ = (body.start(true), body.start(false));
            let _ = LogQuery::parse(body.query.as_deref().unwrap_or_default());
        }
    }
});

/// A client that accepts every proposal.
fn negotiate(mut header: TcpHeader) {
    for _ in 0..PROPOSALS_MAX {
        match header.negotiate() {
            Negotiated::Agreed | Negotiated::Refused(_) => return,
            Negotiated::Proposed(version) if version == header.version => return,
            Negotiated::Proposed(version) => {
                assert!(version < header.version || header.operation_name() == "None");
                header.version = version;
            }
        }
    }
    panic!("no end of proposals");
}

/// The messages, and whether anything else follows in the stream.
fn messages(stream: &[u8], piece: usize) -> (Vec<&[u8]>, bool) {
    let (mut found, mut begin, mut received) = (Vec::new(), 0, 0);
    let mut splitter = ObjectSplitter::default();
    loop {
        match splitter.end_of_object(&stream[begin..received]) {
            Err(_) => return (found, true),
            Ok(Some(end)) => {
                found.push(&stream[begin..begin + end]);
                begin += end;
                splitter = ObjectSplitter::default();
            }
            Ok(None) if received == stream.len() => return (found, false),
            Ok(None) => received = received.saturating_add(piece).min(stream.len()),
        }
    }
}
