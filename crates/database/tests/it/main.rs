//! The catalog and the registry over a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod catalog;
mod record_changes;
mod registry;
mod resources;
mod retention;
mod standing;
mod time_series_policies;

use std::sync::Arc;

use database::IndexingOptions;
use indexing::{AutoIndexLimits, IndexingPool};
use model::DatabaseName;
use platform::Platform;

/// One thread that indexes.
fn indexing_on(platform: &Platform) -> IndexingOptions {
    IndexingOptions {
        pool: IndexingPool::new(Arc::clone(&platform.clock), 1),
        auto_limits: AutoIndexLimits::default(),
        is_disabled: false,
        on_event: Arc::new(|_, _| ()),
    }
}

/// A record as a client would send it.
fn record(name: &str) -> database::NewRecord {
    database::NewRecord {
        name: DatabaseName::new(name).unwrap(),
        disabled: false,
        body: format!("{{\"DatabaseName\":\"{name}\"}}").into_bytes(),
        request_id: None,
        takes_over_files: false,
        changes_client: false,
    }
}
