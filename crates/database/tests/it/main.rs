//! The catalog and the registry over a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod catalog;
mod registry;
mod resources;

use model::DatabaseName;

/// A record as a client would send it.
fn record(name: &str) -> database::NewRecord {
    database::NewRecord {
        name: DatabaseName::new(name).unwrap(),
        disabled: false,
        body: format!("{{\"DatabaseName\":\"{name}\"}}").into_bytes(),
        request_id: None,
    }
}
