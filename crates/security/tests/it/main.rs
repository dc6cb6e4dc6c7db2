//! Certificates that are made, written, read, registered and judged.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod access;
mod files;

use security::{Authority, ClientRequest, KeyAlgorithm, KeyPair, ServerRequest};

/// 2026-01-01.
const NOW: i64 = 639_028_224_000_000_000;
const DAY: i64 = model::ticks::TICKS_PER_DAY;

fn authority() -> Authority {
    Authority::generate("tests", NOW).unwrap()
}

fn server(authority: &Authority) -> KeyPair {
    let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    authority.issue_server(&ServerRequest { hosts, key: KeyAlgorithm::Ecdsa }, NOW).unwrap()
}

fn client(authority: &Authority, name: &str) -> KeyPair {
    let request =
        ClientRequest { name: name.to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
    authority.issue_client(&request, NOW).unwrap()
}
